//! Charging a card: the bank's decision, and the charge that records it.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::cards::{self, CardBehaviour};
use super::fields::{at, flag, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, lists};

/// How a card is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChargeMode {
    /// Whether the customer is absent.
    pub(super) off_session: bool,
    /// Whether the customer has authenticated.
    pub(super) authenticated: bool,
}

/// The field of a card or customer with the decline code of its charges.
const DECLINES: &str = "_.declines";

/// Makes every charge of a card, or of all cards of a customer, be declined with this code from now
/// on, or be processed normally again.
pub(super) fn set_declines(store: &mut ObjectStore, id: &str, code: Option<&str>) {
    store.change(id, |object| set(object, DECLINES, json!(code)));
}

/// The bank's decision.
pub(super) enum CardVerdict {
    Pays,
    /// The payment succeeds or fails later.
    Later,
    Declines(String),
    WantsAuthentication,
}

/// Asks the bank. A test may have set the decision: for the next charge, for this card, or for all
/// cards of this customer.
pub(super) fn ask(
    store: &mut ObjectStore,
    method: &Value,
    customer: &str,
    how: ChargeMode,
) -> CardVerdict {
    if let Some(code) = store.declines.pop_front() {
        return CardVerdict::Declines(code);
    }
    let of_customer = store.get(customer).map_or(&Value::Null, |it| at(it, DECLINES));
    let declined = of_customer.as_str().or_else(|| at(method, DECLINES).as_str());
    if let Some(code) = declined {
        return CardVerdict::Declines(code.to_owned());
    }
    let wants = |needed: bool| {
        if needed && !how.authenticated {
            CardVerdict::WantsAuthentication
        } else {
            CardVerdict::Pays
        }
    };
    match cards::behaviour(method) {
        CardBehaviour::Pays
        | CardBehaviour::Disputes
        | CardBehaviour::Inquires
        | CardBehaviour::Warns
        | CardBehaviour::PaysAvailable
        | CardBehaviour::RefundsLater
        | CardBehaviour::RefundsFail => CardVerdict::Pays,
        CardBehaviour::PaysLater | CardBehaviour::FailsLater => CardVerdict::Later,
        CardBehaviour::Declines(code) => CardVerdict::Declines(code.to_owned()),
        CardBehaviour::DeclinesLater => CardVerdict::Declines("generic_decline".to_owned()),
        CardBehaviour::AuthenticatesUntilSetUp => wants(!flag(method, "_.set_up")),
        CardBehaviour::AuthenticatesAlways => wants(true),
        CardBehaviour::AuthenticatesOnSession => wants(!how.off_session),
        CardBehaviour::AuthenticatesThenDeclines
            if how.off_session || how.authenticated || flag(method, "_.set_up") =>
        {
            CardVerdict::Declines("insufficient_funds".to_owned())
        }
        CardBehaviour::AuthenticatesThenDeclines => CardVerdict::WantsAuthentication,
    }
}

/// Adds a charge to the store; `refusal` says why it failed. Returns its id.
pub(super) fn make(
    store: &mut ObjectStore,
    intent: &Value,
    method: &Value,
    state: &Result<&str, &ApiError>,
) -> String {
    let id = store.new_id("ch");
    let amount = whole(intent, "amount");
    let paid = matches!(state, Ok("succeeded"));
    let status = state.as_ref().map_or("failed", |status| *status);
    let refusal = state.as_ref().err();
    let reason =
        refusal.map(|refusal| refusal.decline_code.clone().or_else(|| refusal.code.clone()));
    let outcome = json!({
        "advice_code": null, "network_advice_code": null, "network_decline_code": null,
        "network_status": if paid { "approved_by_network" } else { "declined_by_network" },
        "reason": reason, "risk_level": "normal", "risk_score": 20,
        "seller_message": if paid { "Payment complete." } else { "The bank did not return any further details with this decline." },
        "type": if paid { "authorized" } else { "issuer_declined" },
    });
    let kind = text(method, "type").to_owned();
    let mut details = json!({"type": kind});
    set(&mut details, &kind, at(method, &kind).clone());
    if text(method, "object") == "card" {
        details = json!({"card": crate::render::whole(store, method), "type": "card"});
    }
    store.put(json!({
        "id": id, "object": "charge", "amount": amount, "amount_captured": if paid { amount } else { 0 },
        "amount_refunded": 0, "application": null, "balance_transaction": null,
        "billing_details": at(method, "billing_details"), "calculated_statement_descriptor": "SANDBOX",
        "captured": paid, "created": store.now, "currency": text(intent, "currency"), "customer": at(intent, "customer"),
        "description": at(intent, "description"), "disputed": false, "failure_balance_transaction": null,
        "failure_code": refusal.map(|refusal| refusal.code.clone()),
        "failure_message": refusal.map(|refusal| refusal.message.clone()), "fraud_details": {}, "livemode": false,
        "metadata": at(intent, "metadata"), "on_behalf_of": null, "outcome": outcome, "paid": paid,
        "payment_intent": text(intent, "id"), "payment_method": text(method, "id"), "payment_method_details": details,
        "receipt_email": at(intent, "receipt_email"), "receipt_number": null, "receipt_url": null, "refunded": false,
        "review": null, "shipping": at(intent, "shipping"), "source_transfer": null, "statement_descriptor": null, "status": status,
        "transfer_group": null,
    }));
    id
}

/// The error for a declined charge, with the charge and the intent.
pub(super) fn refusal(decline_code: &str, intent: &str, method: &str) -> ApiError {
    cards::declined(decline_code)
        .showing("payment_intent", intent)
        .showing("payment_method", method)
}

/// A pending charge succeeds or fails.
pub(super) fn settle(store: &mut ObjectStore, charge: &str, paid: bool) {
    store.change(charge, |charge| {
        let amount = whole(charge, "amount");
        set(charge, "status", if paid { "succeeded" } else { "failed" });
        set(charge, "paid", paid);
        set(charge, "captured", paid);
        set(charge, "amount_captured", if paid { amount } else { 0 });
    });
    events::emit(store, if paid { "charge.succeeded" } else { "charge.failed" }, charge);
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("charge", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (customer, intent) = (call.params.text("customer"), call.params.text("payment_intent"));
    lists::page(call, "charge", "/v1/charges", |charge| {
        customer.is_none_or(|customer| text(charge, "customer") == customer)
            && intent.is_none_or(|intent| text(charge, "payment_intent") == intent)
    })
}
