//! Passing time: everything due happens in order, each at its own time.

use serde_json::Value;

use super::fields::{set, text, whole};
use super::object_store::ObjectStore;
use super::{checkout, intents, refunds, schedules, subscriptions};

/// Processes everything that is due until this second.
pub(super) fn pass(store: &mut ObjectStore, until: i64) {
    while let Some((due, id)) = store.first_due(until) {
        store.now = store.now.max(due);
        fall_due(store, &id);
        // An object that was due and has not set another time is due only once.
        if store.get(&id).is_some_and(|object| whole(object, "_.due") == due) {
            store.change(&id, |object| set(object, "_.due", Value::Null));
        }
    }
    store.now = store.now.max(until);
}

fn fall_due(store: &mut ObjectStore, id: &str) {
    let Some(object) = store.get(id).cloned() else { return };
    match text(&object, "object") {
        "checkout.session" if text(&object, "status") == "open" => checkout::close(store, id),
        "subscription" => subscriptions::pass_time(store, id),
        "invoice" => subscriptions::attempt_again(store, id),
        "payment_intent" => {
            let pays = intents::will_pay(store, &object);
            drop(intents::settle(store, id, pays));
        }
        "refund" => refunds::fall_due(store, id),
        "subscription_schedule" => schedules::fall_due(store, id),
        "billing_portal.session" => store.change(id, |session| set(session, "_.over", true)),
        _ => {}
    }
}
