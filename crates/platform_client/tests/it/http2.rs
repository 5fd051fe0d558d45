//! HTTP/2, where a platform offers it in the TLS handshake.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use domain::method::Method;
use h2::Reason;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use platform_client::{
    CallErrorKind, CallFault, PlatformClient, PlatformTarget, ReadLimits, ReadUpTo,
};
use scripted_peer::TestAuthority;
use tokio_rustls::TlsAcceptor;

use crate::support::{TOKEN, assert_bad_response, call, facts, get, settings, upstream};

/// An answer, or why its stream is reset instead.
type StreamAnswer = Result<Response<&'static str>, Reason>;

/// A platform over HTTP/2 on a port of its own, that notes requests by connection and answers all
/// alike.
struct Http2Platform {
    target: PlatformTarget,
    seen: Arc<Mutex<Vec<(usize, String)>>>,
}

impl Http2Platform {
    fn start(answer: StreamAnswer) -> Self {
        let (listener, tls, target) = listen();
        let seen: Arc<Mutex<Vec<_>>> = Arc::default();
        let notes = Arc::clone(&seen);
        thread::spawn(move || serve(listener, &tls, &answer, &notes));
        Self { target, seen }
    }
}

/// A port that offers HTTP/2, and the target it is for.
fn listen() -> (TcpListener, TlsAcceptor, PlatformTarget) {
    let authority = TestAuthority::new();
    let mut config = authority.server("127.0.0.1", |_| {});
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = settings(&format!("https://{}", listener.local_addr().unwrap()));
    settings.ca_file = Some(authority.file.path().to_owned());
    let target = PlatformTarget::new(&settings).unwrap();
    (listener, TlsAcceptor::from(Arc::new(config)), target)
}

/// Answers each request with so many informational answers, and then with `fine`.
#[tokio::main(flavor = "current_thread")]
async fn inform(listener: TcpListener, tls: &TlsAcceptor, count: usize) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let (tcp, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(tls.accept(tcp).await.unwrap()).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        for _ in 0..count {
            let early = Response::builder().status(103).body(()).unwrap();
            respond.send_informational(early).unwrap();
        }
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"fine"), true).unwrap();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(
    listener: TcpListener,
    tls: &TlsAcceptor,
    answer: &StreamAnswer,
    seen: &Arc<Mutex<Vec<(usize, String)>>>,
) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let mut connections = tokio::task::JoinSet::new();
    for number in 0.. {
        let (tcp, _) = listener.accept().await.unwrap();
        let (tls, answer, seen) = (tls.clone(), answer.clone(), Arc::clone(seen));
        connections.spawn(async move {
            let stream = tls.accept(tcp).await.unwrap();
            let service =
                service_fn(|request| reply(request, number, answer.clone(), Arc::clone(&seen)));
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn reply(
    request: Request<Incoming>,
    connection: usize,
    answer: StreamAnswer,
    seen: Arc<Mutex<Vec<(usize, String)>>>,
) -> Result<Response<Full<Bytes>>, h2::Error> {
    let line = noted(request).await;
    seen.lock().unwrap().push((connection, line));
    let answer = answer.map_err(h2::Error::from)?;
    Ok(answer.map(|text| Full::new(Bytes::from_static(text.as_bytes()))))
}

async fn noted(request: Request<Incoming>) -> String {
    assert_eq!(request.version(), Version::HTTP_2);
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut names: Vec<_> = head.headers.keys().map(ToString::to_string).collect();
    names.sort();
    format!("{} {} {names:?} {}", head.method, head.uri.path(), String::from_utf8_lossy(&body))
}

async fn text(
    upstream: &PlatformClient,
    target: &PlatformTarget,
    method: Method,
    body: &str,
) -> String {
    let mut answer = call(upstream, target, method, "a.b/..c", body).await.unwrap();
    let ReadUpTo::Whole(bytes) = answer.body.read_up_to(ReadLimits::bytes(1_000)).await.unwrap()
    else {
        panic!("the answer is larger than a test's")
    };
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn calls_share_one_connection() {
    let platform = Http2Platform::start(Ok(Response::new("fine")));
    let upstream = upstream();

    for _ in 0..3 {
        assert_eq!(text(&upstream, &platform.target, Method::Post, "{}").await, "fine");
    }
    let (one, other) = tokio::join!(
        text(&upstream, &platform.target, Method::Get, ""),
        text(&upstream, &platform.target, Method::Get, ""),
    );
    assert_eq!((one.as_str(), other.as_str()), ("fine", "fine"));

    let seen = platform.seen.lock().unwrap();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|(connection, _)| *connection == 0), "{seen:?}");
    let names = r#"["accept-encoding", "authorization", "content-length", "user-agent"]"#;
    assert_eq!(seen[0].1, format!("POST /api/a.b/..c {names} {{}}"));
}

#[tokio::test]
async fn statuses_and_heads_are_checked_as_on_http_1() {
    for status in [600, 999] {
        let odd = Response::builder().status(status).body("").unwrap();
        let platform = Http2Platform::start(Ok(odd));

        assert_bad_response(&get(&upstream(), &platform.target).await.unwrap_err());
    }
    let mut long = Response::new("");
    for _ in 0..101 {
        long.headers_mut().append("a", http::HeaderValue::from_static("b"));
    }
    let platform = Http2Platform::start(Ok(long));

    assert_bad_response(&get(&upstream(), &platform.target).await.unwrap_err());
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    for count in [0, 8, 2_000] {
        let (listener, tls, target) = listen();
        thread::spawn(move || inform(listener, &tls, count));

        assert_eq!(text(&upstream(), &target, Method::Get, "").await, "fine", "{count}");
    }
}

#[tokio::test]
async fn a_head_over_the_limit_is_the_platforms_fault() {
    let mut wide = Response::new("");
    let value = http::HeaderValue::from_str(&"k".repeat(70_000)).unwrap();
    wide.headers_mut().append("a", value);
    let platform = Http2Platform::start(Ok(wide));

    let error = get(&upstream(), &platform.target).await.unwrap_err();

    assert_bad_response(&error);
    assert!(!format!("{error:?}").contains(TOKEN));
}

#[tokio::test]
async fn only_a_refused_stream_lets_a_call_be_tried_again() {
    let facts_of = async |reason| {
        let platform = Http2Platform::start(Err(reason));
        facts(&get(&upstream(), &platform.target).await.unwrap_err())
    };

    let refused = facts_of(Reason::REFUSED_STREAM).await;
    let broken = facts_of(Reason::INTERNAL_ERROR).await;

    assert_eq!(refused, (CallFault::Theirs, CallErrorKind::Closed, false, true));
    assert_eq!(broken, (CallFault::Network, CallErrorKind::Closed, true, false));
}

/// Reads requests until the first one's head is there, says goodbye and names `last` as the last
/// stream that it looked at, and closes.
fn say_goodbye(listener: &TcpListener, tls: &TlsAcceptor, last: u32) {
    const HEADERS: u8 = 1;
    const GOAWAY: [u8; 9] = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut tcp = listener.accept().unwrap().0;
    let mut session = rustls::ServerConnection::new(Arc::clone(tls.config())).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut tcp);
    stream.write_all(&SETTINGS).unwrap();
    stream.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()]).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).unwrap();
        if head[3] == HEADERS {
            break;
        }
    }
    let goodbye = [&GOAWAY[..], &last.to_be_bytes(), &0_u32.to_be_bytes()].concat();
    stream.write_all(&goodbye).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}

#[tokio::test]
async fn a_goodbye_that_names_an_earlier_request_as_the_last_is_proof_that_this_one_was_not_looked_at()
 {
    for (last, was_looked_at) in [(0, false), (1, true), (0x7fff_ffff, true)] {
        for method in [Method::Post, Method::Delete] {
            let (listener, tls, target) = listen();
            thread::spawn(move || say_goodbye(&listener, &tls, last));

            let error = call(&upstream(), &target, method, "a", "").await.unwrap_err();

            let fault = if was_looked_at { CallFault::Network } else { CallFault::Theirs };
            let expected = (fault, CallErrorKind::Closed, was_looked_at, !was_looked_at);
            assert_eq!(facts(&error), expected, "{last} {method}: {error:?}");
        }
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_do_not_hold_up_others_on_their_connection() {
    const LENGTH: usize = 300_000;
    let platform = Http2Platform::start(Ok(Response::new("k".repeat(LENGTH).leak())));
    let upstream = upstream();
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(get(&upstream, &platform.target).await.unwrap());
    }

    let mut answer = get(&upstream, &platform.target).await.unwrap();
    let read = answer.body.read_up_to(ReadLimits::bytes(LENGTH)).await.unwrap();

    assert!(matches!(read, ReadUpTo::Whole(bytes) if bytes.len() == LENGTH));
    assert!(platform.seen.lock().unwrap().iter().all(|(connection, _)| *connection == 0));
}
