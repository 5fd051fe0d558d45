//! Automatic top-up: the states of a charge, and how long to wait after a card was declined.

use crate::time::Timestamp;
use crate::wire::text_enum;

text_enum! {
    /// The state of an automatic charge.
    TopUpState, "one of claimed, requires_action, succeeded, failed" {
        /// A node is about to charge the card, is charging it, or stopped while doing so.
        Claimed = "claimed",
        /// The bank asks for the customer's confirmation.
        RequiresAction = "requires_action",
        /// Paid, and its credits granted.
        Succeeded = "succeeded",
        /// Not paid.
        Failed = "failed",
    }
}

text_enum! {
    /// Why nothing is bought although the balance is low.
    TopUpWaitReason, "one of daily_cap, pack_not_sold, declined, failed_often" {
        /// Another pack does not fit under the daily cap.
        DailyCap = "daily_cap",
        /// The chosen pack is no longer sold.
        PackNotSold = "pack_not_sold",
        /// The last charge was declined.
        Declined = "declined",
        /// Too many charges failed within a day.
        FailedOften = "failed_often",
    }
}

/// Why nothing is bought although the balance is low, and when that ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopUpWait {
    /// Why.
    pub reason: TopUpWaitReason,
    /// When it ends; `None` if only the customer can end it.
    pub until: Option<Timestamp>,
}

/// How many packs of so many credits and cents cover the missing credits, within these cents.
pub fn packs(missing: i64, credits: i64, price_cents: i64, cents: i64) -> i64 {
    let credits = credits.max(1);
    let rounded = missing.saturating_add(credits.saturating_sub(1));
    let wanted = rounded.checked_div(credits).unwrap_or(0);
    wanted.min(cents.checked_div(price_cents.max(1)).unwrap_or(0))
}

/// How long the node that claimed a charge has it to itself, in seconds.
pub const LEASE_S: i64 = 60;
/// How long after its claim a charge may be sent again under the same idempotency key, in seconds:
/// the processor remembers keys for 24 hours. After that the charge must be looked up.
pub const SAME_KEY_S: i64 = 23 * 3_600;
/// How long after its claim a charge that waits for the customer is given up, in seconds.
pub const WAIT_S: i64 = 7 * 86_400;
/// The number of consecutive declines that turns top-up off.
pub const DECLINES_MAX: i64 = 3;
/// The number of charges that may fail within 24 hours; the next one waits.
pub const FAILURES_PER_DAY_MAX: i64 = 4;

/// Seconds before the next charge, after `declines` consecutive declines.
pub const fn pause_s(declines: i64) -> i64 {
    match declines {
        ..=0 => 0,
        1 => 3_600,
        2 => 6 * 3_600,
        _ => 24 * 3_600,
    }
}

impl TopUpState {
    /// Whether it has not ended yet.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Claimed | Self::RequiresAction => true,
            Self::Succeeded | Self::Failed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packs_are_bought_as_reach_the_threshold_and_fit_under_the_cap() {
        for (missing, credits, price, cents, expected) in [
            (1, 5_000, 1_000, 10_000, 1),
            (5_000, 5_000, 1_000, 10_000, 1),
            (5_001, 5_000, 1_000, 10_000, 2),
            (50_000, 5_000, 1_000, 2_999, 2),
            (1, 5_000, 1_000, 999, 0),
            (1, 5_000, 1_000, -1, 0),
        ] {
            assert_eq!(packs(missing, credits, price, cents), expected, "{missing} {cents}");
        }
    }

    #[test]
    fn a_declining_card_is_tried_three_times_within_a_day() {
        let mut elapsed = 0;
        let mut attempts = 0;
        while attempts < DECLINES_MAX {
            attempts += 1;
            elapsed += pause_s(attempts);
        }

        assert!(attempts <= FAILURES_PER_DAY_MAX);
        assert_eq!(elapsed, (1 + 6 + 24) * 3_600);
        assert_eq!((pause_s(0), pause_s(-1), pause_s(9)), (0, 0, 24 * 3_600));
    }
}
