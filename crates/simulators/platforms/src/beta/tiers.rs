//! Subscription tiers with their plans, and promotions of plans.

use serde_json::{Map, Value, json};

use super::shapes::{
    AccountRef, Collection, NOTHING, account_id, body_id, body_ids, id, index_of, mills, price,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};

const TIERS: &str = "tiers";
/// By plan: the tier and the sent fields. Generated plans have the index of their tier.
const PLANS: &str = "plans";
const PROMOTIONS: Collection<'static> =
    Collection { table: "promotions", series: NOTHING, kind: Kind::Promotion };

/// The lowest price of a promotion, in mills.
const PROMOTION_PRICE_MIN: i64 = 3000;
const TIERS_MAX: u64 = 20;
const PLANS_MAX: usize = 12;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("subscriptions/tiers", tiers)
        .post("subscriptions/tiers", create)
        .post("subscriptions/tier/delete", delete)
        .post("subscriptions/tiers/order", order)
        .post("subscriptions/promotions", promote)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: TIERS, series: call.world.tiers(), kind: Kind::Tier }
}

/// All tiers, in their order.
pub(super) fn all(call: &PlatformCall<'_>, overlay: &Overlay) -> Vec<Value> {
    let tiers = collection(call).all(overlay).into_iter().enumerate();
    tiers.map(|(position, tier)| tier_json(call, overlay, tier, position)).collect()
}

/// The name of a tier.
pub(super) fn name(call: &PlatformCall<'_>, overlay: &Overlay, tier: u64) -> String {
    let set = overlay.field(TIERS, tier, "name").and_then(Value::as_str);
    set.unwrap_or_else(|| call.world.tier(tier).name).to_owned()
}

fn tier_json(call: &PlatformCall<'_>, overlay: &Overlay, tier: u64, position: usize) -> Value {
    let generated = if tier < CREATED {
        let generated = call.world.tier(tier);
        json!({
            "name": generated.name,
            "color": generated.color,
            "price": mills(generated.price_cents),
            "maxSubscribers": 0,
            "subscriptionBenefits": ["All posts", "Chat"],
            "createdAt": generated.created_at_ms,
        })
    } else {
        json!({})
    };
    let mut shown = object(overlay.over(TIERS, tier, generated));
    shown.insert("id".to_owned(), json!(id(call, Kind::Tier, tier)));
    shown.insert("accountId".to_owned(), json!(account_id(call, AccountRef::Creator)));
    shown.remove("planIndexes");
    shown.insert("pos".to_owned(), json!(position));
    shown.insert("plans".to_owned(), json!(plans(call, overlay, tier)));
    Value::Object(shown)
}

/// The plans of a tier; a generated tier has one for 30 days under its own index.
fn plan_indexes(overlay: &Overlay, tier: u64) -> Vec<u64> {
    match overlay.field(TIERS, tier, "planIndexes").and_then(Value::as_array) {
        Some(indexes) => indexes.iter().filter_map(Value::as_u64).collect(),
        None => vec![tier],
    }
}

fn plans(call: &PlatformCall<'_>, overlay: &Overlay, tier: u64) -> Vec<Value> {
    let promotions = PROMOTIONS.all(overlay);
    let plan = |plan: u64| {
        let generated = if plan < CREATED {
            let price = mills(call.world.tier(plan).price_cents);
            json!({"price": price, "billingCycle": 30, "status": 1})
        } else {
            json!({})
        };
        let plan_id = id(call, Kind::Plan, plan);
        let of_plan = promotions.iter().filter(|promotion| {
            overlay.field(PROMOTIONS.table, **promotion, "planId").and_then(Value::as_str)
                == Some(&plan_id)
        });
        let promos: Vec<Value> =
            of_plan.map(|promotion| promotion_json(call, overlay, *promotion)).collect();
        let mut shown = object(overlay.over(PLANS, plan, generated));
        shown.insert("id".to_owned(), json!(plan_id));
        shown.insert("promos".to_owned(), json!(promos));
        Value::Object(shown)
    };
    plan_indexes(overlay, tier).into_iter().map(plan).collect()
}

fn tiers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({"subscriptionTiers": all(call, overlay)})))
}

/// The plans of the body, checked; by default, one for 30 days at the price of the tier.
fn sent_plans(call: &PlatformCall<'_>) -> Result<Vec<Map<String, Value>>, Refusal> {
    let sent = match call.field("plans") {
        Value::Array(sent) if !sent.is_empty() => sent,
        Value::Null | Value::Array(_) => {
            let plan = json!({"price": price(call)?, "billingCycle": 30, "status": 1});
            return Ok(vec![object(plan)]);
        }
        _ => return Err(Refusal::bad_request("plans is not a list")),
    };
    if sent.len() > PLANS_MAX {
        return Err(Refusal::bad_request("There are too many plans"));
    }
    let checked = |plan: &Value| {
        let number = |name: &str| plan.get(name).and_then(Value::as_u64);
        let price = number("price").ok_or_else(|| Refusal::bad_request("A plan needs a price"))?;
        let cycle = number("billingCycle").filter(|days| (1..=730).contains(days));
        let cycle = cycle.ok_or_else(|| Refusal::bad_request("A plan needs a billingCycle"))?;
        if plan.get("status").is_some_and(|status| *status != 1) {
            return Err(Refusal::bad_request("The status of a plan is not 1"));
        }
        Ok(object(json!({"price": price, "billingCycle": cycle, "status": 1})))
    };
    sent.iter().map(checked).collect()
}

/// A field of the body, or the default if it is missing; 400 if it has another type.
fn sent_or(
    call: &PlatformCall<'_>,
    name: &str,
    missing: Value,
    fits: fn(&Value) -> bool,
) -> Result<Value, Refusal> {
    match call.field(name) {
        Value::Null => Ok(missing),
        sent if fits(sent) => Ok(sent.clone()),
        _ => Err(Refusal::bad_request(format!("{name} has a wrong value"))),
    }
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string))
}

/// `name`, `color`, `price`, `maxSubscribers`, `subscriptionBenefits`, `plans`.
fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    if overlay.count(TIERS, call.world.tiers()) >= TIERS_MAX {
        return Err(Refusal::bad_request("There are too many tiers"));
    }
    if call.field("price").is_null() {
        return Err(Refusal::bad_request("price is required"));
    }
    let plans = sent_plans(call)?;
    let fields = json!({
        "name": call.text("name")?,
        "color": sent_or(call, "color", json!("#3b82f6"), Value::is_string)?,
        "price": price(call)?,
        "maxSubscribers": sent_or(call, "maxSubscribers", json!(0), Value::is_u64)?,
        "subscriptionBenefits": sent_or(call, "subscriptionBenefits", json!([]), is_texts)?,
        "createdAt": call.now_ms,
    });
    let indexes: Vec<u64> = plans.into_iter().map(|plan| overlay.create(PLANS, plan)).collect();
    let mut fields = object(fields);
    fields.insert("planIndexes".to_owned(), json!(indexes));
    let tier = overlay.create(TIERS, fields);
    Ok(Answer::ok(tier_json(call, overlay, tier, 0)))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let tier_id = body_id(call, "subscriptionTierId")?;
    let tier = collection(call).find(call, overlay, &tier_id, "Subscription tier")?;
    overlay.take(TIERS, tier);
    Ok(Answer::ok(json!({"subscriptionTierId": tier_id, "deletedAt": call.now_ms})))
}

/// `subscriptionTierIds` come first, in this order.
fn order(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let ids = body_ids(call, "subscriptionTierIds")?;
    collection(call).reorder(call, overlay, &ids, "Subscription tier")?;
    Ok(Answer::ok(json!({"subscriptionTiers": all(call, overlay)})))
}

/// 404 unless a tier has this plan, 400 unless it is the first one of its tier.
fn check_first_plan(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    plan_id: &str,
) -> Result<(), Refusal> {
    let wanted = index_of(call, Kind::Plan, plan_id);
    let tiers = collection(call).all(overlay).into_iter();
    let mut plans = tiers.map(|tier| plan_indexes(overlay, tier));
    let of_tier = plans.find(|plans| wanted.is_some_and(|wanted| plans.contains(&wanted)));
    let of_tier = of_tier.ok_or_else(|| Refusal::not_found("Plan"))?;
    if of_tier.first().copied() == wanted {
        return Ok(());
    }
    Err(Refusal::bad_request("planId is not the first plan of its tier"))
}

/// `planId`, `status`, `duration` (days), `maxUses`, `price` (at least 3000), `startsAt`, `endsAt`.
fn promote(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let plan_id = body_id(call, "planId")?;
    let number = |name: &str| {
        let sent = call.field(name).as_i64().filter(|number| *number >= 0);
        sent.ok_or_else(|| Refusal::bad_request(format!("{name} is not a number")))
    };
    if price(call)? < PROMOTION_PRICE_MIN {
        return Err(Refusal::bad_request("price is below 3000 mills (3.00 USD)"));
    }
    if number("duration")? == 0 {
        return Err(Refusal::bad_request("duration is not a number of days"));
    }
    number("maxUses")?;
    if number("status")? != 1 {
        return Err(Refusal::bad_request("status is not 1"));
    }
    if number("startsAt")? >= number("endsAt")? {
        return Err(Refusal::bad_request("startsAt is not before endsAt"));
    }
    check_first_plan(call, overlay, &plan_id)?;
    let names = ["status", "duration", "maxUses", "price", "startsAt", "endsAt"];
    let mut fields = call.fields(&names);
    fields.insert("planId".to_owned(), json!(plan_id));
    fields.insert("uses".to_owned(), json!(0));
    fields.insert("createdAt".to_owned(), json!(call.now_ms));
    let promotion = overlay.create(PROMOTIONS.table, fields);
    Ok(Answer::ok(promotion_json(call, overlay, promotion)))
}

fn promotion_json(call: &PlatformCall<'_>, overlay: &Overlay, promotion: u64) -> Value {
    let own_id = id(call, PROMOTIONS.kind, promotion);
    overlay.over(PROMOTIONS.table, promotion, json!({"id": own_id}))
}
