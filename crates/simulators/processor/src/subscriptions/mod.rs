//! Subscriptions: several items that are paid together, period after period.

mod change;
mod cycle;
mod prorate;
mod start;

use serde_json::{Value, json};
use simulator_kit::calendar;

pub(super) use change::{PARAMS as UPDATE_PARAMS, SubscriptionChange, end_with_period, update};
pub(super) use cycle::{attempt_again, pass_time};
pub(super) use prorate::lines as proration_lines;
pub(super) use start::{
    PARAMS as CREATE_PARAMS, SubscriptionStart, create, proration_discounts, start,
};

use super::fields::{at, flag, list as items, set, text, whole};
use super::invoices;
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::routes::ApiCall;
use super::{events, lists};

/// The parameters of canceling.
pub(super) const CANCEL_PARAMS: &[&str] =
    &["invoice_now", "prorate", "cancellation_details.comment", "cancellation_details.feedback"];

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("subscription", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let (customer, price) = (params.text("customer"), params.text("price"));
    let words = [
        "active",
        "all",
        "canceled",
        "ended",
        "incomplete",
        "incomplete_expired",
        "past_due",
        "paused",
        "trialing",
        "unpaid",
    ];
    let status = params.one_of("status", &words)?;
    lists::page(call, "subscription", "/v1/subscriptions", |subscription| {
        let is = text(subscription, "status");
        let fits = match status {
            // By default, ended subscriptions are not listed.
            None => is != "canceled" && is != "incomplete_expired",
            Some("all") => true,
            Some("ended") => is == "canceled" || is == "incomplete_expired",
            Some(wanted) => is == wanted,
        };
        fits && customer.is_none_or(|customer| text(subscription, "customer") == customer)
            && price.is_none_or(|price| {
                items(subscription, "items.data").iter().any(|item| text(item, "price.id") == price)
            })
    })
}

pub(super) fn cancel(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let found = call.store.find("subscription", &id, "id")?.clone();
    if is_over(&found) {
        return Err(ApiError::no_such("subscription", &id, "id"));
    }
    let (prorates, at_once) = (
        call.params.flag("prorate")?.unwrap_or(false),
        call.params.flag("invoice_now")?.unwrap_or(false),
    );
    if prorates {
        let none = SubscriptionChange {
            items: Vec::new(),
            proration: "create_prorations",
            date: call.store.now,
            restarts: false,
        };
        let lines = prorate::lines(call.store, &found, &none);
        invoices::add_pending(call.store, text(&found, "customer"), &id, lines);
    }
    if at_once {
        cycle::settle(call.store, &id, "manual");
    }
    end(call.store, &id);
    cycle::stop_tries(call.store, &id);
    call.store.find("subscription", &id, "id").cloned()
}

/// Ends a subscription immediately.
pub(super) fn end(store: &mut ObjectStore, id: &str) {
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
pub(super) fn is_over(subscription: &Value) -> bool {
    matches!(text(subscription, "status"), "canceled" | "incomplete_expired")
}

/// The ids of a customer's subscriptions that have not ended.
pub(super) fn live_of(store: &ObjectStore, customer: &str) -> Vec<String> {
    let all =
        store.all("subscription").filter(|it| text(it, "customer") == customer && !is_over(it));
    all.map(|subscription| text(subscription, "id").to_owned()).collect()
}

/// An invoice of a subscription is paid: a subscription that was waiting for it continues.
pub(super) fn invoice_paid(store: &mut ObjectStore, invoice: &str) {
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
pub(super) fn invoice_voided(store: &mut ObjectStore, invoice: &str) {
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

/// The current paid period, the same for all items.
pub(super) fn period(subscription: &Value) -> (i64, i64) {
    let first = items(subscription, "items.data").first();
    first.map_or((0, 0), |item| {
        (whole(item, "current_period_start"), whole(item, "current_period_end"))
    })
}

/// The period after the current one.
pub(super) fn next_period(subscription: &Value) -> (i64, i64) {
    let (_, start) = period(subscription);
    let anchor = whole(subscription, "billing_cycle_anchor");
    let (interval, count) = interval(items(subscription, "items.data"));
    // Counted from the anchor, so that a short month does not move the day permanently.
    let end = (1..=1200)
        .map(|times| calendar::after(anchor, &interval, times * count))
        .find(|end| *end > start);
    (start, end.unwrap_or(start))
}

/// The billing interval of items.
fn interval(items: &[Value]) -> (String, i64) {
    let first = items.first();
    let interval = first.map_or("month", |item| text(item, "price.recurring.interval"));
    (
        interval.to_owned(),
        first.map_or(1, |item| whole(item, "price.recurring.interval_count")).max(1),
    )
}

/// Sets the period of all items.
fn set_period(subscription: &mut Value, (start, end): (i64, i64)) {
    let mut all = items(subscription, "items.data").to_vec();
    for item in &mut all {
        set(item, "current_period_start", start);
        set(item, "current_period_end", end);
    }
    set(subscription, "items.data", Value::Array(all));
}

/// An item of a subscription.
fn item(store: &mut ObjectStore, subscription: &str, price: &Value, quantity: i64) -> Value {
    let plan = json!({
        "id": at(price, "id"), "object": "plan", "active": at(price, "active"), "amount": at(price, "unit_amount"),
        "currency": at(price, "currency"), "interval": at(price, "recurring.interval"),
        "interval_count": at(price, "recurring.interval_count"), "product": at(price, "product"),
    });
    json!({
        "id": store.new_id("si"), "object": "subscription_item", "billing_thresholds": null, "created": store.now,
        "current_period_end": 0, "current_period_start": 0, "discounts": [], "metadata": {}, "plan": plan,
        "price": price, "quantity": quantity, "subscription": subscription, "tax_rates": [],
    })
}

fn items_object(id: &str, all: &[Value]) -> Value {
    let url = format!("/v1/subscription_items?subscription={id}");
    json!({"object": "list", "data": all, "has_more": false, "total_count": all.len(), "url": url})
}

pub(super) fn list_items(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.params.required("subscription")?;
    let found = call.store.find("subscription", id, "subscription")?.clone();
    let all: Vec<&Value> = items(&found, "items.data").iter().collect();
    lists::of(call, &all, "/v1/subscription_items")
}

pub(super) fn retrieve_item(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let all =
        call.store.all("subscription").flat_map(|subscription| items(subscription, "items.data"));
    let found = all.into_iter().find(|item| text(item, "id") == id);
    found.cloned().ok_or_else(|| ApiError::no_such("subscription_item", &id, "id"))
}
