//! Balances connections over the cores.
//!
//! The kernel chooses the core that accepts a connection by a hash of its addresses. Connections
//! last long, so a core that got more than its share would lag for as long as they last, while
//! another core is idle. The core that accepts a connection therefore passes it on, before reading
//! its first byte, if another core has fewer open.

use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::connection_limits::ConnectionPermit;

/// A core may have one connection more than another for every so many connections of the other; a
/// smaller difference is not worth passing a connection on.
const CONNECTIONS_PER_DIFFERENCE: usize = 64;

/// The cores of a listener, and how many connections each of them has.
#[derive(Debug)]
pub(crate) struct ConnectionBalancer(Vec<Arc<BalancedCore>>);

#[derive(Debug)]
struct BalancedCore {
    index: usize,
    open: AtomicUsize,
    inbox: mpsc::UnboundedSender<AcceptedConnection>,
}

/// The connections that other cores accepted for a core.
pub(crate) type CoreInbox = mpsc::UnboundedReceiver<AcceptedConnection>;

/// An open connection within the limits.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) ip: IpAddr,
    pub(crate) assignment: CoreAssignment,
}

/// The core that serves a connection, and the connection's permit; dropping it frees both.
#[derive(Debug)]
pub(crate) struct CoreAssignment {
    core: Arc<BalancedCore>,
    _permit: ConnectionPermit,
}

impl ConnectionBalancer {
    /// Creates a balancer over `cores` cores; also returns their inboxes, in order.
    pub(crate) fn over(cores: usize) -> (Self, Vec<CoreInbox>) {
        let (cores, inboxes) = (0..cores)
            .map(|index| {
                let (inbox, accepted) = mpsc::unbounded_channel();
                (Arc::new(BalancedCore { index, open: AtomicUsize::new(0), inbox }), accepted)
            })
            .unzip();
        (Self(cores), inboxes)
    }

    /// Chooses the core for a connection that core `own` has accepted: that core, unless another
    /// has fewer, beyond the tolerated difference. `None` if there is no core `own`.
    pub(crate) fn assign(&self, own: usize, permit: ConnectionPermit) -> Option<CoreAssignment> {
        let own = self.0.get(own)?;
        let fewest = self.0.iter().min_by_key(|core| core.open())?;
        let core = if own.open() > bearable(fewest.open()) { fewest } else { own };
        core.open.fetch_add(1, Ordering::Relaxed);
        Some(CoreAssignment { core: Arc::clone(core), _permit: permit })
    }
}

/// The most connections a core may have while the least loaded core has `fewest`.
const fn bearable(fewest: usize) -> usize {
    fewest + fewest / CONNECTIONS_PER_DIFFERENCE
}

impl BalancedCore {
    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl CoreAssignment {
    /// Whether the connection is to be served by this core.
    pub(crate) fn is_at(&self, core: usize) -> bool {
        self.core.index == core
    }
}

impl AcceptedConnection {
    /// Passes the connection on to its core; returns it if that core no longer accepts connections.
    pub(crate) fn pass_on(self) -> Result<(), Self> {
        let core = Arc::clone(&self.assignment.core);
        core.inbox.send(self).map_err(|unsent| unsent.0)
    }
}

impl Drop for CoreAssignment {
    fn drop(&mut self) {
        self.core.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::connection_limits::ConnectionLimits;
    use crate::testing::settings;

    const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A balancer over some cores, and what gives permits without an end.
    fn balancer(cores: usize) -> (ConnectionBalancer, Vec<CoreInbox>, Arc<ConnectionLimits>) {
        let (balancer, inboxes) = ConnectionBalancer::over(cores);
        (balancer, inboxes, Arc::new(ConnectionLimits::new(&settings())))
    }

    fn core_of(assignment: &CoreAssignment) -> usize {
        assignment.core.index
    }

    #[test]
    fn connections_that_one_core_accepts_are_spread_over_all() {
        let (balancer, _inboxes, limits) = balancer(3);

        let assigned: Vec<CoreAssignment> =
            (0..30).map(|_| balancer.assign(0, limits.enter(IP).unwrap()).unwrap()).collect();

        for core in 0..3 {
            assert_eq!(assigned.iter().filter(|one| one.is_at(core)).count(), 10, "core {core}");
        }
    }

    #[test]
    fn a_core_keeps_its_own_connection_while_no_other_has_fewer() {
        let (balancer, _inboxes, limits) = balancer(2);
        let assign = |core| balancer.assign(core, limits.enter(IP).unwrap()).unwrap();

        let held = [assign(1), assign(1), assign(0)];

        assert_eq!(held.each_ref().map(core_of), [1, 0, 0]);
        assert!(balancer.assign(2, limits.enter(IP).unwrap()).is_none(), "there is no core 2");
    }

    #[test]
    fn a_small_difference_is_borne_when_there_are_many() {
        assert_eq!([0, 63, 64, 128, 6_400].map(bearable), [0, 63, 65, 130, 6_500]);
        let (balancer, _inboxes, limits) = balancer(2);
        let assign = |core| balancer.assign(core, limits.enter(IP).unwrap()).unwrap();
        let _on_both: Vec<CoreAssignment> = (0..128).map(|number| assign(number % 2)).collect();

        let more = [assign(0), assign(0), assign(0)];

        assert_eq!(more.each_ref().map(core_of), [0, 0, 1], "a third one more is too many");
    }

    #[test]
    fn an_ended_connection_leaves_its_core_and_gives_its_permit_back() {
        let (balancer, _inboxes, limits) = balancer(2);
        let first = balancer.assign(0, limits.enter(IP).unwrap()).unwrap();
        let second = balancer.assign(0, limits.enter(IP).unwrap()).unwrap();
        assert_eq!((core_of(&first), core_of(&second), limits.counts().open), (0, 1, 2));

        drop(first);

        assert_eq!(limits.counts().open, 1);
        let third = balancer.assign(1, limits.enter(IP).unwrap()).unwrap();
        assert_eq!(core_of(&third), 0);
    }

    #[test]
    fn a_connection_is_passed_on_to_its_core_and_comes_back_from_one_that_ended() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let accepted = |assignment| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            AcceptedConnection { stream, ip: IP, assignment }
        };
        let (balancer, mut inboxes, limits) = balancer(2);
        let assignment = balancer.assign(1, limits.enter(IP).unwrap()).unwrap();
        let other = balancer.assign(1, limits.enter(IP).unwrap()).unwrap();
        assert!(assignment.is_at(1) && other.is_at(0));

        accepted(assignment).pass_on().unwrap();

        let received = inboxes[1].try_recv().unwrap();
        assert!(received.assignment.is_at(1) && received.ip == IP);
        assert!(inboxes[0].try_recv().is_err());
        drop((inboxes, received));
        let returned = accepted(other).pass_on().unwrap_err();
        assert_eq!(limits.counts().open, 1, "it still counts, and can be served elsewhere");
        drop(returned);
        assert_eq!(limits.counts().open, 0);
    }
}
