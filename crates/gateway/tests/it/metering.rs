//! Credits: exact under concurrency, and no charge for calls that the platform did not answer.

use serde_json::json;
use test_service::platform::{Script, Seen};
use test_service::stage::on_stage;
use test_service::with_app;

/// The repetition that we advise finds the credits of a call that cost nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_answer_comes_after_its_credits_are_back() {
    const ROUNDS: usize = 60;
    let cut = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n";
    let platform = move |request: &Seen, _: usize| match request.target() {
        path if path.contains("lists") => Script::json(429, "{}"),
        path if path.contains("chats") => Script::AnswerAndClose(cut.to_vec()),
        path if path.contains("posts") => Script::AnswerAndClose(Vec::new()),
        _ => request.confirmation().unwrap_or_else(|| Script::json(500, "{}")),
    };
    on_stage("platform_alpha", "", platform, async |stage| {
        for (method, path, credits) in [
            ("POST", "lists", 2),
            ("GET", "users/me", 1),
            ("GET", "chats", 1),
            ("POST", "posts", 2),
        ] {
            let customer = stage.app.customer(credits).await;
            let client = stage.app.with_key(&customer.key);
            let auth = test_service::stage::auth("platform_alpha");
            let import = json!({"creator_id": "eve", "platform": "platform_alpha", "auth": auth});
            assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);
            let path = format!("/v1/eve/native/{path}");
            for round in 0..ROUNDS {
                // Pauses and the breaker end.
                stage.app.advance_seconds(61);
                // A cut answer is an error of the client.
                if let Ok(reply) = client.try_send(method, &path, None).await {
                    assert_ne!(reply.status, 402, "{method} {path}, {round}: {}", reply.text());
                }
            }
            let log = client.get("/v1/billing/usage/recent?limit=100").await.json();
            assert_eq!(log["calls"].as_array().unwrap().len(), ROUNDS, "{method} {path}");
        }
        stage
    })
    .await;
}

/// A response says what its call cost and what is left, and billing agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_a_correct_receipt() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 10).await;

        let read = client.get(&format!("/v1/{account}/native/users/me")).await;
        let write = client
            .post(
                &format!("/v1/{account}/native/users/exists"),
                &serde_json::json!({"username": "x"}),
            )
            .await;

        assert_eq!((read.status, read.receipt()), (200, (1, 9)), "{}", read.text());
        assert_eq!((write.status, write.receipt()), (200, (2, 7)), "{}", write.text());
        app.settled(&client).await;
        let billing = client.get("/v1/billing").await.json();
        assert_eq!((&billing["balance"], &billing["spend"]["today"]), (&7.into(), &3.into()));
        app
    })
    .await;
}

/// A thousand concurrent calls on a balance of one: one of them reaches the platform.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_credit_pays_for_one_of_a_thousand_concurrent_calls() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 1).await;
        let before = app.seen("platform_alpha").await.len();
        let path = format!("/v1/{account}/native/users/me");

        let calls = (0..1_000).map(|_| {
            let (client, path) = (client.clone(), path.clone());
            async move { client.get(&path).await }
        });
        let replies = test_service::at_once(calls).await;

        let answered = replies.iter().filter(|reply| reply.status == 200).count();
        let refused = replies.iter().filter(|reply| reply.code() == "insufficient_credits").count();
        assert_eq!((answered, refused), (1, 999));
        assert_eq!(app.seen("platform_alpha").await.len() - before, 1);
        app
    })
    .await;
}

/// The same write sent fifty times with one `Idempotency-Key` is sent and charged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_idempotency_key_is_one_write_and_one_charge() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let before = app.seen("platform_alpha").await.len();
        let path = format!("/v1/{account}/native/lists");
        let client = client.with("idempotency-key", "list-1");

        let calls = (0..50).map(|_| {
            let (client, path) = (client.clone(), path.clone());
            async move { client.post(&path, &serde_json::json!({"name": "regulars"})).await }
        });
        let replies = test_service::at_once(calls).await;
        let late = client.post(&path, &serde_json::json!({"name": "regulars"})).await;

        let first: Vec<_> = replies
            .iter()
            .filter(|reply| reply.status < 300 && reply.header("idempotent-replayed").is_empty())
            .collect();
        assert_eq!(first.len(), 1);
        for reply in &replies {
            let is_replay = reply.header("idempotent-replayed") == "true";
            let is_running = reply.code() == "idempotency_in_progress";
            assert!(reply.status < 300 || is_replay || is_running, "{}", reply.text());
        }
        assert_eq!(late.header("idempotent-replayed"), "true", "{}", late.text());
        assert_eq!((late.status, &late.body), (first[0].status, &first[0].body));
        assert_eq!(app.seen("platform_alpha").await.len() - before, 1);
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 98);
        app
    })
    .await;
}
