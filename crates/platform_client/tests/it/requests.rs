//! What leaves for a platform, byte for byte.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use domain::method::Method;
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body, Frame, SizeHint};
use platform_client::{
    AccountHeaders, CallErrorKind, CallFault, CallPhase, ClientError, NativeCall, PlatformResponse,
    PlatformTarget, RequestBody,
};
use tokio::time::{Instant, Sleep, sleep};

use crate::support::{SIGNING, ScriptedPlatform, always, call, credentials, ok, target, upstream};

/// A spooled body: parts that come one by one, and perhaps an error behind them.
struct SpooledParts {
    parts: VecDeque<Result<&'static str, &'static str>>,
    length: Option<u64>,
}

/// A body of single bytes that each take a time to come, while the clock of the test is moved.
struct SlowBody {
    parts: usize,
    each: Duration,
    next: Pin<Box<Sleep>>,
}

impl SlowBody {
    fn new(parts: usize, each: Duration) -> Self {
        Self { parts, each, next: Box::pin(sleep(each)) }
    }
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        if self.parts == 0 {
            return Poll::Ready(None);
        }
        ready!(self.next.as_mut().poll(context));
        self.parts -= 1;
        self.next = Box::pin(sleep(self.each));
        if self.parts == 0 {
            // The platform answers in its own time.
            tokio::time::resume();
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"k")))))
    }
}

impl Body for SpooledParts {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let part = self.parts.pop_front();
        Poll::Ready(
            part.map(|part| part.map(|text| Frame::data(Bytes::from_static(text.as_bytes())))),
        )
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn native<'a>(
    account: &'a AccountHeaders,
    method: Method,
    path: &'a str,
    query: &'a str,
    caller_headers: &'a HeaderMap,
) -> NativeCall<'a> {
    NativeCall {
        call_id: &"call_1",
        method,
        path,
        query,
        caller_headers,
        body: Bytes::new(),
        account,
        signing: SIGNING,
    }
}

async fn upstream_send(
    target: &PlatformTarget,
    request: Request<RequestBody>,
) -> Result<PlatformResponse, ClientError> {
    upstream().send(target, request).await
}

#[tokio::test]
async fn a_read_leaves_with_our_headers_and_nothing_more() {
    let wire = ScriptedPlatform::start(always(ok("")));

    call(&upstream(), &target(&wire.url()), Method::Get, "users/me", "dropped").await.unwrap();

    let host = wire.url().replace("http://", "");
    assert_eq!(
        wire.only(),
        format!(
            "GET /api/users/me HTTP/1.1\r\nhost: {host}\r\naccept-encoding: identity\r\n\
             user-agent: creator-gateway\r\nauthorization: Bearer canary-7f3a\r\n\r\n"
        )
    );
}

#[tokio::test]
async fn a_write_leaves_with_its_length_also_when_it_is_empty() {
    for (method, body, length) in [
        (Method::Post, "{\"a\": 1}", Some("content-length: 8\r\n")),
        (Method::Post, "", Some("content-length: 0\r\n")),
        (Method::Put, "", Some("content-length: 0\r\n")),
        (Method::Patch, "", Some("content-length: 0\r\n")),
        (Method::Delete, "x", Some("content-length: 1\r\n")),
        (Method::Delete, "", None),
    ] {
        let wire = ScriptedPlatform::start(always(ok("")));

        call(&upstream(), &target(&wire.url()), method, "x", body).await.unwrap();

        let request = wire.only();
        assert!(request.starts_with(&format!("{} /api/x HTTP/1.1\r\n", method.as_str())));
        assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
        assert_eq!(request.matches("content-length").count(), usize::from(length.is_some()));
        assert!(length.is_none_or(|length| request.contains(length)), "{request}");
    }
}

#[tokio::test]
async fn a_spooled_body_leaves_part_by_part_with_its_length_if_it_has_one() {
    let cases = [
        (Some(6), "content-length: 6\r\n", "\r\n\r\nabcdef"),
        (None, "transfer-encoding: chunked\r\n", "\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
    ];
    for (length, framing, content) in cases {
        let wire = ScriptedPlatform::start(always(ok("")));
        let target = target(&wire.url());
        let account = target.headers_of(&credentials()).unwrap();
        let headers = HeaderMap::from_iter([(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static("multipart/form-data; boundary=x"),
        )]);
        let parts = SpooledParts { parts: [Ok("abc"), Ok("def")].into(), length };

        let call = native(&account, Method::Post, "upload", "", &headers);
        let request = target.request_with(&call, RequestBody::spooled(parts)).unwrap();
        upstream().send(&target, request).await.unwrap();

        let seen = wire.only();
        assert!(seen.contains(framing) && seen.ends_with(content), "{seen}");
        assert!(seen.contains("content-type: multipart/form-data; boundary=x\r\n"), "{seen}");
    }
}

#[tokio::test]
async fn the_time_for_an_answer_begins_anew_with_each_part_of_a_spooled_body_up_to_a_limit() {
    let wire = ScriptedPlatform::start(always(ok("")));
    let target = target(&wire.url());
    let account = target.headers_of(&credentials()).unwrap();
    let headers = HeaderMap::new();
    let call = native(&account, Method::Post, "upload", "", &headers);
    let upload = |parts, seconds| {
        let body = RequestBody::spooled(SlowBody::new(parts, Duration::from_secs(seconds)));
        upstream_send(&target, target.request_with(&call, body).unwrap())
    };

    // The settings allow 20 seconds, and 200 in all; ten parts of 15 seconds each leave none of
    // the 20 without one.
    tokio::time::pause();
    let steady = upload(10, 15).await;
    tokio::time::pause();
    let stalled = upload(10, 45).await;
    let begun = Instant::now();
    let endless = upload(usize::MAX, 15).await;

    assert_eq!(steady.unwrap().status, 200);
    for late in [stalled, endless] {
        assert_eq!(late.unwrap_err().kind, CallErrorKind::Timeout(CallPhase::FirstByte));
    }
    assert_eq!(begun.elapsed().as_secs(), 220, "the limit, and the last 20 seconds");
}

#[tokio::test]
async fn a_spooled_body_that_fails_is_our_fault_and_never_looks_whole() {
    let wire = ScriptedPlatform::start(always(ok("")));
    let target = target(&wire.url());
    let account = target.headers_of(&credentials()).unwrap();
    let parts =
        SpooledParts { parts: [Ok("abc"), Err("the disk is gone")].into(), length: Some(6) };

    let headers = HeaderMap::new();
    let call = native(&account, Method::Post, "upload", "", &headers);
    let request = target.request_with(&call, RequestBody::spooled(parts)).unwrap();
    let error = upstream().send(&target, request).await.unwrap_err();

    assert_eq!(
        (error.fault, error.kind, error.retryable),
        (CallFault::Ours, CallErrorKind::Closed, false)
    );
    assert!(wire.seen().is_empty());
}

#[tokio::test]
async fn callers_can_neither_replace_our_headers_nor_take_them_away() {
    let wire = ScriptedPlatform::start(always(ok("")));
    let target = target(&wire.url());
    let account = target.headers_of(&credentials()).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "authorization, host, user-agent, accept, content-length"),
        ("authorization", "Bearer theirs"),
        ("user-agent", "theirs"),
        ("host", "evil.example"),
        ("accept-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
        ("content-length", "99"),
        ("cookie", "theirs=1"),
        ("x-client-signature", "theirs"),
        ("accept", "text/plain"),
        ("accept-language", "de"),
    ] {
        headers.append(name, HeaderValue::from_static(value));
    }

    let request = target.request(&native(&account, Method::Post, "x", "", &headers)).unwrap();
    upstream().send(&target, request).await.unwrap();

    let host = wire.url().replace("http://", "");
    assert_eq!(
        wire.only(),
        format!(
            "POST /api/x HTTP/1.1\r\nhost: {host}\r\naccept-encoding: identity\r\n\
             user-agent: creator-gateway\r\nauthorization: Bearer canary-7f3a\r\n\
             accept-language: de\r\ncontent-length: 0\r\n\r\n"
        )
    );
}

#[tokio::test]
async fn odd_bytes_that_are_allowed_arrive_as_they_are() {
    let path = "a.b/..c/@evil.example/(x)/it's/a+b,c=d:e~f!$&*/caf%C3%A9%20/";
    let query = "q=%2e%2E%2f&a[]=1&b={x|y}^`\\;?/:@'&limit=1&limit=2&&=";
    let wire = ScriptedPlatform::start(always(ok("")));
    let target = target(&wire.url());
    let account = target.headers_of(&credentials()).unwrap();

    let headers = HeaderMap::new();
    let request = target.request(&native(&account, Method::Get, path, query, &headers)).unwrap();
    upstream().send(&target, request).await.unwrap();

    let line = format!("GET /api/{path}?{query} HTTP/1.1\r\n");
    assert!(wire.only().starts_with(&line), "{}", wire.only());
}
