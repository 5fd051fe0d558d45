//! The page of a checkout session.

use http::StatusCode;
use serde_json::Value;
use simulator_kit::script::WireReply;

use super::layout::{
    alert, card_fields, escaped, expiry, go_to, message, money, page, whole as whole_page,
};
use crate::ProcessorSimulator;
use crate::cards::CARDS;
use crate::checkout::{self, CheckoutOutcome, EnteredDetails};
use crate::fields::{flag, list, text, whole};
use crate::form::FormParams;
use crate::payment_methods;

/// Renders the page, with an error if there is one.
pub(super) fn show(processor: &ProcessorSimulator, id: &str, refusal: Option<&str>) -> WireReply {
    let Some(session) = processor.with_store(|store| checkout::shown(store, id)) else {
        return message(
            StatusCode::NOT_FOUND,
            "There is no such payment",
            "The link may be incomplete.",
        );
    };
    match text(&session, "status") {
        "complete" => return go_to(&checkout::success_url(&session)),
        "expired" => {
            return message(
                StatusCode::GONE,
                "This payment has expired",
                "Go back and start it again.",
            );
        }
        _ => {}
    }
    let status = if refusal.is_some() { StatusCode::PAYMENT_REQUIRED } else { StatusCode::OK };
    page(status, whole_page("Checkout", &content(&session, refusal)), false)
}

fn content(session: &Value, refusal: Option<&str>) -> String {
    let (mode, currency) = (text(session, "mode"), text(session, "currency"));
    let total = money(whole(session, "amount_total"), currency);
    let (title, button) = match mode {
        "subscription" => ("Subscribe".to_owned(), format!("Subscribe for {total}")),
        "setup" => ("Save a card".to_owned(), "Save card".to_owned()),
        _ => ("Pay".to_owned(), format!("Pay {total}")),
    };
    let cards: Vec<(&str, &str)> = CARDS
        .iter()
        .filter(|card| card.brand != "bank" || list(session, "payment_method_types").len() > 1)
        .map(|card| (card.number, card.says))
        .collect();
    let cancel = text(session, "cancel_url");
    let back = if cancel.is_empty() {
        String::new()
    } else {
        format!("<p><a id=\"cancel\" href=\"{}\">Go back without paying</a></p>", escaped(cancel))
    };
    format!(
        "<div class=\"two\"><section class=\"card\"><h1>{title}</h1>{summary}{back}</section>\
         <section class=\"card\"><h2>Card</h2>{alert}<form method=\"post\" class=\"once\">\
         <p class=\"soft\">{email}</p>{more}{fields}<button class=\"main\" id=\"pay\">{button}</button></form></section></div>",
        summary = summary(session, &total),
        alert = alert(refusal),
        email = escaped(text(session, "email")),
        more = details(session),
        fields = card_fields(&cards),
    )
}

/// The fields besides the card: the country, a company's name and tax id, and a promotion code.
fn details(session: &Value) -> String {
    let field = |name: &str, label: &str, hint: &str| {
        format!(
            "<label>{label}<input name=\"{name}\" autocomplete=\"off\" placeholder=\"{hint}\"></label>"
        )
    };
    let mut fields = Vec::new();
    if checkout::wants_country(session) {
        fields.push(field("country", "Country", "DE"));
    }
    if flag(session, "tax_id_collection.enabled") {
        fields.push(field("name", "Company (optional)", ""));
        fields.push(field("tax_id", "VAT number (optional)", "DE123456789"));
    }
    if flag(session, "allow_promotion_codes") {
        fields.push(field("promotion_code", "Promotion code (optional)", ""));
    }
    let fields = fields.concat();
    if fields.is_empty() { fields } else { format!("<div class=\"fields\">{fields}</div>") }
}

fn summary(session: &Value, total: &str) -> String {
    let currency = text(session, "currency");
    if text(session, "mode") == "setup" {
        return "<p>The card is saved for later payments. Nothing is charged now.</p>".to_owned();
    }
    let rows: Vec<String> = list(session, "lines")
        .iter()
        .map(|line| {
            let every = text(line, "price.recurring.interval");
            let every = if every.is_empty() { String::new() } else { format!(" / {every}") };
            format!(
                "<tr><td>{} × {}</td><td>{}{every}</td></tr>",
                whole(line, "quantity"),
                escaped(text(line, "description")),
                money(whole(line, "amount_subtotal"), currency),
            )
        })
        .collect();
    let rows = rows.concat() + &difference(session, currency);
    let trial = whole(session, "trial_days");
    let trial = if trial > 0 {
        format!("<p class=\"soft\">Free for {trial} days.</p>")
    } else {
        String::new()
    };
    format!(
        "<p class=\"sum\">{total}</p>{trial}<table><tbody>{rows}</tbody><tfoot><tr><th>Due today</th><th>{total}</th></tr></tfoot></table>"
    )
}

/// The difference between the lines and the total.
fn difference(session: &Value, currency: &str) -> String {
    let off = whole(session, "total_details.amount_discount");
    let all = [("Discount", -off), ("Tax", whole(session, "total_details.amount_tax"))];
    let rows = all.into_iter().filter(|(_, cents)| *cents != 0);
    let shown = rows.map(|(name, cents)| {
        format!("<tr><td>{name}</td><td>{}</td></tr>", money(cents, currency))
    });
    shown.collect()
}

/// Handles the form.
pub(super) fn pay(processor: &ProcessorSimulator, id: &str, form: &FormParams) -> WireReply {
    let given = |name: &str| form.text(name).unwrap_or_default();
    let entered = EnteredDetails {
        country: given("country"),
        name: given("name"),
        tax_id: given("tax_id"),
        code: given("promotion_code"),
    };
    let paid = processor.with_store(|store| {
        checkout::enter(store, id, &entered)?;
        let (month, year) = expiry(given("expires"));
        let method = payment_methods::from_number(store, given("number"), month, year)?;
        checkout::pay(store, id, &method, false)
    });
    match paid {
        Ok(CheckoutOutcome::Complete) => show(processor, id, None),
        Ok(CheckoutOutcome::Authenticate(of)) => go_to(&format!("/processor/authenticate/{of}")),
        Err(problem) => show(processor, id, Some(&problem.message)),
    }
}
