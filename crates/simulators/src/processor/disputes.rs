//! Disputes: a bank takes a payment back, and gives it back when the merchant is right.

use serde_json::{Value, json};

use super::books::Books;
use super::fields::{at, set, text, whole};
use super::problem::Problem;
use super::routes::Call;
use super::{events, lists};

/// The bank takes a charge back; gives the id of the dispute.
pub(super) fn open(books: &mut Books, charge: &str, reason: &str) -> Option<String> {
    let found = books.get(charge).filter(|charge| text(charge, "status") == "succeeded")?.clone();
    let id = books.new_id("dp");
    books.put(json!({
        "id": id, "object": "dispute", "amount": whole(&found, "amount"), "balance_transactions": [], "charge": charge,
        "created": books.now, "currency": text(&found, "currency"), "enhanced_eligibility_types": [], "evidence": {},
        "evidence_details": {"due_by": books.now + 9 * 86_400, "has_evidence": false, "past_due": false, "submission_count": 0},
        "is_charge_refundable": false, "livemode": false, "metadata": {}, "payment_intent": at(&found, "payment_intent"),
        "payment_method_details": {"card": {"brand": "visa", "case_type": "chargeback"}, "type": "card"}, "reason": reason,
        "status": "needs_response",
    }));
    books.change(charge, |charge| set(charge, "disputed", true));
    events::emit(books, "charge.dispute.created", &id);
    events::emit(books, "charge.dispute.funds_withdrawn", &id);
    Some(id)
}

/// The bank decides.
pub(super) fn decide(books: &mut Books, id: &str, won: bool) -> Result<Value, Problem> {
    let dispute = books.find("dispute", id, "id")?;
    if matches!(text(dispute, "status"), "won" | "lost") {
        return Err(Problem::invalid("This dispute is already closed."));
    }
    let charge = text(dispute, "charge").to_owned();
    books.change(id, |dispute| set(dispute, "status", if won { "won" } else { "lost" }));
    if won {
        books.change(&charge, |charge| set(charge, "disputed", false));
        events::emit(books, "charge.dispute.funds_reinstated", id);
    }
    events::emit(books, "charge.dispute.closed", id);
    books.find("dispute", id, "id").cloned()
}

/// The merchant gives in.
pub(super) fn close(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    decide(call.books, &id, false)
}

pub(super) fn retrieve(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    call.books.find("dispute", &id, "id").cloned()
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Value, Problem> {
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    lists::page(call, "dispute", "/v1/disputes", |dispute| {
        charge.is_none_or(|charge| text(dispute, "charge") == charge)
            && intent.is_none_or(|intent| text(dispute, "payment_intent") == intent)
    })
}
