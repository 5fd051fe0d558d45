//! What time does to a subscription: renewals, the end of a trial, tries to collect what is owed, the end.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::charges::How;
use super::super::events;
use super::super::fields::{flag, set, text, whole};
use super::super::invoices::{self, Bill, Collected};
use super::{end, next_period, period, set_period};

/// An invoice that was not paid is tried again so many days after the first try; after the last the subscription ends.
const ATTEMPTS_AFTER_DAYS: [i64; 3] = [3, 8, 15];
const DAY_S: i64 = 86_400;
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
        _ if flag(&subscription, "cancel_at_period_end") => end(books, id),
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
    let next = next_period(&before);
    books.change(id, |subscription| {
        set_period(subscription, next);
        set(subscription, "_.due", next.1);
    });
    let subscription = books.get(id).cloned().unwrap_or_default();
    let lines = invoices::lines_of(&subscription, next, books);
    let customer = text(&before, "customer");
    let bill = Bill { customer, subscription: id, reason: "subscription_cycle", lines };
    let invoice = invoices::make(books, &bill);
    books.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    events::emit_changed(books, "customer.subscription.updated", &before);
    collect(books, id, &invoice);
}

fn collect(books: &mut Books, id: &str, invoice: &str) {
    match invoices::collect(books, invoice, NOBODY_THERE) {
        Collected::Paid => {}
        Collected::WantsAction | Collected::Failed(_) => owe(books, id, invoice),
    }
}

/// The subscription waits for money: the invoice is tried again, until there is no try left.
fn owe(books: &mut Books, id: &str, invoice: &str) {
    let created = books.get(invoice).map_or(books.now, |invoice| whole(invoice, "created"));
    let attempts = ATTEMPTS_AFTER_DAYS.map(|days| created + days * DAY_S);
    let next = attempts.into_iter().find(|at| *at > books.now);
    books.change(invoice, |invoice| {
        set(invoice, "next_payment_attempt", json!(next));
        set(invoice, "_.due", json!(next));
    });
    if next.is_none() {
        end(books, id);
        return;
    }
    let Some(before) = books.get(id).cloned() else { return };
    if text(&before, "status") == "active" {
        books.change(id, |subscription| set(subscription, "status", "past_due"));
        events::emit_changed(books, "customer.subscription.updated", &before);
    }
}

/// An invoice that is owed is tried again.
pub(in super::super) fn attempt_again(books: &mut Books, invoice: &str) {
    books.change(invoice, |invoice| set(invoice, "_.due", Value::Null));
    let path = "parent.subscription_details.subscription";
    let id = books.get(invoice).map(|invoice| text(invoice, path).to_owned()).unwrap_or_default();
    collect(books, &id, invoice);
}
