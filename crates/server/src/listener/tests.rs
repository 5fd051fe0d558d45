//! The listener over real sockets. Timers are short here, and what is awaited is always an event.

use std::collections::HashSet;
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
use tokio::sync::Notify;

use super::shutdown::Running;
use super::{Listener, ListenerSettings, Peer};

/// Short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(50);
/// Long enough never to be reached.
const LONG: Duration = Duration::from_mins(10);

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

/// A listener with these settings that is serving, and what its handlers share with the test.
fn start(settings: &ListenerSettings) -> (Running, Strings) {
    let strings = Strings::default();
    let shared = strings.clone();
    let listener = Listener::bind(settings).unwrap();
    (listener.run(move |_| router(shared.clone())).unwrap(), strings)
}

async fn connect(running: &Running) -> TcpStream {
    TcpStream::connect(running.address()).await.unwrap()
}

/// Everything that comes until the other side closes; a reset counts as a close.
async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    drop(stream.read_to_end(&mut bytes).await);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Everything that comes until `end` has come.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).ends_with(end) {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed before {end:?}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_connection_that_sends_nothing_is_closed() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });
    let mut stream = connect(&running).await;

    assert_eq!(read_to_close(&mut stream).await, "");
    // The connection is counted after it is closed.
    while running.limits().counts().closed_idle == 0 {
        tokio::task::yield_now().await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_head_that_drips_is_closed_however_often_a_line_comes() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });
    let mut stream = connect(&running).await;
    stream.write_all(b"GET /ok HTTP/1.1\r\nHost: a\r\n").await.unwrap();

    // Lines keep coming until the connection is closed: writing then fails, or the reader sees the end.
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    let drip = async {
        while writer.write_all(b"X-A: b\r\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = reader.read_to_end(&mut answer) => drop(ended),
        () = drip => {}
    }

    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"), "{answer:?}");
    running.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_its_next_request_and_then_closed() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });
    let mut stream = connect(&running).await;

    stream.write_all(GET_OK.as_bytes()).await.unwrap();
    let answered = read_until(&mut stream, "ok").await;
    let rest = read_to_close(&mut stream).await;

    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    assert_eq!(rest, "");
    running.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (running, _) = start(&settings());
    let mut stream = connect(&running).await;
    let request = |n: u32| format!("GET /count/{n} HTTP/1.1\r\nHost: a\r\n\r\n");
    let many: Vec<String> = (0..500).map(request).collect();

    stream.write_all(many.concat().as_bytes()).await.unwrap();
    let answers = read_until(&mut stream, "<499>").await;

    let order: Vec<&str> =
        answers.split('<').skip(1).filter_map(|part| part.split('>').next()).collect();
    let expected: Vec<String> = (0..500).map(|n: u32| n.to_string()).collect();
    assert_eq!(order, expected);
    running.stop().await;
}

#[tokio::test]
async fn every_core_serves_the_one_port_that_was_found() {
    let (running, _) = start(&ListenerSettings { cores: 2, ..settings() });
    let mut cores = HashSet::new();

    // The kernel spreads connections over the sockets by their addresses.
    for _ in 0..1_000 {
        let mut stream = connect(&running).await;
        let get = b"GET /core HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(get).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        cores.extend(answer.rsplit("\r\n").next().map(str::to_owned));
        if cores.len() == 2 {
            break;
        }
    }

    assert_eq!(cores, HashSet::from(["core-0".to_owned(), "core-1".to_owned()]));
    running.stop().await;
}

#[tokio::test]
async fn a_connection_over_the_limit_is_closed_at_once_and_a_later_one_is_served() {
    let (running, _) = start(&ListenerSettings { connections_max: 1, ..settings() });
    let mut first = connect(&running).await;
    first.write_all(GET_OK.as_bytes()).await.unwrap();
    read_until(&mut first, "ok").await;

    let mut second = connect(&running).await;
    assert_eq!(read_to_close(&mut second).await, "");
    first.shutdown().await.unwrap();
    read_to_close(&mut first).await;

    // The place is free once the first connection's task has ended.
    let served = loop {
        let mut third = connect(&running).await;
        drop(third.write_all(GET_OK.as_bytes()).await);
        third.shutdown().await.unwrap_or_default();
        let answer = read_to_close(&mut third).await;
        if !answer.is_empty() {
            break answer;
        }
    };
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    assert!(running.limits().counts().refused >= 1);
    running.stop().await;
}

#[tokio::test]
async fn a_stop_lets_a_running_request_end_and_takes_no_new_connection() {
    let (running, strings) = start(&settings());
    let address = running.address();
    let mut stream = connect(&running).await;
    stream.write_all(GET_HELD.as_bytes()).await.unwrap();
    strings.held.notified().await;

    let mut stopping = Box::pin(running.stop());
    assert!(futures_poll(&mut stopping).await, "the stop waits for the request");
    while TcpStream::connect(address).await.is_ok() {
        assert!(futures_poll(&mut stopping).await);
    }
    strings.release.notify_one();
    let (answer, ()) = tokio::join!(read_to_close(&mut stream), stopping);

    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("released"), "{answer}");
}

/// Polls once; true while it is not done.
async fn futures_poll(work: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    let pending = std::future::poll_fn(|context| {
        Poll::Ready(Pin::new(&mut *work).poll(context).is_pending())
    });
    let pending = pending.await;
    tokio::task::yield_now().await;
    pending
}

#[tokio::test]
async fn a_caller_who_reads_nothing_is_closed_and_the_answer_is_no_longer_made() {
    let (running, strings) = start(&ListenerSettings { write_stall_timeout: SHORT, ..settings() });
    let mut stream = connect(&running).await;

    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    strings.dropped.notified().await;

    while running.limits().counts().closed_stalled == 0 {
        tokio::task::yield_now().await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_refusal_reaches_a_caller_who_is_still_sending_the_body() {
    let (running, _) = start(&settings());
    let mut stream = connect(&running).await;
    let head = b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    drop(stream.write_all(&vec![b'x'; 300_000]).await);

    let answer = read_to_close(&mut stream).await;

    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_request_knows_its_peer_and_bodies_arrive_whole() {
    let (running, _) = start(&settings());
    let mut stream = connect(&running).await;

    stream.write_all(b"GET /peer HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let peer = read_until(&mut stream, " }").await;
    let post =
        b"POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    stream.write_all(post).await.unwrap();
    let length = read_to_close(&mut stream).await;

    assert!(peer.contains("HTTP/1.1 Peer { ip: 127.0.0.1, tls: false }"), "{peer}");
    assert!(length.ends_with("\r\n\r\n3"), "{length}");
    running.stop().await;
}

#[tokio::test]
async fn http2_is_spoken_with_whoever_begins_with_it() {
    let (running, _) = start(&settings());
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .http2_only(true)
        .build_http::<http_body_util::Empty<Bytes>>();

    let uri = format!("http://{}/peer", running.address()).parse().unwrap();
    let answer = client.get(uri).await.unwrap();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();

    assert!(body.starts_with(b"HTTP/2.0 Peer {"), "{body:?}");
    drop(client);
    running.stop().await;
}

#[test]
fn an_address_in_use_is_refused_although_the_cores_share_theirs() {
    let first = Listener::bind(&settings()).unwrap();

    let second = Listener::bind(&ListenerSettings { listen: first.address(), ..settings() });

    assert!(second.is_err());
}
