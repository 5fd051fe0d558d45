//! Setup intents: cards saved for later. Checkout sessions create them.

use serde_json::{Value, json};

use super::api_call::{ApiCall, Caller};
use super::fields::{set, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, lists};

/// Creates the intent of a session; returns its id.
pub(super) fn make(store: &mut ObjectStore, session: &str, metadata: &Value) -> String {
    let id = store.new_id("seti");
    let secret = store.secret();
    let customer =
        store.get(session).map(|session| session.get("customer").cloned().unwrap_or_default());
    store.put(json!({
        "id": id, "object": "setup_intent", "application": null, "automatic_payment_methods": null,
        "cancellation_reason": null, "client_secret": format!("{id}_secret_{secret}"), "created": store.now,
        "customer": customer, "description": null, "last_setup_error": null, "latest_attempt": null, "livemode": false,
        "mandate": null, "metadata": metadata, "next_action": null, "payment_method": null,
        "payment_method_options": {"card": {"request_three_d_secure": "automatic"}}, "payment_method_types": ["card"],
        "single_use_mandate": null, "status": "requires_payment_method", "usage": "off_session",
    }));
    events::emit(store, "setup_intent.created", &id);
    id
}

/// The card is saved.
pub(super) fn succeed(store: &mut ObjectStore, id: &str, customer: &str, method: &str) {
    store.change(id, |intent| {
        set(intent, "status", "succeeded");
        set(intent, "customer", customer);
        set(intent, "payment_method", method);
    });
    store.change(method, |method| set(method, "_.set_up", true));
    events::emit(store, "setup_intent.succeeded", id);
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let intent = call.store.find("setup_intent", &id, "intent")?;
    if call.caller == Caller::Browser
        && call.params.text("client_secret") != Some(text(intent, "client_secret"))
    {
        return Err(ApiError::missing("client_secret"));
    }
    Ok(intent.clone())
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.params.text("customer");
    lists::page(call, "setup_intent", "/v1/setup_intents", |intent| {
        customer.is_none_or(|customer| text(intent, "customer") == customer)
    })
}
