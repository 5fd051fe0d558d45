//! The items of subscriptions, and the period that they share.

use serde_json::{Value, json};
use simulator_kit::calendar;

use crate::events;
use crate::fields::{at, list as items, set, text, whole};
use crate::object_store::ObjectStore;

/// Gives a subscription other items, from the next period on.
pub(crate) fn replace_items(store: &mut ObjectStore, id: &str, wanted: &[(Value, i64)]) {
    let Some(before) = store.get(id).cloned() else { return };
    let all: Vec<Value> =
        wanted.iter().map(|(price, quantity)| item(store, id, price, *quantity)).collect();
    let (start, end) = period(&before);
    store.change(id, |subscription| {
        set(subscription, "items", items_object(id, &all));
        set_period(subscription, start, end);
    });
    events::emit_changed(store, "customer.subscription.updated", &before);
}

/// The current paid period, the same for all items.
pub(crate) fn period(subscription: &Value) -> (i64, i64) {
    let first = items(subscription, "items.data").first();
    first.map_or((0, 0), |item| {
        (whole(item, "current_period_start"), whole(item, "current_period_end"))
    })
}

/// The period after the current one.
pub(crate) fn next_period(subscription: &Value) -> (i64, i64) {
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
pub(crate) fn interval(items: &[Value]) -> (String, i64) {
    let first = items.first();
    let interval = first.map_or("month", |item| text(item, "price.recurring.interval"));
    (
        interval.to_owned(),
        first.map_or(1, |item| whole(item, "price.recurring.interval_count")).max(1),
    )
}

/// Sets the period of all items.
pub(crate) fn set_period(subscription: &mut Value, start: i64, end: i64) {
    let mut all = items(subscription, "items.data").to_vec();
    for item in &mut all {
        set(item, "current_period_start", start);
        set(item, "current_period_end", end);
    }
    set(subscription, "items.data", Value::Array(all));
}

/// An item of a subscription.
pub(crate) fn item(
    store: &mut ObjectStore,
    subscription: &str,
    price: &Value,
    quantity: i64,
) -> Value {
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

pub(crate) fn items_object(id: &str, all: &[Value]) -> Value {
    let url = format!("/v1/subscription_items?subscription={id}");
    json!({"object": "list", "data": all, "has_more": false, "total_count": all.len(), "url": url})
}
