//! Disputes: a bank inquires about a payment or takes it back, and returns it if the merchant wins;
//! and warnings of fraud.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, lists, render};

/// The parameters of updating one.
pub(super) const UPDATE_PARAMS: &[&str] = &["evidence.*?", "submit", "metadata?", "metadata.*?"];

/// How a dispute begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisputeStart {
    /// The bank takes the money.
    Chargeback,
    /// The bank asks; no money moves.
    Inquiry,
}

/// A bank disputes a charge, for a reason; returns the id of the dispute.
pub(super) fn open(
    store: &mut ObjectStore,
    charge: &str,
    reason: &str,
    start: DisputeStart,
) -> Option<String> {
    let found = store.get(charge).filter(|charge| text(charge, "status") == "succeeded")?.clone();
    let id = store.new_id("dp");
    let is_inquiry = start == DisputeStart::Inquiry;
    store.put(json!({
        "id": id, "object": "dispute", "amount": whole(&found, "amount"), "balance_transactions": [], "charge": charge,
        "created": store.now, "currency": text(&found, "currency"), "enhanced_eligibility_types": [], "evidence": {},
        "evidence_details": {"due_by": store.now + 9 * 86_400, "has_evidence": false, "past_due": false, "submission_count": 0},
        "is_charge_refundable": is_inquiry, "livemode": false, "metadata": {},
        "payment_intent": at(&found, "payment_intent"),
        "payment_method_details": {
            "card": {"brand": "visa", "case_type": if is_inquiry { "inquiry" } else { "chargeback" }}, "type": "card",
        },
        "reason": reason, "status": if is_inquiry { "warning_needs_response" } else { "needs_response" },
    }));
    events::emit(store, "charge.dispute.created", &id);
    acted_on(store, charge);
    if !is_inquiry {
        withdraw(store, &id, charge);
    }
    Some(id)
}

fn withdraw(store: &mut ObjectStore, id: &str, charge: &str) {
    store.change(charge, |charge| set(charge, "disputed", true));
    events::emit(store, "charge.dispute.funds_withdrawn", id);
}

/// The bank decides. An inquiry that is not won becomes a chargeback.
pub(super) fn decide(store: &mut ObjectStore, id: &str, won: bool) -> Result<Value, ApiError> {
    let dispute = store.find("dispute", id, "id")?.clone();
    let charge = text(&dispute, "charge").to_owned();
    match (text(&dispute, "status"), won) {
        ("won" | "lost" | "warning_closed", _) => {
            return Err(ApiError::invalid("This dispute is already closed."));
        }
        ("warning_needs_response" | "warning_under_review", true) => {
            store.change(id, |dispute| set(dispute, "status", "warning_closed"));
            events::emit(store, "charge.dispute.closed", id);
        }
        ("warning_needs_response" | "warning_under_review", false) => {
            store.change(id, |dispute| {
                set(dispute, "status", "needs_response");
                set(dispute, "is_charge_refundable", false);
                set(dispute, "payment_method_details.card.case_type", "chargeback");
            });
            events::emit_changed(store, "charge.dispute.updated", &dispute);
            withdraw(store, id, &charge);
        }
        (_, won) => {
            store.change(id, |dispute| set(dispute, "status", if won { "won" } else { "lost" }));
            if won {
                store.change(&charge, |charge| set(charge, "disputed", false));
                events::emit(store, "charge.dispute.funds_reinstated", id);
            }
            events::emit(store, "charge.dispute.closed", id);
        }
    }
    store.find("dispute", id, "id").cloned()
}

/// A bank warns that a charge may be fraudulent; no money moves. Returns the id of the warning.
pub(super) fn warn(store: &mut ObjectStore, charge: &str) -> Option<String> {
    let found = store.get(charge).filter(|charge| text(charge, "status") == "succeeded")?.clone();
    let id = store.new_id("issfr");
    store.put(json!({
        "id": id, "object": "radar.early_fraud_warning", "actionable": true, "charge": charge, "created": store.now,
        "fraud_type": "unauthorized_use_of_card", "livemode": false,
        "payment_intent": at(&found, "payment_intent"),
    }));
    events::emit(store, "radar.early_fraud_warning.created", &id);
    Some(id)
}

/// A charge was refunded or disputed: nothing more can be done about warnings of it.
pub(super) fn acted_on(store: &mut ObjectStore, charge: &str) {
    let is_about = |warning: &&Value| {
        text(warning, "charge") == charge && at(warning, "actionable") == &Value::Bool(true)
    };
    let warnings: Vec<Value> =
        store.all("radar.early_fraud_warning").filter(is_about).cloned().collect();
    for before in warnings {
        store.change(text(&before, "id"), |warning| set(warning, "actionable", false));
        events::emit_changed(store, "radar.early_fraud_warning.updated", &before);
    }
}

pub(super) fn retrieve_warning(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("radar.early_fraud_warning", &id, "id").cloned()
}

pub(super) fn list_warnings(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    lists::page(call, "radar.early_fraud_warning", "/v1/radar/early_fraud_warnings", |warning| {
        charge.is_none_or(|charge| text(warning, "charge") == charge)
            && intent.is_none_or(|intent| text(warning, "payment_intent") == intent)
    })
}

/// The merchant accepts the dispute, which is lost; an inquiry just ends.
pub(super) fn close(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let is_inquiry = text(call.store.find("dispute", &id, "id")?, "status").starts_with("warning_");
    decide(call.store, &id, is_inquiry)
}

/// The merchant sends evidence, or notes something.
pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find("dispute", &id, "id")?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let has_evidence = call.params.has("evidence");
    let evidence = call.params.nested("evidence");
    let is_submitted = has_evidence && call.params.flag("submit")?.unwrap_or(true);
    let review = match text(&before, "status") {
        "needs_response" => Some("under_review"),
        "warning_needs_response" => Some("warning_under_review"),
        _ if has_evidence => {
            return Err(ApiError::invalid("This dispute no longer takes evidence."));
        }
        _ => None,
    };
    call.store.change(&id, |dispute| {
        set(dispute, "metadata", metadata);
        if has_evidence {
            set(dispute, "evidence", evidence);
            set(dispute, "evidence_details.has_evidence", true);
        }
        if let Some(review) = review.filter(|_| is_submitted) {
            set(dispute, "status", review);
            set(dispute, "evidence_details.submission_count", 1);
        }
    });
    events::emit_changed(call.store, "charge.dispute.updated", &before);
    call.store.find("dispute", &id, "id").cloned()
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
