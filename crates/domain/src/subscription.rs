//! Subscriptions: the states that the processor tells, and what each of them means for accounts and slots.

use crate::wire::text_enum;

text_enum! {
    /// Where a subscription stands.
    SubscriptionStatus,
    "one of none, incomplete, trialing, active, past_due, canceled, unpaid, paused" {
        /// There is no subscription.
        None = "none",
        /// The first payment has not succeeded yet.
        Incomplete = "incomplete",
        /// In a trial.
        Trialing = "trialing",
        /// Paid.
        Active = "active",
        /// The last invoice could not be paid yet; the processor tries again.
        PastDue = "past_due",
        /// Over, for good.
        Canceled = "canceled",
        /// The processor gave up trying to be paid.
        Unpaid = "unpaid",
        /// A trial that ended without a card.
        Paused = "paused",
    }
}

impl SubscriptionStatus {
    /// Reads the processor's word; one that is not known counts as over, which gives nothing away.
    pub fn from_processor(word: &str) -> Self {
        word.parse().unwrap_or(Self::Canceled)
    }

    /// Whether the plan and the slots count. While the processor still tries to be paid, they do.
    pub const fn entitles(self) -> bool {
        match self {
            Self::Trialing | Self::Active | Self::PastDue => true,
            Self::None | Self::Incomplete | Self::Canceled | Self::Unpaid | Self::Paused => false,
        }
    }

    /// Whether more can be bought on it: only on one that is paid. A charge on a trial would be nothing, and its
    /// end would move the billing date.
    pub const fn takes_raises(self) -> bool {
        match self {
            Self::Active => true,
            Self::None
            | Self::Incomplete
            | Self::Trialing
            | Self::PastDue
            | Self::Canceled
            | Self::Unpaid
            | Self::Paused => false,
        }
    }

    /// Whether it is not over: no second one is sold beside it.
    pub const fn is_live(self) -> bool {
        match self {
            Self::None | Self::Canceled => false,
            Self::Incomplete
            | Self::Trialing
            | Self::Active
            | Self::PastDue
            | Self::Unpaid
            | Self::Paused => true,
        }
    }

    /// Which of several subscriptions counts: the one with the highest rank.
    pub const fn rank(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Canceled => 1,
            Self::Incomplete => 2,
            Self::Paused => 3,
            Self::Unpaid => 4,
            Self::PastDue => 5,
            Self::Trialing => 6,
            Self::Active => 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_words_are_read_and_unknown_ones_give_nothing() {
        for status in SubscriptionStatus::ALL {
            assert_eq!(SubscriptionStatus::from_processor(status.as_str()), *status);
        }
        for word in ["incomplete_expired", "surprise", ""] {
            let status = SubscriptionStatus::from_processor(word);
            assert!(!status.entitles() && !status.is_live(), "{word}");
        }
    }

    #[test]
    fn what_takes_raises_entitles_and_what_entitles_is_live() {
        for status in SubscriptionStatus::ALL {
            assert!(!status.takes_raises() || status.entitles(), "{status}");
            assert!(!status.entitles() || status.is_live(), "{status}");
        }
    }
}
