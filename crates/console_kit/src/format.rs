//! How pages write numbers, money and times.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// With commas between thousands, and a minus sign: `−1,234`.
pub fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("−{text}") } else { text }
}

/// `1 credit`, `2 credits`.
pub fn credits(value: i64) -> String {
    counted(value, "credit")
}

/// Money, from cents: `$1,234.50`, `−$2.00`.
pub fn dollars(cents: i64) -> String {
    let (whole, rest) = (cents.unsigned_abs() / 100, cents.unsigned_abs() % 100);
    let sign = if cents < 0 { "−" } else { "" };
    format!("{sign}${}.{rest:02}", number(i64::try_from(whole).unwrap_or(i64::MAX)))
}

/// A number with its word, in the plural where it is not one.
pub fn counted(value: i64, word: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {word}{plural}", number(value))
}

/// What a call cost: `Free`, `1 credit`.
pub fn cost(value: i64) -> String {
    if value == 0 { "Free".to_owned() } else { credits(value) }
}

/// A moment in UTC as people read it: `22 Nov 2026, 11:27:49`. Empty if it cannot be read.
pub fn moment(rfc3339: &str) -> String {
    in_utc(rfc3339, "%-d %b %Y, %H:%M:%S")
}

/// A moment without its seconds: `22 Nov 2026, 11:27`.
pub fn minute(rfc3339: &str) -> String {
    in_utc(rfc3339, "%-d %b %Y, %H:%M")
}

/// A moment of the last months, without its year: `22 Nov, 11:27:49`.
pub fn short_moment(rfc3339: &str) -> String {
    in_utc(rfc3339, "%-d %b, %H:%M:%S")
}

/// The same without its seconds: `22 Nov, 11:27`.
pub fn short_minute(rfc3339: &str) -> String {
    in_utc(rfc3339, "%-d %b, %H:%M")
}

/// The day alone: `22 Nov 2026`.
pub fn day(rfc3339: &str) -> String {
    in_utc(rfc3339, "%-d %b %Y")
}

/// The time alone: `11:27:49`.
pub fn time(rfc3339: &str) -> String {
    in_utc(rfc3339, "%H:%M:%S")
}

/// A date such as `2026-11-22`, written `22 Nov`.
pub fn short_day(date: &str) -> String {
    let parsed: Result<jiff::civil::Date, _> = date.parse();
    parsed.map_or_else(|_| date.to_owned(), |day| day.strftime("%-d %b").to_string())
}

fn in_utc(rfc3339: &str, form: &str) -> String {
    let parsed: Result<Timestamp, _> = rfc3339.parse();
    parsed.map(|at| at.to_zoned(TimeZone::UTC).strftime(form).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_a_minus_sign() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (63_350, "63,350"),
            (1_234_567, "1,234,567"),
            (-1_234, "−1,234"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn money_has_two_places_and_its_sign_in_front() {
        for (cents, text) in [(0, "$0.00"), (5, "$0.05"), (123_450, "$1,234.50"), (-200, "−$2.00")]
        {
            assert_eq!(dollars(cents), text);
        }
    }

    #[test]
    fn words_follow_their_numbers() {
        assert_eq!((credits(1), credits(2)), ("1 credit".to_owned(), "2 credits".to_owned()));
        assert_eq!((cost(0), cost(10)), ("Free".to_owned(), "10 credits".to_owned()));
    }

    #[test]
    fn times_are_written_in_utc() {
        let at = "2026-11-22T11:27:49.216Z";

        assert_eq!(moment(at), "22 Nov 2026, 11:27:49");
        assert_eq!((day(at), time(at)), ("22 Nov 2026".to_owned(), "11:27:49".to_owned()));
        assert_eq!(short_day("2026-11-02"), "2 Nov");
        assert_eq!(minute(at), "22 Nov 2026, 11:27");
        assert_eq!(short_moment(at), "22 Nov, 11:27:49");
        assert_eq!(short_minute(at), "22 Nov, 11:27");
        assert_eq!(moment("yesterday"), "");
    }
}
