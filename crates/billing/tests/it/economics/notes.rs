//! Credit notes at the processor, as an operator issues and voids them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::world::World;

impl World {
    /// Issues the credit note of an event.
    pub(super) async fn note(&mut self, event: &Value) -> String {
        let form = self.note_form(event).await;
        let reply = self.try_at_processor("POST", "credit_notes", &form).await;
        if reply.status != 200 {
            return "422 more_than_paid".to_owned();
        }
        let (note, name) = (reply.json(), event["ref"].as_str().unwrap());
        if event["refund"].as_i64().unwrap_or_default() > 0 {
            let made = note["refunds"].as_array().unwrap().last().unwrap();
            self.refunded(name, made["refund"].as_str().unwrap());
        }
        self.notes.insert(name.to_owned(), note["id"].as_str().unwrap().to_owned());
        "200".to_owned()
    }

    /// Voids a credit note, which the processor allows for open invoices only.
    pub(super) async fn void_note(&self, name: &str) -> String {
        let path = format!("credit_notes/{}/void", self.notes[name]);
        let reply = self.try_at_processor("POST", &path, "").await;
        if reply.status == 200 { "200".to_owned() } else { "422 not_open".to_owned() }
    }

    async fn note_form(&mut self, event: &Value) -> String {
        let number = |field: &str| event[field].as_i64().unwrap_or_default();
        let invoice = self.noted_invoice(event["id"].as_str().unwrap()).await;
        let mut form = format!("invoice={}", invoice["id"].as_str().unwrap());
        let mut lines = Vec::new();
        for named in event["lines"].as_array().unwrap() {
            lines.push((self.line_of(&invoice, named).await, named[4].as_i64().unwrap()));
        }
        if lines.is_empty() && number("tax") > 0 {
            // Tax alone: a line of which nothing else is credited.
            lines.push((invoice["lines"]["data"][0]["id"].clone(), 0));
        }
        let has_tax = invoice["total_taxes"] != json!([]);
        for (place, (line, cents)) in lines.iter().enumerate() {
            let tax = if place == 0 { number("tax") } else { 0 };
            form.push_str(&written(place, line.as_str().unwrap(), *cents));
            form.push_str(&written_tax(place, tax, has_tax));
        }
        if number("other") > 0 {
            let below = format!("lines[{}]", lines.len());
            write!(form, "&{below}[type]=custom_line_item&{below}[quantity]=1").unwrap();
            write!(form, "&{below}[unit_amount]={}", number("other")).unwrap();
        }
        for (place, link) in event["links"].as_array().into_iter().flatten().enumerate() {
            let refund = &self.refunds[link[0].as_str().unwrap()];
            write!(form, "&refunds[{place}][refund]={refund}").unwrap();
            write!(form, "&refunds[{place}][amount_refunded]={}", link[1]).unwrap();
        }
        let ways = [
            ("refund", "refund_amount"),
            ("credit", "credit_amount"),
            ("outside", "out_of_band_amount"),
        ];
        for (field, name) in ways {
            if number(field) > 0 {
                write!(form, "&{name}={}", number(field)).unwrap();
            }
        }
        form
    }

    /// The invoice of a sale, also that of a pack.
    async fn noted_invoice(&mut self, sale: &str) -> Value {
        let mut id = self.invoice_of(sale);
        if id.is_empty() {
            let intent = self.intent_of(sale).await;
            let query = format!("&payment%5Bpayment_intent%5D={intent}");
            let payments = self.all_at_processor("invoice_payments", &query).await;
            payments[0]["invoice"].as_str().unwrap().clone_into(&mut id);
        }
        let mut invoice = self.app.at_processor("GET", &format!("invoices/{id}"), "").await;
        // The invoice carries its first lines only.
        let lines = self.all_at_processor(&format!("invoices/{id}/lines"), "").await;
        invoice["lines"]["data"] = Value::Array(lines);
        invoice
    }

    /// The id of the line that the model describes by kind, what, quantity and cents.
    async fn line_of(&mut self, invoice: &Value, named: &Value) -> Value {
        for line in invoice["lines"]["data"].as_array().unwrap().clone() {
            if line["quantity"] != named[2] || line["amount"] != named[3] {
                continue;
            }
            if named[0] == "pack" {
                return line["id"].clone();
            }
            let price = line["pricing"]["price_details"]["price"].as_str().unwrap_or_default();
            let (kind, what) = self.sold_at(price).await;
            if named[0] == kind && named[1] == what.as_str() {
                return line["id"].clone();
            }
        }
        panic!("the invoice has no line {named}: {invoice}");
    }
}

fn written(place: usize, line: &str, cents: i64) -> String {
    let below = format!("lines[{place}]");
    format!(
        "&{below}[type]=invoice_line_item&{below}[invoice_line_item]={line}&{below}[amount]={cents}"
    )
}

/// The tax of a line; an empty text says that there is none.
fn written_tax(place: usize, tax: i64, has_tax: bool) -> String {
    let below = format!("lines[{place}][tax_amounts]");
    match (has_tax, tax) {
        (false, _) => String::new(),
        (true, 0) => format!("&{below}="),
        (true, tax) => format!(
            "&{below}[0][amount]={tax}&{below}[0][tax_rate]=txr_sandbox&{below}[0][taxable_amount]={tax}"
        ),
    }
}
