//! The total of a session: its lines, less discounts, with tax.

use serde_json::{Value, json};

use crate::coupons::{self, ChosenDiscount, DiscountRate, DiscountSums};
use crate::fields::{at, list, set, text, whole};
use crate::object_store::ObjectStore;
use crate::taxes::TaxTerms;

/// The lowest amount that a page can charge, in cents.
const PAGE_MIN: i64 = 50;

/// A session's discounts.
pub(super) fn discounts_of(session: &Value) -> Vec<ChosenDiscount> {
    let chosen = |discount: &Value| ChosenDiscount {
        coupon: text(discount, "coupon").to_owned(),
        code: at(discount, "promotion_code").as_str().map(str::to_owned),
    };
    list(session, "discounts").iter().map(chosen).collect()
}

/// Replaces a session's discounts.
pub(super) fn give(session: &mut Value, chosen: &[ChosenDiscount]) {
    let all: Value = chosen
        .iter()
        .map(|one| json!({"coupon": one.coupon, "promotion_code": one.code}))
        .collect();
    set(session, "discounts", all);
}

/// The terms of the tax on a session: those of the address that was entered on its page, or of its
/// customer.
pub(super) fn tax_terms(store: &ObjectStore, session: &Value) -> TaxTerms {
    let mut buyer = store.get(text(session, "customer")).cloned().unwrap_or_default();
    let entered = at(session, "_.entered");
    if !at(entered, "address").is_null() {
        set(&mut buyer, "address", at(entered, "address").clone());
    }
    if !at(entered, "tax_id").is_null() {
        set(&mut buyer, "_.tax_ids", json!([at(entered, "tax_id")]));
    }
    TaxTerms::of(store, &buyer, at(session, "automatic_tax"))
}

/// Computes the totals of a session and its lines, with the current tax.
pub(super) fn compute(store: &ObjectStore, session: &mut Value) {
    let mut lines = list(session, "_.line_items").to_vec();
    let sold: i64 = lines.iter().map(|line| whole(line, "amount_subtotal")).sum();
    let chosen = discounts_of(session);
    let rate = |one: &ChosenDiscount| coupons::rate(store, &one.coupon, &one.coupon, sold);
    let rates: Vec<DiscountRate> = chosen.iter().filter_map(rate).collect();
    let mut sums = DiscountSums::default();
    let mut off = |line: &Value| -> i64 {
        sums.taken_off(whole(line, "amount_subtotal"), &rates).into_iter().map(|(_, off)| off).sum()
    };
    let offs: Vec<i64> = lines.iter().map(&mut off).collect();
    let nets: Vec<i64> =
        lines.iter().zip(&offs).map(|(line, off)| whole(line, "amount_subtotal") - off).collect();
    let taxes = tax_terms(store, session).on_each(&nets);
    for (((line, off), net), tax) in lines.iter_mut().zip(&offs).zip(&nets).zip(&taxes) {
        set(line, "amount_discount", *off);
        set(line, "amount_tax", *tax);
        set(line, "amount_total", net + tax);
    }
    set(session, "_.line_items", lines);
    let (mut subtotal, mut net, mut tax) = (sold, nets.iter().sum(), taxes.iter().sum());
    if !at(session, "_.subscription.trial_period_days").is_null() {
        (subtotal, net, tax) = (0_i64, 0_i64, 0_i64);
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
