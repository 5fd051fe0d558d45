//! Disputes: a bank takes a payment back, and returns it if the merchant wins.

use serde_json::{Value, json};

use super::fields::{at, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::routes::ApiCall;
use super::{events, lists};

/// A bank disputes a charge; returns the id of the dispute.
pub(super) fn open(store: &mut ObjectStore, charge: &str, reason: &str) -> Option<String> {
    let found = store.get(charge).filter(|charge| text(charge, "status") == "succeeded")?.clone();
    let id = store.new_id("dp");
    store.put(json!({
        "id": id, "object": "dispute", "amount": whole(&found, "amount"), "balance_transactions": [], "charge": charge,
        "created": store.now, "currency": text(&found, "currency"), "enhanced_eligibility_types": [], "evidence": {},
        "evidence_details": {"due_by": store.now + 9 * 86_400, "has_evidence": false, "past_due": false, "submission_count": 0},
        "is_charge_refundable": false, "livemode": false, "metadata": {}, "payment_intent": at(&found, "payment_intent"),
        "payment_method_details": {"card": {"brand": "visa", "case_type": "chargeback"}, "type": "card"}, "reason": reason,
        "status": "needs_response",
    }));
    store.change(charge, |charge| set(charge, "disputed", true));
    events::emit(store, "charge.dispute.created", &id);
    events::emit(store, "charge.dispute.funds_withdrawn", &id);
    Some(id)
}

/// The bank decides.
pub(super) fn decide(store: &mut ObjectStore, id: &str, won: bool) -> Result<Value, ApiError> {
    let dispute = store.find("dispute", id, "id")?;
    if matches!(text(dispute, "status"), "won" | "lost") {
        return Err(ApiError::invalid("This dispute is already closed."));
    }
    let charge = text(dispute, "charge").to_owned();
    store.change(id, |dispute| set(dispute, "status", if won { "won" } else { "lost" }));
    if won {
        store.change(&charge, |charge| set(charge, "disputed", false));
        events::emit(store, "charge.dispute.funds_reinstated", id);
    }
    events::emit(store, "charge.dispute.closed", id);
    store.find("dispute", id, "id").cloned()
}

/// The merchant accepts the dispute.
pub(super) fn close(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    decide(call.store, &id, false)
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("dispute", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    lists::page(call, "dispute", "/v1/disputes", |dispute| {
        charge.is_none_or(|charge| text(dispute, "charge") == charge)
            && intent.is_none_or(|intent| text(dispute, "payment_intent") == intent)
    })
}
