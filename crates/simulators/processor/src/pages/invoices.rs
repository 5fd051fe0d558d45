//! The page of an invoice, its PDF, and the receipt of a payment.

use http::StatusCode;
use http::header::CONTENT_DISPOSITION;
use serde_json::Value;
use simulator_kit::calendar;
use simulator_kit::script::WireReply;

use super::layout::{escaped, message, money, page, whole as whole_page};
use crate::ProcessorSimulator;
use crate::fields::{list, text, whole};

fn find(processor: &ProcessorSimulator, id: &str, kind: &str) -> Option<Value> {
    let found = processor.with_store(|store| store.get(id).cloned());
    found.filter(|object| text(object, "object") == kind)
}

fn missing() -> WireReply {
    message(StatusCode::NOT_FOUND, "There is no such document", "The link may be incomplete.")
}

/// The sums below the lines: their names and cents.
fn sums(invoice: &Value) -> Vec<(&'static str, i64)> {
    let cents = |path: &str| whole(invoice, path);
    let tax = cents("total") - cents("total_excluding_tax");
    let all = [
        ("Subtotal", cents("subtotal")),
        ("Discount", cents("total_excluding_tax") - cents("subtotal")),
        ("Tax", tax),
        ("Total", cents("total")),
        ("Paid", cents("amount_paid")),
        ("Due", cents("amount_remaining")),
    ];
    all.into_iter().filter(|(name, cents)| *cents != 0 || *name == "Total").collect()
}

/// Renders the page of an invoice.
pub(super) fn show(processor: &ProcessorSimulator, id: &str) -> WireReply {
    let Some(invoice) = find(processor, id, "invoice") else { return missing() };
    let currency = text(&invoice, "currency");
    let row = |name: &str, cents: i64| {
        format!("<tr><td>{}</td><td>{}</td></tr>", escaped(name), money(cents, currency))
    };
    let lines: String = list(&invoice, "lines.data")
        .iter()
        .map(|line| row(text(line, "description"), whole(line, "amount")))
        .collect();
    let sums: String = sums(&invoice).into_iter().map(|(name, cents)| row(name, cents)).collect();
    let content = format!(
        "<section class=\"card narrow\"><h1>Invoice {number}</h1><p data-status=\"{status}\">{status}, {day}</p>\
         <table><tbody>{lines}</tbody><tfoot>{sums}</tfoot></table>\
         <p><a id=\"pdf\" href=\"/processor/invoices/{id}/pdf\">Download as PDF</a></p></section>",
        number = escaped(text(&invoice, "number")),
        status = escaped(text(&invoice, "status")),
        day = calendar::shown(whole(&invoice, "created")),
        id = escaped(id),
    );
    page(StatusCode::OK, whole_page("Invoice", &content), false)
}

/// The PDF of an invoice.
pub(super) fn pdf(processor: &ProcessorSimulator, id: &str) -> WireReply {
    let Some(invoice) = find(processor, id, "invoice") else { return missing() };
    let currency = text(&invoice, "currency");
    let number = text(&invoice, "number");
    let mut lines = vec![
        format!("Invoice {number}"),
        format!("{}, {}", text(&invoice, "status"), calendar::shown(whole(&invoice, "created"))),
        text(&invoice, "customer_email").to_owned(),
        String::new(),
    ];
    let each = list(&invoice, "lines.data").iter();
    lines.extend(each.map(|line| {
        format!("{}    {}", text(line, "description"), money(whole(line, "amount"), currency))
    }));
    lines.push(String::new());
    let sums = sums(&invoice).into_iter();
    lines.extend(sums.map(|(name, cents)| format!("{name}    {}", money(cents, currency))));
    let name = format!("attachment; filename=\"Invoice-{number}.pdf\"");
    WireReply::new(StatusCode::OK)
        .header(CONTENT_DISPOSITION, &name)
        .content("application/pdf", document(&lines))
}

/// Renders the receipt of a charge.
pub(super) fn receipt(processor: &ProcessorSimulator, id: &str) -> WireReply {
    let Some(charge) = find(processor, id, "charge").filter(|it| whole(it, "amount_captured") > 0)
    else {
        return missing();
    };
    let currency = text(&charge, "currency");
    let refunded = whole(&charge, "amount_refunded");
    let back = if refunded > 0 {
        format!("<p>Refunded: {}</p>", money(refunded, currency))
    } else {
        String::new()
    };
    let content = format!(
        "<section class=\"card narrow\"><h1>Receipt</h1><p class=\"sum\">{}</p><p>Paid on {} with a card ending in {}.</p>\
         {back}</section>",
        money(whole(&charge, "amount_captured"), currency),
        calendar::shown(whole(&charge, "created")),
        escaped(text(&charge, "payment_method_details.card.last4")),
    );
    page(StatusCode::OK, whole_page("Receipt", &content), false)
}

/// A document of one page with these lines.
fn document(lines: &[String]) -> Vec<u8> {
    let plain = |line: &String| -> String {
        let letter = |letter: char| match letter {
            '×' => "x".to_owned(),
            '€' => "EUR ".to_owned(),
            '£' => "GBP ".to_owned(),
            '−' => "-".to_owned(),
            '(' | ')' | '\\' => format!("\\{letter}"),
            other if other.is_ascii() => other.to_string(),
            _ => "?".to_owned(),
        };
        line.chars().map(letter).collect()
    };
    let shown: Vec<String> =
        lines.iter().map(|line| format!("({}) Tj T*\n", plain(line))).collect();
    let shown = shown.concat();
    let text = format!("BT /F1 11 Tf 15 TL 50 790 Td\n{shown}ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{text}\nendstream", text.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let (mut written, mut table) = ("%PDF-1.4\n".to_owned(), String::new());
    for (place, object) in (1..).zip(&objects) {
        table += &[&format!("{:010}", written.len()), " 00000 n \n"].concat();
        written += &[&place.to_string(), " 0 obj\n", object, "\nendobj\n"].concat();
    }
    let (start, count) = (written.len(), objects.len() + 1);
    let trailer = format!(
        "xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    );
    [written, trailer].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn the_table_of_a_document_points_at_its_objects() {
        let written = document(&["2 × Slots (b)".to_owned()]);
        let text = String::from_utf8(written.clone()).unwrap();
        assert!(text.contains("(2 x Slots \\(b\\)) Tj"), "{text}");
        let (_, table) = text.split_once("65535 f \n").unwrap();
        for (place, line) in (1..).zip(table.lines().take(5)) {
            let at: usize = line[..10].parse().unwrap();
            assert!(written[at..].starts_with(format!("{place} 0 obj").as_bytes()), "{line}");
        }
    }
}
