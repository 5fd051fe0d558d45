//! Time and randomness: the only place that reads either from the system.
//!
//! Everything else gets both from here, so that a test can stop the clock and fix the random
//! sequence.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::time::{MICROS_PER_SECOND, Timestamp};
use rand::{Rng, RngExt, SeedableRng};
use tokio::time::Instant;

/// The time: the system's, corrected to the database's, or one that a test sets.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The system's clock plus an offset in microseconds, measured against the database's clock.
    System {
        /// What to add to the system's clock.
        offset_micros: Arc<AtomicI64>,
    },
    /// A clock that moves only when a test moves it.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The system's clock, not yet corrected.
    pub fn system() -> Self {
        Self::System { offset_micros: Arc::new(AtomicI64::new(0)) }
    }

    /// A clock that is stopped at `start`.
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(start.unix_micros())))
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System { offset_micros } => {
                let offset = offset_micros.load(Ordering::Relaxed);
                Timestamp::from_unix_micros(system_micros().saturating_add(offset))
            }
            Self::Manual(micros) => Timestamp::from_unix_micros(micros.load(Ordering::SeqCst)),
        }
    }

    /// Waits until `then`. On a manual clock, it waits until the test has moved the clock there.
    pub async fn sleep_until(&self, then: Timestamp) {
        loop {
            let left_micros = u64::try_from(then.micros_since(self.now())).unwrap_or(0);
            if left_micros == 0 {
                return;
            }
            let wait_micros = match self {
                Self::System { .. } => left_micros,
                Self::Manual(_) => left_micros.min(MANUAL_LOOK_MICROS),
            };
            tokio::time::sleep(Duration::from_micros(wait_micros)).await;
        }
    }

    /// How long this process has been running, for measuring how long something lasts: unlike
    /// [`Self::now`], no correction of the clock moves it. A manual clock's moves with the clock.
    pub fn running_for(&self) -> Duration {
        match self {
            Self::System { .. } => {
                static ORIGIN: OnceLock<Instant> = OnceLock::new();
                ORIGIN.get_or_init(Instant::now).elapsed()
            }
            Self::Manual(micros) => {
                let micros = micros.load(Ordering::SeqCst);
                Duration::from_micros(u64::try_from(micros).unwrap_or(0))
            }
        }
    }

    /// Waits for this long, however the clock is corrected meanwhile. On a manual clock, it waits
    /// until the test has moved the clock that far.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_since(self.running_for(), duration).await;
    }

    /// Waits until this long after a moment that [`Self::running_for`] told.
    pub async fn sleep_since(&self, since: Duration, duration: Duration) {
        let until = since.saturating_add(duration);
        match self {
            Self::System { .. } => {
                tokio::time::sleep(until.saturating_sub(self.running_for())).await;
            }
            Self::Manual(_) => {
                while self.running_for() < until {
                    tokio::time::sleep(Duration::from_micros(MANUAL_LOOK_MICROS)).await;
                }
            }
        }
    }

    /// Moves a manual clock forward; does nothing to the system's clock.
    pub fn advance_seconds(&self, seconds: i64) {
        if let Self::Manual(micros) = self {
            micros.fetch_add(seconds.saturating_mul(MICROS_PER_SECOND), Ordering::SeqCst);
        }
    }

    /// Corrects the system's clock to the time that the database has just reported.
    pub fn follow(&self, database: Timestamp) {
        if let Self::System { offset_micros } = self {
            let offset = database.unix_micros().saturating_sub(system_micros());
            offset_micros.store(offset, Ordering::Relaxed);
        }
    }
}

/// The interval at which waiting tasks poll a manual clock.
const MANUAL_LOOK_MICROS: u64 = 2_000;

#[expect(clippy::disallowed_methods, reason = "this is the clock that everything else reads")]
fn system_micros() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |time| i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// Randomness: the operating system's, or a seeded sequence.
#[derive(Clone)]
pub enum Random {
    /// A cryptographic generator for each thread, seeded by the operating system.
    System,
    /// The same sequence for the same seed.
    Seeded(Arc<parking_lot::Mutex<rand::rngs::StdRng>>),
}

impl Random {
    /// A sequence determined by the seed.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(parking_lot::Mutex::new(rand::rngs::StdRng::seed_from_u64(seed))))
    }

    /// `N` random bytes.
    #[inline]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match self {
            Self::System => rand::rng().fill_bytes(&mut bytes),
            Self::Seeded(generator) => generator.lock().fill_bytes(&mut bytes),
        }
        bytes
    }

    /// A uniformly distributed number below `bound`.
    pub fn below(&self, bound: u8) -> u8 {
        match self {
            Self::System => rand::rng().random_range(0..bound.max(1)),
            Self::Seeded(generator) => generator.lock().random_range(0..bound.max(1)),
        }
    }
}

impl std::fmt::Debug for Random {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_it_is_advanced() {
        let clock = Clock::manual(Timestamp::from_unix_micros(5));

        assert_eq!(clock.now().unix_micros(), 5);
        clock.advance_seconds(2);
        assert_eq!(clock.now().unix_micros(), 2_000_005);
    }

    #[test]
    fn the_system_clock_follows_the_database() {
        let clock = Clock::system();
        let ahead = clock.now().plus_seconds(3_600);

        clock.follow(ahead);

        assert!(clock.now() >= ahead);
    }

    #[test]
    fn the_same_seed_produces_the_same_bytes() {
        assert_eq!(Random::seeded(1).bytes::<16>(), Random::seeded(1).bytes::<16>());
        assert_ne!(Random::seeded(1).bytes::<16>(), Random::seeded(2).bytes::<16>());
    }
}
