//! How many calls may run at the same time: in this process, for one customer, for one account.

use std::hash::Hash;
use std::sync::Arc;

use transport::{LoadCounter, LoadGuard, LoadMap};

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Calls in this process.
    pub process_max: usize,
    /// Calls of one customer.
    pub customer_max: usize,
    /// Calls to one account.
    pub account_max: usize,
}

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    /// The process has too many: 503.
    Process,
    /// The customer has too many: 429.
    Customer,
    /// The account has too many: 429.
    Account,
}

/// Counts the calls in flight, by customer `C` and account `A`.
#[derive(Debug)]
pub struct InFlight<C, A> {
    limits: InFlightLimits,
    process: Arc<LoadCounter>,
    customers: LoadMap<C>,
    accounts: LoadMap<A>,
}

/// One call's permits; dropping them releases them.
#[derive(Debug)]
pub struct InFlightPermit {
    _process: LoadGuard,
    _customer: LoadGuard,
    _account: LoadGuard,
}

impl<C: Hash + Eq, A: Hash + Eq> InFlight<C, A> {
    /// Starts with no calls in flight.
    pub fn new(limits: InFlightLimits) -> Self {
        Self {
            limits,
            process: Arc::default(),
            customers: LoadMap::new(),
            accounts: LoadMap::new(),
        }
    }

    /// The load of a customer. All callers share one counter while any of them holds it.
    pub fn of_customer(&self, customer: C) -> Arc<LoadCounter> {
        self.customers.of(customer)
    }

    /// The load of an account.
    pub fn of_account(&self, account: A) -> Arc<LoadCounter> {
        self.accounts.of(account)
    }

    /// Admits a call, or returns which limit was reached; a refused call is not counted.
    pub fn take(
        &self,
        customer: &Arc<LoadCounter>,
        account: &Arc<LoadCounter>,
    ) -> Result<InFlightPermit, TooMany> {
        let InFlightLimits { process_max, customer_max, account_max } = self.limits;
        Ok(InFlightPermit {
            _process: LoadGuard::enter(&self.process, process_max).ok_or(TooMany::Process)?,
            _customer: LoadGuard::enter(customer, customer_max).ok_or(TooMany::Customer)?,
            _account: LoadGuard::enter(account, account_max).ok_or(TooMany::Account)?,
        })
    }

    /// Calls in flight in this process; for metrics.
    pub fn running(&self) -> usize {
        self.process.amount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight(process_max: usize, customer_max: usize, account_max: usize) -> InFlight<u8, u8> {
        InFlight::new(InFlightLimits { process_max, customer_max, account_max })
    }

    #[test]
    fn refusal_names_the_limit_reached() {
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
    fn limit_of_one_customer_does_not_affect_another() {
        let calls = in_flight(9, 1, 1);
        let _first = calls.take(&Arc::default(), &Arc::default()).unwrap();

        assert!(calls.take(&Arc::default(), &Arc::default()).is_ok());
    }

    #[test]
    fn refused_and_finished_calls_are_not_counted() {
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
}
