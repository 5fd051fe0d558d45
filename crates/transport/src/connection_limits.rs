//! How many connections may be open, in total and from one address.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::loads::{LoadGuard, LoadMap};
use crate::networks::{IpNetwork, is_trusted, network_of, site_of};

use super::ListenerSettings;
use super::activity::ConnectionEnding;

/// The limits of a listener and what it has counted, shared by its cores.
#[derive(Debug)]
pub struct ConnectionLimits {
    total_max: usize,
    per_ip_max: usize,
    trusted_proxies: Vec<IpNetwork>,
    open: AtomicUsize,
    by_ip: LoadMap<IpAddr>,
    by_site: LoadMap<IpAddr>,
    counts: PermitCounts,
}

#[derive(Debug, Default)]
struct PermitCounts {
    accepted: AtomicU64,
    refused: AtomicU64,
    refused_by_ip: AtomicU64,
    idle: AtomicU64,
    stalled: AtomicU64,
}

/// What a listener has counted since it started, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open now.
    pub open: usize,
    /// Accepted and served.
    pub accepted: u64,
    /// Closed immediately because too many were open.
    pub refused: u64,
    /// Closed immediately because too many from that address were open.
    pub refused_by_ip: u64,
    /// Closed because no complete request head arrived in time.
    pub closed_idle: u64,
    /// Closed because the peer did not read its response.
    pub closed_stalled: u64,
}

/// The permission of a connection to be open; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    _counted: Option<(LoadGuard, Option<LoadGuard>)>,
}

/// An IPv6 site may have this many times the connections of one of its networks.
const SITE_FACTOR: usize = 2;

impl ConnectionLimits {
    pub(crate) fn new(settings: &ListenerSettings) -> Self {
        Self {
            total_max: settings.connections_max,
            per_ip_max: settings.connections_per_ip_max,
            trusted_proxies: settings.trusted_proxies.clone(),
            open: AtomicUsize::new(0),
            by_ip: LoadMap::new(),
            by_site: LoadMap::new(),
            counts: PermitCounts::default(),
        }
    }

    /// A permit for a new connection from `ip`; `None` if a limit is reached.
    pub(crate) fn enter(self: &Arc<Self>, ip: IpAddr) -> Option<ConnectionPermit> {
        let counted = if self.is_exempt(ip) {
            None
        } else if let Some(counted) = self.count(ip) {
            Some(counted)
        } else {
            self.counts.refused_by_ip.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let open_before = self.open.fetch_add(1, Ordering::Relaxed);
        // From here on, dropping the permit uncounts the connection.
        let permit = ConnectionPermit { limits: Arc::clone(self), _counted: counted };
        if open_before >= self.total_max {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        Some(permit)
    }

    /// Counts a connection of an address, and of its IPv6 site if it has one.
    fn count(&self, ip: IpAddr) -> Option<(LoadGuard, Option<LoadGuard>)> {
        let of_ip = LoadGuard::enter(&self.by_ip.of(network_of(ip)), self.per_ip_max)?;
        let Some(site) = site_of(ip) else { return Some((of_ip, None)) };
        let site_max = self.per_ip_max.saturating_mul(SITE_FACTOR);
        Some((of_ip, Some(LoadGuard::enter(&self.by_site.of(site), site_max)?)))
    }

    /// Records how a connection ended.
    pub(crate) fn ended(&self, ending: ConnectionEnding) {
        match ending {
            ConnectionEnding::Idle => self.counts.idle.fetch_add(1, Ordering::Relaxed),
            ConnectionEnding::Stalled => self.counts.stalled.fetch_add(1, Ordering::Relaxed),
            ConnectionEnding::Closed | ConnectionEnding::Drained => 0,
        };
    }

    /// The counts so far.
    pub fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.open.load(Ordering::Relaxed),
            accepted: self.counts.accepted.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            refused_by_ip: self.counts.refused_by_ip.load(Ordering::Relaxed),
            closed_idle: self.counts.idle.load(Ordering::Relaxed),
            closed_stalled: self.counts.stalled.load(Ordering::Relaxed),
        }
    }

    fn is_exempt(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || is_trusted(ip, &self.trusted_proxies)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limits.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;

    fn limits(total_max: usize, per_ip_max: usize) -> Arc<ConnectionLimits> {
        Arc::new(ConnectionLimits::new(&ListenerSettings {
            connections_max: total_max,
            connections_per_ip_max: per_ip_max,
            trusted_proxies: vec!["10.1.0.0/16".parse().unwrap()],
            ..settings()
        }))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_total_is_never_exceeded_and_a_closed_connection_frees_its_place() {
        let limits = limits(2, 10);
        let first = limits.enter(ip("192.0.2.1")).unwrap();
        let _second = limits.enter(ip("192.0.2.2")).unwrap();

        assert!(limits.enter(ip("192.0.2.3")).is_none());
        drop(first);

        assert!(limits.enter(ip("192.0.2.3")).is_some());
        assert_eq!((limits.counts().accepted, limits.counts().refused), (3, 1));
    }

    #[test]
    fn one_address_cannot_use_up_the_connections_of_others() {
        let limits = limits(100, 2);
        let _held =
            [limits.enter(ip("192.0.2.1")).unwrap(), limits.enter(ip("192.0.2.1")).unwrap()];

        assert!(limits.enter(ip("192.0.2.1")).is_none());
        assert!(limits.enter(ip("192.0.2.2")).is_some());

        assert_eq!(limits.counts().refused_by_ip, 1);
        assert_eq!(limits.counts().open, 2, "the refused one is not counted");
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_count_as_one() {
        let limits = limits(100, 1);
        let _held = limits.enter(ip("2001:db8:1:2::1")).unwrap();

        assert!(limits.enter(ip("2001:db8:1:2:ffff::9")).is_none());
        assert!(limits.enter(ip("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn the_networks_of_one_ipv6_site_share_a_limit() {
        let limits = limits(100, 2);
        let held: Vec<_> = (0..20)
            .filter_map(|number| limits.enter(ip(&format!("2001:db8:1:{number}::1"))))
            .collect();

        assert_eq!(held.len(), 4);
        assert!(limits.enter(ip("2001:db8:2::1")).is_some());
        drop(held);
        assert!(limits.enter(ip("2001:db8:1:99::1")).is_some());
    }

    #[test]
    fn only_the_total_limits_loopback_and_trusted_proxies() {
        let limits = limits(4, 1);

        let held: Vec<_> = ["127.0.0.1", "127.0.0.1", "10.1.2.3", "10.1.2.3", "10.1.2.3"]
            .map(ip)
            .into_iter()
            .filter_map(|ip| limits.enter(ip))
            .collect();

        assert_eq!(held.len(), 4);
    }

    #[test]
    fn each_way_to_end_is_counted_for_itself() {
        let limits = limits(10, 10);

        for ending in [
            ConnectionEnding::Idle,
            ConnectionEnding::Stalled,
            ConnectionEnding::Stalled,
            ConnectionEnding::Closed,
            ConnectionEnding::Drained,
        ] {
            limits.ended(ending);
        }

        let counted = ConnectionCounts { closed_idle: 1, closed_stalled: 2, ..Default::default() };
        assert_eq!(limits.counts(), counted);
    }

    #[test]
    fn a_connection_that_the_total_refuses_does_not_count_for_its_address() {
        let limits = limits(1, 1);
        let first = limits.enter(ip("192.0.2.1")).unwrap();
        for _ in 0..5 {
            assert!(limits.enter(ip("192.0.2.2")).is_none());
        }
        drop(first);

        assert!(limits.enter(ip("192.0.2.2")).is_some());
        let counts = limits.counts();
        assert_eq!((counts.refused, counts.refused_by_ip, counts.open), (5, 0, 0));
    }

    #[test]
    fn a_network_that_its_site_refuses_does_not_use_up_its_own_places() {
        let limits = limits(100, 1);
        let of_site = [limits.enter(ip("2001:db8:1:1::1")), limits.enter(ip("2001:db8:1:2::1"))];
        assert!(of_site.iter().all(Option::is_some));
        assert!(limits.enter(ip("2001:db8:1:3::1")).is_none(), "the site has two already");
        drop(of_site);

        assert!(limits.enter(ip("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn many_threads_never_have_more_open_than_may_be() {
        let limits = limits(20, 7);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let limits = &limits;
                scope.spawn(move || {
                    for round in 0..500 {
                        let address = ip(&format!("192.0.2.{}", (thread + round) % 5));
                        let held: Vec<_> = (0..9).filter_map(|_| limits.enter(address)).collect();
                        assert!(held.len() <= 7, "{}", held.len());
                    }
                });
            }
        });

        let counts = limits.counts();
        assert_eq!(counts.open, 0);
        assert_eq!(counts.accepted + counts.refused + counts.refused_by_ip, 4 * 500 * 9);
    }
}
