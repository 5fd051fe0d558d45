//! Rate limits for networks, on this node: an IPv4 address, an IPv6 /64, and more loosely an IPv6
//! /48, which contains 65,536 of them. Loopback is not limited.

use std::net::IpAddr;

use domain::time::Timestamp;
use http::HeaderValue;
use transport::{network_of, site_of};

use super::rate_limit::{RateDecision, RateLimiter, RateQuota};

/// The quota of an IPv6 site, as a multiple of that of one of its networks.
const SITE_FACTOR: u32 = 8;

/// Limits every network, and every IPv6 site, to a quota.
#[derive(Debug)]
pub struct NetworkLimiter {
    networks: RateLimiter<IpAddr>,
    sites: RateLimiter<IpAddr>,
}

impl NetworkLimiter {
    /// A limiter that remembers at most about `networks_max` networks, and as many sites.
    pub fn new(quota: RateQuota, networks_max: usize) -> Self {
        Self {
            networks: RateLimiter::new(quota, networks_max),
            sites: RateLimiter::new(quota.times(SITE_FACTOR), networks_max),
        }
    }

    /// Counts one unit for the address's network; `None` for loopback, which has no limit.
    pub fn check(&self, ip: IpAddr, now: Timestamp) -> Option<RateDecision> {
        if ip.is_loopback() {
            return None;
        }
        let of_site = site_of(ip).map(|site| (site, self.sites.check(site, 1, now)));
        match of_site {
            Some((_, refused)) if refused.retry_after_ms.is_some() => Some(refused),
            of_site => {
                let decision = self.networks.check(network_of(ip), 1, now);
                if let (Some(_), Some((site, _))) = (decision.retry_after_ms, of_site) {
                    self.sites.give_back(site, 1, now);
                }
                Some(decision)
            }
        }
    }

    /// The `RateLimit-Policy` of one network.
    pub fn policy(&self, name: &str) -> HeaderValue {
        self.networks.policy_named(name)
    }

    /// Returns a unit that turned out not to count.
    pub fn give_back(&self, ip: IpAddr, now: Timestamp) {
        if ip.is_loopback() {
            return;
        }
        self.networks.give_back(network_of(ip), 1, now);
        if let Some(site) = site_of(ip) {
            self.sites.give_back(site, 1, now);
        }
    }

    /// Removes networks whose quota is full again. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        self.networks.forget_idle(now);
        self.sites.forget_idle(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_allowed(limiter: &NetworkLimiter, address: &str) -> bool {
        let decision = limiter.check(ip(address), Timestamp::from_unix_micros(0));
        decision.is_none_or(|decision| decision.is_allowed())
    }

    #[test]
    fn each_network_has_its_own_quota() {
        let limiter = NetworkLimiter::new(RateQuota::per_hour(2), 100);

        let of_one = [(); 3].map(|()| is_allowed(&limiter, "203.0.113.7"));

        assert_eq!(of_one, [true, true, false]);
        assert!(is_allowed(&limiter, "203.0.113.8"));
        assert!((0..10).all(|_| is_allowed(&limiter, "127.0.0.1")));
    }

    #[test]
    fn a_site_has_eight_times_the_quota_of_its_networks() {
        let limiter = NetworkLimiter::new(RateQuota::per_hour(2), 100);
        let of_site = |number: u32| is_allowed(&limiter, &format!("2001:db8:1:{number:x}::1"));

        assert_eq!((0..30).filter(|number| of_site(*number)).count(), 16);
        assert!(is_allowed(&limiter, "2001:db8:2::1"));
    }

    #[test]
    fn returned_units_can_be_used_again_and_refusals_count_nothing() {
        let limiter = NetworkLimiter::new(RateQuota::per_hour(1), 100);
        let (one, now) = ("2001:db8:1:1::1", Timestamp::from_unix_micros(0));
        assert!(is_allowed(&limiter, one));
        for _ in 0..20 {
            assert!(!is_allowed(&limiter, one));
        }

        limiter.give_back(ip(one), now);

        assert!(is_allowed(&limiter, one));
        assert!(is_allowed(&limiter, "2001:db8:1:2::1"), "refusals were counted against the site");
    }
}
