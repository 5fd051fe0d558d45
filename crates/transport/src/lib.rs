//! The transport: sockets, connections, their timers and their limits.
//!
//! Each core has a thread with a single-threaded runtime, a socket of its own on the shared port
//! and whatever the service keeps per core (connection pools to the platforms), so that a request
//! never changes threads. HTTP itself is hyper's; this crate decides who may connect, how long a
//! connection may do nothing, and how serving ends. It does not interpret requests.

mod activity;
mod balancer;
mod bind;
mod connection;
mod connection_limits;
mod core_thread;
mod loads;
mod malformed;
mod networks;
mod pair_files;
mod running;
#[cfg(test)]
mod testing;
mod tls;
mod validity;
mod watched;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use self::balancer::ConnectionBalancer;
pub use self::connection_limits::{ConnectionCounts, ConnectionLimits};
use self::core_thread::{ConnectionSources, SharedCores};
pub use self::loads::{LoadCounter, LoadGuard, LoadMap};
pub use self::networks::{
    IpNetwork, MalformedNetwork, is_trusted, neighbourhood_of, neighbourhood_text, network_of,
    site_of,
};
pub use self::pair_files::TlsFiles;
pub use self::running::RunningListener;
use self::running::StopCommand;
use self::tls::TlsServing;
pub use self::tls::{CertificateRenewal, CertificateSource};
pub use self::validity::CertificateValidity;

/// Where to listen, and what a connection may do.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that serve, at least 1.
    pub cores: usize,
    /// Certificate and key; without them the listener speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// From the end of one request (or the start of the connection) to the complete head of the
    /// next.
    pub head_timeout: Duration,
    /// Bytes of a request's head, and of the buffer for each direction; at least 8 KiB are used.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// How long bytes may wait for a peer that accepts none.
    pub write_stall_timeout: Duration,
    /// How long running requests may continue after the listener is told to stop.
    pub drain_timeout: Duration,
    /// Open connections in total.
    pub connections_max: usize,
    /// Open connections of one address (IPv6: of one /64), loopback and trusted proxies excepted.
    pub connections_per_ip_max: usize,
    /// Proxies, whose connections carry the requests of many clients.
    pub trusted_proxies: Vec<IpNetwork>,
}

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionPeer {
    /// The address, in its IPv4 form where it has one.
    pub ip: IpAddr,
    /// Whether the connection is encrypted up to this process.
    pub tls: bool,
}

/// A request and its sender.
#[derive(Debug)]
pub struct ArrivedRequest {
    /// The sender.
    pub peer: ConnectionPeer,
    /// Its head, and its body as it arrives.
    pub request: Request<Incoming>,
}

/// Why a response ends early: any error of its body.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Handles requests. It is always ready for another one.
pub trait RequestHandler: Clone + Send + Sync + 'static {
    /// The body of a response.
    type ResponseBody: Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static;

    /// The work for one request. It is moved into its connection, so it should be small.
    type ResponseFuture: Future<Output = Response<Self::ResponseBody>> + Send;

    /// Starts to handle a request.
    fn answer(&self, arrived: ArrivedRequest) -> Self::ResponseFuture;

    /// The response, after the status line, to a head that the HTTP library refused with this
    /// status: header lines, an empty line and a body. `None`: the library's own response, which
    /// has neither headers nor a body.
    fn unread(&self, _: ConnectionPeer, _: StatusCode) -> Option<Bytes> {
        None
    }
}

/// Handles requests, and explains what is wrong with those that cannot be parsed.
#[derive(Clone)]
pub struct ExplainingHandler<S, E> {
    /// Handles a request.
    pub serve: S,
    /// Explains a head that could not be parsed, see [`RequestHandler::unread`].
    pub explain: E,
}

impl<S, F, B, E> RequestHandler for ExplainingHandler<S, E>
where
    S: Fn(ArrivedRequest) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    E: Fn(ConnectionPeer, StatusCode) -> Option<Bytes> + Clone + Send + Sync + 'static,
{
    type ResponseBody = B;
    type ResponseFuture = F;

    fn answer(&self, arrived: ArrivedRequest) -> F {
        (self.serve)(arrived)
    }

    fn unread(&self, peer: ConnectionPeer, status: StatusCode) -> Option<Bytes> {
        (self.explain)(peer, status)
    }
}

impl<S, F, B> RequestHandler for S
where
    S: Fn(ArrivedRequest) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
{
    type ResponseBody = B;
    type ResponseFuture = F;

    fn answer(&self, arrived: ArrivedRequest) -> F {
        self(arrived)
    }
}

/// Bound sockets that are not served yet: connections wait in the kernel's queue.
#[derive(Debug)]
pub struct BoundListener {
    address: SocketAddr,
    sockets: Vec<std::net::TcpListener>,
    tls: Option<TlsServing>,
    settings: ListenerSettings,
}

impl BoundListener {
    /// Binds one socket for each core. Fails if the address is in use, also by another instance of
    /// this program, or if the certificate or its key cannot be read.
    pub fn bind(settings: &ListenerSettings) -> io::Result<Self> {
        let tls = settings.tls.as_ref().map(TlsServing::load).transpose()?;
        let (address, sockets) = bind::bind(settings.listen, settings.cores.max(1))?;
        Ok(Self { address, sockets, tls, settings: settings.clone() })
    }

    /// The bound address and port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate in use; `None` if it serves plain HTTP.
    pub fn certificates(&self) -> Option<Arc<CertificateSource>> {
        self.tls.as_ref().map(TlsServing::certificates)
    }

    /// Serves until told to stop. `make` is called once for each core, on that core's runtime and
    /// with its number, so that what it creates belongs to that runtime. Fails if a thread cannot
    /// start.
    pub fn run<S, M>(self, make: M) -> io::Result<RunningListener>
    where
        S: RequestHandler,
        M: Fn(usize) -> S + Send + Sync + Clone + 'static,
    {
        let stop = Arc::new(StopCommand::new());
        let limits = Arc::new(ConnectionLimits::new(&self.settings));
        let mut running =
            RunningListener::new(self.address, Arc::clone(&stop), Arc::clone(&limits));
        let (balancer, inboxes) = ConnectionBalancer::over(self.sockets.len());
        let balancer = Arc::new(balancer);
        for (core, (socket, inbox)) in self.sockets.into_iter().zip(inboxes).enumerate() {
            let shared = SharedCores {
                settings: self.settings.clone(),
                tls: self.tls.clone(),
                stop: Arc::clone(&stop),
                limits: Arc::clone(&limits),
                balancer: Arc::clone(&balancer),
            };
            let sources = ConnectionSources { core, socket, inbox };
            running.add(core_thread::start(sources, shared, make.clone())?);
        }
        Ok(running)
    }
}
