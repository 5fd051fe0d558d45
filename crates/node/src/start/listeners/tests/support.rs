//! A listener for one test, with routes that wait, stream and check, and clients that speak to it
//! byte by byte.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use transport::{
    ArrivedRequest, BoundListener, ConnectionCounts, ConnectionPeer, ListenerSettings,
    RequestHandler, RunningListener,
};
use web::middleware::body::{self, BodyLimits, BodyPlace};
use web::middleware::budget::{BudgetRoom, MemoryBudget};
use web::middleware::framing::{self, FrameRules};

/// A timeout that a test can wait for.
pub(super) const SHORT: Duration = Duration::from_millis(50);
/// A timeout that no test reaches.
pub(super) const LONG: Duration = Duration::from_mins(10);

pub(super) const GET_OK: &str = "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n";
pub(super) const GET_HELD: &str = "GET /held HTTP/1.1\r\nHost: a\r\n\r\n";
pub(super) const GET_ENDLESS: &str = "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n";

/// The first bytes of an HTTP/2 connection: the preface and empty settings.
pub(super) const HTTP2_START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The same with settings that leave no window for the body of a response (`INITIAL_WINDOW_SIZE`
/// 0).
pub(super) const HTTP2_START_WITHOUT_ROOM: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
/// `GET /endless` on stream 1, without compression: method and scheme from the static table, then
/// path and authority as literals.
pub(super) const HTTP2_GET_ENDLESS: &[u8] =
    b"\0\0\x0f\x01\x05\0\0\0\x01\x82\x86\x04\x08/endless\x01\x01a";
pub(super) const HTTP2_PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";

pub(super) fn settings() -> ListenerSettings {
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

/// Signals between handlers and the test.
#[derive(Clone, Default)]
pub(super) struct Words {
    /// A request to `/held` has begun.
    pub(super) held: Arc<Notify>,
    /// Lets one request to `/held` end.
    pub(super) release: Arc<Notify>,
    /// The body of an endless response was dropped.
    pub(super) dropped: Arc<Notify>,
}

/// A response body that never ends and signals when it is dropped.
pub(super) struct Endless(pub(super) Arc<Notify>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16_384])))))
    }
}

pub(super) fn router(words: Words) -> Router {
    Router::new()
        .route("/ok", get(async || "ok"))
        .route("/count/{n}", get(async |Path(n): Path<u32>| format!("<{n}>")))
        .route("/core", get(async || std::thread::current().name().unwrap().to_owned()))
        .route("/peer", get(peer))
        .route("/held", get(held))
        .route("/endless", get(endless))
        .route("/refuse", any(async || StatusCode::PAYLOAD_TOO_LARGE))
        .route("/checked", any(checked))
        .fallback(checked)
        .with_state(words)
}

/// A router whose requests carry the address of their peer.
pub(super) fn answers(router: Router) -> impl RequestHandler {
    move |ArrivedRequest { peer, request }: ArrivedRequest| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let answer = tower::ServiceExt::oneshot(router.clone(), request);
        async move { answer.await.unwrap_or_else(|never| match never {}) }
    }
}

pub(super) async fn peer(request: Request<Body>) -> String {
    format!("{:?} {:?}", request.version(), request.extensions().get::<ConnectionPeer>().unwrap())
}

pub(super) async fn held(State(words): State<Words>) -> &'static str {
    words.held.notify_one();
    words.release.notified().await;
    "released"
}

pub(super) async fn endless(State(words): State<Words>) -> Response {
    Body::new(Endless(words.dropped)).into_response()
}

/// Does what the service does first with every request: checks the head and reads the body.
pub(super) async fn checked(request: Request<Body>) -> Response {
    if let Err(problem) = framing::admit(&request, &FrameRules::new(&[])) {
        return problem.status().into_response();
    }
    let limits =
        BodyLimits { bytes_max: 1_000, grace: LONG, total: LONG, kept: BodyPlace::InMemory };
    let (budget, holder) = (MemoryBudget::new(100_000, 100_000), Arc::default());
    let room = BudgetRoom { budget: &budget, holder: &holder };
    match body::read_body(request.into_body(), &limits, room).await {
        Ok(buffered) => format!("read {} bytes", buffered.bytes.len()).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

pub(super) fn start(settings: &ListenerSettings) -> (RunningListener, Words) {
    let words = Words::default();
    let for_cores = words.clone();
    let listener = BoundListener::bind(settings).unwrap();
    let running = listener.run(move |_core| answers(router(for_cores.clone()))).unwrap();
    (running, words)
}

pub(super) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Connects and sends the bytes.
pub(super) async fn sending(address: SocketAddr, bytes: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = connect(address).await;
    stream.write_all(bytes.as_ref()).await.unwrap();
    stream
}

/// Reads until the text ends with `end`.
pub(super) async fn read_to<T: AsyncRead + Unpin>(stream: &mut T, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let byte = stream.read_u8().await;
        let so_far = String::from_utf8_lossy(&read);
        read.push(byte.unwrap_or_else(|error| panic!("{error} instead of {end:?} after {so_far}")));
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Waits until the other side has closed or reset the connection.
pub(super) async fn closed<T: AsyncRead + Unpin>(stream: &mut T) {
    let mut space = [0; 4096];
    while !matches!(stream.read(&mut space).await, Ok(0) | Err(_)) {}
}

/// Sends the same bytes repeatedly until the other side has closed the connection.
pub(super) async fn closed_while_dripping(stream: TcpStream, drip: &[u8]) {
    let (mut reader, mut writer) = stream.into_split();
    let mut ticks = tokio::time::interval(SHORT / 10);
    let drips = async {
        while writer.write_all(drip).await.is_ok() {
            ticks.tick().await;
        }
    };
    tokio::join!(closed(&mut reader), drips);
}

/// The counts after all connections have ended.
pub(super) async fn final_counts(mut running: RunningListener) -> ConnectionCounts {
    running.drain().await;
    let counts = running.limits().counts();
    running.stop().await;
    counts
}
