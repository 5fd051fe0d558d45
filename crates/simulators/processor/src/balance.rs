//! A customer's balance (negative: credit for later invoices; positive: an amount owed) and its
//! movements.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{customers, events, lists, prices, render};

/// The parameters of creating a movement.
pub(super) const PARAMS: &[&str] = &["amount", "currency", "description?", "metadata.*?"];

/// A movement before it is recorded.
pub(super) struct BalanceMovement<'a> {
    /// Cents; above zero the customer owes more.
    pub(super) amount: i64,
    pub(super) currency: &'a str,
    /// Such as `applied_to_invoice`.
    pub(super) kind: &'a str,
    /// The invoice that causes it; empty if there is none.
    pub(super) invoice: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) metadata: Value,
}

impl<'a> BalanceMovement<'a> {
    /// A movement caused by an invoice.
    pub(super) fn of_invoice(invoice: &'a Value, kind: &'a str, amount: i64) -> Self {
        let (id, currency) = (text(invoice, "id"), text(invoice, "currency"));
        Self { amount, currency, kind, invoice: id, description: None, metadata: json!({}) }
    }
}

/// Moves the balance of a customer and records the movement; returns its id, or `None` if the
/// amount is 0.
pub(super) fn move_by(
    store: &mut ObjectStore,
    customer: &str,
    movement: &BalanceMovement<'_>,
) -> Option<String> {
    let before = store.get(customer).filter(|_| movement.amount != 0)?.clone();
    let after = whole(&before, "balance") + movement.amount;
    let id = store.new_id("cbtxn");
    let invoice = Some(movement.invoice).filter(|invoice| !invoice.is_empty());
    store.put(json!({
        "id": id, "object": "customer_balance_transaction", "amount": movement.amount, "checkout_session": null,
        "created": store.now, "credit_note": null, "currency": movement.currency, "customer": customer,
        "description": movement.description, "ending_balance": after, "invoice": invoice, "livemode": false,
        "metadata": movement.metadata, "type": movement.kind,
    }));
    store.change(customer, |customer| set(customer, "balance", after));
    events::emit_changed(store, "customer.updated", &before);
    Some(id)
}

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (customer, params) = (call.id(0), call.params);
    customers::live(call.store, &customer, "id")?;
    params.required("amount")?;
    let amount = params.integer("amount")?.unwrap_or_default();
    if amount == 0 {
        return Err(
            ApiError::param("amount", "Amount must be non-zero.").code("parameter_invalid_integer")
        );
    }
    let currency = params.required("currency")?.to_lowercase();
    prices::check_currency(&currency)?;
    let movement = BalanceMovement {
        amount,
        currency: &currency,
        kind: "adjustment",
        invoice: "",
        description: params.text("description").filter(|text| !text.is_empty()),
        metadata: render::metadata(params, "metadata", &Value::Null)?,
    };
    let id = move_by(call.store, &customer, &movement).unwrap_or_default();
    call.store.find("customer_balance_transaction", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.id(0);
    customers::live(call.store, &customer, "id")?;
    let url = format!("/v1/customers/{customer}/balance_transactions");
    lists::page(call, "customer_balance_transaction", &url, |movement| {
        text(movement, "customer") == customer
    })
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (customer, id) = (call.id(0), call.id(1));
    customers::live(call.store, &customer, "id")?;
    let found = call.store.find("customer_balance_transaction", &id, "id")?;
    if text(found, "customer") == customer {
        Ok(found.clone())
    } else {
        Err(ApiError::no_such("customer_balance_transaction", &id, "id"))
    }
}
