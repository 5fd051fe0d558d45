//! Coupons, and the discounts of subscriptions.

use serde_json::{Value, json};
use simulator_kit::calendar;

use super::api_call::ApiCall;
use super::fields::{at, flag, list as items, set, text, whole};
use super::form::{FormParams, name};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::rounding::share;
use super::{events, lists, prices, render};

/// The parameters of creating a coupon.
pub(super) const PARAMS: &[&str] = &[
    "id",
    "name",
    "percent_off",
    "amount_off",
    "currency",
    "duration",
    "duration_in_months",
    "max_redemptions",
    "redeem_by",
    "metadata?",
    "metadata.*?",
];

/// 100 percent, in hundredths of a percent.
const ALL_BP: i64 = 10_000;

/// A discount, and the part of an amount that it takes off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiscountRate {
    discount: String,
    part: i64,
    of: i64,
    /// Whether it is a fixed amount, which is divided over everything that is sold.
    is_amount: bool,
}

/// The terms of a coupon.
#[derive(Clone, Copy, Debug)]
pub(super) struct CouponTerms {
    pub(super) off: CouponValue,
    /// `once`, `forever` or `repeating`.
    pub(super) duration: &'static str,
    /// The months of a repeating one.
    pub(super) months: Option<i64>,
}

/// What a coupon takes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CouponValue {
    /// Hundredths of a percent.
    Percent(i64),
    /// Cents.
    Cents(i64),
}

/// One thing that a request or a customer discounts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenDiscount {
    pub(super) coupon: String,
    /// The promotion code that the customer entered.
    pub(super) code: Option<String>,
}

impl ChosenDiscount {
    /// A coupon without a code.
    pub(super) fn coupon(id: impl Into<String>) -> Self {
        Self { coupon: id.into(), code: None }
    }
}

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let terms = terms(params)?;
    let id = params.text("id").map(str::to_owned);
    if id.as_ref().is_some_and(|id| call.store.get(id).is_some()) {
        return Err(ApiError::param("id", "Coupon already exists.").code("resource_already_exists"));
    }
    let (max, until) = (limit(params, "max_redemptions")?, limit(params, "redeem_by")?);
    if until.is_some_and(|until| until <= call.store.now) {
        return Err(ApiError::param("redeem_by", "redeem_by must be in the future."));
    }
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let id = make(call.store, id, &terms);
    let shown = params.text("name").map(str::to_owned);
    call.store.change(&id, |coupon| {
        set(coupon, "metadata", metadata);
        set(coupon, "name", json!(shown));
        set(coupon, "max_redemptions", json!(max));
        set(coupon, "redeem_by", json!(until));
    });
    events::emit(call.store, "coupon.created", &id);
    call.store.find("coupon", &id, "id").cloned()
}

fn terms(params: &FormParams) -> Result<CouponTerms, ApiError> {
    let off = match (params.text("percent_off"), params.integer("amount_off")?) {
        (Some(_), Some(_)) => {
            let message = "You may only specify one of these parameters: percent_off, amount_off.";
            return Err(ApiError::invalid(message));
        }
        (None, None) => return Err(ApiError::missing("percent_off")),
        (Some(percent), None) => CouponValue::Percent(basis_points(percent).ok_or_else(|| {
            let message = "Invalid percent_off: must be above 0 and at most 100.";
            ApiError::param("percent_off", message)
        })?),
        (None, Some(cents)) => {
            params.required("currency")?;
            if cents < 1 {
                return Err(ApiError::param("amount_off", "Invalid positive integer")
                    .code("parameter_invalid_integer"));
            }
            CouponValue::Cents(cents)
        }
    };
    let duration = params.one_of("duration", &["forever", "once", "repeating"])?.unwrap_or("once");
    let months = limit(params, "duration_in_months")?;
    if (duration == "repeating") != months.is_some() {
        let message = "duration_in_months is required for the duration repeating, and only for it.";
        return Err(ApiError::param("duration_in_months", message));
    }
    Ok(CouponTerms { off, duration, months })
}

/// A whole number above 0.
pub(super) fn limit(params: &FormParams, path: &str) -> Result<Option<i64>, ApiError> {
    match params.integer(path)? {
        Some(given) if given < 1 => {
            Err(ApiError::param(path, "Invalid positive integer").code("parameter_invalid_integer"))
        }
        given => Ok(given),
    }
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
pub(super) fn make(store: &mut ObjectStore, id: Option<String>, terms: &CouponTerms) -> String {
    let id = id.unwrap_or_else(|| store.new_id("x").trim_start_matches("x_").to_owned());
    let (percent, cents, bp) = match terms.off {
        CouponValue::Percent(bp) => {
            (Some(f64::from(i32::try_from(bp).unwrap_or_default()) / 100.0), None, bp)
        }
        CouponValue::Cents(cents) => (None, Some(cents), 0),
    };
    store.put(json!({
        "id": id, "object": "coupon", "amount_off": cents, "created": store.now, "currency": cents.map(|_| "usd"),
        "duration": terms.duration, "duration_in_months": terms.months, "livemode": false, "max_redemptions": null,
        "metadata": {}, "name": null, "percent_off": percent, "redeem_by": null, "times_redeemed": 0, "valid": true,
        "_": {"bp": bp},
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

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = live(call.store, &id, "id")?.clone();
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let shown = call.params.text("name").map(str::to_owned);
    call.store.change(&id, |coupon| {
        set(coupon, "metadata", metadata);
        if let Some(shown) = shown {
            set(coupon, "name", json!(Some(shown).filter(|name| !name.is_empty())));
        }
    });
    events::emit_changed(call.store, "coupon.updated", &before);
    live(call.store, &id, "id").cloned()
}

/// Gives a customer the discount of a coupon instead of the one that it has; an empty name takes it
/// away. It is kept and announced, but takes nothing off: invoices have the discounts of their
/// subscription.
pub(super) fn give_customer(
    store: &mut ObjectStore,
    customer: &str,
    coupon: &str,
) -> Result<(), ApiError> {
    let before = store.get(customer).map(|it| text(it, "discount").to_owned()).unwrap_or_default();
    if coupon.is_empty() {
        store.change(customer, |customer| set(customer, "discount", Value::Null));
        if !before.is_empty() {
            events::emit(store, "customer.discount.deleted", &before);
        }
        return Ok(());
    }
    check_usable(store, coupon, "coupon")?;
    let id = apply(store, &ChosenDiscount::coupon(coupon), customer, None);
    store.change(customer, |customer| set(customer, "discount", id.as_str()));
    let is_first = before.is_empty();
    let kind = if is_first { "customer.discount.created" } else { "customer.discount.updated" };
    events::emit(store, kind, &id);
    Ok(())
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

/// Why a coupon cannot be used any more.
pub(super) fn check_usable(store: &ObjectStore, id: &str, param: &str) -> Result<(), ApiError> {
    let coupon = live(store, id, param)?;
    let is_over = at(coupon, "redeem_by").as_i64().is_some_and(|until| until <= store.now);
    if is_over || is_used_up(coupon) {
        let message = format!("Coupon expired: {id}");
        return Err(ApiError::param(param, message).code("coupon_expired"));
    }
    Ok(())
}

/// Whether a coupon or a promotion code was redeemed as often as it may be.
pub(super) fn is_used_up(object: &Value) -> bool {
    let max = at(object, "max_redemptions").as_i64();
    max.is_some_and(|max| whole(object, "times_redeemed") >= max)
}

/// Counts one redemption of a coupon or a promotion code.
fn redeem(store: &mut ObjectStore, id: &str) {
    store.change(id, |object| {
        let times = whole(object, "times_redeemed") + 1;
        set(object, "times_redeemed", times);
        if is_used_up(object) {
            let name = if text(object, "object") == "coupon" { "valid" } else { "active" };
            set(object, name, false);
        }
    });
}

/// The discounts in a request's `discounts`; `None` if it has none, an empty list if it removes
/// all.
pub(super) fn named(
    store: &ObjectStore,
    params: &FormParams,
) -> Result<Option<Vec<ChosenDiscount>>, ApiError> {
    if !params.has("discounts") {
        return Ok(None);
    }
    let mut all = Vec::new();
    for place in params.names("discounts") {
        let path = |field: &str| format!("discounts.{place}.{field}");
        if let Some(code) = params.text(&path("promotion_code")) {
            let found = store.find("promotion_code", code, &name(&path("promotion_code")))?;
            let coupon = text(found, "promotion.coupon").to_owned();
            all.push(ChosenDiscount { coupon, code: Some(code.to_owned()) });
            continue;
        }
        let id = params.required(&path("coupon"))?;
        check_usable(store, id, &name(&path("coupon")))?;
        all.push(ChosenDiscount::coupon(id));
    }
    Ok(Some(all))
}

/// Adds a discount to the store, and counts its redemption; returns its id.
pub(super) fn apply(
    store: &mut ObjectStore,
    chosen: &ChosenDiscount,
    customer: &str,
    subscription: Option<&str>,
) -> String {
    let id = put(store, chosen, customer, subscription);
    redeem(store, &chosen.coupon);
    if let Some(code) = &chosen.code {
        redeem(store, code);
    }
    id
}

fn put(
    store: &mut ObjectStore,
    chosen: &ChosenDiscount,
    customer: &str,
    subscription: Option<&str>,
) -> String {
    let id = store.new_id("di");
    let months = store.get(&chosen.coupon).and_then(|it| at(it, "duration_in_months").as_i64());
    let end = months.map(|months| calendar::after(store.now, "month", months));
    store.put(json!({
        "id": id, "object": "discount", "checkout_session": null, "customer": customer, "customer_account": null,
        "end": end, "invoice": null, "invoice_item": null, "promotion_code": chosen.code,
        "source": {"coupon": chosen.coupon, "type": "coupon"}, "start": store.now, "subscription": subscription,
        "subscription_item": null,
    }));
    id
}

/// Adds a discount of an invoice to the store without counting a redemption; returns its id.
pub(super) fn shown(store: &mut ObjectStore, chosen: &ChosenDiscount) -> String {
    put(store, chosen, "", None)
}

/// Replaces a subscription's discounts.
pub(super) fn give(store: &mut ObjectStore, subscription: &str, chosen: &[ChosenDiscount]) {
    let customer =
        store.get(subscription).map(|it| text(it, "customer").to_owned()).unwrap_or_default();
    let ids: Vec<String> =
        chosen.iter().map(|one| apply(store, one, &customer, Some(subscription))).collect();
    store.change(subscription, |subscription| set(subscription, "discounts", json!(ids)));
}

/// The rates at which the discounts of a subscription reduce new charges.
pub(super) fn rates_of(store: &ObjectStore, subscription: &Value) -> Vec<DiscountRate> {
    let sold = items(subscription, "items.data").iter();
    let full = sold.map(|item| prices::amount(at(item, "price"), whole(item, "quantity"))).sum();
    let ids = items(subscription, "discounts").iter().filter_map(Value::as_str);
    let of_discount = |id: &str| {
        let discount = store.get(id)?;
        let is_over = at(discount, "end").as_i64().is_some_and(|end| end <= store.now);
        let found = rate(store, text(discount, "source.coupon"), id, full);
        found.filter(|_| !is_over)
    };
    ids.filter_map(of_discount).collect()
}

/// The rate of a coupon on a sum, for a discount with this id.
pub(super) fn rate(
    store: &ObjectStore,
    coupon: &str,
    discount: &str,
    sum: i64,
) -> Option<DiscountRate> {
    let coupon = store.get(coupon)?;
    let (part, of, is_amount) = match at(coupon, "amount_off").as_i64() {
        // An amount is a part of all that is sold, so that a credit returns what it was worth.
        Some(cents) => (cents.min(sum), sum, true),
        None => (whole(coupon, "_.bp"), ALL_BP, false),
    };
    (of > 0).then(|| DiscountRate { discount: discount.to_owned(), part, of, is_amount })
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

/// What came off amounts so far, for each discount.
#[derive(Default)]
pub(super) struct DiscountSums(Vec<(String, i64, i64)>);

impl DiscountSums {
    /// The amount that each rate takes off, one after the other; negative for a credit. A fixed
    /// amount is divided over all amounts without a cent too many or too few.
    pub(super) fn taken_off(&mut self, amount: i64, rates: &[DiscountRate]) -> Vec<(String, i64)> {
        let mut left = amount;
        let one = |rate: &DiscountRate| {
            let off = if rate.is_amount && left > 0 {
                self.divided(left, rate)
            } else {
                left.signum() * share(left.abs(), rate.part, rate.of)
            };
            left -= off;
            (rate.discount.clone(), off)
        };
        rates.iter().map(one).collect()
    }

    fn divided(&mut self, amount: i64, rate: &DiscountRate) -> i64 {
        let known = self.0.iter().position(|(id, ..)| *id == rate.discount);
        let (sum, taken) =
            known.and_then(|place| self.0.get(place)).map_or((0, 0), |(_, sum, off)| (*sum, *off));
        let all = share(sum + amount, rate.part, rate.of);
        self.0.retain(|(id, ..)| *id != rate.discount);
        self.0.push((rate.discount.clone(), sum + amount, all));
        all - taken
    }
}

/// The rates with which an item was charged, and which its credit therefore has.
pub(super) fn remembered(item: &Value) -> Option<Vec<DiscountRate>> {
    let kept = at(item, "_.rates").as_array()?;
    let rate = |rate: &Value| DiscountRate {
        discount: text(rate, "discount").to_owned(),
        part: whole(rate, "part"),
        of: whole(rate, "of"),
        is_amount: flag(rate, "is_amount"),
    };
    Some(kept.iter().map(rate).collect())
}

/// The rates in the form in which an item stores them.
pub(super) fn kept(rates: &[DiscountRate]) -> Value {
    let one = |rate: &DiscountRate| json!({"discount": rate.discount, "part": rate.part, "of": rate.of, "is_amount": rate.is_amount});
    rates.iter().map(one).collect()
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
        let rate =
            |part| DiscountRate { discount: "di".to_owned(), part, of: ALL_BP, is_amount: false };
        let off = |amount, rates: &[DiscountRate]| -> Vec<i64> {
            let all = DiscountSums::default().taken_off(amount, rates);
            all.into_iter().map(|(_, off)| off).collect()
        };

        assert_eq!(off(4_900, &[rate(2_000)]), [980]);
        assert_eq!(off(-2_450, &[rate(2_000)]), [-490]);
        assert_eq!(off(1_000, &[rate(5_000), rate(5_000)]), [500, 250]);
        assert_eq!(off(1_001, &[rate(5_000)]), [501], "half a cent is rounded up");
        assert_eq!(off(100, &[]), [0_i64; 0]);
    }

    #[test]
    fn a_fixed_amount_is_divided_over_all_lines_to_the_cent() {
        let rate =
            [DiscountRate { discount: "di".to_owned(), part: 1_000, of: 3_000, is_amount: true }];
        let mut sums = DiscountSums::default();
        let mut off =
            |amount| -> i64 { sums.taken_off(amount, &rate).into_iter().map(|(_, off)| off).sum() };

        assert_eq!([off(1_001), off(1_001), off(998)], [334, 333, 333]);
        assert_eq!(off(-1_500), -500, "a credit returns what its time was worth");
    }
}
