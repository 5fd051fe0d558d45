//! Tests of the listener over real sockets. Its timeouts are short here, and tests wait for events,
//! never for a time.

use std::collections::{HashMap, HashSet};
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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use transport::{
    ArrivedRequest, BoundListener, ConnectionCounts, ConnectionPeer, ListenerSettings,
    RequestHandler, RunningListener, TlsFiles,
};
use web::middleware::body::{self, BodyLimits, BodyPlace};
use web::middleware::budget::{BudgetRoom, MemoryBudget};
use web::middleware::framing::{self, FrameRules};

/// A timeout that a test can wait for.
const SHORT: Duration = Duration::from_millis(50);
/// A timeout that no test reaches.
const LONG: Duration = Duration::from_mins(10);

const GET_OK: &str = "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_HELD: &str = "GET /held HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_ENDLESS: &str = "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n";

/// The first bytes of an HTTP/2 connection: the preface and empty settings.
const HTTP2_START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The same with settings that leave no window for the body of a response (`INITIAL_WINDOW_SIZE`
/// 0).
const HTTP2_START_WITHOUT_ROOM: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
/// `GET /endless` on stream 1, without compression: method and scheme from the static table, then
/// path and authority as literals.
const HTTP2_GET_ENDLESS: &[u8] = b"\0\0\x0f\x01\x05\0\0\0\x01\x82\x86\x04\x08/endless\x01\x01a";
const HTTP2_PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";

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

/// Signals between handlers and the test.
#[derive(Clone, Default)]
struct Words {
    /// A request to `/held` has begun.
    held: Arc<Notify>,
    /// Lets one request to `/held` end.
    release: Arc<Notify>,
    /// The body of an endless response was dropped.
    dropped: Arc<Notify>,
}

/// A response body that never ends and signals when it is dropped.
struct Endless(Arc<Notify>);

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

fn router(words: Words) -> Router {
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
fn answers(router: Router) -> impl RequestHandler {
    move |ArrivedRequest { peer, request }: ArrivedRequest| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let answer = tower::ServiceExt::oneshot(router.clone(), request);
        async move { answer.await.unwrap_or_else(|never| match never {}) }
    }
}

async fn peer(request: Request<Body>) -> String {
    format!("{:?} {:?}", request.version(), request.extensions().get::<ConnectionPeer>().unwrap())
}

async fn held(State(words): State<Words>) -> &'static str {
    words.held.notify_one();
    words.release.notified().await;
    "released"
}

async fn endless(State(words): State<Words>) -> Response {
    Body::new(Endless(words.dropped)).into_response()
}

/// Does what the service does first with every request: checks the head and reads the body.
async fn checked(request: Request<Body>) -> Response {
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

fn start(settings: &ListenerSettings) -> (RunningListener, Words) {
    let words = Words::default();
    let for_cores = words.clone();
    let listener = BoundListener::bind(settings).unwrap();
    let running = listener.run(move |_core| answers(router(for_cores.clone()))).unwrap();
    (running, words)
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Connects and sends the bytes.
async fn sending(address: SocketAddr, bytes: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = connect(address).await;
    stream.write_all(bytes.as_ref()).await.unwrap();
    stream
}

/// Reads until the text ends with `end`.
async fn read_to<T: AsyncRead + Unpin>(stream: &mut T, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let byte = stream.read_u8().await;
        let so_far = String::from_utf8_lossy(&read);
        read.push(byte.unwrap_or_else(|error| panic!("{error} instead of {end:?} after {so_far}")));
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Waits until the other side has closed or reset the connection.
async fn closed<T: AsyncRead + Unpin>(stream: &mut T) {
    let mut space = [0; 4096];
    while !matches!(stream.read(&mut space).await, Ok(0) | Err(_)) {}
}

/// Sends the same bytes repeatedly until the other side has closed the connection.
async fn closed_while_dripping(stream: TcpStream, drip: &[u8]) {
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
async fn final_counts(mut running: RunningListener) -> ConnectionCounts {
    running.drain().await;
    let counts = running.limits().counts();
    running.stop().await;
    counts
}

#[tokio::test]
async fn every_core_serves_the_shared_port() {
    let (running, _) = start(&ListenerSettings { cores: 3, ..settings() });
    let request = "GET /core HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    let mut cores = HashSet::new();
    while cores.len() < 3 {
        let mut answer = String::new();
        let mut stream = sending(running.address(), request).await;
        stream.read_to_string(&mut answer).await.unwrap();
        cores.insert(answer.rsplit("\r\n").next().unwrap().to_owned());
    }

    assert_eq!(cores, ["core-0", "core-1", "core-2"].map(str::to_owned).into());
    running.stop().await;
}

/// The core that serves a connection.
async fn core_of(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /core HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let before = read_to(stream, "core-").await;
    assert!(before.starts_with("HTTP/1.1 200"), "{before}");
    char::from(stream.read_u8().await.unwrap()).into()
}

/// With the kernel's hash alone, each of four cores would have 32 of 128 connections, plus or minus
/// ten.
#[tokio::test]
async fn lasting_connections_are_spread_evenly_over_the_cores() {
    let (running, _) = start(&ListenerSettings { cores: 4, ..settings() });

    let mut streams = Vec::new();
    let mut counts = HashMap::<String, usize>::new();
    for _ in 0..128 {
        let mut stream = connect(running.address()).await;
        *counts.entry(core_of(&mut stream).await).or_default() += 1;
        streams.push(stream);
    }

    assert_eq!(counts.values().sum::<usize>(), 128);
    assert!(
        counts.len() == 4 && counts.values().all(|count| (31..=33).contains(count)),
        "{counts:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (running, _) = start(&settings());
    let requests: Vec<String> =
        (0..500).map(|n| format!("GET /count/{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();

    let mut stream = sending(running.address(), requests.concat()).await;
    let answers = read_to(&mut stream, "<499>").await;

    let numbers: Vec<u32> = answers
        .split('<')
        .skip(1)
        .map(|rest| rest.split_once('>').unwrap().0.parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn a_request_knows_the_peers_address() {
    let (running, _) = start(&settings());

    let mut stream = sending(running.address(), GET_OK.replace("/ok", "/peer")).await;
    let answer = read_to(&mut stream, "}").await;

    assert!(answer.ends_with("HTTP/1.1 ConnectionPeer { ip: 127.0.0.1, tls: false }"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_connection_that_sends_nothing_is_closed() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    closed(&mut connect(running.address()).await).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[tokio::test]
async fn a_dripping_head_is_closed_although_bytes_keep_coming() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    let in_first_line = sending(running.address(), "G").await;
    closed_while_dripping(in_first_line, b"E").await;
    let in_headers = sending(running.address(), "GET /ok HTTP/1.1\r\n").await;
    closed_while_dripping(in_headers, b"a: b\r\n").await;

    assert_eq!(final_counts(running).await.closed_idle, 2);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_response() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    let mut stream = sending(running.address(), GET_OK).await;
    read_to(&mut stream, "ok").await;
    closed(&mut stream).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[tokio::test]
async fn a_running_request_is_not_idle_however_long_it_takes() {
    let (running, words) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });
    let mut stream = sending(running.address(), GET_HELD).await;
    words.held.notified().await;

    // A later connection that is closed as idle shows that the timeout has passed for both.
    closed(&mut connect(running.address()).await).await;
    words.release.notify_one();

    assert!(read_to(&mut stream, "released").await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed_even_if_it_sends_pings() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    closed_while_dripping(sending(running.address(), HTTP2_START).await, HTTP2_PING).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_response_is_closed_and_the_response_dropped() {
    let (running, words) = start(&ListenerSettings { write_stall_timeout: SHORT, ..settings() });

    let stream = sending(running.address(), GET_ENDLESS).await;
    words.dropped.notified().await;

    drop(stream);
    assert_eq!(final_counts(running).await.closed_stalled, 1);
}

#[tokio::test]
async fn an_http2_peer_without_window_for_its_response_is_closed() {
    let (running, words) = start(&ListenerSettings { write_stall_timeout: SHORT, ..settings() });

    let request = [HTTP2_START_WITHOUT_ROOM, HTTP2_GET_ENDLESS].concat();
    let mut stream = sending(running.address(), request).await;
    words.dropped.notified().await;

    closed(&mut stream).await;
    assert_eq!(final_counts(running).await.closed_stalled, 1);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed_immediately_and_the_others_continue() {
    let (running, _) = start(&ListenerSettings { connections_max: 1, ..settings() });
    let mut first = sending(running.address(), GET_OK).await;
    read_to(&mut first, "ok").await;

    closed(&mut connect(running.address()).await).await;

    first.write_all(GET_OK.as_bytes()).await.unwrap();
    read_to(&mut first, "ok").await;
    let counts = final_counts(running).await;
    assert_eq!((counts.accepted, counts.refused, counts.open), (1, 1, 0));
}

#[tokio::test]
async fn a_stopping_listener_finishes_running_requests_and_accepts_no_new_ones() {
    let (mut running, words) = start(&settings());
    let address = running.address();
    let mut idle = sending(address, GET_OK).await;
    read_to(&mut idle, "ok").await;
    let mut busy = sending(address, GET_HELD).await;
    words.held.notified().await;

    let meanwhile = async {
        closed(&mut idle).await;
        // A connection that still gets into the kernel's queue is closed.
        let refused = loop {
            match TcpStream::connect(address).await {
                Ok(mut late) => closed(&mut late).await,
                Err(refused) => break refused,
            }
        };
        words.release.notify_one();
        let answer = read_to(&mut busy, "released").await;
        closed(&mut busy).await;
        (refused.kind(), answer)
    };
    let ((), (refused, answer)) = tokio::join!(running.drain(), meanwhile);

    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_stopping_listener_does_not_wait_longer_than_its_drain_time() {
    let (mut running, words) = start(&ListenerSettings { drain_timeout: SHORT, ..settings() });
    let mut stuck = sending(running.address(), GET_HELD).await;
    words.held.notified().await;

    running.drain().await;

    closed(&mut stuck).await;
    assert_eq!(running.limits().counts().open, 0);
    running.stop().await;
}

#[tokio::test]
async fn tasks_of_a_core_outlive_the_drain_and_end_with_the_stop() {
    let (word, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (for_core, of_core) = (Arc::clone(&word), Endless(Arc::clone(&dropped)));
    let of_core = Arc::new(parking_lot::Mutex::new(Some(of_core)));
    let listener = BoundListener::bind(&settings()).unwrap();
    let mut running = listener
        .run(move |_core| {
            let (asked, kept) = (Arc::clone(&for_core), of_core.lock().take());
            let outliving = tokio_util::task::TaskTracker::new().spawn(async move {
                loop {
                    asked.notified().await;
                    kept.as_ref().unwrap().0.notify_one();
                }
            });
            drop(outliving);
            answers(Router::new())
        })
        .unwrap();

    running.drain().await;
    word.notify_one();
    dropped.notified().await;
    running.stop().await;

    dropped.notified().await;
}

#[tokio::test]
async fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    const BODY_BYTES: usize = 8 * 1024 * 1024;
    let (running, _) = start(&settings());
    let head = format!("POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let stream = sending(running.address(), head).await;
    let (mut reader, mut writer) = stream.into_split();

    let body = vec![b'x'; BODY_BYTES];
    let mut answer = String::new();
    let (read, written) =
        tokio::join!(reader.read_to_string(&mut answer), writer.write_all(&body),);

    assert!(read.is_ok(), "{read:?}");
    assert!(written.is_ok(), "{written:?}");
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    running.stop().await;
}

/// The statuses of all responses on a connection that sends the raw request and then one that asks
/// to close.
async fn statuses(address: SocketAddr, raw: &str) -> Vec<u16> {
    let mut stream = connect(address).await;
    // The last request asks to close, so the responses end there if the server has not closed
    // before.
    let end = "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(raw.as_bytes()).await.unwrap();
    stream.write_all(end.as_bytes()).await.ok();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.ok();
    let answers = String::from_utf8(answers).unwrap();
    let lines = answers.split("HTTP/1.1 ").skip(1);
    lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// The name of a case, the bytes sent, and the statuses of the responses to them and to the next
/// request. With one status, the connection was closed before the second request.
type Framed = (&'static str, String, &'static [u16]);

fn post(lines: &str, body: &str) -> String {
    format!("POST /checked HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n{body}")
}

/// Cases about the end of the body.
fn bodies() -> Vec<Framed> {
    let chunked = "Transfer-Encoding: chunked";
    let chunks = |body: &str| post(chunked, body);
    vec![
        ("A1", post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), &[200]),
        ("A2", post("Content-Length: 1\r\nContent-Length: 2", "xx"), &[400]),
        ("A3", post("Content-Length: 1\r\nContent-Length: 1", "x"), &[200, 200]),
        ("A4 list", post("Content-Length: 1, 1", "x"), &[400]),
        ("A4 plus", post("Content-Length: +1", "x"), &[400]),
        ("A4 minus", post("Content-Length: -1", "x"), &[400]),
        ("A4 hex", post("Content-Length: 0x1", "x"), &[400]),
        ("A4 letter", post("Content-Length: 1Z", "x"), &[400]),
        ("A4 empty", post("Content-Length: ", "x"), &[400]),
        ("A4 huge", post("Content-Length: 18446744073709551616", "x"), &[400]),
        ("A5", post("Content-Length: 010", "0123456789"), &[400, 200]),
        ("A6 list", post("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"), &[400, 200]),
        ("A6 twice", post(&format!("{chunked}\r\n{chunked}"), "0\r\n\r\n"), &[400, 200]),
        ("A7", post("Content-Length: 1\r\nTransfer-Encoding: ,chunked", "0\r\n\r\n"), &[400]),
        ("A8", post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), &[400, 200]),
        ("A9 order", post("Transfer-Encoding: chunked, gzip", "0\r\n\r\n"), &[400]),
        ("A9 word", post("Transfer-Encoding: xchunked", "0\r\n\r\n"), &[400]),
        ("A9 control", post("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"), &[400]),
        (
            "A10",
            "POST /checked HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .into(),
            &[400],
        ),
        ("A11 space", post("Transfer-Encoding : chunked", "0\r\n\r\n"), &[400]),
        ("A11 fold", post("X: a\r\n b", ""), &[400]),
        ("A12 hex", chunks("0x1\r\nx\r\n0\r\n\r\n"), &[400]),
        ("A12 underscore", chunks("1_0\r\nx\r\n0\r\n\r\n"), &[400]),
        ("A12 empty", chunks("\r\nx\r\n0\r\n\r\n"), &[400]),
        ("A12 huge", chunks("10000000000000000\r\nx\r\n0\r\n\r\n"), &[400]),
        ("A12 space", chunks(" 1\r\nx\r\n0\r\n\r\n"), &[400]),
        ("A12 end", chunks("1\r\nxyz0\r\n\r\n"), &[400]),
        ("A13", chunks("1\r\nx\r\n0\r\nX-Api-Key: evil\r\nContent-Length: 5\r\n\r\n"), &[200, 200]),
    ]
}

/// Cases about line ends and the request line.
fn lines() -> Vec<Framed> {
    vec![
        ("A14", "GET /checked HTTP/1.1\nHost: a\n\n".into(), &[200, 200]),
        ("A15 bare CR", post("X: a\rb", ""), &[400]),
        ("A15 NUL", post("X: a\0b", ""), &[400]),
        ("A15 no colon", post("X", ""), &[400]),
        ("A15 no name", post(": a", ""), &[400]),
        ("A15 space", post("X Y: a", ""), &[400]),
        ("A16 none", "GET /checked HTTP/1.1\r\n\r\n".into(), &[400, 200]),
        ("A16 two", "GET /checked HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".into(), &[400, 200]),
        ("A16 path", "GET /checked HTTP/1.1\r\nHost: a /../b\r\n\r\n".into(), &[400, 200]),
        ("A17 other", "GET http://evil/checked HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[400, 200]),
        ("A17 same", "GET http://a/checked HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[200, 200]),
        ("A17 authority", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[400, 200]),
        ("A17 star", "GET * HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[400, 200]),
        ("A17 no slash", "GET checked HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[400, 200]),
        ("A18 TRACE", "TRACE /checked HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[405, 200]),
        ("A19 case", "get /checked HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[405, 200]),
        ("A19 other", "PROPFIND /checked HTTP/1.1\r\nHost: a\r\n\r\n".into(), &[405, 200]),
        ("A20", "GET /checked HTTP/1.32\r\nHost: a\r\n\r\n".into(), &[400]),
        (
            "A21",
            "GET /checked HTTP/1.1\r\nHost: a\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n"
                .into(),
            &[200, 200],
        ),
        ("A22", post("Expect: 200-ok\r\nContent-Length: 0", ""), &[417, 200]),
        (
            "A23",
            "GET /checked HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".into(),
            &[400, 200],
        ),
        ("C3", post("X_Api_Key: a\r\nContent-Length: 0", ""), &[400, 200]),
        ("C8", post("Content-Encoding: gzip\r\nContent-Length: 0", ""), &[415, 200]),
    ]
}

#[tokio::test]
async fn an_ambiguous_request_is_refused_or_read_in_one_way() {
    let (running, _) = start(&settings());

    let mut wrong = Vec::new();
    for (name, raw, expected) in bodies().into_iter().chain(lines()) {
        let found = statuses(running.address(), &raw).await;
        if found != expected {
            wrong.push(format!("{name}: {found:?} instead of {expected:?}"));
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    running.stop().await;
}

#[tokio::test]
async fn a_connect_request_opens_no_tunnel() {
    let (running, _) = start(&settings());

    let mut stream =
        sending(running.address(), "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n").await;
    let answer = read_to(&mut stream, "\r\n\r\n").await;

    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_or_has_too_many_headers_is_refused() {
    let (running, _) = start(&settings());
    let get = |lines: &str| format!("GET /checked HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let (small, large) = ("a".repeat(15_000), "a".repeat(20_000));
    let (few, many) = ("X: 1\r\n".repeat(63), "X: 1\r\n".repeat(64));
    let cases = [
        (get(&format!("X: {small}\r\n")), 200),
        (get(&format!("X: {large}\r\n")), 431),
        (get(&few), 200),
        (get(&many), 431),
        (get(&"X: 1\r\n".repeat(101)), 431),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9_000)), 414),
    ];
    for (raw, expected) in cases {
        let length = raw.len();

        let found = statuses(running.address(), &raw).await;

        assert_eq!(found.first(), Some(&expected), "{length} bytes");
    }
    running.stop().await;
}

fn tls_files() -> TlsFiles {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/edge");
    TlsFiles {
        certificate_file: folder.join("localhost.pem"),
        key_file: folder.join("localhost.key.pem"),
    }
}

/// A client that trusts only the test's certificate and offers one protocol.
async fn tls_client(address: SocketAddr, protocol: &[u8]) -> impl AsyncRead + AsyncWrite + Unpin {
    use rustls::pki_types::pem::PemObject;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let certificate =
        rustls::pki_types::CertificateDer::from_pem_file(tls_files().certificate_file).unwrap();
    roots.add(certificate).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = "localhost".try_into().unwrap();
    let stream = connector.connect(name, connect(address).await).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    stream
}

#[tokio::test]
async fn http1_and_http2_work_over_tls() {
    let (running, _) = start(&ListenerSettings { tls: Some(tls_files()), ..settings() });

    let mut http1 = tls_client(running.address(), b"http/1.1").await;
    http1.write_all(GET_OK.replace("/ok", "/peer").as_bytes()).await.unwrap();
    let answer = read_to(&mut http1, "}").await;
    let mut http2 = tls_client(running.address(), b"h2").await;
    http2.write_all(&[HTTP2_START, HTTP2_GET_ENDLESS].concat()).await.unwrap();
    read_to(&mut http2, "xxxxxxxx").await;

    assert!(answer.ends_with("Peer { ip: 127.0.0.1, tls: true }"), "{answer}");
    drop((http1, http2));
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_no_tls_handshake_is_closed() {
    let settings = ListenerSettings { tls: Some(tls_files()), head_timeout: SHORT, ..settings() };
    let (running, _) = start(&settings);

    closed(&mut connect(running.address()).await).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[test]
fn an_unusable_certificate_is_named_in_the_error() {
    let files = TlsFiles { certificate_file: "/nowhere.pem".into(), ..tls_files() };

    let error =
        BoundListener::bind(&ListenerSettings { tls: Some(files), ..settings() }).unwrap_err();

    assert!(error.to_string().starts_with("/nowhere.pem: "), "{error}");
}
