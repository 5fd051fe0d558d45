//! Times in the formats of the platforms.

use jiff::Timestamp;

/// RFC 3339 in UTC with milliseconds, such as `2026-01-01T00:00:00.000Z`.
pub(crate) fn rfc3339(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// RFC 3339 with whole seconds and a numeric zone, such as `2026-01-01T00:00:00+00:00`.
pub(crate) fn rfc3339_offset(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

/// The UTC day, such as `2026-01-01`.
pub(crate) fn day(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%d").to_string()
}

/// Milliseconds of the start of a UTC day `YYYY-MM-DD`, or of an RFC 3339 time.
pub(crate) fn parse_ms(text: &str) -> Option<i64> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_millisecond());
    }
    let day = text.parse::<jiff::civil::Date>().ok()?;
    format!("{day}T00:00:00Z").parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::EPOCH_MS;

    #[test]
    fn times_are_formatted_and_parsed_in_utc() {
        assert_eq!(rfc3339(EPOCH_MS), "2026-01-01T00:00:00.000Z");
        assert_eq!(rfc3339_offset(EPOCH_MS + 61_000), "2026-01-01T00:01:01+00:00");
        assert_eq!(day(EPOCH_MS - 1), "2025-12-31");
        assert_eq!(parse_ms("2026-01-01"), Some(EPOCH_MS));
        assert_eq!(parse_ms("2026-01-01T00:00:00.000Z"), Some(EPOCH_MS));
        assert_eq!(parse_ms("soon"), None);
    }
}
