//! One connection: hyper speaks HTTP/1.1 or HTTP/2 on it, and its timer decides how long it may
//! last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::activity::{
    ActivityTimeouts, ActivityVerdict, ConnectionActivity, ConnectionEnding, RunningRequest,
};
use super::balancer::CoreAssignment;
use super::connection_limits::ConnectionLimits;
use super::core_thread::SharedCores;
use super::malformed::ExplainedStream;
use super::running::StopCommand;
use super::tls::TlsServing;
use super::watched::WatchedSocket;
use super::{ArrivedRequest, ConnectionPeer, ListenerSettings, RequestHandler};

/// The smallest buffer that hyper accepts.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

/// The number of headers that hyper parses without allocating; the framing rules enforce lower
/// limits.
const HEADERS_WITHOUT_ALLOCATION: usize = 100;

/// HTTP/2: how much a peer may have open and in transit, and how many of its resets and errors are
/// tolerated.
const STREAMS_MAX: u32 = 100;
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
const STREAM_SEND_BYTES_MAX: usize = 16 * 1024;
const PENDING_RESETS_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 100;

/// How every connection of a core is served.
pub(crate) struct HttpServing<S> {
    builder: Builder<TokioExecutor>,
    service: S,
    tls: Option<TlsServing>,
    allowances: ActivityTimeouts,
    stop: Arc<StopCommand>,
    limits: Arc<ConnectionLimits>,
}

impl<S: RequestHandler> HttpServing<S> {
    pub(crate) fn new(shared: &SharedCores, service: S) -> Self {
        let settings = &shared.settings;
        Self {
            builder: builder(settings),
            service,
            tls: shared.tls.clone(),
            allowances: ActivityTimeouts {
                head: settings.head_timeout,
                stall: settings.write_stall_timeout,
                drain: settings.drain_timeout,
            },
            stop: Arc::clone(&shared.stop),
            limits: Arc::clone(&shared.limits),
        }
    }
}

fn builder(settings: &ListenerSettings) -> Builder<TokioExecutor> {
    let buffer = settings.head_bytes_max.max(BUFFER_BYTES_MIN);
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper's timeout for heads stays off. The connection's timer also covers the time before the
    // first byte and HTTP/2, where hyper has no such timeout, and costs nothing per request.
    builder.http1().header_read_timeout(None).max_buf_size(buffer);
    if settings.headers_max > HEADERS_WITHOUT_ALLOCATION {
        builder.http1().max_headers(settings.headers_max);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(STREAM_SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX);
    builder
}

/// Serves one connection until it ends.
pub(crate) async fn run<S: RequestHandler>(
    http: Arc<HttpServing<S>>,
    stream: TcpStream,
    ip: IpAddr,
    assignment: CoreAssignment,
) {
    let activity = Arc::new(ConnectionActivity::new(http.allowances));
    let watched = WatchedSocket::new(stream, Arc::clone(&activity));
    let ending = match &http.tls {
        None => speak(&http, watched, ConnectionPeer { ip, tls: false }, &activity).await,
        Some(tls) => {
            let shaken = tokio::select! {
                shaken = tokio::time::timeout(http.allowances.head, tls.accept(watched)) => shaken,
                () = http.stop.given() => return,
            };
            match shaken {
                Ok(Ok(secured)) => {
                    speak(&http, secured, ConnectionPeer { ip, tls: true }, &activity).await
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    ConnectionEnding::Closed
                }
                Err(_) => ConnectionEnding::Idle,
            }
        }
    };
    http.limits.ended(ending);
    drop(assignment);
}

/// Serves HTTP on an open stream.
async fn speak<S, T>(
    http: &Arc<HttpServing<S>>,
    stream: T,
    peer: ConnectionPeer,
    activity: &Arc<ConnectionActivity>,
) -> ConnectionEnding
where
    S: RequestHandler,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request: Request<Incoming>| {
        let running = activity.begin_request(!request.body().is_end_stream());
        let answer = http.service.answer(ArrivedRequest { peer, request });
        answer.map(|answer| Ok::<_, Infallible>(answer.map(|body| TrackedBody::new(body, running))))
    });
    let explaining = Arc::clone(http);
    let explain = move |status| explaining.service.unread(peer, status);
    let stream = TokioIo::new(ExplainedStream::new(stream, explain));
    let connection = http.builder.serve_connection(stream, service);
    drive(connection, activity, &http.stop).await
}

/// Drives a connection until it ends, the listener stops, or its time has run out.
async fn drive<C>(
    connection: C,
    activity: &ConnectionActivity,
    stop: &StopCommand,
) -> ConnectionEnding
where
    C: GracefulConnection,
{
    let mut connection = pin!(connection);
    let mut stopped = pin!(stop.notified());
    let mut timer = pin!(tokio::time::sleep(activity.first_look()));
    let (mut is_registered, mut is_draining, mut is_lingering) = (false, false, false);
    poll_fn(|context| {
        // The task's waker never changes, so one poll is enough to be woken when the listener
        // stops.
        if !is_registered {
            is_registered = true;
            let _already = stopped.as_mut().poll(context);
        }
        if !is_draining && stop.is_given() {
            is_draining = true;
            activity.drain();
            connection.as_mut().graceful_shutdown();
            timer.as_mut().reset(Instant::now());
        }
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(ConnectionEnding::Closed);
        }
        if !is_lingering && activity.is_lingering() {
            is_lingering = true;
            timer.as_mut().reset(Instant::now());
        }
        while timer.as_mut().poll(context).is_ready() {
            match activity.judge(Instant::now()) {
                ActivityVerdict::Until(moment) => timer.as_mut().reset(moment),
                ActivityVerdict::Close(ending) => {
                    part(connection.as_mut(), context);
                    return Poll::Ready(ending);
                }
            }
        }
        Poll::Pending
    })
    .await
}

/// Starts a graceful shutdown and polls once, without waiting for the peer.
fn part<C: GracefulConnection>(mut connection: Pin<&mut C>, context: &mut Context<'_>) {
    connection.as_mut().graceful_shutdown();
    drop(connection.poll(context));
}

/// A response body that tracks whether the peer or this service is to act, and that ends its
/// request when dropped.
struct TrackedBody<B> {
    body: B,
    running: RunningRequest,
}

impl<B: HttpBody> TrackedBody<B> {
    /// hyper may wait for room at the peer before it asks for the first part, so the peer is the
    /// one to act.
    fn new(body: B, mut running: RunningRequest) -> Self {
        if !body.is_end_stream() {
            running.handed_out();
        }
        Self { body, running }
    }
}

impl<B: HttpBody + Unpin> HttpBody for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.running.asked();
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) && !self.body.is_end_stream() {
            self.running.handed_out();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
