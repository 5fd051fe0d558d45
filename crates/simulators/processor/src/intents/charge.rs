//! Charging the card of an intent, and the consequences.

use serde_json::{Value, json};

use super::unexpected;
use crate::cards::CardBehaviour;
use crate::charges::{self, CardVerdict, ChargeMode};
use crate::disputes::DisputeStart;
use crate::fields::{at, set, text, whole};
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{cards, cash_balance, checkout, disputes, events, invoices, render};

/// The number of seconds after which a bank account's payment is decided.
const LATER_S: i64 = 60;

/// The result of an attempt to charge.
pub(crate) enum ChargeOutcome {
    /// Paid, or processing.
    Done,
    /// The customer must authenticate.
    WantsAction,
    Refused(Box<ApiError>),
}

/// Charges the card of an intent and records the result.
pub(crate) fn charge(store: &mut ObjectStore, id: &str, how: ChargeMode) -> ChargeOutcome {
    let Some(intent) = store.get(id).cloned() else { return ChargeOutcome::Done };
    let Some(method) = store.get(text(&intent, "payment_method")).cloned() else {
        return ChargeOutcome::Done;
    };
    if text(&method, "type") == cash_balance::METHOD {
        if !cash_balance::take(store, id) {
            return ChargeOutcome::WantsAction;
        }
        funded(store, id);
        return ChargeOutcome::Done;
    }
    match charges::ask(store, &method, text(&intent, "customer"), how) {
        CardVerdict::Pays if text(&intent, "capture_method") == "manual" => {
            let charge = charges::make(store, &intent, &method, &Ok("succeeded"));
            super::capture::hold(store, id, &charge);
            keep_card(store, id);
            ChargeOutcome::Done
        }
        CardVerdict::Pays => {
            let charge = charges::make(store, &intent, &method, &Ok("succeeded"));
            succeed(store, id, &charge, how);
            ChargeOutcome::Done
        }
        CardVerdict::Later => {
            let charge = charges::make(store, &intent, &method, &Ok("pending"));
            let settles_at = store.now + LATER_S;
            store.change(id, |intent| {
                set(intent, "status", "processing");
                set(intent, "latest_charge", charge.as_str());
                set(intent, "_.due", settles_at);
            });
            keep_card(store, id);
            events::emit(store, "charge.pending", &charge);
            events::emit(store, "payment_intent.processing", id);
            ChargeOutcome::Done
        }
        CardVerdict::WantsAuthentication if how.off_session => {
            ChargeOutcome::Refused(Box::new(refuse(store, id, "authentication_required")))
        }
        CardVerdict::WantsAuthentication => {
            store.change(id, ask_for_action);
            events::emit(store, "payment_intent.requires_action", id);
            ChargeOutcome::WantsAction
        }
        CardVerdict::Declines(code) => ChargeOutcome::Refused(Box::new(refuse(store, id, &code))),
    }
}

/// The next step is on the bank's page; its URL is filled in when the intent is rendered.
fn ask_for_action(intent: &mut Value) {
    let return_url = at(intent, "_.return_url").clone();
    let action = if return_url.is_null() {
        json!({"type": "use_stripe_sdk", "use_stripe_sdk": {
            "type": "three_d_secure_redirect", "stripe_js": "", "source": text(intent, "payment_method"),
        }})
    } else {
        json!({"type": "redirect_to_url", "redirect_to_url": {"url": "", "return_url": return_url}})
    };
    set(intent, "next_action", action);
    set(intent, "status", "requires_action");
}

/// The customer is not to be asked, so the attempt has failed.
pub(super) fn give_up_action(store: &mut ObjectStore, id: &str) -> ApiError {
    store.change(id, |intent| set(intent, "next_action", Value::Null));
    refuse(store, id, "authentication_required")
}

/// Records a failed charge; returns the error for it.
fn refuse(store: &mut ObjectStore, id: &str, code: &str) -> ApiError {
    let intent = store.get(id).cloned().unwrap_or_default();
    let method_id = text(&intent, "payment_method").to_owned();
    let method = store.get(&method_id).cloned().unwrap_or_default();
    let problem = charges::refusal(code, id, &method_id);
    let charge = charges::make(store, &intent, &method, &Err(&problem));
    let error = json!({
        "charge": charge, "code": problem.code, "decline_code": problem.decline_code, "message": problem.message,
        "payment_method": render::whole(store, &method), "type": "card_error",
    });
    store.change(id, |intent| {
        set(intent, "status", "requires_payment_method");
        set(intent, "payment_method", Value::Null);
        set(intent, "next_action", Value::Null);
        set(intent, "latest_charge", charge.as_str());
        set(intent, "last_payment_error", error);
    });
    events::emit(store, "charge.failed", &charge);
    events::emit(store, "payment_intent.payment_failed", id);
    problem.showing("charge", &charge)
}

/// All of the money has come by bank transfer.
pub(crate) fn funded(store: &mut ObjectStore, id: &str) {
    let Some(intent) = store.get(id).cloned() else { return };
    let method = store.get(text(&intent, "payment_method")).cloned().unwrap_or_default();
    let charge = charges::make(store, &intent, &method, &Ok("succeeded"));
    succeed(store, id, &charge, ChargeMode::default());
}

fn succeed(store: &mut ObjectStore, id: &str, charge: &str, how: ChargeMode) {
    store.change(id, |intent| {
        let amount = whole(intent, "amount");
        set(intent, "status", "succeeded");
        set(intent, "amount_received", amount);
        set(intent, "latest_charge", charge);
        set(intent, "next_action", Value::Null);
        set(intent, "last_payment_error", Value::Null);
    });
    keep_card(store, id);
    let method =
        store.get(id).map(|intent| text(intent, "payment_method").to_owned()).unwrap_or_default();
    if how.authenticated
        && store.get(id).is_some_and(|intent| !text(intent, "setup_future_usage").is_empty())
    {
        store.change(&method, |method| set(method, "_.set_up", true));
    }
    events::emit(store, "charge.succeeded", charge);
    events::emit(store, "payment_intent.succeeded", id);
    if let Some(intent) = store.get(id).cloned() {
        invoices::paid_by(store, &intent);
    }
    let (amount, currency) = store.get(id).map_or((0, String::new()), |intent| {
        (whole(intent, "amount"), text(intent, "currency").to_owned())
    });
    match store.get(&method).map(cards::behaviour) {
        Some(CardBehaviour::Disputes) => {
            disputes::open(store, charge, "fraudulent", DisputeStart::Chargeback);
        }
        Some(CardBehaviour::Inquires) => {
            disputes::open(store, charge, "fraudulent", DisputeStart::Inquiry);
        }
        Some(CardBehaviour::Warns) => {
            disputes::warn(store, charge);
        }
        Some(CardBehaviour::PaysAvailable) => {
            store.put(json!({
                "id": "balance", "object": "balance",
                "available": [{"amount": amount, "currency": currency, "source_types": {"card": amount}}],
                "livemode": false, "pending": [],
            }));
            events::emit(store, "balance.available", "balance");
        }
        _ => {}
    }
}

/// A card for later use is attached to the customer.
fn keep_card(store: &mut ObjectStore, id: &str) {
    let Some(intent) = store.get(id).cloned() else { return };
    let (customer, method) = (text(&intent, "customer"), text(&intent, "payment_method"));
    if text(&intent, "setup_future_usage").is_empty() || customer.is_empty() {
        return;
    }
    if store.get(method).is_some_and(|method| text(method, "customer").is_empty()) {
        store.change(method, |method| set(method, "customer", customer));
        events::emit(store, "payment_method.attached", method);
    }
}

/// The customer has authenticated, or failed to.
pub(crate) fn authenticated(
    store: &mut ObjectStore,
    id: &str,
    proven: bool,
) -> Result<(), ApiError> {
    let intent = store.find("payment_intent", id, "intent")?;
    if text(intent, "status") != "requires_action" {
        return Err(unexpected(id, "Nothing has to be authenticated for this PaymentIntent."));
    }
    if proven {
        let how = ChargeMode { off_session: false, authenticated: true };
        return match charge(store, id, how) {
            ChargeOutcome::Refused(problem) => Err(*problem),
            ChargeOutcome::Done | ChargeOutcome::WantsAction => Ok(()),
        };
    }
    let message = "We are unable to authenticate your payment method. Please choose a different payment method and try again.";
    let method =
        render::whole(store, store.get(text(intent, "payment_method")).unwrap_or(&Value::Null));
    let error = json!({
        "code": "payment_intent_authentication_failure", "message": message, "payment_method": method,
        "type": "invalid_request_error",
    });
    store.change(id, |intent| {
        set(intent, "status", "requires_payment_method");
        set(intent, "payment_method", Value::Null);
        set(intent, "next_action", Value::Null);
        set(intent, "last_payment_error", error);
    });
    events::emit(store, "payment_intent.payment_failed", id);
    Err(ApiError {
        keeps: true,
        ..unexpected(id, message).code("payment_intent_authentication_failure")
    })
}

/// A bank account's payment has succeeded or failed.
pub(crate) fn settle(store: &mut ObjectStore, id: &str, paid: bool) -> Result<(), ApiError> {
    let intent = store.find("payment_intent", id, "intent")?.clone();
    if text(&intent, "status") != "processing" {
        return Err(unexpected(id, "This PaymentIntent is not processing."));
    }
    charges::settle(store, text(&intent, "latest_charge"), paid);
    store.change(id, |intent| {
        let amount = whole(intent, "amount");
        set(intent, "_.due", Value::Null);
        set(intent, "status", if paid { "succeeded" } else { "requires_payment_method" });
        set(intent, "amount_received", if paid { amount } else { 0 });
    });
    events::emit(
        store,
        if paid { "payment_intent.succeeded" } else { "payment_intent.payment_failed" },
        id,
    );
    if paid {
        invoices::paid_by(store, &intent);
    }
    checkout::settled(store, text(&intent, "_.session"), paid);
    Ok(())
}

/// Whether the payment of a processing intent will succeed.
pub(crate) fn will_pay(store: &ObjectStore, intent: &Value) -> bool {
    let method = store.get(text(intent, "payment_method"));
    method.is_none_or(|method| cards::behaviour(method) != CardBehaviour::FailsLater)
}
