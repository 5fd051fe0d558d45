//! The effects of time on a subscription: renewals, the end of a trial, retries of unpaid invoices,
//! the end.

use serde_json::{Value, json};

use super::items::{next_period, period, set_period};
use super::start::{announce_end_of_trial, has_method};
use super::state::{end, invoice_paid};
use crate::charges::ChargeMode;
use crate::fields::{at, flag, set, text, whole};
use crate::invoices::{self, CollectionOutcome, InvoiceDraft};
use crate::object_store::ObjectStore;
use crate::{events, rules};

const NOBODY_THERE: ChargeMode = ChargeMode { off_session: true, authenticated: false };

/// The time for which the subscription was waiting has come.
pub(crate) fn pass_time(store: &mut ObjectStore, id: &str) {
    let Some(subscription) = store.get(id).cloned() else { return };
    match text(&subscription, "status") {
        "incomplete" => {
            store.change(id, |subscription| {
                set(subscription, "status", "incomplete_expired");
                set(subscription, "_.due", Value::Null);
            });
            events::emit_changed(store, "customer.subscription.updated", &subscription);
        }
        "canceled" | "incomplete_expired" => store.change(id, |it| set(it, "_.due", Value::Null)),
        _ if flag(&subscription, "cancel_at_period_end") => {
            end(store, id);
            settle(store, id, "subscription_cycle");
        }
        "trialing" if at(&subscription, "trial_end").as_i64() > Some(store.now) => {
            announce_end_of_trial(store, id);
        }
        "trialing" => end_trial(store, id),
        "paused" => {}
        _ => renew(store, id),
    }
}

/// The trial has ended: the first paid period starts.
pub(super) fn end_trial(store: &mut ObjectStore, id: &str) {
    let now = store.now;
    let Some(before) = store.get(id).cloned() else { return };
    let has_own = !text(&before, "default_payment_method").is_empty();
    if !has_own && !has_method(store, text(&before, "customer")) {
        match text(&before, "trial_settings.end_behavior.missing_payment_method") {
            "cancel" => return end(store, id),
            "pause" => return pause(store, &before),
            _ => {}
        }
    }
    store.change(id, |subscription| {
        set(subscription, "billing_cycle_anchor", now);
        set(subscription, "trial_end", now);
        set(subscription, "status", "active");
        let start = period(subscription).0;
        set_period(subscription, start, now);
    });
    renew(store, id);
}

/// Nobody can pay after the trial: the subscription waits.
fn pause(store: &mut ObjectStore, before: &Value) {
    let (id, now) = (text(before, "id"), store.now);
    store.change(id, |subscription| {
        set(subscription, "status", "paused");
        set(subscription, "trial_end", now);
        set(subscription, "_.due", Value::Null);
    });
    events::emit(store, "customer.subscription.paused", id);
}

/// The next period starts and is charged, together with the pending items.
fn renew(store: &mut ObjectStore, id: &str) {
    let Some(before) = store.get(id).cloned() else { return };
    let (next, last) = (next_period(&before), period(&before));
    store.change(id, |subscription| {
        set(subscription, "_.period_before", last.0);
        set_period(subscription, next.0, next.1);
        set(subscription, "_.due", next.1);
    });
    let subscription = store.get(id).cloned().unwrap_or_default();
    let lines = invoices::lines_of(&subscription, next, store);
    let customer = text(&before, "customer");
    let bill = InvoiceDraft { customer, subscription: id, reason: "subscription_cycle", lines };
    let invoice = invoices::make(store, bill);
    store.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    events::emit_changed(store, "customer.subscription.updated", &before);
    if store.get(&invoice).is_some_and(|invoice| text(invoice, "status") == "paid") {
        invoice_paid(store, &invoice);
    }
    collect(store, id, &invoice);
}

fn collect(store: &mut ObjectStore, id: &str, invoice: &str) {
    match invoices::collect(store, invoice, NOBODY_THERE) {
        CollectionOutcome::Paid => {}
        CollectionOutcome::WantsAction | CollectionOutcome::Failed(_) => owe(store, id, invoice),
    }
}

/// Settles a subscription's pending items, because there is no next invoice: the customer keeps
/// credit, and amounts owed are charged.
pub(super) fn settle(store: &mut ObjectStore, id: &str, reason: &str) {
    if invoices::pending_of(store, id).is_empty() {
        return;
    }
    let customer = store.get(id).map(|it| text(it, "customer").to_owned()).unwrap_or_default();
    let bill = InvoiceDraft { customer: &customer, subscription: id, reason, lines: Vec::new() };
    let invoice = invoices::make(store, bill);
    store.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    collect(store, id, &invoice);
}

/// Schedules the next retry of an unpaid invoice. After the last one the invoice stays open, and a
/// subscription that is waiting for the payment ends.
fn owe(store: &mut ObjectStore, id: &str, invoice: &str) {
    let created = store.get(invoice).map_or(store.now, |invoice| whole(invoice, "created"));
    let attempts = rules::retries_s(store).into_iter().map(|after_s| created + after_s);
    let next = attempts.filter(|at| *at > store.now).min();
    store.change(invoice, |invoice| {
        set(invoice, "next_payment_attempt", json!(next));
        set(invoice, "_.due", json!(next));
    });
    let Some(before) = store.get(id).cloned() else { return };
    // A newer invoice may have been paid since.
    if text(&before, "status") == "active" && text(&before, "latest_invoice") == invoice {
        store.change(id, |subscription| set(subscription, "status", "past_due"));
        events::emit_changed(store, "customer.subscription.updated", &before);
    }
    let is_owing = store.get(id).is_some_and(|it| text(it, "status") == "past_due");
    if next.is_none() && is_owing {
        end(store, id);
        stop_tries(store, id);
    }
}

/// Stops retrying the invoices of a subscription; all stay open.
pub(super) fn stop_tries(store: &mut ObjectStore, id: &str) {
    let path = "parent.subscription_details.subscription";
    let open =
        store.all("invoice").filter(|it| text(it, path) == id && text(it, "status") == "open");
    let open: Vec<String> = open.map(|invoice| text(invoice, "id").to_owned()).collect();
    for invoice in open {
        store.change(&invoice, |invoice| {
            set(invoice, "next_payment_attempt", Value::Null);
            set(invoice, "auto_advance", false);
            set(invoice, "_.due", Value::Null);
        });
    }
}

/// Retries an unpaid invoice.
pub(crate) fn attempt_again(store: &mut ObjectStore, invoice: &str) {
    store.change(invoice, |invoice| set(invoice, "_.due", Value::Null));
    let path = "parent.subscription_details.subscription";
    let id = store.get(invoice).map(|invoice| text(invoice, path).to_owned()).unwrap_or_default();
    collect(store, &id, invoice);
}
