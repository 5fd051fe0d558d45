//! Setup intents: a card that is left for later. They are made by checkout sessions.

use serde_json::{Value, json};

use super::books::Books;
use super::fields::{set, text};
use super::problem::Problem;
use super::routes::{Call, Caller};
use super::{events, lists};

/// Makes the intent of a session; gives its id.
pub(super) fn make(books: &mut Books, session: &str, metadata: &Value) -> String {
    let id = books.new_id("seti");
    let secret = books.secret();
    let customer =
        books.get(session).map(|session| session.get("customer").cloned().unwrap_or_default());
    books.put(json!({
        "id": id, "object": "setup_intent", "application": null, "automatic_payment_methods": null,
        "cancellation_reason": null, "client_secret": format!("{id}_secret_{secret}"), "created": books.now,
        "customer": customer, "description": null, "last_setup_error": null, "latest_attempt": null, "livemode": false,
        "mandate": null, "metadata": metadata, "next_action": null, "payment_method": null,
        "payment_method_options": {"card": {"request_three_d_secure": "automatic"}}, "payment_method_types": ["card"],
        "single_use_mandate": null, "status": "requires_payment_method", "usage": "off_session",
    }));
    events::emit(books, "setup_intent.created", &id);
    id
}

/// The card is kept.
pub(super) fn succeed(books: &mut Books, id: &str, customer: &str, method: &str) {
    books.change(id, |intent| {
        set(intent, "status", "succeeded");
        set(intent, "customer", customer);
        set(intent, "payment_method", method);
    });
    books.change(method, |method| set(method, "_.set_up", true));
    events::emit(books, "setup_intent.succeeded", id);
}

pub(super) fn retrieve(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    let intent = call.books.find("setup_intent", &id, "intent")?;
    if call.caller == Caller::Browser
        && call.params.text("client_secret") != Some(text(intent, "client_secret"))
    {
        return Err(Problem::missing("client_secret"));
    }
    Ok(intent.clone())
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Value, Problem> {
    let customer = call.params.text("customer");
    lists::page(call, "setup_intent", "/v1/setup_intents", |intent| {
        customer.is_none_or(|customer| text(intent, "customer") == customer)
    })
}
