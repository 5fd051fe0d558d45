//! Months as the payment processor counts them: from an anchor, so that a short month does not move
//! the billing day permanently.

use jiff::ToSpan as _;
use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// The most months that are searched for a period: a hundred years.
const MONTHS_MAX: i64 = 1_200;

/// A period of a subscription that is paid by the month, and the end of the following one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BillingPeriod {
    /// Its first second.
    pub start: Timestamp,
    /// The second after its last.
    pub end: Timestamp,
    /// The end of the following period, until which its credits can be spent.
    pub next_end: Timestamp,
}

impl BillingPeriod {
    /// The period that ends at `end`, of a subscription whose months are counted from `anchor`.
    /// `None` if no month ends then: the anchor was moved, or the billing interval is not a month.
    pub fn ending(anchor: Timestamp, end: Timestamp) -> Option<Self> {
        // A month has 28 to 31 days, so only a few months can end there.
        let days = end.unix_seconds().checked_sub(anchor.unix_seconds())?.checked_div(86_400)?;
        let first = days.checked_div(31)?.max(1);
        let number =
            (first..MONTHS_MAX).take(120).find(|number| months_after(anchor, *number) >= end)?;
        let period = Self {
            start: months_after(anchor, number.checked_sub(1)?),
            end: months_after(anchor, number),
            next_end: months_after(anchor, number.checked_add(1)?),
        };
        (period.end == end).then_some(period)
    }

    /// How long it is, in seconds.
    pub const fn seconds(&self) -> i64 {
        self.end.unix_seconds().saturating_sub(self.start.unix_seconds())
    }
}

/// The time `months` months after an anchor, in UTC. A day that the month lacks becomes its last
/// day.
pub fn months_after(anchor: Timestamp, months: i64) -> Timestamp {
    let seconds = anchor.unix_seconds();
    let start = jiff::Timestamp::from_second(seconds).unwrap_or_default().to_zoned(TimeZone::UTC);
    let after = start.checked_add(months.months()).map(|after| after.timestamp().as_second());
    Timestamp::from_unix_micros(0).plus_seconds(after.unwrap_or(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Timestamp {
        Timestamp::from_rfc3339(&format!("{text}T10:00:00Z")).unwrap()
    }

    #[test]
    fn a_short_month_ends_on_its_last_day_without_moving_the_anchor() {
        let anchor = day("2027-01-31");

        let period = BillingPeriod::ending(anchor, day("2027-02-28")).unwrap();

        assert_eq!((period.start, period.next_end), (anchor, day("2027-03-31")));
        assert_eq!(period.seconds(), 28 * 86_400);
        let later = BillingPeriod::ending(anchor, day("2031-04-30")).unwrap();
        assert_eq!((later.start, later.next_end), (day("2031-03-31"), day("2031-05-31")));
    }

    #[test]
    fn an_end_in_the_middle_of_a_month_is_not_a_period() {
        assert_eq!(BillingPeriod::ending(day("2027-01-31"), day("2027-02-27")), None);
        assert_eq!(BillingPeriod::ending(day("2027-01-31"), day("2027-01-31")), None);
        assert_eq!(BillingPeriod::ending(day("2027-01-31"), day("2026-01-31")), None);
    }
}
