//! Writing an invoice: its lines, its sum, and what the customer's balance does to it.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::events;
use super::super::fields::{at, list, set, text, whole};
use super::lines_object;

/// One line, before it is on an invoice.
#[derive(Clone, Debug)]
pub(in super::super) struct Line {
    /// Cents; below zero for a credit.
    pub(in super::super) amount: i64,
    pub(in super::super) description: String,
    pub(in super::super) price: Value,
    pub(in super::super) quantity: i64,
    pub(in super::super) period: (i64, i64),
    pub(in super::super) proration: bool,
    /// The subscription's item; empty for what is bought once.
    pub(in super::super) item: String,
}

/// What an invoice is made of.
pub(in super::super) struct Bill<'a> {
    pub(in super::super) customer: &'a str,
    pub(in super::super) subscription: &'a str,
    pub(in super::super) reason: &'a str,
    pub(in super::super) lines: Vec<Line>,
}

/// Below this many cents nothing is charged; the amount is carried on the customer's balance.
const CHARGE_MIN: i64 = 50;

/// Makes an invoice of the lines and of all that waits for the next invoice of the subscription, and closes it for
/// changes; gives its id. One that needs no charge is paid.
pub(in super::super) fn make(books: &mut Books, bill: &Bill<'_>) -> String {
    let id = books.new_id("in");
    let mut lines = take_pending(books, bill.subscription, &id);
    for line in &bill.lines {
        let written = written(books, line, bill.subscription, &id);
        lines.push(written);
    }
    let total: i64 = lines.iter().map(|line| whole(line, "amount")).sum();
    let invoice = blank(books, bill, &id, (&lines, total));
    books.put(invoice);
    events::emit(books, "invoice.created", &id);
    close(books, &id, total);
    id
}

fn blank(books: &mut Books, bill: &Bill<'_>, id: &str, (lines, total): (&[Value], i64)) -> Value {
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
    let start = list(&subscription, "items.data")
        .first()
        .map_or(books.now, |item| whole(item, "current_period_start"));
    let currency = lines.first().map_or("usd", |line| text(line, "currency"));
    json!({
        "id": id, "object": "invoice", "account_country": "US", "account_name": "Sandbox", "amount_due": total,
        "amount_overpaid": 0, "amount_paid": 0, "amount_remaining": total, "amount_shipping": 0, "application": null,
        "attempt_count": 0, "attempted": false, "auto_advance": true, "automatic_tax": {"enabled": false, "status": null},
        "automatically_finalizes_at": null, "billing_reason": bill.reason, "collection_method": "charge_automatically",
        "created": books.now, "currency": currency, "custom_fields": null, "customer": bill.customer,
        "customer_email": at(&customer, "email"), "customer_name": at(&customer, "name"), "default_payment_method": null,
        "default_source": null, "description": null, "discounts": [], "due_date": null, "effective_at": books.now,
        "ending_balance": 0, "footer": null, "from_invoice": null, "hosted_invoice_url": null, "invoice_pdf": null,
        "last_finalization_error": null, "latest_revision": null, "lines": lines_object(id, lines), "livemode": false,
        "metadata": {}, "next_payment_attempt": null, "number": number, "parent": parent,
        "payment_settings": {"default_mandate": null, "payment_method_options": null, "payment_method_types": null},
        "period_end": books.now, "period_start": start, "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0, "receipt_number": null, "starting_balance": 0, "status": "open",
        "status_transitions": {"finalized_at": books.now, "marked_uncollectible_at": null, "paid_at": null, "voided_at": null},
        "subtotal": total, "total": total, "total_excluding_tax": total, "total_taxes": [], "webhooks_delivered_at": null,
    })
}

/// Lets the customer's balance pay what it can, and closes the invoice.
fn close(books: &mut Books, id: &str, total: i64) {
    let customer =
        books.get(id).map(|invoice| text(invoice, "customer").to_owned()).unwrap_or_default();
    let before = books.get(&customer).map_or(0, |customer| whole(customer, "balance"));
    let sum = total + before;
    // A credit that is left, or an amount too small to charge, waits on the balance.
    let (due, after) = if sum < CHARGE_MIN { (0, sum) } else { (sum, 0) };
    let (now, paid) = (books.now, due == 0);
    books.change(id, |invoice| {
        set(invoice, "starting_balance", before);
        set(invoice, "ending_balance", after);
        set(invoice, "amount_due", sum.max(0));
        set(invoice, "amount_remaining", due);
        set(invoice, "attempted", paid);
        if paid {
            set(invoice, "amount_due", 0);
            set(invoice, "status", "paid");
            set(invoice, "status_transitions.paid_at", now);
        }
    });
    if after != before {
        books.change(&customer, |customer| set(customer, "balance", after));
    }
    events::emit(books, "invoice.finalized", id);
    if paid {
        events::emit(books, "invoice.paid", id);
        events::emit(books, "invoice.payment_succeeded", id);
    }
}

fn written(books: &mut Books, line: &Line, subscription: &str, invoice: &str) -> Value {
    let details = json!({
        "invoice_item": null, "proration": line.proration, "proration_details": {"credited_items": null},
        "subscription": subscription, "subscription_item": line.item,
    });
    let parent = if line.item.is_empty() {
        json!({"invoice_item_details": {"invoice_item": null, "proration": false, "subscription": subscription},
            "subscription_item_details": null, "type": "invoice_item_details"})
    } else {
        json!({"invoice_item_details": null, "subscription_item_details": details, "type": "subscription_item_details"})
    };
    json!({
        "id": books.new_id("il"), "object": "line_item", "amount": line.amount, "currency": text(&line.price, "currency"),
        "description": line.description, "discount_amounts": [], "discountable": !line.proration, "discounts": [],
        "invoice": invoice, "livemode": false, "metadata": {}, "parent": parent,
        "period": {"end": line.period.1, "start": line.period.0}, "pretax_credit_amounts": [],
        "pricing": pricing(&line.price), "quantity": line.quantity, "subtotal": line.amount, "taxes": [],
    })
}

fn pricing(price: &Value) -> Value {
    json!({
        "price_details": {"price": at(price, "id"), "product": at(price, "product")}, "type": "price_details",
        "unit_amount_decimal": at(price, "unit_amount_decimal"),
    })
}

/// Lines that wait for the next invoice.
pub(in super::super) fn add_pending(
    books: &mut Books,
    customer: &str,
    subscription: &str,
    lines: &[Line],
) {
    for line in lines {
        let id = books.new_id("ii");
        let parent = json!({
            "subscription_details": {"subscription": subscription, "subscription_item": line.item},
            "type": "subscription_details",
        });
        books.put(json!({
            "id": id, "object": "invoiceitem", "amount": line.amount, "created": books.now,
            "currency": text(&line.price, "currency"), "customer": customer, "date": books.now,
            "description": line.description, "discountable": false, "discounts": [], "invoice": null, "livemode": false,
            "metadata": {}, "parent": parent, "period": {"end": line.period.1, "start": line.period.0},
            "pricing": pricing(&line.price), "proration": line.proration, "quantity": line.quantity, "tax_rates": [],
            "test_clock": null,
        }));
        events::emit(books, "invoiceitem.created", &id);
    }
}

/// The ids of what waits for the next invoice of a subscription.
pub(in super::super) fn pending_of(books: &Books, subscription: &str) -> Vec<String> {
    let path = "parent.subscription_details.subscription";
    let all = books.all("invoiceitem");
    let waiting =
        all.filter(|item| text(item, "invoice").is_empty() && text(item, path) == subscription);
    waiting.map(|item| text(item, "id").to_owned()).collect()
}

fn take_pending(books: &mut Books, subscription: &str, invoice: &str) -> Vec<Value> {
    if subscription.is_empty() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for id in pending_of(books, subscription) {
        books.change(&id, |item| set(item, "invoice", invoice));
        let Some(item) = books.get(&id).cloned() else { continue };
        let details = json!({
            "invoice_item": id, "proration": true, "proration_details": {"credited_items": null},
            "subscription": subscription,
            "subscription_item": at(&item, "parent.subscription_details.subscription_item"),
        });
        lines.push(json!({
            "id": books.new_id("il"), "object": "line_item", "amount": whole(&item, "amount"),
            "currency": text(&item, "currency"), "description": text(&item, "description"), "discount_amounts": [],
            "discountable": false, "discounts": [], "invoice": invoice, "livemode": false, "metadata": {},
            "parent": {"invoice_item_details": details, "subscription_item_details": null, "type": "invoice_item_details"},
            "period": at(&item, "period"), "pretax_credit_amounts": [], "pricing": at(&item, "pricing"),
            "quantity": at(&item, "quantity"), "subtotal": whole(&item, "amount"), "taxes": [],
        }));
    }
    lines
}

/// The lines of a whole period of a subscription's items.
pub(in super::super) fn lines_of(
    subscription: &Value,
    period: (i64, i64),
    books: &Books,
) -> Vec<Line> {
    let line = |item: &Value| {
        let (price, quantity) = (at(item, "price").clone(), whole(item, "quantity"));
        let unit = whole(&price, "unit_amount");
        let name = super::super::prices::describe(books, &price);
        let interval = text(&price, "recurring.interval");
        Line {
            amount: unit.saturating_mul(quantity),
            description: format!(
                "{quantity} × {name} (at ${}.{:02} / {interval})",
                unit / 100,
                unit % 100
            ),
            price,
            quantity,
            period,
            proration: false,
            item: text(item, "id").to_owned(),
        }
    };
    list(subscription, "items.data").iter().map(line).collect()
}
