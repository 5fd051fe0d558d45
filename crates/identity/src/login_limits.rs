//! Limits on wrong passwords, counted on this node.
//!
//! A browser that the customer recognizes (`devices.rs`) has a counter of its own, and no other
//! limit applies to it. All others are counted together: for each pair of address and network, for
//! each network, and for each address. Only wrong passwords count.

use std::net::IpAddr;

use domain::customer::Email;
use domain::id::CustomerId;
use domain::time::Timestamp;
use domain::token::TokenHash;
use failures::Failure;
use settings::RateLimitsSection;
use transport::neighbourhood_of;
use web::middleware::network_limit::NetworkLimiter;
use web::middleware::rate_limit::{RateLimiter, RateQuota};

use crate::IdentityState;

/// The number of networks, addresses, pairs and devices that are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// Limits failed logins, on this node.
pub struct LoginLimits {
    /// For an address from one network.
    here: RateLimiter<(Email, IpAddr)>,
    /// For strangers in one network, whatever the address.
    network: NetworkLimiter,
    /// For strangers and one address, whatever the network.
    email: RateLimiter<Email>,
    /// For a browser that a customer recognizes.
    device: RateLimiter<(CustomerId, TokenHash)>,
}

/// Who sends a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guesser {
    /// A caller whom nothing vouches for.
    Stranger,
    /// A caller with a session of the customer or an emailed link, in a browser that is not
    /// recognized.
    Caller,
    /// A browser that the customer recognizes.
    Device(CustomerId, TokenHash),
}

/// A counter of wrong passwords.
#[derive(Debug, Clone, Copy)]
enum GuessCounter {
    Here,
    Network,
    Email,
    Device(CustomerId, TokenHash),
}

/// An attempt at the password of an address from a network. It is counted before the password is
/// checked, so that concurrent attempts gain nothing. It stays counted only if the password was
/// wrong, not if it was right or never checked.
pub(crate) struct LoginAttempt<'a> {
    identity: &'a IdentityState,
    email: Email,
    ip: IpAddr,
    /// The counters it was counted in, to be given back.
    counted: Vec<GuessCounter>,
}

impl LoginLimits {
    /// Starts without failed logins.
    pub fn new(rates: &RateLimitsSection) -> Self {
        let here = RateQuota::per_hour(rates.wrong_passwords_per_hour);
        let network = RateQuota::per_hour(rates.failed_logins_per_network_per_hour);
        let email = RateQuota::per_hour(rates.failed_logins_per_address_per_hour);
        Self {
            here: RateLimiter::new(here, REMEMBERED_MAX),
            network: NetworkLimiter::new(network, REMEMBERED_MAX),
            email: RateLimiter::new(email, REMEMBERED_MAX),
            device: RateLimiter::new(here, REMEMBERED_MAX),
        }
    }

    /// Forgets entries that no longer limit anything. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        self.here.forget_idle(now);
        self.network.forget_idle(now);
        self.email.forget_idle(now);
        self.device.forget_idle(now);
    }
}

impl Guesser {
    /// The counters that apply, in order.
    fn counters(self) -> Vec<GuessCounter> {
        match self {
            // The network comes first: once it is refused, the addresses that it makes up leave no
            // trace.
            Self::Stranger => vec![GuessCounter::Network, GuessCounter::Here, GuessCounter::Email],
            Self::Caller => vec![GuessCounter::Here],
            Self::Device(customer, device) => vec![GuessCounter::Device(customer, device)],
        }
    }
}

impl<'a> LoginAttempt<'a> {
    /// Counts an attempt. 429 if a limit is reached, which counts nothing.
    pub(crate) fn begin(
        identity: &'a IdentityState,
        email: &Email,
        ip: IpAddr,
        guesser: Guesser,
    ) -> Result<Self, Failure> {
        let mut attempt = Self { identity, email: email.clone(), ip, counted: Vec::new() };
        let now = identity.clock.now();
        for counter in guesser.counters() {
            if let Some(retry_after_ms) = attempt.count(counter, now) {
                return Err(Failure::TooManyLogins { retry_after_ms });
            }
            attempt.counted.push(counter);
        }
        Ok(attempt)
    }

    /// Keeps it counted.
    pub(crate) fn was_wrong(mut self) {
        self.counted.clear();
    }

    /// Counts it, or returns the time after which that is possible.
    fn count(&self, counter: GuessCounter, now: Timestamp) -> Option<i64> {
        let limits = &self.identity.login_limits;
        match counter {
            GuessCounter::Here => limits.here.check(self.here(), 1, now).retry_after_ms,
            GuessCounter::Network => limits.network.check(self.ip, now)?.retry_after_ms,
            GuessCounter::Email => limits.email.check(self.email.clone(), 1, now).retry_after_ms,
            GuessCounter::Device(customer, device) => {
                limits.device.check((customer, device), 1, now).retry_after_ms
            }
        }
    }

    fn give_back(&self, counter: GuessCounter, now: Timestamp) {
        let limits = &self.identity.login_limits;
        match counter {
            GuessCounter::Here => limits.here.give_back(self.here(), 1, now),
            GuessCounter::Network => limits.network.give_back(self.ip, now),
            GuessCounter::Email => limits.email.give_back(self.email.clone(), 1, now),
            GuessCounter::Device(customer, device) => {
                limits.device.give_back((customer, device), 1, now);
            }
        }
    }

    fn here(&self) -> (Email, IpAddr) {
        (self.email.clone(), neighbourhood_of(self.ip))
    }
}

impl Drop for LoginAttempt<'_> {
    fn drop(&mut self) {
        let now = self.identity.clock.now();
        for counter in std::mem::take(&mut self.counted) {
            self.give_back(counter, now);
        }
    }
}
