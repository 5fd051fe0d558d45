//! Whose balance has just become low: noticed where batches of calls are committed, acted on elsewhere.
//!
//! The writer of the metering asks here after each commit, so it costs a look into a table for each customer of a batch,
//! and nothing while nobody wants automatic top-up. A customer who was noticed is not noticed again until the next look
//! at everybody, so that a balance that stays low asks the database at most so often.

use std::collections::{HashMap, HashSet};

use domain::credits::Credits;
use domain::id::CustomerId;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};

/// Charges that this node makes at once.
const AT_ONCE: usize = 16;

/// What this process knows of thresholds and of balances below them.
pub struct LowBalances {
    thresholds: RwLock<HashMap<CustomerId, Credits>>,
    noticed: Mutex<HashSet<CustomerId>>,
    busy: Mutex<HashSet<CustomerId>>,
    signal: Notify,
    ended: Notify,
    /// Places for charges.
    pub(super) places: Semaphore,
}

impl Default for LowBalances {
    fn default() -> Self {
        Self::new()
    }
}

impl LowBalances {
    /// No thresholds so far.
    pub fn new() -> Self {
        Self {
            thresholds: RwLock::default(),
            noticed: Mutex::default(),
            busy: Mutex::default(),
            signal: Notify::new(),
            ended: Notify::new(),
            places: Semaphore::new(AT_ONCE),
        }
    }

    /// Looks at the balances that a commit has made true.
    pub fn look(&self, balances: &[(CustomerId, Credits)]) {
        let low: Vec<CustomerId> = {
            let thresholds = self.thresholds.read();
            if thresholds.is_empty() {
                return;
            }
            let is_low = |(customer, available): &&(CustomerId, Credits)| {
                thresholds.get(customer).is_some_and(|threshold| available < threshold)
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

    /// Begins to notice this customer, or notices it again.
    pub(super) fn watch(&self, customer: CustomerId, threshold: Credits) {
        self.thresholds.write().insert(customer, threshold);
    }

    /// No longer notices this customer.
    pub(super) fn forget(&self, customer: CustomerId) {
        self.thresholds.write().remove(&customer);
    }

    /// Notices exactly these from now on.
    pub(super) fn watch_all(&self, thresholds: Vec<(CustomerId, Credits)>) {
        *self.thresholds.write() = thresholds.into_iter().collect();
    }

    /// Waits until somebody is noticed.
    pub(super) async fn some(&self) {
        self.signal.notified().await;
    }

    /// Those who were noticed since this was asked last.
    pub(super) fn take(&self) -> Vec<CustomerId> {
        std::mem::take(&mut *self.noticed.lock()).into_iter().collect()
    }

    /// Marks a customer whom this process works for. False when it does already.
    pub(super) fn begin(&self, customer: CustomerId) -> bool {
        self.busy.lock().insert(customer)
    }

    /// The work is done.
    pub(super) fn end(&self, customer: CustomerId) {
        self.busy.lock().remove(&customer);
        self.ended.notify_waiters();
    }

    /// Waits until this process works for nobody.
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
    fn a_balance_below_its_threshold_is_noticed_once() {
        let low = LowBalances::new();
        low.look(&[(customer(1), credits(0))]);
        assert!(low.take().is_empty(), "nobody wants it");
        low.watch_all(vec![(customer(1), credits(10)), (customer(2), credits(10))]);

        low.look(&[
            (customer(1), credits(9)),
            (customer(2), credits(10)),
            (customer(3), credits(0)),
        ]);
        low.look(&[(customer(1), credits(8))]);

        assert_eq!(low.take(), [customer(1)]);
        low.look(&[(customer(1), credits(7))]);
        assert!(low.take().is_empty(), "not again before the next look at everybody");
        low.watch(customer(1), credits(10));
        low.look(&[(customer(1), credits(6))]);
        assert_eq!(low.take(), [customer(1)]);
        low.forget(customer(2));
        low.look(&[(customer(2), credits(0))]);
        assert!(low.take().is_empty());
    }
}
