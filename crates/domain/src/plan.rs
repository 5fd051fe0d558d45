//! Versions of plans: what was sold at one price of the processor. A version never changes, so subscribers keep what
//! they bought when the offer changes.

use crate::slot::Accounts;

/// What one price of the processor sells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanVersion {
    /// The price at the processor; it names the version.
    pub price_id: String,
    /// The plan.
    pub plan_id: String,
    /// What a period costs, in cents.
    pub price_cents: i64,
    /// The credits of each paid period.
    pub monthly_credits: i64,
    /// Accounts on top of those that every customer has.
    pub accounts: Accounts,
}

impl PlanVersion {
    /// Whether both sell the same for the same money: one version may have several prices at the processor.
    pub fn is_same_offer(&self, other: &Self) -> bool {
        let terms = |version: &Self| (version.price_cents, version.monthly_credits);
        self.plan_id == other.plan_id
            && terms(self) == terms(other)
            && self.accounts == other.accounts
    }

    /// Whether a change from this version to `other` is an upgrade: neither the price nor the credits are lower, and
    /// one of them is higher. An upgrade is paid immediately; every other change takes effect at the period's end.
    pub const fn is_raised_by(&self, other: &Self) -> bool {
        let is_at_least =
            other.price_cents >= self.price_cents && other.monthly_credits >= self.monthly_credits;
        let is_more =
            other.price_cents > self.price_cents || other.monthly_credits > self.monthly_credits;
        is_at_least && is_more
    }
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
            accounts: Accounts::default(),
        }
    }

    #[test]
    fn an_upgrade_raises_the_price_or_the_credits_and_lowers_neither() {
        let paid = version(4_900, 30_000);
        for (cents, credits, is_up) in [
            (9_900, 66_000, true),
            (4_900, 30_001, true),
            (4_901, 30_000, true),
            (4_900, 30_000, false),
            (4_899, 66_000, false),
            (9_900, 29_999, false),
            (4_899, 29_999, false),
        ] {
            assert_eq!(paid.is_raised_by(&version(cents, credits)), is_up, "{cents} {credits}");
        }
    }

    #[test]
    fn two_prices_of_the_same_terms_are_one_offer() {
        let one = version(4_900, 30_000);
        let same = PlanVersion { price_id: "price_2".to_owned(), ..one.clone() };
        let more = PlanVersion { accounts: Accounts::each(|_| 1), ..one.clone() };
        let other = PlanVersion { plan_id: "team".to_owned(), ..one.clone() };

        assert!(one.is_same_offer(&same));
        for different in [more, other, version(4_901, 30_000), version(4_900, 30_001)] {
            assert!(!one.is_same_offer(&different), "{different:?}");
        }
    }
}
