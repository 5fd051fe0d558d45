//! The invoice of a pack: created, already paid, when a session with `invoice_creation` is paid.

use serde_json::{Value, json};

use super::lines::lines_object;
use crate::coupons::{self, ChosenDiscount};
use crate::events;
use crate::fields::{at, flag, list, set, text, whole};
use crate::object_store::ObjectStore;
use crate::taxes;

/// Creates the invoice of a paid session, if the session asked for one and has none.
pub(crate) fn of_session(store: &mut ObjectStore, id: &str) {
    let Some(session) = store.get(id).cloned() else { return };
    let is_wanted = text(&session, "mode") == "payment"
        && flag(&session, "invoice_creation.enabled")
        && at(&session, "invoice").is_null();
    if !is_wanted {
        return;
    }
    let invoice = store.new_id("in");
    let lines = lines(store, &session, &invoice);
    let made = written(store, &session, &invoice, &lines);
    store.put(made);
    pay(store, &session, &invoice);
    store.change(id, |session| set(session, "invoice", invoice.as_str()));
    for kind in
        ["invoice.created", "invoice.finalized", "invoice.paid", "invoice.payment_succeeded"]
    {
        events::emit(store, kind, &invoice);
    }
}

/// The discounts of a session as the lines of its invoice name them.
fn discounts(store: &ObjectStore, session: &Value) -> Vec<ChosenDiscount> {
    let chosen = |one: &Value| ChosenDiscount {
        coupon: text(one, "coupon").to_owned(),
        code: at(one, "promotion_code").as_str().map(str::to_owned),
    };
    let all = list(session, "discounts").iter().map(chosen);
    all.filter(|one| store.get(&one.coupon).is_some()).collect()
}

fn lines(store: &mut ObjectStore, session: &Value, invoice: &str) -> Vec<Value> {
    // A session has one discount at most.
    let discount = discounts(store, session).first().map(|one| coupons::shown(store, one));
    let mut all = Vec::new();
    for line in list(session, "_.line_items") {
        let (amount, off) = (whole(line, "amount_subtotal"), whole(line, "amount_discount"));
        let (tax, net) = (whole(line, "amount_tax"), amount - off);
        let discounts: Vec<&str> = discount.as_deref().into_iter().collect();
        let offs: Value =
            discounts.iter().map(|id| json!({"amount": off, "discount": id})).collect();
        let details = json!({"invoice_item": null, "proration": false, "proration_details": null, "subscription": null});
        let price = at(line, "price");
        all.push(json!({
            "id": store.new_id("il"), "object": "line_item", "amount": amount, "currency": text(line, "currency"),
            "description": text(line, "description"), "discount_amounts": offs, "discountable": true,
            "discounts": discounts, "invoice": invoice, "livemode": false, "metadata": {},
            "parent": {"invoice_item_details": details, "subscription_item_details": null, "type": "invoice_item_details"},
            "period": {"end": store.now, "start": store.now}, "pretax_credit_amounts": [],
            "pricing": {
                "price_details": {"price": at(price, "id"), "product": at(price, "product")}, "type": "price_details",
                "unit_amount_decimal": at(price, "unit_amount_decimal"),
            },
            "quantity": whole(line, "quantity"), "subtotal": amount,
            "taxes": crate::checkout::tax_of(store, session).written(tax, net),
        }));
    }
    all
}

fn written(store: &ObjectStore, session: &Value, id: &str, lines: &[Value]) -> Value {
    let customer = store.get(text(session, "customer")).cloned().unwrap_or_default();
    let number = format!("SANDBOX-{:04}", store.all("invoice").count() + 1);
    let cents = |path: &str| whole(session, path);
    let (subtotal, total) = (cents("amount_subtotal"), cents("amount_total"));
    let (off, tax) = (cents("total_details.amount_discount"), cents("total_details.amount_tax"));
    let first = lines.first().map_or(&Value::Null, |line| at(line, "discount_amounts.0.discount"));
    let discounts = if first.is_null() { json!([]) } else { json!([first]) };
    let total_discounts =
        if first.is_null() { json!([]) } else { json!([{"amount": off, "discount": first}]) };
    let data = at(session, "invoice_creation.invoice_data");
    json!({
        "id": id, "object": "invoice", "account_country": "US", "account_name": "Sandbox", "amount_due": total,
        "amount_overpaid": 0, "amount_paid": total, "amount_remaining": 0, "amount_shipping": 0, "application": null,
        "attempt_count": 0, "attempted": true, "auto_advance": false, "automatic_tax": at(session, "automatic_tax"),
        "automatically_finalizes_at": null, "billing_reason": "manual", "collection_method": "charge_automatically",
        "created": store.now, "currency": text(session, "currency"), "custom_fields": null,
        "customer": at(session, "customer"), "customer_address": at(&customer, "address"),
        "customer_email": at(&customer, "email"), "customer_name": at(&customer, "name"),
        "customer_tax_ids": taxes::short_tax_ids(&customer), "default_payment_method": null, "default_source": null,
        "description": at(data, "description"), "discounts": discounts, "due_date": null, "effective_at": store.now,
        "ending_balance": 0, "footer": at(data, "footer"), "from_invoice": null, "hosted_invoice_url": null,
        "invoice_pdf": null, "last_finalization_error": null, "latest_revision": null,
        "lines": lines_object(id, lines), "livemode": false, "metadata": at(data, "metadata"),
        "next_payment_attempt": null, "number": number, "parent": null,
        "payment_settings": {"default_mandate": null, "payment_method_options": null, "payment_method_types": null},
        "period_end": store.now, "period_start": store.now, "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0, "receipt_number": null, "starting_balance": 0, "status": "paid",
        "status_transitions": {
            "finalized_at": store.now, "marked_uncollectible_at": null, "paid_at": store.now, "voided_at": null,
        },
        "subtotal": subtotal, "subtotal_excluding_tax": subtotal, "total": total,
        "total_discount_amounts": total_discounts, "total_excluding_tax": total - tax,
        "total_taxes": crate::checkout::tax_of(store, session).written(tax, total - tax),
        "webhooks_delivered_at": null,
    })
}

/// Names the payment intent that paid the invoice, if there was something to pay.
fn pay(store: &mut ObjectStore, session: &Value, invoice: &str) {
    let intent = text(session, "payment_intent").to_owned();
    if intent.is_empty() {
        return;
    }
    let (id, amount) = (store.new_id("inpay"), whole(session, "amount_total"));
    store.put(json!({
        "id": id, "object": "invoice_payment", "amount_paid": amount, "amount_requested": amount, "created": store.now,
        "currency": text(session, "currency"), "invoice": invoice, "is_default": true, "livemode": false,
        "payment": {"payment_intent": intent, "type": "payment_intent"}, "status": "paid",
        "status_transitions": {"canceled_at": null, "paid_at": store.now},
    }));
}
