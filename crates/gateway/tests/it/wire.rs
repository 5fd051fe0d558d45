//! What each platform receives, and what a caller receives of its responses, byte for byte.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use test_service::platform::{RawPlatform, Script, answer, json_answer};
use test_service::stage::{CANARY, CREDITS, Stage, on_stage, on_stage_of};

/// All byte values repeatedly, so that text handling would be noticed.
fn binary(length: usize) -> Vec<u8> {
    (0..=255).cycle().take(length).collect()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Runs the test with a platform that responds `{}`.
async fn on_wire(platform: &str, test: impl AsyncFn(Stage) -> Stage) {
    on_stage(platform, "", |_, _| Script::json(200, "{}"), test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alpha_gets_the_session_the_user_and_the_connected_user_agent() {
    on_wire("platform_alpha", async |stage| {
        stage.get("users/me?x=1").await;

        let seen = stage.platform.last_call();
        assert_eq!((seen.method(), seen.target()), ("GET", "/users/me?x=1"));
        assert_eq!(seen.header("authorization"), Some(&*format!("Session {CANARY}")));
        assert_eq!(seen.header("x-user-id"), Some("31"));
        assert_eq!(seen.header("user-agent"), Some("Connected/1.0"));
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        let all =
            ["accept-encoding", "authorization", "host", "user-agent", "x-call-id", "x-user-id"];
        assert_eq!(seen.header_names(), all);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_in_extra_is_sent_in_the_operators_header() {
    let overrides = r#"[platforms.platform_alpha]
        headers = [
            { name = "Authorization", value = "Session {session_token}" },
            { name = "X-User-Id", value = "{user_id}" },
            { name = "X-Device", value = "id={extra.bc-Id}; v=1" },
        ]"#;
    on_stage(
        "platform_alpha",
        overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            stage.get("users/me").await;
            let without = stage.platform.last_call();
            let auth = json!({
                "user_id": "31", "session_token": "s", "extra": {"bc-Id": "b1", "unused": "u"},
            });
            assert_eq!(stage.import("platform_alpha", auth).await.status, 200);
            stage.get("users/me").await;

            let seen = stage.platform.last_call();
            assert_eq!(
                without.header("x-device"),
                None,
                "an account without it must not send the header"
            );
            assert_eq!(seen.header("x-device"), Some("id=b1; v=1"));
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beta_gets_its_prefix_and_a_signature_of_the_request() {
    let overrides = "[platforms.platform_beta.signing]\nkey = \"k3y\"\nclient_id = \"c1\"\nclient_version = \"9.9\"";
    on_stage(
        "platform_beta",
        overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            stage.post("subscriptions/tiers?a=%7E&b", &json!({"name": "x"})).await;
            stage.get("account/me").await;

            let calls = stage.platform.calls();
            let [write, read] = &calls[..] else { panic!("{calls:?}") };
            assert_eq!(write.target(), "/api/v1/subscriptions/tiers?a=%7E&b");
            assert_eq!(read.target(), "/api/v1/account/me");
            assert_ne!(write.header("x-client-nonce"), read.header("x-client-nonce"));
            for seen in [write, read] {
                assert_eq!(seen.header("authorization"), Some(CANARY));
                assert_eq!(seen.header("x-client-id"), Some("c1"));
                assert_eq!(seen.header("x-client-version"), Some("9.9"));
                assert_eq!(seen.header("user-agent"), Some("creator-gateway"));
                let timestamp = seen.header("x-client-timestamp").unwrap();
                assert_eq!(timestamp, (stage.app.clock.now().unix_micros() / 1_000).to_string());
                let nonce = seen.header("x-client-nonce").unwrap();
                let signed = format!("{timestamp}\n{nonce}\n{}\n{}", seen.method(), seen.target());
                let mut mac = Hmac::<Sha256>::new_from_slice(b"k3y").unwrap();
                mac.update(signed.as_bytes());
                let expected = hex::encode(mac.finalize().into_bytes());
                assert_eq!(seen.header("x-client-signature"), Some(&*expected));
            }
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gamma_gets_the_token_and_the_resource() {
    on_wire("platform_gamma", async |stage| {
        stage.get("activity").await;

        let seen = stage.platform.last_call();
        assert_eq!(seen.target(), "/activity");
        assert_eq!(seen.header("authorization"), Some(&*format!("Bearer {CANARY}")));
        assert_eq!(seen.header("x-resource"), Some("res-1"));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delta_gets_the_token_and_the_version_header() {
    on_wire("platform_delta", async |stage| {
        stage.get("notifications?page=1").await;

        let seen = stage.platform.last_call();
        assert_eq!(seen.target(), "/notifications?page=1");
        assert_eq!(seen.header("authorization"), Some(&*format!("Bearer {CANARY}")));
        assert_eq!(seen.header("x-api-version"), Some("2025-06-26"));
        stage
    })
    .await;
}

/// Valid paths and queries are not decoded, normalized, reordered or cleaned up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn path_and_query_arrive_byte_for_byte() {
    let targets = [
        "a%7Eb",
        "a~b",
        "a%2Bb+c",
        "chats/7/messages/",
        "x/%C3%A9t%c3%a9",
        "a.b/..c/d..",
        "!$&'()*+,=:@-",
        "users/me?limit=1&limit=2&&a=b&=&x",
        "users/me?q=%2e%2e%2f&r=a/../b&s=http://x/?y",
        "users/me?a[]=1&b={x}|^`\\",
    ];
    on_wire("platform_alpha", async |stage| {
        for target in targets {
            let mut caller = stage.raw().await;
            let head =
                format!("GET {} HTTP/1.1\r\n{}\r\n", stage.path(target), stage.host_and_key());
            caller.send(head).await;
            let reply = caller.answer().await.unwrap();

            assert_eq!(reply.status, 200, "{target}: {}", reply.head);
            assert_eq!(stage.platform.last_call().target(), format!("/{target}"));
        }
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_arrive_byte_for_byte_with_a_length_up_to_one_mebibyte() {
    const LARGEST: usize = 1_048_576;
    let echo = |request: &test_service::platform::Seen, _| {
        Script::Answer(answer(200, "content-type: application/octet-stream\r\n", &request.body))
    };
    on_stage("platform_alpha", "", echo, async |stage| {
        for length in [1, 255, 65_536, 65_537, LARGEST] {
            let body = binary(length);
            let client = stage.client.with("content-type", "application/x-thing; v=1");

            let reply = client.send("PUT", &stage.path("x"), Some(body.clone())).await;

            let seen = stage.platform.last_call();
            assert_eq!(seen.header("content-length"), Some(&*length.to_string()));
            assert_eq!(seen.header("transfer-encoding"), None);
            assert_eq!(seen.header("content-type"), Some("application/x-thing; v=1"));
            assert!(seen.body == body, "{length} bytes must arrive unchanged");
            assert!(reply.body == body, "{length} bytes must come back unchanged");
            assert_eq!(reply.header("content-type"), "application/octet-stream");
        }
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunked_body_is_sent_with_a_length() {
    on_wire("platform_alpha", async |stage| {
        let mut caller = stage.raw().await;
        let head = format!(
            "POST {} HTTP/1.1\r\n{}Transfer-Encoding: chunked\r\n\r\n",
            stage.path("lists"),
            stage.host_and_key()
        );
        caller.send(head).await;
        caller
            .send("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Api-Key: evil\r\nContent-Length: 5\r\n\r\n")
            .await;
        let reply = caller.answer().await.unwrap();

        let seen = stage.platform.last_call();
        assert_eq!((reply.status, &seen.body[..]), (200, &b"abcde"[..]));
        assert_eq!(seen.header("content-length"), Some("5"));
        assert!(!seen.head.contains("evil"), "a trailer must not become a header: {}", seen.head);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_a_body_has_a_content_length_of_zero() {
    on_wire("platform_alpha", async |stage| {
        for (method, length) in
            [("POST", Some("0")), ("PUT", Some("0")), ("PATCH", Some("0")), ("DELETE", None)]
        {
            stage.client.send(method, &stage.path("x"), None).await;

            let seen = stage.platform.last_call();
            assert_eq!((seen.method(), seen.header("content-length")), (method, length));
            assert_eq!(seen.header("transfer-encoding"), None);
        }
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_above_one_mebibyte_is_refused_and_free() {
    on_wire("platform_alpha", async |stage| {
        let whole = stage.client.try_send("POST", &stage.path("x"), Some(vec![0; 1_048_577])).await;
        // The size of a chunked body is known only after it has arrived.
        let mut caller = stage.raw().await;
        let head = format!(
            "POST {} HTTP/1.1\r\n{}Transfer-Encoding: chunked\r\n\r\n",
            stage.path("x"),
            stage.host_and_key()
        );
        caller.send(head).await;
        caller.send(format!("{:x}\r\n", 1_048_577)).await;
        caller.send(vec![b'x'; 1_048_577]).await;
        let chunked = caller.answer().await.unwrap();

        // The client may lose its connection while it is still sending.
        if let Ok(reply) = whole {
            assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
        }
        assert_eq!((chunked.status, chunked.code().as_str()), (413, "body_too_large"));
        assert!(stage.platform.calls().is_empty());
        assert_eq!(stage.balance().await, CREDITS);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_with_a_body_is_refused_and_free() {
    on_wire("platform_alpha", async |stage| {
        let reply = stage.client.send("GET", &stage.path("users/me"), Some(b"{}".to_vec())).await;

        assert_eq!((reply.status, reply.code().as_str()), (400, "unexpected_body"));
        assert!(stage.platform.calls().is_empty());
        assert_eq!(stage.balance().await, CREDITS);
        stage
    })
    .await;
}

/// For each response of `platform_beta`: what the caller gets, as bytes and as `X-Envelope`.
async fn unwraps(answers: &[(Vec<u8>, Vec<u8>, &str)]) {
    let scripts: Vec<_> = answers.iter().map(|(sent, ..)| sent.clone()).collect();
    let script = move |_: &_, number: usize| Script::Answer(scripts[number].clone());
    on_stage("platform_beta", "", script, async |stage| {
        for (sent, got, envelope) in answers {
            let reply = stage.get("account/settings").await;

            let shown = String::from_utf8_lossy(&sent[..sent.len().min(300)]).into_owned();
            assert_eq!(reply.status, 200, "{shown}");
            assert!(reply.body == got, "{shown}: {}", reply.body.len());
            assert_eq!(reply.header("x-envelope"), *envelope, "{shown}");
            assert_eq!(reply.receipt().0, 1, "{shown}");
        }
        stage
    })
    .await;
}

/// A row of `unwraps` for a JSON response.
fn row(sent: &str, got: &str, envelope: &'static str) -> (Vec<u8>, Vec<u8>, &'static str) {
    (json_answer(200, sent), got.as_bytes().to_vec(), envelope)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_envelope_is_removed_and_its_contents_kept_exactly() {
    unwraps(&[
        row(r#"{"success":true,"response":{"a":1}}"#, r#"{"a":1}"#, ""),
        row(r#"{"response": [ 1.0e3,  "\u00e9" ] ,"success":true}"#, r#"[ 1.0e3,  "\u00e9" ]"#, ""),
        row(r#"{"success":true,"response":null,"more":[{}]}"#, "null", ""),
        row(r#"{"success":true,"response":{"a":1,"a":2}}"#, r#"{"a":1,"a":2}"#, ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anything_but_a_success_envelope_is_passed_on_whole() {
    let deep = "[".repeat(10_000);
    let kept = [
        r#"{"success":false,"error":{"code":7}}"#,
        r#"{"success":false,"response":{"a":1}}"#,
        r#"{"success":"true","response":1}"#,
        r#"{"response":1}"#,
        r#"{"success":true}"#,
        r#"{"success":true,"success":true,"response":1}"#,
        r#"{"success":true,"response":1,"response":2}"#,
        r#"{"success":true,"response":{"a":1}"#,
        r#"{"success":true,"response":1} trailing"#,
        "not json",
        "[1,2]",
        "",
        &deep,
    ];
    unwraps(&kept.map(|sent| row(sent, sent, "kept"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_is_not_json_is_passed_on_whole_and_marked() {
    let body = r#"{"success":true,"response":1}"#;
    let text = answer(200, "content-type: text/plain\r\n", body);

    unwraps(&[(text, body.as_bytes().to_vec(), "kept")]).await;
}

/// Short and long responses (buffered for the envelope), compressed or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envelopes_of_long_and_compressed_responses_are_removed_too() {
    let inner = format!("\"{}\"", "y".repeat(300_000));
    let wrapped = format!(r#"{{"success":true,"response":{inner}}}"#);
    let coded = "content-type: application/json; charset=utf-8\r\ncontent-encoding: gzip\r\n";
    let small = gzip(br#"{"success":true,"response":[1]}"#);
    let refusal = gzip(br#"{"success":false}"#);

    unwraps(&[
        row(&wrapped, &inner, ""),
        (answer(200, coded, gzip(wrapped.as_bytes())), inner.clone().into_bytes(), ""),
        (answer(200, coded, small), b"[1]".to_vec(), ""),
        (answer(200, coded, refusal.clone()), refusal, "kept"),
    ])
    .await;
}

/// A response larger than the buffer, even if only when decoded, is passed on whole and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_too_large_for_the_buffer_is_passed_on_whole() {
    let large = format!(r#"{{"success":true,"response":"{}"}}"#, "z".repeat(8_388_608));
    let bomb = gzip(&vec![b' '; 9_000_000]);
    let coded = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );

    unwraps(&[
        row(&large, &large, "kept"),
        (chunked.into_bytes(), large.clone().into_bytes(), "kept"),
        (answer(200, coded, &bomb), bomb.clone(), "kept"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_compressed_envelope_is_502_and_free() {
    let mut cut = gzip(br#"{"success":true,"response":[1,2,3,4,5,6,7,8,9]}"#);
    cut.truncate(cut.len() - 12);
    let coded = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let bytes = answer(200, coded, cut);
    on_stage(
        "platform_beta",
        "",
        move |_, _| Script::Answer(bytes.clone()),
        async |stage| {
            let reply = stage.get("account/settings").await;

            assert_eq!((reply.status, reply.code().as_str()), (502, "bad_platform_answer"));
            assert_eq!(reply.receipt(), (0, CREDITS));
            assert_eq!(stage.ending().await, ("bad_response".to_owned(), 0));
            stage
        },
    )
    .await;
}

/// Without an envelope to remove, nothing is decoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_response_is_passed_on_unchanged() {
    let coded = gzip(br#"{"success":true,"response":1}"#);
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let make = async || {
        RawPlatform::playing({
            let bytes = answer(200, headers, &coded);
            move |_, _| Script::Answer(bytes.clone())
        })
        .await
    };
    on_stage_of("platform_alpha", "", make, async |stage| {
        let reply = stage.get("users/me").await;

        assert_eq!(reply.body, Bytes::from(coded.clone()));
        assert_eq!(reply.header("content-encoding"), "gzip");
        assert_eq!(reply.header("x-envelope"), "");
        stage
    })
    .await;
}
