//! The validity of a certificate (RFC 5280, 4.1.2.5), which operators need and the TLS library does
//! not report.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The time during which a certificate may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateValidity {
    /// Not before this time.
    pub begins: Timestamp,
    /// Not after this time.
    pub ends: Timestamp,
}

impl CertificateValidity {
    /// Reads it from a certificate in DER; `None` if the certificate is malformed.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = contents(certificate, SEQUENCE)?;
        let (mut rest, _) = contents(certificate, SEQUENCE)?;
        if rest.first() == Some(&VERSION) {
            rest = element(rest)?.2;
        }
        // Serial number, signature algorithm, issuer.
        for _ in 0..3 {
            rest = element(rest)?.2;
        }
        let (validity, _) = contents(rest, SEQUENCE)?;
        let (first_tag, begins, second) = element(validity)?;
        let (second_tag, ends, _) = element(second)?;
        Some(Self { begins: time(first_tag, begins)?, ends: time(second_tag, ends)? })
    }

    /// Whether the certificate may be used at this time.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.begins <= now && now <= self.ends
    }
}

/// The contents of the first element, which must have this tag, and the bytes after it.
fn contents(input: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, contents, rest) = element(input)?;
    (tag == wanted).then_some((contents, rest))
}

/// The first element: its tag, its contents, and the bytes after it.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = input.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        // The number of bytes of the length field.
        let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.is_empty() || bytes.len() > 4 {
            return None;
        }
        length = bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
        rest = behind;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn time(tag: u8, contents: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(contents).ok()?.strip_suffix('Z')?;
    let text = match tag {
        UTC_TIME if text.len() == 12 => {
            let century = if text.get(..2)? < "50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME if text.len() == 14 => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let written: DateTime =
        format!("{year}-{month}-{day}T{hour}:{minute}:{second}").parse().ok()?;
    // The last second of the year 9999, which says that there is no end, is beyond the last time.
    Some(Offset::UTC.to_timestamp(written).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(begins: (i32, u8, u8), ends: (i32, u8, u8)) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(begins.0, begins.1, begins.2);
        parameters.not_after = rcgen::date_time_ymd(ends.0, ends.1, ends.2);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn both_ends_are_read_in_both_formats() {
        // From 2050 on, the other format is required.
        let short = CertificateValidity::of(&made((1999, 12, 31), (2049, 12, 31))).unwrap();
        let long = CertificateValidity::of(&made((2026, 2, 3), (2050, 1, 1))).unwrap();

        assert_eq!(short.begins, at("1999-12-31T00:00:00Z"));
        assert_eq!(short.ends, at("2049-12-31T00:00:00Z"));
        assert_eq!(long.begins, at("2026-02-03T00:00:00Z"));
        assert_eq!(long.ends, at("2050-01-01T00:00:00Z"));
        assert!(long.holds_at(at("2026-02-03T00:00:00Z")));
        assert!(!long.holds_at(at("2026-02-02T23:59:59Z")));
        assert!(!long.holds_at(at("2050-01-01T00:00:01Z")));
    }

    #[test]
    fn truncated_or_changed_certificates_do_not_panic() {
        let whole = made((2026, 1, 1), (2027, 1, 1));
        for length in 0..whole.len() {
            assert_eq!(CertificateValidity::of(&whole[..length]), None, "{length} bytes");
        }
        for place in 0..whole.len() {
            for byte in [0x00, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                let _read = CertificateValidity::of(&changed);
            }
        }
    }

    /// RFC 5280, 4.1.2.5: so a certificate is written that has no end.
    #[test]
    fn a_certificate_without_an_end_is_valid_for_as_long_as_times_go() {
        assert_eq!(time(GENERALIZED_TIME, b"99991231235959Z"), Some(Timestamp::MAX));
        let endless = CertificateValidity::of(&made((2026, 1, 1), (9999, 12, 31))).unwrap();

        assert_eq!(endless.begins, at("2026-01-01T00:00:00Z"));
        assert!(endless.holds_at(at("9999-12-30T00:00:00Z")));
    }

    #[test]
    fn two_digits_of_a_year_are_of_the_years_1950_to_2049() {
        for (contents, expected) in [
            ("500101000000Z", "1950-01-01T00:00:00Z"),
            ("991231235959Z", "1999-12-31T23:59:59Z"),
            ("000101000000Z", "2000-01-01T00:00:00Z"),
            ("491231235959Z", "2049-12-31T23:59:59Z"),
        ] {
            assert_eq!(time(UTC_TIME, contents.as_bytes()), Some(at(expected)), "{contents}");
        }
    }

    #[test]
    fn times_that_the_standard_does_not_allow_are_not_read() {
        for (tag, contents) in [
            (UTC_TIME, "2601010000Z"),
            (UTC_TIME, "260101000000"),
            (UTC_TIME, "260101000000+0100"),
            (UTC_TIME, "20260101000000Z"),
            (UTC_TIME, "261301000000Z"),
            (UTC_TIME, "260230000000Z"),
            (UTC_TIME, "260101240000Z"),
            (UTC_TIME, "26010100000éZ"),
            (GENERALIZED_TIME, "260101000000Z"),
            (GENERALIZED_TIME, "20260101000000.5Z"),
            (GENERALIZED_TIME, "-1260101000000Z"),
            (GENERALIZED_TIME, "+0260101000000Z"),
            (SEQUENCE, "20260101000000Z"),
            (UTC_TIME, ""),
            (UTC_TIME, "Z"),
        ] {
            assert_eq!(time(tag, contents.as_bytes()), None, "{contents}");
        }
        assert_eq!(time(UTC_TIME, &[0xff; 13]), None);
    }

    #[test]
    fn a_length_may_be_written_in_up_to_four_bytes_and_never_beyond_the_input() {
        let long = [&[UTC_TIME, 0x84, 0, 0, 0, 2], &b"ab"[..], &b"rest"[..]].concat();
        assert_eq!(element(&long), Some((UTC_TIME, &b"ab"[..], &b"rest"[..])));
        for bytes in [
            &[][..],
            &[UTC_TIME],
            &[UTC_TIME, 0x80],
            &[UTC_TIME, 0x85, 0, 0, 0, 0, 0],
            &[UTC_TIME, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[UTC_TIME, 0xff],
            &[UTC_TIME, 3, 1, 2],
        ] {
            assert_eq!(element(bytes), None, "{bytes:?}");
        }
        assert_eq!(contents(&[UTC_TIME, 0], SEQUENCE), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes: Vec<u8>, nested in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let length = u8::try_from(nested.len()).unwrap();
            let inner = [&[SEQUENCE, length], &nested[..]].concat();
            let outer = [&[SEQUENCE, length + 2], &inner[..]].concat();
            let _read = (CertificateValidity::of(&bytes), CertificateValidity::of(&outer));
        }
    }
}
