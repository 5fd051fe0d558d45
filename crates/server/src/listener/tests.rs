//! The listener over real sockets. Timers are short here, and what is awaited is always an event.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::middleware::framing::{self, FrameRules};

use super::shutdown::Running;
use super::{Answers, Listener, ListenerSettings, Peer};

/// Short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(50);
/// Long enough never to be reached.
const LONG: Duration = Duration::from_secs(600);

const GET_OK: &str = "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_HELD: &str = "GET /held HTTP/1.1\r\nHost: a\r\n\r\n";

fn settings() -> ListenerSettings {
    ListenerSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        cores: 1,
        tls: None,
        head_timeout: LONG,
        head_bytes_max: 16 * 1024,
        headers_max: 64,
        write_stall_timeout: LONG,
        drain_timeout: LONG,
        connections_max: 1_000,
        connections_per_ip_max: 1_000,
        trusted_proxies: Vec::new(),
    }
}

/// What the handlers share with the test.
#[derive(Clone, Default)]
struct Strings {
    /// A request to `/held` has begun.
    held: Arc<Notify>,
    /// Lets one request to `/held` end.
    release: Arc<Notify>,
    /// The body of an endless answer was dropped.
    dropped: Arc<Notify>,
}

fn router(strings: Strings) -> Router {
    Router::new()
        .route("/ok", get(|| async { "ok" }))
        .route("/count/{n}", get(|Path(n): Path<u32>| async move { format!("<{n}>") }))
        .route(
            "/core",
            get(|| async { std::thread::current().name().map(str::to_owned).unwrap_or_default() }),
        )
        .route("/peer", get(peer))
        .route("/held", get(held))
        .route("/endless", get(endless))
        .route("/refuse", post(|| async { StatusCode::PAYLOAD_TOO_LARGE }))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }))
        .with_state(strings)
}

async fn peer(request: Request<axum::body::Body>) -> String {
    format!("{:?} {:?}", request.version(), request.extensions().get::<Peer>().unwrap())
}

async fn held(State(strings): State<Strings>) -> &'static str {
    strings.held.notify_one();
    strings.release.notified().await;
    "released"
}

/// An answer without an end.
async fn endless(State(strings): State<Strings>) -> Response {
    axum::body::Body::new(Endless(strings.dropped)).into_response()
}

/// A body without an end that tells when it is dropped.
struct Endless(Arc<Notify>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(&[b'x'; 16_384])))))
    }
}
