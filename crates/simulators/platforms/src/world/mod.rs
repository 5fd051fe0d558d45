//! The world behind the four platforms: creators, their fans, what they say, show and pay. All of
//! it is computed from the seed when it is asked for and nothing is stored, so a creator with a
//! million fans costs no memory. Newest things have index 0, and times fall as indexes rise.
//!
//! What is written while running is not here; it lies on a [`crate::overlay::Overlay`] above it.

pub(crate) mod content;
pub(crate) mod ids;
pub(crate) mod people;
pub(crate) mod series;
mod sums;
pub(crate) mod talk;
pub(crate) mod time;
pub(crate) mod trade;
mod words;

use simulator_kit::seeded_random::{SeededRandom, mix};

/// Where a generated world ends by default: 2026-01-01T00:00:00Z, in
/// milliseconds.
pub(crate) const EPOCH_MS: i64 = 1_767_225_600_000;

/// One second, minute, hour and day in milliseconds.
pub(crate) const SECOND_MS: i64 = 1000;
pub(crate) const MINUTE_MS: i64 = 60 * SECOND_MS;
pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;

/// More subscribers than this are cut, so that the numbers in ids never run into each other.
const SUBSCRIBERS_MAX: u64 = 5_000_000;

/// What one creator of a platform sees. The same creator number has the same fans on all four
/// platforms, under each platform's own ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    seed: u64,
    /// The number of the creator, part of all its ids.
    pub(crate) creator: u64,
    /// How many people ever subscribed.
    pub(crate) fans: u64,
    /// The newest moment of the generated world, in milliseconds: nothing generated is younger.
    pub(crate) end_ms: i64,
    /// The time at which the world is looked at; subscriptions go on renewing themselves until it.
    pub(crate) now_ms: i64,
}

impl World {
    /// The world of the creator with this number; `fans` of 0 is an account that just started.
    pub(crate) fn new(seed: u64, creator: u64, fans: u64) -> Self {
        let (seed, fans) = (mix(seed ^ (creator << 32)), fans.min(SUBSCRIBERS_MAX));
        Self { seed, creator, fans, end_ms: EPOCH_MS, now_ms: EPOCH_MS }
    }

    /// The same world, moved in time so that it ends here.
    pub(crate) fn ending(self, end_ms: i64) -> Self {
        Self { end_ms, now_ms: end_ms, ..self }
    }

    /// The same world, looked at at this time.
    pub(crate) fn at(self, now_ms: i64) -> Self {
        Self { now_ms: now_ms.max(self.end_ms), ..self }
    }

    /// True for an account to which nothing has happened yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.fans == 0
    }

    /// `count`, or nothing for an account that just started.
    fn unless_empty(&self, count: u64) -> u64 {
        if self.is_empty() { 0 } else { count }
    }

    fn random(&self, kind: u64, index: u64) -> SeededRandom {
        SeededRandom::of(self.seed, kind, index)
    }

    /// The time of the `index`-th thing of a line that reaches back from the end in steps of
    /// `step_ms`; it never equals that of a neighbour.
    fn time_ms(&self, kind: u64, index: u64, step_ms: i64) -> i64 {
        let step = step_ms.max(2);
        let jitter = self.random(kind, index).below(step.unsigned_abs() - 1);
        self.end_ms - signed(index) * step - signed(jitter) - 1
    }
}

/// Counts fit in 63 bits by far.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
