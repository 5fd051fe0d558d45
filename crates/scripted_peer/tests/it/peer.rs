//! Scripts: what is read, what is written, and when a connection ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use scripted_peer::PlatformStep::{Again, Hang, Read, Write};
use scripted_peer::{ScriptedPlatform, always, answer, ok};

fn connect(platform: &ScriptedPlatform) -> TcpStream {
    TcpStream::connect(platform.url().strip_prefix("http://").unwrap()).unwrap()
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn exactly(stream: &mut TcpStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(String::from_utf8_lossy(&read), String::from_utf8_lossy(bytes));
}

#[test]
fn the_last_step_closes_the_connection() {
    let platform = ScriptedPlatform::start(vec![Read, Write(ok("yes"))]);
    let mut stream = connect(&platform);

    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();

    assert_eq!(rest(stream), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");
    assert_eq!(platform.only(), "GET / HTTP/1.1\r\n\r\n");
}

#[test]
fn a_script_may_begin_again_on_the_same_connection() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let mut stream = connect(&platform);

    for _ in 0..3 {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        exactly(&mut stream, &ok("yes"));
    }

    assert_eq!(platform.connections(), [0, 0, 0]);
}

#[test]
fn a_request_is_read_with_its_whole_body_and_not_a_byte_of_the_next() {
    let platform = ScriptedPlatform::start(vec![Read, Read, Read, Write(ok(""))]);
    let mut stream = connect(&platform);
    let with_length = "POST /1 HTTP/1.1\r\nContent-Length: 5\r\n\r\na\r\nbc";
    let chunked = "POST /2 HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let without = "GET /3 HTTP/1.1\r\nhost: x\r\n\r\n";

    stream.write_all([with_length, chunked, without].concat().as_bytes()).unwrap();

    drop(rest(stream));
    let seen: Vec<String> = platform.seen().into_iter().map(|seen| seen.text).collect();
    assert_eq!(seen, [with_length, chunked, without]);
}

#[test]
fn each_connection_follows_the_script_of_its_number() {
    let platform = ScriptedPlatform::start_each(|number| {
        vec![Read, Write(answer("404 Not Found", &number.to_string()))]
    });

    for number in 0..3 {
        let mut stream = connect(&platform);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let expected = format!("HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n{number}");
        assert_eq!(rest(stream), expected);
    }
    assert_eq!(platform.connections(), [0, 1, 2]);
}

#[test]
fn half_a_request_is_not_remembered() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let mut half = connect(&platform);
    half.write_all(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();

    assert_eq!(rest(half), "", "it is not answered");

    assert!(platform.seen().is_empty());
}

#[test]
fn a_peer_that_hangs_waits_for_its_caller_and_goes_on_when_the_caller_closes() {
    let platform = ScriptedPlatform::start(vec![Hang, Write(b"bye".to_vec())]);
    let mut stream = connect(&platform);

    stream.write_all(b"anything at all").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();

    assert_eq!(rest(stream), "bye");
    assert!(platform.seen().is_empty(), "what is not read as a request is none");
}

#[test]
fn an_empty_script_accepts_and_closes() {
    let platform = ScriptedPlatform::start(vec![]);

    assert_eq!(rest(connect(&platform)), "");
}

#[test]
fn connections_are_served_beside_each_other() {
    let platform = ScriptedPlatform::start(vec![Read, Write(ok("yes")), Again]);
    let (mut first, mut second) = (connect(&platform), connect(&platform));

    // The first one is in the middle of a request while the second is answered.
    first.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    second.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    exactly(&mut second, &ok("yes"));
    first.write_all(b"\r\n").unwrap();
    exactly(&mut first, &ok("yes"));

    assert_eq!(platform.seen().len(), 2);
}

#[test]
#[should_panic(expected = "[]")]
fn the_only_request_of_none_is_a_failure_of_the_test() {
    drop(ScriptedPlatform::start(vec![]).only());
}

#[test]
fn the_two_addresses_differ_in_their_scheme_alone() {
    let platform = ScriptedPlatform::start(vec![]);

    assert_eq!(platform.https_url(), platform.url().replace("http://", "https://"));
}
