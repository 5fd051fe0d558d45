//! The listener over real sockets. Timers are short here, and what is awaited is always an event.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::StreamBody;
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
        .route("/core", get(|| async { std::thread::current().name().map(str::to_owned) }))
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

/// An answer without an end whose body tells when it is dropped.
async fn endless(State(strings): State<Strings>) -> Response {
    struct Told(Arc<Notify>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let told = Told(strings.dropped);
    let frames = std::iter::repeat_with(move || {
        let _kept = &told;
        Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(&[b'x'; 16_384])))
    });
    let stream = tokio_stream_of(frames);
    axum::body::Body::new(StreamBody::new(stream)).into_response()
}

/// An iterator as a stream that is always ready.
fn tokio_stream_of<I: Iterator + Unpin>(mut items: I) -> impl futures_core::Stream<Item = I::Item> {
    std::pin::pin!(());
    futures_util_poll_fn(move |_| std::task::Poll::Ready(items.next()))
}
