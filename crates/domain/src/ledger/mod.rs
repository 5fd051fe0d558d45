//! Positions in a customer's ledger: its entries, and between them the lines that sum up charges.

mod lines;

pub use lines::{BookedEntry, DayUsage, TimedLine, lines};

use crate::id::EntryId;
use crate::time::{Timestamp, UtcDay};

/// Every kind of line in the ledger.
pub const KINDS: [&str; 9] =
    ["trial", "pack", "plan", "usage", "export", "refund", "dispute", "expiry", "adjustment"];

/// What charges are summed up for. Between two entries, usage is listed above exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SumKind {
    /// Charged exports that were created on the day.
    Export,
    /// Charged calls that began on the day.
    Usage,
}

impl SumKind {
    /// Its name in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Export => "export",
            Self::Usage => "usage",
        }
    }
}

/// A line of the ledger, used as the cursor of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerLine {
    /// An entry.
    Entry(EntryId),
    /// The sum of the charges of a day.
    Sum(SumKind, UtcDay),
    /// The sum of the charges of a day after this entry and before the next one.
    SumAfter(SumKind, UtcDay, EntryId),
}

/// A text that names no line of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be the `next_before` of a page of the ledger")]
pub struct MalformedLine;

impl std::fmt::Display for LedgerLine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entry(id) => id.fmt(formatter),
            Self::Sum(kind, day) => write!(formatter, "{}_{day}", kind.as_str()),
            Self::SumAfter(kind, day, entry) => {
                write!(formatter, "{}_{day}_{entry}", kind.as_str())
            }
        }
    }
}

impl std::str::FromStr for LedgerLine {
    type Err = MalformedLine;

    fn from_str(text: &str) -> Result<Self, MalformedLine> {
        for kind in [SumKind::Usage, SumKind::Export] {
            let rest = text.strip_prefix(kind.as_str()).and_then(|rest| rest.strip_prefix('_'));
            let Some(rest) = rest else { continue };
            let (date, entry) = match rest.split_once('_') {
                Some((date, entry)) => (date, Some(entry)),
                None => (rest, None),
            };
            let day = read_day(date).ok_or(MalformedLine)?;
            let Some(entry) = entry else { return Ok(Self::Sum(kind, day)) };
            let entry = entry.parse().map_err(|_| MalformedLine)?;
            return Ok(Self::SumAfter(kind, day, entry));
        }
        text.parse().map(Self::Entry).map_err(|_| MalformedLine)
    }
}

impl<'de> serde::Deserialize<'de> for LedgerLine {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for LedgerLine {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads `YYYY-MM-DD` and accepts no other spelling.
fn read_day(text: &str) -> Option<UtcDay> {
    let day = Timestamp::from_rfc3339(&format!("{text}T00:00:00Z"))?.day();
    (day.to_string() == text).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_survives_a_round_trip_as_text() {
        for text in [
            "ent_01890000000070008000000000000000",
            "usage_2026-11-21",
            "export_2024-02-29",
            "usage_2026-11-21_ent_01890000000070008000000000000000",
        ] {
            let line: LedgerLine = text.parse().unwrap();
            assert_eq!(line.to_string(), text);
        }
    }

    #[test]
    fn texts_that_name_no_line_are_refused() {
        for text in [
            "",
            "ent_1",
            "usage",
            "usage_",
            "usage_2026-13-01",
            "usage_2026-2-1",
            "usage_2023-02-29",
            "pack_2026-11-21",
            "usage_2026-11-21_",
            "usage_2026-11-21_ord_01890000000070008000000000000000",
            "export_2026-11-21T00:00:00Z",
        ] {
            assert_eq!(text.parse::<LedgerLine>(), Err(MalformedLine), "{text}");
        }
    }
}
