//! Promotion codes: words that customers enter on a page to get a coupon.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::coupons::{self, ChosenDiscount, limit};
use super::fields::{at, flag, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{customers, events, lists, render, versions};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "promotion.type",
    "promotion.coupon",
    "coupon",
    "code",
    "active",
    "customer",
    "expires_at",
    "max_redemptions",
    "restrictions.first_time_transaction",
    "restrictions.minimum_amount",
    "restrictions.minimum_amount_currency",
    "metadata?",
    "metadata.*?",
];
/// The parameters of updating one.
pub(super) const UPDATE_PARAMS: &[&str] = &["active", "metadata?", "metadata.*?"];

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let coupon = match params.text("coupon").filter(|_| versions::names_coupons(call.version)) {
        Some(coupon) => coupon.to_owned(),
        None => {
            versions::refuse_unknown(params, "coupon")?;
            params.required("promotion.type")?;
            params.one_of("promotion.type", &["coupon"])?;
            params.required("promotion.coupon")?.to_owned()
        }
    };
    coupons::check_usable(call.store, &coupon, "promotion[coupon]")?;
    if let Some(customer) = params.text("customer") {
        customers::live(call.store, customer, "customer")?;
    }
    let id = call.store.new_id("promo");
    let given = params.text("code").map(str::to_owned);
    let code = given.unwrap_or_else(|| id.chars().rev().take(8).collect::<String>().to_uppercase());
    if !code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(ApiError::param(
            "code",
            "Promotion codes can only contain letters, digits and dashes.",
        ));
    }
    if find(call.store, &code).is_some() {
        let message = format!("An active promotion code with `code: {code}` already exists.");
        return Err(ApiError::param("code", message).code("resource_already_exists"));
    }
    let minimum = limit(params, "restrictions.minimum_amount")?;
    let first = params.flag("restrictions.first_time_transaction")?.unwrap_or(false);
    let made = json!({
        "id": id, "object": "promotion_code", "active": params.flag("active")?.unwrap_or(true), "code": code,
        "created": call.store.now, "customer": params.text("customer"), "customer_account": null,
        "expires_at": limit(params, "expires_at")?, "livemode": false,
        "max_redemptions": limit(params, "max_redemptions")?,
        "metadata": render::metadata(params, "metadata", &Value::Null)?,
        "promotion": {"coupon": coupon, "type": "coupon"},
        "restrictions": {
            "first_time_transaction": first, "minimum_amount": minimum,
            "minimum_amount_currency": params.text("restrictions.minimum_amount_currency"),
        },
        "times_redeemed": 0,
    });
    call.store.put(made);
    events::emit(call.store, "promotion_code.created", &id);
    call.store.find("promotion_code", &id, "id").cloned()
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find("promotion_code", &id, "id")?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let active = call.params.flag("active")?.unwrap_or_else(|| flag(&before, "active"));
    call.store.change(&id, |code| {
        set(code, "metadata", metadata);
        set(code, "active", active);
    });
    events::emit_changed(call.store, "promotion_code.updated", &before);
    call.store.find("promotion_code", &id, "id").cloned()
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("promotion_code", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let (code, coupon) = (params.text("code"), params.text("coupon"));
    let active = params.flag("active")?;
    lists::page(call, "promotion_code", "/v1/promotion_codes", |one| {
        code.is_none_or(|code| text(one, "code").eq_ignore_ascii_case(code))
            && coupon.is_none_or(|coupon| text(one, "promotion.coupon") == coupon)
            && active.is_none_or(|active| flag(one, "active") == active)
    })
}

/// The active code with this word.
fn find<'a>(store: &'a ObjectStore, word: &str) -> Option<&'a Value> {
    let mut all = store.all("promotion_code");
    all.find(|code| flag(code, "active") && text(code, "code").eq_ignore_ascii_case(word))
}

/// The discount that a customer gets for a word on the page of a session.
pub(super) fn entered(
    store: &ObjectStore,
    session: &Value,
    word: &str,
) -> Result<ChosenDiscount, ApiError> {
    let refuse = |message: &str| ApiError::param("promotion_code", message);
    if !flag(session, "allow_promotion_codes") {
        return Err(refuse("This page does not take promotion codes."));
    }
    let invalid = || refuse("This code is invalid.").code("promotion_code_invalid");
    let code = find(store, word.trim()).ok_or_else(invalid)?;
    let is_over = at(code, "expires_at").as_i64().is_some_and(|until| until <= store.now);
    let owner = text(code, "customer");
    let is_of_another = !owner.is_empty() && owner != text(session, "customer");
    let minimum = whole(code, "restrictions.minimum_amount");
    let is_too_little = whole(session, "amount_subtotal") < minimum;
    if is_over || coupons::is_used_up(code) || is_of_another || is_too_little {
        return Err(invalid());
    }
    if flag(code, "restrictions.first_time_transaction")
        && has_paid(store, text(session, "customer"))
    {
        return Err(
            refuse("This code is only for the first purchase.").code("promotion_code_invalid")
        );
    }
    let coupon = text(code, "promotion.coupon").to_owned();
    coupons::check_usable(store, &coupon, "promotion_code").map_err(|_| invalid())?;
    Ok(ChosenDiscount { coupon, code: Some(text(code, "id").to_owned()) })
}

fn has_paid(store: &ObjectStore, customer: &str) -> bool {
    let paid = |intent: &Value| {
        text(intent, "customer") == customer && text(intent, "status") == "succeeded"
    };
    !customer.is_empty() && store.all("payment_intent").any(paid)
}
