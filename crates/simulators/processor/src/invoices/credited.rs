//! What credit notes change about an invoice.

use super::collect;
use crate::fields::{set, text, whole};
use crate::object_store::ObjectStore;
use crate::{events, subscriptions};

/// Adds credited amounts: by `before` an open invoice asks for less, `after` went back of a paid
/// one. Negative ones are taken off again.
pub(crate) fn credit(store: &mut ObjectStore, invoice: &str, before: i64, after: i64) {
    store.change(invoice, |invoice| {
        let noted = whole(invoice, "pre_payment_credit_notes_amount") + before;
        let returned = whole(invoice, "post_payment_credit_notes_amount") + after;
        set(invoice, "pre_payment_credit_notes_amount", noted);
        set(invoice, "post_payment_credit_notes_amount", returned);
        if before != 0 {
            let left = whole(invoice, "amount_remaining") - before;
            set(invoice, "amount_remaining", left);
            set(invoice, "amount_due", left);
        }
    });
    let left = store.get(invoice).map_or(0, |invoice| whole(invoice, "amount_remaining"));
    if before != 0 && left > 0 {
        collect::ask_for(store, invoice, left);
    }
}

/// An open invoice that asks for nothing any more is paid.
pub(crate) fn settle_credited(store: &mut ObjectStore, id: &str) {
    let is_settled = |invoice: &serde_json::Value| {
        text(invoice, "status") == "open" && whole(invoice, "amount_remaining") == 0
    };
    if !store.get(id).is_some_and(is_settled) {
        return;
    }
    collect::abandon(store, id);
    let now = store.now;
    store.change(id, |invoice| {
        set(invoice, "status", "paid");
        set(invoice, "attempted", true);
        set(invoice, "next_payment_attempt", serde_json::Value::Null);
        set(invoice, "status_transitions.paid_at", now);
        set(invoice, "_.due", serde_json::Value::Null);
    });
    events::emit(store, "invoice.paid", id);
    events::emit(store, "invoice.payment_succeeded", id);
    subscriptions::invoice_paid(store, id);
}
