//! Coupons, and the discounts of subscriptions.

use serde_json::{Value, json};

use super::fields::{at, flag, list as items, set, text, whole};
use super::form::{FormParams, name};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::rounding::share;
use super::routes::ApiCall;
use super::{events, lists, render};

/// The parameters of creating a coupon.
pub(super) const PARAMS: &[&str] =
    &["id", "name", "percent_off", "duration", "metadata?", "metadata.*?"];

/// 100 percent, in hundredths of a percent.
const ALL_BP: i64 = 10_000;

/// A discount and its rate, in hundredths of a percent.
#[derive(Clone, Debug)]
pub(super) struct DiscountRate {
    pub(super) discount: String,
    pub(super) bp: i64,
}

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let percent = params.required("percent_off")?;
    let bp = basis_points(percent).ok_or_else(|| {
        let message = "Invalid percent_off: must be above 0 and at most 100.";
        ApiError::param("percent_off", message)
    })?;
    let duration = params.one_of("duration", &["forever", "once"])?.unwrap_or("once");
    let id = params.text("id").map(str::to_owned);
    if id.as_ref().is_some_and(|id| call.store.get(id).is_some()) {
        return Err(ApiError::param("id", "Coupon already exists.").code("resource_already_exists"));
    }
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let id = make(call.store, id, (bp, duration));
    let shown = params.text("name").map(str::to_owned);
    call.store.change(&id, |coupon| {
        set(coupon, "metadata", metadata);
        set(coupon, "name", json!(shown));
    });
    events::emit(call.store, "coupon.created", &id);
    call.store.find("coupon", &id, "id").cloned()
}

/// A percentage such as `20` or `12.5` in hundredths of a percent, if it is above 0 and at most
/// 100.
pub(super) fn basis_points(percent: &str) -> Option<i64> {
    let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = format!("{whole}{part:0<2}");
    let is_plain = part.len() <= 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let bp = digits.parse::<i64>().ok().filter(|_| is_plain)?;
    (1..=ALL_BP).contains(&bp).then_some(bp)
}

/// Adds a coupon to the store; returns its id.
pub(super) fn make(
    store: &mut ObjectStore,
    id: Option<String>,
    (bp, duration): (i64, &str),
) -> String {
    let id = id.unwrap_or_else(|| store.new_id("x").trim_start_matches("x_").to_owned());
    let percent = f64::from(i32::try_from(bp).unwrap_or_default()) / 100.0;
    store.put(json!({
        "id": id, "object": "coupon", "amount_off": null, "created": store.now, "currency": null, "duration": duration,
        "duration_in_months": null, "livemode": false, "max_redemptions": null, "metadata": {}, "name": null,
        "percent_off": percent, "redeem_by": null, "times_redeemed": 0, "valid": true, "_": {"bp": bp},
    }));
    id
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    live(call.store, &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    lists::page(call, "coupon", "/v1/coupons", |coupon| !flag(coupon, "_.deleted"))
}

/// It can no longer be used; customers who have it keep it.
pub(super) fn delete(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    live(call.store, &id, "id")?;
    events::emit(call.store, "coupon.deleted", &id);
    call.store.change(&id, |coupon| {
        set(coupon, "_.deleted", true);
        set(coupon, "valid", false);
    });
    Ok(json!({"id": id, "object": "coupon", "deleted": true}))
}

fn live<'a>(store: &'a ObjectStore, id: &str, param: &str) -> Result<&'a Value, ApiError> {
    let coupon = store.find("coupon", id, param)?;
    if flag(coupon, "_.deleted") {
        return Err(ApiError::no_such("coupon", id, param));
    }
    Ok(coupon)
}

/// The coupons in a request's `discounts`; `None` if it has none, an empty list if it removes all.
pub(super) fn named(
    store: &ObjectStore,
    params: &FormParams,
) -> Result<Option<Vec<String>>, ApiError> {
    if !params.has("discounts") {
        return Ok(None);
    }
    let mut all = Vec::new();
    for place in params.names("discounts") {
        let path = format!("discounts.{place}.coupon");
        let id = params.required(&path)?;
        live(store, id, &name(&path))?;
        all.push(id.to_owned());
    }
    Ok(Some(all))
}

/// Replaces a subscription's coupons.
pub(super) fn give(store: &mut ObjectStore, subscription: &str, coupons: &[String]) {
    let customer =
        store.get(subscription).map(|it| text(it, "customer").to_owned()).unwrap_or_default();
    let mut ids = Vec::new();
    for coupon in coupons {
        let id = store.new_id("di");
        store.put(json!({
            "id": id, "object": "discount", "checkout_session": null, "customer": customer, "customer_account": null,
            "end": null, "invoice": null, "invoice_item": null, "promotion_code": null,
            "source": {"coupon": coupon, "type": "coupon"}, "start": store.now, "subscription": subscription,
            "subscription_item": null,
        }));
        store.change(coupon, |coupon| {
            let times = whole(coupon, "times_redeemed") + 1;
            set(coupon, "times_redeemed", times);
        });
        ids.push(id);
    }
    store.change(subscription, |subscription| set(subscription, "discounts", json!(ids)));
}

/// The rates at which the discounts of a subscription reduce new charges.
pub(super) fn rates_of(store: &ObjectStore, subscription: &Value) -> Vec<DiscountRate> {
    let ids = items(subscription, "discounts").iter().filter_map(Value::as_str);
    let rate = |id: &str| {
        let coupon = store.get(id).and_then(|it| store.get(text(it, "source.coupon")))?;
        Some(DiscountRate { discount: id.to_owned(), bp: whole(coupon, "_.bp") })
    };
    ids.filter_map(rate).collect()
}

/// The rate of a coupon, in hundredths of a percent.
pub(super) fn bp_of(store: &ObjectStore, coupon: &str) -> i64 {
    store.get(coupon).map_or(0, |coupon| whole(coupon, "_.bp"))
}

/// An invoice was created: coupons for one invoice are used up.
pub(super) fn used_up(store: &mut ObjectStore, subscription: &str) {
    let Some(before) = store.get(subscription).cloned() else { return };
    let stays = |id: &&Value| {
        let coupon = id.as_str().and_then(|id| store.get(id)).map(|it| text(it, "source.coupon"));
        coupon
            .and_then(|coupon| store.get(coupon))
            .is_none_or(|coupon| text(coupon, "duration") != "once")
    };
    let left: Vec<Value> = items(&before, "discounts").iter().filter(stays).cloned().collect();
    if left.len() < items(&before, "discounts").len() {
        store.change(subscription, |subscription| set(subscription, "discounts", json!(left)));
    }
}

/// The amount that each rate takes off, one after the other; negative for a credit.
pub(super) fn taken_off(amount: i64, rates: &[DiscountRate]) -> Vec<(String, i64)> {
    let mut left = amount;
    let one = |rate: &DiscountRate| {
        let off = left.signum() * share(left.abs(), rate.bp, ALL_BP);
        left -= off;
        (rate.discount.clone(), off)
    };
    rates.iter().map(one).collect()
}

/// The rates with which an item was charged, and which its credit therefore has.
pub(super) fn remembered(item: &Value) -> Option<Vec<DiscountRate>> {
    let kept = at(item, "_.rates").as_array()?;
    let rate = |rate: &Value| DiscountRate {
        discount: text(rate, "discount").to_owned(),
        bp: whole(rate, "bp"),
    };
    Some(kept.iter().map(rate).collect())
}

/// The rates in the form in which an item stores them.
pub(super) fn kept(rates: &[DiscountRate]) -> Value {
    json!(
        rates
            .iter()
            .map(|rate| json!({"discount": rate.discount, "bp": rate.bp}))
            .collect::<Vec<_>>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_at_most_two_decimals() {
        for (percent, bp) in [
            ("20", Some(2_000)),
            ("12.5", Some(1_250)),
            ("0.01", Some(1)),
            ("100", Some(10_000)),
            ("100.01", None),
            ("0", None),
            ("-5", None),
            ("1.234", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(basis_points(percent), bp, "{percent}");
        }
    }

    #[test]
    fn discounts_apply_one_after_the_other_and_to_credits_too() {
        let rate = |bp| DiscountRate { discount: "di".to_owned(), bp };
        let off = |amount, rates: &[DiscountRate]| -> Vec<i64> {
            taken_off(amount, rates).into_iter().map(|(_, off)| off).collect()
        };

        assert_eq!(off(4_900, &[rate(2_000)]), [980]);
        assert_eq!(off(-2_450, &[rate(2_000)]), [-490]);
        assert_eq!(off(1_000, &[rate(5_000), rate(5_000)]), [500, 250]);
        assert_eq!(off(1_001, &[rate(5_000)]), [501], "half a cent is rounded up");
        assert_eq!(off(100, &[]), [0_i64; 0]);
    }
}
