//! Notices: emails that customers get without asking, and what a key's budget has reached.

use crate::wire::text_enum;

text_enum! {
    /// What a notice is about. A customer can switch each kind off, except the password's.
    NoticeKind,
    "one of low_balance, key_budgets, expiring_credits, expiring_card, payments, subscription_end, key_changes, exports, password" {
        /// The balance fell below a threshold.
        LowBalance = "low_balance",
        /// A key has used 80 or 100 percent of its monthly budget.
        KeyBudgets = "key_budgets",
        /// Credits expire soon.
        ExpiringCredits = "expiring_credits",
        /// The saved card expires soon.
        ExpiringCard = "expiring_card",
        /// A top-up was charged, or an invoice of a plan or of slots was paid.
        Payments = "payments",
        /// The subscription has ended.
        SubscriptionEnd = "subscription_end",
        /// A key was created, or got a new secret.
        KeyChanges = "key_changes",
        /// An export has finished.
        Exports = "exports",
        /// The password was changed.
        Password = "password",
    }
}

impl NoticeKind {
    /// Whether customers who decided nothing get it.
    pub const fn is_on_by_default(self) -> bool {
        !matches!(self, Self::Exports)
    }

    /// Whether a customer can switch it off.
    pub const fn is_optional(self) -> bool {
        !matches!(self, Self::Password)
    }
}

/// The shares of a key's monthly budget, in percent, at which a customer is told.
pub const BUDGET_STEPS: [i64; 2] = [80, 100];

/// The steps that a key has reached; the largest is the last.
pub fn reached_steps(used: i64, budget: i64) -> Vec<i64> {
    let (used, budget) = (i128::from(used), i128::from(budget));
    let is_reached = |step: &i64| {
        let share = i128::from(*step);
        budget > 0 && used.saturating_mul(100) >= budget.saturating_mul(share)
    };
    BUDGET_STEPS.into_iter().filter(is_reached).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_reached_exactly() {
        for (used, budget, steps) in [
            (0, 10, vec![]),
            (7, 10, vec![]),
            (8, 10, vec![80]),
            (9, 10, vec![80]),
            (10, 10, vec![80, 100]),
            (11, 10, vec![80, 100]),
            (4, 5, vec![80]),
            // 80 percent of 3 is 2.4.
            (2, 3, vec![]),
            (5, 0, vec![]),
            (i64::MAX, i64::MAX, vec![80, 100]),
        ] {
            assert_eq!(reached_steps(used, budget), steps, "{used} of {budget}");
        }
    }

    #[test]
    fn only_the_password_cannot_be_switched_off() {
        let fixed: Vec<&NoticeKind> =
            NoticeKind::ALL.iter().filter(|kind| !kind.is_optional()).collect();

        assert_eq!(fixed, [&NoticeKind::Password]);
    }
}
