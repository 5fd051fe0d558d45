//! Refunds and disputes: credits are taken back with the money, and returned when a dispute is won.

use serde_json::json;
use test_service::processor::{PACK_CENTS, PACK_CREDITS, balance, bookings};
use test_service::subscriber::{GOOD_CARD, selling};
use test_service::{Client, TestApp, with_app};

/// A customer that paid for a pack: (client, payment intent).
async fn paid(app: &TestApp) -> (Client, String) {
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let begun = app.begin_checkout(&client).await;
    let intent = app.pay_page(&begun.session, "4242424242424242").await;
    app.deliver().await;
    (client, intent)
}

async fn status(client: &Client) -> String {
    let orders = client.get("/v1/billing/orders").await.json();
    orders["orders"][0]["status"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_refund_takes_its_share_of_the_credits_and_a_full_one_the_rest() {
    with_app(async |app| {
        let (client, intent) = paid(&app).await;

        let refund = app.refund(&intent, 333).await;
        app.deliver().await;
        for (id, _) in app.events_about(&[&refund]).await {
            app.send_event(&id, 5).await;
        }
        assert_eq!(balance(&client).await, PACK_CREDITS - 1_665);
        assert_eq!(status(&client).await, "paid");
        app.refund(&intent, PACK_CENTS - 333).await;
        app.deliver().await;

        assert_eq!(balance(&client).await, 0);
        assert_eq!(status(&client).await, "refunded");
        let expected = [("refund", -3_335), ("refund", -1_665), ("pack", PACK_CREDITS)];
        assert_eq!(bookings(&client).await, expected.map(|(kind, sum)| (kind.to_owned(), sum)));
        app
    })
    .await;
}

/// Any refund turns automatic top-up off, even one of slots, which grant no credits. The email says
/// so once, to customers that had it on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_of_slots_turns_automatic_top_up_off_and_the_email_says_so() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let slot = json!({"platform": "platform_alpha", "count": 1});
        assert_eq!(client.post("/v1/billing/slots", &slot).await.status, 200);
        app.deliver().await;
        let before = balance(&client).await;
        let wish = json!({
            "enabled": true, "threshold_credits": 1, "pack_id": "pack_10", "daily_cap_usd": 100,
        });
        let on = client.post("/v1/billing/autotopup", &wish).await;
        assert_eq!(on.status, 200, "{}", on.text());
        let invoice = &app.invoices().await[0];
        let payments = format!("invoice_payments?invoice={}", invoice["id"].as_str().unwrap());
        let payments = app.at_processor("GET", &payments, "").await;
        let intent = payments["data"][0]["payment"]["payment_intent"].as_str().unwrap().to_owned();

        for _ in 0..2 {
            app.refund(&intent, 100).await;
            app.deliver().await;
        }

        let after = client.get("/v1/billing/autotopup").await.json();
        assert_eq!(
            (&after["enabled"], &after["stopped_reason"]),
            (&json!(false), &json!("refund"))
        );
        assert_eq!(balance(&client).await, before);
        let mails = app.mails_to("customer0@example.com").await;
        let subjects: Vec<_> = mails.iter().map(|mail| mail["subject"].as_str().unwrap()).collect();
        assert_eq!(subjects, ["A payment was refunded to you"; 2]);
        let told = |mail: &serde_json::Value| {
            mail["text"].as_str().unwrap().contains("Automatic top-up was turned off")
        };
        assert_eq!(mails.iter().filter(|mail| told(mail)).count(), 1, "{mails:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spent_credits_become_a_debt_and_calls_are_refused_until_it_is_paid() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 0).await;
        let begun = app.begin_checkout(&client).await;
        let intent = app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        let path = format!("/v1/{account}/native/users/me");
        assert_eq!(client.get(&path).await.status, 200);
        app.settled(&client).await;

        let dispute = app.dispute(&intent).await;
        app.deliver().await;
        let refused = client.get(&path).await;
        assert_eq!(refused.failure(), (402, "insufficient_credits".to_owned()));
        assert_eq!(balance(&client).await, 0);
        // New credits pay the debt of one credit first.
        let grant = json!({
            "command": "grant_credits", "customer": customer.id, "credits": 1, "reference": "debt",
        });
        app.staff(grant).await;
        assert_eq!(client.get(&path).await.failure(), (402, "insufficient_credits".to_owned()));
        app.close_dispute(&dispute, true).await;
        app.deliver().await;

        assert_eq!(balance(&client).await, PACK_CREDITS);
        assert_eq!(client.get(&path).await.status, 200);
        app.settled(&client).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_dispute_takes_the_credits_permanently_in_any_order_of_events() {
    with_app(async |app| {
        let (client, intent) = paid(&app).await;
        let dispute = app.dispute(&intent).await;
        app.close_dispute(&dispute, false).await;

        let mut events = app.events_about(&[&dispute]).await;
        events.reverse();
        for (id, _) in &events {
            app.send_event(id, 3).await;
        }
        app.deliver().await;

        assert!(events.len() >= 2, "{events:?}");
        assert_eq!(balance(&client).await, 0);
        let expected = [("dispute", -PACK_CREDITS), ("pack", PACK_CREDITS)];
        assert_eq!(bookings(&client).await, expected.map(|(kind, sum)| (kind.to_owned(), sum)));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_reported_before_its_payment_grants_and_takes() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        let intent = app.pay_page(&begun.session, "4242424242424242").await;
        let refund = app.refund(&intent, PACK_CENTS).await;

        for (id, _) in app.events_about(&[&refund]).await {
            app.send_event(&id, 1).await;
        }
        app.deliver().await;

        assert_eq!(balance(&client).await, 0);
        assert_eq!(status(&client).await, "refunded");
        assert_eq!(bookings(&client).await.len(), 2);
        app
    })
    .await;
}
