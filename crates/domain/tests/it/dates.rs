//! Times, days, months and windows: calendars that agree with each other, at every edge.

use domain::billing_period::{BillingPeriod, months_after};
use domain::field_error::FieldErrorKind;
use domain::time::{Timestamp, UtcDay};
use domain::window::{DateWindow, WindowProblem};
use proptest::prelude::*;

const DAY_S: i64 = 86_400;
/// The first second of the year 3000.
const YEAR_3000_S: i64 = 32_503_680_000;

fn at(text: &str) -> Timestamp {
    Timestamp::from_rfc3339(text).unwrap()
}

/// Times of the years 1970 to 2999.
fn times() -> impl Strategy<Value = Timestamp> {
    (0..YEAR_3000_S * 1_000_000).prop_map(Timestamp::from_unix_micros)
}

proptest! {
    #[test]
    fn a_time_is_read_back_to_the_microsecond_in_any_zone(time in times(), minutes in -1_439_i64..1_440) {
        prop_assert_eq!(Timestamp::from_rfc3339(&time.to_rfc3339()), Some(time));
        let local = time.plus_seconds(minutes * 60).to_rfc3339();
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
        let zoned = local.replace('Z', &format!("{sign}{hours:02}:{rest:02}"));
        prop_assert_eq!(Timestamp::from_rfc3339(&zoned), Some(time), "{}", zoned);
        let json = serde_json::to_string(&time).unwrap();
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
    }

    /// Times are compared as text in places, so their text must sort as they do.
    #[test]
    fn times_sort_as_their_texts(one in times(), other in times()) {
        prop_assert_eq!(one.cmp(&other), one.to_rfc3339().cmp(&other.to_rfc3339()));
        prop_assert_eq!(one.day().cmp(&other.day()), one.day().to_string().cmp(&other.day().to_string()));
    }

    #[test]
    fn a_time_lies_in_its_day_and_a_day_in_its_month(time in times()) {
        let day = time.day();

        prop_assert!(day.start() <= time && time <= day.last_instant());
        prop_assert_eq!(day.last_instant().plus_micros(1), day.plus_days(1).start());
        prop_assert_eq!(time.unix_seconds().div_euclid(DAY_S), day.number());
        let (first, next) = (day.month_start(), day.next_month_start());
        prop_assert!(first <= day && day < next);
        prop_assert!((28..=31).contains(&(next.number() - first.number())));
        prop_assert_eq!(next.month_start(), next);
        prop_assert_eq!(first.year_and_month(), day.year_and_month());
        prop_assert_ne!(next.year_and_month(), day.year_and_month());
        prop_assert_eq!(day.to_string().parse(), Ok(day));
    }

    #[test]
    fn arithmetic_of_times_never_wraps(start: i64, change: i64) {
        let time = Timestamp::from_unix_micros(start);

        for moved in [time.plus_micros(change), time.plus_seconds(change)] {
            prop_assert_eq!(change > 0 && moved < time, false);
            prop_assert_eq!(change < 0 && moved > time, false);
            let _text = moved.to_rfc3339();
        }
        let day = UtcDay::from_number(start);
        prop_assert!(day.month_start() <= day.next_month_start());
        let _shown = (day.to_string(), day.last_instant(), day.plus_days(change));
    }

    #[test]
    fn no_text_makes_a_parser_of_times_panic(text in any::<String>(), near in "[0-9TZ:+. -]{0,30}") {
        for written in [&text, &near] {
            let _parsed = (Timestamp::from_rfc3339(written), Timestamp::from_http_date(written), written.parse::<UtcDay>());
            if let Err(problem) = DateWindow::parse(Some(written), Some(written)) {
                prop_assert!(!problem.message.is_empty());
            }
        }
    }

    #[test]
    fn a_window_contains_its_days_and_no_neighbour(first in 0_i64..375_700, days in 0_i64..400) {
        let (from, to) = (UtcDay::from_number(first), UtcDay::from_number(first + days));
        let window = DateWindow::parse(Some(&from.to_string()), Some(&to.to_string())).unwrap();

        prop_assert!(window.contains(from.start()) && window.contains(to.last_instant()));
        prop_assert!(!window.contains(from.start().plus_micros(-1)));
        prop_assert!(!window.contains(to.last_instant().plus_micros(1)));
        prop_assert!(window.is_before(from.start().plus_micros(-1)) && !window.is_before(from.start()));
        prop_assert_eq!((window.first_day(), window.last_day()), (Some(from), Some(to)));
        let instants = DateWindow::parse(
            Some(&from.start().to_rfc3339()),
            Some(&to.plus_days(1).start().to_rfc3339()),
        );
        prop_assert_eq!(instants, Ok(window), "the same window, written with instants");
    }

    #[test]
    fn an_end_before_its_start_is_refused_however_it_is_written(start in times(), before in 0_i64..1_000_000_000) {
        prop_assume!(start.unix_micros() >= before);
        let end = start.plus_micros(-before);

        let refused = DateWindow::parse(Some(&start.to_rfc3339()), Some(&end.to_rfc3339())).unwrap_err();

        prop_assert_eq!((refused.field, refused.kind), ("end_date", FieldErrorKind::OutOfRange));
    }

    #[test]
    fn the_months_of_a_subscription_follow_each_other_without_a_gap(anchor in 0..YEAR_3000_S / 2, number in 1_i64..1_100) {
        let anchor = Timestamp::from_unix_micros(0).plus_seconds(anchor);
        let end = months_after(anchor, number);

        let period = BillingPeriod::ending(anchor, end).unwrap();

        prop_assert_eq!(period.start, months_after(anchor, number - 1));
        prop_assert_eq!((period.end, period.next_end), (end, months_after(anchor, number + 1)));
        prop_assert!((28 * DAY_S..=31 * DAY_S).contains(&period.seconds()));
        prop_assert_eq!(BillingPeriod::ending(anchor, period.next_end).unwrap().start, end);
        for wrong in [end.plus_seconds(1), end.plus_seconds(-1), end.plus_micros(1)] {
            prop_assert_eq!(BillingPeriod::ending(anchor, wrong), None);
        }
    }

    /// Whatever the processor says: a time that no month ends at is none, and nothing panics.
    #[test]
    fn an_end_far_away_is_no_period_and_no_panic(anchor: i64, end: i64) {
        let (anchor, end) = (Timestamp::from_unix_micros(anchor), Timestamp::from_unix_micros(end));

        if let Some(period) = BillingPeriod::ending(anchor, end) {
            prop_assert!(period.start < period.end && period.end == end);
        }
    }
}

#[test]
fn months_of_every_length_end_on_the_day_of_the_anchor_or_on_their_last() {
    let anchor = at("2027-10-31T23:59:59Z");
    let ends: Vec<String> =
        (1..=6).map(|number| months_after(anchor, number).day().to_string()).collect();

    assert_eq!(
        ends,
        ["2027-11-30", "2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]
    );
    assert_eq!(months_after(anchor, 0), anchor);
    assert_eq!(months_after(anchor, -1).to_rfc3339(), "2027-09-30T23:59:59.000000Z");
}

#[test]
fn a_subscription_of_more_than_a_hundred_years_has_no_period() {
    let anchor = at("2027-01-15T00:00:00Z");

    assert!(BillingPeriod::ending(anchor, months_after(anchor, 1_199)).is_some());
    assert_eq!(BillingPeriod::ending(anchor, months_after(anchor, 1_200)), None);
}

#[test]
fn times_beyond_the_calendar_are_shown_as_its_ends() {
    let (first, last) =
        (Timestamp::from_unix_micros(i64::MIN), Timestamp::from_unix_micros(i64::MAX));

    assert_eq!(first.to_rfc3339(), "-009999-01-02T01:59:59.000000Z");
    assert_eq!(last.to_rfc3339(), "9999-12-30T22:00:00.999999Z");
    assert_eq!(first.unix_millis(), 0);
    assert_eq!(UtcDay::from_number(i64::MAX).year_and_month(), (9_999, 12));
    assert_eq!(UtcDay::from_number(i64::MIN).year_and_month(), (-9_999, 1));
    assert_eq!(last.micros_since(first), i64::MAX);
    assert_eq!(first.micros_since(last), i64::MIN);
}

#[test]
fn a_time_in_json_that_is_none_is_refused() {
    for json in [
        "\"2026-11-21\"",
        "\"2026-11-21T05:13:42\"",
        "\"2026-02-30T00:00:00Z\"",
        "\"2026-11-21T24:00:00Z\"",
        "\"2026-11-21T05:13:42+24:00\"",
        "\"now\"",
        "\"\"",
        "1795234422",
        "null",
    ] {
        let refused = serde_json::from_str::<Timestamp>(json);
        assert!(refused.is_err(), "{json}");
    }
    let said = serde_json::from_str::<Timestamp>("\"now\"").unwrap_err().to_string();
    assert!(said.starts_with("not a time of RFC 3339"), "{said}");
    let of_day = serde_json::from_str::<UtcDay>("\"2026-13-01\"").unwrap_err().to_string();
    assert!(of_day.starts_with("not a day such as 2026-01-31"), "{of_day}");
}

/// RFC 9110 has three forms; the obsolete two are as good as absent.
#[test]
fn http_dates_of_other_forms_and_zones_are_not_read() {
    for text in [
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 UT",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "1994-11-06T08:49:37Z GMT",
    ] {
        assert_eq!(Timestamp::from_http_date(text), None, "{text}");
    }
    assert_eq!(
        Timestamp::from_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
        Some(at("1994-11-06T08:49:37Z"))
    );
}

#[test]
fn a_refused_window_names_the_field_and_what_to_write_instead() {
    let problem =
        |start: Option<&str>, end: Option<&str>| DateWindow::parse(start, end).unwrap_err();

    for (text, kind, message) in [
        (
            "1.2.2026",
            FieldErrorKind::BadFormat,
            "must be a day such as 2026-01-31 or a timestamp with a zone such as 2026-01-31T12:00:00Z",
        ),
        (
            "2026-02-30",
            FieldErrorKind::BadFormat,
            "is a day or a time that the calendar does not have",
        ),
        (
            "2026-01-31T12:00:00",
            FieldErrorKind::BadFormat,
            "is a timestamp without a zone: end it with Z or with an offset such as +01:00",
        ),
        (
            "2016-12-31T23:59:60Z",
            FieldErrorKind::BadFormat,
            "is a leap second, which no platform writes; use the second before",
        ),
        ("3000-01-01", FieldErrorKind::OutOfRange, "must be in the years 1970 to 2999"),
    ] {
        let field = |field| WindowProblem { field, message, kind };
        assert_eq!(problem(Some(text), None), field("start_date"));
        assert_eq!(problem(None, Some(text)), field("end_date"));
        // The start is looked at first.
        assert_eq!(problem(Some(text), Some("never")), field("start_date"));
    }
    assert_eq!(
        problem(Some("2026-01-02"), Some("2026-01-01")).message,
        "must be later than start_date, or the same day; a timestamp as end_date is exclusive"
    );
}

#[test]
fn a_window_with_one_bound_is_open_at_the_other_end() {
    let from = DateWindow::parse(Some("2026-01-01"), None).unwrap();
    let until = DateWindow::parse(None, Some("2026-01-01")).unwrap();

    assert!(
        from.contains(at("2999-12-31T23:59:59Z")) && !from.contains(at("2025-12-31T23:59:59Z"))
    );
    assert!(
        until.contains(at("1970-01-01T00:00:00Z")) && !until.contains(at("2026-01-02T00:00:00Z"))
    );
    assert_eq!((from.last_day(), until.first_day()), (None, None));
    assert!(!from.is_open() && !until.is_open() && DateWindow::default().is_open());
    assert!(!until.is_before(at("1970-01-01T00:00:00Z")), "nothing is before an open start");
}

#[test]
fn the_last_day_of_the_range_is_a_whole_day() {
    let window = DateWindow::parse(Some("2999-12-31"), Some("2999-12-31")).unwrap();

    assert_eq!(window.end, Some(at("3000-01-01T00:00:00Z")));
    assert!(window.contains(at("2999-12-31T23:59:59.999999Z")));
    let zoned = DateWindow::parse(None, Some("2999-12-31T23:59:59.999999-23:59")).unwrap();
    assert_eq!(zoned.end, Some(at("3000-01-01T23:58:59.999999Z")));
}
