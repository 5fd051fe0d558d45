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
