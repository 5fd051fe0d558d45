//! The customer at the processor: its address follows ours, and a rate-limited request has its own
//! failure.

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::{Client, TestApp, with_app};

const ADA: &str = "ada@example.com";
const NEW: &str = "ada@new.example";

/// The processor's only customer.
async fn payer(app: &TestApp) -> Value {
    app.at_processor("GET", "customers?limit=1", "").await["data"][0].clone()
}

/// Changes the email address and confirms it.
async fn change_address(app: &TestApp, browser: &Client, email: &str) {
    let change = json!({"email": email, "current_password": PASSWORD});
    let asked = browser.json("PATCH", "/v1/auth/me", &change).await;
    assert_eq!(asked.status, 200, "{}", asked.text());
    let token = app.mailed_token(email).await;
    let confirmed = browser.post("/v1/auth/email/verify", &json!({"token": token})).await;
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
}

/// The addresses that the processor was asked to set.
async fn addresses_sent(app: &TestApp) -> Vec<String> {
    let path = format!("customers/{}", payer(app).await["id"].as_str().unwrap());
    let asked = app.asked("POST", &path).await;
    let address = |request: &Value| request["params"]["email"].as_str().map(str::to_owned);
    asked.iter().filter_map(address).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_processor_gets_the_new_address_after_its_confirmation() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.signed_in(&member).await;
        app.begin_checkout(&app.with_key(&member.customer.key)).await;
        assert_eq!(payer(&app).await["email"], ADA);
        app.processor_fault(&json!({
            "kind": "unavailable", "method": "POST", "path": "customers/{id}", "times": 9,
        }))
        .await;

        change_address(&app, &browser, NEW).await;
        app.run_jobs().await;
        assert_eq!(
            payer(&app).await["email"],
            ADA,
            "the processor's failure must leave the address"
        );
        app.mend_processor().await;
        app.advance_seconds(60);
        app.run_jobs().await;

        assert_eq!(payer(&app).await["email"], NEW);
        assert_eq!(app.run_jobs().await, 0);
        assert_eq!(
            store::jobs::count(app.store()).await.unwrap(),
            store::jobs::JobCounts::default()
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_processor_gets_only_the_last_address_and_none_before_a_purchase() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.signed_in(&member).await;

        change_address(&app, &browser, "ada@first.example").await;
        app.run_jobs().await;
        app.begin_checkout(&app.with_key(&member.customer.key)).await;
        assert_eq!(payer(&app).await["email"], "ada@first.example");
        assert_eq!(addresses_sent(&app).await, [""; 0]);
        change_address(&app, &browser, "ada@second.example").await;
        change_address(&app, &browser, NEW).await;
        app.run_jobs().await;

        assert_eq!(payer(&app).await["email"], NEW);
        assert_eq!(addresses_sent(&app).await.last().unwrap(), NEW);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_of_the_processor_is_reported_with_the_time_to_wait() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let checkout = json!({"pack_id": "pack_10"});
        for (retry_after_s, wait) in [(json!(17), "17"), (Value::Null, "5")] {
            app.processor_fault(&json!({
                "kind": "rate_limit", "method": "POST", "path": "customers", "times": 9,
                "retry_after_s": retry_after_s,
            }))
            .await;

            let refused = client.post("/v1/billing/checkout", &checkout).await;

            assert_eq!(refused.failure(), (503, "processor_rate_limited".to_owned()));
            assert_eq!(refused.header("retry-after"), wait);
            assert_eq!(refused.json()["retryable"], true);
            assert!(refused.text().contains(&format!("again in {wait} s")), "{}", refused.text());
            app.mend_processor().await;
        }
        assert_eq!(client.post("/v1/billing/checkout", &checkout).await.status, 200);
        app
    })
    .await;
}
