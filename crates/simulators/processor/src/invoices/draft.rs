//! Invoices that the merchant writes: items that wait for one, drafts, and what becomes of them.

use serde_json::{Value, json};

use super::lines::put_on_invoice;
use super::make::{InvoiceDraft, draft, finalize as close};
use crate::api_call::ApiCall;
use crate::fields::{at, set, text};
use crate::problem::ApiError;
use crate::{customers, events, prices, render};

/// The parameters of creating a draft.
pub(crate) const PARAMS: &[&str] = &[
    "customer",
    "description?",
    "auto_advance",
    "collection_method",
    "days_until_due",
    "pending_invoice_items_behavior",
    "footer?",
    "metadata?",
    "metadata.*?",
];
/// The parameters of updating an invoice.
pub(crate) const UPDATE_PARAMS: &[&str] =
    &["description?", "footer?", "auto_advance", "metadata?", "metadata.*?"];
/// The parameters of creating an item.
pub(crate) const ITEM_PARAMS: &[&str] =
    &["customer", "amount", "currency", "description?", "invoice", "metadata?", "metadata.*?"];

pub(crate) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    let methods = ["charge_automatically", "send_invoice"];
    let method = params.one_of("collection_method", &methods)?.unwrap_or("charge_automatically");
    let days = params.integer("days_until_due")?;
    if (method == "send_invoice") != days.is_some() {
        let message = "days_until_due is required for invoices that are sent, and only for them.";
        return Err(ApiError::param("days_until_due", message));
    }
    let takes = params
        .one_of("pending_invoice_items_behavior", &["exclude", "include"])?
        .is_some_and(|behaviour| behaviour == "include");
    let is_waiting = |item: &&Value| {
        text(item, "customer") == customer
            && at(item, "invoice").is_null()
            && text(item, "parent.subscription_details.subscription").is_empty()
    };
    let waiting = call.store.all("invoiceitem").filter(|item| takes && is_waiting(item));
    let waiting: Vec<String> = waiting.map(|item| text(item, "id").to_owned()).collect();
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let advances = params.flag("auto_advance")?.unwrap_or(false);
    let id = call.store.new_id("in");
    let lines = put_on_invoice(call.store, waiting, "", &id);
    let bill =
        InvoiceDraft { customer: &customer, subscription: "", reason: "manual", lines: Vec::new() };
    draft(call.store, &bill, &id, lines);
    let due = days.map(|days| call.store.now + days * 86_400);
    let texts = ["description", "footer"].map(|name| (name, json!(params.text(name))));
    call.store.change(&id, |invoice| {
        set(invoice, "metadata", metadata);
        set(invoice, "auto_advance", advances);
        set(invoice, "collection_method", method);
        set(invoice, "due_date", json!(due));
        for (name, value) in texts {
            set(invoice, name, value);
        }
    });
    events::emit(call.store, "invoice.created", &id);
    super::found(call, &id).cloned()
}

pub(crate) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = super::found(call, &id)?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let advances = call.params.flag("auto_advance")?;
    let texts = ["description", "footer"].map(|name| (name, call.params.text(name)));
    call.store.change(&id, |invoice| {
        set(invoice, "metadata", metadata);
        if let Some(advances) = advances {
            set(invoice, "auto_advance", advances);
        }
        for (name, value) in texts {
            if let Some(value) = value {
                set(invoice, name, json!(Some(value).filter(|value| !value.is_empty())));
            }
        }
    });
    events::emit_changed(call.store, "invoice.updated", &before);
    super::found(call, &id).cloned()
}

/// Refuses an invoice that has another status.
fn with_status(call: &ApiCall<'_>, wanted: &str, verb: &str) -> Result<Value, ApiError> {
    let found = super::found(call, &call.id(0))?;
    let status = text(found, "status");
    if status == wanted {
        return Ok(found.clone());
    }
    let message = format!("You can only {verb} {wanted} invoices. This invoice is {status}.");
    Err(ApiError::invalid(message).code("invoice_not_editable"))
}

pub(crate) fn delete(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = text(&with_status(call, "draft", "delete")?, "id").to_owned();
    events::emit(call.store, "invoice.deleted", &id);
    call.store.remove(&id);
    Ok(json!({"id": id, "object": "invoice", "deleted": true}))
}

pub(crate) fn finalize(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let found = with_status(call, "draft", "finalize")?;
    close(call.store, text(&found, "id"));
    super::found(call, text(&found, "id")).cloned()
}

/// Sends an invoice to its customer; a draft is finalized first.
pub(crate) fn send(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let found = super::found(call, &call.id(0))?.clone();
    let id = text(&found, "id");
    if text(&found, "collection_method") != "send_invoice" {
        let message =
            "You can only manually send an invoice if its collection method is 'send_invoice'.";
        return Err(ApiError::invalid(message));
    }
    match text(&found, "status") {
        "draft" => close(call.store, id),
        "open" => {}
        _ => drop(with_status(call, "open", "send")?),
    }
    events::emit(call.store, "invoice.sent", id);
    super::found(call, id).cloned()
}

pub(crate) fn mark_uncollectible(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = text(&with_status(call, "open", "mark")?, "id").to_owned();
    let now = call.store.now;
    call.store.change(&id, |invoice| {
        set(invoice, "status", "uncollectible");
        set(invoice, "status_transitions.marked_uncollectible_at", now);
        set(invoice, "next_payment_attempt", Value::Null);
        set(invoice, "_.due", Value::Null);
    });
    events::emit(call.store, "invoice.marked_uncollectible", &id);
    super::found(call, &id).cloned()
}

pub(crate) fn create_item(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    params.required("amount")?;
    let amount = params.integer("amount")?.unwrap_or_default();
    let currency = params.text("currency").unwrap_or("usd").to_lowercase();
    prices::check_currency(&currency)?;
    let (id, now) = (call.store.new_id("ii"), call.store.now);
    let made = json!({
        "id": id, "object": "invoiceitem", "amount": amount, "created": now, "currency": currency,
        "customer": customer, "date": now, "description": params.text("description"), "discountable": true,
        "discounts": [], "invoice": null, "livemode": false,
        "metadata": render::metadata(params, "metadata", &Value::Null)?, "net_amount": amount, "parent": null,
        "period": {"end": now, "start": now}, "pricing": null, "proration": false,
        "proration_details": {"discount_amounts": []}, "quantity": 1, "tax_rates": [], "test_clock": null,
        "_": {"credited": null},
    });
    call.store.put(made);
    events::emit(call.store, "invoiceitem.created", &id);
    call.store.find("invoiceitem", &id, "id").cloned()
}

pub(crate) fn retrieve_item(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("invoiceitem", &id, "id").cloned()
}

pub(crate) fn delete_item(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let found = call.store.find("invoiceitem", &call.id(0), "id")?;
    let id = text(found, "id").to_owned();
    if !at(found, "invoice").is_null() {
        let message = "This invoice item is on an invoice and can no longer be deleted.";
        return Err(ApiError::invalid(message));
    }
    events::emit(call.store, "invoiceitem.deleted", &id);
    call.store.remove(&id);
    Ok(json!({"id": id, "object": "invoiceitem", "deleted": true}))
}
