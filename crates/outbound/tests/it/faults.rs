//! Calls that bring no usable answer: whose fault it is, what was sent, and what may be repeated.

use std::time::Duration;

use http::Request;
use outbound::{
    CallErrorKind, CallFault, CallPhase, CallTimeouts, ClientError, ConnectionPool,
    ConnectionSettings, RequestBody, UpstreamSettings,
};
use scripted_peer::PlatformStep::{Hang, Read, Write};
use scripted_peer::{PlatformStep, ScriptedPlatform, always, ok};

use crate::support::{get, impatient, pool, post, settings, whole};

/// Fault, kind, whether anything was sent, and whether a read may be sent again.
fn verdict(error: &ClientError) -> (CallFault, CallErrorKind, bool, bool) {
    (error.fault, error.kind, error.sent, error.retryable)
}

async fn failure(script: Vec<PlatformStep>) -> ClientError {
    let platform = ScriptedPlatform::start(script);
    whole(&pool(), post(&platform.url(), "abc")).await.unwrap_err()
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_was_sent_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);

    let error = whole(&pool(), get(&url)).await.unwrap_err();

    assert_eq!(verdict(&error), (CallFault::Network, CallErrorKind::Connect, false, true));
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_request_without_a_host_is_our_fault_and_reaches_nobody() {
    for target in ["/v1", "*"] {
        let request = Request::get(target).body(RequestBody::empty()).unwrap();
        let error = whole(&pool(), request).await.unwrap_err();
        assert_eq!(verdict(&error), (CallFault::Ours, CallErrorKind::Build, false, false));
    }
}

#[tokio::test]
async fn no_answer_in_time_is_theirs_and_may_have_been_carried_out() {
    let platform = ScriptedPlatform::start(vec![Read, Hang]);

    let error = whole(&impatient(30), post(&platform.url(), "abc")).await.unwrap_err();

    let late = CallErrorKind::Timeout(CallPhase::FirstByte);
    assert_eq!(verdict(&error), (CallFault::Theirs, late, true, false));
}

#[tokio::test]
async fn half_an_answer_in_time_is_not_a_whole_one() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc".to_vec();
    let platform = ScriptedPlatform::start(vec![Read, Write(half.clone()), Hang]);
    let silent = whole(&impatient(30), get(&platform.url())).await.unwrap_err();
    let cut = failure(vec![Read, Write(half)]).await;

    let late = CallErrorKind::Timeout(CallPhase::BetweenBytes);
    assert_eq!(verdict(&silent), (CallFault::Theirs, late, true, false));
    let short = CallErrorKind::BadResponse("it was cut short");
    assert_eq!(verdict(&cut), (CallFault::Theirs, short, true, false));
}

#[tokio::test]
async fn a_connection_that_ends_before_an_answer_may_have_been_read() {
    let error = failure(vec![Read]).await;

    assert_eq!(verdict(&error), (CallFault::Network, CallErrorKind::Closed, true, false));
}

#[tokio::test]
async fn what_is_no_http_is_theirs_and_never_passed_on() {
    for bytes in [
        "hello\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "\0\0\0\0\0\0\0\0\r\n\r\n",
    ] {
        let error = failure(vec![Read, Write(bytes.as_bytes().to_vec())]).await;
        assert_eq!((error.fault, error.sent), (CallFault::Theirs, true), "{bytes:?}");
        assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{bytes:?}: {error}");
    }
}

#[tokio::test]
async fn informational_answers_are_passed_over_and_more_than_eight_are_too_many() {
    let hints = |count| b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(count);
    let platform = ScriptedPlatform::start(always([hints(8), ok("yes")].concat()));
    let (pool, url) = (pool(), platform.url());
    for _ in 0..2 {
        assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");
    }
    assert_eq!(platform.connections(), [0, 0], "each answer is counted for itself");

    let error = failure(vec![Read, Write([hints(9), ok("yes")].concat())]).await;

    let too_many = CallErrorKind::BadResponse("too many informational answers");
    assert_eq!(verdict(&error), (CallFault::Theirs, too_many, true, false));
}

#[tokio::test]
async fn an_answer_that_is_refused_costs_its_connection() {
    let both = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nyes";
    let platform = ScriptedPlatform::start_each(move |number| {
        always(if number == 0 { both.to_vec() } else { ok("yes") })
    });
    let (pool, url) = (pool(), platform.url());

    let error = whole(&pool, get(&url)).await.unwrap_err();
    assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");

    assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{error}");
    assert_eq!(platform.connections(), [0, 1]);
}

#[tokio::test]
async fn a_peer_that_is_slow_to_shake_hands_was_sent_nothing() {
    // It accepts connections and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let timeouts = CallTimeouts { tls: Duration::from_millis(30), ..CallTimeouts::default() };
    let settings = ConnectionSettings { timeouts, ..settings() };
    let pool = ConnectionPool::new(&settings, &UpstreamSettings::default());

    let error = whole(&pool, get(&url)).await.unwrap_err();

    let late = CallErrorKind::Timeout(CallPhase::Tls);
    assert_eq!(verdict(&error), (CallFault::Network, late, false, false));
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_to_the_next() {
    let platform = ScriptedPlatform::start_each(|number| {
        if number == 0 { vec![Read, Hang] } else { always(ok("yes")) }
    });
    let (pool, url) = (pool(), platform.url());
    {
        let mut sending = Box::pin(pool.send(get(&url)));
        while platform.seen().is_empty() {
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(sending.as_mut().poll(context).is_pending())
            });
            assert!(polled.await);
            tokio::task::yield_now().await;
        }
    }

    assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");

    assert_eq!(platform.connections(), [0, 1]);
}
