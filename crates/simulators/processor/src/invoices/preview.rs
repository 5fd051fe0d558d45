//! The price of a change to a subscription: the invoice is created, rendered, and undone.

use serde_json::{Value, json};

use super::{InvoiceDraft, lines_of, make, pending_of};
use crate::api_call::ApiCall;
use crate::fields::{at, list, set, text};
use crate::problem::ApiError;
use crate::subscriptions::{self, SubscriptionChange};

/// The parameters of a preview.
pub(crate) const PARAMS: &[&str] = &[
    "customer",
    "subscription",
    "preview_mode",
    "subscription_details.items.*.id",
    "subscription_details.items.*.price",
    "subscription_details.items.*.quantity",
    "subscription_details.items.*.deleted",
    "subscription_details.items.*.price_data.currency",
    "subscription_details.items.*.price_data.product",
    "subscription_details.items.*.price_data.unit_amount",
    "subscription_details.items.*.price_data.recurring.interval",
    "subscription_details.items.*.price_data.recurring.interval_count",
    "subscription_details.proration_behavior",
    "subscription_details.proration_date",
];

pub(crate) fn preview(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let Some(subscription) = params.text("subscription").map(str::to_owned) else {
        // Previews of new subscriptions are not simulated.
        return Err(ApiError::missing("subscription"));
    };
    let found = call.store.find("subscription", &subscription, "subscription")?.clone();
    if params.text("customer").is_some_and(|customer| customer != text(&found, "customer")) {
        let message = "The subscription does not belong to this customer.";
        return Err(ApiError::param("customer", message));
    }
    if text(&found, "status") == "canceled" {
        let message = "You cannot preview the upcoming invoice for a canceled subscription.";
        return Err(ApiError::param("subscription", message).code("invoice_upcoming_none"));
    }
    let mark = call.store.mark();
    let shown = imagined(call, &found);
    call.store.undo_to(mark);
    shown
}

fn imagined(call: &mut ApiCall<'_>, found: &Value) -> Result<Value, ApiError> {
    let params = call.params;
    let id = text(found, "id").to_owned();
    let change = SubscriptionChange::read(call.store, params, "subscription_details", found)?;
    let lines = subscriptions::proration_lines(call.store, found, &change);
    let at_once = change.proration == "always_invoice" || change.restarts;
    let customer = text(found, "customer").to_owned();
    let invoice = if at_once {
        make(
            call.store,
            InvoiceDraft {
                customer: &customer,
                subscription: &id,
                reason: "subscription_update",
                lines,
            },
        )
    } else {
        let mut lines = lines;
        let mut after = found.clone();
        set(&mut after, "items.data", json!(change.items));
        let next = subscriptions::next_period(found);
        if !at(found, "cancel_at_period_end").as_bool().unwrap_or(false) {
            lines.extend(lines_of(&after, next, call.store));
        }
        if lines.is_empty() && pending_of(call.store, &id).is_empty() {
            return Err(ApiError::invalid("No upcoming invoices for customer")
                .code("invoice_upcoming_none")
                .status(404));
        }
        make(
            call.store,
            InvoiceDraft { customer: &customer, subscription: &id, reason: "upcoming", lines },
        )
    };
    let mut shown = call.store.find("invoice", &invoice, "invoice")?.clone();
    set(&mut shown, "id", format!("upcoming_{invoice}"));
    set(&mut shown, "status", "draft");
    set(&mut shown, "number", Value::Null);
    set(&mut shown, "ending_balance", Value::Null);
    set(&mut shown, "status_transitions.finalized_at", Value::Null);
    set(&mut shown, "status_transitions.paid_at", Value::Null);
    set(&mut shown, "subscription_proration_date", change.date);
    debug_assert!(
        !list(&shown, "lines.data").is_empty() || at_once,
        "an upcoming invoice must have lines"
    );
    Ok(shown)
}
