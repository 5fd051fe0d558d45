//! What a customer may still spend, for responses that cost nothing: refusals of ours and responses that are given again.
//!
//! On SQLite the balance is in memory. Elsewhere the one that was shown last counts for a second, so that refusals, however
//! many there are, ask the database once a second for each key.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::credits::Credits;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use failures::Failure;
use web::ApiError;

use super::cache::KeyEntry;
use crate::state::GatewayState;

/// How long a balance that was shown may be shown again.
const SHOWN_FOR_MICROS: i64 = MICROS_PER_SECOND;
/// How long a refusal waits for its balance; then it goes without.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// Stands for no balance.
const UNKNOWN: i64 = -1;

/// The balance that the users of a key were shown last, and when.
#[derive(Debug)]
pub(crate) struct ShownBalance {
    credits: AtomicI64,
    at: AtomicI64,
}

/// What is known of a balance without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RememberedBalance {
    /// It is this much.
    Balance(Credits),
    /// It could not be read lately.
    Unreadable,
    /// Nothing: it must be read.
    Nothing,
}

impl Default for ShownBalance {
    fn default() -> Self {
        Self { credits: AtomicI64::new(UNKNOWN), at: AtomicI64::new(i64::MIN) }
    }
}

impl ShownBalance {
    /// It is shown now.
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

/// The balance for a refusal. Where the service itself is in trouble nothing is read for it.
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
        // Whoever asks may be another customer.
        ApiError::ConflictingCustomers => None,
        _ => known(gateway, key).await,
    }
}

/// The balance, read where it is not remembered.
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
    fn a_balance_is_shown_again_for_a_second() {
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
    fn a_balance_that_could_not_be_read_is_not_asked_for_again_at_once() {
        let shown = ShownBalance::default();
        let noon = Timestamp::from_unix_micros(43_200_000_000);

        shown.put(UNKNOWN, noon);

        assert_eq!(shown.fresh(noon), RememberedBalance::Unreadable);
        assert_eq!(shown.fresh(noon.plus_seconds(1)), RememberedBalance::Nothing);
    }
}
