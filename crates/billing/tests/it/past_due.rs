//! An unpaid renewal: nothing more is sold, unpaid time is not credited, and after the last attempt
//! the open invoices are voided and the credit in them is returned.

use serde_json::{Value, json};
use test_service::subscriber::{
    BIG_PLAN, GOOD_CARD, PLAN, choose, plans_of, selling, slots_on, subscription_of,
};
use test_service::{Client, Reply, TestApp};

const ALPHA: &str = "platform_alpha";

/// A subscriber to the big plan with slots whose renewal is not paid. The processor's next
/// `further_tries` attempts fail as well.
async fn past_due(app: &TestApp, further_tries: usize) -> Client {
    let choice = json!({"plan_id": BIG_PLAN, "slots": {"platform_alpha": 3}});
    let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
    app.decline(1 + further_tries).await;
    app.months_pass(1).await;
    client
}

async fn set(client: &Client, count: i64) -> Reply {
    client.post("/v1/billing/slots", &json!({"platform": ALPHA, "count": count})).await
}

async fn switch(client: &Client) -> Reply {
    let wanted = json!({"from": ALPHA, "to": "platform_beta"});
    client.post("/v1/billing/slots/switch", &wanted).await
}

/// The sum of pending invoice items and the customer's balance at the processor, in cents.
async fn money(app: &TestApp) -> (i64, i64) {
    let items = app.at_processor("GET", "invoiceitems?pending=true&limit=100", "").await;
    let waiting = items["data"].as_array().unwrap().iter();
    let customers = app.at_processor("GET", "customers?limit=1", "").await;
    let sum = waiting.map(|item| item["amount"].as_i64().unwrap()).sum();
    (sum, customers["data"][0]["balance"].as_i64().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_past_due_subscription_can_be_reduced_but_not_extended() {
    selling(async |app| {
        let client = past_due(&app, 0).await;
        let asked = app.prorations_asked().await.len();

        let state = subscription_of(&client).await;
        let (raise, moved) = (set(&client, 4).await, switch(&client).await);
        let cheaper = choose(&client, PLAN).await;
        let dearer_than_pending = choose(&client, BIG_PLAN).await;
        let lowered = set(&client, 1).await;

        assert_eq!((&state["status"], &state["plan_id"]), (&json!("past_due"), &json!(BIG_PLAN)));
        for refused in [&raise, &moved] {
            assert_eq!(refused.failure(), (409, "subscription_past_due".to_owned()));
        }
        assert_eq!(cheaper.json()["next_plan_id"], PLAN, "{}", cheaper.text());
        // Cancelling the pending change to the cheaper plan moves no money either.
        assert_eq!(dearer_than_pending.status, 200, "{}", dearer_than_pending.text());
        assert_eq!(slots_on(&lowered.json(), ALPHA)["count"], 1, "{}", lowered.text());
        assert_eq!(app.prorations_asked().await[asked..], ["none", "none", "none"]);
        assert_eq!(money(&app).await, (0, 0));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_refused_until_the_last_invoice_is_paid() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        app.decline(1).await;
        app.months_pass(1).await;

        let dearer = choose(&client, BIG_PLAN).await;
        let path = format!("/v1/billing/subscription/plan/preview?plan_id={BIG_PLAN}");
        let preview = client.get(&path).await;
        // The processor tries again and succeeds.
        app.control("clock", json!({"advance_days": 4})).await;
        app.deliver().await;
        let paid = choose(&client, BIG_PLAN).await;

        assert_eq!(dearer.failure(), (409, "subscription_past_due".to_owned()));
        assert_eq!(preview.failure(), (409, "subscription_past_due".to_owned()));
        assert_eq!(paid.status, 200, "{}", paid.text());
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_lowered_after_a_late_payment_are_credited() {
    selling(async |app| {
        let client = past_due(&app, 0).await;
        assert_eq!(set(&client, 2).await.status, 200);
        app.control("clock", json!({"advance_days": 4})).await;
        app.deliver().await;
        assert_eq!(money(&app).await, (0, 0));

        let lowered = set(&client, 1).await;

        assert_eq!(lowered.status, 200, "{}", lowered.text());
        let (waiting, balance) = money(&app).await;
        assert!((-1_000..-800).contains(&waiting), "{waiting}");
        assert_eq!(balance, 0);
        app.deliver().await;
        app
    })
    .await;
}

/// Slots were lowered with a credit, which is on the invoice of the renewal that was never paid.
async fn lowered_before_an_unpaid_renewal(app: &TestApp) -> (Client, i64) {
    let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 2}});
    let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
    app.advance_seconds(15 * 86_400);
    assert_eq!(set(&client, 0).await.status, 200);
    let credit = -money(app).await.0;
    assert_eq!(credit, 1_000);
    // All four attempts fail.
    app.decline(4).await;
    app.control("clock", json!({"advance_months": 1})).await;
    app.control("clock", json!({"advance_days": 16})).await;
    (client, credit)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_last_attempt_the_invoice_is_voided_and_its_credit_returned() {
    selling(async |app| {
        Box::pin(async move {
            let (client, credit) = Box::pin(lowered_before_an_unpaid_renewal(&app)).await;

            app.deliver().await;
            app.running().look_after_subscriptions().await;

            let state = subscription_of(&client).await;
            assert_eq!((&state["status"], &state["plan_id"]), (&json!("canceled"), &Value::Null));
            let renewal = app.invoices().await.remove(0);
            assert_eq!((&renewal["status"], &renewal["total"]), (&json!("void"), &json!(1_900)));
            assert_eq!(money(&app).await, (0, -credit));
            let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
            app.pay(&page, GOOD_CARD).await;
            app.deliver().await;
            assert_eq!(plans_of(&client).await.0, PLAN);
            assert_eq!(app.invoices().await[0]["amount_due"], 2_900 - credit);
            app
        })
        .await
    })
    .await;
}

/// A later renewal is paid before the attempts of the first one end, so that month's money is no
/// longer collected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_invoice_without_further_attempts_is_voided_and_the_subscription_continues() {
    selling(async |app| {
        app.control("rules", json!({"retry_days": [20, 45]})).await;
        let (_, client) = app.subscriber_of(json!({"plan_id": PLAN}), GOOD_CARD).await;
        let statuses = async || -> Vec<Value> {
            app.invoices().await.iter().map(|invoice| invoice["status"].clone()).collect()
        };
        app.decline(2).await;
        app.control("clock", json!({"advance_months": 1})).await;
        app.control("clock", json!({"advance_days": 21})).await;
        app.deliver().await;
        let unpaid = statuses().await;
        app.control("clock", json!({"advance_days": 11})).await;
        app.deliver().await;
        let paid = statuses().await;
        app.decline(1).await;
        app.control("clock", json!({"advance_days": 15})).await;
        app.deliver().await;

        assert_eq!(unpaid, ["open", "paid"]);
        assert_eq!(paid, ["paid", "open", "paid"]);
        assert_eq!(statuses().await, ["paid", "void", "paid"]);
        assert_eq!(subscription_of(&client).await["status"], "active");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_resumes_after_a_crash_and_returns_the_credit_once() {
    for (kind, path) in [
        ("error_before", "invoices/{id}/void"),
        ("close_after", "invoices/{id}/void"),
        ("error_before", "customers/{id}/balance_transactions"),
        ("close_after", "customers/{id}/balance_transactions"),
    ] {
        selling(async |mut app| {
            Box::pin(async move {
                let (_, credit) = Box::pin(lowered_before_an_unpaid_renewal(&app)).await;
                let fault = json!({"kind": kind, "method": "POST", "path": path, "times": 9});
                app.processor_fault(&fault).await;
                app.deliver().await;
                app.stop_service().await;
                app.mend_processor().await;
                app.start_service(|_| {}).await.unwrap();
                // By then the processor has forgotten the idempotency keys.
                app.advance_seconds(2 * 86_400);

                app.running().look_after_subscriptions().await;
                app.advance_seconds(3_600);
                app.running().look_after_subscriptions().await;

                assert_eq!(app.invoices().await[0]["status"], "void", "{kind} {path}");
                assert_eq!(money(&app).await, (0, -credit), "{kind} {path}");
                app.deliver().await;
                app
            })
            .await
        })
        .await;
    }
}
