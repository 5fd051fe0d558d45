//! What time does to a subscription: renewals, the end of a trial, tries to collect what is owed, the end.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::charges::How;
use super::super::fields::{flag, set, text, whole};
use super::super::invoices::{self, Bill, Collected};
use super::super::{events, rules};
use super::{end, next_period, period, set_period};

const NOBODY_THERE: How = How { off_session: true, authenticated: false };

/// The moment has come that the subscription waited for.
pub(in super::super) fn pass_time(books: &mut Books, id: &str) {
    let Some(subscription) = books.get(id).cloned() else { return };
    match text(&subscription, "status") {
        "incomplete" => {
            books.change(id, |subscription| {
                set(subscription, "status", "incomplete_expired");
                set(subscription, "_.due", Value::Null);
            });
            events::emit_changed(books, "customer.subscription.updated", &subscription);
        }
        "canceled" | "incomplete_expired" => books.change(id, |it| set(it, "_.due", Value::Null)),
        _ if flag(&subscription, "cancel_at_period_end") => {
            end(books, id);
            settle(books, id, "subscription_cycle");
        }
        "trialing" => end_trial(books, id),
        _ => renew(books, id),
    }
}

/// The trial is over: the first period that is paid for begins.
pub(super) fn end_trial(books: &mut Books, id: &str) {
    let now = books.now;
    books.change(id, |subscription| {
        set(subscription, "billing_cycle_anchor", now);
        set(subscription, "trial_end", now);
        set(subscription, "status", "active");
        let start = period(subscription).0;
        set_period(subscription, (start, now));
    });
    renew(books, id);
}

/// The next period begins and is charged, together with what waited for it.
fn renew(books: &mut Books, id: &str) {
    let Some(before) = books.get(id).cloned() else { return };
    let (next, last) = (next_period(&before), period(&before));
    books.change(id, |subscription| {
        set(subscription, "_.period_before", last.0);
        set_period(subscription, next);
        set(subscription, "_.due", next.1);
    });
    let subscription = books.get(id).cloned().unwrap_or_default();
    let lines = invoices::lines_of(&subscription, next, books);
    let customer = text(&before, "customer");
    let bill = Bill { customer, subscription: id, reason: "subscription_cycle", lines };
    let invoice = invoices::make(books, bill);
    books.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    events::emit_changed(books, "customer.subscription.updated", &before);
    if books.get(&invoice).is_some_and(|invoice| text(invoice, "status") == "paid") {
        super::invoice_paid(books, &invoice);
    }
    collect(books, id, &invoice);
}

fn collect(books: &mut Books, id: &str, invoice: &str) {
    match invoices::collect(books, invoice, NOBODY_THERE) {
        Collected::Paid => {}
        Collected::WantsAction | Collected::Failed(_) => owe(books, id, invoice),
    }
}

/// What waits for the next invoice of a subscription is settled, because there is no next one: credit stays the
/// customer's, and what is owed is charged.
pub(super) fn settle(books: &mut Books, id: &str, reason: &str) {
    if invoices::pending_of(books, id).is_empty() {
        return;
    }
    let customer = books.get(id).map(|it| text(it, "customer").to_owned()).unwrap_or_default();
    let bill = Bill { customer: &customer, subscription: id, reason, lines: Vec::new() };
    let invoice = invoices::make(books, bill);
    books.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    collect(books, id, &invoice);
}

/// Money is owed: the invoice is tried again. After the last try the invoice stays open, and a subscription that waits
/// for its money ends.
fn owe(books: &mut Books, id: &str, invoice: &str) {
    let created = books.get(invoice).map_or(books.now, |invoice| whole(invoice, "created"));
    let attempts = rules::retries_s(books).into_iter().map(|after_s| created + after_s);
    let next = attempts.filter(|at| *at > books.now).min();
    books.change(invoice, |invoice| {
        set(invoice, "next_payment_attempt", json!(next));
        set(invoice, "_.due", json!(next));
    });
    let Some(before) = books.get(id).cloned() else { return };
    // A newer invoice may have been paid since.
    if text(&before, "status") == "active" && text(&before, "latest_invoice") == invoice {
        books.change(id, |subscription| set(subscription, "status", "past_due"));
        events::emit_changed(books, "customer.subscription.updated", &before);
    }
    let is_owing = books.get(id).is_some_and(|it| text(it, "status") == "past_due");
    if next.is_none() && is_owing {
        end(books, id);
        stop_tries(books, id);
    }
}

/// No invoice of a subscription is tried again; all stay open.
pub(super) fn stop_tries(books: &mut Books, id: &str) {
    let path = "parent.subscription_details.subscription";
    let open =
        books.all("invoice").filter(|it| text(it, path) == id && text(it, "status") == "open");
    let open: Vec<String> = open.map(|invoice| text(invoice, "id").to_owned()).collect();
    for invoice in open {
        books.change(&invoice, |invoice| {
            set(invoice, "next_payment_attempt", Value::Null);
            set(invoice, "auto_advance", false);
            set(invoice, "_.due", Value::Null);
        });
    }
}

/// An invoice that is owed is tried again.
pub(in super::super) fn attempt_again(books: &mut Books, invoice: &str) {
    books.change(invoice, |invoice| set(invoice, "_.due", Value::Null));
    let path = "parent.subscription_details.subscription";
    let id = books.get(invoice).map(|invoice| text(invoice, path).to_owned()).unwrap_or_default();
    collect(books, &id, invoice);
}
