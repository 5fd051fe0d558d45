//! The settings that the operator has made at the processor, or tests have: tax, retries of unpaid
//! invoices, how refunds start.

use serde_json::{Value, json};

use super::fields::{at, flag, list, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;

/// The object that stores them.
const RULES: &str = "billing_rules";
/// By default, an unpaid invoice is retried this many days after its creation.
const RETRY_DAYS: [i64; 3] = [3, 8, 15];
/// By default, an invoice contains this many of its lines; the others are paged.
const LINES_SHOWN: usize = 10;
const DAY_S: i64 = 86_400;
/// 100 percent, in hundredths of a percent.
const ALL_BP: i64 = 10_000;

/// Tax in hundredths of a percent of the amount after discounts.
pub(super) fn tax_bp(store: &ObjectStore) -> i64 {
    store.get(RULES).map_or(0, |rules| whole(rules, "tax_bp"))
}

/// Seconds after an invoice's creation at which it is retried.
pub(super) fn retries_s(store: &ObjectStore) -> Vec<i64> {
    let days = store.get(RULES).map_or(&Value::Null, |rules| at(rules, "retry_days"));
    let set = days.as_array().map(|days| days.iter().filter_map(Value::as_i64).collect());
    let days: Vec<i64> = set.unwrap_or_else(|| RETRY_DAYS.to_vec());
    days.into_iter().map(|days| days * DAY_S).collect()
}

/// The number of lines that an invoice contains.
pub(super) fn lines_shown(store: &ObjectStore) -> usize {
    let set = store.get(RULES).and_then(|rules| at(rules, "lines_shown").as_u64());
    set.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(LINES_SHOWN)
}

/// Whether refunds are pending at first.
pub(super) fn refunds_pend(store: &ObjectStore) -> bool {
    store.get(RULES).is_some_and(|rules| flag(rules, "refunds_pending"))
}

/// How many requests a second are carried out; 0: all.
pub(super) fn requests_per_s(store: &ObjectStore) -> u64 {
    let set = store.get(RULES).and_then(|rules| at(rules, "requests_per_s").as_u64());
    set.unwrap_or_default()
}

/// The coupon of the next checkout session.
pub(super) fn set_next_coupon(store: &mut ObjectStore, coupon: &str) {
    change(store, |rules| set(rules, "next_coupon", coupon));
}

/// Returns and clears it.
pub(super) fn take_next_coupon(store: &mut ObjectStore) -> Option<String> {
    let coupon = store.get(RULES).map(|rules| text(rules, "next_coupon").to_owned());
    let coupon = coupon.filter(|coupon| !coupon.is_empty())?;
    change(store, |rules| set(rules, "next_coupon", Value::Null));
    Some(coupon)
}

/// All settings, as the control interface shows them.
pub(super) fn shown(store: &ObjectStore) -> Value {
    let days: Vec<i64> = retries_s(store).into_iter().map(|after_s| after_s / DAY_S).collect();
    json!({
        "tax_bp": tax_bp(store), "retry_days": days, "refunds_pending": refunds_pend(store),
        "lines_shown": lines_shown(store), "requests_per_s": requests_per_s(store),
    })
}

/// Changes the given settings.
pub(super) fn apply(store: &mut ObjectStore, wanted: &Value) -> Result<(), ApiError> {
    let fields = wanted.as_object().cloned().unwrap_or_default();
    for (name, value) in &fields {
        let (fits, must) = match name.as_str() {
            "tax_bp" => {
                let fits = value.as_i64().is_some_and(|bp| (0..=ALL_BP).contains(&bp));
                (fits, "must be 0 to 10000, in hundredths of a percent")
            }
            "retry_days" => {
                let days: Vec<Option<i64>> =
                    list(wanted, "retry_days").iter().map(Value::as_i64).collect();
                let rising = days.iter().all(|day| day.is_some_and(|day| day > 0))
                    && days.is_sorted_by(|one, next| one < next);
                (rising && !days.is_empty(), "must be a list of ascending days such as [3, 8, 15]")
            }
            "refunds_pending" => (value.is_boolean(), "must be true or false"),
            "lines_shown" => {
                let fits = value.as_u64().is_some_and(|lines| (1..=100).contains(&lines));
                (fits, "must be 1 to 100")
            }
            "requests_per_s" => {
                let fits = value.as_u64().is_some_and(|count| count <= 10_000);
                (fits, "must be 0 to 10000; 0: no limit")
            }
            _ => {
                let must = "is unknown; expected one of tax_bp, retry_days, refunds_pending, lines_shown, requests_per_s";
                (false, must)
            }
        };
        if !fits {
            return Err(ApiError::param(name, format!("{name} {must}")));
        }
    }
    change(store, |rules| {
        for (name, value) in fields {
            set(rules, &name, value);
        }
    });
    Ok(())
}

fn change(store: &mut ObjectStore, change: impl FnOnce(&mut Value)) {
    let none = || json!({"id": RULES, "object": RULES});
    let mut rules = store.get(RULES).cloned().unwrap_or_else(none);
    change(&mut rules);
    store.put(rules);
}
