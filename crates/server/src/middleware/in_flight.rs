//! How many calls may be going on at once: in this process, for one customer, for one connected account.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::keyed_count::{Counted, KeyedCount};

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

/// Counts of calls that are going on, by customer `C` and connected account `A`.
#[derive(Debug)]
pub(crate) struct InFlight<C, A> {
    limits: InFlightLimits,
    process: Arc<AtomicUsize>,
    customers: Arc<KeyedCount<C>>,
    accounts: Arc<KeyedCount<A>>,
}

/// One call's places; dropping it frees them.
#[derive(Debug)]
pub(crate) struct Permit<C: Eq + Hash, A: Eq + Hash> {
    _process: ProcessPlace,
    _customer: Counted<C>,
    _account: Counted<A>,
}

#[derive(Debug)]
struct ProcessPlace(Arc<AtomicUsize>);

impl<C: Eq + Hash + Clone, A: Eq + Hash + Clone> InFlight<C, A> {
    pub(crate) fn new(limits: InFlightLimits) -> Self {
        Self {
            limits,
            process: Arc::new(AtomicUsize::new(0)),
            customers: Arc::new(KeyedCount::new()),
            accounts: Arc::new(KeyedCount::new()),
        }
    }

    /// Takes a call in, or says which limit is reached; then nothing is counted.
    pub(crate) fn take(&self, customer: C, account: A) -> Result<Permit<C, A>, TooMany> {
        let before = self.process.fetch_add(1, Ordering::Relaxed);
        // From here on dropping the place takes the call out again.
        let process = ProcessPlace(Arc::clone(&self.process));
        if before >= self.limits.process_max {
            return Err(TooMany::Process);
        }
        let customer =
            self.customers.enter(customer, self.limits.customer_max).ok_or(TooMany::Customer)?;
        let account =
            self.accounts.enter(account, self.limits.account_max).ok_or(TooMany::Account)?;
        Ok(Permit { _process: process, _customer: customer, _account: account })
    }

    /// Calls that are going on in this process; for metrics.
    pub(crate) fn running(&self) -> usize {
        self.process.load(Ordering::Relaxed)
    }
}

impl Drop for ProcessPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
        ];
        for (calls, expected) in cases {
            let _first = calls.take(1, 1).unwrap();

            assert_eq!(calls.take(1, 1).unwrap_err(), expected);
        }
    }

    #[test]
    fn one_customers_limit_leaves_room_for_another() {
        let calls = in_flight(9, 1, 1);
        let _first = calls.take(1, 1).unwrap();

        assert!(calls.take(2, 2).is_ok());
    }

    #[test]
    fn a_refused_or_finished_call_counts_nowhere() {
        let calls = in_flight(2, 2, 1);
        let first = calls.take(1, 1).unwrap();
        let refusals: Vec<_> = (0..10).map(|_| calls.take(1, 1).unwrap_err()).collect();

        assert_eq!(refusals, [TooMany::Account; 10]);
        assert_eq!(calls.running(), 1);
        drop(first);

        assert_eq!(calls.running(), 0);
        assert!(calls.take(1, 1).is_ok());
    }
}
