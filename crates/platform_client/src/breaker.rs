//! When not to call: a breaker for what keeps failing, and a budget for second tries.
//!
//! Both are told the time and decide nothing by chance, so they behave the same in every test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use domain::time::{MICROS_PER_MILLI, Timestamp};

/// Failures in a row that open a breaker.
pub const FAILURES_MAX: u32 = 7;
/// How long it stays open at first, in milliseconds.
pub const OPEN_MS_MIN: i64 = 1_000;
/// How long it stays open at most, in milliseconds; the time doubles with each failed probe.
pub const OPEN_MS_MAX: i64 = 60_000;

/// Calls that each earn a tenth of a second try.
const CALLS_PER_RETRY: u32 = 10;
/// Tenths that are there at the start, and that can be saved up.
const RESERVE_AT_START: u32 = 100;
const RESERVE_MAX: u32 = 1_000;

/// Stops calls after [`FAILURES_MAX`] failures in a row, for one second at first, and lets one call
/// through as a probe when the time is over. Shared by all cores.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<BreakerState>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    Closed { failures: u32 },
    Open { until: Timestamp, open_ms: i64, is_probing: bool },
}

/// Allows second tries for at most a tenth of all calls, beside a small reserve. Shared by all
/// cores.
#[derive(Debug)]
pub struct RetryBudget(AtomicU32);

impl Breaker {
    /// How many milliseconds to wait before a next call, at least one; `None` lets the call go.
    ///
    /// When the time is over, one call goes as a probe. The next one may follow only after the same
    /// time again, so a probe that is never heard of does not keep the breaker open for ever.
    pub fn refuses(&self, now: Timestamp) -> Option<i64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, answer) = state.asked(now);
        *state = next;
        answer
    }

    /// An answer came, whatever it says.
    pub fn succeeded(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = BreakerState::default();
    }

    /// No usable answer came.
    pub fn failed(&self, now: Timestamp) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.failed(now);
    }
}

impl Default for BreakerState {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl BreakerState {
    fn asked(self, now: Timestamp) -> (Self, Option<i64>) {
        match self {
            Self::Closed { .. } => (self, None),
            Self::Open { until, .. } if now < until => {
                let left_ms =
                    until.micros_since(now).saturating_add(MICROS_PER_MILLI - 1) / MICROS_PER_MILLI;
                (self, Some(left_ms))
            }
            Self::Open { open_ms, .. } => (Self::open(now, open_ms, true), None),
        }
    }

    fn failed(self, now: Timestamp) -> Self {
        match self {
            Self::Closed { failures } if failures.saturating_add(1) < FAILURES_MAX => {
                Self::Closed { failures: failures.saturating_add(1) }
            }
            Self::Closed { .. } => Self::open(now, OPEN_MS_MIN, false),
            Self::Open { open_ms, is_probing: true, .. } => {
                Self::open(now, open_ms.saturating_mul(2).min(OPEN_MS_MAX), false)
            }
            // A call that left before the breaker opened tells nothing new.
            Self::Open { is_probing: false, .. } => self,
        }
    }

    const fn open(now: Timestamp, open_ms: i64, is_probing: bool) -> Self {
        let until = now.plus_micros(open_ms.saturating_mul(MICROS_PER_MILLI));
        Self::Open { until, open_ms, is_probing }
    }
}

impl RetryBudget {
    /// A call is made for the first time.
    pub fn record_call(&self) {
        // Filled up is the usual state, and then nothing is written.
        if self.0.load(Ordering::Relaxed) < RESERVE_MAX {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes one second try, if there is one.
    pub fn take(&self) -> bool {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tenths| {
            tenths.checked_sub(CALLS_PER_RETRY)
        });
        taken.is_ok()
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(RESERVE_AT_START))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at_ms(ms: i64) -> Timestamp {
        Timestamp::from_unix_micros(ms * MICROS_PER_MILLI)
    }

    fn opened_at(ms: i64) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..FAILURES_MAX {
            breaker.failed(at_ms(ms));
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_any_answer_starts_the_count_again() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            (1..FAILURES_MAX).for_each(|_| breaker.failed(at_ms(0)));
            assert_eq!(breaker.refuses(at_ms(0)), None);
            breaker.succeeded();
        }

        (0..FAILURES_MAX).for_each(|_| breaker.failed(at_ms(0)));

        assert_eq!(breaker.refuses(at_ms(0)), Some(1_000));
        assert_eq!(breaker.refuses(at_ms(999)), Some(1));
        assert_eq!(breaker.refuses(Timestamp::from_unix_micros(999_999)), Some(1));
    }

    #[test]
    fn one_probe_goes_when_the_time_is_over_and_its_answer_closes_it() {
        let breaker = opened_at(0);

        assert_eq!(breaker.refuses(at_ms(1_000)), None);
        assert_eq!(breaker.refuses(at_ms(1_000)), Some(1_000));

        breaker.succeeded();
        assert_eq!(breaker.refuses(at_ms(1_000)), None);
        assert_eq!(breaker.refuses(at_ms(1_000)), None);
    }

    #[test]
    fn each_failed_probe_doubles_the_time_up_to_a_minute() {
        let breaker = opened_at(0);
        let mut now = 0;
        for open_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            assert_eq!(breaker.refuses(at_ms(now)), Some(open_ms));
            now += open_ms;
            assert_eq!(breaker.refuses(at_ms(now)), None);
            breaker.failed(at_ms(now));
        }
    }

    #[test]
    fn calls_that_left_before_it_opened_do_not_lengthen_the_time() {
        let breaker = opened_at(0);

        (0..50).for_each(|_| breaker.failed(at_ms(10)));

        assert_eq!(breaker.refuses(at_ms(10)), Some(990));
    }

    #[test]
    fn a_probe_that_is_never_heard_of_is_followed_by_another() {
        let breaker = opened_at(0);

        assert_eq!(breaker.refuses(at_ms(1_000)), None);

        assert_eq!(breaker.refuses(at_ms(1_999)), Some(1));
        assert_eq!(breaker.refuses(at_ms(2_000)), None);
    }

    #[test]
    fn second_tries_are_a_tenth_of_the_calls_beside_the_reserve() {
        let budget = RetryBudget::default();
        let reserve = std::iter::from_fn(|| budget.take().then_some(())).count();
        (0..95).for_each(|_| budget.record_call());

        let earned = std::iter::from_fn(|| budget.take().then_some(())).count();

        assert_eq!((reserve, earned), (10, 9));
    }

    #[test]
    fn a_long_time_without_failures_saves_up_a_hundred_tries_at_most() {
        let budget = RetryBudget::default();
        (0..100_000).for_each(|_| budget.record_call());

        assert_eq!(std::iter::from_fn(|| budget.take().then_some(())).count(), 100);
    }

    proptest! {
        /// Whatever happens in whatever order: it is never shut for longer than a minute, lets no
        /// two calls go within the time it is open for, and an answer always sets it back.
        #[test]
        fn no_history_keeps_it_shut_or_lets_a_crowd_through(
            history in proptest::collection::vec((0..70_000_i64, 0..4_u8), 0..80)
        ) {
            let (breaker, mut now, mut failures, mut shut_until) = (Breaker::default(), 0, 0, None);
            for (later, event) in history {
                now += later;
                match event {
                    0 => {
                        breaker.succeeded();
                        (failures, shut_until) = (0, None);
                        prop_assert_eq!(breaker.refuses(at_ms(now)), None);
                    }
                    1 | 2 => {
                        breaker.failed(at_ms(now));
                        failures += 1;
                    }
                    _ => match breaker.refuses(at_ms(now)) {
                        Some(wait_ms) => {
                            prop_assert!(failures >= FAILURES_MAX);
                            prop_assert!((1..=OPEN_MS_MAX).contains(&wait_ms));
                            shut_until = Some(now + wait_ms);
                        }
                        None => {
                            prop_assert!(shut_until.is_none_or(|until| now >= until));
                            if failures >= FAILURES_MAX {
                                prop_assert!(breaker.refuses(at_ms(now)) >= Some(OPEN_MS_MIN));
                            }
                        }
                    },
                }
            }
        }
    }
}
