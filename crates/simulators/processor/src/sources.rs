//! Cards as sources of a customer, the older form of a saved payment method.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, set, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{cards, customers, events, render};

/// The parameters of adding one.
pub(super) const PARAMS: &[&str] = &["source", "metadata?", "metadata.*?"];
/// The parameters of updating one.
pub(super) const UPDATE_PARAMS: &[&str] =
    &["metadata?", "metadata.*?", "name?", "exp_month", "exp_year"];

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.id(0);
    customers::live(call.store, &customer, "id")?;
    let token = call.params.required("source")?;
    let id = add(call.store, &customer, token)?;
    let metadata = render::metadata(call.params, "metadata", &Value::Null)?;
    call.store.change(&id, |source| set(source, "metadata", metadata));
    call.store.find("card", &id, "id").cloned()
}

/// Adds the card of a token such as `tok_visa` to a customer, who pays with it if there is no
/// other; returns its id.
pub(super) fn add(
    store: &mut ObjectStore,
    customer: &str,
    token: &str,
) -> Result<String, ApiError> {
    let name = token.replacen("tok_", "pm_card_", 1);
    let card = cards::find(&name).filter(|card| card.is_card() && token.starts_with("tok_"));
    let card = card.ok_or_else(|| {
        ApiError::param("source", format!("No such token: '{token}'")).code("resource_missing")
    })?;
    if let cards::CardBehaviour::Declines(code) = card.behaviour {
        return Err(ApiError { keeps: false, ..cards::declined(code) });
    }
    let id = store.new_id("card");
    let last4 = card.number.get(card.number.len().saturating_sub(4)..).unwrap_or_default();
    store.put(json!({
        "id": id, "object": "card", "address_city": null, "address_country": null, "address_line1": null,
        "address_zip": null, "brand": card.brand, "country": "US", "customer": customer, "cvc_check": "pass",
        "exp_month": 12, "exp_year": 2034, "funding": "credit", "last4": last4, "metadata": {}, "name": null,
        "_": {"card": card.names.first()},
    }));
    if store.get(customer).is_some_and(|it| text(it, "default_source").is_empty()) {
        store.change(customer, |customer| set(customer, "default_source", id.as_str()));
    }
    events::emit(store, "customer.source.created", &id);
    Ok(id)
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (customer, id) = (call.id(0), call.id(1));
    let before = call.store.find("card", &id, "id")?.clone();
    if text(&before, "customer") != customer {
        return Err(ApiError::no_such("card", &id, "id"));
    }
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let name = call.params.text("name").map(str::to_owned);
    let expiry = [call.params.integer("exp_month")?, call.params.integer("exp_year")?];
    call.store.change(&id, |source| {
        set(source, "metadata", metadata);
        if let Some(name) = name {
            set(source, "name", json!(Some(name).filter(|name| !name.is_empty())));
        }
        for (field, value) in ["exp_month", "exp_year"].into_iter().zip(expiry) {
            if let Some(value) = value {
                set(source, field, value);
            }
        }
    });
    events::emit_changed(call.store, "customer.source.updated", &before);
    call.store.find("card", &id, "id").cloned()
}
