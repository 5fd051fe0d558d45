//! Tax: the operator's own rate, or with automatic tax the rate of the customer's country.

use serde_json::{Value, json};

use super::fields::{at, flag, list, set, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::rounding::share;
use super::rules;

/// The countries in which the merchant collects tax: the code, the rate in hundredths of a percent,
/// and whether businesses in it account for the tax themselves.
const COUNTRIES: &[(&str, i64, bool)] = &[
    ("AT", 2_000, true),
    ("AU", 1_000, false),
    ("BE", 2_100, true),
    ("CA", 500, false),
    ("CH", 810, false),
    ("DE", 1_900, true),
    ("DK", 2_500, true),
    ("ES", 2_100, true),
    ("FI", 2_550, true),
    ("FR", 2_000, true),
    ("GB", 2_000, false),
    ("HU", 2_700, true),
    ("IE", 2_300, true),
    ("IT", 2_200, true),
    ("JP", 1_000, false),
    ("NL", 2_100, true),
    ("NO", 2_500, false),
    ("PL", 2_300, true),
    ("PT", 2_300, true),
    ("SE", 2_500, true),
];
/// A country whose rate is the one that the control interface has set.
const TOLD: &str = "ZZ";
/// 100 percent, in hundredths of a percent.
const ALL_BP: i64 = 10_000;
/// Digits and letters of a tax id after the country's code.
const TAX_ID_REST: std::ops::RangeInclusive<usize> = 8..=12;

/// The tax on something that is sold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaxTerms {
    /// Hundredths of a percent of the amount after discounts.
    bp: i64,
    /// The processor's word for why it is this rate.
    reason: &'static str,
}

impl TaxTerms {
    /// The terms for this customer; `automatic` is the `automatic_tax` of what is sold.
    pub(crate) fn of(store: &ObjectStore, customer: &Value, automatic: &Value) -> Self {
        if !flag(automatic, "enabled") {
            return Self { bp: rules::tax_bp(store), reason: "standard_rated" };
        }
        let country = text(customer, "address.country");
        if country == TOLD {
            return Self { bp: rules::tax_bp(store), reason: "standard_rated" };
        }
        let Some((_, bp, reverses)) = COUNTRIES.iter().find(|(code, ..)| *code == country) else {
            return Self { bp: 0, reason: "not_collecting" };
        };
        let is_business = !list(customer, "_.tax_ids").is_empty();
        if *reverses && is_business {
            return Self { bp: 0, reason: "reverse_charge" };
        }
        Self { bp: *bp, reason: "standard_rated" }
    }

    /// The tax on the amount after discounts; 0 on a credit.
    pub(crate) fn on(&self, after_discounts: i64) -> i64 {
        if after_discounts > 0 { share(after_discounts, self.bp, ALL_BP) } else { 0 }
    }

    /// The tax on each of these amounts after discounts, which add up to the tax on their sum.
    pub(crate) fn on_each(&self, amounts: &[i64]) -> Vec<i64> {
        let (mut net, mut tax) = (0, 0);
        let one = |amount: &i64| {
            net += amount;
            let of_line = self.on(net) - tax;
            tax += of_line;
            of_line
        };
        amounts.iter().map(one).collect()
    }

    /// The taxes of an invoice or of one of its lines: one, unless nothing was computed.
    pub(crate) fn written(&self, tax: i64, taxable: i64) -> Value {
        if tax == 0 && self.reason == "standard_rated" {
            return json!([]);
        }
        json!([{
            "amount": tax, "tax_behavior": "exclusive", "tax_rate_details": {"tax_rate": "txr_sandbox"},
            "taxability_reason": self.reason, "taxable_amount": taxable, "type": "tax_rate_details",
        }])
    }
}

/// The `automatic_tax` of a session, subscription or invoice.
pub(crate) fn automatic(enabled: bool, status: Option<&str>) -> Value {
    json!({"enabled": enabled, "liability": enabled.then(|| json!({"type": "self"})), "provider": enabled.then_some("stripe"),
        "status": status, "disabled_reason": null})
}

/// Refuses automatic tax for a customer whose country is unknown.
pub(crate) fn check_location(store: &ObjectStore, customer: &str) -> Result<(), ApiError> {
    let country = store.get(customer).map_or("", |customer| text(customer, "address.country"));
    if !country.is_empty() {
        return Ok(());
    }
    let message = "The customer's location isn't recognized. Set a valid customer address in order to automatically calculate tax.";
    Err(ApiError::invalid(message).code("customer_tax_location_invalid"))
}

/// Adds a tax id to a customer, such as `eu_vat` and `DE123456789`; one that is known is not added
/// again.
pub(crate) fn add_tax_id(
    store: &mut ObjectStore,
    customer: &str,
    kind: &str,
    value: &str,
) -> Result<(), ApiError> {
    check_tax_id(kind, value)?;
    let (id, now) = (store.new_id("txi"), store.now);
    let country: String = value.chars().take(2).collect();
    store.change(customer, |customer| {
        let mut all = list(customer, "_.tax_ids").to_vec();
        if all.iter().any(|known| text(known, "value") == value) {
            return;
        }
        all.push(json!({
            "id": id, "object": "tax_id", "country": country, "created": now, "customer": at(customer, "id"),
            "livemode": false, "owner": null, "type": kind, "value": value,
            "verification": {"status": "verified", "verified_address": null, "verified_name": null},
        }));
        set(customer, "_.tax_ids", all);
    });
    Ok(())
}

/// Refuses what cannot be a tax id.
pub(crate) fn check_tax_id(kind: &str, value: &str) -> Result<(), ApiError> {
    let kinds = ["eu_vat", "gb_vat", "ch_vat", "no_vat", "au_abn", "us_ein"];
    if !kinds.contains(&kind) {
        return Err(ApiError::param(
            "type",
            format!("Invalid type: must be one of {}", kinds.join(", ")),
        ));
    }
    let (country, rest) = value.split_at_checked(2).unwrap_or((value, ""));
    let is_fitting = kind != "eu_vat"
        || (COUNTRIES.iter().any(|(code, _, reverses)| *code == country && *reverses)
            && TAX_ID_REST.contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    if is_fitting && !value.is_empty() {
        return Ok(());
    }
    let message = format!("Invalid value for {kind}.");
    Err(ApiError::param("value", message).code("tax_id_invalid"))
}

/// The tax ids of a customer in the short form of sessions and invoices.
pub(crate) fn short_tax_ids(customer: &Value) -> Value {
    let short = |one: &Value| json!({"type": at(one, "type"), "value": at(one, "value")});
    list(customer, "_.tax_ids").iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_country_and_businesses_account_for_it_themselves() {
        let store = ObjectStore::new(1);
        let (on, off) = (automatic(true, None), automatic(false, None));
        let tax = |country: &str, tax_ids: Value, automatic: &Value| {
            let customer = json!({"address": {"country": country}, "_": {"tax_ids": tax_ids}});
            TaxTerms::of(&store, &customer, automatic).on(1_000)
        };

        assert_eq!(tax("DE", json!([]), &on), 190);
        assert_eq!(tax("DE", json!([{"value": "DE123456789"}]), &on), 0);
        assert_eq!(tax("CH", json!([{"value": "CHE-1"}]), &on), 81);
        assert_eq!(tax("US", json!([]), &on), 0);
        assert_eq!(tax("DE", json!([]), &off), 0);
    }

    #[test]
    fn the_taxes_of_lines_add_up_to_the_tax_on_their_sum() {
        let terms = TaxTerms { bp: 1_900, reason: "standard_rated" };

        assert_eq!(terms.on_each(&[333, 333, 334]), [63, 64, 63]);
        assert_eq!(terms.on_each(&[-500, 700]), [0, 38]);
        assert_eq!(terms.on(1_000), 190);
    }

    #[test]
    fn a_tax_id_has_the_form_of_its_kind() {
        assert!(check_tax_id("eu_vat", "DE123456789").is_ok());
        for (kind, value) in
            [("eu_vat", "US12345678"), ("eu_vat", "DE1"), ("x", "DE123456789"), ("us_ein", "")]
        {
            assert!(check_tax_id(kind, value).is_err(), "{kind} {value}");
        }
    }
}
