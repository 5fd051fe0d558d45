//! Writing an invoice: its lines, discounts, tax and sum, and what the customer's balance does to it.

use serde_json::{Value, json};

use super::super::balance::{self, Movement};
use super::super::books::Books;
use super::super::fields::{at, list, set, text, whole};
use super::super::rounding::share;
use super::super::{coupons, events, rules};
use super::lines::{Line, discounted, net, take_pending, written};
use super::lines_object;

/// What an invoice is made of.
pub(in super::super) struct Bill<'a> {
    pub(in super::super) customer: &'a str,
    pub(in super::super) subscription: &'a str,
    pub(in super::super) reason: &'a str,
    pub(in super::super) lines: Vec<Line>,
}

/// What the lines of an invoice come to.
struct Sums {
    /// Before discounts.
    subtotal: i64,
    /// After discounts.
    net: i64,
    tax: i64,
    /// What each discount takes off.
    discounts: Vec<Value>,
}

/// Below this many cents nothing is charged; the amount is carried on the customer's balance.
const CHARGE_MIN: i64 = 50;
/// 100 percent, in hundredths of a percent.
const ALL_BP: i64 = 10_000;

/// Makes an invoice of the lines and of all that waits for the next invoice of the subscription, and closes it for
/// changes; gives its id. One that needs no charge is paid.
pub(in super::super) fn make(books: &mut Books, mut bill: Bill<'_>) -> String {
    let own = std::mem::take(&mut bill.lines);
    let has_own = !own.is_empty();
    let id = books.new_id("in");
    let mut lines = take_pending(books, bill.subscription, &id);
    for line in discounted(books, bill.subscription, own) {
        let shown = written(books, &line, bill.subscription, &id);
        lines.push(shown);
    }
    let sums = sums(books, &lines);
    let invoice = blank(books, &bill, &id, (&lines, &sums));
    books.put(invoice);
    if has_own {
        coupons::used_up(books, bill.subscription);
    }
    events::emit(books, "invoice.created", &id);
    close(books, &id, sums.net + sums.tax);
    id
}

fn sums(books: &Books, lines: &[Value]) -> Sums {
    let after_discounts: i64 = lines.iter().map(net).sum();
    let mut discounts: Vec<(&str, i64)> = Vec::new();
    for one in lines.iter().flat_map(|line| list(line, "discount_amounts")) {
        let (id, off) = (text(one, "discount"), whole(one, "amount"));
        match discounts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, sum)) => *sum += off,
            None => discounts.push((id, off)),
        }
    }
    Sums {
        subtotal: lines.iter().map(|line| whole(line, "amount")).sum(),
        net: after_discounts,
        tax: tax_on(books, after_discounts),
        discounts: discounts
            .into_iter()
            .map(|(id, off)| json!({"amount": off, "discount": id}))
            .collect(),
    }
}

/// The tax on what is left after discounts; on a credit there is none.
pub(in super::super) fn tax_on(books: &Books, after_discounts: i64) -> i64 {
    if after_discounts > 0 { share(after_discounts, rules::tax_bp(books), ALL_BP) } else { 0 }
}

/// The taxes of an invoice: one, if there is any.
fn taxes(sums: &Sums) -> Value {
    let one = json!({
        "amount": sums.tax, "tax_behavior": "exclusive", "tax_rate_details": {"tax_rate": "txr_sandbox"},
        "taxability_reason": "standard_rated", "taxable_amount": sums.net, "type": "tax_rate_details",
    });
    if sums.tax > 0 { json!([one]) } else { json!([]) }
}

/// The start of the period that an invoice looks back on: of a renewal, the one before it.
fn looks_back_to(books: &Books, subscription: &Value, reason: &str) -> i64 {
    let first = list(subscription, "items.data").first();
    let start = first.map_or(books.now, |item| whole(item, "current_period_start"));
    match at(subscription, "_.period_before").as_i64() {
        Some(before) if reason == "subscription_cycle" && start == books.now => before,
        _ => start,
    }
}

fn blank(books: &mut Books, bill: &Bill<'_>, id: &str, (lines, sums): (&[Value], &Sums)) -> Value {
    let subscription = books.get(bill.subscription).cloned().unwrap_or_default();
    let customer = books.get(bill.customer).cloned().unwrap_or_default();
    let number = format!("SANDBOX-{:04}", books.all("invoice").count() + 1);
    let parent = (!bill.subscription.is_empty()).then(|| {
        json!({
            "quote_details": null,
            "subscription_details": {"metadata": at(&subscription, "metadata"), "subscription": bill.subscription},
            "type": "subscription_details",
        })
    });
    let currency = lines.first().map_or("usd", |line| text(line, "currency"));
    let total = sums.net + sums.tax;
    let discounts: Vec<&Value> = sums.discounts.iter().map(|one| at(one, "discount")).collect();
    json!({
        "id": id, "object": "invoice", "account_country": "US", "account_name": "Sandbox", "amount_due": total,
        "amount_overpaid": 0, "amount_paid": 0, "amount_remaining": total, "amount_shipping": 0, "application": null,
        "attempt_count": 0, "attempted": false, "auto_advance": true, "automatic_tax": {"enabled": false, "status": null},
        "automatically_finalizes_at": null, "billing_reason": bill.reason, "collection_method": "charge_automatically",
        "created": books.now, "currency": currency, "custom_fields": null, "customer": bill.customer,
        "customer_email": at(&customer, "email"), "customer_name": at(&customer, "name"), "default_payment_method": null,
        "default_source": null, "description": null, "discounts": discounts, "due_date": null, "effective_at": books.now,
        "ending_balance": 0, "footer": null, "from_invoice": null, "hosted_invoice_url": null, "invoice_pdf": null,
        "last_finalization_error": null, "latest_revision": null, "lines": lines_object(id, lines), "livemode": false,
        "metadata": {}, "next_payment_attempt": null, "number": number, "parent": parent,
        "payment_settings": {"default_mandate": null, "payment_method_options": null, "payment_method_types": null},
        "period_end": books.now, "period_start": looks_back_to(books, &subscription, bill.reason),
        "post_payment_credit_notes_amount": 0, "pre_payment_credit_notes_amount": 0, "receipt_number": null,
        "starting_balance": 0, "status": "open",
        "status_transitions": {"finalized_at": books.now, "marked_uncollectible_at": null, "paid_at": null, "voided_at": null},
        "subtotal": sums.subtotal, "subtotal_excluding_tax": sums.subtotal, "total": total,
        "total_discount_amounts": sums.discounts, "total_excluding_tax": sums.net, "total_taxes": taxes(sums),
        "webhooks_delivered_at": null,
    })
}

/// Lets the customer's balance pay what it can, and closes the invoice.
fn close(books: &mut Books, id: &str, total: i64) {
    let invoice = books.get(id).cloned().unwrap_or_default();
    let customer = text(&invoice, "customer");
    let before = books.get(customer).map_or(0, |customer| whole(customer, "balance"));
    let sum = total + before;
    // A credit that is left, or an amount too small to charge, waits on the balance.
    let (due, after) = if sum < CHARGE_MIN { (0, sum) } else { (sum, 0) };
    let (now, paid) = (books.now, due == 0);
    books.change(id, |invoice| {
        set(invoice, "starting_balance", before);
        set(invoice, "ending_balance", after);
        set(invoice, "amount_due", due);
        set(invoice, "amount_remaining", due);
        set(invoice, "attempted", paid);
        if paid {
            set(invoice, "status", "paid");
            set(invoice, "status_transitions.paid_at", now);
        }
    });
    let kind = if sum > 0 && paid { "invoice_too_small" } else { "applied_to_invoice" };
    let movement = Movement::of_invoice(&invoice, kind, after - before);
    let _id = balance::move_by(books, customer, &movement);
    events::emit(books, "invoice.finalized", id);
    if paid {
        events::emit(books, "invoice.paid", id);
        events::emit(books, "invoice.payment_succeeded", id);
    }
}
