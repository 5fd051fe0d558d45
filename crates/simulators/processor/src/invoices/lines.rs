//! Lines of invoices: for whole periods, for parts of them, and pending ones for the next invoice.

use serde_json::{Value, json};

use crate::coupons::{self, DiscountRate, DiscountSums};
use crate::events;
use crate::fields::{at, flag, list, set, text, whole};
use crate::object_store::ObjectStore;

/// A line before it is on an invoice.
#[derive(Clone, Debug)]
pub(crate) struct InvoiceLine {
    /// Cents before discounts; negative for a credit.
    pub(crate) amount: i64,
    pub(crate) description: String,
    pub(crate) price: Value,
    pub(crate) quantity: i64,
    pub(crate) period: (i64, i64),
    pub(crate) proration: bool,
    /// The subscription's item; empty for a one-time purchase.
    pub(crate) item: String,
    /// The discounts: their ids and cents.
    pub(crate) discounts: Vec<(String, i64)>,
}

/// The lines of a whole period of a subscription's items.
pub(crate) fn lines_of(
    subscription: &Value,
    period: (i64, i64),
    store: &ObjectStore,
) -> Vec<InvoiceLine> {
    let line = |item: &Value| {
        let (price, quantity) = (at(item, "price").clone(), whole(item, "quantity"));
        let unit = whole(&price, "unit_amount");
        let name = crate::prices::describe(store, &price);
        let interval = text(&price, "recurring.interval");
        InvoiceLine {
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
            discounts: Vec::new(),
        }
    };
    list(subscription, "items.data").iter().map(line).collect()
}

/// Applies the subscription's discounts to its lines. A credit has the discounts with which its
/// item was charged.
pub(super) fn discounted(
    store: &mut ObjectStore,
    subscription: &str,
    mut lines: Vec<InvoiceLine>,
) -> Vec<InvoiceLine> {
    let Some(found) = store.get(subscription).cloned() else { return lines };
    let now = coupons::rates_of(store, &found);
    let mut sums = DiscountSums::default();
    for line in &mut lines {
        let item = list(&found, "items.data").iter().find(|item| text(item, "id") == line.item);
        let before = item.filter(|_| line.amount < 0).and_then(coupons::remembered);
        let rates = before.as_ref().unwrap_or(&now);
        line.discounts = sums.taken_off(line.amount, rates);
    }
    let charged: Vec<String> =
        lines.iter().filter(|line| line.amount > 0).map(|line| line.item.clone()).collect();
    remember(store, subscription, &charged, &now);
    lines
}

/// Records the discounts with which items were charged.
fn remember(
    store: &mut ObjectStore,
    subscription: &str,
    charged: &[String],
    rates: &[DiscountRate],
) {
    let kept = coupons::kept(rates);
    store.change(subscription, |subscription| {
        let mut items = list(subscription, "items.data").to_vec();
        for item in &mut items {
            if charged.iter().any(|id| id == text(item, "id")) {
                set(item, "_.rates", kept.clone());
            }
        }
        set(subscription, "items.data", Value::Array(items));
    });
}

/// Whether prorations of a subscription show their discounts separately; otherwise their amounts
/// are reduced.
fn is_itemized(store: &ObjectStore, subscription: &str) -> bool {
    let path = "billing_mode.flexible.proration_discounts";
    store.get(subscription).is_some_and(|it| text(it, path) == "itemized")
}

/// The amount and discount fields of a line or pending item.
fn amounts(line: &InvoiceLine, itemized: bool) -> Value {
    let off: i64 = line.discounts.iter().map(|(_, off)| off).sum();
    let shows = itemized || !line.proration;
    let amount = if shows { line.amount } else { line.amount - off };
    let each = line
        .discounts
        .iter()
        .map(|(id, off)| json!({"amount": if shows { *off } else { 0 }, "discount": id}));
    let ids: Vec<&str> = line.discounts.iter().map(|(id, _)| id.as_str()).collect();
    json!({"amount": amount, "discounts": ids, "discount_amounts": each.collect::<Vec<_>>()})
}

/// A line in the form of an invoice.
pub(super) fn written(
    store: &mut ObjectStore,
    line: &InvoiceLine,
    subscription: &str,
    invoice: &str,
) -> Value {
    let itemized = is_itemized(store, subscription);
    let parent = if line.item.is_empty() {
        json!({"invoice_item_details": {"invoice_item": null, "proration": false, "subscription": subscription},
            "subscription_item_details": null, "type": "invoice_item_details"})
    } else {
        let details = json!({
            "invoice_item": null, "proration": line.proration,
            "proration_details": {"credited_items": credited(store, subscription, line)},
            "subscription": subscription, "subscription_item": line.item,
        });
        json!({"invoice_item_details": null, "subscription_item_details": details, "type": "subscription_item_details"})
    };
    let shown = amounts(line, itemized);
    json!({
        "id": store.new_id("il"), "object": "line_item", "amount": at(&shown, "amount"),
        "currency": text(&line.price, "currency"), "description": line.description,
        "discount_amounts": at(&shown, "discount_amounts"), "discountable": !line.proration,
        "discounts": at(&shown, "discounts"), "invoice": invoice, "livemode": false, "metadata": {}, "parent": parent,
        "period": {"end": line.period.1, "start": line.period.0}, "pretax_credit_amounts": [],
        "pricing": pricing(&line.price), "quantity": line.quantity, "subtotal": at(&shown, "amount"), "taxes": [],
    })
}

/// The line that a credit refunds: the latest charge of its item in the period.
fn credited(store: &ObjectStore, subscription: &str, line: &InvoiceLine) -> Value {
    if line.amount >= 0 || !line.proration {
        return Value::Null;
    }
    let path = "parent.subscription_details.subscription";
    let mut invoices =
        store.all("invoice").rev().filter(|invoice| text(invoice, path) == subscription);
    let charged = |one: &&Value| {
        let parents = ["subscription_item_details", "invoice_item_details"];
        let is_item =
            |parent: &&str| text(one, &format!("parent.{parent}.subscription_item")) == line.item;
        whole(one, "amount") > 0
            && whole(one, "period.end") == line.period.1
            && parents.iter().any(is_item)
    };
    let found = invoices.find_map(|invoice| {
        let line = list(invoice, "lines.data").iter().rfind(charged)?;
        Some(json!({"invoice": text(invoice, "id"), "invoice_line_items": [text(line, "id")]}))
    });
    found.unwrap_or_default()
}

fn pricing(price: &Value) -> Value {
    json!({
        "price_details": {"price": at(price, "id"), "product": at(price, "product")}, "type": "price_details",
        "unit_amount_decimal": at(price, "unit_amount_decimal"),
    })
}

/// The price after discounts of a line in the form of an invoice.
pub(super) fn net(line: &Value) -> i64 {
    let off: i64 = list(line, "discount_amounts").iter().map(|off| whole(off, "amount")).sum();
    whole(line, "amount") - off
}

/// Adds pending lines for the next invoice.
pub(crate) fn add_pending(
    store: &mut ObjectStore,
    customer: &str,
    subscription: &str,
    lines: Vec<InvoiceLine>,
) {
    let itemized = is_itemized(store, subscription);
    for line in discounted(store, subscription, lines) {
        let id = store.new_id("ii");
        let parent = json!({
            "subscription_details": {"subscription": subscription, "subscription_item": line.item},
            "type": "subscription_details",
        });
        let (shown, credited) = (amounts(&line, itemized), credited(store, subscription, &line));
        let net = net(&shown);
        store.put(json!({
            "id": id, "object": "invoiceitem", "amount": at(&shown, "amount"), "created": store.now,
            "currency": text(&line.price, "currency"), "customer": customer, "date": store.now,
            "description": line.description, "discountable": false, "discounts": at(&shown, "discounts"), "invoice": null,
            "livemode": false, "metadata": {}, "net_amount": net, "parent": parent,
            "period": {"end": line.period.1, "start": line.period.0}, "pricing": pricing(&line.price),
            "proration": line.proration, "proration_details": {"discount_amounts": at(&shown, "discount_amounts")},
            "quantity": line.quantity, "tax_rates": [], "test_clock": null, "_": {"credited": credited},
        }));
        events::emit(store, "invoiceitem.created", &id);
    }
}

/// The ids of the pending items for a subscription's next invoice.
pub(crate) fn pending_of(store: &ObjectStore, subscription: &str) -> Vec<String> {
    let path = "parent.subscription_details.subscription";
    let all = store.all("invoiceitem");
    let waiting =
        all.filter(|item| text(item, "invoice").is_empty() && text(item, path) == subscription);
    waiting.map(|item| text(item, "id").to_owned()).collect()
}

/// Puts the pending items of a subscription on this invoice.
pub(super) fn take_pending(
    store: &mut ObjectStore,
    subscription: &str,
    invoice: &str,
) -> Vec<Value> {
    if subscription.is_empty() {
        return Vec::new();
    }
    let waiting = pending_of(store, subscription);
    put_on_invoice(store, waiting, subscription, invoice)
}

/// Puts these items on an invoice; returns its lines.
pub(super) fn put_on_invoice(
    store: &mut ObjectStore,
    items: Vec<String>,
    subscription: &str,
    invoice: &str,
) -> Vec<Value> {
    let subscription = Some(subscription).filter(|subscription| !subscription.is_empty());
    let mut lines = Vec::new();
    for id in items {
        store.change(&id, |item| set(item, "invoice", invoice));
        let Some(item) = store.get(&id).cloned() else { continue };
        let details = json!({
            "invoice_item": id, "proration": flag(&item, "proration"),
            "proration_details": {"credited_items": at(&item, "_.credited")}, "subscription": subscription,
            "subscription_item": at(&item, "parent.subscription_details.subscription_item"),
        });
        lines.push(json!({
            "id": store.new_id("il"), "object": "line_item", "amount": whole(&item, "amount"),
            "currency": text(&item, "currency"), "description": text(&item, "description"),
            "discount_amounts": at(&item, "proration_details.discount_amounts"), "discountable": false,
            "discounts": at(&item, "discounts"), "invoice": invoice, "livemode": false, "metadata": {},
            "parent": {"invoice_item_details": details, "subscription_item_details": null, "type": "invoice_item_details"},
            "period": at(&item, "period"), "pretax_credit_amounts": [], "pricing": at(&item, "pricing"),
            "quantity": at(&item, "quantity"), "subtotal": whole(&item, "amount"), "taxes": [],
        }));
    }
    lines
}

/// The list object with an invoice's lines.
pub(super) fn lines_object(id: &str, lines: &[Value]) -> Value {
    let url = format!("/v1/invoices/{id}/lines");
    json!({"object": "list", "data": lines, "has_more": false, "total_count": lines.len(), "url": url})
}
