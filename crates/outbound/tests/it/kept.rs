//! Connections that are kept for a next request, and what leaves on them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body::{Body, Frame, SizeHint};
use outbound::{ConnectionPool, RequestBody, UpstreamSettings};
use scripted_peer::PlatformStep::{Again, Read, Write};
use scripted_peer::{ScriptedPlatform, always, answer, ok};

use crate::support::{body, get, pool, post, settings, whole};

/// Parts that are read as they leave.
struct Parts(VecDeque<Bytes>, Option<u64>);

impl Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn spooled(length: Option<u64>) -> RequestBody {
    let parts = ["ab", "c"].map(|part| Bytes::from_static(part.as_bytes()));
    RequestBody::spooled(Parts(parts.into(), length))
}

#[tokio::test]
async fn one_request_after_another_goes_out_on_the_same_connection() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let (pool, url) = (pool(), platform.url());
    let clone = pool.clone();

    for one in [&pool, &clone, &pool] {
        assert_eq!(whole(one, get(&url)).await.unwrap(), "yes");
    }

    assert_eq!(platform.connections(), [0, 0, 0], "clones share their connections");
}

#[tokio::test]
async fn requests_at_the_same_time_have_connections_of_their_own() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let (pool, url) = (pool(), platform.url());
    let first = pool.send(get(&url)).await.unwrap();
    let second = pool.send(get(&url)).await.unwrap();

    let (first, second) = (body(first).await.unwrap(), body(second).await.unwrap());
    let third = whole(&pool, get(&url)).await.unwrap();

    assert_eq!([first, second, third], ["yes", "yes", "yes"]);
    let connections = platform.connections();
    assert_eq!(connections[..2], [0, 1]);
    assert!(connections[2] < 2, "the third found one of the two");
}

#[tokio::test]
async fn a_request_names_its_host_and_its_path_alone() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let address = format!("{}/v1/me?x=1", platform.url());
    let mut request = get(&address);
    request.headers_mut().insert("host", HeaderValue::from_static("other.example"));
    request.headers_mut().insert("x-own", HeaderValue::from_static("1"));

    assert_eq!(whole(&pool(), request).await.unwrap(), "yes");

    let seen = platform.only();
    let host = platform.url().replace("http://", "");
    assert!(seen.starts_with("GET /v1/me?x=1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: {host}\r\n")) && !seen.contains("other"), "{seen}");
    assert!(seen.contains("x-own: 1\r\n"), "{seen}");
}

#[tokio::test]
async fn an_address_without_a_path_leads_to_the_root() {
    let platform = ScriptedPlatform::start(always(ok("yes")));

    assert_eq!(whole(&pool(), get(&platform.url())).await.unwrap(), "yes");

    assert!(platform.only().starts_with("GET / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_body_leaves_with_its_length_or_in_chunks() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let (pool, url) = (pool(), platform.url());
    let upload = |length| Request::post(&url).body(spooled(length)).unwrap();

    for request in [post(&url, "abc"), upload(Some(3)), upload(None)] {
        assert_eq!(whole(&pool, request).await.unwrap(), "yes");
    }

    let seen: Vec<String> = platform.seen().into_iter().map(|seen| seen.text).collect();
    for with_length in &seen[..2] {
        assert!(with_length.contains("content-length: 3\r\n"), "{with_length}");
        assert!(with_length.ends_with("\r\n\r\nabc"), "{with_length}");
    }
    assert!(seen[2].contains("transfer-encoding: chunked\r\n"), "{}", seen[2]);
    assert!(seen[2].ends_with("2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), "{}", seen[2]);
}

#[tokio::test]
async fn no_more_connections_are_kept_than_may_be() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let kept = UpstreamSettings { idle_connections_max: 1, ..UpstreamSettings::default() };
    let (pool, url) = (ConnectionPool::new(&settings(), &kept), platform.url());
    let first = pool.send(get(&url)).await.unwrap();
    let second = pool.send(get(&url)).await.unwrap();
    drop((body(first).await.unwrap(), body(second).await.unwrap()));

    let third = pool.send(get(&url)).await.unwrap();
    let fourth = pool.send(get(&url)).await.unwrap();

    drop((body(third).await.unwrap(), body(fourth).await.unwrap()));
    assert_eq!(platform.connections(), [0, 1, 0, 2]);
}

#[tokio::test]
async fn a_connection_that_waited_longer_than_it_may_is_not_used() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let kept = UpstreamSettings { idle: Duration::ZERO, ..UpstreamSettings::default() };
    let (pool, url) = (ConnectionPool::new(&settings(), &kept), platform.url());

    for _ in 0..3 {
        assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");
    }

    assert_eq!(platform.connections(), [0, 1, 2]);
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_costs_its_connection() {
    let platform = ScriptedPlatform::start(always(ok("yes")));
    let (pool, url) = (pool(), platform.url());

    drop(pool.send(get(&url)).await.unwrap());
    assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");

    assert_eq!(platform.connections(), [0, 1]);
}

#[tokio::test]
async fn an_answer_without_a_body_leaves_its_connection_once_it_was_read() {
    let platform = ScriptedPlatform::start(always(answer("200 OK", "")));
    let (pool, url) = (pool(), platform.url());

    for _ in 0..2 {
        assert_eq!(whole(&pool, get(&url)).await.unwrap(), "");
    }

    assert_eq!(platform.connections(), [0, 0]);
}

/// The other side closes after each answer, with and without saying so.
#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_loses_no_request() {
    let goodbye = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nyes".to_vec();
    for last in [goodbye, ok("yes")] {
        let platform = ScriptedPlatform::start(vec![Read, Write(last)]);
        let (pool, url) = (pool(), platform.url());

        let mut answers = 0;
        for _ in 0..5 {
            match whole(&pool, get(&url)).await {
                Ok(answer) => {
                    assert_eq!(answer, "yes");
                    answers += 1;
                }
                // The close arrived with the request: nobody can tell whether it was seen.
                Err(error) => assert!(error.retryable, "{error}"),
            }
        }

        assert_eq!(platform.seen().len(), answers, "none was seen twice");
    }
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_cost_the_connection() {
    let twice = [ok("yes"), ok("no")].concat();
    let platform = ScriptedPlatform::start(vec![Read, Write(twice), Again]);
    let (pool, url) = (pool(), platform.url());

    for _ in 0..3 {
        assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");
    }

    assert_eq!(platform.connections(), [0, 1, 2]);
}

#[tokio::test]
async fn hosts_do_not_share_connections() {
    let (one, other) =
        (ScriptedPlatform::start(always(ok("1"))), ScriptedPlatform::start(always(ok("2"))));
    let pool = pool();

    for _ in 0..2 {
        assert_eq!(whole(&pool, get(&one.url())).await.unwrap(), "1");
        assert_eq!(whole(&pool, get(&other.url())).await.unwrap(), "2");
    }

    assert_eq!((one.connections(), other.connections()), (vec![0, 0], vec![0, 0]));
}
