//! Headers: which of a caller's reach a platform, which of a platform's reach a caller, and that no
//! others do.

use serde_json::json;
use test_service::platform::{RawPlatform, Script, Seen, answer};
use test_service::raw::RawAnswer;
use test_service::stage::{CANARY, CREDITS, Stage, on_stage};

/// Sends a GET of `users/me` with these additional lines.
async fn get(stage: &Stage, lines: &str) -> RawAnswer {
    let head = format!("{}{lines}", stage.host_and_key());
    get_with(stage, &head).await
}

/// Sends a GET of `users/me` with only these lines.
async fn get_with(stage: &Stage, lines: &str) -> RawAnswer {
    let mut caller = stage.raw().await;
    caller.send(format!("GET {} HTTP/1.1\r\n{lines}\r\n", stage.path("users/me"))).await;
    caller.answer().await.unwrap()
}

/// Runs the test with a platform that responds `{}`.
async fn on_alpha(test: impl AsyncFn(Stage) -> Stage) {
    on_stage("platform_alpha", "", |_, _| Script::json(200, "{}"), test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_headers_reach_the_platform_unchanged() {
    on_alpha(async |stage| {
        let said = [
            ("Accept", "application/json;q=0.9, */*"),
            ("Accept-Language", "de"),
            ("If-None-Match", "W/\"1\""),
            ("If-Match", "\"a\", \"b\""),
            ("If-Modified-Since", "Sat, 21 Nov 2026 12:00:00 GMT"),
            ("If-Unmodified-Since", "Sat, 21 Nov 2026 12:00:00 GMT"),
            ("If-Range", "\"3\""),
            ("Range", "bytes=0-9"),
        ];
        let lines = said.map(|(name, value)| format!("{name}: {value}\r\n")).concat();

        get(&stage, &lines).await;

        let seen = stage.platform.last_call();
        for (name, value) in said {
            assert_eq!(seen.header(name), Some(value), "{name}");
        }
        stage
    })
    .await;
}

/// A resumed download of a changed file, a conditional write that came too late, and a copy that is
/// still current.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_to_conditional_requests_are_passed_on_unchanged() {
    let script = |seen: &Seen, _: usize| {
        let (lines, body) = match seen.header("if-range") {
            Some(_) => ("content-range: bytes 2-3/4\r\netag: \"1\"\r\n", "34"),
            None => ("etag: \"2\"\r\n", ""),
        };
        let status = match (seen.header("if-none-match"), seen.header("if-match")) {
            (Some(_), _) => 304,
            (_, Some(_)) => 412,
            _ => 206,
        };
        let bytes = answer(status, lines, body);
        // A 304 has no body, and may have the length that a 200 would have had.
        let bytes = if status == 304 {
            b"HTTP/1.1 304 X\r\ncontent-length: 4\r\netag: \"2\"\r\n\r\n".to_vec()
        } else {
            bytes
        };
        Script::Answer(bytes)
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let part = get(&stage, "Range: bytes=2-3\r\nIf-Range: \"1\"\r\n").await;
        assert_eq!((part.status, &part.body[..]), (206, &b"34"[..]));
        assert!(part.head.contains("content-range: bytes 2-3/4\r\n"), "{}", part.head);
        let same = get(&stage, "If-None-Match: \"2\"\r\n").await;
        assert_eq!((same.status, same.body.len()), (304, 0));
        assert!(same.head.contains("etag: \"2\"\r\n"), "{}", same.head);
        assert!(
            !same.head.contains("content-length: 0"),
            "a 304 must not announce an empty body: {}",
            same.head
        );
        let late =
            stage.client.with("if-match", "\"1\"").post(&stage.path("lists"), &json!({})).await;
        assert_eq!((late.status, late.header("etag")), (412, "\"2\""));
        assert_eq!(late.header("x-error-source"), "platform");
        assert_eq!(stage.balance().await, CREDITS - 4);
        stage
    })
    .await;
}

/// C7: with many ranges one call would make a platform read and send the same bytes repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_one_range_is_416_and_free() {
    on_alpha(async |stage| {
        let many = format!("Range: bytes=0-{}\r\n", ",0-".repeat(1_000));
        for lines in [
            "Range: bytes=0-0,1-1\r\n",
            "Range: bytes=0-0,\r\n",
            "Range: bytes=0-0\r\nRange: bytes=0-0\r\n",
            many.as_str(),
        ] {
            let answer = get(&stage, lines).await;
            assert_eq!((answer.status, answer.code().as_str()), (416, "several_ranges"), "{lines}");
        }
        stage.is_unspent().await;
        assert_eq!(get(&stage, "Range: bytes=-500\r\n").await.status, 200);
        assert_eq!(stage.platform.last_call().header("range"), Some("bytes=-500"));
        stage
    })
    .await;
}

/// All other headers of a caller stay here, especially what could pass for a credential.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_headers_of_a_caller_reach_the_platform() {
    let lines = [
        "Cookie: sess=caller",
        "User-Id: caller",
        "X-User-Id: caller",
        "Sess: caller",
        "X-Bc: caller",
        "X-Client-Signature: caller",
        "X-Client-Nonce: caller",
        "X-Call-Id: caller",
        "Sign: caller",
        "Time: caller",
        "App-Token: caller",
        "User-Agent: caller",
        "Origin: http://caller",
        "Referer: http://caller/",
        "Via: 1.1 caller",
        "Forwarded: for=caller",
        "X-Forwarded-For: caller",
        "X-Forwarded-Host: caller",
        "X-Forwarded-Proto: caller",
        "X-Forwarded-Prefix: caller",
        "X-Real-IP: caller",
        "True-Client-IP: caller",
        "CF-Connecting-IP: caller",
        "X-Request-Id: caller",
        "X-Original-URL: /caller",
        "X-Rewrite-URL: /caller",
        "Accept-Encoding: gzip, br, zstd, caller",
        "Priority: caller",
        "Sec-Fetch-Site: caller",
        "Proxy-Authorization: caller",
        "Proxy-Connection: caller",
        "Keep-Alive: caller",
        "TE: trailers",
        "Idempotency-Key: caller",
        "Api-Key: caller",
    ];
    on_alpha(async |stage| {
        get(&stage, &format!("{}\r\n", lines.join("\r\n"))).await;

        let seen = stage.platform.last_call();
        assert!(!seen.head.contains("caller"), "{}", seen.head);
        let all =
            ["accept-encoding", "authorization", "host", "user-agent", "x-call-id", "x-user-id"];
        assert_eq!(seen.header_names(), all);
        assert_eq!(seen.header("host"), Some(&*stage.platform.address.to_string()));
        assert!(
            !seen.head.contains(&stage.customer.key),
            "the caller's key must not be forwarded: {}",
            seen.head
        );
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_bearer_key_is_replaced_by_the_accounts_credential() {
    on_alpha(async |stage| {
        let lines = format!("Host: g\r\nAuthorization: Bearer {}\r\n", stage.customer.key);

        let answer = get_with(&stage, &lines).await;

        let seen = stage.platform.last_call();
        assert_eq!(answer.status, 200);
        assert_eq!(seen.header("authorization"), Some(&*format!("Session {CANARY}")));
        stage
    })
    .await;
}

/// `Connection` can remove the caller's headers, but none of ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_removes_only_headers_of_the_caller() {
    on_alpha(async |stage| {
        let answer = get(
            &stage,
            "Accept: a/b\r\nRange: bytes=0-1\r\nConnection: X-API-Key, Authorization, Host, X-User-Id, Range\r\n",
        )
        .await;

        let seen = stage.platform.last_call();
        assert_eq!(answer.status, 200);
        assert_eq!(seen.header("accept"), Some("a/b"));
        assert_eq!(seen.header("range"), None);
        assert_eq!(seen.header("authorization"), Some(&*format!("Session {CANARY}")));
        assert_eq!(seen.header("x-user-id"), Some("31"));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ambiguous_or_misplaced_key_is_refused() {
    on_alpha(async |stage| {
        let other = stage.app.customer(10).await.key;
        let key = &stage.customer.key;
        let rows = [
            (format!("X_Api_Key: {key}\r\n"), 400, "invalid_header_name"),
            (format!("X-Api-Key: {key}\r\nAccept_Language: de\r\n"), 400, "invalid_header_name"),
            (format!("X-Api-Key: {key}\r\nX-API-KEY: {key}\r\n"), 400, "repeated_header"),
            (
                format!("Authorization: Bearer {key}\r\nAuthorization: Bearer {key}\r\n"),
                400,
                "repeated_header",
            ),
            (
                format!("X-Api-Key: {key}\r\nAuthorization: Bearer {other}\r\n"),
                401,
                "ambiguous_key",
            ),
            (format!("X-Api-Key: {key}\r\nAuthorization: Basic {key}\r\n"), 401, "invalid_key"),
            (String::new(), 401, "missing_key"),
            (format!("Cookie: x-api-key={key}\r\n"), 401, "missing_key"),
            (format!("X-Api-Key: {key}x\r\n"), 401, "invalid_key"),
            (format!("X-Api-Key: {}\r\n", key.to_uppercase()), 401, "invalid_key"),
        ];
        for (lines, status, code) in &rows {
            let answer = get_with(&stage, &format!("Host: g\r\n{lines}")).await;

            assert_eq!((answer.status, answer.code().as_str()), (*status, *code), "{lines}");
            let challenges = answer.head.contains("www-authenticate: bearer");
            assert_eq!(challenges, *status == 401, "{}", answer.head);
        }
        assert!(stage.platform.calls().is_empty());
        assert_eq!(stage.balance().await, CREDITS);

        let same = format!("Host: g\r\nX-Api-Key: {key}\r\nAuthorization: bearer {key}\r\n");
        assert_eq!(get_with(&stage, &same).await.status, 200);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_the_query_is_ignored() {
    on_alpha(async |stage| {
        let mut caller = stage.raw().await;
        let path = stage.path(&format!("users/me?api_key={}", stage.customer.key));
        caller.send(format!("GET {path} HTTP/1.1\r\nHost: g\r\n\r\n")).await;

        assert_eq!(caller.answer().await.unwrap().code(), "missing_key");
        assert!(stage.platform.calls().is_empty());
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_request_body_is_refused() {
    on_alpha(async |stage| {
        for coding in ["gzip", "br", "deflate", "identity, gzip"] {
            let client = stage.client.with("content-encoding", coding);
            let reply = client.send("POST", &stage.path("lists"), Some(vec![0x1f, 0x8b])).await;

            assert_eq!(
                (reply.status, reply.code().as_str()),
                (415, "content_encoding_not_supported")
            );
        }
        assert!(stage.platform.calls().is_empty());
        let plain = stage.client.with("content-encoding", "identity");
        let reply = plain.send("POST", &stage.path("lists"), Some(b"{}".to_vec())).await;
        assert_eq!(reply.status, 200);
        assert_eq!(stage.platform.last_call().header("content-encoding"), None);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_allowed_headers_of_a_platform_reach_the_caller() {
    let passed = [
        ("content-type", "application/json; charset=utf-8"),
        ("content-disposition", "attachment; filename=\"a.csv\""),
        ("content-language", "de"),
        ("etag", "\"1\""),
        ("last-modified", "Sat, 21 Nov 2026 12:00:00 GMT"),
        ("retry-after", "7"),
        ("content-range", "bytes 0-1/2"),
        ("accept-ranges", "bytes"),
        ("allow", "GET, HEAD"),
        ("deprecation", "@1767225600"),
        ("sunset", "Sat, 21 Nov 2026 12:00:00 GMT"),
        ("link", "<https://cdn.example/2>; rel=\"next\""),
        ("x-total-count", "31"),
        ("x-next-cursor", "c2"),
        ("x-per-page", "10"),
    ];
    let dropped = [
        "set-cookie: a=evil",
        "set-cookie: b=evil",
        "refresh: 0;url=http://evil/",
        "access-control-allow-origin: evil",
        "alt-svc: evil",
        "clear-site-data: \"evil\"",
        "server: evil",
        "x-powered-by: evil",
        "x-request-id: evil",
        "x-credits-cost: 0evil",
        "x-route: evil",
        "x-error-source: evil",
        "idempotent-replayed: evil",
        "x-envelope: evil",
        "x-platform-location: evil",
        "x-accel-redirect: evil",
        "ratelimit: evil",
        "vary: evil",
        "content-security-policy: evil",
        "x-content-type-options: evil",
        "connection: evil",
        "keep-alive: evil",
        "trailer: evil",
        "upgrade: evil",
    ];
    let mut lines = passed.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    lines.extend(dropped.map(|line| format!("{line}\r\n")));
    lines.push_str("x-ratelimit-remaining: 5\r\nX-RateLimit-Reset: 60\r\n");
    let script = move |_: &_, _| Script::Answer(answer(200, &lines, "{}"));
    on_stage("platform_alpha", "", script, async |stage| {
        let reply = stage.get("users/me").await;

        assert_eq!(reply.status, 200);
        for (name, value) in passed {
            assert_eq!(reply.header(name), value);
        }
        assert_eq!(reply.header("x-platform-ratelimit-remaining"), "5");
        assert_eq!(reply.header("x-platform-ratelimit-reset"), "60");
        assert!(!reply.headers.contains_key("x-ratelimit-remaining"));
        assert!(!format!("{:?}", reply.headers).contains("evil"), "{:?}", reply.headers);
        assert_eq!(reply.receipt(), (1, CREDITS - 1));
        stage
    })
    .await;
}

/// References to the platform's own paths become native calls, so that clients can follow them with
/// their key. Others get another header name, so that no client follows them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platforms_references_are_rewritten_to_native_calls_or_renamed() {
    let sink = RawPlatform::answering(&answer(200, "", "secret")).await;
    let elsewhere = format!("http://{}/latest/meta-data", sink.address);
    let cases = [
        (201, "/api/v1/lists/7", "/v1/ada/native/lists/7", ""),
        (307, "8?a=b%20c#d", "/v1/ada/native/lists/8?a=b%20c#d", ""),
        (302, elsewhere.as_str(), "", elsewhere.as_str()),
        (302, "//evil.example/api/v1/x", "", "http://evil.example/api/v1/x"),
        (303, "https:evil", "", "https:evil"),
    ];
    let script = {
        let elsewhere = elsewhere.clone();
        move |seen: &Seen, number: usize| {
            let own = format!("http://{}/api/v1/lists/9?page=2", seen.header("host").unwrap());
            let location = match number {
                0 => "/api/v1/lists/7",
                1 => "8?a=b%20c#d",
                2 => &elsewhere,
                3 => "//evil.example/api/v1/x",
                4 => "https:evil",
                _ => &own,
            };
            let status = [201, 307, 302, 302, 303].get(number).copied().unwrap_or(200);
            let lines = format!("location: {location}\r\nlink: <{own}>; rel=\"next\"\r\n");
            Script::Answer(answer(status, &lines, ""))
        }
    };
    on_stage("platform_beta", "", script, async |stage| {
        for (status, _, ours, theirs) in cases {
            let reply = stage.get("lists/1").await;

            assert_eq!(reply.status, status);
            assert_eq!(
                (reply.header("location"), reply.header("x-platform-location")),
                (ours, theirs)
            );
            assert_eq!(reply.header("link"), "</v1/ada/native/lists/9?page=2>; rel=\"next\"");
        }
        let own = stage.client.with("idempotency-key", "one");
        let first = own.post(&stage.path("lists"), &json!({})).await;
        stage.app.settled(&stage.client).await;
        let again = own.post(&stage.path("lists"), &json!({})).await;
        assert_eq!(first.header("location"), "/v1/ada/native/lists/9?page=2");
        assert_eq!(again.header("idempotent-replayed"), "true");
        for name in ["location", "link"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        stage
    })
    .await;
    assert!(sink.seen().is_empty(), "no redirection may be followed");
}

/// The platform's challenge is passed on and marked as the platform's; its cache headers do not
/// change ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platforms_challenge_and_cache_headers_are_marked_as_its_own() {
    let lines =
        "www-authenticate: Session realm=p\r\ncache-control: public, max-age=9\r\nexpires: 0\r\n";
    let script = move |_: &_, _| Script::Answer(answer(401, lines, "{}"));
    on_stage("platform_alpha", "", script, async |stage| {
        let theirs = stage.get("users/me").await;
        let ours = stage.app.anonymous().get(&stage.path("users/me")).await;

        assert_eq!((theirs.status, theirs.header("x-error-source")), (401, "platform"));
        assert_eq!(theirs.header("www-authenticate"), "Session realm=p");
        assert_eq!(theirs.header("x-platform-cache-control"), "public, max-age=9");
        assert_eq!(theirs.header("cache-control"), "private, no-store");
        assert_eq!(theirs.header("expires"), "");
        assert_eq!((ours.status, ours.header("x-error-source")), (401, "gateway"));
        assert!(ours.header("www-authenticate").starts_with("Bearer"));
        stage
    })
    .await;
}

/// The operator's list replaces the default one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_can_replace_the_list_of_response_headers() {
    let overrides = "[platforms.platform_alpha]\nresponse_headers = [\"X-Own\"]";
    let lines = "x-own: 1\r\nx-total: 2\r\netag: \"3\"\r\n";
    let script = move |_: &_, _| Script::Answer(answer(200, lines, "{}"));
    on_stage("platform_alpha", overrides, script, async |stage| {
        let reply = stage.get("users/me").await;

        assert_eq!((reply.header("x-own"), reply.header("x-total")), ("1", ""));
        assert_eq!(reply.header("etag"), "\"3\"");
        stage
    })
    .await;
}

/// Browsers and caches must neither store a response nor run anything in it, whether ours or a
/// platform's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_response_has_the_security_headers() {
    let script = |_: &_, number| match number {
        0 => Script::Answer(answer(200, "content-type: text/html\r\n", "<script>1</script>")),
        1 => Script::Answer(answer(200, "", vec![b'x'; 200_000])),
        _ => Script::close(),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let replies = [
            stage.get("users/me").await,
            stage.get("page.css").await,
            stage.get("users/me").await,
            stage.get("../x").await,
            stage.app.anonymous().get(&stage.path("users/me")).await,
            stage.app.anonymous().get("/nothing").await,
        ];

        for reply in &replies {
            assert_eq!(reply.header("cache-control"), "private, no-store");
            let policy = "default-src 'none'; object-src 'none'; base-uri 'none'; \
                frame-ancestors 'none'; sandbox";
            assert_eq!(reply.header("content-security-policy"), policy);
            assert_eq!(reply.header("x-content-type-options"), "nosniff");
            assert_eq!(reply.header("referrer-policy"), "no-referrer");
            let varies: Vec<_> = reply.headers.get_all("vary").iter().collect();
            assert_eq!(varies.last().unwrap(), &"Authorization, X-API-Key, Cookie");
            // Failures beside native calls are pages for people.
            assert!(varies.len() == 1 || varies[0] == "Accept, Sec-Fetch-Mode", "{varies:?}");
            assert_eq!(
                reply.header("strict-transport-security"),
                "",
                "without an https address there must be no HSTS"
            );
            assert!(reply.header("x-request-id").starts_with("req_"), "{:?}", reply.headers);
        }
        let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
        assert_eq!(statuses[..3], [200, 200, 502]);
        assert_eq!(statuses[4..], [401, 404]);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_harmless_request_id_is_kept_and_any_other_replaced() {
    on_alpha(async |stage| {
        let kept = get(&stage, "X-Request-Id: Order-17_b\r\n").await;
        assert!(kept.head.contains("x-request-id: order-17_b\r\n"), "{}", kept.head);
        assert_eq!(stage.log().await[0]["request_id"], "Order-17_b");

        let long = format!("X-Request-Id: {}\r\n", "a".repeat(65));
        for lines in [
            "X-Request-Id: a b\r\n",
            "X-Request-Id: <x>\r\n",
            "X-Request-Id: a\r\nX-Request-Id: a\r\n",
            "X-Request-Id:\r\n",
            &long,
        ] {
            let answer = get(&stage, lines).await;
            assert!(answer.head.contains("x-request-id: req_"), "{lines}: {}", answer.head);
        }
        let refused = get_with(&stage, "Host: g\r\nX-Request-Id: Order-18\r\n").await;
        let problem: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(problem["request_id"], "Order-18");
        stage
    })
    .await;
}

/// The headers distinguish whose failure it was, and how long each side took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_names_the_source_of_a_failure_and_has_a_receipt() {
    let script = |_: &_, number| match number {
        0 => Script::json(404, "{}"),
        _ => Script::close(),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let theirs = stage.get("users/me").await;
        let broken = stage.get("users/me").await;
        let ours = stage.get("a/../b").await;

        assert_eq!(theirs.header("x-error-source"), "platform");
        assert_eq!(broken.header("x-error-source"), "gateway");
        assert_eq!(ours.header("x-error-source"), "gateway");
        assert!(theirs.header("server-timing").starts_with("upstream;dur="));
        assert!(theirs.header("server-timing").contains(", gateway;dur="));
        for reply in [&theirs, &broken] {
            assert_eq!(reply.header("x-route"), "GET users/me");
            assert!(!reply.header("ratelimit").is_empty(), "{:?}", reply.headers);
            assert!(!reply.header("ratelimit-policy").is_empty(), "{:?}", reply.headers);
        }
        assert_eq!(ours.header("x-credits-cost"), "0", "nothing may be metered");
        stage
    })
    .await;
}

/// No response contains the account's secret, whatever is requested and whatever fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_response_contains_an_accounts_secret() {
    let script = |_: &_, number| match number % 3 {
        0 => Script::json(401, r#"{"error":"no"}"#),
        1 => Script::close(),
        _ => Script::json(200, "{}"),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let mut auth = test_service::stage::auth("platform_alpha");
        auth["nonsense"] = CANARY.into();
        let mut replies = vec![stage.import("platform_alpha", auth).await];
        for native in ["users/me", "lists", "x/y", "a/../b", "chats/1/messages?limit=x"] {
            replies.push(stage.get(native).await);
            replies.push(stage.post(native, &serde_json::json!({})).await);
        }
        for path in [
            "/v1/accounts",
            "/v1/accounts/ada",
            "/v1/whoami",
            "/v1/billing",
            "/v1/billing/usage/recent",
            "/v1/billing/usage/daily",
            "/v1/platforms",
            "/openapi.json",
        ] {
            replies.push(stage.client.get(path).await);
        }

        for reply in &replies {
            assert!(!format!("{:?}", reply.headers).contains(CANARY), "{:?}", reply.headers);
            assert!(!reply.text().contains(CANARY), "{}", reply.text());
        }
        assert!(
            stage.platform.seen().iter().any(|seen| seen.contains(CANARY)),
            "the secret must have been used"
        );
        stage
    })
    .await;
}
