//! The time the simulators live in. Tests move it by hand; everything else takes it from the system.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

/// Says what time it is, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `now_ms` until [`Clock::advance_ms`] moves it. Clones share the time.
    pub fn manual(now_ms: i64) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(now_ms))))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the simulators take the time from"
    )]
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Source::System => {
                let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |passed| i64::try_from(passed.as_millis()).unwrap_or(i64::MAX))
            }
            Source::Manual(now_ms) => now_ms.load(Ordering::SeqCst),
        }
    }

    /// Moves a manual clock forward by `by_ms` milliseconds; a system clock is not moved.
    pub fn advance_ms(&self, by_ms: i64) {
        if let Source::Manual(now_ms) = &self.0 {
            now_ms.fetch_add(by_ms, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Source::System => "Clock::system",
            Source::Manual(_) => "Clock::manual",
        })
    }
}
