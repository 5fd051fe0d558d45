//! Confirming an intent: the attempt to pay it.

use serde_json::{Value, json};

use super::charge::{ChargeOutcome, charge, give_up_action};
use super::create::take_method;
use super::{readable, refuse_sessions, unexpected};
use crate::api_call::{ApiCall, ApiCaller};
use crate::charges::ChargeMode;
use crate::fields::{set, text};
use crate::form::FormParams;
use crate::problem::ApiError;

/// The parameters of confirming.
pub(crate) const PARAMS: &[&str] = &[
    "payment_method",
    "off_session",
    "error_on_requires_action",
    "return_url",
    "setup_future_usage",
    "use_stripe_sdk",
    "expected_payment_method_type",
    "client_secret",
    "key",
    "receipt_email?",
];

pub(crate) fn confirm(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    readable(call, &id)?;
    let intent = call.store.find("payment_intent", &id, "intent")?;
    refuse_sessions(intent)?;
    let status = text(intent, "status").to_owned();
    if !matches!(
        status.as_str(),
        "requires_payment_method" | "requires_confirmation" | "requires_action"
    ) {
        return Err(unexpected(
            &id,
            &format!(
                "You cannot confirm this PaymentIntent because it has already {status} after being previously confirmed."
            ),
        ));
    }
    if let Some(given) = call.params.text("payment_method").map(str::to_owned) {
        take_method(call.store, &id, &given)?;
    }
    if let Some(usage) = call.params.one_of("setup_future_usage", &["off_session", "on_session"])? {
        call.store.change(&id, |intent| set(intent, "setup_future_usage", usage));
    }
    confirmed(call, &id)
}

/// Pays the intent with its payment method.
pub(super) fn confirmed(call: &mut ApiCall<'_>, id: &str) -> Result<Value, ApiError> {
    let params = call.params;
    let off_session = off_session(params)?;
    let intent = call.store.find("payment_intent", id, "intent")?;
    if text(intent, "payment_method").is_empty() {
        let message = "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method or ConfirmationToken.";
        return Err(unexpected(id, message));
    }
    let redirects = text(intent, "automatic_payment_methods.allow_redirects") == "always";
    let return_url = params.text("return_url").map(str::to_owned);
    if redirects && return_url.is_none() && !off_session && call.caller == ApiCaller::Server {
        let message = "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.";
        return Err(ApiError::param("return_url", message));
    }
    if off_session
        && text(intent, "setup_future_usage") == "off_session"
        && params.has("setup_future_usage")
    {
        let message = "You cannot set `off_session` to true together with `setup_future_usage`.";
        return Err(ApiError::param("off_session", message));
    }
    call.store.change(id, |intent| set(intent, "_.return_url", json!(return_url)));
    let how = ChargeMode { off_session, authenticated: false };
    let refuse_actions = params.flag("error_on_requires_action")?.unwrap_or(false);
    match charge(call.store, id, how) {
        ChargeOutcome::Refused(problem) => Err(*problem),
        ChargeOutcome::WantsAction if refuse_actions => Err(give_up_action(call.store, id)),
        ChargeOutcome::Done | ChargeOutcome::WantsAction => {
            call.store.find("payment_intent", id, "intent").cloned()
        }
    }
}

/// `true`, `false`, or one of the older words for why the customer is absent.
fn off_session(params: &FormParams) -> Result<bool, ApiError> {
    match params.text("off_session") {
        Some("one_off" | "recurring") => Ok(true),
        _ => Ok(params.flag("off_session")?.unwrap_or(false)),
    }
}
