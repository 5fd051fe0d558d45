//! What is the same on all routes: unknown paths, wrong methods, the contract, and headers.

use serde_json::json;
use test_service::{Reply, TestApp};

fn assert_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.failure(), (status, code.to_owned()), "{}", reply.text());
    assert_eq!(reply.header("content-type"), "application/problem+json");
    assert_eq!(reply.header("x-error-source"), "gateway");
    let body = reply.json();
    assert_eq!(body["type"], format!("/docs/errors#{code}"));
    assert_eq!(body["status"], status);
    assert_eq!(body["request_id"], reply.header("x-request-id"));
    assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
    assert!(body["retryable"].is_boolean(), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_path_is_a_404_problem() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    for path in
        ["/v1", "/v1/", "/v2/whoami", "/v1/whoami/", "/V1/whoami", "/v1//whoami", "/metrics"]
    {
        assert_problem(&client.get(path).await, 404, "not_found");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_method_is_a_405_with_the_allowed_ones() {
    let app = TestApp::on_sqlite("").await;
    let (_customer, client, account) = app.ready("platform_alpha", 5).await;
    let native = format!("/v1/{account}/native/users/me");
    let cases = [
        ("POST", "/v1/whoami", "GET,HEAD"),
        ("DELETE", "/v1/accounts", "GET,HEAD"),
        ("OPTIONS", "/v1/connect/import", "POST"),
        ("GET", "/v1/connect/import", "POST"),
        ("PUT", "/v1/auth/keys", "GET,HEAD,POST"),
        ("OPTIONS", native.as_str(), "GET, POST, PUT, PATCH, DELETE"),
    ];

    for (method, path, allowed) in cases {
        let reply = client.send(method, path, None).await;
        assert_problem(&reply, 405, "method_not_allowed");
        assert_eq!(reply.header("allow"), allowed, "{method} {path}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_running_service_serves_its_contract_and_its_error_reference() {
    let app = TestApp::on_sqlite("").await;
    let anybody = app.anonymous();

    let contract = anybody.get("/openapi.json").await;
    let errors = anybody.get("/docs/errors").await;
    let health = anybody.get("/health").await;

    assert_eq!(contract.json(), test_service::contract::document());
    assert_eq!(errors.status, 200);
    assert!(errors.text().contains("## insufficient_credits"));
    assert_eq!(health.json()["status"], "ok");
    app.end().await;
}

/// The contract has the configured prices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_has_the_prices_in_force() {
    let app = TestApp::on_sqlite("[credits]\nread = 3\nwrite = 7").await;

    let contract = app.anonymous().get("/openapi.json").await.json();

    let native = &contract["paths"]["/v1/{account}/native/{native_path}"];
    assert_eq!(native["get"]["summary"], "Calls a platform (3 credits)");
    assert_eq!(native["post"]["summary"], "Calls a platform (7 credits)");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_422_has_the_documented_shape() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    let reply = client.get("/v1/billing/usage/daily?days=x").await;

    assert_eq!(reply.header("content-type"), "application/json");
    let body = reply.json();
    assert_eq!(body["code"], "invalid_request");
    assert_eq!(body["request_id"], reply.header("x-request-id"));
    assert_eq!(body["detail"][0]["loc"], json!(["query", "days"]));
    assert!(body["detail"][0]["msg"].is_string() && body["detail"][0]["type"].is_string());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_with_secrets_must_not_be_cached() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    let made = client.post("/v1/auth/keys", &json!({"name": "k", "scope": "full"})).await;

    assert_eq!(made.header("cache-control"), "private, no-store");
    assert_eq!(made.header("x-content-type-options"), "nosniff");
    app.end().await;
}
