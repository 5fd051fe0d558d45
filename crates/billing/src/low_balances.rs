//! Customers whose balance has just become low: noticed where batches of calls are committed,
//! handled elsewhere.
//!
//! The metering writer reports balances here after each commit. That costs one table lookup for
//! each customer of a batch, and nothing while no customer uses automatic top-up. A customer who
//! was noticed is not noticed again until the next check of all customers, which limits the queries
//! for a balance that stays low.

use std::collections::{HashMap, HashSet};

use domain::credits::Credits;
use domain::id::CustomerId;
use parking_lot::{Mutex, RwLock};
use store::top_up_settings::TopUpThreshold;
use tokio::sync::{Notify, Semaphore};

/// The number of charges that this node makes concurrently.
const AT_ONCE: usize = 16;

/// The thresholds of customers, and those whose balance fell below.
pub struct LowBalances {
    thresholds: RwLock<HashMap<CustomerId, Credits>>,
    noticed: Mutex<HashSet<CustomerId>>,
    busy: Mutex<HashSet<CustomerId>>,
    looked: Mutex<HashSet<CustomerId>>,
    signal: Notify,
    ended: Notify,
    /// Limits concurrent charges.
    pub(super) places: Semaphore,
}

impl Default for LowBalances {
    fn default() -> Self {
        Self::new()
    }
}

impl LowBalances {
    /// Starts without thresholds.
    pub fn new() -> Self {
        Self {
            thresholds: RwLock::default(),
            noticed: Mutex::default(),
            busy: Mutex::default(),
            looked: Mutex::default(),
            signal: Notify::new(),
            ended: Notify::new(),
            places: Semaphore::new(AT_ONCE),
        }
    }

    /// Checks the balances after a commit.
    pub fn look(&self, balances: &[(CustomerId, Credits)]) {
        let low: Vec<CustomerId> = {
            let thresholds = self.thresholds.read();
            if thresholds.is_empty() {
                return;
            }
            let is_low = |(customer, credits): &&(CustomerId, Credits)| {
                thresholds.get(customer).is_some_and(|threshold| credits < threshold)
            };
            balances.iter().filter(is_low).map(|(customer, _)| *customer).collect()
        };
        if low.is_empty() {
            return;
        }
        {
            let mut thresholds = self.thresholds.write();
            for customer in &low {
                thresholds.remove(customer);
            }
        }
        self.noticed.lock().extend(low);
        self.signal.notify_one();
    }

    /// Starts to watch this customer's balance, again if it was noticed before.
    pub(super) fn watch(&self, customer: CustomerId, threshold: Credits) {
        self.thresholds.write().insert(customer, threshold);
    }

    /// Stops watching this customer's balance.
    pub(super) fn forget(&self, customer: CustomerId) {
        self.thresholds.write().remove(&customer);
    }

    /// Replaces all thresholds.
    pub(super) fn watch_all(&self, thresholds: Vec<TopUpThreshold>) {
        let watched = thresholds.into_iter().map(|one| (one.customer, one.threshold));
        *self.thresholds.write() = watched.collect();
    }

    /// Waits until a customer is noticed.
    pub(super) async fn some(&self) {
        self.signal.notified().await;
    }

    /// The customers noticed since the last call.
    pub(super) fn take(&self) -> Vec<CustomerId> {
        std::mem::take(&mut *self.noticed.lock()).into_iter().collect()
    }

    /// Whether this process has looked for the customer's payments at the processor.
    pub(super) fn has_looked(&self, customer: CustomerId) -> bool {
        self.looked.lock().contains(&customer)
    }

    /// Records that it has.
    pub(super) fn note_look(&self, customer: CustomerId) {
        self.looked.lock().insert(customer);
    }

    /// Marks a customer as being worked on by this process. False if it already was.
    pub(super) fn begin(&self, customer: CustomerId) -> bool {
        self.busy.lock().insert(customer)
    }

    /// Marks the work for a customer as done.
    pub(super) fn end(&self, customer: CustomerId) {
        self.busy.lock().remove(&customer);
        self.ended.notify_waiters();
    }

    /// Waits until this process works on no customer.
    pub(super) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.busy.lock().is_empty() {
                return;
            }
            ended.await;
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

    fn credits(whole: i64) -> Credits {
        Credits::from_whole(whole)
    }

    #[test]
    fn balance_below_its_threshold_is_noticed_once() {
        let low = LowBalances::new();
        low.look(&[(customer(1), credits(0))]);
        assert!(low.take().is_empty(), "without a threshold nothing is noticed");
        let of = |number| TopUpThreshold { customer: customer(number), threshold: credits(10) };
        low.watch_all(vec![of(1), of(2)]);

        low.look(&[
            (customer(1), credits(9)),
            (customer(2), credits(10)),
            (customer(3), credits(0)),
        ]);
        low.look(&[(customer(1), credits(8))]);

        assert_eq!(low.take(), [customer(1)]);
        low.look(&[(customer(1), credits(7))]);
        assert!(low.take().is_empty(), "not noticed again before the next check of all customers");
        low.watch(customer(1), credits(10));
        low.look(&[(customer(1), credits(6))]);
        assert_eq!(low.take(), [customer(1)]);
        low.forget(customer(2));
        low.look(&[(customer(2), credits(0))]);
        assert!(low.take().is_empty());
    }
}
