//! Credit notes: what an open invoice asks for becomes less.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, render};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "invoice",
    "amount",
    "lines.*.type",
    "lines.*.unit_amount",
    "lines.*.quantity",
    "lines.*.description",
    "memo?",
    "reason",
    "metadata?",
    "metadata.*?",
];

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let invoice = params.required("invoice")?.to_owned();
    let found = call.store.find("invoice", &invoice, "invoice")?.clone();
    if text(&found, "status") != "open" {
        // A note for a paid invoice moves money back, which refunds do here.
        let message = "The simulated processor issues credit notes for open invoices only.";
        return Err(ApiError::param("invoice", message));
    }
    let mut amount = params.integer("amount")?.unwrap_or_default();
    for place in params.names("lines") {
        let below = format!("lines.{place}");
        params.one_of(&format!("{below}.type"), &["custom_line_item"])?;
        let unit = params.integer(&format!("{below}.unit_amount"))?.unwrap_or_default();
        amount += unit * params.integer(&format!("{below}.quantity"))?.unwrap_or(1);
    }
    let left = whole(&found, "amount_remaining");
    if amount < 1 || amount > left {
        let message = format!("The credit note's amount must be between 1 and {left}.");
        return Err(ApiError::param("amount", message));
    }
    let words = ["duplicate", "fraudulent", "order_change", "product_unsatisfactory"];
    let reason = params.one_of("reason", &words)?;
    let id = call.store.new_id("cn");
    let made = json!({
        "id": id, "object": "credit_note", "amount": amount, "created": call.store.now,
        "currency": at(&found, "currency"), "customer": at(&found, "customer"), "invoice": invoice, "livemode": false,
        "memo": params.text("memo"), "metadata": render::metadata(params, "metadata", &Value::Null)?,
        "reason": reason, "status": "issued", "subtotal": amount, "total": amount, "type": "pre_payment",
        "voided_at": null,
    });
    call.store.put(made);
    reduce(call.store, &invoice, amount);
    events::emit(call.store, "credit_note.created", &id);
    call.store.find("credit_note", &id, "id").cloned()
}

/// Takes an amount off what is left to pay; a negative one is added again.
fn reduce(store: &mut ObjectStore, invoice: &str, amount: i64) {
    store.change(invoice, |invoice| {
        let noted = whole(invoice, "pre_payment_credit_notes_amount") + amount;
        let left = whole(invoice, "amount_remaining") - amount;
        set(invoice, "pre_payment_credit_notes_amount", noted);
        set(invoice, "amount_remaining", left);
        set(invoice, "amount_due", left);
    });
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("credit_note", &id, "id").cloned()
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

pub(super) fn void(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let note = call.store.find("credit_note", &id, "id")?.clone();
    let invoice = call.store.get(text(&note, "invoice"));
    if text(&note, "status") != "issued"
        || invoice.is_none_or(|invoice| text(invoice, "status") != "open")
    {
        let message = "Only an issued credit note of an open invoice can be voided.";
        return Err(ApiError::invalid(message));
    }
    let now = call.store.now;
    reduce(call.store, text(&note, "invoice"), -whole(&note, "amount"));
    call.store.change(&id, |note| {
        set(note, "status", "void");
        set(note, "voided_at", now);
    });
    events::emit(call.store, "credit_note.voided", &id);
    call.store.find("credit_note", &id, "id").cloned()
}
