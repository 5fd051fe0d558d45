//! New connections to a platform: TCP, then TLS, each within its time.
//!
//! Connections are watched, so that a failed request can say whether its connection was an old one
//! and whether any part of an answer had come.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::informational::InformationalResponses;
use super::outbound_address::OutboundResolver;
use super::proxy_address::ProxyAddress;
use super::settings::CallTimeouts;
use super::tls::ClientIdentity;
use crate::error::{CallErrorKind, CallPhase};

/// How connections to one platform are made.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// How long each phase may take.
    pub timeouts: CallTimeouts,
    /// The file of authorities that `tls` was made of.
    pub ca_file: Option<PathBuf>,
    /// The certificate that `tls` shows.
    pub identity: Option<ClientIdentity>,
    /// What is offered and accepted in a handshake; [`client_config`](crate::client_config) makes
    /// it.
    pub tls: Arc<rustls::ClientConfig>,
}

/// Makes connections to one platform.
#[derive(Clone)]
pub(crate) struct PlatformConnector {
    http: HttpConnector<OutboundResolver>,
    settings: ConnectionSettings,
    proxy: Option<Arc<ProxyAddress>>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub(crate) struct ConnectFailure {
    pub(super) kind: CallErrorKind,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What is known about one connection, beside those who use it.
#[derive(Debug)]
pub(crate) struct ConnectionWatch {
    /// Whether an answer was received on it, so that a next request finds an old connection.
    answered: AtomicBool,
    /// Whether anything was read since the last write.
    heard: AtomicBool,
    /// Whether any byte was written since the last request began. TLS may still hold it back.
    written: AtomicBool,
    /// Whether it carries several requests at a time.
    is_h2: bool,
    /// Counts the requests, so that the stream knows when another answer begins.
    requests: AtomicU32,
    /// Whether more informational answers came than are borne.
    too_many: AtomicBool,
}

/// A connection that keeps its [`ConnectionWatch`] true.
pub(crate) struct WatchedStream {
    stream: TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>,
    watch: Arc<ConnectionWatch>,
    /// The request whose answer is read.
    request: u32,
    informational: InformationalResponses,
}

type ConnectFuture =
    Pin<Box<dyn Future<Output = Result<TokioIo<WatchedStream>, ConnectFailure>> + Send + 'static>>;

impl ConnectionSettings {
    /// Whether connections made under the one may serve the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.timeouts == other.timeouts
            && (Arc::ptr_eq(&self.tls, &other.tls)
                || (self.ca_file == other.ca_file && self.identity == other.identity))
    }
}

impl PlatformConnector {
    /// Through a proxy, if there is one.
    pub(super) fn new(settings: ConnectionSettings, proxy: Option<Arc<ProxyAddress>>) -> Self {
        let may_be_private = proxy.as_ref().is_none_or(|proxy| proxy.may_be_private);
        let mut http = HttpConnector::new_with_resolver(OutboundResolver::new(may_be_private));
        // The TLS layer above decides by the scheme; this one only connects.
        http.enforce_http(false);
        http.set_nodelay(true);
        // A host with several addresses: each gets its share of the time, so that a dead one is
        // passed over.
        http.set_connect_timeout(Some(settings.timeouts.connect));
        Self { http, settings, proxy }
    }
}

impl Service<Uri> for PlatformConnector {
    type Response = TokioIo<WatchedStream>;
    type Error = ConnectFailure;
    type Future = ConnectFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        self.http
            .poll_ready(context)
            .map_err(|error| ConnectFailure::new(CallErrorKind::Connect, error))
    }

    fn call(&mut self, to: Uri) -> ConnectFuture {
        let connecting = connected(self.http.clone(), self.proxy.clone(), to.clone());
        let ConnectionSettings { timeouts, tls, .. } = self.settings.clone();
        Box::pin(async move {
            let tcp = match timeout(timeouts.connect, connecting).await {
                Ok(connected) => {
                    connected.map_err(|error| ConnectFailure::new(connect_kind(&*error), error))?
                }
                Err(_) => return Err(ConnectFailure::timeout(CallPhase::Connect)),
            };
            let resolver = Arc::new(DefaultServerNameResolver::default());
            let mut secured = HttpsConnector::new(ConnectedStream(Some(tcp)), tls, false, resolver);
            match timeout(timeouts.tls, secured.call(to)).await {
                Ok(stream) => {
                    let stream =
                        stream.map_err(|error| ConnectFailure::new(CallErrorKind::Tls, error))?;
                    Ok(TokioIo::new(WatchedStream::new(stream)))
                }
                Err(_) => Err(ConnectFailure::timeout(CallPhase::Tls)),
            }
        })
    }
}

/// A connection to the platform, or to the proxy, which has then made one to the platform.
async fn connected(
    mut http: HttpConnector<OutboundResolver>,
    proxy: Option<Arc<ProxyAddress>>,
    to: Uri,
) -> Result<TokioIo<TcpStream>, Box<dyn Error + Send + Sync>> {
    match proxy {
        Some(proxy) => proxy.connect(http, &to).await,
        None => Ok(http.call(to).await?),
    }
}

/// Hands a connection that is already made to the TLS layer.
struct ConnectedStream(Option<TokioIo<TcpStream>>);

impl Service<Uri> for ConnectedStream {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = std::future::Ready<Result<TokioIo<TcpStream>, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

impl ConnectFailure {
    fn new(kind: CallErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    const fn timeout(phase: CallPhase) -> Self {
        Self { kind: CallErrorKind::Timeout(phase), source: None }
    }
}

/// A last address whose share of the time ran out is as late as the whole.
fn connect_kind(error: &(dyn Error + 'static)) -> CallErrorKind {
    let mut next = Some(error);
    while let Some(current) = next {
        let io = current.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
            return CallErrorKind::Timeout(CallPhase::Connect);
        }
        next = current.source();
    }
    CallErrorKind::Connect
}

impl ConnectionWatch {
    /// A next request is about to be sent on the connection.
    pub(super) fn expect_answer(&self) {
        self.written.store(false, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is certain that no byte of the request that was begun last has left. Requests
    /// share an HTTP/2 connection, so nothing of the kind is known about one of them.
    pub(super) fn is_unwritten(&self) -> bool {
        !self.is_h2 && !self.written.load(Ordering::Relaxed)
    }

    /// Whether more informational answers came than are borne; then the connection has ended.
    pub(super) fn were_too_many(&self) -> bool {
        self.too_many.load(Ordering::Relaxed)
    }

    pub(super) const fn is_h2(&self) -> bool {
        self.is_h2
    }

    /// The connection brought an answer.
    pub(super) fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Whether the other side gave up an old connection before it answered anything to what was
    /// written last. Requests share an HTTP/2 connection, so nothing of the kind is known about one
    /// of them.
    pub(super) fn was_given_up(&self) -> bool {
        !self.is_h2 && self.answered.load(Ordering::Relaxed) && !self.heard.load(Ordering::Relaxed)
    }
}

impl WatchedStream {
    fn new(stream: MaybeHttpsStream<TokioIo<TcpStream>>) -> Self {
        let watch = ConnectionWatch {
            answered: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            written: AtomicBool::new(false),
            is_h2: stream.connected().is_negotiated_h2(),
            requests: AtomicU32::new(0),
            too_many: AtomicBool::new(false),
        };
        let informational = InformationalResponses::new();
        Self { stream: TokioIo::new(stream), watch: Arc::new(watch), request: 0, informational }
    }

    pub(super) fn watch(&self) -> Arc<ConnectionWatch> {
        Arc::clone(&self.watch)
    }

    /// Looks at what arrived on HTTP/1.1 for answers that only inform.
    fn check(&mut self, arrived: &[u8]) -> io::Result<()> {
        let request = self.watch.requests.load(Ordering::Relaxed);
        if self.request != request {
            self.request = request;
            self.informational = InformationalResponses::new();
        }
        if self.watch.is_h2 || !self.informational.are_too_many(arrived) {
            return Ok(());
        }
        self.watch.too_many.store(true, Ordering::Relaxed);
        Err(io::ErrorKind::InvalidData.into())
    }

    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.watch.heard.store(false, Ordering::Relaxed);
            self.watch.written.store(true, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let arrived = buffer.filled().get(filled_before..).unwrap_or_default();
        if !arrived.is_empty() {
            self.watch.heard.store(true, Ordering::Relaxed);
            self.check(arrived)?;
        }
        polled
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.note_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn it_is_known_whether_any_byte_of_the_request_at_hand_was_written() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut stream = WatchedStream::new(MaybeHttpsStream::Http(TokioIo::new(tcp)));
        let watch = stream.watch();

        watch.expect_answer();
        assert!(watch.is_unwritten());
        stream.write_all(b"P").await.unwrap();
        assert!(!watch.is_unwritten());

        watch.expect_answer();
        assert!(watch.is_unwritten());
    }
}
