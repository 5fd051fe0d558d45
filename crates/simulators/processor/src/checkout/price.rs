//! The total of a session: its lines, less coupons, with tax.

use serde_json::{Value, json};

use crate::coupons::{self, DiscountRate, taken_off};
use crate::fields::{at, list, set, text, whole};
use crate::invoices::tax_on;
use crate::object_store::ObjectStore;

/// The lowest amount that a page can charge, in cents.
const PAGE_MIN: i64 = 50;

/// The ids of a session's coupons.
pub(super) fn coupons_of(session: &Value) -> Vec<String> {
    let all = list(session, "discounts").iter();
    all.map(|discount| text(discount, "coupon").to_owned()).collect()
}

/// Replaces a session's coupons.
pub(super) fn give(session: &mut Value, coupons: &[String]) {
    let all: Vec<Value> =
        coupons.iter().map(|coupon| json!({"coupon": coupon, "promotion_code": null})).collect();
    set(session, "discounts", all);
}

/// Computes the totals of a session and its lines, with the current tax.
pub(super) fn compute(store: &ObjectStore, session: &mut Value) {
    let rate =
        |coupon: String| DiscountRate { bp: coupons::bp_of(store, &coupon), discount: coupon };
    let rates: Vec<DiscountRate> = coupons_of(session).into_iter().map(rate).collect();
    let (mut subtotal, mut net, mut tax) = (0, 0, 0);
    let mut lines = list(session, "_.line_items").to_vec();
    for line in &mut lines {
        let amount = whole(line, "amount_subtotal");
        let off: i64 = taken_off(amount, &rates).into_iter().map(|(_, off)| off).sum();
        (subtotal, net) = (subtotal + amount, net + amount - off);
        // The tax is that of the sum; each line gets its share of it.
        let of_line = tax_on(store, net) - tax;
        tax += of_line;
        set(line, "amount_discount", off);
        set(line, "amount_tax", of_line);
        set(line, "amount_total", amount - off + of_line);
    }
    set(session, "_.line_items", lines);
    if !at(session, "_.subscription.trial_period_days").is_null() {
        (subtotal, net, tax) = (0, 0, 0);
    }
    set(session, "amount_subtotal", subtotal);
    set(session, "amount_total", net + tax);
    set(session, "total_details.amount_discount", subtotal - net);
    set(session, "total_details.amount_tax", tax);
}

/// Whether the total of a payment is too low to be charged.
pub(super) fn is_too_little(session: &Value) -> bool {
    let total = whole(session, "amount_total");
    text(session, "mode") == "payment" && (1..PAGE_MIN).contains(&total)
}
