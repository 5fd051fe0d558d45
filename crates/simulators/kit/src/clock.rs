//! The time of the simulators. Tests move it by hand; otherwise it follows the system's clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::calendar;

/// A clock in milliseconds since 1970-01-01T00:00:00Z. Clones share the time.
#[derive(Clone)]
pub struct SimulatorClock(TimeSource);

#[derive(Clone)]
enum TimeSource {
    /// The machine's time, and how many milliseconds the simulators are ahead of it.
    System(Arc<AtomicI64>),
    Manual(Arc<AtomicI64>),
}

impl SimulatorClock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(TimeSource::System(Arc::default()))
    }

    /// A clock that is stopped at `now_ms` until it is moved.
    pub fn manual(now_ms: i64) -> Self {
        Self(TimeSource::Manual(Arc::new(AtomicI64::new(now_ms))))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            TimeSource::System(ahead_ms) => {
                system_ms().saturating_add(ahead_ms.load(Ordering::SeqCst))
            }
            TimeSource::Manual(now_ms) => now_ms.load(Ordering::SeqCst),
        }
    }

    /// Moves the clock ahead by `by_ms` milliseconds, for all simulators.
    pub fn advance_ms(&self, by_ms: i64) {
        let (TimeSource::System(moved) | TimeSource::Manual(moved)) = &self.0;
        moved.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Moves the clock ahead to this time, for all simulators. It never goes back: a time in the
    /// past has no effect.
    pub fn move_to_ms(&self, at_ms: i64) {
        match &self.0 {
            TimeSource::System(_) => self.advance_ms(at_ms.saturating_sub(self.now_ms()).max(0)),
            TimeSource::Manual(now_ms) => {
                now_ms.fetch_max(at_ms, Ordering::SeqCst);
            }
        }
    }

    /// How far it is ahead of the machine's clock; 0 for a manual clock, which is independent of
    /// it.
    pub fn ahead_ms(&self) -> i64 {
        match &self.0 {
            TimeSource::System(ahead_ms) => ahead_ms.load(Ordering::SeqCst),
            TimeSource::Manual(_) => 0,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the simulators take the time from")]
fn system_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |passed| i64::try_from(passed.as_millis()).unwrap_or(i64::MAX))
}

impl fmt::Debug for SimulatorClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            TimeSource::System(_) => "Clock::system",
            TimeSource::Manual(_) => "Clock::manual",
        })
    }
}

/// The last second that a clock can be moved to: 9999-12-30T00:00:00Z, which every time zone has.
const LAST_S: i64 = 253_402_128_000;

/// Why a clock cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockMistake {
    /// The invalid field.
    pub field: &'static str,
    /// Why it is invalid.
    pub message: String,
}

/// The number of seconds by which a clock that shows `now` seconds moves: `to` a second, or by
/// `advance_months`, `advance_days` and `advance_s`.
pub fn seconds_ahead(now: i64, body: &Value) -> Result<i64, ClockMistake> {
    let mistake = |field, message| ClockMistake { field, message };
    let number = |field: &'static str| match body.get(field).map(Value::as_i64) {
        None => Ok(None),
        Some(Some(number)) => Ok(Some(number)),
        Some(None) => Err(mistake(field, format!("{field} must be a whole number"))),
    };
    let months = number("advance_months")?.unwrap_or(0);
    let beyond =
        |field| mistake(field, "the clock can only show times up to the year 9999".to_owned());
    let after_months =
        calendar::later(now, "month", months).ok_or_else(|| beyond("advance_months"))?;
    let parts = [(number("advance_days")?, 86_400), (number("advance_s")?, 1)];
    let seconds = parts.into_iter().map(|(count, of)| count.unwrap_or(0).saturating_mul(of));
    let by = seconds.fold(after_months - now, i64::saturating_add);
    let (field, by_s) = match number("to")? {
        Some(to) if by == 0 => ("to", to.saturating_sub(now)),
        Some(_) => return Err(mistake("to", "to cannot be combined with advance_…".to_owned())),
        None => ("advance_s", by),
    };
    if by_s < 0 {
        return Err(mistake(field, "the clock can only move ahead".to_owned()));
    }
    if now.saturating_add(by_s) > LAST_S {
        return Err(beyond(field));
    }
    Ok(by_s)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clones_share_the_time_and_it_never_goes_back() {
        let clock = SimulatorClock::manual(1_000);
        let other = clock.clone();

        clock.move_to_ms(5_000);
        clock.move_to_ms(4_000);
        other.advance_ms(1);

        assert_eq!((clock.now_ms(), other.now_ms(), clock.ahead_ms()), (5_001, 5_001, 0));
    }

    #[test]
    fn the_clock_of_the_machine_can_be_ahead_of_it() {
        let clock = SimulatorClock::system();
        let day_ms = 86_400_000;

        clock.advance_ms(day_ms);

        assert!(clock.now_ms() >= system_ms() - 60_000 + day_ms);
        assert_eq!(clock.clone().ahead_ms(), day_ms);
    }

    /// 2026-01-31T00:00:00Z.
    const NOW: i64 = 1_769_817_600;

    #[test]
    fn a_clock_moves_to_a_second_or_by_months_days_and_seconds_together() {
        let day = 86_400;
        for (body, by) in [
            (json!({}), 0),
            (json!(null), 0),
            (json!([1]), 0),
            (json!({"advance_s": 5}), 5),
            (json!({"advance_days": 2, "advance_s": -1}), 2 * day - 1),
            (json!({"advance_months": 1}), 28 * day),
            (json!({"advance_months": 12, "advance_days": 1}), 366 * day),
            (json!({"advance_months": 1, "advance_days": -28}), 0),
            (json!({"to": NOW}), 0),
            (json!({"to": NOW + 7}), 7),
            (json!({"to": NOW + 7, "advance_s": 0}), 7),
            (json!({"to": LAST_S}), LAST_S - NOW),
        ] {
            assert_eq!(seconds_ahead(NOW, &body), Ok(by), "{body}");
        }
    }

    #[test]
    fn a_clock_that_cannot_be_moved_says_which_field_is_wrong() {
        let (ahead, last) =
            ("the clock can only move ahead", "the clock can only show times up to the year 9999");
        for (body, field, message) in [
            (json!({"advance_s": "5"}), "advance_s", "advance_s must be a whole number"),
            (json!({"advance_s": 1.5}), "advance_s", "advance_s must be a whole number"),
            (json!({"advance_days": null}), "advance_days", "advance_days must be a whole number"),
            (
                json!({"advance_months": u64::MAX}),
                "advance_months",
                "advance_months must be a whole number",
            ),
            (json!({"to": true}), "to", "to must be a whole number"),
            (json!({"to": NOW + 9, "advance_s": 1}), "to", "to cannot be combined with advance_…"),
            (json!({"to": NOW - 1}), "to", ahead),
            (json!({"to": i64::MIN}), "to", ahead),
            (json!({"advance_s": -1}), "advance_s", ahead),
            (json!({"advance_days": i64::MIN}), "advance_s", ahead),
            (json!({"advance_months": -1}), "advance_s", ahead),
            (json!({"to": LAST_S + 1}), "to", last),
            (json!({"to": i64::MAX}), "to", last),
            (json!({"advance_s": i64::MAX}), "advance_s", last),
            (json!({"advance_days": i64::MAX, "advance_s": i64::MAX}), "advance_s", last),
            (json!({"advance_months": i64::MAX}), "advance_months", last),
            (json!({"advance_months": 120_000}), "advance_months", last),
        ] {
            let mistake = ClockMistake { field, message: message.to_owned() };
            assert_eq!(seconds_ahead(NOW, &body), Err(mistake), "{body}");
        }
    }

    #[test]
    fn a_clock_shows_neither_its_time_nor_its_parts_to_developers() {
        let shown =
            [SimulatorClock::system(), SimulatorClock::manual(7)].map(|it| format!("{it:?}"));

        assert_eq!(shown, ["Clock::system", "Clock::manual"]);
    }
}
