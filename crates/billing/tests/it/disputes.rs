//! Disputes and warnings of fraud: recorded as they stand, and told to the operator.

use domain::dispute::DisputeStage;
use serde_json::json;
use store::disputes::{self, Dispute};
use test_service::processor::{PACK_CREDITS, balance};
use test_service::subscriber::{GOOD_CARD, OFFER};
use test_service::{Client, TestApp};

const OPERATOR: &str = "operator@example.com";

async fn shop() -> TestApp {
    let overrides = format!("{OFFER}\n[mail]\noperator_email = \"{OPERATOR}\"\n");
    TestApp::start(store::testing::store().await, &overrides).await
}

/// A customer that paid for a pack: (client, order, payment intent).
async fn paid(app: &TestApp) -> (Client, String, String) {
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let begun = app.begin_checkout(&client).await;
    let intent = app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    (client, begun.order, intent)
}

/// Those that wait for somebody.
async fn open(app: &TestApp) -> Vec<Dispute> {
    disputes::list(app.store(), false, 50).await.unwrap()
}

async fn all(app: &TestApp) -> Vec<Dispute> {
    disputes::list(app.store(), true, 50).await.unwrap()
}

/// The subjects of the emails to the operator, oldest first.
async fn told(app: &TestApp) -> Vec<String> {
    let mails = app.mails_to(OPERATOR).await;
    mails.iter().map(|mail| mail["subject"].as_str().unwrap().to_owned()).collect()
}

async fn warn(app: &TestApp, intent: &str) -> String {
    let warning = app.control("warnings", json!({"payment_intent": intent})).await;
    warning["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispute_is_recorded_with_its_customer_and_its_date_and_told_once_for_each_stage() {
    let app = shop().await;
    let (client, order, intent) = paid(&app).await;

    let id = app.dispute(&intent).await;
    app.deliver().await;
    for (event, _) in app.events_about(&[&id]).await {
        app.send_event(&event, 3).await;
    }

    let found = open(&app).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let dispute = &found[0];
    assert_eq!((&dispute.id, dispute.stage), (&id, DisputeStage::Open));
    assert_eq!(
        (dispute.status.as_str(), dispute.reason.as_str()),
        ("needs_response", "fraudulent")
    );
    assert_eq!((dispute.amount_cents, dispute.currency.as_str()), (1_000, "usd"));
    assert_eq!(dispute.order.unwrap().to_string(), order);
    assert_eq!(dispute.intent.as_deref(), Some(intent.as_str()));
    assert!(dispute.customer.is_some() && dispute.charge.is_some() && dispute.due_by.is_some());
    assert!(dispute.facts().next_step().contains("send evidence"));
    assert_eq!(balance(&client).await, 0);
    assert_eq!(told(&app).await, ["A payment was disputed"]);
    let text = app.mails_to(OPERATOR).await[0]["text"].as_str().unwrap().to_owned();
    for part in [&id, "10.00 USD", &dispute.customer.unwrap().to_string(), "admin disputes"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    app.close_dispute(&id, true).await;
    app.deliver().await;
    assert_eq!(open(&app).await, []);
    assert_eq!(all(&app).await[0].stage, DisputeStage::Won);
    assert_eq!(told(&app).await, ["A payment was disputed", "A dispute was won"]);
    assert_eq!(balance(&client).await, PACK_CREDITS);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_moves_a_dispute_on_without_an_email() {
    let app = shop().await;
    let (_, _, intent) = paid(&app).await;
    let id = app.dispute(&intent).await;
    app.deliver().await;

    app.at_processor("POST", &format!("disputes/{id}"), "evidence[product_description]=Credits")
        .await;
    app.deliver().await;

    let found = open(&app).await;
    assert_eq!(
        (found[0].stage, found[0].status.as_str()),
        (DisputeStage::Answered, "under_review")
    );
    assert_eq!(told(&app).await.len(), 1);
    assert_eq!(disputes::count_waiting(app.store()).await.unwrap(), 0);
    app.end().await;
}

/// Accounts follow the subscription, not the money: somebody has to end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_dispute_of_a_plan_asks_for_the_end_of_its_subscription_until_it_has_ended() {
    let app = shop().await;
    let (_, client) = app.subscriber(GOOD_CARD).await;
    let invoice = app.invoices().await[0]["id"].as_str().unwrap().to_owned();
    let dispute = app.control("disputes", json!({"invoice": invoice})).await;
    let id = dispute["id"].as_str().unwrap().to_owned();
    app.deliver().await;
    app.close_dispute(&id, false).await;
    app.deliver().await;

    let lost = open(&app).await;

    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!((lost[0].stage, lost[0].invoice.as_ref()), (DisputeStage::Lost, Some(&invoice)));
    let next = lost[0].facts().next_step();
    assert!(next.contains("--cancel-subscription"), "{next}");
    assert!(next.contains(&lost[0].customer.unwrap().to_string()), "{next}");
    assert_eq!(told(&app).await, ["A payment was disputed", "A dispute was lost"]);
    let subscription = app.subscription().await["id"].as_str().unwrap().to_owned();
    app.at_processor("DELETE", &format!("subscriptions/{subscription}"), "").await;
    app.deliver().await;
    assert_eq!(client.get("/v1/billing/subscription").await.json()["status"], "canceled");
    assert_eq!(open(&app).await, []);
    assert!(all(&app).await[0].facts().next_step().starts_with("nothing"));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inquiry_moves_no_money_and_may_become_a_dispute() {
    let app = shop().await;
    let (client, _, intent) = paid(&app).await;
    let body = json!({"payment_intent": intent, "inquiry": true, "reason": "product_not_received"});
    let dispute = app.control("disputes", body).await;
    let id = dispute["id"].as_str().unwrap();
    app.deliver().await;

    let asked = open(&app).await;
    assert_eq!(
        (asked[0].stage, asked[0].reason.as_str()),
        (DisputeStage::Inquiry, "product_not_received")
    );
    assert_eq!(balance(&client).await, PACK_CREDITS);
    app.close_dispute(id, false).await;
    app.deliver().await;

    assert_eq!(open(&app).await[0].stage, DisputeStage::Open);
    assert_eq!(balance(&client).await, 0);
    assert_eq!(told(&app).await, ["A bank asks about a payment", "A payment was disputed"]);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warning_of_fraud_is_told_and_is_over_once_the_payment_is_refunded() {
    let app = shop().await;
    let (client, order, intent) = paid(&app).await;
    let id = warn(&app, &intent).await;
    app.deliver().await;

    let warned = open(&app).await;
    assert_eq!((&warned[0].id, warned[0].stage), (&id, DisputeStage::Warned));
    assert_eq!((warned[0].amount_cents, warned[0].currency.as_str()), (1_000, "usd"));
    assert!(warned[0].facts().next_step().contains(&format!("admin refund {order}")));
    assert_eq!(balance(&client).await, PACK_CREDITS);
    app.refund(&intent, 1_000).await;
    app.deliver().await;

    assert_eq!(open(&app).await, []);
    let expected =
        ["A bank warns that a payment may be fraudulent", "A dispute or a warning has ended"];
    assert_eq!(told(&app).await, expected);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disputes_and_warnings_without_any_event_are_found_by_the_comparison() {
    let app = shop().await;
    let (_, _, disputed) = paid(&app).await;
    let (_, _, warned) = paid(&app).await;
    app.dispute(&disputed).await;
    warn(&app, &warned).await;

    let report = app.running().reconcile(72).await.unwrap();

    assert_eq!(report.failed, 0, "{report:?}");
    let mut stages: Vec<_> = open(&app).await.iter().map(|dispute| dispute.stage).collect();
    stages.sort();
    assert_eq!(stages, [DisputeStage::Warned, DisputeStage::Open]);
    app.end().await;
}

/// The same account at the processor may be another program's, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_about_a_payment_of_another_program_is_ignored() {
    let app = shop().await;
    let other = app.at_processor("POST", "customers", "email=else@example.com").await;
    let form = format!(
        "amount=700&currency=usd&customer={}&payment_method=pm_card_visa&confirm=true\
         &payment_method_types[]=card",
        other["id"].as_str().unwrap()
    );
    let intent = app.at_processor("POST", "payment_intents", &form).await;
    let intent = intent["id"].as_str().unwrap();
    warn(&app, intent).await;
    app.dispute(intent).await;
    app.deliver().await;

    assert_eq!(all(&app).await, []);
    assert_eq!(told(&app).await, [""; 0]);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_and_invoices_show_the_money_that_went_back() {
    let app = shop().await;
    let (buyer, _, intent) = paid(&app).await;
    let (_, subscriber) = app.subscriber(GOOD_CARD).await;
    let invoice = app.invoices().await[0]["id"].as_str().unwrap().to_owned();
    let order = async || buyer.get("/v1/billing/orders").await.json()["orders"][0].clone();
    let billed = async || {
        let path = format!("/v1/billing/invoices/{invoice}");
        subscriber.get(&path).await.json()
    };
    assert_eq!(
        (&order().await["returned_cents"], &billed().await["returned_cents"]),
        (&json!(0), &json!(0))
    );

    app.refund(&intent, 300).await;
    app.control("refunds", json!({"invoice": invoice, "amount": 1_000})).await;
    app.deliver().await;
    assert_eq!(order().await["returned_cents"], 300);
    assert_eq!(billed().await["returned_cents"], 1_000);

    let dispute = app.dispute(&intent).await;
    app.deliver().await;
    let disputed = order().await["returned_cents"].as_i64().unwrap();
    assert!(disputed > 300, "{disputed}");
    app.close_dispute(&dispute, true).await;
    app.deliver().await;
    assert_eq!(order().await["returned_cents"], 300);
    app.end().await;
}
