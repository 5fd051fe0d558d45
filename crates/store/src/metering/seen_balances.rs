//! PostgreSQL's balances as this node last saw them: they decide whether a read may leave before
//! its hold is committed.
//!
//! Other nodes change the same balances, so this promises nothing. The commit decides, and the
//! response of a read whose hold it refuses is withheld. What is seen here only keeps reads from
//! leaving in vain: near the end of a balance they wait for their hold, as writes do.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::CustomerId;
use foldhash::fast::RandomState;

/// Above this number of customers, those without calls in flight are forgotten.
const CUSTOMERS_MAX: usize = 65_536;

/// The balances of the customers whose calls this node meters.
#[derive(Debug, Default)]
pub(crate) struct SeenBalances {
    entries: Mutex<HashMap<CustomerId, SeenBalance, RandomState>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SeenBalance {
    /// The available credits after this node's last commit; `None` while they are unknown.
    available: Option<i64>,
    /// What all nodes held then for open calls and exports.
    held: i64,
    /// What other nodes took between this node's last two commits; halved when they take less.
    taken_by_others: i64,
    /// The cost of this node's calls whose holds are not committed yet.
    in_flight: i64,
}

/// A customer's balance in a transaction that has locked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockedSight {
    pub(crate) customer: CustomerId,
    /// The available credits before the transaction.
    pub(crate) before: i64,
    /// The available credits after it.
    pub(crate) after: i64,
    /// What is held after it.
    pub(crate) held: i64,
}

impl SeenBalance {
    /// Whether the balance covers this cost, whatever is in flight here and however much the other
    /// nodes take until the commit, as far as is known.
    fn covers(&self, cost: i64) -> bool {
        let Some(available) = self.available else { return false };
        let margin = self.in_flight.saturating_add(self.held).saturating_add(self.taken_by_others);
        available.saturating_sub(margin) >= cost
    }

    fn see(&mut self, sight: &LockedSight) {
        let left = self.available.unwrap_or(sight.before);
        let taken = left.saturating_sub(sight.before).max(0);
        self.taken_by_others = taken.max(self.taken_by_others / 2);
        self.available = Some(sight.after);
        self.held = sight.held;
    }
}

impl SeenBalances {
    /// Counts a call as in flight. True if the balance covers it with a margin.
    pub(crate) fn enter(&self, customer: CustomerId, cost: i64) -> bool {
        let mut entries = self.entries();
        if entries.len() >= CUSTOMERS_MAX && !entries.contains_key(&customer) {
            entries.retain(|_, entry| entry.in_flight != 0);
        }
        let entry = entries.entry(customer).or_default();
        let is_covered = entry.covers(cost);
        entry.in_flight = entry.in_flight.saturating_add(cost);
        is_covered
    }

    /// Ends calls whose holds were decided, and takes over the balances seen with the commit.
    pub(crate) fn decided(
        &self,
        calls: impl Iterator<Item = (CustomerId, i64)>,
        sights: &[LockedSight],
    ) {
        let mut entries = self.entries();
        for (customer, cost) in calls {
            if let Some(entry) = entries.get_mut(&customer) {
                entry.in_flight = entry.in_flight.saturating_sub(cost);
            }
        }
        for sight in sights {
            if let Some(entry) = entries.get_mut(&sight.customer) {
                entry.see(sight);
            }
        }
    }

    /// Ends a call whose hold was not written. Its customer's next call waits for its hold.
    pub(crate) fn failed(&self, customer: CustomerId, cost: i64) {
        if let Some(entry) = self.entries().get_mut(&customer) {
            entry.in_flight = entry.in_flight.saturating_sub(cost);
            entry.available = None;
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<CustomerId, SeenBalance, RandomState>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;
    use std::iter;

    fn customer() -> CustomerId {
        CustomerId::new(Timestamp::from_unix_micros(0), [1; 10])
    }

    fn sight(before: i64, after: i64, held: i64) -> LockedSight {
        LockedSight { customer: customer(), before, after, held }
    }

    /// The balances after a call with this sight.
    fn after(sight: LockedSight) -> SeenBalances {
        let seen = SeenBalances::default();
        seen.enter(customer(), 0);
        seen.decided(iter::empty(), &[sight]);
        seen
    }

    #[test]
    fn an_unknown_balance_covers_nothing() {
        let seen = SeenBalances::default();

        assert!(!seen.enter(customer(), 0));

        seen.decided(iter::once((customer(), 0)), &[sight(6, 5, 0)]);
        assert!(seen.enter(customer(), 5));
    }

    #[test]
    fn calls_in_flight_are_part_of_the_margin() {
        let seen = after(sight(10, 10, 0));
        assert!(seen.enter(customer(), 6));
        assert!(!seen.enter(customer(), 6));

        seen.decided([(customer(), 6), (customer(), 6)].into_iter(), &[sight(10, 4, 0)]);

        assert!(seen.enter(customer(), 4));
    }

    #[test]
    fn what_is_held_is_part_of_the_margin() {
        let seen = after(sight(10, 10, 7));

        assert!(!seen.enter(customer(), 4));
        seen.decided(iter::once((customer(), 4)), &[]);
        assert!(seen.enter(customer(), 3));
    }

    #[test]
    fn what_other_nodes_took_is_part_of_the_margin_and_fades() {
        let seen = after(sight(100, 100, 0));
        seen.decided(iter::empty(), &[sight(60, 60, 0)]);
        assert!(!seen.enter(customer(), 21));
        seen.decided(iter::once((customer(), 21)), &[sight(60, 60, 0)]);

        assert!(seen.enter(customer(), 40));
    }

    #[test]
    fn a_failed_commit_makes_the_balance_unknown() {
        let seen = after(sight(10, 10, 0));
        assert!(seen.enter(customer(), 1));

        seen.failed(customer(), 1);

        assert!(!seen.enter(customer(), 1));
    }
}
