//! Versions of plans: what was sold under one price of the processor. A version never changes, so
//! subscribers keep what they bought when the offer changes.

use crate::slot::AccountCounts;

/// What one price of the processor sells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanVersion {
    /// The processor's id of the price, which identifies the version.
    pub price_id: String,
    /// The plan.
    pub plan_id: String,
    /// The price of a period, in cents.
    pub price_cents: i64,
    /// The credits of each paid period.
    pub monthly_credits: i64,
    /// Accounts in addition to those that every customer has.
    pub accounts: AccountCounts,
}

impl PlanVersion {
    /// Whether both sell the same for the same money: one offer may have several prices at the
    /// processor.
    pub fn is_same_offer(&self, other: &Self) -> bool {
        let terms = |version: &Self| (version.price_cents, version.monthly_credits);
        self.plan_id == other.plan_id
            && terms(self) == terms(other)
            && self.accounts == other.accounts
    }

    /// Whether a change from this version to `other` is an upgrade: neither the price nor the
    /// credits are lower. An upgrade is paid immediately; every other change takes effect at the
    /// period's end.
    pub const fn is_raised_by(&self, other: &Self) -> bool {
        other.price_cents >= self.price_cents && other.monthly_credits >= self.monthly_credits
    }
}

/// The credits that an upgrade adds for the rest of its period, `rest_s` of `whole_s` seconds. A
/// fraction of a credit is rounded up.
pub fn credits_of_upgrade(paid: &PlanVersion, new: &PlanVersion, rest_s: i64, whole_s: i64) -> i64 {
    let more = i128::from(new.monthly_credits).saturating_sub(paid.monthly_credits.into()).max(0);
    let whole = i128::from(whole_s).max(1);
    let part = more.saturating_mul(i128::from(rest_s).clamp(0, whole));
    let rounded_up = part.saturating_add(whole.saturating_sub(1)).checked_div(whole).unwrap_or(0);
    i64::try_from(rounded_up).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(price_cents: i64, monthly_credits: i64) -> PlanVersion {
        PlanVersion {
            price_id: "price_1".to_owned(),
            plan_id: "pro".to_owned(),
            price_cents,
            monthly_credits,
            accounts: AccountCounts::default(),
        }
    }

    #[test]
    fn an_upgrade_lowers_neither_the_price_nor_the_credits() {
        let paid = version(4_900, 30_000);
        for (cents, credits, is_up) in [
            (9_900, 66_000, true),
            (4_900, 30_001, true),
            (4_901, 30_000, true),
            (4_900, 30_000, true),
            (4_899, 66_000, false),
            (9_900, 29_999, false),
            (4_899, 29_999, false),
        ] {
            assert_eq!(paid.is_raised_by(&version(cents, credits)), is_up, "{cents} {credits}");
        }
    }

    #[test]
    fn an_upgrade_adds_the_credits_of_the_rest_rounded_up() {
        let (paid, new) = (version(4_900, 30_000), version(19_900, 150_000));
        let month = 2_592_000;
        for (rest, credits) in
            [(month, 120_000), (1_296_500, 60_024), (1, 1), (0, 0), (-5, 0), (month + 1, 120_000)]
        {
            assert_eq!(credits_of_upgrade(&paid, &new, rest, month), credits, "{rest}");
        }
        assert_eq!(credits_of_upgrade(&new, &paid, month, month), 0);
        assert_eq!(credits_of_upgrade(&paid, &new, 1, 0), 120_000);
    }

    #[test]
    fn two_prices_of_the_same_terms_are_one_offer() {
        let one = version(4_900, 30_000);
        let same = PlanVersion { price_id: "price_2".to_owned(), ..one.clone() };
        let more = PlanVersion { accounts: AccountCounts::each(|_| 1), ..one.clone() };
        let other = PlanVersion { plan_id: "team".to_owned(), ..one.clone() };

        assert!(one.is_same_offer(&same));
        for different in [more, other, version(4_901, 30_000), version(4_900, 30_001)] {
            assert!(!one.is_same_offer(&different), "{different:?}");
        }
    }
}
