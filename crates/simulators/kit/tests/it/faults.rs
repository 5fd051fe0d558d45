//! What each kind of fault that needs the socket puts on it, byte by byte, and how the connection
//! ends.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stub::{BODY, StubService};

const REQUEST: &[u8] = b"GET /platform_alpha/items/1 HTTP/1.1\r\nHost: x\r\n\r\n";
const LAST: &[u8] = b"GET /platform_alpha/items/2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It serves the next request.
    Kept,
    /// It is closed in order.
    Closed,
    /// It stays open until we close it.
    Silent,
}

/// A response of the stub with these headers before its body.
fn head(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}\r\n")
}

fn ok(headers: &str, body: &str) -> String {
    head("200 OK", headers) + body
}

/// Asks once on a connection that the fault applies to, and compares what comes.
async fn assert_sent(fault: &Value, expected: &str, end: End) {
    let stub = StubService::new();
    let mut once = fault.clone();
    once["times"] = json!(1);
    stub.add(&once).await;
    let running = stub.listen();
    let mut stream = TcpStream::connect(running.address()).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();

    let mut sent = vec![0; expected.len()];
    stream.read_exact(&mut sent).await.unwrap();
    assert_eq!(String::from_utf8(sent).unwrap(), expected, "{fault}");

    match end {
        End::Kept => stream.write_all(LAST).await.unwrap(),
        End::Silent => stream.shutdown().await.unwrap(),
        End::Closed => {}
    }
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    match end {
        End::Kept => {
            assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{fault}: {rest}");
            assert!(rest.ends_with(BODY), "{fault}: {rest}");
        }
        End::Closed | End::Silent => assert_eq!(rest, "", "{fault}"),
    }
    running.stop().await;
}

#[tokio::test]
async fn late_and_slow_responses_are_whole_and_broken_off_ones_are_not() {
    let whole = ok("content-length: 8\r\n", BODY);
    for (fault, expected, end) in [
        (json!({"kind": "delay", "ms": 0}), whole.clone(), End::Kept),
        (json!({"kind": "drip", "size": 3, "pause_ms": 0}), whole.clone(), End::Kept),
        (json!({"kind": "silence"}), String::new(), End::Silent),
        (
            json!({"kind": "stall", "after_bytes": 3}),
            ok("content-length: 8\r\n", "{\"i"),
            End::Silent,
        ),
        // A body that is shorter than that is incomplete too.
        (
            json!({"kind": "stall", "after_bytes": 8}),
            whole[..whole.len() - 1].to_owned(),
            End::Silent,
        ),
        (
            json!({"kind": "stall", "after_bytes": 900}),
            whole[..whole.len() - 1].to_owned(),
            End::Silent,
        ),
        (json!({"kind": "closed"}), String::new(), End::Closed),
    ] {
        assert_sent(&fault, &expected, end).await;
    }
}

#[tokio::test]
async fn a_broken_frame_is_broken_in_the_way_that_its_kind_says() {
    let stray = "HTTP/1.1 200 OK\r\ncontent-length: 28\r\n\r\n{\"of\":\"somebody else's call\"}";
    for (fault, expected, end) in [
        (
            json!({"kind": "cut_length", "after_bytes": 3}),
            ok("content-length: 8\r\n", "{\"i"),
            End::Closed,
        ),
        (
            json!({"kind": "cut_length", "after_bytes": 99}),
            ok("content-length: 100\r\n", BODY),
            End::Closed,
        ),
        (
            json!({"kind": "cut_chunks", "after_bytes": 3}),
            ok("transfer-encoding: chunked\r\n", "8\r\n{\"i"),
            End::Closed,
        ),
        (
            json!({"kind": "cut_chunks", "after_bytes": 31}),
            ok("transfer-encoding: chunked\r\n", &format!("20\r\n{BODY}")),
            End::Closed,
        ),
        (
            json!({"kind": "extra_bytes"}),
            ok("content-length: 8\r\n", &format!("{BODY}{stray}")),
            End::Kept,
        ),
        (json!({"kind": "short_length"}), ok("content-length: 4\r\n", BODY), End::Kept),
        (
            json!({"kind": "two_lengths"}),
            ok("content-length: 8\r\ncontent-length: 9\r\n", BODY),
            End::Closed,
        ),
        (
            json!({"kind": "length_and_chunks"}),
            ok(
                "content-length: 8\r\ntransfer-encoding: chunked\r\n",
                &format!("8\r\n{BODY}\r\n0\r\n\r\n"),
            ),
            End::Closed,
        ),
        (json!({"kind": "negative_length"}), ok("content-length: -1\r\n", BODY), End::Closed),
        (
            json!({"kind": "control_byte"}),
            ok("x-note: a\u{1}b\r\ncontent-length: 8\r\n", BODY),
            End::Closed,
        ),
        (json!({"kind": "no_head"}), BODY.to_owned(), End::Closed),
        (json!({"kind": "body_without_content"}), head("204 No Content", "") + "stray", End::Kept),
    ] {
        assert_sent(&fault, &expected, end).await;
    }
}

#[tokio::test]
async fn heads_are_as_large_and_as_many_as_they_were_asked_to_be() {
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    let many = [0, 1, 2].map(|at| format!("x-{at}: y\r\n")).concat();
    for (fault, expected, end) in [
        (
            json!({"kind": "long_header", "bytes": 5}),
            ok("x-padding: aaaaa\r\ncontent-length: 8\r\n", BODY),
            End::Closed,
        ),
        (
            json!({"kind": "many_headers", "count": 3}),
            ok(&format!("{many}content-length: 8\r\n"), BODY),
            End::Closed,
        ),
        (
            json!({"kind": "informational", "count": 2}),
            format!("{hint}{hint}{}", ok("content-length: 8\r\n", BODY)),
            End::Kept,
        ),
        (
            json!({"kind": "switch_protocols", "protocol": "h2c"}),
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"
                .to_owned(),
            End::Silent,
        ),
    ] {
        assert_sent(&fault, &expected, end).await;
    }
}

#[tokio::test]
async fn a_long_body_is_announced_and_sent_to_its_end() {
    let expected = ok("content-length: 1048584\r\n", &" ".repeat(1_048_576)) + BODY;

    assert_sent(&json!({"kind": "long_body", "mebibytes": 1}), &expected, End::Kept).await;
}

#[tokio::test]
async fn a_reset_connection_is_an_error_for_the_caller() {
    let stub = StubService::new();
    stub.add(&json!({"kind": "reset"})).await;
    let running = stub.listen();
    let mut stream = TcpStream::connect(running.address()).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();

    let read = stream.read_to_end(&mut Vec::new()).await.unwrap_err();

    assert_eq!(read.kind(), std::io::ErrorKind::ConnectionReset);
    running.stop().await;
}

#[tokio::test]
async fn a_stop_ends_a_connection_that_a_fault_holds() {
    for fault in [json!({"kind": "silence"}), json!({"kind": "delay", "ms": 3_600_000})] {
        let stub = StubService::new();
        stub.add(&fault).await;
        let running = stub.listen();
        let mut stream = TcpStream::connect(running.address()).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        // Once this is answered, the first request has been given to its fault or soon will be.
        crate::stub::to_the_end(running.address(), "GET", "/control/health", "").await;

        running.stop().await;

        let mut rest = Vec::new();
        assert!(stream.read_to_end(&mut rest).await.is_err() || rest.is_empty(), "{fault}");
    }
}

#[tokio::test]
async fn in_process_a_fault_that_needs_a_socket_says_so() {
    let stub = StubService::new();
    stub.add(&json!({"kind": "no_head"})).await;

    let (status, body) = stub.ask("GET", "/platform_alpha/items/1", &Value::Null).await;

    assert_eq!((status, body), (501, json!({"error": "this fault needs a socket"})));
}
