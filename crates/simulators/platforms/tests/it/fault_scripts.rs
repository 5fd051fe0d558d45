//! Faults that are played on the socket: the bytes that each kind sends, and what happens to the
//! connection.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _};

use flate2::read::DeflateDecoder;
use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::kit::Kit;
use crate::socket::{Sockets, exactly, split, to_end};

/// The state of a connection after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The next request on it gets a response.
    Kept,
    Closed,
    Reset,
    /// Open and silent.
    Silent,
}

/// A kind with its fields, the bytes that it sends instead of the original response, and the state
/// afterwards.
#[derive(Clone)]
struct Row(Value, Vec<u8>, Then);

/// A last request on a connection, which its response closes.
const HEALTH: &[u8] = b"GET /control/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

const JSON: &str = "content-type: application/json\r\n";

const STRAY: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 28\r\n\r\n{\"of\":\"somebody else's call\"}";

fn head(status: &str, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}\r\n").into_bytes()
}

/// 200 with JSON, these additional headers, and these bytes after the head.
fn ok(headers: &str, behind: &[u8]) -> Vec<u8> {
    [&head("200 OK", &format!("{JSON}{headers}"))[..], behind].concat()
}

fn length_of(length: usize) -> String {
    format!("content-length: {length}\r\n")
}

/// 200 with JSON, correctly framed.
fn whole(headers: &str, body: &[u8]) -> Vec<u8> {
    ok(&format!("{headers}{}", length_of(body.len())), body)
}

/// Every kind that is played on the socket, for an original response with this body.
fn table(body: &[u8]) -> Vec<Row> {
    [late(body), unframed(body), framed_twice(body), strange_heads(body)].concat()
}

fn late(body: &[u8]) -> Vec<Row> {
    let (length, honest) = (length_of(body.len()), whole("", body));
    vec![
        Row(json!({"kind": "closed"}), vec![], Then::Closed),
        Row(json!({"kind": "reset"}), vec![], Then::Reset),
        Row(json!({"kind": "delay", "ms": 1}), honest.clone(), Then::Kept),
        Row(json!({"kind": "silence"}), vec![], Then::Silent),
        Row(json!({"kind": "stall", "after_bytes": 7}), ok(&length, &body[..7]), Then::Silent),
        Row(
            json!({"kind": "stall", "after_bytes": body.len() + 1}),
            ok(&length, &body[..body.len() - 1]),
            Then::Silent,
        ),
        Row(json!({"kind": "drip", "size": 100, "pause_ms": 1}), honest, Then::Kept),
    ]
}

fn unframed(body: &[u8]) -> Vec<Row> {
    let length = length_of(body.len());
    let chunk = format!("{:x}\r\n", body.len());
    let cut_chunk = [chunk.as_bytes(), &body[..5]].concat();
    let no_content = [head("204 No Content", JSON), b"stray".to_vec()].concat();
    vec![
        Row(json!({"kind": "cut_length", "after_bytes": 5}), ok(&length, &body[..5]), Then::Closed),
        Row(
            json!({"kind": "cut_chunks", "after_bytes": 5}),
            ok("transfer-encoding: chunked\r\n", &cut_chunk),
            Then::Closed,
        ),
        Row(json!({"kind": "extra_bytes"}), [&whole("", body)[..], STRAY].concat(), Then::Kept),
        Row(json!({"kind": "short_length"}), ok(&length_of(body.len() / 2), body), Then::Kept),
        Row(json!({"kind": "no_head"}), body.to_vec(), Then::Closed),
        Row(json!({"kind": "body_without_content"}), no_content, Then::Kept),
    ]
}

fn framed_twice(body: &[u8]) -> Vec<Row> {
    let length = length_of(body.len());
    let two_lengths = format!("{length}{}", length_of(body.len() + 1));
    let two_framings = format!("{length}transfer-encoding: chunked\r\n");
    let chunk = format!("{:x}\r\n", body.len());
    let in_chunks = [chunk.as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
    let control = format!("x-note: a\u{1}b\r\n{length}");
    vec![
        Row(json!({"kind": "two_lengths"}), ok(&two_lengths, body), Then::Closed),
        Row(json!({"kind": "length_and_chunks"}), ok(&two_framings, &in_chunks), Then::Closed),
        Row(json!({"kind": "negative_length"}), ok("content-length: -1\r\n", body), Then::Closed),
        Row(json!({"kind": "control_byte"}), ok(&control, body), Then::Closed),
    ]
}

fn strange_heads(body: &[u8]) -> Vec<Row> {
    let long = format!("x-padding: {}\r\n", "a".repeat(600_000));
    let many: Vec<String> = (0..150).map(|at| format!("x-{at}: y\r\n")).collect();
    let hints = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(2_000);
    let switch = head("101 Switching Protocols", "upgrade: foo\r\nconnection: upgrade\r\n");
    let filled = [vec![b' '; 1024 * 1024], body.to_vec()].concat();
    vec![
        Row(json!({"kind": "long_header"}), whole(&long, body), Then::Closed),
        Row(json!({"kind": "many_headers"}), whole(&many.concat(), body), Then::Closed),
        Row(json!({"kind": "informational"}), [hints, whole("", body)].concat(), Then::Kept),
        Row(json!({"kind": "switch_protocols", "protocol": "foo"}), switch, Then::Silent),
        Row(json!({"kind": "long_body", "mebibytes": 1}), whole("", &filled), Then::Kept),
    ]
}

/// The kinds whose response HTTP can carry; each has its own test below.
const CARRIED_BY_HTTP: [&str; 18] = [
    "status",
    "redirect",
    "content_type",
    "gzip",
    "gzip_cut",
    "invalid_json",
    "deep_json",
    "duplicate_key",
    "no_envelope",
    "repeat_pages",
    "missing_field",
    "shrinking_total",
    "long_total",
    "duplicate_rows",
    "wrong_type",
    "short_page",
    "empty_page",
    "repeat_cursor",
];

/// The scripts with tests of their own.
const OTHERS: [&str; 2] = ["refused", "gzip_bomb"];

#[tokio::test]
async fn each_script_is_sent_byte_for_byte_and_logged() {
    let sockets = Sockets::open();
    let request = Sockets::alpha(&Method::GET, "users/me", "");
    let body = honest_body(&sockets, &request).await;

    for Row(fault, bytes, then) in table(&body) {
        sockets.fault(fault.clone()).await;
        let mut socket = sockets.connect("platform_alpha").await;
        socket.write_all(&request).await.unwrap();
        if then == Then::Reset {
            assert_eq!(to_end(&mut socket).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        } else {
            let sent = exactly(&mut socket, bytes.len()).await;
            assert!(
                sent == bytes,
                "{fault}: {}",
                String::from_utf8_lossy(&sent[..sent.len().min(900)])
            );
        }
        let logged = sockets.log("platform_alpha").await.pop().unwrap();
        assert_eq!(logged["fault"], fault["kind"]);
        let first_line = String::from_utf8_lossy(&bytes[..bytes.len().min(12)]).into_owned();
        let status = first_line.strip_prefix("HTTP/1.1 ").map(|it| it.parse::<u16>().unwrap());
        let status = if first_line.ends_with("103") { Some(200) } else { status };
        assert_eq!(logged["status"], json!(status), "{fault}");
        sockets.clear().await;
        follows(then, socket, &fault).await;
    }
    sockets.running.stop().await;
}

/// The body of the response to this request without a fault.
async fn honest_body(sockets: &Sockets, request: &[u8]) -> Vec<u8> {
    let mut socket = sockets.connect("platform_alpha").await;
    socket.write_all(&[request, HEALTH].concat()).await.unwrap();
    let answers = to_end(&mut socket).await.unwrap();
    let (first, rest) = split(&answers);
    let length = first.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    rest[..length.parse().unwrap()].to_vec()
}

/// Checks the state of the connection.
async fn follows(then: Then, mut socket: TcpStream, fault: &Value) {
    match then {
        Then::Reset => {}
        Then::Closed => assert!(to_end(&mut socket).await.unwrap().is_empty(), "{fault}"),
        Then::Silent => {
            let next = socket.try_read(&mut [0; 10]).unwrap_err();
            assert_eq!(next.kind(), ErrorKind::WouldBlock, "{fault}");
        }
        Then::Kept => {
            socket.write_all(HEALTH).await.unwrap();
            let answer = to_end(&mut socket).await.unwrap();
            assert!(answer.ends_with(b"{\"ok\":true}"), "{fault}");
        }
    }
}

#[tokio::test]
async fn every_kind_of_the_catalogue_is_tested_and_documented() {
    let kit = Kit::new();
    let catalogue = kit.control("/faults").await["catalogue"].clone();
    let all = catalogue.as_array().unwrap();
    let kinds: BTreeSet<&str> = all.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    let rows = table(b"0123456789");
    let tested: BTreeSet<&str> = rows
        .iter()
        .map(|Row(fault, ..)| fault["kind"].as_str().unwrap())
        .chain(CARRIED_BY_HTTP)
        .chain(OTHERS)
        .collect();
    assert_eq!(kinds, tested);

    let document = include_str!("../../../../../docs/simulators.md");
    for kind in all {
        let name = kind["kind"].as_str().unwrap();
        let fields = kind["fields"].as_array().unwrap();
        let fields: Vec<_> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
        let line = document.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let line = line.unwrap_or_else(|| panic!("docs/simulators.md does not have {name}"));
        for field in fields {
            assert!(line.contains(&format!("`{field}`")), "{name} lacks {field} there");
        }
    }
}

#[tokio::test]
async fn a_refused_platform_has_a_closed_port_until_the_fault_is_removed() {
    let sockets = Sockets::open();
    let mut open = sockets.connect("platform_alpha").await;
    let fault = sockets.fault(json!({"kind": "refused", "platform": "platform_alpha"})).await;

    // The port is closed, open connections are cut, and other platforms are unaffected.
    let refused = TcpStream::connect(sockets.port_of("platform_alpha")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(to_end(&mut open).await.unwrap().is_empty());
    sockets.connect("platform_beta").await;
    let mut common = TcpStream::connect(sockets.running.address()).await.unwrap();
    common.write_all(&Sockets::alpha(&Method::GET, "users/me", "")).await.unwrap();
    assert!(to_end(&mut common).await.unwrap().is_empty());
    assert!(sockets.log("platform_alpha").await.is_empty(), "a refused request is on the log");

    let (status, _) =
        sockets.control("DELETE", &format!("/faults/{}", fault["id"]), &json!(null)).await;
    assert_eq!(status, 200);
    let mut again = sockets.connect("platform_alpha").await;
    again.write_all(&Sockets::alpha(&Method::GET, "users/me", "")).await.unwrap();
    assert_eq!(exactly(&mut again, 15).await, b"HTTP/1.1 200 OK");
    sockets.running.stop().await;
}

#[tokio::test]
async fn a_bomb_is_streamed() {
    let sockets = Sockets::open();
    sockets.fault(json!({"kind": "gzip_bomb", "mebibytes": 64})).await;
    let mut socket = sockets.connect("platform_alpha").await;
    socket.write_all(&Sockets::alpha(&Method::GET, "users/me", "")).await.unwrap();
    sockets.log("platform_alpha").await;
    socket.write_all(HEALTH).await.unwrap();

    let answer = to_end(&mut socket).await.unwrap();

    let (head, body) = split(&answer);
    assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
    assert!(body.len() < 128 * 1024, "{} bytes", body.len());
    let mut plain = Vec::new();
    DeflateDecoder::new(&body[10..]).take(1 << 30).read_to_end(&mut plain).unwrap();
    assert!(plain.len() > 64 * 1024 * 1024);
    let honest: Value = serde_json::from_slice(&plain).unwrap();
    assert!(honest["isPerformer"].as_bool().unwrap());
    sockets.running.stop().await;
}
