//! Setup intents: cards saved for later, by a checkout session or by the merchant's server.

use serde_json::{Value, json};

use super::api_call::{ApiCall, ApiCaller};
use super::cards::{self, CardBehaviour};
use super::fields::{set, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{customers, events, lists, payment_methods, render};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "customer",
    "payment_method",
    "payment_method_types.*",
    "automatic_payment_methods.enabled",
    "automatic_payment_methods.allow_redirects",
    "confirm",
    "return_url",
    "usage",
    "description?",
    "metadata?",
    "metadata.*?",
];
/// The parameters of confirming one.
pub(super) const CONFIRM_PARAMS: &[&str] =
    &["payment_method", "return_url", "use_stripe_sdk", "client_secret", "key"];

/// Creates the intent of a session; returns its id.
pub(super) fn make(store: &mut ObjectStore, session: &str, metadata: &Value) -> String {
    let customer =
        store.get(session).map(|session| session.get("customer").cloned().unwrap_or_default());
    let id = put(store, &customer.unwrap_or_default(), metadata);
    events::emit(store, "setup_intent.created", &id);
    id
}

fn put(store: &mut ObjectStore, customer: &Value, metadata: &Value) -> String {
    let id = store.new_id("seti");
    let secret = store.secret();
    store.put(json!({
        "id": id, "object": "setup_intent", "application": null, "automatic_payment_methods": null,
        "cancellation_reason": null, "client_secret": format!("{id}_secret_{secret}"), "created": store.now,
        "customer": customer, "description": null, "last_setup_error": null, "latest_attempt": null, "livemode": false,
        "mandate": null, "metadata": metadata, "next_action": null, "payment_method": null,
        "payment_method_options": {"card": {"request_three_d_secure": "automatic"}}, "payment_method_types": ["card"],
        "single_use_mandate": null, "status": "requires_payment_method", "usage": "off_session",
    }));
    id
}

/// The merchant's server wants to save a card.
pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.text("customer").map(str::to_owned);
    if let Some(customer) = &customer {
        customers::live(call.store, customer, "customer")?;
    }
    for place in params.names("payment_method_types") {
        let path = format!("payment_method_types.{place}");
        params.one_of(&path, &["card", "link", "us_bank_account", "sepa_debit"])?;
    }
    let usage = params.one_of("usage", &["off_session", "on_session"])?.unwrap_or("off_session");
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let id = put(call.store, &json!(customer), &metadata);
    let description = params.text("description").map(str::to_owned);
    let redirects = params
        .one_of("automatic_payment_methods.allow_redirects", &["always", "never"])?
        .unwrap_or("always");
    let is_automatic = !params.has("payment_method_types")
        && params.flag("automatic_payment_methods.enabled")? != Some(false);
    call.store.change(&id, |intent| {
        set(intent, "description", json!(description));
        set(intent, "usage", usage);
        let automatic = json!({"allow_redirects": redirects, "enabled": true});
        set(intent, "automatic_payment_methods", json!(is_automatic.then_some(automatic)));
    });
    if let Some(given) = params.text("payment_method") {
        take_method(call.store, &id, given)?;
    }
    events::emit(call.store, "setup_intent.created", &id);
    if params.flag("confirm")?.unwrap_or(false) {
        return confirmed(call, &id);
    }
    call.store.find("setup_intent", &id, "intent").cloned()
}

fn take_method(store: &mut ObjectStore, id: &str, given: &str) -> Result<(), ApiError> {
    let method = payment_methods::named(store, given, "payment_method")?;
    payment_methods::check_usable(store.find("payment_method", &method, "payment_method")?)?;
    store.change(id, |intent| {
        set(intent, "payment_method", method);
        set(intent, "status", "requires_confirmation");
    });
    Ok(())
}

pub(super) fn confirm(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let status = text(call.store.find("setup_intent", &id, "intent")?, "status").to_owned();
    if !status.starts_with("requires_") {
        return Err(unexpected(&id, "confirm", &status));
    }
    if let Some(given) = call.params.text("payment_method").map(str::to_owned) {
        take_method(call.store, &id, &given)?;
    }
    confirmed(call, &id)
}

/// Asks the bank whether the card can be saved.
fn confirmed(call: &mut ApiCall<'_>, id: &str) -> Result<Value, ApiError> {
    let intent = call.store.find("setup_intent", id, "intent")?.clone();
    let method_id = text(&intent, "payment_method").to_owned();
    let Some(method) = call.store.get(&method_id).cloned() else {
        let message = "You cannot confirm this SetupIntent because it's missing a payment method.";
        return Err(ApiError::invalid(message).code("setup_intent_unexpected_state"));
    };
    let redirects = text(&intent, "automatic_payment_methods.allow_redirects") == "always";
    let return_url = call.params.text("return_url").map(str::to_owned);
    if redirects && return_url.is_none() && call.caller == ApiCaller::Server {
        let message = "You must provide a `return_url` when confirming a SetupIntent that may redirect your customer.";
        return Err(ApiError::param("return_url", message));
    }
    match cards::behaviour(&method) {
        CardBehaviour::Declines(code) => Err(fail(call.store, id, code)),
        CardBehaviour::AuthenticatesUntilSetUp
        | CardBehaviour::AuthenticatesAlways
        | CardBehaviour::AuthenticatesThenDeclines => {
            let redirect = json!({"return_url": return_url, "url": ""});
            call.store.change(id, |intent| {
                set(intent, "status", "requires_action");
                let action = json!({"redirect_to_url": redirect, "type": "redirect_to_url"});
                set(intent, "next_action", action);
            });
            events::emit(call.store, "setup_intent.requires_action", id);
            call.store.find("setup_intent", id, "intent").cloned()
        }
        _ => {
            let customer = text(&intent, "customer");
            if !customer.is_empty() {
                payment_methods::attach_to(call.store, &method_id, customer, "payment_method")?;
            }
            succeed(call.store, id, customer, &method_id);
            call.store.find("setup_intent", id, "intent").cloned()
        }
    }
}

fn fail(store: &mut ObjectStore, id: &str, code: &'static str) -> ApiError {
    let problem = cards::declined(code).showing("setup_intent", id);
    let error = json!({
        "code": problem.code, "decline_code": problem.decline_code, "message": problem.message, "type": "card_error",
    });
    store.change(id, |intent| {
        set(intent, "status", "requires_payment_method");
        set(intent, "payment_method", Value::Null);
        set(intent, "last_setup_error", error);
    });
    events::emit(store, "setup_intent.setup_failed", id);
    problem
}

/// The card is saved.
pub(super) fn succeed(store: &mut ObjectStore, id: &str, customer: &str, method: &str) {
    store.change(id, |intent| {
        set(intent, "status", "succeeded");
        set(intent, "customer", json!(Some(customer).filter(|customer| !customer.is_empty())));
        set(intent, "payment_method", method);
    });
    store.change(method, |method| set(method, "_.set_up", true));
    events::emit(store, "setup_intent.succeeded", id);
}

pub(super) fn cancel(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let status = text(call.store.find("setup_intent", &id, "intent")?, "status").to_owned();
    if !status.starts_with("requires_") {
        return Err(unexpected(&id, "cancel", &status));
    }
    let words = ["abandoned", "requested_by_customer", "duplicate"];
    let reason = call.params.one_of("cancellation_reason", &words)?;
    call.store.change(&id, |intent| {
        set(intent, "status", "canceled");
        set(intent, "cancellation_reason", json!(reason));
        set(intent, "next_action", Value::Null);
    });
    events::emit(call.store, "setup_intent.canceled", &id);
    call.store.find("setup_intent", &id, "intent").cloned()
}

fn unexpected(id: &str, verb: &str, status: &str) -> ApiError {
    let message =
        format!("You cannot {verb} this SetupIntent because it has a status of {status}.");
    ApiError::invalid(message).code("setup_intent_unexpected_state").showing("setup_intent", id)
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let intent = call.store.find("setup_intent", &id, "intent")?;
    if call.caller == ApiCaller::Browser
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
