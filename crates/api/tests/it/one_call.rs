//! One call: found by its id or its request's id, by those who may see it and nobody else.

use serde_json::{Value, json};
use test_service::{Client, Reply, TestApp, with_app};

const DAY_S: i64 = 86_400;

fn path(id: &str) -> String {
    format!("/v1/billing/usage/calls/{id}")
}

/// A key limited to this account.
async fn limited_to(app: &TestApp, owner: &Client, account: &str) -> Client {
    let limits = json!({"name": "limited", "scope": "full", "accounts": [account]});
    let made = owner.post("/v1/auth/keys", &limits).await;
    assert_eq!(made.status, 201, "{}", made.text());
    app.with_key(made.json()["api_key"].as_str().unwrap())
}

/// Reads the account with this request id. Calls follow one another by a second.
async fn read(app: &TestApp, client: &Client, account: &str, request: &str) -> Reply {
    let native = format!("/v1/{account}/native/users/me");
    let reply = client.with("x-request-id", request).get(&native).await;
    assert_eq!((reply.status, reply.header("x-request-id")), (200, request), "{}", reply.text());
    app.settled(client).await;
    app.advance_seconds(1);
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_calls_with_one_request_id_a_key_sees_the_newest_that_it_may_see() {
    with_app(async |app| {
        let (_customer, owner, account) = app.ready("platform_alpha", 100).await;
        let (first, second) =
            (limited_to(&app, &owner, &account).await, limited_to(&app, &owner, &account).await);
        let shared = "batch-7";
        read(&app, &first, &account, "another").await;
        read(&app, &first, &account, shared).await;
        read(&app, &second, &account, shared).await;

        let of_first = first.get(&path(shared)).await.json();
        let of_second = second.get(&path(shared)).await.json();
        let of_owner = owner.get(&path(shared)).await.json();

        assert_ne!(of_first["call_id"], of_second["call_id"]);
        assert_eq!(of_owner["call_id"], of_second["call_id"], "the newest of all");
        assert_eq!(of_first["request_id"], json!(shared));
        let third = limited_to(&app, &owner, &account).await;
        assert_eq!(third.get(&path(shared)).await.failure(), (404, "not_found".to_owned()));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_customers_call_and_an_unknown_one_are_refused_in_the_same_words() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        read(&app, &client, &account, "mine-1").await;
        let log = client.get("/v1/billing/usage/recent").await.json();
        let id = log["calls"][0]["call_id"].as_str().unwrap();
        let other = app.with_key(&app.customer(5).await.key);
        let words = async |unseen: &str| {
            let refused = other.get(&path(unseen)).await;
            assert_eq!(refused.status, 404, "{}", refused.text());
            refused.json()["detail"].clone()
        };

        let unknown = words("call_019ab3c4d5e67f8091a2b3c4d5e6f708").await;

        assert_eq!(words(id).await, unknown);
        assert_eq!(words("mine-1").await, unknown);
        assert_eq!(words("req_019ab3c4d5e67f8091a2b3c4d5e6f708").await, unknown);
        assert_eq!(words("%27%20or%20%271%27%3D%271").await, unknown);
        assert_eq!(words(&"x".repeat(2_000)).await, unknown);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_of_a_callers_that_looks_like_ours_finds_its_call_at_any_time() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        // A random UUID (RFC 9562, version 4) contains no time.
        let chosen = "req_8d2f0c1e9b7a4f6c8e3d5a1b2c4d6e8f";
        read(&app, &client, &account, chosen).await;
        app.advance_seconds(30 * DAY_S);
        read(&app, &client, &account, chosen).await;
        let log = client.get("/v1/billing/usage/recent").await.json();

        let found = client.get(&path(chosen)).await.json();

        assert_eq!(found["call_id"], log["calls"][0]["call_id"]);
        assert_eq!(found["request_id"], json!(chosen));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_shown_until_retention_removes_it() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[retention]\ncalls_days = 90").await;
    let (_customer, client, account) = app.ready("platform_alpha", 100).await;
    read(&app, &client, &account, "old-1").await;
    let shown = async || client.get(&path("old-1")).await;
    app.advance_seconds(89 * DAY_S);
    app.running().retain().await;
    let before = shown().await;

    app.advance_seconds(2 * DAY_S);
    app.running().retain().await;
    let after = shown().await;

    assert_eq!((before.status, &before.json()["credits"]), (200, &json!(1)));
    assert_eq!(after.failure(), (404, "not_found".to_owned()));
    assert!(after.text().contains("older than the call log keeps calls"), "{}", after.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_write_is_one_call_that_says_it_had_a_key() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let native = format!("/v1/{account}/native/chats/mark-as-read");
        let keyed = client.with("idempotency-key", "once-1").with("x-tag", "team-a");
        let first = keyed.with("x-request-id", "first").post(&native, &json!({})).await;
        let again = keyed.with("x-request-id", "again").post(&native, &json!({})).await;
        app.settled(&client).await;

        let call = client.get(&path("first")).await.json();

        assert_eq!(first.status, again.status);
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!((&call["has_idempotency_key"], &call["tag"]), (&json!(true), &json!("team-a")));
        assert_eq!((&call["method"], &call["held"]), (&json!("POST"), &json!(2)));
        assert_eq!(client.get(&path("again")).await.status, 404, "a repetition is no call");
        assert_eq!(call["path"], json!("chats/mark-as-read"));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_call_shows_what_was_held_and_that_nothing_was_charged() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        app.fault(
            &json!({"platform": "platform_alpha", "kind": "status", "status": 503, "times": 9}),
        )
        .await;
        let native = format!("/v1/{account}/native/users/me");
        let failed = client.with("x-request-id", "failed-1").get(&native).await;
        app.no_faults().await;
        app.settled(&client).await;

        let call = client.get(&path("failed-1")).await.json();

        assert_eq!(failed.receipt(), (0, 100), "{}", failed.text());
        assert_eq!((&call["held"], &call["credits"]), (&json!(1), &json!(0)));
        assert!(call["ended_at"].is_string(), "{call}");
        assert_eq!(call["has_idempotency_key"], Value::Bool(false));
        app
    })
    .await;
}
