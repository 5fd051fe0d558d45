//! Slots: how many accounts may be in use on each platform. Every customer has some permanently, a
//! plan adds to them, and extra slots can be bought for two platforms.

use std::fmt;
use std::str::FromStr;

use crate::id::UnknownWord;
use crate::per_platform::PerPlatform;
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

/// Numbers of accounts, one for each platform; 0 for a platform that is not named.
#[derive(Debug, Clone, Default)]
pub struct AccountCounts(PerPlatform<i64>);

/// How many accounts a customer may have in use without paying for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountAllowances {
    /// What every customer has permanently.
    pub included: AccountCounts,
}

impl AccountCounts {
    /// The numbers that a function returns for the declared platforms.
    pub fn each(number: impl FnMut(Platform) -> i64) -> Self {
        Self(PerPlatform::of_all(number))
    }

    /// The number of one platform.
    pub fn on(&self, platform: Platform) -> i64 {
        self.0.get(platform).copied().unwrap_or(0)
    }

    /// Sets the number of one platform.
    pub fn set(&mut self, platform: Platform, number: i64) {
        self.0.insert(platform, number);
    }

    /// Adds to the number of one platform.
    pub fn add(&mut self, platform: Platform, number: i64) {
        self.set(platform, self.on(platform).saturating_add(number));
    }

    /// The sum of both, for each platform.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, i64::saturating_add)
    }

    /// The smaller of both, for each platform.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        self.with(other, i64::min)
    }

    fn with(&self, other: &Self, join: impl Fn(i64, i64) -> i64) -> Self {
        let platforms = self.platforms(other).into_iter();
        Self(platforms.map(|it| (it, join(self.on(it), other.on(it)))).collect())
    }

    /// The platforms that either names.
    fn platforms(&self, other: &Self) -> Vec<Platform> {
        let mut all: Vec<Platform> = self.0.iter().map(|(platform, _)| platform).collect();
        for (platform, _) in other.0.iter() {
            if !all.contains(&platform) {
                all.push(platform);
            }
        }
        all
    }
}

impl PartialEq for AccountCounts {
    fn eq(&self, other: &Self) -> bool {
        self.platforms(other).into_iter().all(|it| self.on(it) == other.on(it))
    }
}

impl Eq for AccountCounts {}

impl fmt::Display for AccountCounts {
    /// As the database holds it, every platform with its number:
    /// `platform_alpha=2,platform_beta=0,…`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (platform, number)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(formatter, "{separator}{}={number}", platform.stored_name())?;
        }
        Ok(())
    }
}

impl FromStr for AccountCounts {
    type Err = UnknownWord;

    /// Reads the same text. A platform that is not named has none.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        const MALFORMED: UnknownWord = UnknownWord { expected: "platform_alpha=1,platform_beta=1" };
        let mut accounts = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (platform, number) = word.split_once('=').ok_or(MALFORMED)?;
            let platform = Platform::from_stored(platform).map_err(|_| MALFORMED)?;
            let number: u32 = number.parse().map_err(|_| MALFORMED)?;
            accounts.set(platform, i64::from(number));
        }
        Ok(accounts)
    }
}

impl AccountAllowances {
    /// The same number on every platform.
    pub fn of_each(number: i64) -> Self {
        Self { included: AccountCounts::each(|_| number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_and_compared_for_each_platform() {
        let mut one = AccountCounts::each(|platform| i64::from(platform == Platform::BETA));
        let other = AccountCounts::each(|_| 2);
        one.set(Platform::DELTA, 5);

        let (sum, least) = (one.plus(&other), one.least(&other));

        assert_eq!(
            Platform::all().into_iter().map(|on| sum.on(on)).collect::<Vec<_>>(),
            [2, 3, 2, 7]
        );
        assert_eq!(
            Platform::all().into_iter().map(|on| least.on(on)).collect::<Vec<_>>(),
            [0, 1, 0, 2]
        );
    }

    #[test]
    fn counts_survive_a_round_trip_as_text() {
        let mut numbers = AccountCounts::each(|_| 2);
        numbers.set(Platform::DELTA, 7);
        let text = "platform_alpha=2,platform_beta=2,platform_gamma=2,platform_delta=7";

        assert_eq!(numbers.to_string(), text);
        assert_eq!(text.parse(), Ok(numbers));
        assert_eq!("".parse(), Ok(AccountCounts::default()));
        for wrong in ["platform_alpha", "platform_alpha=-1", "Omega=1", "1", "a=b=c"] {
            assert!(wrong.parse::<AccountCounts>().is_err(), "{wrong}");
        }
    }
}
