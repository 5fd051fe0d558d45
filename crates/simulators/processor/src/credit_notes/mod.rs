//! Credit notes: what an open invoice asks for becomes less, and of a paid one money goes back: by
//! refunds, to the customer's balance, or outside of the processor.

mod lines;

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::balance::{self, BalanceMovement};
use super::fields::{at, list as items, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, invoices, lists, refunds, render};

/// The parameters of creating one, and of a preview.
pub(super) const PARAMS: &[&str] = &[
    "invoice",
    "amount",
    "credit_amount",
    "effective_at",
    "email_type",
    "lines.*.type",
    "lines.*.amount",
    "lines.*.invoice_line_item",
    "lines.*.unit_amount",
    "lines.*.quantity",
    "lines.*.description",
    "lines.*.tax_amounts?",
    "lines.*.tax_amounts.*.amount",
    "lines.*.tax_amounts.*.tax_rate",
    "lines.*.tax_amounts.*.taxable_amount",
    "memo?",
    "out_of_band_amount",
    "reason",
    "refund_amount",
    "refunds.*.refund",
    "refunds.*.amount_refunded",
    "refunds.*.type",
    "metadata?",
    "metadata.*?",
];

/// Why a note is issued.
const REASONS: [&str; 4] = ["duplicate", "fraudulent", "order_change", "product_unsatisfactory"];

/// A credit note that may be issued, and how its money goes back.
struct PlannedNote {
    /// The note; its refunds are those that exist already.
    note: Value,
    invoice: Value,
    /// Cents to refund now.
    refund: i64,
    /// Cents for the customer's balance.
    credit: i64,
}

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let planned = plan(call)?;
    let charge = match planned.refund {
        0 => None,
        refund => Some(refundable(call.store, &planned.invoice, refund)?),
    };
    let mut note = planned.note;
    let id = text(&note, "id").to_owned();
    if let Some(charge) = &charge {
        let refund = refunds::of_note(call.store, charge, planned.refund);
        let mut all = items(&note, "refunds").to_vec();
        all.push(written_refund(&refund, planned.refund));
        set(&mut note, "refunds", all);
    }
    if planned.credit > 0 {
        let currency = text(&note, "currency").to_owned();
        let movement = BalanceMovement {
            amount: -planned.credit,
            currency: &currency,
            kind: "credit_note",
            invoice: "",
            description: None,
            metadata: json!({}),
        };
        let moved = balance::move_by(call.store, text(&planned.invoice, "customer"), &movement);
        if let Some(moved) = moved {
            call.store.change(&moved, |it| set(it, "credit_note", id.as_str()));
            set(&mut note, "customer_balance_transaction", moved);
        }
    }
    let (before, after) = (whole(&note, "pre_payment_amount"), whole(&note, "post_payment_amount"));
    call.store.put(note);
    invoices::credit(call.store, text(&planned.invoice, "id"), before, after);
    events::emit(call.store, "credit_note.created", &id);
    invoices::settle_credited(call.store, text(&planned.invoice, "id"));
    call.store.find("credit_note", &id, "id").cloned()
}

/// What a note would be, without issuing it.
pub(super) fn preview(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    Ok(plan(call)?.note)
}

fn plan(call: &mut ApiCall<'_>) -> Result<PlannedNote, ApiError> {
    let id = call.params.required("invoice")?.to_owned();
    let invoice = call.store.find("invoice", &id, "invoice")?.clone();
    if !matches!(text(&invoice, "status"), "open" | "paid") {
        let message = "Credit notes can be issued for open and for paid invoices only.";
        return Err(ApiError::param("invoice", message));
    }
    let lines = lines::of(call, &invoice)?;
    let (total, tax) =
        (lines.iter().map(lines::total).sum::<i64>(), lines.iter().map(lines::tax).sum::<i64>());
    check_total(call.store, &invoice, total, tax)?;
    let before = match text(&invoice, "status") {
        "open" => total.min(whole(&invoice, "amount_remaining")),
        _ => 0,
    };
    let linked = linked(call, &invoice)?;
    let amount = |field: &str| call.params.integer(field).map(Option::unwrap_or_default);
    let (refund, credit, outside) =
        (amount("refund_amount")?, amount("credit_amount")?, amount("out_of_band_amount")?);
    let of_links: i64 = linked.iter().map(|one| whole(one, "amount_refunded")).sum();
    if refund.min(credit).min(outside) < 0 || refund + credit + outside + of_links != total - before
    {
        let message = format!(
            "The sum of the credit, refund and out of band amounts ({}) must equal the post payment amount of the credit note ({}).",
            refund + credit + outside + of_links,
            total - before
        );
        return Err(ApiError::param("refund_amount", message));
    }
    let money = NoteMoney { total, tax, before, outside, linked };
    let note = written(call, &invoice, &lines, &money)?;
    Ok(PlannedNote { note, invoice, refund, credit })
}

fn check_total(store: &ObjectStore, invoice: &Value, total: i64, tax: i64) -> Result<(), ApiError> {
    let earlier = lines::issued(store, text(invoice, "id"));
    let noted: i64 = earlier.iter().map(|note| whole(note, "amount")).sum();
    let taxes = |object: &Value| -> i64 {
        items(object, "total_taxes").iter().map(|tax| whole(tax, "amount")).sum()
    };
    let noted_tax: i64 = earlier.iter().map(taxes).sum();
    let left = whole(invoice, "total") - noted;
    if total < 1 || total > left {
        let message = format!("The credit note's amount must be between 1 and {left}.");
        return Err(ApiError::param("amount", message));
    }
    if tax > taxes(invoice) - noted_tax {
        let message = "The tax of the credit notes exceeds the tax of the invoice.";
        return Err(ApiError::param("lines", message));
    }
    Ok(())
}

/// The refunds of before that a note names, and how much of each.
fn linked(call: &ApiCall<'_>, invoice: &Value) -> Result<Vec<Value>, ApiError> {
    let charges = charges(call.store, text(invoice, "id"));
    let mut all = Vec::new();
    for place in call.params.names("refunds") {
        let below = format!("refunds.{place}");
        call.params.one_of(&format!("{below}.type"), &["refund"])?;
        let id = call.params.required(&format!("{below}.refund"))?;
        let refund = call.store.find("refund", id, "refunds")?;
        let is_own = charges.iter().any(|charge| text(charge, "id") == text(refund, "charge"));
        let noted: i64 = call
            .store
            .all("credit_note")
            .flat_map(|note| items(note, "refunds"))
            .filter(|known| text(known, "refund") == id)
            .map(|known| whole(known, "amount_refunded"))
            .sum();
        let left = whole(refund, "amount") - noted;
        let cents = call.params.integer(&format!("{below}.amount_refunded"))?.unwrap_or(left);
        let stands = matches!(text(refund, "status"), "succeeded" | "pending");
        if !is_own || !stands || cents < 1 || cents > left {
            let message = format!("The refund {id} cannot be linked with this amount.");
            return Err(ApiError::param("refunds", message));
        }
        all.push(written_refund(id, cents));
    }
    Ok(all)
}

fn written_refund(id: &str, cents: i64) -> Value {
    json!({"amount_refunded": cents, "payment_record_refund": null, "refund": id, "type": "refund"})
}

/// The charges that paid an invoice.
fn charges(store: &ObjectStore, invoice: &str) -> Vec<Value> {
    let intents: Vec<&str> = store
        .all("invoice_payment")
        .filter(|payment| text(payment, "invoice") == invoice && text(payment, "status") == "paid")
        .map(|payment| text(payment, "payment.payment_intent"))
        .collect();
    let is_own = |charge: &&Value| {
        text(charge, "status") == "succeeded" && intents.contains(&text(charge, "payment_intent"))
    };
    store.all("charge").filter(is_own).cloned().collect()
}

/// The charge of which this much can be refunded.
fn refundable(store: &ObjectStore, invoice: &Value, cents: i64) -> Result<Value, ApiError> {
    let left = |charge: &Value| whole(charge, "amount_captured") - whole(charge, "amount_refunded");
    let charges = charges(store, text(invoice, "id"));
    let found = charges.into_iter().find(|charge| left(charge) >= cents);
    let charge = found.ok_or_else(|| {
        let message = "The refund amount is greater than what is left of the payment.";
        ApiError::param("refund_amount", message)
    })?;
    if at(&charge, "disputed") == true {
        let message = "The payment has been charged back; it cannot be refunded.";
        return Err(ApiError::invalid(message).code("charge_disputed"));
    }
    Ok(charge)
}

/// How much a note credits, and how.
struct NoteMoney {
    total: i64,
    tax: i64,
    before: i64,
    outside: i64,
    linked: Vec<Value>,
}

fn written(
    call: &mut ApiCall<'_>,
    invoice: &Value,
    lines: &[Value],
    money: &NoteMoney,
) -> Result<Value, ApiError> {
    let reason = call.params.one_of("reason", &REASONS)?;
    let metadata = render::metadata(call.params, "metadata", &Value::Null)?;
    let memo = call.params.text("memo").map(str::to_owned);
    let (id, now) = (call.store.new_id("cn"), call.store.now);
    let effective = call.params.integer("effective_at")?.unwrap_or(now);
    let number = call.store.all("credit_note").count() + 1;
    let subtotal: i64 = lines.iter().map(|line| whole(line, "amount")).sum();
    let off: i64 = lines.iter().map(|line| whole(line, "discount_amount")).sum();
    let offs: Vec<&Value> = lines.iter().flat_map(|line| items(line, "discount_amounts")).collect();
    let taxes: Vec<&Value> = lines.iter().flat_map(|line| items(line, "taxes")).collect();
    let url = format!("/v1/credit_notes/{id}/lines");
    let kind = match (money.before, money.total - money.before) {
        (_, 0) => "pre_payment",
        (0, _) => "post_payment",
        _ => "mixed",
    };
    Ok(json!({
        "id": id, "object": "credit_note", "amount": money.total, "amount_shipping": 0, "created": now,
        "currency": at(invoice, "currency"), "customer": at(invoice, "customer"), "customer_account": null,
        "customer_balance_transaction": null, "discount_amount": off, "discount_amounts": offs,
        "effective_at": effective, "invoice": at(invoice, "id"),
        "lines": {"object": "list", "data": lines, "has_more": false, "url": url}, "livemode": false, "memo": memo,
        "metadata": metadata, "number": format!("{}-CN-{number:02}", text(invoice, "number")),
        "out_of_band_amount": Some(money.outside).filter(|outside| *outside > 0),
        "pdf": format!("https://pay.stripe.com/credit_notes/{id}/pdf"),
        "post_payment_amount": money.total - money.before, "pre_payment_amount": money.before,
        "pretax_credit_amounts": [], "reason": reason, "refunds": money.linked, "shipping_cost": null,
        "status": "issued", "subtotal": subtotal, "subtotal_excluding_tax": subtotal, "total": money.total,
        "total_excluding_tax": money.total - money.tax, "total_taxes": taxes, "type": kind, "voided_at": null,
    }))
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("credit_note", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let wanted = ["customer", "invoice"].map(|field| (field, call.params.text(field)));
    lists::page(call, "credit_note", "/v1/credit_notes", |note| {
        wanted.iter().all(|(field, value)| value.is_none_or(|value| text(note, field) == value))
    })
}

pub(super) fn list_lines(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let note = call.store.find("credit_note", &id, "id")?.clone();
    let all: Vec<&Value> = items(&note, "lines.data").iter().collect();
    lists::of(call, &all, &format!("/v1/credit_notes/{id}/lines"))
}

/// The lines of a note that is not issued.
pub(super) fn preview_lines(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let note = plan(call)?.note;
    let all: Vec<&Value> = items(&note, "lines.data").iter().collect();
    lists::of(call, &all, "/v1/credit_notes/preview/lines")
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find("credit_note", &id, "id")?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let memo = call.params.text("memo").map(str::to_owned);
    call.store.change(&id, |note| {
        set(note, "metadata", metadata);
        if let Some(memo) = memo {
            set(note, "memo", json!(Some(memo).filter(|memo| !memo.is_empty())));
        }
    });
    events::emit_changed(call.store, "credit_note.updated", &before);
    call.store.find("credit_note", &id, "id").cloned()
}

/// Takes a note of an open invoice back. One of which money went back stays.
pub(super) fn void(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let note = call.store.find("credit_note", &id, "id")?.clone();
    let invoice = call.store.get(text(&note, "invoice"));
    if text(&note, "status") != "issued"
        || whole(&note, "post_payment_amount") > 0
        || invoice.is_none_or(|invoice| text(invoice, "status") != "open")
    {
        let message = "Only an issued credit note of an open invoice can be voided.";
        return Err(ApiError::invalid(message));
    }
    let now = call.store.now;
    invoices::credit(call.store, text(&note, "invoice"), -whole(&note, "pre_payment_amount"), 0);
    call.store.change(&id, |note| {
        set(note, "status", "void");
        set(note, "voided_at", now);
    });
    events::emit(call.store, "credit_note.voided", &id);
    call.store.find("credit_note", &id, "id").cloned()
}
