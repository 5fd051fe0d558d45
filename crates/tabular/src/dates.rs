//! Converts times in texts to the numbers that workbooks use for dates.
//!
//! A time is a text that is exactly an RFC 3339 date-time with its zone, from 1900-03-01 to the end
//! of 9999 in UTC. A date alone, a time without a zone, a leap second and a text with anything
//! around it stay texts. So does a time with more than six fractional digits, which the number
//! could not hold.

/// The first day that all spreadsheets number alike, 1900-03-01: its number, and its distance from
/// 1970 in days.
const FIRST_SERIAL: i64 = 61;
const DAYS_BEFORE_1970: i64 = 25_508;
/// The number of 9999-12-31, the last day that spreadsheets support.
const LAST_SERIAL: i64 = 2_958_465;
const DAY_MICROS: i64 = 86_400_000_000;
const FRACTION_DIGITS_MAX: usize = 6;

/// The number of a time in a workbook: days since the end of 1899, in UTC; `None` for any other
/// text. It is exact to the microsecond until 2079, and to four microseconds after that.
#[expect(
    clippy::cast_precision_loss,
    reason = "days and the microseconds of a day have less than 53 bits"
)]
pub(crate) fn serial(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    // A cheap test that rules out most texts.
    if bytes.len() < 20 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let days = days_since_1970(bytes)?;
    let (micros, zone) = time_of_day(bytes.get(11..)?)?;
    let micros = micros - offset_minutes(zone)? * 60_000_000;
    let day = days + DAYS_BEFORE_1970 + FIRST_SERIAL + micros.div_euclid(DAY_MICROS);
    if !(FIRST_SERIAL..=LAST_SERIAL).contains(&day) {
        return None;
    }
    Some(day as f64 + micros.rem_euclid(DAY_MICROS) as f64 / DAY_MICROS as f64)
}

/// The day in the prefix `YYYY-MM-DDT`.
fn days_since_1970(text: &[u8]) -> Option<i64> {
    let year = number(text.get(..4)?)?;
    let (month, day) = (number(text.get(5..7)?)?, number(text.get(8..10)?)?);
    if !matches!(text.get(10), Some(b'T' | b't')) || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 if is_leap_year => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    // Years start in March, so that a leap day is the last day of its year.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days =
        shifted_year.div_euclid(4) - shifted_year.div_euclid(100) + shifted_year.div_euclid(400);
    Some(shifted_year * 365 + leap_days + day_of_year - 719_468)
}

/// The microseconds of `HH:MM:SS` with an optional fraction, and the rest of the text.
fn time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let ([b':'], [b':']) = (text.get(2..3)?, text.get(5..6)?) else { return None };
    let (hours, minutes) = (number(text.get(..2)?)?, number(text.get(3..5)?)?);
    let seconds = number(text.get(6..8)?)?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000;
    let rest = text.get(8..)?;
    let Some(behind) = rest.strip_prefix(b".") else { return Some((micros, rest)) };
    let length = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = behind.split_at_checked(length)?;
    if !(1..=FRACTION_DIGITS_MAX).contains(&length) {
        return None;
    }
    let scale = (length..FRACTION_DIGITS_MAX).fold(1, |scale, _| scale * 10);
    Some((micros + number(digits)? * scale, zone))
}

/// A zone's offset from UTC in minutes: `Z`, `+HH:MM` or `-HH:MM`.
fn offset_minutes(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match zone {
        [b'Z' | b'z'] => return Some(0),
        [b'+', rest @ ..] if rest.len() == 5 => (1, rest.get(..2)?, rest.get(3..)?),
        [b'-', rest @ ..] if rest.len() == 5 => (-1, rest.get(..2)?, rest.get(3..)?),
        _ => return None,
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let is_good = zone.get(3) == Some(&b':') && hours <= 23 && minutes <= 59;
    is_good.then_some(sign * (hours * 60 + minutes))
}

/// Digits, and nothing else.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_become_the_serial_numbers_of_spreadsheets() {
        for (text, wanted) in [
            ("1900-03-01T00:00:00Z", 61.0),
            ("1970-01-01T00:00:00Z", 25_569.0),
            ("2000-02-29T12:00:00Z", 36_585.5),
            ("2026-01-01T06:00:00z", 46_023.25),
            ("2026-01-01t06:00:00.000Z", 46_023.25),
            ("2026-01-01T00:30:00+06:30", 46_022.75),
            ("2026-12-31T18:00:00-06:00", 46_388.0),
            ("2026-01-01T00:00:00-00:00", 46_023.0),
            ("2026-01-01T00:00:00.5Z", 46_023.0 + 0.5 / 86_400.0),
            ("2026-01-01T23:59:59.999999Z", 46_024.0 - 0.000_001 / 86_400.0),
            ("9999-12-31T12:00:00Z", 2_958_465.5),
        ] {
            assert_eq!(serial(text), Some(wanted), "{text}");
        }
    }

    #[test]
    fn anything_but_an_exact_time_stays_a_text() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            " 2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z ",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1234567Z",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00+01",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+01:60",
            "2026-01-01T00:00:00+01-00",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:0٣Z",
            "1900-02-28T23:59:59Z",
            "1900-03-01T00:59:59+01:00",
            "9999-12-31T23:59:59-00:01",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(serial(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_microsecond_of_these_decades_survives_a_round_trip(
            (day, micros) in (36_526..65_536_i64, 0..DAY_MICROS), offset in -1_439..1_440_i64
        ) {
            let local = day * DAY_MICROS + micros + offset * 60_000_000;
            let (local_day, time) = (local.div_euclid(DAY_MICROS), local.rem_euclid(DAY_MICROS));
            // The day is counted, independently of the arithmetic under test.
            let (mut year, mut left) = (2000, local_day - 36_526);
            if left < 0 {
                (year, left) = (1999, left + 365);
            }
            let length = |of: i64| if of % 4 == 0 { 366 } else { 365 };
            while left >= length(year) {
                left -= length(year);
                year += 1;
            }
            let february = length(year) - 337;
            let mut month = 1;
            for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
                if left < days {
                    break;
                }
                left -= days;
                month += 1;
            }
            let seconds = time / 1_000_000;
            let sign = if offset < 0 { '-' } else { '+' };
            let text = format!(
                "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}.{:06}{sign}{:02}:{:02}",
                left + 1, seconds / 3_600, seconds / 60 % 60, seconds % 60, time % 1_000_000,
                offset.abs() / 60, offset.abs() % 60,
            );

            let found = serial(&text).expect("a time");

            let whole = found.floor();
            let time_found = format!("{:.0}", (found - whole) * 86_400e6);
            prop_assert_eq!(
                (whole.to_string(), time_found), (day.to_string(), micros.to_string()), "{}", text
            );
        }

        #[test]
        fn no_text_causes_a_panic(text in "\\PC{0,30}|2026-[0-9]{2}-.{3}T.{8,12}|[0-9TZ:.+\\-]{15,35}") {
            let _any = serial(&text);
        }
    }
}
