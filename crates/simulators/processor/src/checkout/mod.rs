//! Checkout sessions: a page on which a customer pays, subscribes, or saves a card.

mod company;
mod create;
mod page;
mod pay;
mod price;

use serde_json::{Value, json};

pub(super) use company::{EnteredDetails, enter, use_coupon, wants_country};
pub(super) use create::{PARAMS, create};
pub(super) use page::{confirm_page, page};
pub(super) use pay::{CheckoutOutcome, authenticated, pay, success_url};

use super::api_call::ApiCall;
use super::fields::{at, list as items, set, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::taxes::TaxTerms;
use super::{events, invoices, lists, render};

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store
        .find("checkout.session", &id, "session")
        .map_err(|problem| problem.status(404))
        .cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let wanted = ["customer", "payment_intent", "subscription", "status"]
        .map(|name| (name, params.text(name)));
    lists::page(call, "checkout.session", "/v1/checkout/sessions", |session| {
        wanted.iter().all(|(name, value)| value.is_none_or(|value| text(session, name) == value))
    })
}

pub(super) fn line_items(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let session = call
        .store
        .find("checkout.session", &id, "session")
        .map_err(|problem| problem.status(404))?
        .clone();
    let all: Vec<&Value> = items(&session, "_.line_items").iter().collect();
    lists::of(call, &all, &format!("/v1/checkout/sessions/{id}/line_items"))
}

pub(super) fn expire(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let session = call
        .store
        .find("checkout.session", &id, "session")
        .map_err(|problem| problem.status(404))?;
    let status = text(session, "status");
    if status != "open" {
        let message = format!(
            "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of `{status}`."
        );
        return Err(ApiError::invalid(message));
    }
    close(call.store, &id);
    call.store.find("checkout.session", &id, "session").cloned()
}

/// An open session has expired.
pub(super) fn close(store: &mut ObjectStore, id: &str) {
    let intent =
        store.get(id).map(|session| text(session, "payment_intent").to_owned()).unwrap_or_default();
    store.change(id, |session| {
        set(session, "status", "expired");
        set(session, "_.due", Value::Null);
    });
    // Its intent can no longer be paid.
    if store.get(&intent).is_some_and(|intent| text(intent, "status") != "succeeded") {
        let now = store.now;
        store.change(&intent, |intent| {
            set(intent, "status", "canceled");
            set(intent, "canceled_at", now);
            set(intent, "cancellation_reason", "automatic");
            set(intent, "next_action", Value::Null);
        });
        events::emit(store, "payment_intent.canceled", &intent);
    }
    events::emit(store, "checkout.session.expired", id);
}

/// A delayed payment has succeeded or failed.
pub(super) fn settled(store: &mut ObjectStore, id: &str, paid: bool) {
    if store.get(id).is_none() {
        return;
    }
    if paid {
        store.change(id, |session| set(session, "payment_status", "paid"));
        invoices::of_session(store, id);
    }
    let kind = if paid {
        "checkout.session.async_payment_succeeded"
    } else {
        "checkout.session.async_payment_failed"
    };
    events::emit(store, kind, id);
}

/// The tax on what a session sells.
pub(super) fn tax_of(store: &ObjectStore, session: &Value) -> TaxTerms {
    price::tax_terms(store, session)
}

/// The data of the page.
pub(super) fn shown(store: &ObjectStore, id: &str) -> Option<Value> {
    let session = store.get(id).filter(|session| text(session, "object") == "checkout.session")?;
    let mut shown = render::whole(store, session);
    set(&mut shown, "lines", at(session, "_.line_items").clone());
    let trial = at(session, "_.subscription.trial_period_days");
    set(&mut shown, "trial_days", trial.clone());
    let email =
        store.get(text(session, "customer")).map(|customer| text(customer, "email").to_owned());
    set(&mut shown, "email", json!(email));
    Some(shown)
}
