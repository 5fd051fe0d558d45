//! The report of outstanding credits.

use serde_json::json;

use super::done;
use test_service::with_app;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_agrees_with_the_balances() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 100).await;
        app.customer(7).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        app.settled(&client).await;

        let report = done(&app, json!({"command": "liability"})).await;

        let balance = client.get("/v1/billing").await.json()["balance"].as_i64().unwrap();
        assert_eq!(report["done"], "liability", "{report}");
        assert_eq!(report["outstanding"], balance + 7, "{report}");
        assert_eq!((&report["held"], &report["customers"]), (&json!(0), &json!(2)));
        let rows = report["rows"].as_array().unwrap();
        let of = |source: &str| rows.iter().find(|row| row["source"] == source).unwrap();
        assert_eq!((&of("pack")["days_from"], &of("pack")["days_until"]), (&json!(0), &json!(30)));
        let sum: i64 = rows.iter().map(|row| row["credits"].as_i64().unwrap()).sum();
        assert_eq!(sum, balance + 7);
        app
    })
    .await;
}
