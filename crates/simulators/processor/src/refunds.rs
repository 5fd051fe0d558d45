//! Refunds: full or partial.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::cards::{self, CardBehaviour};
use super::fields::{at, flag, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{disputes, events, lists, render, rules};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "charge",
    "payment_intent",
    "amount",
    "reason",
    "metadata.*?",
    "refund_application_fee",
    "reverse_transfer",
];

/// The seconds after which a refund that takes time is decided.
const LATER_S: i64 = 60;

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let charge = charge_of(call)?;
    let left = whole(&charge, "amount_captured") - whole(&charge, "amount_refunded");
    let amount = params.integer("amount")?.unwrap_or(left);
    if left == 0 {
        let message = format!("Charge {} has already been refunded.", text(&charge, "id"));
        return Err(ApiError::invalid(message).code("charge_already_refunded"));
    }
    if at(&charge, "disputed") == true {
        let message =
            format!("Charge {} has been charged back; cannot issue a refund.", text(&charge, "id"));
        return Err(ApiError::invalid(message).code("charge_disputed"));
    }
    if amount < 1 {
        let message = "This value must be greater than or equal to 1.";
        return Err(ApiError::param("amount", message).code("parameter_invalid_integer"));
    }
    if amount > left {
        let message = format!(
            "Refund amount ({amount}) is greater than unrefunded amount on charge ({left})"
        );
        return Err(ApiError::param("amount", message));
    }
    let reason = params.one_of("reason", &["duplicate", "fraudulent", "requested_by_customer"])?;
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let id = make(call.store, &charge, (amount, json!(reason), metadata));
    call.store.find("refund", &id, "id").cloned()
}

/// Refunds an amount for a credit note; returns the id of the refund.
pub(super) fn of_note(store: &mut ObjectStore, charge: &Value, amount: i64) -> String {
    make(store, charge, (amount, Value::Null, json!({})))
}

/// Refunds an amount; returns the id of the refund.
fn make(
    store: &mut ObjectStore,
    charge: &Value,
    (amount, reason, metadata): (i64, Value, Value),
) -> String {
    let id = store.new_id("re");
    let method = store.get(text(charge, "payment_method")).map(cards::behaviour);
    let pends = rules::refunds_pend(store) || method == Some(CardBehaviour::RefundsLater);
    let decided = [CardBehaviour::RefundsLater, CardBehaviour::RefundsFail];
    let due = method.filter(|method| decided.contains(method)).map(|_| store.now + LATER_S);
    store.put(json!({
        "id": id, "object": "refund", "amount": amount, "balance_transaction": null, "charge": text(charge, "id"),
        "created": store.now, "currency": text(charge, "currency"),
        "destination_details": {"card": {"type": "refund"}, "type": "card"}, "metadata": metadata,
        "payment_intent": at(charge, "payment_intent"), "reason": reason, "receipt_number": null,
        "source_transfer_reversal": null, "status": if pends { "pending" } else { "succeeded" }, "transfer_reversal": null,
        "_": {"due": due, "fails": method == Some(CardBehaviour::RefundsFail)},
    }));
    if pends {
        store.change(&id, |refund| set(refund, "pending_reason", "processing"));
    }
    add_refunded(store, text(charge, "id"), amount);
    disputes::acted_on(store, text(charge, "id"));
    events::emit(store, "charge.refunded", text(charge, "id"));
    events::emit(store, "refund.created", &id);
    events::emit(store, "charge.refund.updated", &id);
    id
}

/// The bank decides about a refund that takes time.
pub(super) fn fall_due(store: &mut ObjectStore, id: &str) {
    let fails = store.get(id).is_some_and(|refund| flag(refund, "_.fails"));
    let outcome = if fails { Err("lost_or_stolen_card") } else { Ok(()) };
    drop(settle(store, id, outcome));
}

/// Adds an amount to what was refunded of a charge.
fn add_refunded(store: &mut ObjectStore, charge: &str, amount: i64) {
    store.change(charge, |charge| {
        let refunded = whole(charge, "amount_refunded") + amount;
        let all = refunded == whole(charge, "amount_captured");
        set(charge, "amount_refunded", refunded);
        set(charge, "refunded", all);
    });
}

/// A refund succeeds, or fails, which returns the money to the merchant. A successful refund can
/// fail later too.
pub(super) fn settle(
    store: &mut ObjectStore,
    id: &str,
    outcome: Result<(), &str>,
) -> Result<Value, ApiError> {
    let refund = store.find("refund", id, "id")?.clone();
    match (text(&refund, "status"), outcome) {
        ("pending", Ok(())) => store.change(id, |refund| {
            set(refund, "status", "succeeded");
            set(refund, "pending_reason", Value::Null);
        }),
        ("pending" | "succeeded", Err(reason)) => {
            store.change(id, |refund| {
                set(refund, "status", "failed");
                set(refund, "failure_reason", reason);
                set(refund, "pending_reason", Value::Null);
            });
            add_refunded(store, text(&refund, "charge"), -whole(&refund, "amount"));
            events::emit(store, "refund.failed", id);
        }
        (status, _) => {
            return Err(ApiError::invalid(format!("This refund is {status} already.")));
        }
    }
    events::emit_changed(store, "refund.updated", &refund);
    events::emit_changed(store, "charge.refund.updated", &refund);
    store.find("refund", id, "id").cloned()
}

fn charge_of(call: &ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let id = match (params.text("charge"), params.text("payment_intent")) {
        (Some(charge), None) => charge.to_owned(),
        (None, Some(intent)) => {
            let intent = call.store.find("payment_intent", intent, "payment_intent")?;
            if text(intent, "status") != "succeeded" {
                let message = format!(
                    "This PaymentIntent ({}) does not have a successful charge to refund.",
                    text(intent, "id")
                );
                return Err(ApiError::invalid(message));
            }
            text(intent, "latest_charge").to_owned()
        }
        _ => {
            return Err(ApiError::invalid(
                "One of the following params should be provided for this request: payment_intent or charge.",
            ));
        }
    };
    let charge = call.store.find("charge", &id, "charge")?;
    if text(charge, "status") != "succeeded" {
        return Err(ApiError::invalid(format!(
            "Charge {id} was not successful and cannot be refunded."
        )));
    }
    Ok(charge.clone())
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("refund", &id, "id").cloned()
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find("refund", &id, "id")?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    call.store.change(&id, |refund| set(refund, "metadata", metadata));
    events::emit_changed(call.store, "refund.updated", &before);
    events::emit_changed(call.store, "charge.refund.updated", &before);
    call.store.find("refund", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    lists::page(call, "refund", "/v1/refunds", |refund| {
        charge.is_none_or(|charge| text(refund, "charge") == charge)
            && intent.is_none_or(|intent| text(refund, "payment_intent") == intent)
    })
}
