//! The pages of billing, below `/console/billing`: credits, cards, plans and slots, with what was
//! bought and spent; and `/console/pay`, to which an email about a payment leads.

mod buy;
mod card;
mod invoices;
mod ledger;
mod model;
mod orders;
mod overview;
mod part;
mod pay;
mod pay_link;
mod plan_change;
mod plans;
mod portal;
mod processor;
mod returned;
mod slot_change;
mod topup;
mod usage;
mod words;

use axum::Router;
use console_kit::ConsoleState;

/// Every page of billing.
pub fn router() -> Router<ConsoleState> {
    Router::new()
        .merge(buy::router())
        .merge(card::router())
        .merge(invoices::router())
        .merge(ledger::router())
        .merge(orders::router())
        .merge(overview::router())
        .merge(pay::router())
        .merge(pay_link::router())
        .merge(plan_change::router())
        .merge(plans::router())
        .merge(portal::router())
        .merge(returned::router())
        .merge(slot_change::router())
        .merge(topup::router())
        .merge(usage::router())
}
