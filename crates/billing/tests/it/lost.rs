//! Abandoned orders: after more than a day each is granted or closed, depending on its state at the
//! processor.

use serde_json::json;
use test_service::processor::{PACK, PACK_CREDITS, balance};
use test_service::subscriber::GOOD_CARD;
use test_service::{Client, TestApp, with_app};

const HOUR_S: i64 = 3_600;
/// A card whose bank requires authentication for every charge.
const ASKING_CARD: &str = "4000002760003184";

/// The states of the customer's orders, newest first.
async fn states(client: &Client) -> Vec<String> {
    let orders = client.get("/v1/billing/orders").await.json();
    let orders = orders["orders"].as_array().unwrap().iter();
    orders.map(|order| order["status"].as_str().unwrap().to_owned()).collect()
}

/// Lets 24 hours pass, within which orders are left alone, and then two more, after which they are
/// settled.
async fn settle(app: &TestApp, client: &Client) {
    app.advance_seconds(24 * HOUR_S);
    app.running().settle_old_orders().await;
    assert_eq!(states(client).await[0], "pending");
    app.advance_seconds(2 * HOUR_S);
    app.running().settle_old_orders().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_without_a_response_is_looked_up_and_never_repeated() {
    for (kind, state, packs) in [("hang_after", "paid", 2), ("hang_before", "failed", 1)] {
        let app = TestApp::on_sqlite("[processor]\ntimeout_ms = 500\nretries_max = 0").await;
        let (_, client) = app.with_card(GOOD_CARD).await;
        let hang = json!({"kind": kind, "method": "POST", "path": "payment_intents", "times": 1});
        app.processor_fault(&hang).await;
        let charge = client.post("/v1/billing/charge", &json!({"pack_id": PACK})).await;
        assert_eq!(charge.failure(), (504, "payment_outcome_unknown".to_owned()));

        settle(&app, &client).await;
        app.running().settle_old_orders().await;

        assert_eq!(states(&client).await, [state, "paid"], "{kind}");
        assert_eq!(balance(&client).await, packs * PACK_CREDITS, "{kind}");
        let asked = app.asked("POST", "payment_intents").await;
        assert!(asked.len() <= 1, "{asked:?}");
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_charge_that_requires_authentication_is_cancelled() {
    with_app(async |app| {
        let (_, client) = app.with_card(ASKING_CARD).await;
        let asked = client.post("/v1/billing/charge", &json!({"pack_id": PACK})).await.json();
        let intent = asked["pi_id"].as_str().unwrap();

        settle(&app, &client).await;

        let path = format!("payment_intents/{intent}");
        assert_eq!(app.at_processor("GET", &path, "").await["status"], "canceled");
        assert_eq!(states(&client).await, ["failed", "paid"]);
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkout_of_yesterday_is_granted_if_paid_and_closed_if_not() {
    with_app(async |app| {
        for (is_paid, state, credits) in [(true, "paid", PACK_CREDITS), (false, "expired", 0)] {
            let customer = app.customer(0).await;
            let client = app.with_key(&customer.key);
            let begun = app.begin_checkout(&client).await;
            if is_paid {
                app.pay_page(&begun.session, GOOD_CARD).await;
            }

            settle(&app, &client).await;

            assert_eq!(states(&client).await, [state]);
            assert_eq!(balance(&client).await, credits);
        }
        app
    })
    .await;
}
