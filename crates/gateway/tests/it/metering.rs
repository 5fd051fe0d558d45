//! Credits: exact under concurrency, and no charge for calls that the platform did not answer.

use test_service::with_app;

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
