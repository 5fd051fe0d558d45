//! Charging a card: what the bank says, and the charge that remains of it.

use serde_json::{Value, json};

use super::cards::{self, Behaviour};
use super::fields::{at, flag, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::Problem;
use super::routes::Call;
use super::{events, lists};

/// How a card is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Its owner is not there.
    pub(super) off_session: bool,
    /// Its owner has proven to be its owner.
    pub(super) authenticated: bool,
}

/// Where a card or a customer keeps the code that its charges are declined with.
const DECLINES: &str = "_.declines";

/// Lets every charge of a card, or of all cards of a customer, be declined with this code from now on, or no longer.
pub(super) fn set_declines(store: &mut ObjectStore, id: &str, code: Option<&str>) {
    store.change(id, |object| set(object, DECLINES, json!(code)));
}

/// What the bank says.
pub(super) enum Verdict {
    Pays,
    /// The money comes later, or does not.
    Later,
    Declines(String),
    WantsAuthentication,
}

/// Asks the bank. A test may have said what it answers: for the next charge, for this card, or for all cards of this
/// customer.
pub(super) fn ask(store: &mut ObjectStore, method: &Value, customer: &str, how: How) -> Verdict {
    if let Some(code) = store.declines.pop_front() {
        return Verdict::Declines(code);
    }
    let of_customer = store.get(customer).map_or(&Value::Null, |it| at(it, DECLINES));
    let declined = of_customer.as_str().or_else(|| at(method, DECLINES).as_str());
    if let Some(code) = declined {
        return Verdict::Declines(code.to_owned());
    }
    let wants = |needed: bool| {
        if needed && !how.authenticated { Verdict::WantsAuthentication } else { Verdict::Pays }
    };
    match cards::behaviour(method) {
        Behaviour::Pays | Behaviour::Disputes => Verdict::Pays,
        Behaviour::PaysLater | Behaviour::FailsLater => Verdict::Later,
        Behaviour::Declines(code) => Verdict::Declines(code.to_owned()),
        Behaviour::DeclinesLater => Verdict::Declines("generic_decline".to_owned()),
        Behaviour::AuthenticatesUntilSetUp => wants(!flag(method, "_.set_up")),
        Behaviour::AuthenticatesAlways => wants(true),
        Behaviour::AuthenticatesOnSession => wants(!how.off_session),
        Behaviour::AuthenticatesThenDeclines
            if how.off_session || how.authenticated || flag(method, "_.set_up") =>
        {
            Verdict::Declines("insufficient_funds".to_owned())
        }
        Behaviour::AuthenticatesThenDeclines => Verdict::WantsAuthentication,
    }
}

/// Puts a charge into the store; `refusal` says why it failed. Gives its id.
pub(super) fn make(
    store: &mut ObjectStore,
    intent: &Value,
    method: &Value,
    state: &Result<&str, &Problem>,
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
        "review": null, "shipping": null, "source_transfer": null, "statement_descriptor": null, "status": status,
        "transfer_group": null,
    }));
    id
}

/// The decline of a charge as it is told, with the charge and the intent.
pub(super) fn refusal(decline_code: &str, intent: &str, method: &str) -> Problem {
    cards::declined(decline_code)
        .showing("payment_intent", intent)
        .showing("payment_method", method)
}

/// The money of a charge that was pending has come, or will not.
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

pub(super) fn retrieve(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    call.store.find("charge", &id, "id").cloned()
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Value, Problem> {
    let (customer, intent) = (call.params.text("customer"), call.params.text("payment_intent"));
    lists::page(call, "charge", "/v1/charges", |charge| {
        customer.is_none_or(|customer| text(charge, "customer") == customer)
            && intent.is_none_or(|intent| text(charge, "payment_intent") == intent)
    })
}
