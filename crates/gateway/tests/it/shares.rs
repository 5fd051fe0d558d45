//! Shared budgets and each caller's share: one caller that fills its share does not keep others
//! out.
#![expect(
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use serde_json::{Value, json};
use test_service::client::Client;
use test_service::form::Form;
use test_service::platform::{Script, Seen, answer};
use test_service::raw::RawConnection;
use test_service::stage::{Stage, auth, on_stage};

const BODY_BYTES: usize = 60_000;
const GAMMA: &str = "platform_gamma";

fn decent(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

/// A JSON body of this many bytes.
fn body() -> Value {
    let filled = "x".repeat(BODY_BYTES - json!({"text": ""}).to_string().len());
    json!({"text": filled})
}

/// Begins requests whose bodies never end, with most of their bytes sent.
async fn begin_dripping(stage: &Stage, count: usize, lines: &str) -> Vec<RawConnection> {
    let mut dripping = Vec::new();
    for _ in 0..count {
        let mut connection = stage.raw().await;
        let framing =
            format!("Content-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        connection.send(format!("{lines}{framing}")).await;
        connection.send(vec![b' '; BODY_BYTES - 10_000]).await;
        dripping.push(connection);
    }
    dripping
}

/// Another customer with its own account, and a client with its key.
async fn other(stage: &Stage, platform: &str) -> Client {
    let customer = stage.app.customer(100).await;
    let client = stage.app.with_key(&customer.key);
    let import = json!({"creator_id": "ada", "platform": platform, "auth": auth(platform)});
    let reply = client.post("/v1/connect/import", &import).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    client
}

/// Sends more whole bodies beside the dripping ones. Each is accepted, refused with 429, or loses
/// its connection, because refused bodies are not read.
async fn press(client: &Client, path: &str) {
    for _ in 0..20 {
        let json = client.with("content-type", "application/json");
        let sent = serde_json::to_vec(&body()).unwrap();
        if let Ok(reply) = json.try_send("POST", path, Some(sent)).await {
            assert!(reply.status < 500, "{}", reply.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_that_fills_its_share_for_bodies_keeps_no_one_else_from_writing() {
    let limits = "[http.limits]\nnative_body_bytes_max = 65536\njson_body_bytes_max = 65536\n\
        native_bodies_bytes_max = 220000\nnative_bodies_per_customer_bytes_max = 136000";
    on_stage("platform_alpha", limits, decent, async |stage| {
        stage.grant(10_000).await;
        let other = other(&stage, "platform_alpha").await;
        let lines = format!("POST {} HTTP/1.1\r\n{}", stage.path("lists"), stage.host_and_key());

        let dripping = begin_dripping(&stage, 6, &lines).await;
        press(&stage.client, &stage.path("lists")).await;
        let write = other.post(&stage.path("lists"), &body()).await;
        let change = other.post("/v1/auth/keys", &json!({"name": "n", "scope": "full"})).await;

        assert_eq!(write.status, 200, "{}", write.text());
        assert_eq!(change.status, 201, "{}", change.text());
        drop(dripping);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_that_hold_bodies_keep_no_customer_from_logging_in_or_writing() {
    let limits = "[http]\ntrusted_proxies = ['127.0.0.1']\n[http.limits]\n\
        native_bodies_bytes_max = 4200000\nnative_bodies_per_customer_bytes_max = 4200000\n\
        open_bodies_bytes_max = 1200000\nopen_bodies_per_network_bytes_max = 530000";
    on_stage("platform_alpha", limits, decent, async |stage| {
        stage.app.member("ada@example.com").await;
        let lines =
            "POST /v1/auth/login HTTP/1.1\r\nHost: gateway\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n";
        let login =
            json!({"email": "ada@example.com", "password": test_service::member::PASSWORD});
        let from = |address: &str| {
            let encrypted = stage.app.anonymous().with("x-forwarded-proto", "https");
            encrypted.with("x-forwarded-for", address)
        };

        let dripping = begin_dripping(&stage, 80, lines).await;
        press(&from("203.0.113.7"), "/v1/auth/login").await;
        let elsewhere = from("198.51.100.1").post("/v1/auth/login", &login).await;
        let write = stage.post("lists", &body()).await;

        assert_eq!(elsewhere.status, 200, "{}", elsewhere.text());
        assert_eq!(write.status, 200, "{}", write.text());
        drop(dripping);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_customers_uploads_leave_disk_space_for_others() {
    let limits = "[http.limits]\nupload_bytes_max = 600000\nuploads_bytes_max = 2000000\n\
        uploads_per_customer_bytes_max = 700000";
    let created = |_: &Seen, _: usize| {
        Script::Answer(answer(201, "content-type: application/json\r\n", b"{\"mediaId\":1}"))
    };
    on_stage(GAMMA, limits, created, async |stage| {
        let other = other(&stage, GAMMA).await;
        let form = Form::new().file("a.jpg", "image/jpeg", &vec![7; 600_000]);
        let bytes = form.body();
        let mut waiting = stage.raw().await;
        let path = "/v1/ada/media/upload";
        waiting
            .send(format!(
                "POST {path} HTTP/1.1\r\n{}Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
                stage.host_and_key(),
                form.content_type(),
                bytes.len()
            ))
            .await;
        waiting.send(&bytes[..590_000]).await;
        while stage.app.spooled().iter().map(|(_, bytes)| bytes).sum::<u64>() < 500_000 {
            tokio::task::yield_now().await;
        }

        let send = async |client: &Client| {
            let client = client.with("content-type", &form.content_type());
            client.send("POST", path, Some(bytes.clone())).await
        };
        let own = send(&stage.client).await;
        let of_other = send(&other).await;

        assert_eq!(own.failure(), (429, "too_many_in_flight".to_owned()));
        assert_eq!(of_other.status, 201, "{}", of_other.text());
        waiting.send(&bytes[590_000..]).await;
        assert_eq!(waiting.answer().await.unwrap().status, 201);
        stage
    })
    .await;
}
