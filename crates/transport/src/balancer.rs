//! Connections balanced evenly over the cores.
//!
//! The kernel chooses the core that accepts a connection by a hash of its addresses. Connections are kept for long, so
//! a core that got more than its share would be behind for as long as they last, while another has nothing to do.
//! Whoever accepts a connection passes it on, before its first byte is read, if another core has fewer of them open.

use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::connection_limits::ConnectionPermit;

/// Among so many connections of a core, one more than another has is not worth a change.
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

/// What the other cores have accepted for one.
pub(crate) type CoreInbox = mpsc::UnboundedReceiver<AcceptedConnection>;

/// A connection that is open and within the limits.
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
    /// Over so many cores; gives each one's inbox, in their order.
    pub(crate) fn over(cores: usize) -> (Self, Vec<CoreInbox>) {
        let (cores, inboxes) = (0..cores)
            .map(|index| {
                let (inbox, accepted) = mpsc::unbounded_channel();
                (Arc::new(BalancedCore { index, open: AtomicUsize::new(0), inbox }), accepted)
            })
            .unzip();
        (Self(cores), inboxes)
    }

    /// The core for a connection that core `own` has accepted: there, unless another has fewer. Nothing where there is no
    /// such core.
    pub(crate) fn assign(&self, own: usize, permit: ConnectionPermit) -> Option<CoreAssignment> {
        let own = self.0.get(own)?;
        let fewest = self.0.iter().min_by_key(|core| core.open())?;
        let core = if own.open() > bearable(fewest.open()) { fewest } else { own };
        core.open.fetch_add(1, Ordering::Relaxed);
        Some(CoreAssignment { core: Arc::clone(core), _permit: permit })
    }
}

/// How many connections a core may have beside one that has so many.
const fn bearable(fewest: usize) -> usize {
    fewest + fewest / CONNECTIONS_PER_DIFFERENCE
}

impl BalancedCore {
    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl CoreAssignment {
    /// Whether its connection is to be served by this core.
    pub(crate) fn is_at(&self, core: usize) -> bool {
        self.core.index == core
    }
}

impl AcceptedConnection {
    /// Passes it on to its core; gives it back if that core takes no connections any more.
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
