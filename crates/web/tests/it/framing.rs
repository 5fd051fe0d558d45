//! Requests whose end two parties could read differently: refused, or framed anew as one request.

use test_service::platform::Script;
use test_service::raw::RawAnswer;
use test_service::stage::{CREDITS, Stage, on_stage};

/// Each of these requests gets a response with one of these statuses, then the connection is
/// closed, and the platform has seen nothing.
async fn are_refused(requests: &[(&str, &str)], statuses: &[u16]) {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for (lines, body) in requests {
                let answer = refused(&stage, "POST", &path(&stage), lines, body).await;
                assert!(statuses.contains(&answer.status), "{lines:?}: {}", answer.head);
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

fn path(stage: &Stage) -> String {
    stage.path("lists")
}

/// Sends a request with a second one after it: there must be one response, and the connection is
/// closed.
async fn refused(stage: &Stage, method: &str, target: &str, lines: &str, body: &str) -> RawAnswer {
    let head = format!("{method} {target} HTTP/1.1\r\n{}{lines}\r\n{body}", stage.host_and_key());
    refused_bytes(stage, head).await
}

async fn refused_bytes(stage: &Stage, request: impl Into<Vec<u8>>) -> RawAnswer {
    let mut caller = stage.raw().await;
    let mut bytes = request.into();
    bytes.extend_from_slice(smuggled(stage).as_bytes());
    caller.send(&bytes).await;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    let answer = caller.answer().await.unwrap_or_else(|| panic!("no answer to {shown:?}"));
    assert!(caller.is_closed().await, "the connection must be closed after {shown:?}");
    answer
}

/// A request that must never be treated as a separate one.
fn smuggled(stage: &Stage) -> String {
    format!("GET {} HTTP/1.1\r\n{}\r\n", stage.path("smuggled"), stage.host_and_key())
}

async fn nothing_happened(stage: &Stage) {
    assert!(stage.platform.calls().is_empty(), "{:?}", stage.platform.calls());
    assert!(stage.log().await.is_empty(), "a refused request must not hold credits");
    assert_eq!(stage.balance().await, CREDITS);
}

/// Checks a request that the service accepts, whose body can be read in only one way.
async fn is_one_request(head: impl Fn(&Stage) -> String, body: &str, closes: bool) {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let mut caller = stage.raw().await;
            caller.send(head(&stage)).await;
            let answer = caller.answer().await.unwrap();

            assert_eq!(answer.status, 200, "{}", answer.head);
            if closes {
                assert!(caller.is_closed().await, "the connection must be closed");
            }
            let calls = stage.platform.calls();
            assert_eq!(calls.len(), 1, "{calls:?}");
            assert_eq!(String::from_utf8_lossy(&calls[0].body), body);
            assert_eq!(calls[0].header("content-length"), Some(&*body.len().to_string()));
            assert_eq!(calls[0].header("transfer-encoding"), None);
            assert_eq!(stage.balance().await, CREDITS - 2);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_beside_chunked_is_one_request_and_ends_the_connection() {
    let head = |stage: &Stage| {
        format!(
            "POST {} HTTP/1.1\r\n{}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n{}",
            path(stage),
            stage.host_and_key(),
            smuggled(stage)
        )
    };
    is_one_request(head, "abc", true).await;
}

/// A repeated equal length counts as one, as in the HTTP library; the forwarded request has it
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_equal_lengths_count_as_one() {
    let head = |stage: &Stage| {
        format!(
            "POST {} HTTP/1.1\r\n{}Content-Length: 3\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
            path(stage),
            stage.host_and_key()
        )
    };
    is_one_request(head, "abc", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bare_line_feeds_are_read_as_line_ends_and_framed_anew() {
    let head = |stage: &Stage| {
        let crlf = format!(
            "POST {} HTTP/1.1\r\n{}Content-Length: 3\r\nConnection: close\r\n\r\n",
            path(stage),
            stage.host_and_key()
        );
        format!("{}abc", crlf.replace("\r\n", "\n"))
    };
    is_one_request(head, "abc", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ambiguous_length_is_refused() {
    are_refused(
        &[
            ("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
            ("Content-Length: 1, 1\r\n", "a"),
            ("Content-Length: +1\r\n", "a"),
            ("Content-Length: -1\r\n", "a"),
            ("Content-Length: 0x1\r\n", "a"),
            ("Content-Length: 1Z\r\n", "a"),
            ("Content-Length: \r\n", ""),
            ("Content-Length: 18446744073709551616\r\n", ""),
            ("Content-Length: 010\r\n", "abcdefghij"),
            ("Content-Length: 00\r\n", ""),
        ],
        &[400],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_coding_other_than_exactly_chunked_is_refused() {
    let body = "3\r\nabc\r\n0\r\n\r\n";
    are_refused(
        &[
            ("Transfer-Encoding: chunked, chunked\r\n", body),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", body),
            ("Transfer-Encoding: ,chunked\r\nContent-Length: 3\r\n", body),
            ("Transfer-Encoding: gzip, chunked\r\n", body),
            ("Transfer-Encoding: chunked, gzip\r\n", body),
            ("Transfer-Encoding: xchunked\r\n", body),
            ("Transfer-Encoding: \x0bchunked\r\n", body),
            ("Transfer-Encoding: identity\r\n", body),
            ("Transfer-Encoding : chunked\r\n", body),
            ("Transfer-Encoding:\r\n chunked\r\n", body),
        ],
        &[400],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_coding_with_other_bytes_or_on_http_1_0_is_refused() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let chunks = "3\r\nabc\r\n0\r\n\r\n";
            let old = format!(
                "POST {} HTTP/1.0\r\n{}Transfer-Encoding: chunked\r\n\r\n{chunks}",
                path(&stage),
                stage.host_and_key()
            );
            let mut strange =
                format!("POST {} HTTP/1.1\r\n{}", path(&stage), stage.host_and_key()).into_bytes();
            strange.extend_from_slice(b"Transfer-Encoding: \xa0chunked\r\n\r\n");
            strange.extend_from_slice(chunks.as_bytes());

            assert_eq!(refused_bytes(&stage, old).await.status, 400);
            assert_eq!(refused_bytes(&stage, strange).await.status, 400);
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

/// The body is read whole first, so broken chunks are detected before anything is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_chunk_is_refused_before_credits_are_held() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    are_refused(
        &[
            (chunked, "0x1\r\na\r\n0\r\n\r\n"),
            (chunked, "1_0\r\na\r\n0\r\n\r\n"),
            (chunked, "\r\na\r\n0\r\n\r\n"),
            (chunked, "10000000000000000\r\na\r\n0\r\n\r\n"),
            (chunked, " 1\r\na\r\n0\r\n\r\n"),
            (chunked, "1\na\n0\n\n"),
            (chunked, "3\r\nabcXX0\r\n\r\n"),
            (chunked, "-1\r\na\r\n0\r\n\r\n"),
        ],
        &[400],
    )
    .await;
}

/// Trailers are dropped and are neither credentials nor lengths.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trailer_never_becomes_a_header() {
    on_stage("platform_alpha", "", |_, _| Script::json(200, "{}"), async |stage| {
        let mut caller = stage.raw().await;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nTrailer: X-Api-Key\r\n\r\n",
            path(&stage)
        );
        caller.send(format!("{head}3\r\nabc\r\n0\r\nX-Api-Key: {}\r\n\r\n", stage.customer.key)).await;
        let answer = caller.answer().await.unwrap();

        assert_eq!((answer.status, answer.code().as_str()), (401, "missing_key"));
        nothing_happened(&stage).await;
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_header_line_is_refused() {
    are_refused(
        &[
            ("X: a\rb\r\n", ""),
            ("X: a\0b\r\n", ""),
            ("no colon\r\n", ""),
            (": empty\r\n", ""),
            ("X y: 1\r\n", ""),
            (" X: 1\r\n", ""),
        ],
        &[400],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_must_name_exactly_one_host() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let key = format!("X-API-Key: {}\r\n", stage.customer.key);
            for hosts in [
                "",
                "Host: a\r\nHost: a\r\n",
                "Host: a\r\nHost: b\r\n",
                "Host: a b\r\n",
                "Host: a/../b\r\n",
                "Host: u@a\r\n",
                "Host:\r\n",
            ] {
                let request = format!("GET {} HTTP/1.1\r\n{hosts}{key}\r\n", path(&stage));
                assert_eq!(refused_bytes(&stage, request).await.status, 400, "{hosts:?}");
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_another_service_is_misdirected() {
    let overrides = "[http]\nallowed_hosts = [\"127.0.0.1\", \"api.example.com\"]";
    on_stage(
        "platform_alpha",
        overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let key = format!("X-API-Key: {}\r\n", stage.customer.key);
            let request = |host: &str| {
                format!("GET {} HTTP/1.1\r\nHost: {host}\r\n{key}\r\n", stage.path("users/me"))
            };

            assert_eq!(refused_bytes(&stage, request("evil.example")).await.status, 421);
            assert_eq!(
                refused_bytes(&stage, request("api.example.com.evil.example")).await.status,
                421
            );
            assert!(stage.platform.calls().is_empty());
            let mut caller = stage.raw().await;
            caller.send(request("API.example.com:443")).await;
            assert_eq!(caller.answer().await.unwrap().status, 200);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_a_path_is_refused() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let elsewhere = format!("http://evil.example{}", stage.path("users/me"));
            for target in [elsewhere.as_str(), "evil.example:80", "*", "v1/ada/native/users/me"] {
                let answer = refused(&stage, "GET", target, "", "").await;
                assert_eq!(answer.status, 400, "{target}");
            }
            nothing_happened(&stage).await;

            let same = format!("http://gateway{}", stage.path("users/me"));
            let mut caller = stage.raw().await;
            caller.send(format!("GET {same} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
            assert_eq!(caller.answer().await.unwrap().status, 200);
            assert_eq!(stage.platform.last_call().target(), "/users/me");
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsupported_method_is_refused() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for method in ["TRACE", "get", "GET!", "PROPFIND", "PRI"] {
                let answer = refused(&stage, method, &stage.path("users/me"), "", "").await;
                assert_eq!(answer.status, 405, "{method}");
            }
            let tunnel = refused(&stage, "CONNECT", "evil.example:443", "", "").await;
            assert!(matches!(tunnel.status, 400 | 405), "{}", tunnel.head);
            // These exist in HTTP but not on a native path.
            for method in ["HEAD", "OPTIONS"] {
                let head = format!(
                    "{method} {} HTTP/1.1\r\n{}\r\n",
                    stage.path("x"),
                    stage.host_and_key()
                );
                let mut caller = stage.raw().await;
                caller.send(head).await;
                assert!(caller.head().await.starts_with("http/1.1 405"), "{method}");
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_http_is_refused() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for version in [" HTTP/1.32", " HTTP/2.0", " HTTP/9.9", " http/1.1", ""] {
                let request = format!(
                    "GET {}{version}\r\n{}\r\n",
                    stage.path("users/me"),
                    stage.host_and_key()
                );
                let answer = refused_bytes(&stage, request).await;
                assert!(matches!(answer.status, 400 | 505), "{version}: {}", answer.head);
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

/// `Upgrade` concerns this hop and is dropped: the request is an ordinary one, and so is the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_neither_performed_nor_forwarded() {
    on_stage("platform_alpha", "", |_, _| Script::json(200, "{}"), async |stage| {
        let mut caller = stage.raw().await;
        let first = format!(
            "GET {} HTTP/1.1\r\n{}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n",
            stage.path("users/me"),
            stage.host_and_key()
        );
        caller.send(format!("{first}{}", smuggled(&stage))).await;

        assert_eq!(caller.answer().await.unwrap().status, 200);
        assert_eq!(caller.answer().await.unwrap().status, 200);
        let calls = stage.platform.calls();
        assert_eq!(calls.len(), 2);
        assert!(!calls[0].head.to_ascii_lowercase().contains("upgrade"), "{}", calls[0].head);
        assert!(!calls[0].head.to_ascii_lowercase().contains("http2-settings"));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsupported_expectation_is_refused() {
    are_refused(&[("Expect: 200-ok\r\nContent-Length: 0\r\n", "")], &[417]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_with_a_body_is_refused() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for (lines, body) in [
                ("Content-Length: 3\r\n", "abc"),
                ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            ] {
                let answer = refused(&stage, "GET", &stage.path("users/me"), lines, body).await;
                assert_eq!((answer.status, answer.code().as_str()), (400, "unexpected_body"));
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_too_large_is_refused() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let target = stage.path("users/me");
            let many = "X: y\r\n".repeat(63);
            let over_hyper = "X: y\r\n".repeat(101);
            let large = format!("X: {}\r\n", "a".repeat(16_300));
            let huge = format!("X: {}\r\n", "a".repeat(500_000));
            let long_target = format!("{target}?{}", "a".repeat(9_000));
            let huge_target = format!("{target}?{}", "a".repeat(66_000));
            for (asked, lines, status) in [
                (&target, &many, 431),
                (&target, &over_hyper, 431),
                (&target, &large, 431),
                (&target, &huge, 431),
                (&long_target, &String::new(), 414),
            ] {
                let answer = refused(&stage, "GET", asked, lines, "").await;
                assert_eq!(answer.status, status, "{} bytes of head", lines.len());
            }
            let answer = refused(&stage, "GET", &huge_target, "", "").await;
            assert!(matches!(answer.status, 414 | 431), "{}", answer.head);
            nothing_happened(&stage).await;

            // Two headers are already there.
            let most = "X: y\r\n".repeat(62);
            let mut caller = stage.raw().await;
            caller
                .send(format!("GET {target} HTTP/1.1\r\n{}{most}\r\n", stage.host_and_key()))
                .await;
            assert_eq!(caller.answer().await.unwrap().status, 200);
            stage
        },
    )
    .await;
}

/// Pipelined requests are served in order, each once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let echo = |request: &test_service::platform::Seen, _| Script::json(200, request.target());
    on_stage("platform_alpha", "", echo, async |stage| {
        let requests = (0..20).map(|number| {
            let path = stage.path(&format!("x/{number}"));
            format!("GET {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())
        });
        let mut caller = stage.raw().await;
        caller.send(requests.collect::<Vec<_>>().concat()).await;

        for number in 0..20 {
            let answer = caller.answer().await.unwrap();
            assert_eq!(String::from_utf8_lossy(&answer.body), format!("/x/{number}"));
        }
        assert_eq!(stage.balance().await, CREDITS - 20);
        stage
    })
    .await;
}

/// hyper refuses these itself, without a body; our response says what must be encoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_request_is_explained() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for query in [&b"q=\xff"[..], b"q=<b>", b"q=\"x\"", b"q=\xc3\x28"] {
                let mut request = format!("GET {}?", path(&stage)).into_bytes();
                request.extend_from_slice(query);
                let lines = format!(" HTTP/1.1\r\n{}\r\n", stage.host_and_key());
                request.extend_from_slice(lines.as_bytes());

                let answer = refused_bytes(&stage, request).await;

                assert_eq!(answer.status, 400, "{query:?}: {}", answer.head);
                let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
                let detail = body["detail"].as_str().unwrap();
                assert!(detail.contains("query"), "{query:?}: {detail}");
                assert!(answer.head.contains("application/problem+json"), "{}", answer.head);
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}

/// A head that the HTTP library cannot read is refused like any other: with a problem, an id, a
/// receipt and a retry hint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_head_is_refused_with_a_problem_and_free() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let (path, own) = (path(&stage), stage.host_and_key());
            let lines = |count: usize| "X: 1\r\n".repeat(count);
            for (head, status, code) in [
                (format!("GET {path}?q=<a> HTTP/1.1\r\n{own}"), 400, "malformed_request"),
                (format!("GET {path} HTTP/1.1\r\n{own}no colon\r\n"), 400, "malformed_request"),
                (
                    format!("GET {path} HTTP/1.1\r\n{own}X: {}\r\n", "a".repeat(20_000)),
                    431,
                    "head_too_large",
                ),
                (format!("GET {path} HTTP/1.1\r\n{own}{}", lines(200)), 431, "head_too_large"),
            ] {
                let answer = refused_bytes(&stage, format!("{head}\r\n")).await;

                assert_eq!(answer.status, status, "{}", answer.head);
                let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!(problem["code"], code, "{problem}");
                assert_eq!(problem["retryable"], false, "{problem}");
                let id = problem["request_id"].as_str().unwrap().to_lowercase();
                for line in [
                    "x-credits-cost: 0",
                    "x-should-retry: false",
                    "x-error-source: gateway",
                    "content-type: application/problem+json",
                    &format!("x-request-id: {id}"),
                ] {
                    assert!(answer.head.contains(&format!("\r\n{line}\r\n")), "{}", answer.head);
                }
            }
            nothing_happened(&stage).await;
            stage
        },
    )
    .await;
}
