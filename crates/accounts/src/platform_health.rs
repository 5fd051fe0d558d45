//! The health of whole platforms: whether one refuses all credentials, when it last accepted some,
//! and whether its responses have drifted.
//!
//! Which platforms refuse all credentials is the node's copy of what the store has for all nodes.
//! The node that notices a change writes it to the store; the others read it when they are
//! notified, and every ten seconds. Drift is counted by each node for its own calls.

use std::sync::atomic::{AtomicI64, Ordering};

use catalog::Catalog;
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::time::{MICROS_PER_MILLI, Timestamp};
use runtime::metrics;
use store::platform_health::RefusingPlatform;

use crate::AccountsState;
use crate::drift::{DriftBook, DriftKind, DriftResponse, DriftRule};

/// Successes within this time count as one, so that memory shared by all cores is not written with
/// each call.
const SUCCESS_GRAIN_MICROS: i64 = 100 * MICROS_PER_MILLI;

/// While a platform refuses all credentials, one token is refreshed in this time.
const REFRESH_EVERY_MICROS: i64 = 200 * MICROS_PER_MILLI;

/// What this node knows of all platforms.
pub struct PlatformHealth {
    platforms: PerPlatform<OnePlatform>,
    /// Responses that differ from the usual ones.
    pub drift: DriftBook,
}

#[derive(Default)]
struct OnePlatform {
    /// In microseconds; 0 if it does not refuse all credentials.
    refusing_since: AtomicI64,
    last_success_at: AtomicI64,
    /// When the next token may be refreshed, while it refuses all credentials.
    refresh_from: AtomicI64,
}

impl PlatformHealth {
    /// All platforms are healthy as far as is known.
    pub fn new(catalog: &Catalog, drift: DriftRule) -> Self {
        let platforms = PerPlatform::of_all(|_| OnePlatform::default());
        Self { platforms, drift: DriftBook::new(catalog, drift) }
    }

    /// Whether the platform refuses the credentials of far more accounts than usual, so that a
    /// refusal says nothing about the account.
    pub fn refuses_unusually_many(&self, platform: Platform) -> bool {
        self.drift.is_degraded(platform, DriftKind::Unauthorized)
    }

    /// Since when the platform refuses all credentials; `None` if it does not.
    pub fn refusing_since(&self, platform: Platform) -> Option<Timestamp> {
        let since = self.of(platform)?.refusing_since.load(Ordering::Relaxed);
        (since != 0).then(|| Timestamp::from_unix_micros(since))
    }

    /// Whether a token may be refreshed now; the caller that gets `true` does it. While the
    /// platform refuses all credentials this node refreshes five tokens a second, however many
    /// accounts there are.
    pub fn takes_refresh(&self, platform: Platform, now: Timestamp) -> bool {
        if self.refusing_since(platform).is_none() {
            return true;
        }
        let Some(one) = self.of(platform) else { return false };
        let from = one.refresh_from.load(Ordering::Relaxed);
        let (now, next) = (now.unix_micros(), now.plus_micros(REFRESH_EVERY_MICROS).unix_micros());
        from <= now
            && one
                .refresh_from
                .compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The latest success that this node recorded.
    pub fn last_success_at(&self, platform: Platform) -> Timestamp {
        let at = self.of(platform).map_or(0, |one| one.last_success_at.load(Ordering::Relaxed));
        Timestamp::from_unix_micros(at)
    }

    /// Records a success. True if the platform was known to refuse all credentials.
    fn succeeded(&self, platform: Platform, at: Timestamp) -> bool {
        let Some(one) = self.of(platform) else { return false };
        let at = at.unix_micros();
        if at.saturating_sub(one.last_success_at.load(Ordering::Relaxed)) >= SUCCESS_GRAIN_MICROS {
            one.last_success_at.fetch_max(at, Ordering::Relaxed);
        }
        one.refusing_since.load(Ordering::Relaxed) != 0
    }

    /// Sets the current state. A change is logged, as an error if the platform starts to refuse.
    pub fn set_refusing(&self, platform: Platform, since: Option<Timestamp>) {
        let Some(one) = self.of(platform) else { return };
        let since = since.map_or(0, Timestamp::unix_micros);
        let before = one.refusing_since.swap(since, Ordering::Relaxed);
        metrics::platform_refusing(platform, since != 0);
        if before == 0 && since != 0 {
            tracing::error!(
                %platform,
                "the platform refuses the credentials of several customers: check how this service signs in to it; \
                 no account is marked for it"
            );
        }
        if before != 0 && since == 0 {
            tracing::warn!(%platform, "the platform accepts credentials again");
        }
    }

    fn set_all(&self, refusing: &[RefusingPlatform]) {
        for platform in Platform::all() {
            let found = refusing.iter().find(|found| found.platform == platform);
            self.set_refusing(platform, found.map(|found| found.since));
        }
    }

    fn of(&self, platform: Platform) -> Option<&OnePlatform> {
        self.platforms.get(platform)
    }
}

/// Records that the platform accepted an account's credentials, which ends a refusal of all
/// credentials.
pub fn note_success(accounts: &AccountsState, platform: Platform, at: Timestamp) {
    if accounts.platform_health.succeeded(platform, at) {
        let recovery = recover(accounts.clone(), platform);
        accounts.tasks.spawn_control(Box::pin(recovery));
    }
}

/// Counts a response. If the platform has just begun to refuse the credentials of several
/// customers, the accounts that were marked for it in the last `within_s` seconds are unmarked.
pub fn note_response(accounts: &AccountsState, response: &DriftResponse<'_>, within_s: i64) {
    if accounts.platform_health.drift.note(response) {
        let since = response.at.plus_seconds(-within_s);
        let unmarking = unmark(accounts.clone(), response.platform, since);
        accounts.tasks.spawn_control(Box::pin(unmarking));
    }
}

/// Unmarks the accounts that were marked since then.
pub async fn unmark(accounts: AccountsState, platform: Platform, since: Timestamp) {
    match store::platform_health::unmark_refused(&accounts.store, platform, since).await {
        Ok(unmarked) => {
            for (customer, creator) in &unmarked {
                accounts.cached.forget_account(*customer, creator);
            }
        }
        Err(error) => {
            tracing::warn!(%error, %platform, "accounts marked during drift could not be unmarked");
        }
    }
}

async fn recover(accounts: AccountsState, platform: Platform) {
    let now = accounts.clock.now();
    // Memory first, so that of many successful calls one writes to the store.
    accounts.platform_health.set_refusing(platform, None);
    if let Err(error) =
        store::platform_health::record_recovery(&accounts.store, platform, now).await
    {
        tracing::warn!(%error, %platform, "the recovery of a platform could not be recorded");
    }
}

/// Reads the state that all nodes share.
pub async fn read(accounts: &AccountsState) {
    match store::platform_health::list_refusing(&accounts.store).await {
        Ok(refusing) => accounts.platform_health.set_all(&refusing),
        Err(error) => tracing::warn!(%error, "the health of the platforms could not be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> PlatformHealth {
        PlatformHealth::new(&Catalog::empty(), DriftRule::OFF)
    }

    #[test]
    fn successes_within_the_grain_are_written_once() {
        let health = health();
        let start = Timestamp::from_unix_micros(1_000_000_000);
        let at = |millis: i64| Timestamp::from_unix_micros(1_000_000_000 + millis * 1_000);

        for millis in [0, 99, 50] {
            assert!(!health.succeeded(Platform::BETA, at(millis)));
        }

        assert_eq!(health.last_success_at(Platform::BETA), start);
        health.succeeded(Platform::BETA, at(100));
        assert_eq!(health.last_success_at(Platform::BETA), at(100));
        assert_eq!(health.last_success_at(Platform::ALPHA).unix_micros(), 0);
    }

    #[test]
    fn success_reports_whether_the_platform_was_refusing() {
        let health = health();
        let now = Timestamp::from_unix_micros(7);

        health.set_refusing(Platform::GAMMA, Some(now));

        assert!(health.succeeded(Platform::GAMMA, now));
        assert!(!health.succeeded(Platform::DELTA, now));
        assert_eq!(health.refusing_since(Platform::GAMMA), Some(now));
        health.set_all(&[]);
        assert_eq!(health.refusing_since(Platform::GAMMA), None);
    }

    #[test]
    fn refusing_platform_gets_five_refreshes_a_second() {
        let health = health();
        let at = |millis: i64| Timestamp::from_unix_micros(1_000_000 + millis * MICROS_PER_MILLI);
        let taken = |from: i64, to: i64| {
            (from..to).filter(|millis| health.takes_refresh(Platform::DELTA, at(*millis))).count()
        };
        assert_eq!(taken(0, 10), 10);

        health.set_refusing(Platform::DELTA, Some(at(10)));

        assert_eq!(taken(1_000, 2_000), 5);
        assert!(health.takes_refresh(Platform::ALPHA, at(2_000)));
    }
}
