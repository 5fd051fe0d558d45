//! Requests that two parties could read differently, and heads beyond the limits.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{connect, read_to, sending, settings, start};

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
