//! The saved card: read from the processor, and removed there and here.

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::processor::{PACK, PACK_CREDITS, balance};
use test_service::subscriber::{GOOD_CARD, selling};
use test_service::{TestApp, with_app};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_card_is_detached_with_all_others_and_does_not_return() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "5555555555554444").await;
        app.deliver().await;
        let newest = client.get("/v1/billing/card").await.json();
        assert_eq!(newest["card"]["last4"], "4444", "{newest}");

        let removed = client.delete("/v1/billing/card").await;
        app.deliver().await;

        assert_eq!(removed.json()["card"], Value::Null, "{}", removed.text());
        let synced = client.post("/v1/billing/sync-card", &json!({})).await.json();
        assert_eq!(synced["card"], Value::Null, "{synced}");
        // Neither the old checkout nor its event restores the card.
        let old = json!({"session_id": begun.session});
        let again = client.post("/v1/billing/sync-card", &old).await.json();
        assert_eq!(again["card"], Value::Null, "{again}");
        for (id, _) in app.events_about(&[&begun.session]).await {
            app.send_event(&id, 1).await;
        }
        assert_eq!(client.get("/v1/billing/card").await.json()["card"], Value::Null);
        let charge = client.post("/v1/billing/charge", &json!({"pack_id": PACK})).await;
        assert_eq!(charge.failure(), (409, "no_saved_card".to_owned()));
        // Removing a card when there is none is not a failure.
        assert_eq!(client.delete("/v1/billing/card").await.status, 200);
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_session_removing_the_card_needs_the_password() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let program = app.with_key(&member.customer.key);
    let begun = app.begin_checkout(&program).await;
    app.pay_page(&begun.session, "4242424242424242").await;
    app.deliver().await;
    let browser = app.signed_in(&member).await;

    let none = browser.delete("/v1/billing/card").await;
    let wrong = json!({"current_password": "something else"});
    let wrong = browser.json("DELETE", "/v1/billing/card", &wrong).await;
    assert_eq!(none.wrong_fields(), [("body.current_password".to_owned(), "missing".to_owned())]);
    assert_eq!(wrong.failure(), (403, "wrong_password".to_owned()));
    assert_eq!(program.get("/v1/billing/card").await.json()["card"]["last4"], "4242");
    let right = json!({"current_password": PASSWORD});
    let right = browser.json("DELETE", "/v1/billing/card", &right).await;

    assert_eq!(right.json()["card"], Value::Null, "{}", right.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_removed_while_its_charge_is_open_still_pays_that_charge() {
    with_app(async |app| {
        let (_, client) = app.with_card("4000002760003184").await;
        let charge = json!({"pack_id": PACK});
        let asked = client.post("/v1/billing/charge", &charge).await.json();
        let intent = asked["pi_id"].as_str().unwrap();

        // The bank confirms the payment while the card is being removed.
        app.authenticate(intent, true).await;
        assert_eq!(client.delete("/v1/billing/card").await.status, 200);
        app.deliver().await;

        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        let card = client.get("/v1/billing/card").await.json();
        assert_eq!(card["card"], Value::Null, "{card}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_that_the_processor_detached_is_removed_here_too() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        app.deliver().await;
        let customers = app.at_processor("GET", "customers?limit=10", "").await;
        let customer = customers["data"][0]["id"].as_str().unwrap();
        let cards = app
            .at_processor("GET", &format!("customers/{customer}/payment_methods?type=card"), "")
            .await;
        let card = cards["data"][0]["id"].as_str().unwrap();

        app.at_processor("POST", &format!("payment_methods/{card}/detach"), "").await;
        app.deliver().await;

        assert_eq!(client.get("/v1/billing/card").await.json()["card"], Value::Null);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_card_of_a_subscription_cannot_be_removed_until_it_is_cancelled() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let subscription = app.subscription().await;
        let payer = subscription["customer"].as_str().unwrap();
        let cards = format!("customers/{payer}/payment_methods?type=card");
        let before = app.at_processor("GET", &cards, "").await;
        assert_eq!(before["data"][0]["card"]["last4"], "4242", "{before}");
        let synced = client.post("/v1/billing/sync-card", &json!({})).await.json();
        assert_eq!(synced["card"]["last4"], "4242", "{synced}");

        let refused = client.delete("/v1/billing/card").await;

        assert_eq!(refused.failure(), (409, "card_in_use".to_owned()));
        assert_eq!(app.at_processor("GET", &cards, "").await["data"], before["data"]);
        let card = client.get("/v1/billing/card").await.json();
        assert_eq!(card["card"]["last4"], "4242", "{card}");
        // Once there are no more payments to make, it can be removed: the period is paid.
        let id = subscription["id"].as_str().unwrap();
        let path = format!("subscriptions/{id}");
        app.at_processor("POST", &path, "cancel_at_period_end=true").await;
        let removed = client.delete("/v1/billing/card").await;
        assert_eq!(removed.json()["card"], Value::Null, "{}", removed.text());
        assert_eq!(app.at_processor("GET", &cards, "").await["data"], json!([]));
        app
    })
    .await;
}
