//! The figures at the top of the overview.

use crate::overview::{CreditTotals, ExpiringCredits};
use crate::usage::DailyUsage;
use console_kit::format;

/// Days of use before a pace can be told from.
const DAYS_OF_USE_MIN: usize = 3;
/// A pace that lasts longer is not told.
const DAYS_LEFT_MAX: i64 = 365;
/// The days of the pace.
const DAYS_PER_WEEK: i64 = 7;

/// The figures, in words.
pub(crate) struct OverviewTiles {
    pub(crate) available: String,
    /// How long they last; empty if that cannot be told.
    pub(crate) pace: String,
    /// What expires next; empty if nothing does.
    pub(crate) expiring: String,
    pub(crate) held: String,
    pub(crate) today: String,
    pub(crate) week: String,
    /// The share of errors; empty without calls.
    pub(crate) errors: String,
    pub(crate) errors_of: String,
    /// The whole days that the credits last at this pace, if that can be told.
    pub(crate) days_left: Option<i64>,
}

impl OverviewTiles {
    pub(crate) fn new(credits: &CreditTotals, usage: Option<&DailyUsage>) -> Self {
        let days_left = days_left(credits, usage);
        let (errors, calls) = usage.map_or((0, 0), DailyUsage::errors_of_week);
        Self {
            available: format::number(credits.balance),
            pace: days_left.map(pace).unwrap_or_default(),
            expiring: credits
                .next_expiring
                .as_ref()
                .map(ExpiringCredits::words)
                .unwrap_or_default(),
            held: format::number(credits.held),
            today: format::number(credits.spend.today),
            week: format::number(credits.spend.last_7_days),
            errors: share(errors, calls),
            errors_of: format!("{} of {}", format::number(errors), format::counted(calls, "call")),
            days_left,
        }
    }
}

/// Whole days until the credits are spent, at the pace of the last seven days.
fn days_left(credits: &CreditTotals, usage: Option<&DailyUsage>) -> Option<i64> {
    let is_known = usage.is_some_and(|usage| usage.used_days() >= DAYS_OF_USE_MIN);
    let week = credits.spend.last_7_days;
    if !is_known || week <= 0 {
        return None;
    }
    let days = credits.balance.saturating_mul(DAYS_PER_WEEK) / week;
    Some(days).filter(|days| *days <= DAYS_LEFT_MAX)
}

fn pace(days: i64) -> String {
    match days {
        0 => "Less than a day at this pace".to_owned(),
        1 => "About a day at this pace".to_owned(),
        days => format!("About {} days at this pace", format::number(days)),
    }
}

/// A share with one decimal, rounded to the nearest: `1.6 %`. Empty without calls.
fn share(errors: i64, calls: i64) -> String {
    if calls <= 0 {
        return String::new();
    }
    let tenths = (errors.saturating_mul(2_000) / calls).saturating_add(1) / 2;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_the_nearest_tenth() {
        for (errors, calls, text) in [
            (227, 13_864, "1.6 %"),
            (1, 2_000, "0.1 %"),
            (0, 5, "0.0 %"),
            (5, 5, "100.0 %"),
            (0, 0, ""),
        ] {
            assert_eq!(share(errors, calls), text);
        }
    }

    fn credits(balance: i64, week: i64) -> CreditTotals {
        let totals = serde_json::json!({
            "balance": balance, "held": 1_500, "debt": 0, "next_expiring": null,
            "spend": {"today": 7, "last_7_days": week},
            "trial": {"state": "none", "credits": 0}, "subscription": null,
        });
        serde_json::from_value(totals).unwrap()
    }

    fn used(days: usize) -> DailyUsage {
        let day = |number: usize| {
            serde_json::json!({
                "day": format!("2026-11-{number:02}"), "calls": 10, "exports": 0, "credits": 10,
                "ok": 9, "errors": 1,
            })
        };
        let days: Vec<_> = (1..=days).map(day).collect();
        serde_json::from_value(serde_json::json!({"days": days, "hot_failure": null})).unwrap()
    }

    #[test]
    fn credits_last_as_long_as_the_last_week_says_and_no_guess_is_made_without_one() {
        let left = |balance, week, days| {
            OverviewTiles::new(&credits(balance, week), Some(&used(days))).days_left
        };

        assert_eq!(left(70, 70, 7), Some(7));
        assert_eq!(left(9, 70, 3), Some(0));
        assert_eq!(left(70, 70, 2), None, "two days of use are too few");
        assert_eq!(left(70, 0, 7), None, "nothing was spent");
        assert_eq!(left(3_650, 70, 7), Some(365));
        assert_eq!(left(3_660, 70, 7), None, "more than a year is not told");
        assert_eq!(OverviewTiles::new(&credits(70, 70), None).days_left, None);
    }

    #[test]
    fn figures_are_written_with_what_they_are_of() {
        let tiles = OverviewTiles::new(&credits(12_345, 70), Some(&used(7)));

        assert_eq!((tiles.available.as_str(), tiles.held.as_str()), ("12,345", "1,500"));
        assert_eq!((tiles.today.as_str(), tiles.week.as_str()), ("7", "70"));
        assert_eq!((tiles.errors.as_str(), tiles.errors_of.as_str()), ("10.0 %", "7 of 70 calls"));
        let unknown = OverviewTiles::new(&credits(0, 0), None);
        assert_eq!((unknown.errors.as_str(), unknown.pace.as_str()), ("", ""));
    }

    #[test]
    fn a_pace_is_told_in_whole_days() {
        assert_eq!(pace(0), "Less than a day at this pace");
        assert_eq!(pace(1), "About a day at this pace");
        assert_eq!(pace(28), "About 28 days at this pace");
    }
}
