//! Products and prices, including those defined inline in a request.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, flag, text, whole};
use super::form::{FormParams, name};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, lists, render};

/// The parameters of creating a product.
pub(super) const PRODUCT_PARAMS: &[&str] = &[
    "id",
    "name",
    "description?",
    "active",
    "metadata?",
    "metadata.*?",
    "tax_code",
    "default_price_data.currency",
    "default_price_data.unit_amount",
];
/// The parameters of creating a price.
pub(super) const PRICE_PARAMS: &[&str] = &[
    "currency",
    "unit_amount",
    "product",
    "product_data.id",
    "product_data.name",
    "product_data.metadata.*?",
    "recurring.interval",
    "recurring.interval_count",
    "recurring.usage_type",
    "nickname?",
    "lookup_key",
    "transfer_lookup_key",
    "active",
    "tax_behavior",
    "metadata?",
    "metadata.*?",
];

/// The parameters of updating a product.
pub(super) const PRODUCT_UPDATE_PARAMS: &[&str] =
    &["name", "description?", "active", "metadata?", "metadata.*?"];
/// The parameters of updating a price.
pub(super) const PRICE_UPDATE_PARAMS: &[&str] =
    &["active", "nickname?", "tax_behavior", "metadata?", "metadata.*?"];

pub(super) fn create_product(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let product = params.required("name")?.to_owned();
    let given = params.text("id").map(str::to_owned);
    if given.as_ref().is_some_and(|id| call.store.get(id).is_some()) {
        return Err(
            ApiError::param("id", "Product already exists.").code("resource_already_exists")
        );
    }
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let active = params.flag("active")?.unwrap_or(true);
    let id = make_product(call.store, given, &product, &metadata, active);
    if params.has("default_price_data") {
        let price = from_data(call.store, params, "default_price_data", Some(&id))?;
        call.store.change(&id, |product| super::fields::set(product, "default_price", price));
    }
    events::emit(call.store, "product.created", &id);
    call.store.find("product", &id, "id").cloned()
}

/// A product that is created inside of another request; returns its id.
pub(super) fn inline_product(store: &mut ObjectStore, name: &str) -> String {
    let id = make_product(store, None, name, &json!({}), true);
    events::emit(store, "product.created", &id);
    id
}

/// Changes what can be changed of a product or a price.
fn change(
    call: &mut ApiCall<'_>,
    before: &Value,
    texts: &[&str],
    event: &str,
) -> Result<Value, ApiError> {
    let (params, id) = (call.params, text(before, "id"));
    let metadata = render::metadata(params, "metadata", at(before, "metadata"))?;
    let active = params.flag("active")?.unwrap_or_else(|| flag(before, "active"));
    let texts: Vec<_> = texts.iter().filter_map(|name| Some((*name, params.text(name)?))).collect();
    call.store.change(id, |object| {
        super::fields::set(object, "metadata", metadata);
        super::fields::set(object, "active", active);
        for (name, value) in texts {
            super::fields::set(object, name, json!(Some(value).filter(|it| !it.is_empty())));
        }
    });
    events::emit_changed(call.store, event, before);
    call.store.find(text(before, "object"), id, "id").cloned()
}

pub(super) fn update_product(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let before = call.store.find("product", &call.id(0), "id")?.clone();
    change(call, &before, &["name", "description"], "product.updated")
}

pub(super) fn update_price(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let before = call.store.find("price", &call.id(0), "id")?.clone();
    change(call, &before, &["nickname", "tax_behavior"], "price.updated")
}

/// Deletes a product that has no prices.
pub(super) fn delete_product(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = text(call.store.find("product", &call.id(0), "id")?, "id").to_owned();
    if call.store.all("price").any(|price| text(price, "product") == id) {
        let message =
            "This product cannot be deleted because it has one or more user-created prices.";
        return Err(ApiError::invalid(message));
    }
    events::emit(call.store, "product.deleted", &id);
    call.store.remove(&id);
    Ok(json!({"id": id, "object": "product", "deleted": true}))
}

fn make_product(
    store: &mut ObjectStore,
    id: Option<String>,
    product: &str,
    metadata: &Value,
    active: bool,
) -> String {
    let id = id.unwrap_or_else(|| store.new_id("prod"));
    store.put(json!({
        "id": id, "object": "product", "active": active, "attributes": [], "created": store.now, "default_price": null,
        "description": null, "images": [], "livemode": false, "marketing_features": [], "metadata": metadata,
        "name": product, "package_dimensions": null, "shippable": null, "statement_descriptor": null, "tax_code": null,
        "type": "service", "unit_label": null, "updated": store.now, "url": null,
    }));
    id
}

pub(super) fn create_price(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let lookup = params.text("lookup_key").map(str::to_owned);
    let is_taken =
        |price: &&Value| lookup.is_some() && at(price, "lookup_key").as_str() == lookup.as_deref();
    let owner = call.store.all("price").find(is_taken).map(|price| text(price, "id").to_owned());
    if owner.is_some() && params.flag("transfer_lookup_key")? != Some(true) {
        let message = "A price already uses that lookup key.";
        return Err(ApiError::param("lookup_key", message).code("resource_already_exists"));
    }
    let product = match params.text("product") {
        Some(product) => {
            call.store.find("product", product, "product")?;
            product.to_owned()
        }
        None => {
            let named = params.required("product_data.name")?.to_owned();
            let metadata = render::metadata(params, "product_data.metadata", &Value::Null)?;
            let given = params.text("product_data.id").map(str::to_owned);
            make_product(call.store, given, &named, &metadata, true)
        }
    };
    let terms = terms(params, "")?;
    if let Some(owner) = owner {
        call.store.change(&owner, |price| super::fields::set(price, "lookup_key", Value::Null));
    }
    let id = make_price(call.store, &product, &terms, true);
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let nickname = params.text("nickname").map(str::to_owned);
    let active = params.flag("active")?.unwrap_or(true);
    call.store.change(&id, |price| {
        super::fields::set(price, "metadata", metadata);
        super::fields::set(price, "nickname", json!(nickname));
        super::fields::set(price, "lookup_key", json!(lookup));
        super::fields::set(price, "active", active);
    });
    events::emit(call.store, "price.created", &id);
    call.store.find("price", &id, "id").cloned()
}

/// The terms of a price: currency, amount, and interval.
struct PriceTerms {
    currency: String,
    unit_amount: i64,
    recurring: Option<(&'static str, i64)>,
}

fn terms(params: &FormParams, below: &str) -> Result<PriceTerms, ApiError> {
    let path =
        |field: &str| if below.is_empty() { field.to_owned() } else { format!("{below}.{field}") };
    let currency = params.required(&path("currency"))?.to_lowercase();
    check_currency(&currency)?;
    params.required(&path("unit_amount"))?;
    let unit_amount = params.integer(&path("unit_amount"))?.unwrap_or(0);
    if unit_amount < 0 {
        let shown = name(&path("unit_amount"));
        return Err(ApiError::param(&shown, "Invalid non-negative integer")
            .code("parameter_invalid_integer"));
    }
    let recurring = if params.has(&path("recurring")) {
        params.required(&path("recurring.interval"))?;
        let interval =
            params.one_of(&path("recurring.interval"), &["day", "week", "month", "year"])?;
        let count = params.integer(&path("recurring.interval_count"))?.unwrap_or(1);
        interval.map(|interval| (interval, count.clamp(1, 36)))
    } else {
        None
    };
    Ok(PriceTerms { currency, unit_amount, recurring })
}

fn make_price(store: &mut ObjectStore, product: &str, terms: &PriceTerms, active: bool) -> String {
    let id = store.new_id("price");
    let recurring = terms.recurring.map(|(interval, count)| {
        json!({"interval": interval, "interval_count": count, "meter": null, "trial_period_days": null, "usage_type": "licensed"})
    });
    store.put(json!({
        "id": id, "object": "price", "active": active, "billing_scheme": "per_unit", "created": store.now,
        "currency": terms.currency, "custom_unit_amount": null, "livemode": false, "lookup_key": null, "metadata": {},
        "nickname": null, "product": product, "recurring": recurring, "tax_behavior": "unspecified", "tiers_mode": null,
        "transform_quantity": null, "type": if terms.recurring.is_some() { "recurring" } else { "one_time" },
        "unit_amount": terms.unit_amount, "unit_amount_decimal": terms.unit_amount.to_string(),
    }));
    id
}

/// The price in `price` or `price_data` below a path; a new price from `price_data` is inactive, so
/// that it is used only here.
pub(super) fn named(
    store: &mut ObjectStore,
    params: &FormParams,
    below: &str,
) -> Result<String, ApiError> {
    if let Some(id) = params.text(&format!("{below}.price")) {
        if params.has(&format!("{below}.price_data")) {
            let message = "You may only specify one of these parameters: price, price_data.";
            return Err(ApiError::param(&name(below), message));
        }
        let shown = name(&format!("{below}.price"));
        let price = store.find("price", id, &shown)?;
        if !flag(price, "active") {
            let message = "The price specified is inactive. This field only accepts active prices.";
            return Err(ApiError::param(&shown, message));
        }
        return Ok(id.to_owned());
    }
    if !params.has(&format!("{below}.price_data")) {
        return Err(ApiError::missing(&name(&format!("{below}.price"))));
    }
    from_data(store, params, &format!("{below}.price_data"), None)
}

fn from_data(
    store: &mut ObjectStore,
    params: &FormParams,
    below: &str,
    product: Option<&str>,
) -> Result<String, ApiError> {
    let terms = terms(params, below)?;
    let given = product.or_else(|| params.text(&format!("{below}.product")));
    let product = match given {
        Some(product) => {
            store.find("product", product, &name(&format!("{below}.product")))?;
            product.to_owned()
        }
        None => {
            let named = params.required(&format!("{below}.product_data.name"))?.to_owned();
            let metadata =
                render::metadata(params, &format!("{below}.product_data.metadata"), &Value::Null)?;
            make_product(store, None, &named, &metadata, false)
        }
    };
    Ok(make_price(store, &product, &terms, false))
}

/// The description of a purchase: its price, quantity and name.
pub(super) fn describe(store: &ObjectStore, price: &Value) -> String {
    let product = store.get(text(price, "product"));
    product.map_or("", |product| text(product, "name")).to_owned()
}

/// The amount in cents for a quantity of a price.
pub(super) fn amount(price: &Value, quantity: i64) -> i64 {
    whole(price, "unit_amount").saturating_mul(quantity)
}

pub(super) fn retrieve_product(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("product", &id, "id").cloned()
}

pub(super) fn retrieve_price(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("price", &id, "price").map_err(|problem| problem.status(404)).cloned()
}

pub(super) fn list_products(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let active = call.params.flag("active")?;
    let ids = call.params.names("ids");
    let ids: Vec<&str> =
        ids.iter().filter_map(|at| call.params.text(&format!("ids.{at}"))).collect();
    lists::page(call, "product", "/v1/products", |product| {
        active.is_none_or(|active| flag(product, "active") == active)
            && (ids.is_empty() || ids.contains(&text(product, "id")))
    })
}

pub(super) fn search_prices(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    lists::search(call, "price", "/v1/prices/search")
}

pub(super) fn list_prices(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let active = params.flag("active")?;
    let (product, kind, currency) =
        (params.text("product"), params.text("type"), params.text("currency"));
    let keys = params.names("lookup_keys");
    let keys: Vec<&str> =
        keys.iter().filter_map(|at| params.text(&format!("lookup_keys.{at}"))).collect();
    lists::page(call, "price", "/v1/prices", |price| {
        active.is_none_or(|active| flag(price, "active") == active)
            && product.is_none_or(|product| text(price, "product") == product)
            && kind.is_none_or(|kind| text(price, "type") == kind)
            && currency.is_none_or(|currency| text(price, "currency") == currency)
            && (keys.is_empty() || keys.contains(&text(price, "lookup_key")))
            && !at(price, "id").is_null()
    })
}

/// Refuses currencies that are not simulated.
pub(crate) fn check_currency(currency: &str) -> Result<(), ApiError> {
    if matches!(currency, "usd" | "eur" | "gbp" | "jpy") {
        return Ok(());
    }
    Err(ApiError::param(
        "currency",
        format!(
            "Invalid currency: {currency}. The simulated processor knows usd, eur, gbp and jpy."
        ),
    ))
}
