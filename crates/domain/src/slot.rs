//! Slots: how many accounts may be in use on each platform. Every customer has some for good, a plan adds to them,
//! and extra slots that are paid for add to two platforms.

use std::fmt;
use std::str::FromStr;

use crate::id::UnknownWord;
use crate::platform::Platform;
use crate::wire::text_enum;

text_enum! {
    /// What a change of slots or of the plan is.
    SlotChangeKind, "one of raise, lower, switch, plan" {
        /// More slots of one platform, paid at once.
        Raise = "raise",
        /// Fewer slots of one platform, credited on the next invoice.
        Lower = "lower",
        /// One slot less on one platform and one more on another; the difference is on the next invoice.
        Switch = "switch",
        /// Another plan.
        Plan = "plan",
    }
}

text_enum! {
    /// Which of its requests a change has come to.
    ChangeStep, "one of take_back, change, restore" {
        /// An upgrade while a cheaper plan is pending: that one is taken back first.
        TakeBack = "take_back",
        /// What was asked for.
        Change = "change",
        /// The upgrade was not made: the cheaper plan becomes pending again.
        Restore = "restore",
    }
}

/// What a change does to the money of the current period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeProration {
    /// The difference is paid immediately, and nothing changes unless it is.
    PayNow,
    /// The difference is on the next invoice.
    NextInvoice,
    /// Nothing: it moves no money.
    None,
}

text_enum! {
    /// Where a change stands.
    SlotChangeState, "one of open, applied, failed" {
        /// Written down; the processor may or may not have carried it out.
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

/// How many accounts a customer may have in use without paying for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountAllowances {
    /// What every customer has for good.
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
    /// The numbers that a function gives.
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

    /// The number of one platform, to be changed.
    pub const fn on_mut(&mut self, platform: Platform) -> &mut i64 {
        match platform {
            Platform::Alpha => &mut self.alpha,
            Platform::Beta => &mut self.beta,
            Platform::Gamma => &mut self.gamma,
            Platform::Delta => &mut self.delta,
        }
    }

    /// Both together, for each platform.
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

    /// Reads the same text. A platform that is not named has none; an unknown one is refused.
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
    /// The same number for good on every platform.
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
    fn numbers_are_added_and_compared_for_each_platform() {
        let mut one = AccountCounts::each(|platform| i64::from(platform == Platform::Beta));
        let other = AccountCounts::each(|_| 2);
        *one.on_mut(Platform::Delta) = 5;

        let (sum, least) = (one.plus(&other), one.least(&other));

        assert_eq!(Platform::ALL.iter().map(|on| sum.on(*on)).collect::<Vec<_>>(), [2, 3, 2, 7]);
        assert_eq!(Platform::ALL.iter().map(|on| least.on(*on)).collect::<Vec<_>>(), [0, 1, 0, 2]);
    }

    #[test]
    fn numbers_are_written_and_read_as_one_text() {
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
