//! Platforms as an operator configures them: signed by a process, asked with parameters, wrapped in
//! envelopes of their own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use test_service::platform::{Script, answer};
use test_service::stage::{CANARY, CREDITS, on_stage};

/// A process that signs as long as it is well.
fn signer(is_well: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_well = Arc::clone(is_well);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let is_well = Arc::clone(&is_well);
            std::thread::spawn(move || sign_all(&stream, &is_well));
        }
    });
    port
}

fn sign_all(stream: &TcpStream, is_well: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let status = if is_well.load(Ordering::SeqCst) { "200 OK" } else { "500 Broken" };
        let body = r#"{"headers":{"X-Sign":"s-1"}}"#;
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        writer.write_all(format!("{head}{body}").as_bytes()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_not_signed_is_not_sent_and_costs_nothing() {
    let is_well = Arc::new(AtomicBool::new(true));
    let overrides = format!(
        "[platforms.platform_alpha.signing]\nscheme = \"external\"\n\
         url = \"http://127.0.0.1:{}/\"\ntimeout_ms = 20000\nfields = [\"user_id\"]",
        signer(&is_well)
    );
    on_stage(
        "platform_alpha",
        &overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            is_well.store(true, Ordering::SeqCst);
            assert_eq!(stage.get("users/me").await.status, 200);
            assert_eq!(stage.platform.last_call().header("x-sign"), Some("s-1"));

            is_well.store(false, Ordering::SeqCst);
            // More often than opens a breaker, which is for platforms.
            for _ in 0..9 {
                let reply = stage.post("posts", &json!({"text": "x"})).await;
                assert_eq!(reply.status, 502, "{}", reply.text());
                assert_eq!(reply.json()["code"], "platform_unreachable");
                assert_eq!(reply.json()["retryable"], true);
                assert_eq!(reply.header("x-credits-cost"), "0");
            }
            assert_eq!(stage.ending_of_last().await, ("connect_failed".to_owned(), 0));
            is_well.store(true, Ordering::SeqCst);
            assert_eq!(stage.get("users/me").await.status, 200);

            assert_eq!(stage.platform.calls().len(), 2, "nothing unsigned was sent");
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_in_the_query_reaches_the_platform_and_nobody_else() {
    let overrides = "[platforms.platform_alpha]\nresponse_headers = [\"Link\"]\n\
                     query = [{ name = \"key\", value = \"{session_token}\" }]";
    on_stage(
        "platform_alpha",
        overrides,
        |seen, _| {
            let link = format!("Link: <{}>; rel=\"next\"\r\n", seen.target());
            Script::Answer(answer(200, &link, "{}"))
        },
        async |stage| {
            let reply = stage.get("users/me?a=1").await;
            assert_eq!(stage.platform.last_call().target(), format!("/users/me?a=1&key={CANARY}"));
            assert_eq!(reply.header("link"), "</v1/ada/native/users/me?a=1>; rel=\"next\"");

            let refused = stage.get("users/me?key=mine").await;
            assert_eq!(refused.status, 422, "{}", refused.text());
            assert_eq!(refused.json()["detail"][0]["loc"], json!(["query", "key"]));
            assert_eq!(stage.platform.calls().len(), 1);

            let log = stage.log().await;
            assert_eq!(log.len(), 1);
            assert!(!format!("{log:?}").contains(CANARY), "{log:?}");
            let whoami = stage.client.get("/v1/billing").await.json();
            assert_eq!(whoami["balance"], CREDITS - 1);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_envelope_that_is_described_is_taken_off_or_kept() {
    let overrides = "[platforms.platform_alpha]\n\
                     envelope = { data = \"/result\", error = \"/error\", success = \"/ok\" }\n\
                     verify_route = { path = \"users/me\", id_pointer = \"\", equals_field = \"\", accepted_statuses = [200] }";
    let fine = r#"{"ok":true,"result":{ "b": 1.50, "a":[] },"error":null}"#;
    let broken = r#"{"ok":true,"result":{},"error":{"code":4}}"#;
    on_stage(
        "platform_alpha",
        overrides,
        move |seen, _| {
            let body = if seen.target().contains("broken") { broken } else { fine };
            Script::json(200, body)
        },
        async |stage| {
            let reply = stage.get("users/me").await;
            assert_eq!(reply.text(), r#"200 { "b": 1.50, "a":[] }"#);

            let kept = stage.get("users/me?broken=1").await;
            assert_eq!(kept.text(), format!("200 {broken}"));
            assert_eq!(kept.header("x-envelope"), "kept");
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_proxy_that_is_no_longer_permitted_asks_for_other_credentials() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |mut stage| {
            let mut auth = test_service::stage::auth("platform_alpha");
            auth["extra"] = json!({"proxy": "http://10.1.2.3:80"});
            assert_eq!(stage.import("platform_alpha", auth).await.status, 200);
            stage
                .restart_with(|config| {
                    let alpha =
                        config.platforms.get_mut(domain::platform::Platform::ALPHA).unwrap();
                    alpha.proxy = secrecy::SecretString::from("{extra.proxy}");
                })
                .await;

            let refused = stage.get("users/me").await;

            assert_eq!((refused.status, refused.code().as_str()), (409, "credential_error"));
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("private network") && detail.contains("again"), "{detail}");
            assert!(!detail.contains("10.1.2.3"), "{detail}");
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}
