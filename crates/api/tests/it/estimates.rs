//! Estimates: what a request would cost is what it then costs, for every caller and every platform.

use serde_json::{Value, json};
use test_service::{Client, Reply, TestApp, with_app};

const ESTIMATE: &str = "/v1/billing/estimate";

async fn estimate(client: &Client, body: &Value) -> Reply {
    client.post(ESTIMATE, body).await
}

async fn key_of(app: &TestApp, owner: &Client, limits: Value) -> Client {
    let made = owner.post("/v1/auth/keys", &limits).await;
    assert_eq!(made.status, 201, "{}", made.text());
    app.with_key(made.json()["api_key"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_every_platform_an_estimate_names_the_platform_and_the_price() {
    with_app(async |app| {
        for platform in ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"] {
            let (_customer, client, account) = app.ready(platform, 100).await;
            for (method, kind, unit) in [
                ("GET", "read", 1),
                ("POST", "write", 2),
                ("PUT", "write", 2),
                ("PATCH", "write", 2),
                ("DELETE", "write", 2),
            ] {
                let body = json!({"account": account, "method": method, "path": "made/up/7"});

                let estimated = estimate(&client, &body).await;

                assert_eq!(estimated.status, 200, "{}", estimated.text());
                let estimated = estimated.json();
                assert_eq!(estimated["platform"], json!(platform));
                assert_eq!(estimated["charged_as"], json!(kind), "{method}");
                assert_eq!(estimated["unit_cost"], json!(unit), "{method}");
                assert_eq!((&estimated["count"], &estimated["cost"]), (&json!(1), &json!(unit)));
            }
            assert_eq!(client.get("/v1/billing").await.json()["balance"], 100, "it is free");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balance_covers_what_it_can_pay_to_the_credit() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 30).await;
        let exports = async |count: i64| {
            let body = json!({"account": account, "dataset": "subscribers", "count": count});
            let estimated = estimate(&client, &body).await.json();
            (estimated["cost"].as_i64().unwrap(), estimated["is_covered"].as_bool().unwrap())
        };

        assert_eq!(exports(3).await, (30, true));
        assert_eq!(exports(4).await, (40, false));
        assert_eq!(exports(1_000_000).await, (10_000_000, false));
        // What is held for an export cannot be spent on another.
        let made = json!({"dataset": "subscribers"});
        let running = client.post(&format!("/v1/{account}/exports"), &made).await;
        assert_eq!(running.status, 201, "{}", running.text());
        assert_eq!((exports(2).await, exports(3).await), ((20, true), (30, false)));
        app.run_exports().await;
        assert_eq!((exports(2).await, exports(3).await), ((20, true), (30, false)));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_estimate_for_the_accounts_that_they_may_use() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 30).await;
        let other = app.connect(&customer, "platform_beta").await;
        let reader = key_of(&app, &client, json!({"name": "r", "scope": "read_only"})).await;
        let limits = json!({"name": "l", "scope": "full", "accounts": [account]});
        let limited = key_of(&app, &client, limits).await;
        let write = |of: &str| json!({"account": of, "method": "POST", "path": "x"});

        // A key of this scope sends GET requests alone, whatever they would do.
        let read_only = estimate(&reader, &write(&other)).await;
        assert_eq!(read_only.failure(), (403, "read_only_key".to_owned()));
        assert_eq!(estimate(&client, &write(&other)).await.status, 200);
        assert_eq!(estimate(&limited, &write(&account)).await.status, 200);
        let refused = estimate(&limited, &write(&other)).await;
        assert_eq!(refused.failure(), (404, "account_not_found".to_owned()));
        let stranger = app.with_key(&app.customer(5).await.key);
        let foreign = estimate(&stranger, &write(&account)).await;
        assert_eq!(foreign.failure(), refused.failure());
        assert_eq!(estimate(&app.anonymous(), &write(&account)).await.status, 401);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_fields_of_an_estimate_are_named_with_the_rule() {
    let app = TestApp::on_sqlite("").await;
    let (_customer, client, account) = app.ready("platform_alpha", 30).await;
    let with = |more: Value| {
        let mut body = json!({"account": account, "method": "GET", "path": "users/me"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, field, kind) in [
        (with(json!({"count": 0})), "body.count", "out_of_range"),
        (with(json!({"count": 1_000_001})), "body.count", "out_of_range"),
        (with(json!({"count": "2"})), "body.count", "wrong_type"),
        (with(json!({"method": "TRACE"})), "body.method", "not_allowed"),
        (with(json!({"method": "get"})), "body.method", "not_allowed"),
        (with(json!({"path": ""})), "body.path", "too_short"),
        (with(json!({"path": "a".repeat(2_049)})), "body.path", "too_long"),
        (with(json!({"account": ""})), "body.account", "too_short"),
        (with(json!({"price": 1})), "body.price", "unknown_field"),
        (json!({"account": account, "dataset": "everything"}), "body.dataset", "not_allowed"),
    ] {
        let refused = estimate(&client, &body).await;

        assert_eq!(refused.wrong_fields(), [(field.to_owned(), kind.to_owned())], "{body}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn estimates_leave_room_for_payments() {
    let app = TestApp::on_sqlite("[rate_limits]\npayment_requests_per_minute = 2").await;
    let (_customer, client, account) = app.ready("platform_alpha", 30).await;
    let body = json!({"account": account, "method": "GET", "path": "users/me"});
    for _ in 0..5 {
        assert_eq!(estimate(&client, &body).await.status, 200);
    }

    let checkout = client.post("/v1/billing/checkout", &json!({"pack_id": "pack_10"})).await;

    assert_eq!(checkout.status, 200, "{}", checkout.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_sees_the_balance_and_nothing_of_what_was_bought() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 30).await;
        let limits = json!({"name": "l", "scope": "full", "accounts": [account]});
        let limited = key_of(&app, &client, limits).await;

        let whole = client.get("/v1/billing").await.json();
        let seen = limited.get("/v1/billing").await.json();

        assert_eq!(whole["lots"].as_array().unwrap().len(), 1, "{whole}");
        assert_eq!((&seen["balance"], &seen["lots"]), (&json!(30), &json!([])));
        assert_eq!(seen["next_expiring"], Value::Null);
        app
    })
    .await;
}
