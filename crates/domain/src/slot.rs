//! Slots: how many accounts may be in use on each platform. Every customer has some permanently, a
//! plan adds to them, and extra slots can be bought for two platforms.

use std::fmt;
use std::str::FromStr;

use crate::id::UnknownWord;
use crate::platform::Platform;
use crate::wire::text_enum;

text_enum! {
    /// The kind of a change of slots or of the plan.
    SlotChangeKind, "one of raise, lower, switch, plan" {
        /// More slots on one platform, paid immediately.
        Raise = "raise",
        /// Fewer slots on one platform, credited on the next invoice.
        Lower = "lower",
        /// One slot moved from one platform to another; the difference is on the next invoice.
        Switch = "switch",
        /// Another plan.
        Plan = "plan",
    }
}

text_enum! {
    /// The request that a change has reached.
    ChangeStep, "one of take_back, change, restore" {
        /// An upgrade while a change to a cheaper plan is pending: cancel that change first.
        TakeBack = "take_back",
        /// The change that the customer asked for.
        Change = "change",
        /// The upgrade failed: make the change to the cheaper plan pending again.
        Restore = "restore",
    }
}

/// How a change affects the money of the current period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeProration {
    /// The difference is paid immediately; if the payment fails, nothing changes.
    PayNow,
    /// The difference is on the next invoice.
    NextInvoice,
    /// Nothing is charged or credited.
    None,
}

text_enum! {
    /// The state of a change.
    SlotChangeState, "one of open, applied, failed" {
        /// Recorded; the processor may or may not have carried it out.
        Open = "open",
        /// The processor's subscription shows it.
        Applied = "applied",
        /// The processor refused it; nothing changed.
        Failed = "failed",
    }
}

/// Numbers of accounts, one for each platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountCounts {
    alpha: i64,
    beta: i64,
    gamma: i64,
    delta: i64,
}

/// How many accounts a customer may use without paying for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountAllowances {
    /// What every customer has permanently.
    pub included: AccountCounts,
}

impl Platform {
    /// Whether extra slots are sold for it.
    pub const fn sells_slots(self) -> bool {
        match self {
            Self::Alpha | Self::Beta => true,
            Self::Gamma | Self::Delta => false,
        }
    }
}

impl AccountCounts {
    /// Creates counts from a function of the platform.
    pub fn each(mut number: impl FnMut(Platform) -> i64) -> Self {
        Self {
            alpha: number(Platform::Alpha),
            beta: number(Platform::Beta),
            gamma: number(Platform::Gamma),
            delta: number(Platform::Delta),
        }
    }

    /// The number of one platform.
    pub const fn on(&self, platform: Platform) -> i64 {
        match platform {
            Platform::Alpha => self.alpha,
            Platform::Beta => self.beta,
            Platform::Gamma => self.gamma,
            Platform::Delta => self.delta,
        }
    }

    /// The number of one platform, mutable.
    pub const fn on_mut(&mut self, platform: Platform) -> &mut i64 {
        match platform {
            Platform::Alpha => &mut self.alpha,
            Platform::Beta => &mut self.beta,
            Platform::Gamma => &mut self.gamma,
            Platform::Delta => &mut self.delta,
        }
    }

    /// The sum of both, for each platform.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::each(|platform| self.on(platform).saturating_add(other.on(platform)))
    }

    /// The smaller of both, for each platform.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        Self::each(|platform| self.on(platform).min(other.on(platform)))
    }
}

impl fmt::Display for AccountCounts {
    /// Every platform with its number: `platform_alpha=2,platform_beta=0,…`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, platform) in Platform::ALL.iter().enumerate() {
            let before = if place == 0 { "" } else { "," };
            write!(formatter, "{before}{platform}={}", self.on(*platform))?;
        }
        Ok(())
    }
}

impl FromStr for AccountCounts {
    type Err = UnknownWord;

    /// Reads the same text. A platform that is not named has 0; an unknown one is refused.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        const MALFORMED: UnknownWord = UnknownWord { expected: "platform_alpha=1,platform_beta=1" };
        let mut accounts = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (platform, number) = word.split_once('=').ok_or(MALFORMED)?;
            let platform: Platform = platform.parse().map_err(|_| MALFORMED)?;
            let number: u32 = number.parse().map_err(|_| MALFORMED)?;
            *accounts.on_mut(platform) = i64::from(number);
        }
        Ok(accounts)
    }
}

impl AccountAllowances {
    /// Includes the same number on every platform.
    pub fn of_each(number: i64) -> Self {
        Self { included: AccountCounts::each(|_| number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_slots_are_sold_for_two_platforms() {
        let sold = Platform::ALL.iter().filter(|platform| platform.sells_slots());

        assert_eq!(sold.collect::<Vec<_>>(), [&Platform::Alpha, &Platform::Beta]);
    }

    #[test]
    fn counts_are_added_and_compared_per_platform() {
        let mut one = AccountCounts::each(|platform| i64::from(platform == Platform::Beta));
        let other = AccountCounts::each(|_| 2);
        *one.on_mut(Platform::Delta) = 5;

        let (sum, least) = (one.plus(&other), one.least(&other));

        assert_eq!(Platform::ALL.iter().map(|on| sum.on(*on)).collect::<Vec<_>>(), [2, 3, 2, 7]);
        assert_eq!(Platform::ALL.iter().map(|on| least.on(*on)).collect::<Vec<_>>(), [0, 1, 0, 2]);
    }

    #[test]
    fn counts_survive_a_round_trip_as_text() {
        let mut numbers = AccountCounts::each(|_| 2);
        *numbers.on_mut(Platform::Delta) = 7;
        let text = "platform_alpha=2,platform_beta=2,platform_gamma=2,platform_delta=7";

        assert_eq!(numbers.to_string(), text);
        assert_eq!(text.parse(), Ok(numbers));
        assert_eq!("".parse(), Ok(AccountCounts::default()));
        for wrong in ["platform_alpha", "platform_alpha=-1", "platform_omega=1", "1", "a=b=c"] {
            assert!(wrong.parse::<AccountCounts>().is_err(), "{wrong}");
        }
    }
}
