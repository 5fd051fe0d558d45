//! Plans: the older form of a recurring price, created together with its product.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, flag, set, text};
use super::problem::ApiError;
use super::{events, prices, render};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "id",
    "currency",
    "interval",
    "interval_count",
    "amount",
    "nickname?",
    "active",
    "product",
    "product.name",
    "metadata?",
    "metadata.*?",
];
/// The parameters of updating one.
pub(super) const UPDATE_PARAMS: &[&str] = &["active", "nickname?", "metadata?", "metadata.*?"];

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let currency = params.required("currency")?.to_lowercase();
    prices::check_currency(&currency)?;
    params.required("interval")?;
    let interval = params.one_of("interval", &["day", "week", "month", "year"])?;
    let amount = params.integer("amount")?.ok_or_else(|| ApiError::missing("amount"))?;
    let product = match params.text("product") {
        Some(product) => text(call.store.find("product", product, "product")?, "id").to_owned(),
        None => prices::inline_product(call.store, params.required("product.name")?),
    };
    let id = params.text("id").map_or_else(|| call.store.new_id("plan"), str::to_owned);
    if call.store.get(&id).is_some() {
        return Err(ApiError::param("id", "Plan already exists.").code("resource_already_exists"));
    }
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    call.store.put(json!({
        "id": id, "object": "plan", "active": params.flag("active")?.unwrap_or(true), "amount": amount,
        "amount_decimal": amount.to_string(), "billing_scheme": "per_unit", "created": call.store.now,
        "currency": currency, "interval": interval,
        "interval_count": params.integer("interval_count")?.unwrap_or(1), "livemode": false, "metadata": metadata,
        "meter": null, "nickname": params.text("nickname"), "product": product, "tiers_mode": null,
        "transform_usage": null, "trial_period_days": null, "usage_type": "licensed",
    }));
    events::emit(call.store, "plan.created", &id);
    call.store.find("plan", &id, "id").cloned()
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("plan", &id, "id").cloned()
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find("plan", &id, "id")?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let active = call.params.flag("active")?.unwrap_or_else(|| flag(&before, "active"));
    let nickname = call.params.text("nickname").map(str::to_owned);
    call.store.change(&id, |plan| {
        set(plan, "metadata", metadata);
        set(plan, "active", active);
        if let Some(nickname) = nickname {
            set(plan, "nickname", json!(Some(nickname).filter(|name| !name.is_empty())));
        }
    });
    events::emit_changed(call.store, "plan.updated", &before);
    call.store.find("plan", &id, "id").cloned()
}

pub(super) fn delete(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = text(call.store.find("plan", &call.id(0), "id")?, "id").to_owned();
    events::emit(call.store, "plan.deleted", &id);
    call.store.remove(&id);
    Ok(json!({"id": id, "object": "plan", "deleted": true}))
}
