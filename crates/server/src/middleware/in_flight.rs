//! How many calls may be going on at once: in this process, for one customer, for one connected account; and how many
//! connections of one address.
//!
//! Whoever is called often is found once: its [`Load`] is kept with what else is remembered of it, so that a call
//! counts without looking anything up.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// So many remembered loads are never looked through for those that nobody has any more.
const REMEMBERED_MIN: usize = 1_024;

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "bounds come last in names")]
pub(crate) struct InFlightLimits {
    /// Calls in this process.
    pub(crate) process_max: usize,
    /// Calls of one customer.
    pub(crate) customer_max: usize,
    /// Calls to one connected account.
    pub(crate) account_max: usize,
}

/// Which limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// The process takes no more: 503.
    Process,
    /// The customer has too many: 429.
    Customer,
    /// The connected account has too many: 429.
    Account,
}

/// What is going on at present, of one customer, one account or one address: how many, or how many bytes.
#[derive(Debug, Default)]
pub(crate) struct Load(AtomicUsize);

impl Load {
    /// Adds `amount`, if that makes `max` at most.
    pub(super) fn take(&self, amount: usize, max: usize) -> bool {
        let more = |load: usize| load.checked_add(amount).filter(|load| *load <= max);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes `amount` away again.
    pub(super) fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }
}

/// Counts of calls that are going on, by customer `C` and connected account `A`.
#[derive(Debug)]
pub(crate) struct InFlight<C, A> {
    limits: InFlightLimits,
    process: Arc<Load>,
    customers: Loads<C>,
    accounts: Loads<A>,
}

/// One call's places; dropping it frees them.
#[derive(Debug)]
pub(crate) struct Permit {
    _process: Counted,
    _customer: Counted,
    _account: Counted,
}

/// One that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Load>);

/// The loads that somebody has, by whom they are of.
#[derive(Debug)]
pub(crate) struct Loads<K>(Mutex<Remembered<K>>);

#[derive(Debug)]
struct Remembered<K> {
    by_key: HashMap<K, Weak<Load>>,
    /// At so many those that nobody has any more are forgotten.
    full_at: usize,
}

impl<C: Hash + Eq, A: Hash + Eq> InFlight<C, A> {
    pub(crate) fn new(limits: InFlightLimits) -> Self {
        Self { limits, process: Arc::default(), customers: Loads::new(), accounts: Loads::new() }
    }

    /// The load of a customer: the same for all who ask while somebody has it.
    pub(crate) fn of_customer(&self, customer: C) -> Arc<Load> {
        self.customers.of(customer)
    }

    /// The load of a connected account.
    pub(crate) fn of_account(&self, account: A) -> Arc<Load> {
        self.accounts.of(account)
    }

    /// Takes a call in, or says which limit is reached; then nothing is counted.
    pub(crate) fn take(
        &self,
        customer: &Arc<Load>,
        account: &Arc<Load>,
    ) -> Result<Permit, TooMany> {
        let InFlightLimits { process_max, customer_max, account_max } = self.limits;
        Ok(Permit {
            _process: Counted::enter(&self.process, process_max).ok_or(TooMany::Process)?,
            _customer: Counted::enter(customer, customer_max).ok_or(TooMany::Customer)?,
            _account: Counted::enter(account, account_max).ok_or(TooMany::Account)?,
        })
    }

    /// Calls that are going on in this process; for metrics.
    pub(crate) fn running(&self) -> usize {
        self.process.0.load(Ordering::Relaxed)
    }
}

impl Counted {
    /// Counts one more, unless there are `max` already.
    pub(crate) fn enter(load: &Arc<Load>, max: usize) -> Option<Self> {
        load.take(1, max).then(|| Self(Arc::clone(load)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

impl<K: Hash + Eq> Loads<K> {
    /// Nobody has any yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Remembered { by_key: HashMap::new(), full_at: REMEMBERED_MIN }))
    }

    /// The load of this key: the same for all who ask while somebody has it.
    pub(crate) fn of(&self, key: K) -> Arc<Load> {
        let mut remembered = self.0.lock();
        if remembered.by_key.len() >= remembered.full_at {
            remembered.forget_unused();
        }
        let place = remembered.by_key.entry(key).or_default();
        place.upgrade().unwrap_or_else(|| {
            let load = Arc::default();
            *place = Arc::downgrade(&load);
            load
        })
    }
}

impl<K: Hash + Eq> Remembered<K> {
    fn forget_unused(&mut self) {
        self.by_key.retain(|_, load| load.strong_count() > 0);
        self.by_key.shrink_to_fit();
        self.full_at = (self.by_key.len() * 2).max(REMEMBERED_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight(process_max: usize, customer_max: usize, account_max: usize) -> InFlight<u8, u8> {
        InFlight::new(InFlightLimits { process_max, customer_max, account_max })
    }

    #[test]
    fn the_refusal_says_which_limit_is_reached() {
        let cases = [
            (in_flight(1, 9, 9), TooMany::Process),
            (in_flight(9, 1, 9), TooMany::Customer),
            (in_flight(9, 9, 1), TooMany::Account),
            (in_flight(9, 9, 0), TooMany::Account),
        ];
        for (calls, expected) in cases {
            let (customer, account) = (Arc::default(), Arc::default());
            let _first = calls.take(&customer, &account);

            assert_eq!(calls.take(&customer, &account).unwrap_err(), expected);
        }
    }

    #[test]
    fn one_customers_limit_leaves_room_for_another() {
        let calls = in_flight(9, 1, 1);
        let _first = calls.take(&Arc::default(), &Arc::default()).unwrap();

        assert!(calls.take(&Arc::default(), &Arc::default()).is_ok());
    }

    #[test]
    fn a_refused_or_finished_call_counts_nowhere() {
        let calls = in_flight(2, 2, 1);
        let (customer, account) = (Arc::default(), Arc::default());
        let first = calls.take(&customer, &account).unwrap();
        let refusals: Vec<_> =
            (0..10).map(|_| calls.take(&customer, &account).unwrap_err()).collect();

        assert_eq!(refusals, [TooMany::Account; 10]);
        assert_eq!(calls.running(), 1);
        drop(first);

        assert_eq!(calls.running(), 0);
        assert!(calls.take(&customer, &account).is_ok());
    }

    #[test]
    fn a_load_is_the_same_for_all_as_long_as_somebody_has_it() {
        let loads = Loads::new();
        let first = loads.of("a");

        assert!(Arc::ptr_eq(&first, &loads.of("a")));
        assert!(!Arc::ptr_eq(&first, &loads.of("b")));
    }

    #[test]
    fn loads_that_nobody_has_take_no_memory_for_long() {
        let loads = Loads::new();
        let kept = loads.of(0);

        for key in 1..100_000 {
            drop(loads.of(key));
        }

        assert!(loads.0.lock().by_key.len() <= REMEMBERED_MIN);
        assert!(Arc::ptr_eq(&kept, &loads.of(0)));
    }

    #[test]
    fn many_threads_at_once_stay_within_the_maximum() {
        let load = Arc::default();

        let entered: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let held: Vec<_> =
                            (0..100).filter_map(|_| Counted::enter(&load, 50)).collect();
                        let held_count = held.len();
                        // Held until every thread is done, so that no place is used twice.
                        std::mem::forget(held);
                        held_count
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });

        assert_eq!(entered, 50);
    }
}
