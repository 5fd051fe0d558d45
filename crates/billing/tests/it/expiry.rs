//! How long credits can be spent, by where they come from.

use serde_json::{Value, json};
use test_service::TestApp;
use test_service::client::Client;
use test_service::subscriber::{GOOD_CARD, OFFER};

const SETTINGS: &str =
    "[credits.expiry]\npack_days = 365\ntrial_days = 14\ngift_days = 30\nplan_days = 10\n";

/// The lots of a customer: (source, expiry).
async fn lots(client: &Client) -> Vec<(Value, Value)> {
    let shown = client.get("/v1/billing").await.json();
    let lots = shown["lots"].as_array().unwrap().iter();
    lots.map(|lot| (lot["source"].clone(), lot["expires_at"].clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_source_has_its_own_expiry() {
    let overrides = format!("{SETTINGS}{OFFER}");
    let database = store::testing::store().await;
    let app = TestApp::start(database, &overrides).await;
    let member = app.member("ada@example.com").await;
    let client = app.with_key(&member.customer.key);
    app.confirm(&member.customer.key, &member.email).await;
    let trial = json!("2026-12-05T12:00:00.000000Z");
    assert_eq!(lots(&client).await, [(json!("trial"), trial.clone())]);

    app.grant(&member.customer, 5).await;
    app.advance_seconds(60);
    // The same command again is the same gift, though its usual expiry would be later now.
    app.grant(&member.customer, 5).await;
    let gift = json!("2026-12-21T12:00:00.000000Z");
    let known = [(json!("trial"), trial), (json!("gift"), gift)];
    assert_eq!(lots(&client).await, known);

    let begun = app.begin_checkout(&client).await;
    app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    let pack = lots(&client).await.pop().unwrap();
    assert_eq!(pack.0, "pack");
    assert!(pack.1.as_str().unwrap().starts_with("2027-11-21T12:"), "{pack:?}");

    let page = client.post("/v1/billing/subscribe", &json!({"plan_id": "plan_small"})).await;
    assert_eq!(page.status, 200, "{}", page.text());
    app.pay(&page, GOOD_CARD).await;
    app.deliver().await;
    let plan = lots(&client).await.into_iter().find(|lot| lot.0 == "plan").unwrap();
    assert!(plan.1.as_str().unwrap().starts_with("2026-12-31T12:"), "{plan:?}");
    app.end().await;
}
