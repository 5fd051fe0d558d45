//! The span of time that an export is limited to, as a caller writes it (specification 2.4).
//!
//! A date is a whole UTC day, inclusive as the start and as the end. A timestamp is an instant, and
//! exclusive as the end.

use crate::field_error::FieldErrorKind;
use crate::time::{Timestamp, UtcDay};

/// The years that dates may have: every year that a platform can have data of, without overflow of
/// calendar arithmetic.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2999;

/// From `start`, inclusive, to `end`, exclusive. An absent bound is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DateWindow {
    /// The first instant inside.
    pub start: Option<Timestamp>,
    /// The first instant after the window.
    pub end: Option<Timestamp>,
}

/// Why a window is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowProblem {
    /// `start_date` or `end_date`.
    pub field: &'static str,
    /// What is wrong and what to write instead.
    pub message: &'static str,
    /// What kind of mistake it is.
    pub kind: FieldErrorKind,
}

impl DateWindow {
    /// Parses `start_date` and `end_date`: `YYYY-MM-DD`, or an RFC 3339 timestamp with a zone.
    pub fn parse(start: Option<&str>, end: Option<&str>) -> Result<Self, WindowProblem> {
        let refused = |field| move |(kind, message)| WindowProblem { field, message, kind };
        let from = start.map(read).transpose().map_err(refused("start_date"))?;
        let to = end.map(read).transpose().map_err(refused("end_date"))?;
        let window = Self { start: from.map(WindowBound::first), end: to.map(WindowBound::after) };
        match (window.start, window.end) {
            (Some(first), Some(after)) if first >= after => Err(WindowProblem {
                field: "end_date",
                message: "must be later than start_date, or the same day; a timestamp as end_date is exclusive",
                kind: FieldErrorKind::OutOfRange,
            }),
            _ => Ok(window),
        }
    }

    /// Whether it contains every instant.
    pub const fn is_open(&self) -> bool {
        self.start.is_none() && self.end.is_none()
    }

    /// Whether it contains the instant.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= at) && self.end.is_none_or(|end| at < end)
    }

    /// Whether the instant is before it.
    pub fn is_before(&self, at: Timestamp) -> bool {
        self.start.is_some_and(|start| at < start)
    }

    /// The UTC day of its first instant.
    pub fn first_day(&self) -> Option<UtcDay> {
        self.start.map(Timestamp::day)
    }

    /// The UTC day of its last instant.
    pub fn last_day(&self) -> Option<UtcDay> {
        self.end.map(|end| end.plus_micros(-1).day())
    }
}

/// A bound as a caller writes it.
#[derive(Clone, Copy)]
enum WindowBound {
    Day(UtcDay),
    Instant(Timestamp),
}

impl WindowBound {
    const fn first(self) -> Timestamp {
        match self {
            Self::Day(day) => day.start(),
            Self::Instant(at) => at,
        }
    }

    const fn after(self) -> Timestamp {
        match self {
            Self::Day(day) => day.plus_days(1).start(),
            Self::Instant(at) => at,
        }
    }
}

type WindowRefusal = (FieldErrorKind, &'static str);

const NOT_A_DATE: WindowRefusal = (
    FieldErrorKind::BadFormat,
    "must be a day such as 2026-01-31 or a timestamp with a zone such as 2026-01-31T12:00:00Z",
);
const NO_SUCH_DAY: WindowRefusal =
    (FieldErrorKind::BadFormat, "is a day or a time that the calendar does not have");
const NO_ZONE: WindowRefusal = (
    FieldErrorKind::BadFormat,
    "is a timestamp without a zone: end it with Z or with an offset such as +01:00",
);
const LEAP_SECOND: WindowRefusal = (
    FieldErrorKind::BadFormat,
    "is a leap second, which no platform writes; use the second before",
);
const YEAR: WindowRefusal = (FieldErrorKind::OutOfRange, "must be in the years 1970 to 2999");

fn read(text: &str) -> Result<WindowBound, WindowRefusal> {
    let (date, time) = text.split_at_checked("YYYY-MM-DD".len()).ok_or(NOT_A_DATE)?;
    if !has_shape(date, "0000-00-00") {
        return Err(NOT_A_DATE);
    }
    let day: jiff::civil::Date = date.parse().map_err(|_| NO_SUCH_DAY)?;
    if !YEARS.contains(&i32::from(day.year())) {
        return Err(YEAR);
    }
    let bound = if time.is_empty() {
        let start = Timestamp::from_rfc3339(&format!("{date}T00:00:00Z")).ok_or(NO_SUCH_DAY)?;
        WindowBound::Day(start.day())
    } else {
        check_time(time)?;
        WindowBound::Instant(Timestamp::from_rfc3339(text).ok_or(NO_SUCH_DAY)?)
    };
    // A zone can move an instant beyond the range of years.
    let is_within = bound.first() >= UtcDay::from_number(0).start();
    if is_within { Ok(bound) } else { Err(YEAR) }
}

/// Checks the format of `THH:MM:SS`, a fraction and the zone (RFC 3339, section 5.6).
fn check_time(text: &str) -> Result<(), WindowRefusal> {
    let (clock, rest) = text.split_at_checked("T00:00:00".len()).ok_or(NOT_A_DATE)?;
    if !has_shape(clock, "T00:00:00") && !has_shape(clock, "t00:00:00") {
        return Err(NOT_A_DATE);
    }
    if clock.ends_with(":60") {
        return Err(LEAP_SECOND);
    }
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            let digits = fraction.len().saturating_sub(zone.len());
            if !(1..=9).contains(&digits) {
                return Err(NOT_A_DATE);
            }
            zone
        }
    };
    match zone {
        "" => Err(NO_ZONE),
        "Z" | "z" => Ok(()),
        offset if has_shape(offset, "+00:00") || has_shape(offset, "-00:00") => {
            let is_offset = offset.get(1..3).is_some_and(|hours| hours < "24")
                && offset.get(4..).is_some_and(|minutes| minutes < "60");
            if is_offset { Ok(()) } else { Err(NO_SUCH_DAY) }
        }
        _ => Err(NOT_A_DATE),
    }
}

/// Whether the text has digits where the shape has zeros, and the shape's characters elsewhere.
fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, expected)| match expected {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_rfc3339(text).unwrap()
    }

    fn refused(start: &str, end: &str) -> (&'static str, FieldErrorKind) {
        let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        let leak = |text: &str| given(Box::leak(text.to_owned().into_boxed_str()));
        let problem = DateWindow::parse(leak(start), leak(end)).unwrap_err();
        (problem.field, problem.kind)
    }

    #[test]
    fn a_date_as_end_is_inclusive_and_a_timestamp_is_exclusive() {
        let days = DateWindow::parse(Some("2024-02-28"), Some("2024-02-29")).unwrap();
        let instants =
            DateWindow::parse(Some("2024-02-28T00:00:00Z"), Some("2024-02-29T00:00:00+00:00"))
                .unwrap();

        assert!(days.contains(at("2024-02-28T00:00:00Z")));
        assert!(days.contains(at("2024-02-29T23:59:59.999999Z")));
        assert!(!days.contains(at("2024-03-01T00:00:00Z")));
        assert!(!days.contains(at("2024-02-27T23:59:59.999999Z")));
        assert!(instants.contains(at("2024-02-28T23:59:59.999999Z")));
        assert!(!instants.contains(at("2024-02-29T00:00:00Z")));
    }

    #[test]
    fn the_same_date_twice_is_a_window_but_the_same_instant_is_not() {
        let day = DateWindow::parse(Some("2024-05-05"), Some("2024-05-05")).unwrap();

        assert_eq!((day.first_day(), day.last_day()), (day.last_day(), day.first_day()));
        assert_eq!(day.last_day().unwrap().to_string(), "2024-05-05");
        let instant = "2024-05-05T12:00:00Z";
        assert_eq!(refused(instant, instant), ("end_date", FieldErrorKind::OutOfRange));
    }

    #[test]
    fn time_zones_are_applied() {
        let window = DateWindow::parse(Some("2024-05-05T23:30:00.5-02:00"), None).unwrap();

        assert_eq!(window.start, Some(at("2024-05-06T01:30:00.500000Z")));
        assert_eq!(DateWindow::parse(None, None), Ok(DateWindow::default()));
        assert!(DateWindow::default().contains(at("1970-01-01T00:00:00Z")));
    }

    #[test]
    fn malformed_dates_are_refused_with_their_field() {
        for (text, kind) in [
            ("2024-02-30", FieldErrorKind::BadFormat),
            ("2023-02-29", FieldErrorKind::BadFormat),
            ("2024-13-01", FieldErrorKind::BadFormat),
            ("2024-00-10", FieldErrorKind::BadFormat),
            ("9999-12-31", FieldErrorKind::OutOfRange),
            ("0001-01-01", FieldErrorKind::OutOfRange),
            ("1969-12-31", FieldErrorKind::OutOfRange),
            ("1970-01-01T00:00:00+01:00", FieldErrorKind::OutOfRange),
            ("2016-12-31T23:59:60Z", FieldErrorKind::BadFormat),
            ("2024-01-01T24:00:00Z", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00+24:00", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00+01:60", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00.25", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00 00:00", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00+0000", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00+00", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00Z", FieldErrorKind::BadFormat),
            ("2024-01-01 12:00:00Z", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00.Z", FieldErrorKind::BadFormat),
            ("2024-01-01T12:00:00.0123456789Z", FieldErrorKind::BadFormat),
            ("2024-1-1", FieldErrorKind::BadFormat),
            ("20240101", FieldErrorKind::BadFormat),
            ("2024-W05-1", FieldErrorKind::BadFormat),
            ("+2024-01-01", FieldErrorKind::BadFormat),
            (" 2024-01-01", FieldErrorKind::BadFormat),
            ("2024-01-01 ", FieldErrorKind::BadFormat),
            ("2024-01-0\u{662}", FieldErrorKind::BadFormat),
            ("today", FieldErrorKind::BadFormat),
            ("1714521600", FieldErrorKind::BadFormat),
        ] {
            assert_eq!(refused(text, ""), ("start_date", kind), "{text}");
            assert_eq!(refused("", text), ("end_date", kind), "{text}");
        }
        assert_eq!(DateWindow::parse(Some(""), None).unwrap_err().kind, FieldErrorKind::BadFormat);
    }

    #[test]
    fn an_end_before_the_start_is_refused() {
        for (start, end) in [
            ("2024-05-06", "2024-05-05"),
            ("2024-05-05T00:00:01Z", "2024-05-05T00:00:00Z"),
            ("2024-05-05T00:00:00Z", "2024-05-05T01:00:00+02:00"),
            ("2024-05-06", "2024-05-06T00:00:00Z"),
        ] {
            assert_eq!(
                refused(start, end),
                ("end_date", FieldErrorKind::OutOfRange),
                "{start} {end}"
            );
        }
    }
}
