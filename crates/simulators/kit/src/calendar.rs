//! Months and years of billing periods, in UTC.

use jiff::Span;
use jiff::tz::TimeZone;

/// The UTC year and month of this second.
pub fn year_and_month(at_s: i64) -> (i64, i64) {
    let date = jiff::Timestamp::from_second(at_s).unwrap_or_default().to_zoned(TimeZone::UTC);
    (i64::from(date.year()), i64::from(date.month()))
}

/// The second that is `count` intervals later; a day that a month lacks becomes its last day. The
/// same second if no calendar has the later one.
pub fn after(at_s: i64, interval: &str, count: i64) -> i64 {
    later(at_s, interval, count).unwrap_or(at_s)
}

/// Like [`after`]; none if no calendar has the later second.
pub(crate) fn later(at_s: i64, interval: &str, count: i64) -> Option<i64> {
    let start = jiff::Timestamp::from_second(at_s).ok()?.to_zoned(TimeZone::UTC);
    let span = match interval {
        "day" => Span::new().try_days(count),
        "week" => Span::new().try_weeks(count),
        "year" => Span::new().try_years(count),
        _ => Span::new().try_months(count),
    };
    Some(start.checked_add(span.ok()?).ok()?.timestamp().as_second())
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

    fn at(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().unwrap().as_second()
    }

    #[test]
    fn every_interval_is_counted_from_the_same_start() {
        let start = at("2028-02-29T23:59:59Z");
        for (interval, count, expected) in [
            ("day", 1, "2028-03-01T23:59:59Z"),
            ("week", 2, "2028-03-14T23:59:59Z"),
            ("month", 1, "2028-03-29T23:59:59Z"),
            ("month", 12, "2029-02-28T23:59:59Z"),
            ("year", 1, "2029-02-28T23:59:59Z"),
            ("year", 4, "2032-02-29T23:59:59Z"),
            ("month", 0, "2028-02-29T23:59:59Z"),
            ("month", -1, "2028-01-29T23:59:59Z"),
            ("an interval that is unknown", 1, "2028-03-29T23:59:59Z"),
        ] {
            assert_eq!(after(start, interval, count), at(expected), "{count} {interval}");
        }
    }

    #[test]
    fn a_time_that_no_calendar_has_is_not_reached() {
        let start = at("2026-01-31T10:00:00Z");
        for count in [9_999_999, i64::MAX, i64::MIN] {
            for interval in ["day", "week", "month", "year"] {
                assert_eq!(after(start, interval, count), start, "{count} {interval}");
            }
        }
        assert_eq!(after(i64::MAX, "day", 1), i64::MAX);
        assert_eq!(year_and_month(i64::MAX), (1970, 1));
    }

    #[test]
    fn dates_are_shown_without_leading_zeros() {
        assert_eq!(shown(at("2026-11-01T00:00:00Z")), "1 Nov 2026");
        assert_eq!(shown(at("2026-11-30T23:59:59Z")), "30 Nov 2026");
        assert_eq!(shown(0), "1 Jan 1970");
    }
}
