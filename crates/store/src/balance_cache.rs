//! The balances of SQLite in memory: what is committed, less what calls on their way have reserved.
//!
//! The process that holds the SQLite file is the authority for every balance, so a read may leave as soon
//! as its credits are taken here. Committed balances change only under the write lock of the one writer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::CustomerId;
use foldhash::fast::RandomState;

/// Above so many customers, those without a call on its way are forgotten; they are read again when needed.
const CUSTOMERS_MAX: usize = 65_536;

/// Every clone shows the same balances.
#[derive(Debug, Clone, Default)]
pub(crate) struct BalanceCache {
    entries: Arc<Mutex<HashMap<CustomerId, CachedBalance, RandomState>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct CachedBalance {
    /// What the database says is available; nothing when that must be read again.
    committed: Option<i64>,
    /// What calls whose holds are not committed yet have taken.
    reserved: i64,
}

/// What came of asking for credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreditTaking {
    Taken,
    /// Too low; this much was there.
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

    /// What a customer has left, where it is known: committed, less what is reserved.
    pub(crate) fn left(&self, customer: CustomerId) -> Option<i64> {
        let entries = self.entries();
        let entry = entries.get(&customer)?;
        entry.committed.map(|committed| committed.saturating_sub(entry.reserved))
    }

    /// Ends a reservation: its hold is committed, refused or failed.
    pub(crate) fn give_back(&self, customer: CustomerId, cost: i64) {
        if let Some(entry) = self.entries().get_mut(&customer) {
            entry.reserved = entry.reserved.saturating_sub(cost);
        }
    }

    /// Notes a balance read from the database. Only for the holder of the write lock.
    pub(crate) fn load(&self, customer: CustomerId, available: i64) {
        let mut entries = self.entries();
        if entries.len() >= CUSTOMERS_MAX {
            entries.retain(|_, entry| entry.reserved != 0);
        }
        entries.entry(customer).or_default().committed = Some(available);
    }

    /// Prepares to show balances that a commit is about to make true.
    pub(crate) fn publication(&self, changes: CommitChanges) -> BalancePublication {
        BalancePublication { cache: self.clone(), changes }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<CustomerId, CachedBalance, RandomState>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a transaction changes, once it is committed.
#[derive(Debug, Default)]
pub(crate) struct CommitChanges {
    /// What customers have available after it.
    pub(crate) balances: Vec<(CustomerId, i64)>,
    /// Reservations that end with it.
    pub(crate) releases: Vec<(CustomerId, i64)>,
}

/// Balances that become true with a commit. Dropped unpublished (the commit failed, or nobody waited for
/// it), the balances count as unknown and are read again.
pub(crate) struct BalancePublication {
    cache: BalanceCache,
    changes: CommitChanges,
}

impl BalancePublication {
    /// The commit succeeded. Customers who are not in the cache stay out of it.
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
    fn no_more_is_reserved_than_is_committed() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);

        assert_eq!(cache.take(customer(1), 3), CreditTaking::Taken);
        assert_eq!((cache.left(customer(1)), cache.left(customer(2))), (Some(2), None));
        assert_eq!(cache.take(customer(1), 3), CreditTaking::TooLow(2));
        cache.give_back(customer(1), 3);
        assert_eq!(cache.take(customer(1), 5), CreditTaking::Taken);
    }

    #[test]
    fn a_balance_nobody_read_is_unknown() {
        let cache = BalanceCache::default();

        assert_eq!(cache.take(customer(1), 0), CreditTaking::Unknown);
        cache.publication(balance(1, 7)).publish();

        assert_eq!(cache.take(customer(1), 0), CreditTaking::Unknown);
    }

    #[test]
    fn a_commit_that_nobody_saw_succeed_makes_the_balance_unknown() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);

        drop(cache.publication(balance(1, 9)));

        assert_eq!(cache.take(customer(1), 1), CreditTaking::Unknown);
        cache.load(customer(1), 9);
        assert_eq!(cache.take(customer(1), 9), CreditTaking::Taken);
    }

    #[test]
    fn a_published_balance_keeps_what_is_reserved() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);
        assert_eq!(cache.take(customer(1), 4), CreditTaking::Taken);

        cache.publication(balance(1, 10)).publish();

        assert_eq!(cache.take(customer(1), 7), CreditTaking::TooLow(6));
    }

    #[test]
    fn a_reservation_ends_with_the_commit_that_shows_its_hold() {
        let cache = BalanceCache::default();
        cache.load(customer(1), 5);
        assert_eq!(cache.take(customer(1), 4), CreditTaking::Taken);

        let changes = CommitChanges { releases: vec![(customer(1), 4)], ..balance(1, 1) };
        cache.publication(changes).publish();

        assert_eq!(cache.take(customer(1), 2), CreditTaking::TooLow(1));
    }
}
