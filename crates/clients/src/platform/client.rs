//! The connections of one core to the platforms, and the sending of requests over them.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::platform::Platform;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::answer::{self, Answer};
use super::body::{Progress, RequestBody};
use super::connect::{ConnectFailure, ConnectionSettings, Connector, Watch};
use super::target::Target;
use crate::error::{ClientError, Fault, Kind, Phase};

/// The longest head of an answer, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 65_536;
/// The most headers of an answer.
pub(super) const HEADERS_MAX: usize = 100;
/// The most informational answers (1xx) before the real one.
pub(super) const INFORMATIONAL_MAX: u8 = 8;

const STREAM_WINDOW_BYTES: u32 = 262_144;
/// Room for 64 answers whose callers do not read on; more of them on one connection hold the others up.
const CONNECTION_WINDOW_BYTES: u32 = 64 * STREAM_WINDOW_BYTES;
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_WAIT: Duration = Duration::from_secs(10);

/// Connections to one place.
pub(crate) type Client = legacy::Client<Connector, RequestBody>;

/// The connections of one core to all platforms. Cheap to clone; clones share their connections.
///
/// It serves one [`Target`] of each platform, HTTP/1.1 and HTTP/2. Redirects are never followed, and
/// proxy variables of the environment are not read.
#[derive(Debug, Clone)]
pub struct Upstream(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    settings: UpstreamSettings,
    alpha: OnceLock<Pool>,
    beta: OnceLock<Pool>,
    gamma: OnceLock<Pool>,
    delta: OnceLock<Pool>,
}

#[derive(Debug)]
struct Pool {
    connection: ConnectionSettings,
    client: Client,
}

/// How many connections wait for a next request, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// An idle connection is closed after this time.
    pub idle: Duration,
    /// The most idle connections to one host.
    pub idle_connections_max: usize,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { idle: Duration::from_secs(30), idle_connections_max: 16_000 }
    }
}

impl Upstream {
    /// Makes no connection yet. Must be used within one tokio runtime.
    pub fn new(settings: &UpstreamSettings) -> Self {
        Self(Arc::new(Pools {
            settings: *settings,
            alpha: OnceLock::new(),
            beta: OnceLock::new(),
            gamma: OnceLock::new(),
            delta: OnceLock::new(),
        }))
    }

    /// Sends a request that `target` built, and waits for the head of its answer.
    ///
    /// The phases are limited by the target's timeouts. Whatever must not be passed on is an error:
    /// statuses below 200 or above 599, both or strange framing headers, a head over [`HEAD_BYTES_MAX`]
    /// or [`HEADERS_MAX`], more than [`INFORMATIONAL_MAX`] informational answers. A connection with such
    /// an answer is not used again. Dropping the future ends the request.
    pub async fn send(
        &self,
        target: &Target,
        mut request: Request<RequestBody>,
    ) -> Result<Answer, ClientError> {
        let client = self.client(target)?;
        let timeouts = target.connection().timeouts;
        let started = Instant::now();
        let progress = request.body().progress();
        let connection = capture_connection(&mut request);
        let informational = Informational::count(&mut request);
        let head = head(client.request(request), timeouts.first_byte, &progress);
        let response = tokio::select! {
            biased;
            response = head => response?,
            () = informational.too_many() => {
                return Err(ClientError::bad_response(TOO_MANY));
            }
        };
        // All of them may have come together with the answer itself.
        let checked = if informational.were_too_many() {
            Err(TOO_MANY)
        } else {
            answer::check_head(&response)
        };
        if let Err(what) = checked {
            if let Some(connected) = connection.connection_metadata().as_ref() {
                connected.poison();
            }
            return Err(ClientError::bad_response(what));
        }
        if let Some(watch) = response.extensions().get::<Arc<Watch>>() {
            watch.note_answer();
        }
        Ok(Answer::new(response, started.elapsed(), timeouts.between_bytes))
    }

    fn client(&self, target: &Target) -> Result<&Client, ClientError> {
        let pool = match target.platform() {
            Platform::Alpha => &self.0.alpha,
            Platform::Beta => &self.0.beta,
            Platform::Gamma => &self.0.gamma,
            Platform::Delta => &self.0.delta,
        };
        let connection = target.connection();
        let pool = pool.get_or_init(|| Pool {
            connection: connection.clone(),
            client: client(connection, &self.0.settings),
        });
        // Connections made with other trusted authorities must not carry this target's credentials.
        if pool.connection.is_same(connection) {
            Ok(&pool.client)
        } else {
            Err(ClientError::build("these connections serve another target of this platform"))
        }
    }
}

/// Makes no connection yet.
pub(crate) fn client(connection: &ConnectionSettings, settings: &UpstreamSettings) -> Client {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(settings.idle)
        .pool_max_idle_per_host(settings.idle_connections_max)
        // Sends a request again only if hyper gives it back, which it does only when the pool handed out
        // a connection that turned out closed before any of the request was written. That is as safe for a
        // write as for a read.
        .retry_canceled_requests(true)
        .set_host(true)
        .http1_title_case_headers(false)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .http1_max_headers(HEADERS_MAX)
        .http2_max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_WAIT);
    builder.build(Connector::new(connection.clone()))
}

/// Waits for the head of the answer; the time starts anew while parts of a spooled body leave.
async fn head(
    mut response: ResponseFuture,
    wait: Duration,
    progress: &Progress,
) -> Result<Response<Incoming>, ClientError> {
    loop {
        let left_before = progress.get();
        match timeout(wait, &mut response).await {
            Ok(response) => return response.map_err(classify),
            Err(_) if progress.get() != left_before => {}
            Err(_) => {
                return Err(ClientError {
                    fault: Fault::Theirs,
                    kind: Kind::Timeout(Phase::FirstByte),
                    sent: true,
                    retryable: false,
                    source: None,
                });
            }
        }
    }
}

/// Why an answer with too many informational ones before it is not passed on.
const TOO_MANY: &str = "too many informational answers";

/// Counts informational answers, which hyper swallows without an end.
struct Informational(Arc<(AtomicU8, Notify)>);

impl Informational {
    fn count(request: &mut Request<RequestBody>) -> Self {
        let shared = Arc::new((AtomicU8::new(0), Notify::new()));
        let counter = Arc::clone(&shared);
        hyper::ext::on_informational(request, move |_| {
            let (count, too_many) = &*counter;
            if count.fetch_add(1, Ordering::Relaxed) >= INFORMATIONAL_MAX {
                count.store(INFORMATIONAL_MAX + 1, Ordering::Relaxed);
                too_many.notify_one();
            }
        });
        Self(shared)
    }

    async fn too_many(&self) {
        self.0.1.notified().await;
    }

    fn were_too_many(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) > INFORMATIONAL_MAX
    }
}

/// Says whose fault a failed request is, and whether the platform may have seen it.
pub(crate) fn classify(error: legacy::Error) -> ClientError {
    let (fault, kind, sent, retryable) = judge(&error);
    ClientError { fault, kind, sent, retryable, source: Some(error.into()) }
}

fn judge(error: &legacy::Error) -> (Fault, Kind, bool, bool) {
    if let Some(failure) = find::<ConnectFailure>(error) {
        let fault = if failure.kind == Kind::Tls { Fault::Theirs } else { Fault::Network };
        return (fault, failure.kind, false, failure.kind == Kind::Connect);
    }
    let Some(http) = find::<hyper::Error>(error) else {
        // The pool gave no connection, for instance because the one that was waited for never came up.
        return (Fault::Network, Kind::Connect, false, true);
    };
    if http.is_parse() {
        return (Fault::Theirs, Kind::BadResponse("it is not well-formed HTTP"), true, false);
    }
    if let Some(http2) = find::<h2::Error>(error) {
        if http2.is_library() {
            return (Fault::Theirs, Kind::BadResponse("it is not well-formed HTTP/2"), true, false);
        }
        if http2.is_remote()
            && http2.is_reset()
            && http2.reason() == Some(h2::Reason::REFUSED_STREAM)
        {
            // Said only of requests that were not looked at (RFC 9113, section 8.7).
            return (Fault::Theirs, Kind::Closed, false, true);
        }
    }
    if http.is_user() && !error.is_connect() {
        return (Fault::Ours, Kind::Closed, true, false);
    }
    let Some(info) = error.connect_info() else {
        // No connection was ready for requests, so nothing of this one was written.
        return (Fault::Network, Kind::Closed, false, true);
    };
    if http.is_canceled() {
        // hyper gave the request back: its connection ended before any of it was written.
        return (Fault::Network, Kind::Closed, false, true);
    }
    let mut extensions = http::Extensions::new();
    info.get_extras(&mut extensions);
    let was_given_up = extensions.get::<Arc<Watch>>().is_some_and(|watch| watch.was_given_up());
    (Fault::Network, Kind::Closed, true, was_given_up)
}

fn find<E: StdError + 'static>(error: &legacy::Error) -> Option<&E> {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        next = current.source();
    }
    None
}
