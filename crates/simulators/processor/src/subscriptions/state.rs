//! How subscriptions end, and how their invoices change their state.

use serde_json::{Value, json};

use super::items::period;
use crate::events;
use crate::fields::{at, flag, set, text};
use crate::object_store::ObjectStore;

/// Ends a subscription immediately.
pub(crate) fn end(store: &mut ObjectStore, id: &str) {
    let now = store.now;
    store.change(id, |subscription| {
        let asked = at(subscription, "canceled_at").clone();
        set(subscription, "status", "canceled");
        set(subscription, "ended_at", now);
        set(subscription, "canceled_at", if asked.is_null() { json!(now) } else { asked });
        set(subscription, "_.due", Value::Null);
    });
    events::emit(store, "customer.subscription.deleted", id);
}

/// Whether a subscription has ended permanently.
pub(crate) fn is_over(subscription: &Value) -> bool {
    matches!(text(subscription, "status"), "canceled" | "incomplete_expired")
}

/// The ids of a customer's subscriptions that have not ended.
pub(crate) fn live_of(store: &ObjectStore, customer: &str) -> Vec<String> {
    let all =
        store.all("subscription").filter(|it| text(it, "customer") == customer && !is_over(it));
    all.map(|subscription| text(subscription, "id").to_owned()).collect()
}

/// An invoice of a subscription is paid: a subscription that was waiting for it continues.
pub(crate) fn invoice_paid(store: &mut ObjectStore, invoice: &str) {
    let path = "parent.subscription_details.subscription";
    let id = store.get(invoice).map(|invoice| text(invoice, path).to_owned()).unwrap_or_default();
    let Some(before) = store.get(&id).cloned() else { return };
    let method = store.all("invoice_payment").find(|payment| text(payment, "invoice") == invoice);
    let method = method.and_then(|payment| store.get(text(payment, "payment.payment_intent")));
    let method = method.map(|intent| text(intent, "payment_method").to_owned()).unwrap_or_default();
    // Older invoices may still be open: the status of a subscription depends on its latest one.
    let is_latest = text(&before, "latest_invoice") == invoice;
    if is_latest && waits(&before) {
        store.change(&id, |subscription| {
            set(subscription, "status", "active");
            if text(subscription, "default_payment_method").is_empty()
                && flag(subscription, "_.saves_method")
            {
                set(subscription, "default_payment_method", method);
            }
            let end = period(subscription).1;
            set(subscription, "_.due", end);
        });
        events::emit_changed(store, "customer.subscription.updated", &before);
    }
}

/// Whether a subscription is waiting for a payment.
fn waits(subscription: &Value) -> bool {
    matches!(text(subscription, "status"), "incomplete" | "past_due" | "unpaid")
}

/// An invoice of a subscription was voided: a subscription that was waiting for its first payment
/// ends.
pub(crate) fn invoice_voided(store: &mut ObjectStore, invoice: &str) {
    let path = "parent.subscription_details.subscription";
    let id = store.get(invoice).map(|invoice| text(invoice, path).to_owned()).unwrap_or_default();
    let Some(before) = store.get(&id).cloned() else { return };
    match text(&before, "status") {
        "incomplete" => store.change(&id, |subscription| {
            set(subscription, "status", "incomplete_expired");
            set(subscription, "_.due", Value::Null);
        }),
        "past_due" | "unpaid" if text(&before, "latest_invoice") == invoice => {
            store.change(&id, |subscription| set(subscription, "status", "active"));
        }
        _ => return,
    }
    events::emit_changed(store, "customer.subscription.updated", &before);
}
