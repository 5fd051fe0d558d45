//! Answers that may not be passed on, and those that look odd and may.

use platform_client::{ReadLimits, ReadUpTo};

use crate::support::{
    PlatformStep, ScriptedPlatform, always, answer, assert_bad_response, get, get_text, ok, target,
    upstream,
};

async fn assert_refused(bytes: &[u8]) {
    let wire = ScriptedPlatform::start([
        PlatformStep::Read,
        PlatformStep::Write(bytes.to_vec()),
        PlatformStep::Hang,
    ]);

    match get(&upstream(), &target(&wire.url())).await {
        Ok(answer) => {
            panic!("{:.80} was passed on with {}", String::from_utf8_lossy(bytes), answer.status)
        }
        Err(error) => assert_bad_response(&error),
    }
}

#[tokio::test]
async fn framing_in_doubt_is_refused() {
    for head in [
        "200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
        "200 OK\r\nContent-Length: -1",
        "200 OK\r\nContent-Length: 5, 6",
        "200 OK\r\nContent-Length: 99999999999999999999999",
        "200 OK\r\nTransfer-Encoding: gzip, chunked",
        "200 OK\r\nTransfer-Encoding: identity",
        "200 OK\r\nTransfer-Encoding: xchunked",
        "200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "200 OK\r\nTransfer-Encoding: chunked, chunked",
    ] {
        assert_refused(format!("HTTP/1.1 {head}\r\n\r\n5\r\nhello\r\n0\r\n\r\n").as_bytes()).await;
    }
}

#[tokio::test]
async fn heads_that_are_not_http_are_refused() {
    for bytes in [
        b"hello world\r\n\r\n".as_slice(),
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA\x01: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/3.7 200 OK\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    ] {
        assert_refused(bytes).await;
    }
}

#[tokio::test]
async fn statuses_that_are_none_of_an_answer_are_refused() {
    for status in ["999 Odd", "600 Odd", "101 Switching Protocols"] {
        let head = format!("HTTP/1.1 {status}\r\nConnection: upgrade\r\nUpgrade: x\r\n");
        assert_refused(format!("{head}Content-Length: 0\r\n\r\n").as_bytes()).await;
    }
}

#[tokio::test]
async fn heads_over_the_limits_are_refused() {
    let wide = format!("HTTP/1.1 200 OK\r\nA: {}\r\nContent-Length: 0\r\n\r\n", "k".repeat(70_000));
    let long = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "A: b\r\n".repeat(150));

    assert_refused(wide.as_bytes()).await;
    assert_refused(long.as_bytes()).await;
}

#[tokio::test]
async fn a_head_at_the_limit_passes() {
    let head = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\nok", "A: b\r\n".repeat(99));
    let wire = ScriptedPlatform::start(always(head));

    let answer = get(&upstream(), &target(&wire.url())).await.unwrap();

    assert_eq!(answer.headers.len(), 100);
}

#[tokio::test]
async fn eight_informational_answers_are_the_most() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let with = |count| [early.repeat(count).into_bytes(), ok("fine")].concat();
    let wire = ScriptedPlatform::start(always(with(8)));

    assert_eq!(get_text(&upstream(), &target(&wire.url())).await, "fine");
    assert_refused(&with(9)).await;
    assert_refused(&with(2_000)).await;
    // Also when no answer follows them.
    assert_refused(early.repeat(9).as_bytes()).await;
}

#[tokio::test]
async fn every_real_status_is_passed_on_and_redirects_are_not_followed() {
    for status in ["200 OK", "301 Moved", "404 Not Found", "429 Slow", "500 Odd", "599 Odd"] {
        let head = format!("HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:1/\r\n");
        let wire = ScriptedPlatform::start(always(format!("{head}Content-Length: 4\r\n\r\nbody")));

        let answer = get(&upstream(), &target(&wire.url())).await.unwrap();

        assert!(status.starts_with(answer.status.as_str()));
        assert_eq!(wire.seen().len(), 1);
    }
}

#[tokio::test]
async fn bodies_come_as_their_bytes_whatever_their_framing() {
    for (head, body) in [
        ("Content-Length: 5", "hello"),
        ("Transfer-Encoding: chunked", "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: dropped\r\n\r\n"),
        ("Transfer-Encoding: Chunked", "5\r\nhello\r\n0\r\n\r\n"),
        ("Connection: close", "hello"),
        ("Content-Length: 5\r\nContent-Encoding: gzip", "hello"),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
        let wire =
            ScriptedPlatform::start([PlatformStep::Read, PlatformStep::Write(bytes.into_bytes())]);

        assert_eq!(get_text(&upstream(), &target(&wire.url())).await, "hello", "{head}");
    }
}

#[tokio::test]
async fn an_answer_without_content_has_none_and_its_connection_is_not_used_again() {
    let wire = ScriptedPlatform::start(always(answer("204 No Content", "poison")));
    let (upstream, target) = (upstream(), target(&wire.url()));

    assert_eq!(get_text(&upstream, &target).await, "");
    assert_eq!(get_text(&upstream, &target).await, "");

    assert_eq!(wire.connections(), [0, 1]);
}

#[tokio::test]
async fn an_empty_body_is_whole_at_once() {
    let wire = ScriptedPlatform::start(always(ok("")));

    let mut answer = get(&upstream(), &target(&wire.url())).await.unwrap();

    assert_eq!(answer.body.length(), Some(0));
    let ReadUpTo::Whole(body) = answer.body.read_up_to(ReadLimits::bytes(0)).await.unwrap() else {
        panic!("nothing is not larger than nothing")
    };
    assert!(body.is_empty());
}

#[tokio::test]
async fn a_limit_is_kept_to_the_byte() {
    for (bytes_max, is_whole) in [(9, false), (10, true), (11, true)] {
        for head in [
            "Content-Length: 10\r\n\r\n0123456789",
            "Transfer-Encoding: chunked\r\n\r\n1\r\n0\r\n9\r\n123456789\r\n0\r\n\r\n",
        ] {
            let wire = ScriptedPlatform::start(always(format!("HTTP/1.1 200 OK\r\n{head}")));

            let mut answer = get(&upstream(), &target(&wire.url())).await.unwrap();
            let read = answer.body.read_up_to(ReadLimits::bytes(bytes_max)).await.unwrap();

            assert_eq!(matches!(read, ReadUpTo::Whole(_)), is_whole, "{bytes_max} {head}");
        }
    }
}
