//! The first page: recent payments, the clock, and the test cards.

use http::StatusCode;
use serde_json::Value;
use simulator_kit::calendar;
use simulator_kit::script::WireReply;

use super::layout::{escaped, money, page, whole as whole_page};
use crate::ProcessorSimulator;
use crate::cards::CARDS;
use crate::fields::{text, whole};

/// The number of payments shown.
const PAYMENTS_MAX: usize = 50;

/// Renders the page.
pub(super) fn show(processor: &ProcessorSimulator) -> WireReply {
    let (now, rows) = processor.with_store(|store| {
        let latest = store.all("payment_intent").rev().take(PAYMENTS_MAX);
        (store.now, latest.map(row).collect::<Vec<_>>().concat())
    });
    let rows = if rows.is_empty() {
        "<tr><td colspan=\"4\">No payments yet.</td></tr>".to_owned()
    } else {
        rows
    };
    let cards: Vec<String> = CARDS
        .iter()
        .map(|card| {
            format!("<tr><td><code>{}</code></td><td>{}</td></tr>", card.number, escaped(card.says))
        })
        .collect();
    let content = format!(
        "<section class=\"card\"><h1>Simulated payment processor</h1><p>Its clock stands at {}.</p>\
         <p class=\"soft\">Below <code>/v1/</code> is its API; <code>/control</code> lists what can be done to it.</p></section>\
         <section class=\"card\"><h2>Payments</h2><table><thead><tr><th>Day</th><th>What</th><th>State</th><th>Amount</th></tr></thead>\
         <tbody>{rows}</tbody></table></section><section class=\"card\"><h2>Test cards</h2><p class=\"soft\">Any date to come, any code.</p>\
         <table><tbody>{}</tbody></table></section>",
        calendar::shown(now),
        cards.concat(),
    );
    page(StatusCode::OK, whole_page("Simulated payment processor", &content), false)
}

fn row(intent: &Value) -> String {
    let what = match text(intent, "description") {
        "" => text(intent, "id"),
        description => description,
    };
    format!(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        calendar::shown(whole(intent, "created")),
        escaped(what),
        escaped(text(intent, "status")),
        money(whole(intent, "amount"), text(intent, "currency")),
    )
}
