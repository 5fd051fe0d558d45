//! The public listener: sockets, connections, their timers and their limits.
//!
//! Each core has a thread with a single-threaded runtime, a socket of its own on the shared port and
//! whatever the service keeps for each core (pools towards the platforms), so that a request never
//! changes threads. HTTP itself is hyper's; this module decides who may connect, how long a connection may
//! do nothing, and how serving ends. What a request means is not decided here.

pub(crate) mod activity;
pub(crate) mod bind;
pub(crate) mod connection;
pub(crate) mod core;
pub(crate) mod limits;
mod malformed;
pub(crate) mod pair_files;
pub(crate) mod shutdown;
pub(crate) mod spread;
pub(crate) mod tls;
pub(crate) mod validity;
pub(crate) mod watched;

#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{Request, StatusCode};

use crate::middleware::real_ip::Network;

use self::core::{Shared, Sources};
use self::limits::ConnectionLimits;
use self::pair_files::TlsFiles;
use self::shutdown::{Running, Stop};
use self::spread::Spread;
use self::tls::{Certificates, Tls};

/// Where to listen, and what a connection may do.
#[derive(Debug, Clone)]
pub(crate) struct ListenerSettings {
    /// Address and port; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// Threads that serve, at least 1.
    pub(crate) cores: usize,
    /// Certificate and key; without them the listener speaks plain HTTP.
    pub(crate) tls: Option<TlsFiles>,
    /// From the end of one request (or the connection's start) to the whole head of the next.
    pub(crate) head_timeout: Duration,
    /// Bytes of a request's head, and of the buffer for each direction; at least 8 KiB are used.
    pub(crate) head_bytes_max: usize,
    /// Headers of a request.
    pub(crate) headers_max: usize,
    /// How long bytes may wait for a peer that takes none.
    pub(crate) write_stall_timeout: Duration,
    /// How long running requests may go on once the listener is told to stop.
    pub(crate) drain_timeout: Duration,
    /// Open connections in all.
    pub(crate) connections_max: usize,
    /// Open connections of one address (IPv6: of one /64), loopback and trusted proxies excepted.
    pub(crate) connections_per_ip_max: usize,
    /// Proxies, which bring the connections of many.
    pub(crate) trusted_proxies: Vec<Network>,
}

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The address, in its IPv4 form where it has one.
    pub(crate) ip: IpAddr,
    /// Whether the connection is encrypted up to this process.
    pub(crate) tls: bool,
}

/// A request, and who sent it.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) peer: Peer,
    pub(crate) request: Request<Body>,
}

/// What answers requests: a function that is always ready for one more.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    /// The work for one request. It is moved into its connection, so the smaller the better.
    type Answer: Future<Output = Response> + Send;

    /// Begins to answer a request.
    fn answer(&self, arrived: Arrived) -> Self::Answer;

    /// What is responded, behind the status line, to a head that the HTTP library refused with this status: header
    /// lines, an empty line and a body. Nothing: the library's own response, which has neither.
    fn unread(&self, _: Peer, _: StatusCode) -> Option<Bytes> {
        None
    }
}

/// What answers requests, and says what is wrong with those that cannot be read.
#[derive(Clone)]
pub(crate) struct Explaining<S, E> {
    /// Answers a request.
    pub(crate) serve: S,
    /// Answers a head that could not be read, as [`Answers::unread`] says.
    pub(crate) explain: E,
}

impl<S, F, E> Answers for Explaining<S, E>
where
    S: Fn(Arrived) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send,
    E: Fn(Peer, StatusCode) -> Option<Bytes> + Clone + Send + Sync + 'static,
{
    type Answer = F;

    fn answer(&self, arrived: Arrived) -> F {
        (self.serve)(arrived)
    }

    fn unread(&self, peer: Peer, status: StatusCode) -> Option<Bytes> {
        (self.explain)(peer, status)
    }
}

impl<S, F> Answers for S
where
    S: Fn(Arrived) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send,
{
    type Answer = F;

    fn answer(&self, arrived: Arrived) -> F {
        self(arrived)
    }
}

/// Bound sockets, not served yet: connections wait in the kernel's queue.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    sockets: Vec<std::net::TcpListener>,
    tls: Option<Tls>,
    settings: ListenerSettings,
}

impl Listener {
    /// Binds one socket for each core. Fails when the address is in use, also by another instance of
    /// this program, or when the certificate or its key cannot be read.
    pub(crate) fn bind(settings: &ListenerSettings) -> io::Result<Self> {
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        let (address, sockets) = bind::bind(settings.listen, settings.cores.max(1))?;
        Ok(Self { address, sockets, tls, settings: settings.clone() })
    }

    /// The address and the port that were taken.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that it shows; none where it speaks plain HTTP.
    pub(crate) fn certificates(&self) -> Option<Arc<Certificates>> {
        self.tls.as_ref().map(Tls::certificates)
    }

    /// Serves until told to stop. `make` is called once for each core, on that core's runtime and with
    /// its number, so that what it creates belongs to that runtime. Fails when a thread cannot start.
    pub(crate) fn run<S, M>(self, make: M) -> io::Result<Running>
    where
        S: Answers,
        M: Fn(usize) -> S + Send + Sync + Clone + 'static,
    {
        let stop = Arc::new(Stop::new());
        let limits = Arc::new(ConnectionLimits::new(&self.settings));
        let mut running = Running::new(self.address, Arc::clone(&stop), Arc::clone(&limits));
        let (spread, inboxes) = Spread::over(self.sockets.len());
        let spread = Arc::new(spread);
        for (core, (socket, inbox)) in self.sockets.into_iter().zip(inboxes).enumerate() {
            let shared = Shared {
                settings: self.settings.clone(),
                tls: self.tls.clone(),
                stop: Arc::clone(&stop),
                limits: Arc::clone(&limits),
                spread: Arc::clone(&spread),
            };
            let sources = Sources { core, socket, inbox };
            running.add(core::start(sources, shared, make.clone())?);
        }
        Ok(running)
    }
}
