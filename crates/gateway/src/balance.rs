//! What a customer may still spend, for responses that cost nothing: our refusals and replayed
//! responses.
//!
//! On SQLite the balance is in memory. On PostgreSQL the balance last shown is reused for a second,
//! so that refusals, however many, query the database at most once a second for each key.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::credits::Credits;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use failures::Failure;
use web::ApiError;

use super::cache::KeyEntry;
use crate::state::GatewayState;

/// How long a balance may be shown again without reading it.
const SHOWN_FOR_MICROS: i64 = MICROS_PER_SECOND;
/// How long a refusal waits for the balance before it is sent without it.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// Stands for an unknown balance.
const UNKNOWN: i64 = -1;

/// The balance last shown to the users of a key, and when.
#[derive(Debug)]
pub(crate) struct ShownBalance {
    credits: AtomicI64,
    at: AtomicI64,
}

/// What is known of a balance without a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RememberedBalance {
    /// The balance is known.
    Balance(Credits),
    /// It could not be read recently.
    Unreadable,
    /// Unknown: it must be read.
    Nothing,
}

impl Default for ShownBalance {
    fn default() -> Self {
        Self { credits: AtomicI64::new(UNKNOWN), at: AtomicI64::new(i64::MIN) }
    }
}

impl ShownBalance {
    /// Records the balance shown now.
    pub(super) fn note(&self, balance: Credits, now: Timestamp) {
        self.put(balance.whole(), now);
    }

    fn put(&self, credits: i64, now: Timestamp) {
        self.credits.store(credits, Ordering::Relaxed);
        self.at.store(now.unix_micros(), Ordering::Relaxed);
    }

    fn fresh(&self, now: Timestamp) -> RememberedBalance {
        let age = now.unix_micros().saturating_sub(self.at.load(Ordering::Relaxed));
        match self.credits.load(Ordering::Relaxed) {
            _ if !(0..SHOWN_FOR_MICROS).contains(&age) => RememberedBalance::Nothing,
            UNKNOWN => RememberedBalance::Unreadable,
            credits => RememberedBalance::Balance(Credits::from_whole(credits)),
        }
    }
}

/// The balance to show with a refusal. When the service itself fails, the balance is not queried.
pub(super) async fn shown(
    gateway: &GatewayState,
    key: &KeyEntry,
    refusal: &ApiError,
) -> Option<Credits> {
    match refusal {
        ApiError::Failure(Failure::InsufficientCredits { balance, .. }) => Some(*balance),
        ApiError::Failure(Failure::Store(_) | Failure::Overloaded | Failure::Internal(_)) => {
            match remembered(gateway, key) {
                RememberedBalance::Balance(balance) => Some(balance),
                RememberedBalance::Unreadable | RememberedBalance::Nothing => None,
            }
        }
        // The caller may be another customer.
        ApiError::ConflictingCustomers => None,
        _ => known(gateway, key).await,
    }
}

/// The balance, read if it is not remembered.
pub(super) async fn known(gateway: &GatewayState, key: &KeyEntry) -> Option<Credits> {
    match remembered(gateway, key) {
        RememberedBalance::Balance(balance) => return Some(balance),
        RememberedBalance::Unreadable => return None,
        RememberedBalance::Nothing => {}
    }
    let (store, customer) = (gateway.store.clone(), key.customer);
    let lookup = async move { store::usage::balance(&store, customer).await };
    let looked = tokio::time::timeout(WAIT_MAX, gateway.tasks.on_control(lookup)).await;
    let balance = looked.ok().and_then(|read| read.ok()?.ok()?).map(|balance| balance.available);
    key.shown.put(balance.map_or(UNKNOWN, Credits::whole), gateway.clock.now());
    balance
}

fn remembered(gateway: &GatewayState, key: &KeyEntry) -> RememberedBalance {
    match gateway.meter().balance_in_memory(key.customer) {
        Some(balance) => RememberedBalance::Balance(balance),
        None => key.shown.fresh(gateway.clock.now()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_balance_is_reused_for_a_second() {
        let shown = ShownBalance::default();
        let noon = Timestamp::from_unix_micros(43_200_000_000);
        assert_eq!(shown.fresh(noon), RememberedBalance::Nothing);

        shown.note(Credits::from_whole(7), noon);

        let seven = RememberedBalance::Balance(Credits::from_whole(7));
        assert_eq!(shown.fresh(noon), seven);
        assert_eq!(shown.fresh(noon.plus_micros(999_999)), seven);
        assert_eq!(shown.fresh(noon.plus_seconds(1)), RememberedBalance::Nothing);
    }

    #[test]
    fn failed_read_is_not_repeated_within_a_second() {
        let shown = ShownBalance::default();
        let noon = Timestamp::from_unix_micros(43_200_000_000);

        shown.put(UNKNOWN, noon);

        assert_eq!(shown.fresh(noon), RememberedBalance::Unreadable);
        assert_eq!(shown.fresh(noon.plus_seconds(1)), RememberedBalance::Nothing);
    }
}
