//! What happens at the processor twice or without us: requests that outlive their idempotency key
//! are looked up before they are repeated, and the day's comparison reports the rest.

use serde_json::{Value, json};
use test_service::subscriber::{GOOD_CARD, OFFER, selling};
use test_service::{Client, TestApp};

const DAY_S: i64 = 86_400;
const MOVE_CREDIT: &str = "customers/{id}/balance_transactions";

async fn payer(app: &TestApp) -> String {
    let customers = app.at_processor("GET", "customers?limit=1", "").await;
    customers["data"][0]["id"].as_str().unwrap().to_owned()
}

/// The changes of the only customer's credit that were asked for, newest first.
async fn changes(app: &TestApp) -> Vec<Value> {
    let path = format!("customers/{}/balance_transactions?limit=100", payer(app).await);
    let list = app.at_processor("GET", &path, "").await;
    let all = list["data"].as_array().unwrap().iter();
    all.filter(|made| made["type"] == "adjustment").cloned().collect()
}

async fn cents(app: &TestApp) -> Vec<i64> {
    changes(app).await.iter().map(|made| made["amount"].as_i64().unwrap()).collect()
}

async fn slots(app: &TestApp, client: &Client, count: i64) {
    app.advance_seconds(1);
    let wish = json!({"platform": "platform_alpha", "count": count});
    let changed = client.post("/v1/billing/slots", &wish).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    app.deliver().await;
}

/// The intent of the newest invoice.
async fn newest_payment(app: &TestApp) -> String {
    let invoice = app.invoices().await[0]["id"].as_str().unwrap().to_owned();
    let payments =
        app.at_processor("GET", &format!("invoice_payments?invoice={invoice}"), "").await;
    payments["data"][0]["payment"]["payment_intent"].as_str().unwrap().to_owned()
}

/// A subscriber whose charge for slots was credited when they were lowered. Its payment intent.
async fn credited(app: &TestApp) -> String {
    let (_, client) = app.subscriber(GOOD_CARD).await;
    slots(app, &client, 3).await;
    let intent = newest_payment(app).await;
    slots(app, &client, 0).await;
    intent
}

/// Refunds money that was credited before, so that it is withdrawn from the customer's credit.
async fn refund(app: &TestApp, intent: &str, cents: i64) {
    app.refund(intent, cents).await;
    app.deliver().await;
}

/// The open rows of the operator's list: object and reason, sorted.
async fn reported(app: &TestApp) -> Vec<(String, String)> {
    let open = store::unmatched_settlements::list(app.store(), false, 100).await.unwrap();
    let mut rows: Vec<_> =
        open.into_iter().map(|row| (row.object, row.reason.to_string())).collect();
    rows.sort();
    rows
}

async fn compare_today(app: &TestApp) -> u64 {
    app.running().compare_day(app.clock.now().day()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credit_is_withdrawn_once_though_the_first_response_is_an_error_and_the_key_expires() {
    selling(async |app| {
        let intent = credited(&app).await;
        let fault = json!({"kind": "error_after", "method": "POST", "path": MOVE_CREDIT});
        app.processor_fault(&fault).await;
        refund(&app, &intent, 3_000).await;
        app.run_jobs().await;
        assert_eq!(cents(&app).await, [3_000], "the change was made before the error");

        app.advance_seconds(DAY_S + 3_600);
        app.run_jobs().await;

        assert_eq!(cents(&app).await, [3_000]);
        let job = changes(&app).await[0]["metadata"]["job"].clone();
        assert!(job.as_str().unwrap().starts_with("job_"), "{job}");
        let yesterday = app.clock.now().day().plus_days(-1);
        assert_eq!(app.running().compare_day(yesterday).await.unwrap(), 0);
        assert_eq!(reported(&app).await, []);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_an_operator_retries_days_later_withdraws_nothing_again() {
    selling(async |app| {
        let intent = credited(&app).await;
        let fault = json!({"kind": "error_after", "method": "POST", "path": MOVE_CREDIT});
        app.processor_fault(&fault).await;
        refund(&app, &intent, 3_000).await;
        app.run_jobs().await;
        let broken = json!({"kind": "unavailable", "path": MOVE_CREDIT, "times": 100_000});
        app.processor_fault(&broken).await;
        for _ in 0..40 {
            app.advance_seconds(DAY_S / 4);
            app.run_jobs().await;
        }
        assert_eq!(store::jobs::count(app.store()).await.unwrap().given_up, 1);
        app.mend_processor().await;

        app.staff(json!({"command": "retry_jobs"})).await;
        app.run_jobs().await;

        assert_eq!(cents(&app).await, [3_000]);
        assert_eq!(store::jobs::count(app.store()).await.unwrap().given_up, 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_may_change_the_credit_several_times_and_nothing_is_reported() {
    selling(async |app| {
        let intent = credited(&app).await;
        refund(&app, &intent, 1_000).await;
        app.run_jobs().await;
        refund(&app, &intent, 2_000).await;
        app.run_jobs().await;
        assert_eq!(cents(&app).await, [2_000, 1_000]);

        // A refund that fails returns what was withdrawn for it.
        app.control(&format!("refunds/{intent}/settle"), json!({"succeeded": false})).await;
        app.deliver().await;
        app.run_jobs().await;

        assert_eq!(cents(&app).await, [-2_000, 2_000, 1_000]);
        assert_eq!(compare_today(&app).await, 0);
        assert_eq!(reported(&app).await, []);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_jobs_of_a_sale_at_the_same_time_withdraw_what_both_ask_for() {
    selling(async |app| {
        let intent = credited(&app).await;
        refund(&app, &intent, 1_000).await;
        refund(&app, &intent, 2_000).await;
        // Both read the list of changes before either changes anything.
        let slow =
            json!({"kind": "delay", "ms": 200, "method": "GET", "path": MOVE_CREDIT, "times": 2});
        app.processor_fault(&slow).await;

        tokio::join!(app.run_jobs(), app.run_jobs());
        for _ in 0..5 {
            app.advance_seconds(3_600);
            app.run_jobs().await;
        }

        assert_eq!(cents(&app).await.iter().sum::<i64>(), 3_000);
        assert_eq!(compare_today(&app).await, 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credit_withdrawn_before_a_restore_is_not_withdrawn_again() {
    selling(async |mut app| {
        let intent = credited(&app).await;
        app.run_jobs().await;
        let copy = app.back_up().await;
        refund(&app, &intent, 3_000).await;
        app.run_jobs().await;
        assert_eq!(cents(&app).await, [3_000]);
        app.advance_seconds(3 * 3_600);
        app.restore(&copy).await;

        let report = app.running().reconcile(24).await.unwrap();
        app.run_jobs().await;

        assert_eq!(report.failed, 0, "{report:?}");
        assert_eq!(cents(&app).await, [3_000]);
        assert_eq!(compare_today(&app).await, 0);
        assert_eq!(reported(&app).await, []);
        app
    })
    .await;
}

/// Moves the only customer's credit as somebody else does; returns the change.
async fn plant(app: &TestApp, cents: i64, metadata: &[(&str, &str)]) -> String {
    app.advance_seconds(1);
    let path = format!("customers/{}/balance_transactions", payer(app).await);
    let entries = metadata.iter().map(|(name, value)| format!("&metadata[{name}]={value}"));
    let form = format!("amount={cents}&currency=usd{}", entries.collect::<String>());
    let made = app.at_processor("POST", &path, &form).await;
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_days_comparison_reports_each_change_of_credit_that_nobody_asked_for() {
    selling(async |app| {
        let intent = credited(&app).await;
        refund(&app, &intent, 3_000).await;
        app.run_jobs().await;
        let own = changes(&app).await[0].clone();
        let named = |name: &str| own["metadata"][name].as_str().unwrap().to_owned();
        let (sale, job) = (named("sale"), named("job"));
        assert_eq!(compare_today(&app).await, 0);

        // Given a copy of ours, one without a cause, and one of another job a day later
        let copied = plant(&app, 3_000, &[("sale", &sale), ("job", &job)]).await;
        let alone = plant(&app, -500, &[]).await;
        assert_eq!(compare_today(&app).await, 2);
        assert_eq!(compare_today(&app).await, 2);
        app.advance_seconds(DAY_S);
        let stranger = plant(&app, 3_000, &[("sale", &sale), ("job", "job_1")]).await;
        let voided = plant(&app, -700, &[("voided_invoice", "in_1")]).await;
        assert_eq!(compare_today(&app).await, 2);

        // Then each is reported, once, and nothing else
        let mut expected = vec![
            (copied, "repeated_credit".to_owned()),
            (alone, "unasked_credit".to_owned()),
            (stranger, "unasked_credit".to_owned()),
            (voided, "unasked_credit".to_owned()),
        ];
        expected.sort();
        assert_eq!(reported(&app).await, expected);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_days_comparison_reports_second_customers_and_subscriptions() {
    selling(async |app| {
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        let first = app.subscription().await;
        assert_eq!(compare_today(&app).await, 0);
        let price = first["items"]["data"][0]["price"]["id"].as_str().unwrap();
        let card = first["default_payment_method"].as_str().unwrap();
        let form = format!(
            "customer={}&items[0][price]={price}&default_payment_method={card}",
            payer(&app).await
        );
        app.advance_seconds(1);
        let second = app.at_processor("POST", "subscriptions", &form).await;
        let named = format!("email=x@example.com&metadata[customer_id]={}", customer.id);
        let double = app.at_processor("POST", "customers", &named).await;
        app.at_processor("POST", "customers", "email=y@example.com").await;

        assert_eq!(compare_today(&app).await, 2);

        let id = |object: &Value| object["id"].as_str().unwrap().to_owned();
        let mut expected = vec![
            (id(&double), "second_customer".to_owned()),
            (id(&second), "second_subscription".to_owned()),
        ];
        expected.sort();
        assert_eq!(reported(&app).await, expected);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_whose_response_was_lost_is_found_a_day_later_and_not_made_twice() {
    for kind in ["error_after", "close_after"] {
        let database = store::testing::store().await;
        let app = TestApp::start(database, &format!("{OFFER}\n[processor]\nretries_max = 0")).await;
        let client = app.with_key(&app.customer(0).await.key);
        let fault = json!({"kind": kind, "method": "POST", "path": "customers", "times": 1});
        app.processor_fault(&fault).await;
        let checkout = json!({"pack_id": "pack_10"});
        let failed = client.post("/v1/billing/checkout", &checkout).await;
        assert!(failed.status >= 500, "{}", failed.text());

        app.advance_seconds(DAY_S + 3_600);
        let begun = client.post("/v1/billing/checkout", &checkout).await;

        assert_eq!(begun.status, 200, "{}", begun.text());
        let made = app.at_processor("GET", "customers?limit=100", "").await;
        assert_eq!(made["data"].as_array().unwrap().len(), 1, "{kind}: {made}");
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_page_of_an_offer_is_closed_before_another_choice_gets_one() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("{OFFER}\n[processor]\nretries_max = 0")).await;
    let client = app.with_key(&app.customer(0).await.key);
    let fault = json!({"kind": "close_after", "method": "POST", "path": "checkout/sessions"});
    app.processor_fault(&fault).await;
    let failed = client.post("/v1/billing/subscribe", &json!({"plan_id": "plan_small"})).await;
    assert!(failed.status >= 500, "{}", failed.text());

    // The page is open for 24 hours, its offer is used for 23.
    app.advance_seconds(23 * 3_600 + 60);
    let other = client.post("/v1/billing/subscribe", &json!({"plan_id": "plan_big"})).await;

    assert_eq!(other.status, 200, "{}", other.text());
    let pages = app.at_processor("GET", "checkout/sessions?limit=100", "").await;
    let states: Vec<&Value> =
        pages["data"].as_array().unwrap().iter().map(|page| &page["status"]).collect();
    assert_eq!(states, ["open", "expired"]);
    app.deliver().await;
    app.end().await;
}
