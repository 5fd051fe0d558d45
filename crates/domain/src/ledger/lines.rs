//! The lines of a ledger in the order in which they happened: charges appear between the entries
//! before and after them, and each line has the balance after it.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "sums of credits that were granted: far from the limits"
)]

use super::{LedgerLine, SumKind};
use crate::id::EntryId;
use crate::time::{Timestamp, UtcDay};

/// A ledger entry, as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedEntry {
    /// Its id.
    pub id: EntryId,
    /// When it was written.
    pub at: Timestamp,
    /// Credits that came in (positive) or went out (negative).
    pub amount: i64,
    /// What was available after it.
    pub balance_after: i64,
    /// What was owed after it.
    pub debt_after: i64,
}

/// The charges of one UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayUsage {
    /// The day.
    pub day: UtcDay,
    /// Charges of exports that were created on the day.
    pub exports: i64,
    /// Charges of calls and exports.
    pub all: i64,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedLine {
    /// What the line is about.
    pub line: LedgerLine,
    /// When it happened; for a sum, when the time that it covers ended.
    pub at: Timestamp,
    /// Credits that came in (positive) or went out (negative).
    pub amount: i64,
    /// What was available after it.
    pub balance_after: i64,
    /// What was owed after it.
    pub debt_after: i64,
}

/// Returns the lines of a ledger, oldest first. `entries` and `days` are passed oldest first;
/// `net_now` is what is available now, less the debt. The charges between two entries are the
/// difference of their balances, divided among the days by what each day charged; the last day gets
/// the remainder.
pub fn lines(
    entries: &[BookedEntry],
    days: &[DayUsage],
    net_now: i64,
    now: Timestamp,
) -> Vec<TimedLine> {
    let mut lines = LedgerLines { days, all: Vec::new(), net: 0, used: 0, last: None };
    for entry in entries {
        let net_after = entry.balance_after - entry.debt_after;
        lines.charge(lines.net - (net_after - entry.amount), entry.at);
        lines.net = net_after;
        lines.last = Some((entry.id, entry.at));
        let line = LedgerLine::Entry(entry.id);
        lines.push(line, entry.at, entry.amount);
    }
    lines.charge(lines.net - net_now, now);
    lines.all
}

struct LedgerLines<'a> {
    days: &'a [DayUsage],
    all: Vec<TimedLine>,
    /// What is available less the debt.
    net: i64,
    /// What was charged so far.
    used: i64,
    last: Option<(EntryId, Timestamp)>,
}

impl LedgerLines<'_> {
    /// Adds lines for what was charged until `until`, day by day.
    fn charge(&mut self, amount: i64, until: Timestamp) {
        let mut rest = amount;
        let from = self.last.map_or(i64::MIN, |(_, at)| at.day().number());
        let end = until.day();
        let between =
            self.days.iter().filter(|one| (from..end.number()).contains(&one.day.number()));
        for one in between.copied().collect::<Vec<_>>() {
            let charged: i64 = self
                .days
                .iter()
                .take_while(|other| other.day <= one.day)
                .map(|other| other.all)
                .sum();
            let of_day = (charged - self.used).clamp(0, rest.max(0));
            self.tell(of_day, one.day, one.day.last_instant());
            rest -= of_day;
        }
        self.tell(rest, end, until);
    }

    /// Adds the lines of one day: exports, and after them calls.
    fn tell(&mut self, amount: i64, day: UtcDay, at: Timestamp) {
        if amount == 0 {
            return;
        }
        self.used += amount;
        let is_of_day = |line: &&TimedLine| match line.line {
            LedgerLine::Sum(SumKind::Export, of) | LedgerLine::SumAfter(SumKind::Export, of, _) => {
                of == day
            }
            LedgerLine::Entry(_) | LedgerLine::Sum(..) | LedgerLine::SumAfter(..) => false,
        };
        let told: i64 = self.all.iter().rev().filter(is_of_day).map(|line| -line.amount).sum();
        let charged = self.days.iter().find(|one| one.day == day).map_or(0, |one| one.exports);
        let exports = (charged - told).clamp(0, amount.max(0));
        for (kind, part) in [(SumKind::Export, exports), (SumKind::Usage, amount - exports)] {
            if part != 0 {
                self.net -= part;
                let line = match self.last {
                    Some((entry, _)) => LedgerLine::SumAfter(kind, day, entry),
                    None => LedgerLine::Sum(kind, day),
                };
                self.push(line, at, -part);
            }
        }
    }

    fn push(&mut self, line: LedgerLine, at: Timestamp, amount: i64) {
        let (balance_after, debt_after) = (self.net.max(0), (-self.net).max(0));
        self.all.push(TimedLine { line, at, amount, balance_after, debt_after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_unix_micros(1_795_262_400_000_000);
    const DAY_S: i64 = 86_400;

    fn entry(number: u8, at: Timestamp, amount: i64, net_after: i64) -> BookedEntry {
        let id = EntryId::new(at, [number; 10]);
        let (balance_after, debt_after) = (net_after.max(0), (-net_after).max(0));
        BookedEntry { id, at, amount, balance_after, debt_after }
    }

    fn day(after: i64, exports: i64, all: i64) -> DayUsage {
        DayUsage { day: NOON.day().plus_days(after), exports, all }
    }

    fn shown(lines: &[TimedLine]) -> Vec<(&'static str, i64, i64)> {
        let kind = |line: &TimedLine| match line.line {
            LedgerLine::Entry(_) => "entry",
            LedgerLine::Sum(kind, _) | LedgerLine::SumAfter(kind, ..) => kind.as_str(),
        };
        lines
            .iter()
            .map(|line| (kind(line), line.amount, line.balance_after - line.debt_after))
            .collect()
    }

    #[test]
    fn charges_appear_between_the_entries_before_and_after_them() {
        let entries = [
            entry(1, NOON, 100, 100),
            entry(2, NOON.plus_seconds(60), 50, 140),
            entry(3, NOON.plus_seconds(2 * DAY_S), -30, 80),
        ];
        let days = [day(0, 0, 25), day(1, 10, 12), day(2, 0, 7)];

        let lines = lines(&entries, &days, 77, NOON.plus_seconds(3 * DAY_S));

        assert_eq!(
            shown(&lines),
            [
                ("entry", 100, 100),
                ("usage", -10, 90),
                ("entry", 50, 140),
                ("usage", -15, 125),
                ("export", -10, 115),
                ("usage", -2, 113),
                ("usage", -3, 110),
                ("entry", -30, 80),
                ("usage", -3, 77),
            ]
        );
        assert_eq!(lines[3].at, NOON.day().last_instant());
    }

    #[test]
    fn a_negative_net_is_reported_as_debt() {
        let entries = [entry(1, NOON, 100, 100), entry(2, NOON.plus_seconds(60), -100, -80)];

        let lines = lines(&entries, &[day(0, 0, 80)], -80, NOON.plus_seconds(90));

        assert_eq!(shown(&lines), [("entry", 100, 100), ("usage", -80, 20), ("entry", -100, -80)]);
        let last = lines.last().unwrap();
        assert_eq!((last.balance_after, last.debt_after), (0, 80));
    }
}
