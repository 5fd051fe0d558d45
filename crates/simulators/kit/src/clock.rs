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
    let parts = [(number("advance_days")?, 86_400), (number("advance_s")?, 1)];
    let seconds = parts.into_iter().map(|(count, of)| count.unwrap_or(0).saturating_mul(of));
    let by = calendar::after(now, "month", months) - now + seconds.sum::<i64>();
    let (field, by_s) = match number("to")? {
        Some(to) if by == 0 => ("to", to.saturating_sub(now)),
        Some(_) => return Err(mistake("to", "to cannot be combined with advance_…".to_owned())),
        None => ("advance_s", by),
    };
    if by_s < 0 {
        return Err(mistake(field, "the clock can only move ahead".to_owned()));
    }
    Ok(by_s)
}

#[cfg(test)]
mod tests {
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
}
