//! Subscriptions: the states that the processor reports, and what each means for accounts and
//! slots.

use crate::wire::text_enum;

text_enum! {
    /// The state of a subscription.
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
        /// The last invoice is not paid yet; the processor is retrying.
        PastDue = "past_due",
        /// Ended permanently.
        Canceled = "canceled",
        /// The processor has given up collecting payment.
        Unpaid = "unpaid",
        /// A trial that ended without a card.
        Paused = "paused",
    }
}

impl SubscriptionStatus {
    /// Reads the processor's word. An unknown word counts as cancelled, which grants nothing.
    pub fn from_processor(word: &str) -> Self {
        word.parse().unwrap_or(Self::Canceled)
    }

    /// Whether the plan and the slots count. They do while the processor still tries to collect
    /// payment.
    pub const fn entitles(self) -> bool {
        match self {
            Self::Trialing | Self::Active | Self::PastDue => true,
            Self::None | Self::Incomplete | Self::Canceled | Self::Unpaid | Self::Paused => false,
        }
    }

    /// Whether more can be bought on it: only on one that is paid. On a trial nothing would be
    /// charged, and the end of the trial would move the billing date.
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

    /// Whether it has not ended. A customer cannot buy a second subscription beside a live one.
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

    /// The rank by which one of several subscriptions counts: the highest.
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
    fn unknown_words_of_the_processor_grant_nothing() {
        for status in SubscriptionStatus::ALL {
            assert_eq!(SubscriptionStatus::from_processor(status.as_str()), *status);
        }
        for word in ["incomplete_expired", "surprise", ""] {
            let status = SubscriptionStatus::from_processor(word);
            assert!(!status.entitles() && !status.is_live(), "{word}");
        }
    }

    #[test]
    fn states_that_take_raises_entitle_and_states_that_entitle_are_live() {
        for status in SubscriptionStatus::ALL {
            assert!(!status.takes_raises() || status.entitles(), "{status}");
            assert!(!status.entitles() || status.is_live(), "{status}");
        }
    }
}
