//! Subscription tiers. They are never removed: deleting sets their status to `deleted`.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{CURRENCY, id, index, own, rows};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time::rfc3339;

const TIERS: &str = "tiers";
const CONFIGURATION: &str = "user/{id}/subscription/configuration";
const FIELDS: &[&str] = &[
    "price",
    "currency",
    "type",
    "status",
    "repeat_days",
    "recurring_payment",
    "initial_payment_options",
    "name",
    "description",
];

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get(CONFIGURATION, tiers).post(CONFIGURATION, create).write(
        Method::PUT,
        "user/{id}/subscription/configuration/{tier_id}",
        modify,
    )
}

fn tiers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, TIERS, call.world.tiers(), |tier| tier_json(call, overlay, tier))
}

fn tier_json(call: &PlatformCall<'_>, overlay: &Overlay, tier: u64) -> Value {
    let base = if tier < CREATED { generated(call, tier) } else { json!({}) };
    let mut shown = object(overlay.over(TIERS, tier, base));
    shown.insert("_id".to_owned(), json!(id(call, Kind::Tier, tier)));
    let mut shown = Value::Object(shown);
    add_netto(&mut shown);
    shown
}

fn generated(call: &PlatformCall<'_>, index: u64) -> Value {
    let tier = call.world.tier(index);
    let payment = |discount: i64, months: i64| {
        json!({
            "discount": discount,
            "duration_unit": "month",
            "duration_value": months,
            "amount": tier.price_cents * months * (100 - discount) / 100,
            "description": format!("{months} months, {discount} percent off"),
        })
    };
    json!({
        "name": tier.name,
        "price": tier.price_cents,
        "currency": CURRENCY,
        "type": "recurring",
        "status": "active",
        "repeat_days": 30,
        "recurring_payment": {
            "duration_unit": "month",
            "duration_value": 1,
            "amount": tier.price_cents,
            "description": "Monthly",
        },
        "initial_payment_options": if index == 0 { json!([payment(10, 3), payment(20, 6)]) } else { json!([]) },
        "created_at": rfc3339(tier.created_at_ms),
    })
}

/// Adds, next to each `amount`, the amount without the platform's share.
fn add_netto(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(amount) = fields.get("amount").and_then(Value::as_i64) {
                fields.insert("amount_netto".to_owned(), json!(amount * 4 / 5));
            }
            fields.values_mut().for_each(add_netto);
        }
        Value::Array(items) => items.iter_mut().for_each(add_netto),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn sends_netto(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.contains_key("amount_netto") || fields.values().any(sends_netto)
        }
        Value::Array(items) => items.iter().any(sends_netto),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn refuse_netto(call: &PlatformCall<'_>) -> Result<(), Refusal> {
    if sends_netto(&call.body) {
        return Err(Refusal::bad_request("amount_netto is read-only"));
    }
    Ok(())
}

fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    refuse_netto(call)?;
    call.text("currency")?;
    call.text("type")?;
    for name in ["price", "recurring_payment"] {
        if call.field(name).is_null() {
            return Err(Refusal::bad_request(format!("{name} is required")));
        }
    }
    check_fields(call)?;
    let mut fields = object(json!({
        "status": "active",
        "repeat_days": 30,
        "initial_payment_options": [],
        "created_at": rfc3339(call.now_ms),
    }));
    fields.extend(call.fields(FIELDS));
    let tier = overlay.create(TIERS, fields);
    Ok(Answer::created(tier_json(call, overlay, tier)))
}

/// 400 unless each field of a tier is absent or valid.
fn check_fields(call: &PlatformCall<'_>) -> Result<(), Refusal> {
    let price = call.field("price");
    if !price.is_null() && price.as_f64().is_none_or(|price| price < 0.0) {
        return Err(Refusal::bad_request("price is a number of minor units"));
    }
    let status = call.field("status");
    if !status.is_null() && status != "active" && status != "deleted" {
        return Err(Refusal::bad_request("status is active or deleted"));
    }
    let days = call.field("repeat_days");
    if !days.is_null() && days.as_u64().is_none_or(|days| days == 0) {
        return Err(Refusal::bad_request("repeat_days is a whole number above 0"));
    }
    let recurring = call.field("recurring_payment");
    if !recurring.is_null() {
        check_payment("recurring_payment", recurring)?;
    }
    let options = call.field("initial_payment_options");
    if !options.is_null() && !options.is_array() {
        return Err(Refusal::bad_request("initial_payment_options is a list"));
    }
    options
        .as_array()
        .into_iter()
        .flatten()
        .try_for_each(|option| check_payment("initial_payment_options", option))
}

fn check_payment(name: &str, payment: &Value) -> Result<(), Refusal> {
    let amount = payment.get("amount").and_then(Value::as_f64).is_some_and(|amount| amount >= 0.0);
    let unit = payment.get("duration_unit").is_some_and(Value::is_string);
    let value = payment.get("duration_value").and_then(Value::as_u64).is_some_and(|it| it > 0);
    if amount && unit && value {
        return Ok(());
    }
    let wanted = "amount, duration_unit and duration_value are required";
    Err(Refusal::bad_request(format!("{name}: {wanted}")))
}

/// `status` `deleted` with a `modification_type` deletes the tier; otherwise the sent fields are
/// set.
fn modify(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    refuse_netto(call)?;
    let tier = index(call, Kind::Tier, "tier_id", "Tier")?;
    if !overlay.holds(TIERS, call.world.tiers(), tier) {
        return Err(Refusal::not_found("Tier"));
    }
    call.text("modification_type")?;
    check_fields(call)?;
    if overlay.field(TIERS, tier, "status").is_some_and(|status| status == "deleted") {
        return Err(Refusal::conflict("The tier is deleted"));
    }
    overlay.set(TIERS, tier, call.fields(FIELDS));
    Ok(Answer::ok(tier_json(call, overlay, tier)))
}
