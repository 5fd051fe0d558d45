//! Customers of the merchant.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, list as all, set, text};
use super::object_store::ObjectStore;
use super::payment_methods::attach_to;
use super::problem::ApiError;
use super::{coupons, events, lists, render, sources, taxes, versions};

/// The parameters of creating and updating a customer.
pub(super) const PARAMS: &[&str] = &[
    "email?",
    "name?",
    "description?",
    "phone?",
    "metadata?",
    "metadata.*?",
    "payment_method",
    "source",
    "coupon?",
    "test_clock",
    "invoice_settings.default_payment_method?",
    "balance",
    "address.line1?",
    "address.line2?",
    "address.city?",
    "address.postal_code?",
    "address.state?",
    "address.country?",
];

/// Creates the customer of a page; returns the id.
pub(super) fn guest(store: &mut ObjectStore, email: &str) -> String {
    let id = make(store);
    store.change(&id, |customer| {
        set(customer, "email", json!(Some(email).filter(|email| !email.is_empty())));
    });
    events::emit(store, "customer.created", &id);
    id
}

fn make(store: &mut ObjectStore) -> String {
    let id = store.new_id("cus");
    store.put(json!({
        "id": id, "object": "customer", "address": null, "balance": 0, "created": store.now, "currency": null,
        "default_source": null, "delinquent": false, "description": null, "email": null,
        "invoice_settings": {
            "custom_fields": null, "default_payment_method": null, "footer": null, "rendering_options": null,
        },
        "livemode": false, "metadata": {}, "name": null, "phone": null, "preferred_locales": [], "shipping": null,
        "tax_exempt": "none", "test_clock": null,
    }));
    id
}

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = make(call.store);
    if let Some(clock) = call.params.text("test_clock") {
        call.store.find("test_helpers.test_clock", clock, "test_clock")?;
        call.store.change(&id, |customer| set(customer, "test_clock", clock));
    }
    let method = match call.params.text("payment_method") {
        None => None,
        Some(given) => {
            let method = attach_to(call.store, given, &id, "payment_method")?;
            Some((given.to_owned(), method))
        }
    };
    apply(call, &id, method.as_ref())?;
    events::emit(call.store, "customer.created", &id);
    give(call, &id)?;
    live(call.store, &id, "id").cloned()
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = live(call.store, &id, "id")?.clone();
    versions::refuse_unknown(call.params, "test_clock")?;
    apply(call, &id, None)?;
    events::emit_changed(call.store, "customer.updated", &before);
    give(call, &id)?;
    live(call.store, &id, "id").cloned()
}

/// Gives a customer the card of a token and the discount of a coupon.
fn give(call: &mut ApiCall<'_>, id: &str) -> Result<(), ApiError> {
    if let Some(token) = call.params.text("source") {
        sources::add(call.store, id, token)?;
    }
    if !versions::names_coupons(call.version) {
        return versions::refuse_unknown(call.params, "coupon");
    }
    match call.params.text("coupon") {
        Some(coupon) => coupons::give_customer(call.store, id, coupon),
        None => Ok(()),
    }
}

/// Sets the given fields. `attached` is a payment method by its name in the request, which may be
/// that of a test card, and its id.
fn apply(
    call: &mut ApiCall<'_>,
    id: &str,
    attached: Option<&(String, String)>,
) -> Result<(), ApiError> {
    let params = call.params;
    let mut customer = live(call.store, id, "id")?.clone();
    if params.text("email").is_some_and(|email| !email.is_empty() && !email.contains('@')) {
        let email = params.text("email").unwrap_or_default();
        return Err(ApiError::param("email", format!("Invalid email address: {email}"))
            .code("email_invalid"));
    }
    for name in ["email", "name", "description", "phone"] {
        if let Some(value) = params.text(name) {
            set(&mut customer, name, json!(Some(value).filter(|value| !value.is_empty())));
        }
    }
    if params.has("address") {
        let mut address = at(&customer, "address").clone();
        for name in ["city", "country", "line1", "line2", "postal_code", "state"] {
            let given = params.text(&format!("address.{name}")).filter(|text| !text.is_empty());
            set(&mut address, name, json!(given));
        }
        set(&mut customer, "address", address);
    }
    if let Some(balance) = params.integer("balance")? {
        set(&mut customer, "balance", balance);
    }
    let metadata = render::metadata(params, "metadata", at(&customer, "metadata"))?;
    set(&mut customer, "metadata", metadata);
    let path = "invoice_settings.default_payment_method";
    let attached = attached.map(|(name, id)| (name.as_str(), id.as_str()));
    if let Some(method) = params.text(path) {
        let method = attached.filter(|(name, _)| *name == method).map_or(method, |(_, id)| id);
        let owned =
            call.store.find("payment_method", method, "invoice_settings[default_payment_method]");
        if !method.is_empty() && text(owned?, "customer") != id {
            let message = "The customer does not have a payment method with the ID ".to_owned()
                + method
                + ". The payment method must be attached to the customer.";
            return Err(ApiError::param("invoice_settings[default_payment_method]", message)
                .code("resource_missing"));
        }
        set(&mut customer, path, json!(Some(method).filter(|method| !method.is_empty())));
    }
    call.store.put(customer);
    Ok(())
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let customer = call.store.find("customer", &id, "id")?;
    if super::fields::flag(customer, "deleted") {
        return Ok(json!({"id": id, "object": "customer", "deleted": true}));
    }
    Ok(customer.clone())
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let email = call.params.text("email").map(str::to_owned);
    lists::page(call, "customer", "/v1/customers", |customer| {
        !super::fields::flag(customer, "deleted")
            && email.as_deref().is_none_or(|email| text(customer, "email") == email)
    })
}

pub(super) fn search(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    lists::search(call, "customer", "/v1/customers/search")
}

pub(super) fn delete(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    live(call.store, &id, "id")?;
    for subscription in super::subscriptions::live_of(call.store, &id) {
        super::subscriptions::end(call.store, &subscription);
    }
    for method in super::payment_methods::of_customer(call.store, &id) {
        super::payment_methods::take_off(call.store, &method);
    }
    events::emit(call.store, "customer.deleted", &id);
    call.store.change(&id, |customer| set(customer, "deleted", true));
    Ok(json!({"id": id, "object": "customer", "deleted": true}))
}

/// Adds a tax id to a customer.
pub(super) fn create_tax_id(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    live(call.store, &id, "id")?;
    let (kind, value) = (call.params.required("type")?, call.params.required("value")?);
    taxes::add_tax_id(call.store, &id, kind, value)?;
    events::emit(call.store, "customer.tax_id.created", &id);
    let customer = live(call.store, &id, "id")?;
    let found = all(customer, "_.tax_ids").iter().find(|one| text(one, "value") == value);
    found.cloned().ok_or_else(|| ApiError::no_such("tax_id", value, "value"))
}

pub(super) fn list_tax_ids(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let customer = live(call.store, &id, "id")?.clone();
    let found: Vec<&Value> = all(&customer, "_.tax_ids").iter().collect();
    lists::of(call, &found, &format!("/v1/customers/{id}/tax_ids"))
}

/// The customer, unless it has been deleted.
pub(super) fn live<'a>(
    store: &'a ObjectStore,
    id: &str,
    param: &str,
) -> Result<&'a Value, ApiError> {
    let customer = store.find("customer", id, param)?;
    if super::fields::flag(customer, "deleted") {
        return Err(ApiError::no_such("customer", id, param));
    }
    Ok(customer)
}
