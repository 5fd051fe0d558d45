//! Creating an invoice: its lines, discounts, tax and total, and the effect of the customer's
//! balance.

use serde_json::{Value, json};

use super::lines::lines_object;
use super::lines::{InvoiceLine, discounted, net, take_pending, written};
use crate::balance::{self, BalanceMovement};
use crate::fields::{at, flag, list, set, text, whole};
use crate::object_store::ObjectStore;
use crate::taxes::{self, TaxTerms};
use crate::{coupons, events};

/// The parts of a new invoice.
pub(crate) struct InvoiceDraft<'a> {
    pub(crate) customer: &'a str,
    pub(crate) subscription: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) lines: Vec<InvoiceLine>,
}

/// The totals of an invoice's lines.
struct InvoiceSums {
    /// Before discounts.
    subtotal: i64,
    /// After discounts.
    net: i64,
    tax: i64,
    /// The tax as an invoice shows it.
    taxes: Value,
    /// The amount of each discount.
    discounts: Vec<Value>,
}

/// The lowest amount that is charged, in cents; a lower one is carried on the customer's balance.
const CHARGE_MIN: i64 = 50;

/// Creates an invoice from the lines and all pending items of the subscription, and finalizes it;
/// returns its id. It is paid if it needs no charge.
pub(crate) fn make(store: &mut ObjectStore, mut bill: InvoiceDraft<'_>) -> String {
    let own = std::mem::take(&mut bill.lines);
    let has_own = !own.is_empty();
    let id = store.new_id("in");
    let mut lines = take_pending(store, bill.subscription, &id);
    for line in discounted(store, bill.subscription, own) {
        let shown = written(store, &line, bill.subscription, &id);
        lines.push(shown);
    }
    let total = put(store, &bill, &id, lines);
    if has_own {
        coupons::used_up(store, bill.subscription);
    }
    events::emit(store, "invoice.created", &id);
    close(store, &id, total);
    id
}

/// Adds the invoice with these lines to the store; returns its total.
fn put(store: &mut ObjectStore, bill: &InvoiceDraft<'_>, id: &str, mut lines: Vec<Value>) -> i64 {
    let sums = sums(store, bill, &mut lines);
    let invoice = blank(store, bill, id, &lines, &sums);
    store.put(invoice);
    sums.net + sums.tax
}

/// Adds the draft of an invoice with these lines to the store.
pub(super) fn draft(store: &mut ObjectStore, bill: &InvoiceDraft<'_>, id: &str, lines: Vec<Value>) {
    let _total = put(store, bill, id, lines);
    store.change(id, |invoice| {
        set(invoice, "status", "draft");
        set(invoice, "number", Value::Null);
        set(invoice, "effective_at", Value::Null);
        set(invoice, "status_transitions.finalized_at", Value::Null);
    });
}

/// Finalizes a draft.
pub(super) fn finalize(store: &mut ObjectStore, id: &str) {
    let numbered = store.all("invoice").filter(|invoice| !at(invoice, "number").is_null()).count();
    let now = store.now;
    store.change(id, |invoice| {
        set(invoice, "status", "open");
        set(invoice, "number", format!("SANDBOX-D{:04}", numbered + 1));
        set(invoice, "effective_at", now);
        set(invoice, "status_transitions.finalized_at", now);
    });
    let total = store.get(id).map_or(0, |invoice| whole(invoice, "total"));
    close(store, id, total);
}

/// The sums of an invoice's lines, each of which gets its share of the tax.
fn sums(store: &ObjectStore, bill: &InvoiceDraft<'_>, lines: &mut [Value]) -> InvoiceSums {
    let customer = store.get(bill.customer).unwrap_or(&Value::Null);
    let automatic = store.get(bill.subscription).map_or(&Value::Null, |it| at(it, "automatic_tax"));
    let terms = TaxTerms::of(store, customer, automatic);
    let nets: Vec<i64> = lines.iter().map(net).collect();
    for ((line, net), tax) in lines.iter_mut().zip(&nets).zip(terms.on_each(&nets)) {
        set(line, "taxes", terms.written(tax, *net));
    }
    let after_discounts = nets.iter().sum();
    let mut discounts: Vec<(&str, i64)> = Vec::new();
    for one in lines.iter().flat_map(|line| list(line, "discount_amounts")) {
        let (id, off) = (text(one, "discount"), whole(one, "amount"));
        match discounts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, sum)) => *sum += off,
            None => discounts.push((id, off)),
        }
    }
    InvoiceSums {
        subtotal: lines.iter().map(|line| whole(line, "amount")).sum(),
        net: after_discounts,
        tax: terms.on(after_discounts),
        taxes: terms.written(terms.on(after_discounts), after_discounts),
        discounts: discounts
            .into_iter()
            .map(|(id, off)| json!({"amount": off, "discount": id}))
            .collect(),
    }
}

/// The start of the period that an invoice refers to: for a renewal, the previous one.
fn looks_back_to(store: &ObjectStore, subscription: &Value, reason: &str) -> i64 {
    let first = list(subscription, "items.data").first();
    let start = first.map_or(store.now, |item| whole(item, "current_period_start"));
    match at(subscription, "_.period_before").as_i64() {
        Some(before) if reason == "subscription_cycle" && start == store.now => before,
        _ => start,
    }
}

fn blank(
    store: &mut ObjectStore,
    bill: &InvoiceDraft<'_>,
    id: &str,
    lines: &[Value],
    sums: &InvoiceSums,
) -> Value {
    let subscription = store.get(bill.subscription).cloned().unwrap_or_default();
    let customer = store.get(bill.customer).cloned().unwrap_or_default();
    let number = format!("SANDBOX-{:04}", store.all("invoice").count() + 1);
    let parent = (!bill.subscription.is_empty()).then(|| {
        json!({
            "quote_details": null,
            "subscription_details": {"metadata": at(&subscription, "metadata"), "subscription": bill.subscription},
            "type": "subscription_details",
        })
    });
    let is_automatic = flag(&subscription, "automatic_tax.enabled");
    let automatic = taxes::automatic(is_automatic, is_automatic.then_some("complete"));
    let currency = lines.first().map_or("usd", |line| text(line, "currency"));
    let total = sums.net + sums.tax;
    let discounts: Vec<&Value> = sums.discounts.iter().map(|one| at(one, "discount")).collect();
    json!({
        "id": id, "object": "invoice", "account_country": "US", "account_name": "Sandbox", "amount_due": total,
        "amount_overpaid": 0, "amount_paid": 0, "amount_remaining": total, "amount_shipping": 0, "application": null,
        "attempt_count": 0, "attempted": false, "auto_advance": true, "automatic_tax": automatic,
        "automatically_finalizes_at": null, "billing_reason": bill.reason, "collection_method": "charge_automatically",
        "created": store.now, "currency": currency, "custom_fields": null, "customer": bill.customer,
        "customer_address": at(&customer, "address"), "customer_email": at(&customer, "email"),
        "customer_name": at(&customer, "name"), "customer_tax_ids": taxes::short_tax_ids(&customer), "default_payment_method": null,
        "default_source": null, "description": null, "discounts": discounts, "due_date": null, "effective_at": store.now,
        "ending_balance": 0, "footer": null, "from_invoice": null, "hosted_invoice_url": null, "invoice_pdf": null,
        "last_finalization_error": null, "latest_revision": null, "lines": lines_object(id, lines), "livemode": false,
        "metadata": {}, "next_payment_attempt": null, "number": number, "parent": parent,
        "payment_settings": {"default_mandate": null, "payment_method_options": null, "payment_method_types": null},
        "period_end": store.now, "period_start": looks_back_to(store, &subscription, bill.reason),
        "post_payment_credit_notes_amount": 0, "pre_payment_credit_notes_amount": 0, "receipt_number": null,
        "starting_balance": 0, "status": "open",
        "status_transitions": {"finalized_at": store.now, "marked_uncollectible_at": null, "paid_at": null, "voided_at": null},
        "subtotal": sums.subtotal, "subtotal_excluding_tax": sums.subtotal, "total": total,
        "total_discount_amounts": sums.discounts, "total_excluding_tax": sums.net, "total_taxes": sums.taxes,
        "webhooks_delivered_at": null,
    })
}

/// Applies the customer's balance to the total, and finalizes the invoice.
fn close(store: &mut ObjectStore, id: &str, total: i64) {
    let invoice = store.get(id).cloned().unwrap_or_default();
    let customer = text(&invoice, "customer");
    let before = store.get(customer).map_or(0, |customer| whole(customer, "balance"));
    let sum = total + before;
    // A remaining credit, or an amount too small to charge, moves to the balance.
    let (due, after) = if sum < CHARGE_MIN { (0, sum) } else { (sum, 0) };
    let (now, paid) = (store.now, due == 0);
    store.change(id, |invoice| {
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
    let movement = BalanceMovement::of_invoice(&invoice, kind, after - before);
    let _id = balance::move_by(store, customer, &movement);
    events::emit(store, "invoice.finalized", id);
    if paid {
        events::emit(store, "invoice.paid", id);
        events::emit(store, "invoice.payment_succeeded", id);
    }
}
