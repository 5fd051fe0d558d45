//! The transport: sockets, connections, their timers and their limits.
//!
//! Each core has a thread with a single-threaded runtime, a socket of its own on the shared port and
//! whatever the service keeps for each core (pools towards the platforms), so that a request never
//! changes threads. HTTP itself is hyper's; this crate decides who may connect, how long a connection may
//! do nothing, and how serving ends. What a request means is not decided here.

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
    /// From the end of one request (or the connection's start) to the whole head of the next.
    pub head_timeout: Duration,
    /// Bytes of a request's head, and of the buffer for each direction; at least 8 KiB are used.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// How long bytes may wait for a peer that takes none.
    pub write_stall_timeout: Duration,
    /// How long running requests may go on once the listener is told to stop.
    pub drain_timeout: Duration,
    /// Open connections in all.
    pub connections_max: usize,
    /// Open connections of one address (IPv6: of one /64), loopback and trusted proxies excepted.
    pub connections_per_ip_max: usize,
    /// Proxies, which bring the connections of many.
    pub trusted_proxies: Vec<IpNetwork>,
}

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionPeer {
    /// The address, in its IPv4 form where it has one.
    pub ip: IpAddr,
    /// Whether the connection is encrypted up to this process.
    pub tls: bool,
}

/// A request, and who sent it.
#[derive(Debug)]
pub struct ArrivedRequest {
    /// Who sent it.
    pub peer: ConnectionPeer,
    /// Its head, and its body as it comes.
    pub request: Request<Incoming>,
}

/// Why a response ends before its end: whatever its body says.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What answers requests: a function that is always ready for one more.
pub trait RequestHandler: Clone + Send + Sync + 'static {
    /// The body of a response.
    type ResponseBody: Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static;

    /// The work for one request. It is moved into its connection, so the smaller the better.
    type ResponseFuture: Future<Output = Response<Self::ResponseBody>> + Send;

    /// Begins to answer a request.
    fn answer(&self, arrived: ArrivedRequest) -> Self::ResponseFuture;

    /// What is responded, behind the status line, to a head that the HTTP library refused with this status: header
    /// lines, an empty line and a body. Nothing: the library's own response, which has neither.
    fn unread(&self, _: ConnectionPeer, _: StatusCode) -> Option<Bytes> {
        None
    }
}

/// What answers requests, and says what is wrong with those that cannot be read.
#[derive(Clone)]
pub struct ExplainingHandler<S, E> {
    /// Answers a request.
    pub serve: S,
    /// Answers a head that could not be read, as [`RequestHandler::unread`] says.
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

/// Bound sockets, not served yet: connections wait in the kernel's queue.
#[derive(Debug)]
pub struct BoundListener {
    address: SocketAddr,
    sockets: Vec<std::net::TcpListener>,
    tls: Option<TlsServing>,
    settings: ListenerSettings,
}

impl BoundListener {
    /// Binds one socket for each core. Fails when the address is in use, also by another instance of
    /// this program, or when the certificate or its key cannot be read.
    pub fn bind(settings: &ListenerSettings) -> io::Result<Self> {
        let tls = settings.tls.as_ref().map(TlsServing::load).transpose()?;
        let (address, sockets) = bind::bind(settings.listen, settings.cores.max(1))?;
        Ok(Self { address, sockets, tls, settings: settings.clone() })
    }

    /// The address and the port that were taken.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that it shows; none where it speaks plain HTTP.
    pub fn certificates(&self) -> Option<Arc<CertificateSource>> {
        self.tls.as_ref().map(TlsServing::certificates)
    }

    /// Serves until told to stop. `make` is called once for each core, on that core's runtime and with
    /// its number, so that what it creates belongs to that runtime. Fails when a thread cannot start.
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
