//! Points in time and UTC days, as whole numbers.

/// A point in time: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// A UTC day: days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UtcDay(i64);

/// Microseconds in a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds in a millisecond.
pub const MICROS_PER_MILLI: i64 = 1_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn unix_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch; earlier times count as the epoch.
    pub fn unix_millis(self) -> u64 {
        u64::try_from(self.0 / MICROS_PER_MILLI).unwrap_or(0)
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND)
    }

    /// This time plus `micros` microseconds, at most the last representable time.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// This time plus `seconds` seconds (which may be negative), at most the last representable
    /// time.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        self.plus_micros(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// Microseconds from `earlier` to this time.
    pub const fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The UTC day that contains it.
    pub const fn day(self) -> UtcDay {
        UtcDay(self.0.div_euclid(MICROS_PER_DAY))
    }

    /// RFC 3339 in UTC with microseconds, such as `2026-11-21T04:13:42.000000Z`.
    pub fn to_rfc3339(self) -> String {
        let time = jiff::Timestamp::from_microsecond(self.0).unwrap_or(if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        format!("{time:.6}")
    }

    /// Reads an RFC 3339 time with a zone that is less than a day from UTC.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let after_date = text.get("2026-11-21".len()..).unwrap_or_default();
        let (_, zone) = after_date.rsplit_once(['+', '-']).unwrap_or_default();
        if zone.get(..2).is_some_and(|hours| hours > "23") {
            return None;
        }
        text.parse::<jiff::Timestamp>().ok().map(|time| Self(time.as_microsecond()))
    }

    /// Reads an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7), but
    /// not its two obsolete forms.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let is_gmt = text.ends_with(" GMT");
        let time = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text);
        time.ok().filter(|_| is_gmt).map(|time| Self(time.as_microsecond()))
    }
}

impl UtcDay {
    /// From days since 1970-01-01.
    pub const fn from_number(days: i64) -> Self {
        Self(days)
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Its first instant.
    pub const fn start(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(MICROS_PER_DAY))
    }

    /// Its last microsecond.
    pub const fn last_instant(self) -> Timestamp {
        Timestamp(self.plus_days(1).start().0.saturating_sub(1))
    }

    /// The first day of its UTC month.
    #[must_use]
    pub fn month_start(self) -> Self {
        self.plus_days(1_i64.saturating_sub(i64::from(self.civil().day())))
    }

    /// The first day of the UTC month after its own.
    #[must_use]
    pub fn next_month_start(self) -> Self {
        self.month_start().plus_days(i64::from(self.civil().days_in_month()))
    }

    /// Its year and its month, 1 to 12.
    pub fn year_and_month(self) -> (i64, i64) {
        let day = self.civil();
        (i64::from(day.year()), i64::from(day.month()))
    }

    /// The calendar day; days beyond the range count as the last representable one.
    fn civil(self) -> jiff::civil::Date {
        let start = jiff::Timestamp::from_microsecond(self.start().0).unwrap_or(if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        jiff::tz::Offset::UTC.to_datetime(start).date()
    }

    /// This day plus `days` days (which may be negative).
    #[must_use]
    pub const fn plus_days(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.to_rfc3339())
    }
}

/// A text that is not a day such as 2026-01-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a day such as 2026-01-31")]
pub struct MalformedDay;

impl std::str::FromStr for UtcDay {
    type Err = MalformedDay;

    /// Reads a day of the years 1970 to 2999.
    fn from_str(text: &str) -> Result<Self, MalformedDay> {
        let is_written_as_day =
            text.len() == 10 && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
        let start = Timestamp::from_rfc3339(&format!("{text}T00:00:00Z"));
        let day = start.filter(|_| is_written_as_day).map(Timestamp::day).ok_or(MalformedDay)?;
        let is_in_range = ("1970-01-01"..="2999-12-31").contains(&text);
        if is_in_range { Ok(day) } else { Err(MalformedDay) }
    }
}

impl<'de> serde::Deserialize<'de> for UtcDay {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl std::fmt::Display for UtcDay {
    /// `YYYY-MM-DD`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.start().to_rfc3339();
        formatter.write_str(text.split_once('T').map_or(text.as_str(), |(date, _)| date))
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Self::from_rfc3339(&text).ok_or_else(|| serde::de::Error::custom("not a time of RFC 3339"))
    }
}

impl serde::Serialize for UtcDay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_a_round_trip_as_rfc3339() {
        let time = Timestamp::from_unix_micros(1_795_234_422_000_001);

        assert_eq!(time.to_rfc3339(), "2026-11-21T04:13:42.000001Z");
        assert_eq!(Timestamp::from_rfc3339("2026-11-21T05:13:42.000001+01:00"), Some(time));
        assert_eq!(Timestamp::from_rfc3339("2026-11-21T05:13:42"), None);
        assert!(Timestamp::from_rfc3339("2026-11-21T05:13:42-23:59").is_some());
        for zone in ["+24:00", "-24:00", "+25:00", "+25:59"] {
            assert_eq!(Timestamp::from_rfc3339(&format!("2026-11-21T05:13:42{zone}")), None);
        }
    }

    #[test]
    fn http_dates_are_parsed() {
        let noon = Timestamp::from_rfc3339("2026-11-21T12:00:30Z");

        assert_eq!(Timestamp::from_http_date("Sat, 21 Nov 2026 12:00:30 GMT"), noon);
        for text in ["", "30", "Sat, 21 Nov 2026 12:00:30", "Sat, 41 Nov 2026 12:00:30 GMT", "GMT"]
        {
            assert_eq!(Timestamp::from_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn a_month_ends_where_the_next_one_starts() {
        let cases = [
            ("2026-11-21", "2026-11-01", "2026-12-01"),
            ("2026-12-31", "2026-12-01", "2027-01-01"),
            ("2028-02-29", "2028-02-01", "2028-03-01"),
            ("2027-02-01", "2027-02-01", "2027-03-01"),
            ("1970-01-01", "1970-01-01", "1970-02-01"),
        ];
        for (day, start, next) in cases {
            let day = Timestamp::from_rfc3339(&format!("{day}T12:00:00Z")).unwrap().day();
            assert_eq!(day.month_start().to_string(), start);
            assert_eq!(day.next_month_start().to_string(), next);
        }
    }

    #[test]
    fn days_survive_a_round_trip_as_text() {
        for text in ["1970-01-01", "2026-02-28", "2028-02-29", "2999-12-31"] {
            assert_eq!(text.parse::<UtcDay>().unwrap().to_string(), text);
        }
        for text in
            ["", "2026-02-30", "2026-2-1", "2026-02-01T00:00:00Z", "1969-12-31", "3000-01-01"]
        {
            assert_eq!(text.parse::<UtcDay>(), Err(MalformedDay), "{text:?}");
        }
    }

    #[test]
    fn a_day_starts_at_midnight_utc() {
        let midnight = Timestamp::from_rfc3339("2026-11-21T00:00:00Z").unwrap();

        assert_eq!(midnight.day().to_string(), "2026-11-21");
        assert_eq!(midnight.plus_micros(-1).day().to_string(), "2026-11-20");
        assert_eq!(midnight.day().start(), midnight);
        assert_eq!(Timestamp::from_unix_micros(-1).day(), UtcDay::from_number(-1));
    }
}
