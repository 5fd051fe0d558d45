//! The world behind the four platforms: creators, their fans, messages, content and payments.
//! Everything is computed from the seed on demand and nothing is stored, so a creator with a
//! million fans costs no memory. The newest things have index 0, and times decrease with rising
//! indexes.
//!
//! Changes made while running are not here, but in a [`crate::overlay::Overlay`] above it.

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

/// The most subscribers; higher numbers are capped, so that the numbers in ids do not overlap.
const SUBSCRIBERS_MAX: u64 = 5_000_000;

/// One creator's view of a platform. The same creator number has the same fans on all four
/// platforms, under each platform's own ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    seed: u64,
    /// The number of the creator, which is part of all its ids.
    pub(crate) creator: u64,
    /// The number of people who ever subscribed.
    pub(crate) fans: u64,
    /// The newest moment of the generated world, in milliseconds: nothing generated is newer.
    pub(crate) end_ms: i64,
    /// The current time; subscriptions renew until then.
    pub(crate) now_ms: i64,
}

impl World {
    /// The world of the creator with this number; `fans` of 0 is an empty account.
    pub(crate) fn new(seed: u64, creator: u64, fans: u64) -> Self {
        let (seed, fans) = (mix(seed ^ (creator << 32)), fans.min(SUBSCRIBERS_MAX));
        Self { seed, creator, fans, end_ms: EPOCH_MS, now_ms: EPOCH_MS }
    }

    /// The same world, moved in time to end here.
    pub(crate) fn ending(self, end_ms: i64) -> Self {
        Self { end_ms, now_ms: end_ms, ..self }
    }

    /// The same world at this time.
    pub(crate) fn at(self, now_ms: i64) -> Self {
        Self { now_ms: now_ms.max(self.end_ms), ..self }
    }

    /// Whether the account is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.fans == 0
    }

    /// `count`, or 0 for an empty account.
    fn unless_empty(&self, count: u64) -> u64 {
        if self.is_empty() { 0 } else { count }
    }

    fn random(&self, kind: u64, index: u64) -> SeededRandom {
        SeededRandom::of(self.seed, kind, index)
    }

    /// The time of thing number `index` of a series that goes back from the end in steps of
    /// `step_ms`; it always differs from that of adjacent things.
    fn time_ms(&self, kind: u64, index: u64, step_ms: i64) -> i64 {
        let step = step_ms.max(2);
        let jitter = self.random(kind, index).below(step.unsigned_abs() - 1);
        self.end_ms - signed(index) * step - signed(jitter) - 1
    }
}

/// Counts are far below 2^63.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
