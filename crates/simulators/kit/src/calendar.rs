//! Months and years of billing periods, in UTC.

use jiff::ToSpan as _;
use jiff::tz::TimeZone;

/// The UTC year and month of this second.
pub fn year_and_month(at_s: i64) -> (i64, i64) {
    let date = jiff::Timestamp::from_second(at_s).unwrap_or_default().to_zoned(TimeZone::UTC);
    (i64::from(date.year()), i64::from(date.month()))
}

/// The second that is `count` intervals later; a day that a month lacks becomes its last day.
pub fn after(at_s: i64, interval: &str, count: i64) -> i64 {
    let start = jiff::Timestamp::from_second(at_s).unwrap_or_default().to_zoned(TimeZone::UTC);
    let span = match interval {
        "day" => count.days(),
        "week" => count.weeks(),
        "year" => count.years(),
        _ => count.months(),
    };
    start.checked_add(span).map_or(at_s, |end| end.timestamp().as_second())
}

/// A date for people, such as `21 Nov 2026`.
pub fn shown(at_s: i64) -> String {
    let date = jiff::Timestamp::from_second(at_s).unwrap_or_default().to_zoned(TimeZone::UTC);
    date.strftime("%-d %b %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_from_the_last_day_ends_on_the_last_day() {
        let january: i64 = "2026-01-31T10:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second();

        assert_eq!(shown(after(january, "month", 1)), "28 Feb 2026");
        assert_eq!(shown(after(january, "month", 2)), "31 Mar 2026");
        assert_eq!(shown(after(january, "year", 1)), "31 Jan 2027");
        assert_eq!(year_and_month(january), (2026, 1));
    }
}
