//! Features shared by all platforms: the log, the journal, the control interface.

use http::{Method, StatusCode};
use serde_json::json;

use crate::kit::{Kit, NOW_MS, listening, none};

const DEMO: &str = "demo_alpha";

#[tokio::test]
async fn the_log_has_every_request_with_its_call_sender_and_status() {
    let kit = Kit::new();
    let call = [("x-call-id", "call-1".to_owned())];
    kit.raw(Method::GET, "/platform_alpha/users/me?a=1", &call, none()).await;
    kit.clock.advance_ms(5);
    kit.post(DEMO, "lists", json!({"name": "x"})).await;

    let log = kit.control("/requests?platform=platform_alpha").await;

    let expected = json!([
        {"seq": 1, "at_ms": NOW_MS, "method": "GET", "path": "/users/me", "query": "a=1",
         "call_id": "call-1", "creator": null, "write": false, "status": 401},
        {"seq": 2, "at_ms": NOW_MS + 5, "method": "POST", "path": "/lists", "query": null,
         "call_id": null, "creator": "demo_alpha", "write": true, "status": 201},
    ]);
    assert_eq!(log["requests"], expected);
    let later = kit.control("/requests?platform=platform_alpha&after=1&limit=1").await;
    assert_eq!(later["requests"][0]["seq"], 2);
    let count = kit.control("/requests/count?platform=platform_alpha&call_id=call-1").await;
    assert_eq!(count, json!({"count": 1, "writes": 0}));
    assert_eq!(kit.control("/requests/count").await, json!({"count": 2, "writes": 1}));
}

#[tokio::test]
async fn the_log_names_the_sender_of_a_request_without_the_scope() {
    let kit = Kit::new();
    let reply = kit.send("ruby_delta", Method::GET, "notifications", none()).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);

    let log = kit.control("/requests?platform=platform_delta").await;

    assert_eq!(log["requests"][0]["creator"], "ruby_delta");
    assert_eq!(log["requests"][0]["status"], 403);
}

#[tokio::test]
async fn the_log_and_all_writes_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let fan = kit.get(DEMO, "subscriptions/subscribers").await["list"][0]["id"].clone();
    let list = kit.post(DEMO, "lists", json!({"name": "Kept"})).await;
    kit.post(DEMO, "lists/users", json!({"id": list["id"], "users": [fan]})).await;
    let sent = kit.post(DEMO, &format!("chats/{fan}/messages"), json!({"text": "Hi"})).await;
    let refused = kit.send(DEMO, Method::POST, "lists", none()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let chats = kit.get(DEMO, "chats").await;
    drop(kit);

    let restarted = Kit::on(folder.path());
    restarted.clock.advance_ms(86_400_000);

    let lists = restarted.get(DEMO, "lists").await;
    assert_eq!(
        (&lists["list"][0]["id"], &lists["list"][0]["usersCount"]),
        (&list["id"], &json!(1))
    );
    assert_eq!(restarted.get(DEMO, &format!("chats/{fan}/messages")).await["list"][0], sent);
    assert_eq!(restarted.get(DEMO, "chats").await, chats);
    let next = restarted.post(DEMO, "lists", json!({"name": "Next"})).await;
    assert!(next["id"].as_u64() > list["id"].as_u64());
    let log = restarted.control("/requests?platform=platform_alpha").await;
    let seqs: Vec<u64> =
        log["requests"].as_array().unwrap().iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_request_is_logged_before_its_response() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    kit.get(DEMO, "users/me").await;
    let file =
        std::fs::read_to_string(folder.path().join("requests-platform_alpha.jsonl")).unwrap();
    assert_eq!(file.lines().count(), 2);
    assert!(file.starts_with(r#"{"seq":1,"#));
}

#[tokio::test]
async fn a_reset_forgets_everything() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let before = kit.get(DEMO, "lists").await;
    kit.post(DEMO, "lists", json!({"name": "x"})).await;

    kit.raw(Method::POST, "/control/reset", &[], none()).await;

    assert_eq!(kit.control("/requests/count").await["count"], 0);
    assert_eq!(kit.get(DEMO, "lists").await, before);
    drop(kit);
    assert_eq!(Kit::on(folder.path()).get(DEMO, "lists").await, before);
}

#[tokio::test]
async fn the_control_interface_lists_accounts_and_names_invalid_fields() {
    let kit = Kit::new();
    assert_eq!(kit.control("/health").await, json!({"ok": true}));
    let accounts = kit.control("/accounts").await;
    let demo = accounts["accounts"].as_array().unwrap().iter().find(|it| it["creator_id"] == DEMO);
    assert_eq!(demo.unwrap()["auth"], *kit.auth(DEMO));
    let unknown = kit.raw(Method::GET, "/control/requests?platform=x", &[], none()).await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    let nowhere = kit.raw(Method::GET, "/elsewhere/users/me", &[], none()).await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_in_the_platforms_format() {
    let kit = Kit::new();
    let auth = kit.auth(DEMO);
    let text = |name: &str| auth[name].as_str().unwrap().to_owned();
    let headers = [
        ("authorization", format!("Session {}", text("session_token"))),
        ("x-user-id", text("user_id")),
        ("user-agent", "x".to_owned()),
    ];
    let broken = kit.raw_text("/platform_alpha/lists", &headers, "{\"name\":").await;
    assert_eq!(broken.status, StatusCode::BAD_REQUEST);
    assert_eq!(broken.body["error"]["code"], 400);
}

#[tokio::test]
async fn a_started_simulator_listens_until_it_is_stopped() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let running = listening();
    let common = running.address().to_string();
    let own = running.port_address("platform_gamma").unwrap().to_string();
    assert_ne!(own, common, "the platform has no port of its own");
    for address in [&common, &own] {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = "GET /control/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    running.stop().await;
    for address in [&common, &own] {
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    }
}
