//! Connections that are kept for a next request, and the one place where requests leave.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;
use tokio::time::Instant;
use tower_service::Service;

use super::answer::{self, PlatformResponse};
use super::body::{RequestBody, SendProgress};
use super::connect::{ConnectionSettings, ConnectionWatch, PlatformConnector};
use super::fault;
use super::http1::{Http1Connection, UnansweredRequest};
use super::http2::Http2Connection;
use super::proxy_address::ProxyAddress;
use super::settings::{AnswerPatience, CallTimeouts};
use super::timeout::within;
use super::upstream::UpstreamSettings;
use crate::error::ClientError;

/// Connections to any number of origins, made and kept alike. Cheap to clone; clones share them.
#[derive(Clone)]
pub struct ConnectionPool(Arc<PoolInner>);

struct PoolInner {
    settings: ConnectionSettings,
    kept: UpstreamSettings,
    connector: PlatformConnector,
    /// A few: the hosts of a platform, and where its tokens come from.
    origins: Mutex<Vec<Arc<ConnectionOrigin>>>,
}

/// Where connections lead, and those that wait for a next request.
pub(super) struct ConnectionOrigin {
    scheme: Scheme,
    authority: Authority,
    /// What HTTP/1.1 calls it.
    host: HeaderValue,
    kept: UpstreamSettings,
    /// Longest idle first.
    idle: Mutex<VecDeque<IdleConnection>>,
    /// The one that carries many requests, where the origin speaks HTTP/2.
    shared: Mutex<Option<Http2Connection>>,
}

struct IdleConnection {
    connection: Box<Http1Connection>,
    since: Instant,
}

/// What a request goes out on.
enum OutgoingConnection {
    Own(Box<Http1Connection>),
    Shared(Http2Connection),
}

/// The connection of an answer whose body is still to come, and where it goes when all of it has.
pub(super) struct ConnectionLease {
    connection: Box<Http1Connection>,
    home: Arc<ConnectionOrigin>,
}

/// How long the head of an answer is waited for.
#[derive(Clone, Copy)]
struct HeadWait {
    /// Since the request, or the last part of a spooled body, left.
    head: Duration,
    /// While parts of a spooled body leave.
    upload: Duration,
}

/// Why an exchange brought no head.
enum NoHead {
    Late,
    Unanswered(Box<UnansweredRequest>),
}

impl ConnectionPool {
    /// Makes no connection yet.
    pub fn new(settings: &ConnectionSettings, kept: &UpstreamSettings) -> Self {
        Self::through(None, settings, kept)
    }

    /// The same through a proxy.
    pub fn through(
        proxy: Option<Arc<ProxyAddress>>,
        settings: &ConnectionSettings,
        kept: &UpstreamSettings,
    ) -> Self {
        Self(Arc::new(PoolInner {
            settings: settings.clone(),
            kept: *kept,
            connector: PlatformConnector::new(settings.clone(), proxy),
            origins: Mutex::default(),
        }))
    }

    /// How they are made.
    pub fn settings(&self) -> &ConnectionSettings {
        &self.0.settings
    }

    /// Sends a request to where its address says, and waits for the head of the answer.
    ///
    /// It is sent once. Only where a kept connection turns out to be closed before any of the
    /// request was written does it leave on another one, which is as safe for a write as for a
    /// read.
    // Not an async function: that would keep the request in two places.
    pub fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> impl Future<Output = Result<PlatformResponse, ClientError>> + Send + use<> {
        let pool = self.clone();
        async move {
            let origin = pool.origin(request.uri())?;
            let progress = request.body().progress();
            let CallTimeouts { first_byte, between_bytes, upload, .. } = pool.0.settings.timeouts;
            let own = request.extensions().get::<AnswerPatience>().map(|patience| patience.0);
            let between_bytes = own.unwrap_or(between_bytes);
            let wait = HeadWait { head: own.unwrap_or(first_byte), upload };
            loop {
                let (mut outgoing, is_old) = match origin.kept().await {
                    Some(outgoing) => (outgoing, true),
                    // Boxed, so that a call on a kept connection does not carry the room of making
                    // one.
                    None => (Box::pin(pool.connect(&origin)).await?, false),
                };
                origin.address(&mut request, &outgoing)?;
                let waited = head(&mut outgoing, &mut request, wait, &progress).await;
                let unanswered = match waited {
                    Ok(response) => {
                        let lease = origin.checked(outgoing, &response)?;
                        return Ok(PlatformResponse::new(response, lease, between_bytes));
                    }
                    Err(NoHead::Late) => return Err(fault::late(outgoing.watch())),
                    Err(NoHead::Unanswered(unanswered)) => unanswered,
                };
                request = again(unanswered, outgoing.watch(), is_old)?;
            }
        }
    }

    fn origin(&self, uri: &Uri) -> Result<Arc<ConnectionOrigin>, ClientError> {
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(ClientError::build("a request needs a whole address"));
        };
        let mut origins = locked(&self.0.origins);
        let known = origins.iter().find(|origin| origin.is_at(scheme, authority));
        if let Some(origin) = known {
            return Ok(Arc::clone(origin));
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(ClientError::build)?;
        let origin = Arc::new(ConnectionOrigin {
            scheme: scheme.clone(),
            authority: authority.clone(),
            host,
            kept: self.0.kept,
            idle: Mutex::default(),
            shared: Mutex::default(),
        });
        origins.push(Arc::clone(&origin));
        drop(origins);
        TokioExecutor::new().execute(sweep(Arc::downgrade(&origin), self.0.kept.idle));
        Ok(origin)
    }

    async fn connect(
        &self,
        origin: &Arc<ConnectionOrigin>,
    ) -> Result<OutgoingConnection, ClientError> {
        let stream =
            self.0.connector.clone().call(origin.address_of("/")?).await.map_err(fault::connect)?;
        let watch = stream.inner().watch();
        let opened = if watch.is_h2() {
            Http2Connection::open(stream)
                .await
                .map(|connection| OutgoingConnection::Shared(origin.share(connection)))
        } else {
            Http1Connection::open(stream)
                .await
                .map(|connection| OutgoingConnection::Own(Box::new(connection)))
        };
        opened.map_err(|error| fault::of(error, true, &watch))
    }
}

impl OutgoingConnection {
    fn watch(&self) -> &ConnectionWatch {
        match self {
            Self::Own(connection) => &connection.watch,
            Self::Shared(connection) => &connection.watch,
        }
    }
}

impl ConnectionOrigin {
    fn is_at(&self, scheme: &Scheme, authority: &Authority) -> bool {
        self.authority.as_str() == authority.as_str() && self.scheme == *scheme
    }

    /// Something that was used before and can be used again.
    async fn kept(&self) -> Option<OutgoingConnection> {
        let shared = locked(&self.shared).clone().filter(|connection| !connection.is_closed());
        if let Some(connection) = shared {
            return Some(OutgoingConnection::Shared(connection));
        }
        poll_fn(|context| Poll::Ready(self.idle_connection(context)))
            .await
            .map(OutgoingConnection::Own)
    }

    /// The one that was used last and is as good as it was: looked at only now, it may turn out to
    /// be closed, or to have brought what nobody asked for.
    fn idle_connection(&self, context: &mut Context<'_>) -> Option<Box<Http1Connection>> {
        loop {
            let IdleConnection { mut connection, since } = locked(&self.idle).pop_back()?;
            if since.elapsed() > self.kept.idle {
                continue;
            }
            if connection.look(context) {
                return Some(connection);
            }
        }
    }

    fn keep(&self, connection: Box<Http1Connection>) {
        connection.rest();
        let mut idle = locked(&self.idle);
        if idle.len() < self.kept.idle_connections_max {
            idle.push_back(IdleConnection { connection, since: Instant::now() });
        }
    }

    /// The connection that all share: this one, unless somebody was faster.
    fn share(&self, connection: Http2Connection) -> Http2Connection {
        let mut shared = locked(&self.shared);
        match &*shared {
            Some(first) if !first.is_closed() => first.clone(),
            _ => shared.insert(connection).clone(),
        }
    }

    /// Names the target as the connection's protocol wants it.
    fn address(
        &self,
        request: &mut Request<RequestBody>,
        outgoing: &OutgoingConnection,
    ) -> Result<(), ClientError> {
        match outgoing {
            OutgoingConnection::Own(_) => {
                if request.uri().authority().is_some() {
                    let mut parts = std::mem::take(request.uri_mut()).into_parts();
                    let target = parts.path_and_query.take();
                    *request.uri_mut() =
                        Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
                }
                request.headers_mut().insert(HOST, self.host.clone());
            }
            OutgoingConnection::Shared(_) => {
                if request.uri().authority().is_none() {
                    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
                    *request.uri_mut() = self.address_of(target)?;
                }
                request.headers_mut().remove(HOST);
            }
        }
        Ok(())
    }

    fn address_of(&self, target: &str) -> Result<Uri, ClientError> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(target);
        uri.build().map_err(ClientError::build)
    }

    /// Refuses a head that must not be passed on; its connection is not used again.
    fn checked(
        self: &Arc<Self>,
        outgoing: OutgoingConnection,
        response: &Response<Incoming>,
    ) -> Result<Option<ConnectionLease>, ClientError> {
        let checked = answer::check_head(response);
        outgoing.watch().note_answer();
        match (outgoing, checked) {
            (OutgoingConnection::Own(connection), Ok(())) => {
                Ok(Some(ConnectionLease { connection, home: Arc::clone(self) }))
            }
            (OutgoingConnection::Shared(_), Ok(())) => Ok(None),
            (OutgoingConnection::Own(_), Err(what)) => Err(ClientError::bad_response(what)),
            (OutgoingConnection::Shared(_), Err(what)) => {
                *locked(&self.shared) = None;
                Err(ClientError::bad_response(what))
            }
        }
    }
}

impl ConnectionLease {
    /// Polls the answer's body, and lets the connection read what it can of it.
    pub(super) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.connection.poll(context, poll)
    }

    /// All of the answer is here: the connection waits for a next request, if it can carry one.
    pub(super) fn end(self) {
        if self.connection.is_ready() {
            self.home.keep(self.connection);
        }
    }
}

/// Closes what has waited too long, also where no requests come by.
async fn sweep(origin: Weak<ConnectionOrigin>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let Some(origin) = origin.upgrade() else { return };
        let mut waiting = locked(&origin.idle);
        while waiting.front().is_some_and(|oldest| oldest.since.elapsed() > idle) {
            waiting.pop_front();
        }
    }
}

/// Sends the request, leaving an empty one in its place, and waits for the head of the answer; the
/// time starts anew while parts of a spooled body leave, as long as an upload may take.
async fn head(
    outgoing: &mut OutgoingConnection,
    request: &mut Request<RequestBody>,
    wait: HeadWait,
    progress: &SendProgress,
) -> Result<Response<Incoming>, NoHead> {
    let request = std::mem::take(request);
    let answered = match outgoing {
        OutgoingConnection::Own(connection) => {
            let mut answer = pin!(connection.begin(request));
            let work = poll_fn(|context| connection.poll(context, |own| answer.as_mut().poll(own)));
            in_time(work, wait, progress).await?
        }
        OutgoingConnection::Shared(connection) => {
            in_time(Box::pin(connection.exchange(request)), wait, progress).await?
        }
    };
    answered.map_err(|unanswered| NoHead::Unanswered(Box::new(unanswered)))
}

/// The request again, where none of it was written and an old connection is the reason.
fn again(
    mut unanswered: Box<UnansweredRequest>,
    watch: &ConnectionWatch,
    is_old: bool,
) -> Result<Request<RequestBody>, ClientError> {
    match unanswered.take_message() {
        Some(unsent) if is_old => Ok(unsent),
        unsent => Err(fault::of(unanswered.into_error(), unsent.is_some(), watch)),
    }
}

async fn in_time<T>(
    mut work: impl Future<Output = T> + Unpin,
    wait: HeadWait,
    progress: &SendProgress,
) -> Result<T, NoHead> {
    let mut upload_left = wait.upload;
    loop {
        let left_before = progress.get();
        match within(wait.head, &mut work).await {
            Some(done) => return Ok(done),
            None if progress.get() == left_before || upload_left.is_zero() => {
                return Err(NoHead::Late);
            }
            None => upload_left = upload_left.saturating_sub(wait.head),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for ConnectionPool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connections").field("kept", &self.0.kept).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ConnectionLease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lease")
    }
}
