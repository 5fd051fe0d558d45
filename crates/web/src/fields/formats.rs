//! The `format` words of the contract, which say how texts and numbers are written, each with its
//! check and its description.

use domain::account::{CREATOR_ID_BYTES_MAX, CreatorId, InvalidCreatorId};
use domain::breakdown::BreakdownCursor;
use domain::customer::Email;
use domain::field_error::FieldErrorKind;
use domain::id::{AuditId, CustomerId, ExportId, KeyId, OrderId};
use domain::ledger::LedgerLine;
use domain::platform::Platform;
use domain::time::{Timestamp, UtcDay};
use domain::window::DateWindow;

/// A format of a value.
#[derive(Debug)]
pub(crate) struct ValueFormat {
    /// The word in the contract.
    pub(super) name: &'static str,
    /// What to send, for people; it follows "must be".
    words: &'static str,
    /// The kind of problem with a value in another form.
    pub(super) problem: fn(&str) -> Option<FieldErrorKind>,
}

impl ValueFormat {
    /// Whether values beside those that the contract lists are accepted.
    pub(super) fn has_aliases(&self) -> bool {
        self.name == PLATFORM
    }

    /// What to send, for people; it follows "must be".
    pub(super) fn words(&self) -> &'static str {
        if self.name == PLATFORM { Platform::expected() } else { self.words }
    }
}

/// The format of this name. Other formats, such as `password`, are documentation only.
pub(super) fn find(name: &str) -> Option<&'static ValueFormat> {
    ALL.iter().find(|format| format.name == name)
}

/// Describes the ids of one kind, for people.
macro_rules! id {
    ($of:literal, $prefix:literal) => {
        concat!("the id of ", $of, ": ", $prefix, " and 32 lower-case hexadecimal digits")
    };
}

const PLATFORM: &str = "platform";

const ALL: &[ValueFormat] = &[
    parsed::<Email>(
        "email",
        "an email address such as ada@example.com, at most 254 ASCII characters",
    ),
    ValueFormat {
        name: "date-time",
        words: "a time with a zone, such as 2027-01-31T00:00:00Z",
        problem: |text| bad(Timestamp::from_rfc3339(text).is_some()),
    },
    ValueFormat {
        name: "date-or-date-time",
        words: "a day such as 2026-01-31 or a time with a zone such as 2026-01-31T12:00:00Z, in the years 1970 to 2999",
        problem: |text| DateWindow::parse(Some(text), None).err().map(|problem| problem.kind),
    },
    ValueFormat {
        name: "creator-id",
        words: "a name of letters, digits, `_`, `.` or `-` that is not a word in this service's own paths,",
        problem: problem_of_creator_id,
    },
    ValueFormat {
        name: "line",
        words: "one line of text without control characters, also those of the direction of text,",
        problem: |text| bad(!text.chars().any(misleads)),
    },
    parsed::<KeyId>("key-id", id!("a key", "`key_`")),
    parsed::<OrderId>("order-id", id!("an order", "`ord_`")),
    parsed::<AuditId>("audit-id", id!("an audit entry", "`aud_` (or `ent_`)")),
    parsed::<ExportId>("export-id", id!("an export", "`exp_`")),
    parsed::<CustomerId>("customer-id", id!("a customer", "`cus_`")),
    parsed::<UtcDay>("utc-day", "a day such as 2026-01-31, in the years 1970 to 2999"),
    parsed::<BreakdownCursor>("breakdown-cursor", "the `next_before` of a page of a breakdown"),
    parsed::<LedgerLine>("ledger-line", "the `next_before` of a page of the ledger"),
    ValueFormat {
        name: PLATFORM,
        // The names are configuration.
        words: "",
        problem: |text| text.parse::<Platform>().err().map(|_| FieldErrorKind::NotAllowed),
    },
    ValueFormat {
        name: "usd",
        words: "an amount from 0.5 to 999999.99 with at most two decimals",
        problem: |digits| bad(decimals(digits) <= 2),
    },
    ValueFormat {
        name: "epoch-seconds",
        words: "seconds since 1970 such as 1790000000.123456, with at most six decimals",
        problem: |digits| bad(decimals(digits) <= 6),
    },
];

/// Whether a character makes a line look like another one: control characters, those that turn the
/// direction of what follows, and spaces without width. The joiners stay, because some scripts and
/// emoji need them.
fn misleads(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// A format that is checked by parsing it into one of our types.
const fn parsed<T: std::str::FromStr>(name: &'static str, words: &'static str) -> ValueFormat {
    ValueFormat { name, words, problem: bad_unless::<T> }
}

const fn bad(is_good: bool) -> Option<FieldErrorKind> {
    if is_good { None } else { Some(FieldErrorKind::BadFormat) }
}

fn bad_unless<T: std::str::FromStr>(text: &str) -> Option<FieldErrorKind> {
    bad(text.parse::<T>().is_ok())
}

fn problem_of_creator_id(text: &str) -> Option<FieldErrorKind> {
    let is_long = text.len() > CREATOR_ID_BYTES_MAX;
    text.parse::<CreatorId>().err().map(|problem| match problem {
        InvalidCreatorId::Length if is_long => FieldErrorKind::TooLong,
        InvalidCreatorId::Length => FieldErrorKind::TooShort,
        InvalidCreatorId::Character => FieldErrorKind::BadFormat,
        InvalidCreatorId::Reserved => FieldErrorKind::NotAllowed,
    })
}

/// The number of digits after the decimal point; `usize::MAX` if the number has an exponent.
fn decimals(digits: &str) -> usize {
    if digits.contains(['e', 'E']) {
        return usize::MAX;
    }
    digits.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(format: &str, text: &str) -> Option<FieldErrorKind> {
        find(format).and_then(|format| (format.problem)(text))
    }

    #[test]
    fn an_unusable_creator_id_has_a_kind_of_problem() {
        assert_eq!(problem("creator-id", "demo_alpha"), None);
        assert_eq!(problem("creator-id", ""), Some(FieldErrorKind::TooShort));
        assert_eq!(problem("creator-id", &"k".repeat(65)), Some(FieldErrorKind::TooLong));
        assert_eq!(problem("creator-id", "a/b"), Some(FieldErrorKind::BadFormat));
        assert_eq!(problem("creator-id", "billing"), Some(FieldErrorKind::NotAllowed));
    }

    #[test]
    fn a_line_cannot_look_like_another_one() {
        for line in ["Ada & Söhne", "\u{5d0}\u{5d1}\u{5d2}", "👩\u{200d}🚀", "می\u{200c}خواهم"]
        {
            assert_eq!(problem("line", line), None, "{line:?}");
        }
        for line in ["a\nb", "a\u{202e}b", "a\u{2066}b", "A\u{200b}da", "\u{feff}Ada", "a\u{200f}"]
        {
            assert_eq!(problem("line", line), Some(FieldErrorKind::BadFormat), "{line:?}");
        }
    }

    #[test]
    fn decimals_are_counted_as_written() {
        assert_eq!(problem("usd", "19.99"), None);
        assert_eq!(problem("usd", "19.999"), Some(FieldErrorKind::BadFormat));
        assert_eq!(problem("usd", "1e-7"), Some(FieldErrorKind::BadFormat));
        assert_eq!(problem("epoch-seconds", "1790000000.123456"), None);
        assert_eq!(problem("epoch-seconds", "1790000000.1234567"), Some(FieldErrorKind::BadFormat));
    }

    #[test]
    fn documentation_only_formats_are_not_checked() {
        assert!(find("password").is_none());
    }
}
