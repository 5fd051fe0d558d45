//! Rate limits for each key, on this node.
//!
//! This is the generic cell rate algorithm: the state of a key is the time at which its whole quota
//! is available again. The current time is passed in. The number of keys to remember is limited.
//! When it is reached, new keys share one state, so that a flood of them neither takes memory nor
//! passes freely, and known keys are not affected.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use domain::time::Timestamp;
use foldhash::quality::RandomState;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use super::texts::HeaderTexts;

/// Keys in different shards never wait for each other.
const SHARDS: usize = 16;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// How often a full shard looks for keys to remove.
const FORGET_EVERY_MICROS: i64 = MICROS_PER_SECOND;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The amount that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateQuota {
    /// Units that can be used in one burst.
    burst: u32,
    /// Microseconds until one used unit is available again.
    unit_micros: i64,
}

impl RateQuota {
    /// `rate` units a second on average, and bursts of `burst`. Both are at least 1, and the rate
    /// is at most a million.
    pub fn per_second(rate: u32, burst: u32) -> Self {
        let unit_micros = (MICROS_PER_SECOND / i64::from(rate.max(1))).max(1);
        Self { burst: burst.max(1), unit_micros }
    }

    /// `count` units an hour, which may be one burst; at least 1.
    pub fn per_hour(count: u32) -> Self {
        let count = count.max(1);
        Self { burst: count, unit_micros: (3_600 * MICROS_PER_SECOND / i64::from(count)).max(1) }
    }

    /// `count` units a minute, which may be one burst; at least 1.
    pub fn per_minute(count: u32) -> Self {
        let count = count.max(1);
        Self { burst: count, unit_micros: (60 * MICROS_PER_SECOND / i64::from(count)).max(1) }
    }

    /// The same, multiplied by `factor`.
    #[must_use]
    pub fn times(self, factor: u32) -> Self {
        Self {
            burst: self.burst.saturating_mul(factor),
            unit_micros: (self.unit_micros / i64::from(factor.max(1))).max(1),
        }
    }

    /// Microseconds until a key that used everything has its whole quota again.
    const fn window_micros(self) -> i64 {
        self.unit_micros.saturating_mul(self.burst as i64)
    }
}

/// The decision of a limit, with the limit's name and policy.
#[derive(Debug)]
pub struct NamedDecision {
    /// The name.
    pub name: &'static str,
    /// Its `RateLimit-Policy`.
    pub policy: HeaderValue,
    /// The decision.
    pub decision: RateDecision,
}

impl NamedDecision {
    /// Writes `RateLimit-Policy` and `RateLimit`.
    pub fn put_headers(self, headers: &mut HeaderMap) {
        let RateDecision { remaining, reset_s, .. } = self.decision;
        let mut texts = HeaderTexts::new();
        texts.word("\"").word(self.name).word("\";r=").number(remaining);
        headers.insert(RATE_LIMIT, texts.word(";t=").number(reset_s).value());
        headers.insert(RATE_LIMIT_POLICY, self.policy);
    }
}

/// Limits each key to a quota.
#[derive(Debug)]
pub struct RateLimiter<K> {
    quota: RateQuota,
    keys_per_shard_max: usize,
    hasher: RandomState,
    shards: Box<[Mutex<LimiterShard<K>>; SHARDS]>,
}

#[derive(Debug)]
struct LimiterShard<K> {
    /// When the whole quota of each key is available again, in microseconds.
    paid_off_at: HashMap<K, i64, RandomState>,
    /// The same for all keys that did not fit.
    others_paid_off_at: i64,
    forget_at: i64,
    /// The latest time, and how far the clock was set back before.
    latest: i64,
    set_back: i64,
}

/// Whether a request is allowed, and what the response says about the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateDecision {
    /// Units that can be used in one burst.
    pub limit: u32,
    /// Units that are left.
    pub remaining: u32,
    /// Seconds until all units are available again.
    pub reset_s: i64,
    /// Milliseconds until a refused attempt would be allowed; `None` if it was allowed.
    pub retry_after_ms: Option<i64>,
}

impl RateDecision {
    /// Whether it is allowed; a refusal uses no units.
    #[cfg(test)]
    pub const fn is_allowed(&self) -> bool {
        self.retry_after_ms.is_none()
    }

    /// Writes `RateLimit-Policy` and `RateLimit` as the IETF draft defines them, with relative
    /// times only.
    pub fn put_headers(
        &self,
        policy: HeaderValue,
        headers: &mut HeaderMap,
        texts: &mut HeaderTexts,
    ) {
        let (remaining, reset_s) = (self.remaining, self.reset_s);
        headers.insert(RATE_LIMIT_POLICY, policy);
        let state =
            texts.word("\"default\";r=").number(remaining).word(";t=").number(reset_s).value();
        headers.insert(RATE_LIMIT, state);
    }
}

impl<K: Eq + Hash> RateLimiter<K> {
    /// A limiter that remembers at most about `keys_max` keys.
    pub fn new(quota: RateQuota, keys_max: usize) -> Self {
        Self {
            quota,
            keys_per_shard_max: keys_max.div_ceil(SHARDS).max(1),
            hasher: RandomState::default(),
            shards: Box::new(std::array::from_fn(|_| Mutex::new(LimiterShard::new()))),
        }
    }

    /// The `RateLimit-Policy`, newly allocated.
    pub fn policy(&self) -> HeaderValue {
        self.policy_named("default")
    }

    /// The same under another name.
    pub fn policy_named(&self, name: &str) -> HeaderValue {
        let window_s = ceil_div(self.quota.window_micros(), MICROS_PER_SECOND);
        let policy = format!("\"{name}\";q={};w={window_s}", self.quota.burst);
        HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("\"default\""))
    }

    /// Takes `cost` units from `key`'s quota, if it has them. A cost above the burst counts as the
    /// burst.
    pub fn check(&self, key: K, cost: u32, now: Timestamp) -> RateDecision {
        let mut shard = self.shard(&key).lock();
        let now = shard.steady(now);
        let paid_off_at = shard.state_of(key, now, self.keys_per_shard_max);
        let (decision, new) = self.judge(*paid_off_at, cost, now);
        *paid_off_at = new;
        decision
    }

    /// Returns units that turned out not to count.
    pub fn give_back(&self, key: K, cost: u32, now: Timestamp) {
        let mut shard = self.shard(&key).lock();
        let now = shard.steady(now);
        let paid_off_at = shard.state_of(key, now, self.keys_per_shard_max);
        let price = self.quota.unit_micros.saturating_mul(i64::from(cost));
        *paid_off_at = paid_off_at.saturating_sub(price);
    }

    /// Removes keys whose quota is full again, and frees their memory. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        for shard in self.shards.iter() {
            let mut shard = shard.lock();
            let now = shard.steady(now);
            shard.forget(now);
            shard.paid_off_at.shrink_to_fit();
        }
    }

    /// The number of remembered keys, for metrics.
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().paid_off_at.len()).sum()
    }

    /// The decision and the key's new state.
    fn judge(&self, paid_off_at: i64, cost: u32, now: i64) -> (RateDecision, i64) {
        let RateQuota { burst, unit_micros } = self.quota;
        let window = self.quota.window_micros();
        // Whatever the clock does, no key may be locked out for longer than the window.
        let owed_until = paid_off_at.clamp(now, now.saturating_add(window));
        let price = unit_micros.saturating_mul(i64::from(cost.min(burst)));
        let after = owed_until.saturating_add(price);
        let wait_micros = after.saturating_sub(window).saturating_sub(now).max(0);
        let allowed = wait_micros == 0;
        let new = if allowed { after } else { owed_until };
        let free_micros = window.saturating_sub(new.saturating_sub(now));
        let decision = RateDecision {
            limit: burst,
            remaining: u32::try_from(free_micros / unit_micros).unwrap_or(0),
            reset_s: ceil_div(new.saturating_sub(now), MICROS_PER_SECOND),
            retry_after_ms: (!allowed).then(|| ceil_div(wait_micros, 1_000)),
        };
        (decision, new)
    }

    #[expect(clippy::indexing_slicing, reason = "the index is taken modulo the length")]
    fn shard(&self, key: &K) -> &Mutex<LimiterShard<K>> {
        let hash = self.hasher.hash_one(key);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }
}

impl<K: Eq + Hash> LimiterShard<K> {
    fn new() -> Self {
        Self {
            paid_off_at: HashMap::default(),
            others_paid_off_at: 0,
            forget_at: 0,
            latest: i64::MIN,
            set_back: 0,
        }
    }

    /// The time on a clock that is never set back, so that what is left of a quota stays. Requests
    /// on several cores may come a moment out of order.
    fn steady(&mut self, now: Timestamp) -> i64 {
        let now = now.unix_micros();
        let steady = now.saturating_add(self.set_back);
        if steady < self.latest.saturating_sub(MICROS_PER_SECOND) {
            self.set_back = self.latest.saturating_sub(now);
            return self.latest;
        }
        self.latest = self.latest.max(steady);
        steady
    }

    /// The state of a key, or the shared state if there is no room for a new key.
    fn state_of(&mut self, key: K, now: i64, keys_max: usize) -> &mut i64 {
        if self.paid_off_at.len() >= keys_max && !self.paid_off_at.contains_key(&key) {
            if now >= self.forget_at {
                self.forget(now);
                self.forget_at = now.saturating_add(FORGET_EVERY_MICROS);
            }
            if self.paid_off_at.len() >= keys_max {
                return &mut self.others_paid_off_at;
            }
        }
        self.paid_off_at.entry(key).or_insert(now)
    }

    fn forget(&mut self, now: i64) {
        self.paid_off_at.retain(|_, paid_off_at| *paid_off_at > now);
    }
}

const fn ceil_div(dividend: i64, divisor: i64) -> i64 {
    dividend.saturating_add(divisor - 1) / divisor
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at_ms(ms: i64) -> Timestamp {
        Timestamp::from_unix_micros(1_800_000_000_000_000 + ms * 1_000)
    }

    fn ten_per_second_five_at_once() -> RateLimiter<u32> {
        RateLimiter::new(RateQuota::per_second(10, 5), 1_000)
    }

    #[test]
    fn the_whole_burst_is_allowed_immediately_and_no_more() {
        let limiter = ten_per_second_five_at_once();

        let decisions: Vec<_> = (0..7).map(|_| limiter.check(1, 1, at_ms(0))).collect();

        let allowed: Vec<_> = decisions.iter().map(RateDecision::is_allowed).collect();
        assert_eq!(allowed, [true, true, true, true, true, false, false]);
        let remaining: Vec<_> = decisions.iter().map(|decision| decision.remaining).collect();
        assert_eq!(remaining, [4, 3, 2, 1, 0, 0, 0]);
    }

    #[test]
    fn a_refused_attempt_is_allowed_after_the_reported_wait() {
        let limiter = ten_per_second_five_at_once();
        (0..5).for_each(|_| assert!(limiter.check(1, 1, at_ms(0)).is_allowed()));

        let refused = limiter.check(1, 1, at_ms(30));

        assert_eq!((refused.is_allowed(), refused.retry_after_ms), (false, Some(70)));
        assert!(!limiter.check(1, 1, at_ms(99)).is_allowed());
        assert!(limiter.check(1, 1, at_ms(100)).is_allowed());
    }

    #[test]
    fn one_key_does_not_use_another_keys_quota() {
        let limiter = ten_per_second_five_at_once();
        for _ in 0..9 {
            let _decision = limiter.check(1, 1, at_ms(0));
        }

        assert_eq!(limiter.check(2, 1, at_ms(0)).remaining, 4);
    }

    #[test]
    fn a_cost_above_the_burst_takes_all_of_it() {
        let limiter = ten_per_second_five_at_once();

        let decision = limiter.check(1, 1_000, at_ms(0));

        assert_eq!((decision.is_allowed(), decision.remaining), (true, 0));
    }

    #[test]
    fn the_headers_have_the_policy_and_the_rest_in_relative_time() {
        let limiter = RateLimiter::new(RateQuota::per_second(200, 1_000), 10);
        let mut headers = HeaderMap::new();

        let decision = limiter.check(1, 300, at_ms(0));
        decision.put_headers(limiter.policy(), &mut headers, &mut HeaderTexts::new());

        assert_eq!(headers.get("ratelimit-policy").unwrap(), "\"default\";q=1000;w=5");
        assert_eq!(headers.get("ratelimit").unwrap(), "\"default\";r=700;t=2");
    }

    #[test]
    fn an_hourly_quota_refills_over_the_hour() {
        const MINUTE_MS: i64 = 60_000;
        let limiter = RateLimiter::new(RateQuota::per_hour(5), 10);
        (0..5).for_each(|_| assert!(limiter.check(1, 1, at_ms(0)).is_allowed()));

        assert!(!limiter.check(1, 1, at_ms(12 * MINUTE_MS - 1)).is_allowed());

        assert!(limiter.check(1, 1, at_ms(12 * MINUTE_MS)).is_allowed());
    }

    #[test]
    fn returned_units_can_be_used_again_but_do_not_add_to_the_burst() {
        let limiter = ten_per_second_five_at_once();
        for _ in 0..5 {
            let _decision = limiter.check(1, 1, at_ms(0));
        }

        limiter.give_back(1, 1, at_ms(0));
        let again = [limiter.check(1, 1, at_ms(0)), limiter.check(1, 1, at_ms(0))];
        limiter.give_back(2, 5, at_ms(0));
        let burst = (0..9).filter(|_| limiter.check(2, 1, at_ms(0)).is_allowed()).count();

        assert_eq!(again.map(|decision| decision.is_allowed()), [true, false]);
        assert_eq!(burst, 5, "returned units must not exceed the burst");
    }

    #[test]
    fn a_clock_set_back_locks_no_key_out_for_longer_than_the_window() {
        const HOUR_MS: i64 = 3_600_000;
        let limiter = ten_per_second_five_at_once();
        for _ in 0..5 {
            let _decision = limiter.check(1, 1, at_ms(HOUR_MS));
        }

        let refused = limiter.check(1, 1, at_ms(0));

        assert_eq!((refused.is_allowed(), refused.retry_after_ms), (false, Some(100)));
    }

    #[test]
    fn a_clock_set_back_leaves_each_key_what_it_had() {
        let limiter = ten_per_second_five_at_once();
        let left = |at: i64| limiter.check(1, 1, at_ms(at)).remaining;
        assert_eq!([left(60_000), left(60_000)], [4, 3]);

        // Five seconds, and then an hour.
        assert_eq!(left(55_000), 2);
        assert_eq!(left(55_100), 2, "a unit came back");
        assert_eq!([left(-3_544_900), left(-3_544_900)], [1, 0]);
        assert!(!limiter.check(1, 1, at_ms(-3_544_900)).is_allowed());
        assert!(limiter.check(1, 1, at_ms(-3_544_800)).is_allowed());
    }

    #[test]
    fn keys_with_a_full_quota_are_removed() {
        let limiter = ten_per_second_five_at_once();
        for key in 0..100 {
            let _decision = limiter.check(key, 1, at_ms(0));
        }
        limiter.check(100, 5, at_ms(0));
        assert_eq!(limiter.keys(), 101);

        limiter.forget_idle(at_ms(100));

        assert_eq!(limiter.keys(), 1);
    }

    #[test]
    fn a_flood_of_new_keys_shares_one_quota_per_shard_and_takes_no_memory() {
        const KEYS_MAX: usize = 64;
        let limiter = RateLimiter::new(RateQuota::per_second(10, 5), KEYS_MAX);

        let allowed =
            (0..10_000).filter(|key| limiter.check(*key, 1, at_ms(0)).is_allowed()).count();

        assert_eq!(limiter.keys(), KEYS_MAX);
        assert_eq!(allowed, KEYS_MAX + 5 * SHARDS);
        assert_eq!(limiter.check(0, 1, at_ms(0)).remaining, 3, "a known key keeps its own quota");
    }

    proptest! {
        /// Over any time, no more is allowed than the burst plus what was refilled.
        #[test]
        fn never_more_than_the_quota_is_allowed(
            steps in prop::collection::vec((0_i64..400, 1_u32..4), 1..200),
        ) {
            let limiter = ten_per_second_five_at_once();
            let (mut now, mut taken) = (0, 0);
            for (pause, cost) in steps {
                now += pause;
                if limiter.check(1, cost, at_ms(now)).is_allowed() {
                    taken += i64::from(cost);
                }
                prop_assert!(taken <= 5 + now / 100, "{taken} after {now} ms");
            }
        }
    }
}
