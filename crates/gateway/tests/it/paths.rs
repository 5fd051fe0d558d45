//! Native paths and queries: which are never forwarded, and that refusing them costs nothing.

use test_service::platform::{RawPlatform, Script, json_answer};
use test_service::raw::RawAnswer;
use test_service::stage::{CREDITS, Stage, on_stage};

/// Sends a GET with exactly this request target.
async fn get(stage: &Stage, target: &str) -> RawAnswer {
    let mut caller = stage.raw().await;
    caller.send(format!("GET {target} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
    caller.answer().await.unwrap_or_else(|| panic!("no answer to {target:?}"))
}

/// Checks targets below the account's native path, on a platform that would respond to any of them.
async fn each(platform: &str, natives: &[&str], check: impl Fn(&str, &RawAnswer)) {
    on_stage(
        platform,
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for native in natives {
                check(native, &get(&stage, &stage.path(native)).await);
            }
            assert!(stage.platform.calls().is_empty(), "{:?}", stage.platform.calls());
            assert!(stage.log().await.is_empty(), "a refused path must not hold credits");
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}

/// Each of these is refused, sends nothing and costs nothing.
async fn are_refused(natives: &[&str]) {
    each("platform_beta", natives, |native, answer| {
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_path"), "{native}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_with_dot_segments_is_refused() {
    are_refused(&[
        "../../x",
        "..",
        ".",
        "x/..",
        "x/../y",
        "x/./y",
        "%2e%2e/x",
        "%2E%2E%2fx",
        ".%2e/x",
        "..%2fx",
        "..%5cx",
        "x%2Fy",
        "x%5Cy",
    ])
    .await;
}

/// The HTTP library refuses some of these itself; either way nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backslashes_and_characters_invalid_in_a_target_are_refused() {
    let natives = ["..\\x", "a\\b", "\\\\evil.example\\x", "a`b", "a<b>", "x?a=<b>", "x?a=\"b\""];
    each("platform_beta", &natives, |native, answer| {
        assert_eq!(answer.status, 400, "{native}");
    })
    .await;
}

/// The HTTP library removes the fragment before we see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fragment_is_not_part_of_a_request() {
    on_stage(
        "platform_beta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for (native, arrives) in [
                ("users/me#/../../x", "users/me"),
                ("users/me?a=1#&a=2", "users/me?a=1"),
                ("users/me?a=%231", "users/me?a=%231"),
                ("lists/%231", "lists/%231"),
            ] {
                let answer = get(&stage, &stage.path(native)).await;

                let seen = stage.platform.last_call();
                assert_eq!((answer.status, seen.target()), (200, &*format!("/api/v1/{arrives}")));
            }
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_naming_another_host_is_refused_or_stays_on_the_platform() {
    are_refused(&["/evil.example/x", "https://evil.example/x", "http:/%2fevil/x", "x//y"]).await;

    let sink = RawPlatform::answering(&json_answer(200, "{}")).await;
    let segments = [
        format!("@{}/x", sink.address),
        format!("http:{}/x", sink.address),
        format!("user:word@{}", sink.address),
    ];
    on_stage(
        "platform_beta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for segment in &segments {
                let answer = get(&stage, &stage.path(segment)).await;

                let seen = stage.platform.last_call();
                assert_eq!((answer.status, seen.target()), (200, &*format!("/api/v1/{segment}")));
                assert_eq!(seen.header("host"), Some(&*stage.platform.address.to_string()));
            }
            stage
        },
    )
    .await;
    assert!(sink.seen().is_empty(), "no other host may be reached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_with_parameters_double_encoding_or_control_bytes_is_refused() {
    are_refused(&[
        "a/..;/admin",
        "a;b=c/d",
        "..%3b/admin",
        "a%252e%252e/b",
        "%252e%252e%252fx",
        "%25%32%65%25%32%65/x",
        "a%255cb",
        "a%2500b",
        "a%250d%250aX:y",
        "a%00b",
        "a%0d%0aX:y",
        "a%1f",
        "a%7f",
        "a%",
        "a%4",
        "a%zz",
        "a|b",
        "a^b",
        "a[b]",
        "a{b}",
    ])
    .await;
}

/// Lenient decoders read them as dots and slashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlong_and_full_width_dots_are_refused() {
    are_refused(&[
        "%c0%ae%c0%ae/x",
        "a%c0%afb",
        "%ef%bc%8e%ef%bc%8e/x",
        "%25c0%25ae%25c0%25ae/x",
        "%25ef%25bc%258e/x",
        "a%ef%bc%8fb",
        "%e2%80%a5/x",
        "a%ff",
    ])
    .await;
    each("platform_beta", &["\u{ff0e}\u{ff0e}/x", "\u{e9}"], |native, answer| {
        assert_eq!(answer.status, 400, "{native}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_or_query_that_is_too_long_is_refused() {
    let segment = format!("x/{}", "a".repeat(2_047));
    let segments = vec!["a"; 33].join("/");

    are_refused(&[&segment, &segments]).await;
    let most = [format!("x/{}", "a".repeat(2_046)), vec!["a"; 32].join("/")];
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for native in &most {
                assert_eq!(get(&stage, &stage.path(native)).await.status, 200);
            }
            let long = get(&stage, &stage.path(&format!("x?{}", "a".repeat(9_000)))).await;

            assert_eq!((long.status, stage.platform.calls().len()), (414, 2));
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_with_nul_or_broken_escapes_is_refused() {
    are_refused(&["x?a=%00", "x?%00", "x?a=%", "x?a=%g1"]).await;
}

/// Names chosen by creators may appear in paths and queries, and arrive unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_percent_signs_ellipses_and_line_breaks_are_forwarded() {
    on_stage(
        "platform_beta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for native in [
                "folders/50%25%20off",
                "folders/100%25/media",
                "folders/20%25Fans",
                "folders/Summer%E2%80%A6",
                "folders/%e2%80%a6",
                "search?q=one%0Atwo%0D%0Athree&all=50%25",
            ] {
                let answer = get(&stage, &stage.path(native)).await;

                assert_eq!(answer.status, 200, "{native}");
                assert_eq!(stage.platform.last_call().target(), format!("/api/v1/{native}"));
            }
            stage
        },
    )
    .await;
}

/// An encoded slash is forwarded only where the catalogue declares the parameter as a name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slash_in_a_name_is_forwarded_where_the_route_takes_a_name() {
    on_stage(
        "platform_delta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for native in [
                "creators/7/vault/folders/A%2FB",
                "creators/7/vault/folders/A%2fB%2F50%25%20off/media",
            ] {
                let answer = get(&stage, &stage.path(native)).await;

                assert_eq!(answer.status, 200, "{native}");
                assert_eq!(stage.platform.last_call().target(), format!("/{native}"));
            }
            for native in [
                "creators/7%2F8/vault/folders/A",
                "creators/7%2F8/vault/folders/A%2FB",
                "creators/7/vault/folders/..%2FB",
                "creators/7/vault/folders/A%2F..%2FB",
                "creators/7/vault/folders/A%2F",
                "creators/7/vault/folders/%2F%2FA",
                "creators/7/vault/folders/A%252FB",
                "creators/7/vault/folders/A%5CB",
                "creators/7/vault%2Ffolders",
                "unheard/of%2Fpath",
            ] {
                let answer = get(&stage, &stage.path(native)).await;

                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (400, "invalid_path"),
                    "{native}"
                );
            }
            assert_eq!(stage.platform.calls().len(), 2);
            assert_eq!(stage.balance().await, CREDITS - 2);
            stage
        },
    )
    .await;
}

/// The same with the simulated platform: anything that was created can be addressed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_can_be_addressed_whatever_its_name() {
    test_service::app::with_app(async |app| {
        let (_, client, account) = app.ready("platform_delta", 100).await;
        let native = |path: &str| format!("/v1/{account}/native/{path}");
        let posts = client.get(&native("posts")).await.json();
        let creator = posts["data"][0]["creatorUuid"].as_str().unwrap();
        let folders = format!("creators/{creator}/vault/folders");
        for (name, encoded) in
            [("50% off", "50%25%20off"), ("A/B", "A%2FB"), ("Summer\u{2026}", "Summer%E2%80%A6")]
        {
            let made = client.post(&native(&folders), &serde_json::json!({"name": name})).await;
            assert_eq!(made.status, 201, "{}", made.text());

            let found = client.get(&native(&format!("{folders}/{encoded}"))).await;
            assert_eq!(found.status, 200, "{}", found.text());
            assert_eq!(found.json()["name"], name);
        }
        app
    })
    .await;
}

/// The response is the same for another customer's account, an unknown one, and an impossible one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_unknown_and_impossible_accounts_are_the_same_404() {
    on_stage("platform_alpha", "", |_, _| Script::json(200, "{}"), async |stage| {
        let other = stage.app.customer(10).await;
        let (own_key, foreign_key) = (&stage.customer.key, &other.key);
        let long = "a".repeat(5_000);
        let mut answers = Vec::new();
        for (key, account) in [
            (foreign_key, "ada"),
            (own_key, "nobody"),
            (own_key, ".."),
            (own_key, "%2e%2e"),
            (own_key, "a%20b"),
            (own_key, &long),
        ] {
            let mut caller = stage.raw().await;
            let head = format!(
                "GET /v1/{account}/native/users/me HTTP/1.1\r\nHost: g\r\nX-API-Key: {key}\r\nX-Request-Id: same\r\n\r\n"
            );
            caller.send(head).await;
            answers.push(caller.answer().await.unwrap());
        }

        for answer in &answers {
            assert_eq!((answer.status, answer.code().as_str()), (404, "account_not_found"));
            assert_eq!(answer.body, answers[0].body);
        }
        assert!(stage.platform.calls().is_empty());
        stage
    })
    .await;
}

/// Nothing is redirected or normalized: a path that does not match the pattern exactly is not
/// found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_almost_matches_is_not_found() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for target in [
                "/v1//ada/native/users/me",
                "//v1/ada/native/users/me",
                "/V1/ada/native/users/me",
                "/v1/ada/native",
                "/v1/ada/Native/users/me",
                "/v1/ada/nativeusers/me",
                "/v2/ada/native/users/me",
                "/v1/ada/x/native/users/me",
                "/v1/./ada/native/users/me",
            ] {
                let answer = get(&stage, target).await;

                assert_eq!(answer.status, 404, "{target}");
                assert!(!answer.head.contains("location:"), "{target}: {}", answer.head);
            }
            let empty = get(&stage, "/v1/ada/native/").await;
            assert!(matches!(empty.status, 400 | 404), "{}", empty.head);
            assert!(stage.platform.calls().is_empty());
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}

/// A parameter that we would insert must not be sent twice, because platforms differ in which one
/// they read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeating_the_creators_id_in_the_query_is_refused_and_free() {
    let natives = ["reels?user_id=7&user_id=8", "reels?user_id=7&user%5fid=7"];
    each("platform_gamma", &natives, |native, answer| {
        assert_eq!((answer.status, answer.code().as_str()), (422, "invalid_request"), "{native}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_parameters_with_defaults_may_be_repeated() {
    on_stage(
        "platform_gamma",
        "",
        |_, _| Script::json(200, "[]"),
        async |stage| {
            for (native, arrives) in [
                ("chats?limit=1&limit=999", "/user/66f0a1/chatsByList?limit=1&limit=999"),
                ("lists?limit=&limit", "/user/66f0a1/user-lists?limit=&limit"),
                (
                    "moments?categories=a&categories=b",
                    "/user/66f0a1/file-stack?categories=a&categories=b",
                ),
            ] {
                let answer = get(&stage, &stage.path(native)).await;

                assert_eq!(answer.status, 200, "{native}");
                assert_eq!(stage.platform.last_call().target(), arrives);
            }
            stage
        },
    )
    .await;
}

/// A caller cannot set the creator's id in a shorthand's path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_id_never_replaces_the_creators() {
    on_stage(
        "platform_gamma",
        "",
        |_, _| Script::json(200, "[]"),
        async |stage| {
            for query in ["id=other", "account_id=other", "user_id=other", "%7Bid%7D=other"] {
                let answer = get(&stage, &stage.path(&format!("vault?{query}"))).await;

                assert_eq!(answer.status, 200);
                assert_eq!(
                    stage.platform.last_call().target(),
                    format!("/user/66f0a1/vault?{query}")
                );
            }
            stage
        },
    )
    .await;
}

/// A shorthand belongs to its platform; elsewhere the same word is an ordinary path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorthand_of_gamma_is_an_ordinary_path_elsewhere() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let answer = get(&stage, &stage.path("me")).await;

            assert_eq!(stage.platform.last_call().target(), "/me");
            assert!(answer.head.contains("x-route: unlisted\r\n"), "{}", answer.head);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_on_a_native_path_is_405_with_the_allowed_methods() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let reply = stage.client.send("HEAD", &stage.path("users/me"), None).await;
            let own = stage.client.send("HEAD", "/v1/whoami", None).await;

            assert_eq!(
                (reply.status, reply.header("allow")),
                (405, "GET, POST, PUT, PATCH, DELETE")
            );
            assert_eq!((own.status, own.body.len()), (200, 0));
            stage.is_unspent().await;
            stage
        },
    )
    .await;
}

/// Scope and cost depend only on the real method, whatever a header or parameter says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_header_or_parameter_overrides_the_method() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let made = stage
                .client
                .post("/v1/auth/keys", &serde_json::json!({"name": "reader", "scope": "read_only"}))
                .await;
            assert_eq!(made.status, 201, "{}", made.text());
            let reader = stage.app.with_key(made.json()["api_key"].as_str().unwrap());
            let overriding = reader
                .with("x-http-method-override", "DELETE")
                .with("x-http-method", "DELETE")
                .with("x-method-override", "DELETE");

            let read = overriding.get(&stage.path("lists/1?_method=DELETE")).await;
            let write =
                reader.with("x-http-method-override", "GET").delete(&stage.path("lists/1")).await;

            let seen = stage.platform.last_call();
            assert_eq!((read.status, read.receipt().0), (200, 1));
            assert_eq!((write.status, write.code().as_str()), (403, "read_only_key"));
            assert_eq!((stage.platform.calls().len(), seen.method()), (1, "GET"));
            assert!(!seen.head.contains("override"), "{}", seen.head);
            stage
        },
    )
    .await;
}
