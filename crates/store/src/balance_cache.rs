//! SQLite's balances in memory: committed credits less those reserved by running calls.
//!
//! The process that holds the SQLite file is the authority for every balance, so a read may be sent
//! as soon as its credits are reserved here. Committed balances change only under the write lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::CustomerId;
use foldhash::fast::RandomState;

/// Above this number of customers, those without reservations are evicted; they are read again when
/// needed.
const CUSTOMERS_MAX: usize = 65_536;

/// Clones share the same balances.
#[derive(Debug, Clone, Default)]
pub(crate) struct BalanceCache {
    entries: Arc<Mutex<HashMap<CustomerId, CachedBalance, RandomState>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct CachedBalance {
    /// The available credits in the database; `None` when they must be read again.
    committed: Option<i64>,
    /// Credits reserved by calls whose holds are not committed yet.
    reserved: i64,
}

/// The result of asking for credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreditTaking {
    Taken,
    /// The balance is too low; this is what is left.
    TooLow(i64),
    /// The balance must be read first.
    Unknown,
}

impl BalanceCache {
    /// Reserves `cost` if the balance covers it.
    pub(crate) fn take(&self, customer: CustomerId, cost: i64) -> CreditTaking {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&customer) else {
            return CreditTaking::Unknown;
        };
        let Some(committed) = entry.committed else {
            return CreditTaking::Unknown;
        };
        let left = committed.saturating_sub(entry.reserved);
        if left < cost {
            return CreditTaking::TooLow(left);
        }
        entry.reserved = entry.reserved.saturating_add(cost);
        CreditTaking::Taken
    }

    /// What a customer has left, if known: committed less reserved credits.
    pub(crate) fn left(&self, customer: CustomerId) -> Option<i64> {
        let entries = self.entries();
        let entry = entries.get(&customer)?;
        entry.committed.map(|committed| committed.saturating_sub(entry.reserved))
    }

    /// Ends a reservation whose hold was committed, refused or failed.
    pub(crate) fn give_back(&self, customer: CustomerId, cost: i64) {
        if let Some(entry) = self.entries().get_mut(&customer) {
            entry.reserved = entry.reserved.saturating_sub(cost);
        }
    }

    /// Stores a balance read from the database. Only for the holder of the write lock.
    pub(crate) fn load(&self, customer: CustomerId, available: i64) {
        let mut entries = self.entries();
        if entries.len() >= CUSTOMERS_MAX {
            entries.retain(|_, entry| entry.reserved != 0);
        }
        entries.entry(customer).or_default().committed = Some(available);
    }

    /// Prepares the changes to publish once the commit succeeds.
    pub(crate) fn publication(&self, changes: CommitChanges) -> BalancePublication {
        BalancePublication { cache: self.clone(), changes }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<CustomerId, CachedBalance, RandomState>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a transaction changes in the cache once it is committed.
#[derive(Debug, Default)]
pub(crate) struct CommitChanges {
    /// The customers' available credits after the commit.
    pub(crate) balances: Vec<(CustomerId, i64)>,
    /// Reservations that end with the commit.
    pub(crate) releases: Vec<(CustomerId, i64)>,
}

/// Cache changes that take effect with a commit. If it is dropped unpublished (the commit failed,
/// or the wait for it was cancelled), the balances become unknown and are read again.
pub(crate) struct BalancePublication {
    cache: BalanceCache,
    changes: CommitChanges,
}

impl BalancePublication {
    /// Publishes the changes after a successful commit. Customers not in the cache stay out of it.
    pub(crate) fn publish(mut self) {
        let changes = std::mem::take(&mut self.changes);
        let mut entries = self.cache.entries();
        for (customer, available) in changes.balances {
            if let Some(entry) = entries.get_mut(&customer) {
                entry.committed = Some(available);
            }
        }
        for (customer, cost) in changes.releases {
            if let Some(entry) = entries.get_mut(&customer) {
                entry.reserved = entry.reserved.saturating_sub(cost);
            }
        }
        drop(entries);
    }
}

impl Drop for BalancePublication {
    fn drop(&mut self) {
        if self.changes.balances.is_empty() {
            return;
        }
        let mut entries = self.cache.entries();
        for (customer, _) in &self.changes.balances {
            if let Some(entry) = entries.get_mut(customer) {
                entry.committed = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn customer(number: u8) -> CustomerId {
        CustomerId::new(Timestamp::from_unix_micros(0), [number; 10])
    }

    fn balance(number: u8, available: i64) -> CommitChanges {
        CommitChanges { balances: vec![(customer(number), available)], releases: Vec::new() }
    }

    #[test]
    fn reservations_never_exceed_the_committed_balance() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);

        assert_eq!(cache.take(customer(1), 3), CreditTaking::Taken);
        assert_eq!((cache.left(customer(1)), cache.left(customer(2))), (Some(2), None));
        assert_eq!(cache.take(customer(1), 3), CreditTaking::TooLow(2));
        cache.give_back(customer(1), 3);
        assert_eq!(cache.take(customer(1), 5), CreditTaking::Taken);
    }

    #[test]
    fn a_balance_that_was_not_read_is_unknown() {
        let cache = BalanceCache::default();

        assert_eq!(cache.take(customer(1), 0), CreditTaking::Unknown);
        cache.publication(balance(1, 7)).publish();

        assert_eq!(cache.take(customer(1), 0), CreditTaking::Unknown);
    }

    #[test]
    fn a_commit_with_unknown_outcome_makes_the_balance_unknown() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);

        drop(cache.publication(balance(1, 9)));

        assert_eq!(cache.take(customer(1), 1), CreditTaking::Unknown);
        cache.load(customer(1), 9);
        assert_eq!(cache.take(customer(1), 9), CreditTaking::Taken);
    }

    #[test]
    fn publishing_a_balance_keeps_reservations() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);
        assert_eq!(cache.take(customer(1), 4), CreditTaking::Taken);

        cache.publication(balance(1, 10)).publish();

        assert_eq!(cache.take(customer(1), 7), CreditTaking::TooLow(6));
    }

    #[test]
    fn a_reservation_ends_with_the_commit_of_its_hold() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);
        assert_eq!(cache.take(customer(1), 4), CreditTaking::Taken);

        let changes = CommitChanges { releases: vec![(customer(1), 4)], ..balance(1, 1) };
        cache.publication(changes).publish();

        assert_eq!(cache.take(customer(1), 2), CreditTaking::TooLow(1));
    }
}
