//! An upgrade while a downgrade is pending needs up to three requests. Whatever fails between them,
//! the result is one change, paid once, or no change at all.
#![expect(clippy::large_futures, reason = "each test has its own stack")]

use serde_json::{Value, json};
use test_service::app::Customer;
use test_service::subscriber::{
    BIG_PLAN, GOOD_CARD, MID_PLAN, PLAN, choose, plans_of, selling_three, subscription_of,
};
use test_service::{Client, TestApp};

/// A subscriber to the middle plan with the small one pending.
async fn with_pending(app: &TestApp) -> (Customer, Client) {
    let (customer, client) = app.subscriber_of(json!({"plan_id": MID_PLAN}), GOOD_CARD).await;
    assert_eq!(choose(&client, PLAN).await.status, 200);
    app.deliver().await;
    (customer, client)
}

/// Makes `times` requests that change a subscription fail, after the first `after` of them.
async fn go_wrong(app: &TestApp, kind: &str, after: u32, times: u32) {
    let path = "subscriptions/{id}";
    let switch =
        json!({"kind": kind, "method": "POST", "path": path, "after": after, "times": times});
    app.control("switches", switch).await;
}

/// The change in progress.
async fn open_change(client: &Client) -> Value {
    client.get("/v1/billing/slots").await.json()["change"].clone()
}

/// Stops the service and starts it again; some minutes later the background work resumes open
/// changes.
async fn crash(app: &mut TestApp) {
    app.stop_service().await;
    app.mend_processor().await;
    app.start_service(|_| {}).await.unwrap();
    app.advance_seconds(300);
    app.running().look_after_subscriptions().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_upgrade_keeps_the_pending_plan() {
    selling_three(async |app| {
        let (_, client) = with_pending(&app).await;
        let before = subscription_of(&client).await;
        app.decline(1).await;

        let declined = choose(&client, BIG_PLAN).await;

        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()));
        assert_eq!(subscription_of(&client).await, before);
        assert_eq!(open_change(&client).await, Value::Null);
        assert_eq!(app.prorations_asked().await, ["none", "none", "always_invoice", "none"]);
        app.deliver().await;
        assert_eq!(plans_of(&client).await, (json!(MID_PLAN), json!(PLAN)));
        assert_eq!(app.invoices().await.len(), 1);
        assert_eq!(choose(&client, BIG_PLAN).await.status, 200);
        app.deliver().await;
        app
    })
    .await;
}

/// Each case: the request at which the crash happens, and how the processor fails it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_interrupted_at_any_request_is_completed_once() {
    for (kind, after) in
        [("error_before", 0), ("close_after", 0), ("error_before", 1), ("close_after", 1)]
    {
        selling_three(async |mut app| {
            let (customer, before) = with_pending(&app).await;
            go_wrong(&app, kind, after, 3).await;

            let cut_off = choose(&before, BIG_PLAN).await;
            crash(&mut app).await;

            let client = app.with_key(&customer.key);
            let ended = (200, (504, "change_outcome_unknown".to_owned()));
            if cut_off.status != ended.0 {
                assert_eq!(cut_off.failure(), ended.1, "{kind} {after}: {}", cut_off.text());
            }
            assert_eq!(
                plans_of(&client).await,
                (json!(BIG_PLAN), json!(BIG_PLAN)),
                "{kind} {after}"
            );
            assert_eq!(open_change(&client).await, Value::Null);
            let invoices = app.invoices().await;
            assert_eq!(invoices.len(), 2, "{kind} {after}: paid once");
            assert_eq!(invoices[0]["total"], 5_000);
            app.deliver().await;
            app
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_plan_that_could_not_be_restored_is_restored_after_a_crash() {
    for kind in ["error_before", "hang_before"] {
        selling_three(async |mut app| {
            if kind == "hang_before" {
                app.stop_service().await;
                app.start_service(|config| {
                    (config.processor.timeout_ms, config.processor.retries_max) = (500, 0);
                })
                .await
                .unwrap();
            }
            let (customer, before) = with_pending(&app).await;
            app.decline(1).await;
            go_wrong(&app, kind, 2, 3).await;

            let declined = choose(&before, BIG_PLAN).await;
            let (meanwhile, open) = (plans_of(&before).await, open_change(&before).await);
            let other = choose(&before, PLAN).await;
            crash(&mut app).await;

            let client = app.with_key(&customer.key);
            assert_eq!(declined.failure(), (402, "payment_failed".to_owned()), "{kind}");
            assert_eq!((&meanwhile.0, &open["kind"]), (&json!(MID_PLAN), &json!("plan")));
            assert_eq!(other.failure(), (409, "change_in_progress".to_owned()));
            assert_eq!(plans_of(&client).await, (json!(MID_PLAN), json!(PLAN)), "{kind}");
            assert_eq!(open_change(&client).await, Value::Null);
            assert_eq!(app.invoices().await.len(), 1);
            app.deliver().await;
            app
        })
        .await;
    }
}

/// The processor may be unavailable for a day; then the request is not sent again, and the pending
/// plan is restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_never_made_is_given_up_after_a_day_and_the_pending_plan_is_restored() {
    selling_three(async |app| {
        let (_, client) = with_pending(&app).await;
        go_wrong(&app, "error_before", 1, 3).await;
        let unknown = choose(&client, BIG_PLAN).await;
        app.advance_seconds(24 * 3_600);

        app.running().look_after_subscriptions().await;

        assert_eq!(unknown.failure(), (504, "change_outcome_unknown".to_owned()));
        assert_eq!(plans_of(&client).await, (json!(MID_PLAN), json!(PLAN)));
        assert_eq!(open_change(&client).await, Value::Null);
        assert_eq!(app.invoices().await.len(), 1);
        app.deliver().await;
        app
    })
    .await;
}
