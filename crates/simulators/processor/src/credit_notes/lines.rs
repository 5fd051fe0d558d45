//! Lines of credit notes: what of an invoice's lines is credited, with its discounts and its tax.

use serde_json::{Value, json};

use crate::api_call::ApiCall;
use crate::fields::{at, flag, list, set, text, whole};
use crate::form::name;
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::rounding::share;

/// The kinds of lines.
const OF_INVOICE: &str = "invoice_line_item";
const CUSTOM: &str = "custom_line_item";

/// The notes of an invoice that count, without the one that is being made.
pub(super) fn issued(store: &ObjectStore, invoice: &str) -> Vec<Value> {
    let counts =
        |note: &&Value| text(note, "invoice") == invoice && text(note, "status") == "issued";
    store.all("credit_note").filter(counts).cloned().collect()
}

/// The lines that the parameters describe; one of its own for an amount without lines.
pub(super) fn of(call: &mut ApiCall<'_>, invoice: &Value) -> Result<Vec<Value>, ApiError> {
    let places = call.params.names("lines");
    let amount = call.params.integer("amount")?;
    if places.is_empty() {
        let amount = amount.ok_or_else(|| ApiError::missing("amount"))?;
        return Ok(vec![written(call.store, CUSTOM, (amount, 1), &json!({}))]);
    }
    let mut lines = Vec::new();
    for place in places {
        let line = one(call, invoice, &format!("lines.{place}"), &lines)?;
        lines.push(line);
    }
    let sum: i64 = lines.iter().map(total).sum();
    match amount {
        Some(amount) if amount != sum => {
            let message = format!("The amount ({amount}) must equal the sum of the lines ({sum}).");
            Err(ApiError::param("amount", message))
        }
        _ => Ok(lines),
    }
}

/// What a line credits, with tax.
pub(super) fn total(line: &Value) -> i64 {
    net(line) + tax(line)
}

/// What a line credits after discounts and before tax.
pub(super) fn net(line: &Value) -> i64 {
    whole(line, "amount") - whole(line, "discount_amount")
}

/// The tax that a line credits.
pub(super) fn tax(line: &Value) -> i64 {
    list(line, "taxes").iter().map(|tax| whole(tax, "amount")).sum()
}

fn one(
    call: &mut ApiCall<'_>,
    invoice: &Value,
    below: &str,
    before: &[Value],
) -> Result<Value, ApiError> {
    let kind = call.params.one_of(&format!("{below}.type"), &[OF_INVOICE, CUSTOM])?;
    match kind {
        Some(OF_INVOICE) => of_invoice(call, invoice, below, before),
        Some(_) if flag(invoice, "automatic_tax.enabled") => {
            let message = "Custom line items are not supported for invoices with automatic tax.";
            Err(ApiError::param(&name(&format!("{below}.type")), message))
        }
        Some(_) => custom(call, below),
        None => Err(ApiError::missing(&name(&format!("{below}.type")))),
    }
}

fn custom(call: &mut ApiCall<'_>, below: &str) -> Result<Value, ApiError> {
    let unit = call.params.integer(&format!("{below}.unit_amount"))?;
    let unit = unit.ok_or_else(|| ApiError::missing(&name(&format!("{below}.unit_amount"))))?;
    let quantity = call.params.integer(&format!("{below}.quantity"))?.unwrap_or(1);
    let more = json!({
        "description": call.params.text(&format!("{below}.description")),
        "taxes": given_taxes(call, below)?.unwrap_or_default(), "unit_amount": unit,
    });
    Ok(written(call.store, CUSTOM, (unit * quantity, quantity), &more))
}

/// A line for a part of a line of the invoice.
fn of_invoice(
    call: &mut ApiCall<'_>,
    invoice: &Value,
    below: &str,
    before: &[Value],
) -> Result<Value, ApiError> {
    let param = |field: &str| name(&format!("{below}.{field}"));
    let id = call.params.required(&format!("{below}.invoice_line_item"))?.to_owned();
    let lines = list(invoice, "lines.data");
    let line = lines.iter().find(|line| text(line, "id") == id).cloned();
    let line = line.ok_or_else(|| {
        let message = format!("No such invoice line item on this invoice: '{id}'");
        ApiError::param(&param("invoice_line_item"), message).code("resource_missing")
    })?;
    let (all, count) = (whole(&line, "amount"), whole(&line, "quantity"));
    let amount = call.params.integer(&format!("{below}.amount"))?;
    let quantity = call.params.integer(&format!("{below}.quantity"))?;
    let amount = match (amount, quantity) {
        (Some(amount), None) => amount,
        (None, Some(quantity)) => share(all, quantity.clamp(0, count), count.max(1)),
        _ => {
            let message = "You must specify either an amount or a quantity.";
            return Err(ApiError::param(&param("amount"), message));
        }
    };
    let is_same = |known: &&Value| text(known, "invoice_line_item") == id;
    let earlier = issued(call.store, text(invoice, "id"));
    let noted = earlier.iter().flat_map(|note| list(note, "lines.data")).chain(before);
    let noted: i64 = noted.filter(is_same).map(|known| whole(known, "amount")).sum();
    if amount < 0 || amount + noted > all {
        let message = format!("The amount must be between 0 and {}.", (all - noted).max(0));
        return Err(ApiError::param(&param("amount"), message));
    }
    let part = |cents: i64| if all > 0 { share(cents, amount, all) } else { 0 };
    let discounts: Vec<Value> = list(&line, "discount_amounts")
        .iter()
        .map(|off| json!({"amount": part(whole(off, "amount")), "discount": at(off, "discount")}))
        .collect();
    let off: i64 = discounts.iter().map(|off| whole(off, "amount")).sum();
    let taxes = match given_taxes(call, below)? {
        Some(_) if flag(invoice, "automatic_tax.enabled") => {
            let message = "Tax amounts cannot be given for an invoice with automatic tax.";
            return Err(ApiError::param(&param("tax_amounts"), message));
        }
        Some(given) => given,
        None => taxes_of(&line, part),
    };
    let more = json!({
        "description": at(&line, "description"), "discount_amount": off, "discount_amounts": discounts,
        "invoice_line_item": id, "taxes": taxes,
    });
    let made = written(call.store, OF_INVOICE, (amount, quantity.unwrap_or(1)), &more);
    Ok(made)
}

/// The taxes of a part of an invoice's line.
fn taxes_of(line: &Value, part: impl Fn(i64) -> i64) -> Value {
    let of_part = |tax: &Value| {
        let mut tax = tax.clone();
        let (amount, taxable) = (whole(&tax, "amount"), whole(&tax, "taxable_amount"));
        set(&mut tax, "amount", part(amount));
        set(&mut tax, "taxable_amount", part(taxable));
        tax
    };
    list(line, "taxes").iter().map(of_part).collect()
}

/// The taxes that the parameters name: an empty text stands for none.
fn given_taxes(call: &ApiCall<'_>, below: &str) -> Result<Option<Value>, ApiError> {
    let path = format!("{below}.tax_amounts");
    if call.params.text(&path) == Some("") {
        return Ok(Some(json!([])));
    }
    let mut taxes = Vec::new();
    for place in call.params.names(&path) {
        let field = |field: &str| format!("{path}.{place}.{field}");
        let amount = call.params.integer(&field("amount"))?;
        let taxable = call.params.integer(&field("taxable_amount"))?;
        taxes.push(json!({
            "amount": amount.ok_or_else(|| ApiError::missing(&name(&field("amount"))))?, "tax_behavior": "exclusive",
            "tax_rate_details": {"tax_rate": call.params.required(&field("tax_rate"))?},
            "taxability_reason": "standard_rated",
            "taxable_amount": taxable.ok_or_else(|| ApiError::missing(&name(&field("taxable_amount"))))?,
            "type": "tax_rate_details",
        }));
    }
    Ok(Some(Value::from(taxes)).filter(|taxes| taxes != &json!([])))
}

fn written(
    store: &mut ObjectStore,
    kind: &str,
    (amount, quantity): (i64, i64),
    more: &Value,
) -> Value {
    let or = |field: &str, none: Value| {
        let given = at(more, field).clone();
        if given.is_null() { none } else { given }
    };
    json!({
        "id": store.new_id("cnli"), "object": "credit_note_line_item", "amount": amount,
        "description": or("description", Value::Null), "discount_amount": or("discount_amount", json!(0)),
        "discount_amounts": or("discount_amounts", json!([])), "invoice_line_item": at(more, "invoice_line_item"),
        "livemode": false, "metadata": {}, "pretax_credit_amounts": [], "quantity": quantity, "tax_rates": [],
        "taxes": or("taxes", json!([])), "type": kind, "unit_amount": at(more, "unit_amount"),
        "unit_amount_decimal": at(more, "unit_amount").as_i64().map(|unit| unit.to_string()),
    })
}
