//! Money that is held on a card first and taken later.

use serde_json::Value;

use super::unexpected;
use crate::api_call::ApiCall;
use crate::events;
use crate::fields::{set, text, whole};
use crate::object_store::ObjectStore;
use crate::problem::ApiError;

/// The charge of an intent with manual capture holds the money.
pub(super) fn hold(store: &mut ObjectStore, id: &str, charge: &str) {
    store.change(charge, |charge| {
        set(charge, "captured", false);
        set(charge, "amount_captured", 0);
    });
    store.change(id, |intent| {
        let amount = whole(intent, "amount");
        set(intent, "status", "requires_capture");
        set(intent, "amount_capturable", amount);
        set(intent, "latest_charge", charge);
        set(intent, "next_action", Value::Null);
        set(intent, "last_payment_error", Value::Null);
    });
    events::emit(store, "charge.succeeded", charge);
    events::emit(store, "payment_intent.amount_capturable_updated", id);
}

/// Takes all or a part of the money that is held.
pub(crate) fn capture(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let intent = call.store.find("payment_intent", &id, "intent")?.clone();
    let status = text(&intent, "status");
    if status != "requires_capture" {
        let message = format!(
            "This PaymentIntent could not be captured because it has a status of {status}. Only a PaymentIntent with one of the following statuses may be captured: requires_capture."
        );
        return Err(unexpected(&id, &message));
    }
    let held = whole(&intent, "amount_capturable");
    let amount = call.params.integer("amount_to_capture")?.unwrap_or(held);
    if !(1..=held).contains(&amount) {
        let message = format!("The amount to capture must be between 1 and {held}.");
        return Err(ApiError::param("amount_to_capture", message).code("amount_too_large"));
    }
    let charge = text(&intent, "latest_charge").to_owned();
    call.store.change(&charge, |charge| {
        set(charge, "captured", true);
        set(charge, "amount_captured", amount);
        // What is not taken is given back to the card.
        set(charge, "amount", amount);
    });
    call.store.change(&id, |intent| {
        set(intent, "status", "succeeded");
        set(intent, "amount_capturable", 0);
        set(intent, "amount_received", amount);
    });
    events::emit(call.store, "charge.captured", &charge);
    events::emit(call.store, "payment_intent.succeeded", &id);
    call.store.find("payment_intent", &id, "intent").cloned()
}
