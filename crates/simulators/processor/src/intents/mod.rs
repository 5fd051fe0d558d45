//! Payment intents: a payment from its first attempt until it succeeds or is cancelled.

mod capture;
mod charge;
mod confirm;
mod create;

use serde_json::{Value, json};

pub(super) use capture::capture;
pub(super) use charge::{ChargeOutcome, authenticated, charge, funded, settle, will_pay};
pub(super) use confirm::{PARAMS as CONFIRM_PARAMS, confirm};
pub(super) use create::{IntentDraft, PARAMS, UPDATE_PARAMS, create, make, update};

use super::api_call::{ApiCall, ApiCaller};
use super::fields::{set, text};
use super::problem::ApiError;
use super::{events, lists};

pub(super) fn cancel(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let intent = call.store.find("payment_intent", &id, "intent")?;
    refuse_sessions(intent)?;
    let words = ["duplicate", "fraudulent", "requested_by_customer", "abandoned"];
    let reason = call.params.one_of("cancellation_reason", &words)?;
    let status = text(intent, "status").to_owned();
    if matches!(status.as_str(), "succeeded" | "canceled" | "processing") {
        return Err(unexpected(
            &id,
            &format!(
                "You cannot cancel this PaymentIntent because it has a status of {status}. Only a PaymentIntent with one of the following statuses may be canceled: requires_payment_method, requires_capture, requires_confirmation, requires_action."
            ),
        ));
    }
    let now = call.store.now;
    call.store.change(&id, |intent| {
        set(intent, "status", "canceled");
        set(intent, "canceled_at", now);
        set(intent, "cancellation_reason", json!(reason));
        set(intent, "next_action", Value::Null);
    });
    events::emit(call.store, "payment_intent.canceled", &id);
    call.store.find("payment_intent", &id, "intent").cloned()
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    readable(call, &id)?;
    call.store.find("payment_intent", &id, "intent").cloned()
}

/// A browser can read only an intent whose client secret it has.
fn readable(call: &ApiCall<'_>, id: &str) -> Result<(), ApiError> {
    let intent = call.store.find("payment_intent", id, "intent")?;
    let known = call.params.text("client_secret") == Some(text(intent, "client_secret"));
    if call.params.has("client_secret") && !known {
        let message = "The client_secret provided does not match the client_secret associated with the PaymentIntent.";
        return Err(
            ApiError::param("client_secret", message).code("payment_intent_invalid_parameter")
        );
    }
    if call.caller == ApiCaller::Browser && !known {
        return Err(ApiError::missing("client_secret"));
    }
    Ok(())
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.params.text("customer");
    lists::page(call, "payment_intent", "/v1/payment_intents", |intent| {
        customer.is_none_or(|customer| text(intent, "customer") == customer)
    })
}

pub(super) fn search(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    lists::search(call, "payment_intent", "/v1/payment_intents/search")
}

/// Whether the intent is paid.
pub(super) fn is_paid(intent: &Value) -> bool {
    text(intent, "status") == "succeeded"
}

/// An intent of a checkout session can be changed only through the session.
fn refuse_sessions(intent: &Value) -> Result<(), ApiError> {
    let session = text(intent, "_.session");
    if session.is_empty() {
        return Ok(());
    }
    let message = format!(
        "This PaymentIntent was created by the Checkout Session {session} and cannot be changed directly. Expire the session instead."
    );
    Err(ApiError::invalid(message).code("payment_intent_unexpected_state"))
}

/// The error for something that an intent's state does not allow.
fn unexpected(id: &str, message: &str) -> ApiError {
    ApiError::invalid(message).code("payment_intent_unexpected_state").showing("payment_intent", id)
}
