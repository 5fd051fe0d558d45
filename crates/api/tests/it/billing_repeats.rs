//! Purchases and changes of a subscription with an `Idempotency-Key`: made once, whatever fails in
//! between.

use serde_json::{Value, json};
use store::testing::run_raw;
use test_service::processor::{PACK, PACK_CREDITS, balance};
use test_service::subscriber::{BIG_PLAN, GOOD_CARD, PLAN, selling, slots_on};
use test_service::{Client, Reply, TestApp, at_once, with_app};

const ALPHA: &str = "platform_alpha";
const BETA: &str = "platform_beta";
/// The state left by a node that stops before it has recorded how a request ended.
const DIED: &str = "
    update own_requests set state = 'running', leased_until = 0, permissions = null, status = null, answer = null";

fn is_replay(reply: &Reply) -> bool {
    reply.header("idempotent-replayed") == "true"
}

async fn set(client: &Client, count: i64) -> Reply {
    client.post("/v1/billing/slots", &json!({"platform": ALPHA, "count": count})).await
}

async fn switch(client: &Client) -> Reply {
    client.post("/v1/billing/slots/switch", &json!({"from": ALPHA, "to": BETA})).await
}

/// The extra slots on `platform_alpha` and `platform_beta`.
async fn counts(client: &Client) -> (i64, i64) {
    let slots = client.get("/v1/billing/slots").await.json();
    let count = |platform| slots_on(&slots, platform)["count"].as_i64().unwrap();
    (count(ALPHA), count(BETA))
}

/// A subscriber with three extra slots on `platform_alpha`, and a client with an `Idempotency-Key`.
async fn with_slots(app: &TestApp) -> Client {
    let (_, client) = app.subscriber(GOOD_CARD).await;
    assert_eq!(set(&client, 3).await.status, 200);
    client.with("idempotency-key", "once")
}

async fn go_wrong(app: &TestApp, kind: &str, times: u32) {
    let switch =
        json!({"kind": kind, "method": "POST", "path": "subscriptions/{id}", "times": times});
    app.control("switches", switch).await;
}

/// A killed process leaves its lease on the change. On SQLite no other process can hold it; on
/// PostgreSQL another node may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_change_left_by_a_killed_process_resumes_at_the_next_start() {
    const LEASED: &str = "update slot_changes set leased_until = created_at + 3600000000, leased_by = 'node_1' where state = 'open'";
    selling(async |mut app| {
        app.stop_service().await;
        let impatient = |config: &mut settings::Config| {
            (config.processor.timeout_ms, config.processor.retries_max) = (500, 0);
        };
        app.start_service(impatient).await.unwrap();
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        let client = app.with_key(&customer.key).with("idempotency-key", "once");
        go_wrong(&app, "hang_before", 1).await;

        let open = set(&client, 2).await;
        assert_eq!(run_raw(app.store(), LEASED).await.unwrap(), 1);
        let is_sqlite = app.store().database() == store::DatabaseKind::Sqlite;
        app.stop_service().await;
        app.start_service(impatient).await.unwrap();
        let again = app.with_key(&customer.key).with("idempotency-key", "once");
        let made = set(&again, 2).await;

        assert_eq!(open.failure(), (504, "change_outcome_unknown".to_owned()));
        assert_eq!(made.status, if is_sqlite { 200 } else { 504 }, "{}", made.text());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_switch_moves_one_slot() {
    selling(async |app| {
        let client = with_slots(&app).await;

        let first = switch(&client).await;
        let again = switch(&client).await;
        let at_the_same_time = at_once((0..5).map(|_| {
            let client = client.clone();
            async move { switch(&client).await }
        }))
        .await;

        assert_eq!((first.status, is_replay(&first)), (200, false), "{}", first.text());
        assert_eq!((is_replay(&again), &again.body), (true, &first.body), "{}", again.text());
        assert!(at_the_same_time.iter().all(|reply| reply.body == first.body));
        assert_eq!(counts(&client).await, (2, 1));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_switches_with_one_key_move_one_slot() {
    selling(async |app| {
        let client = with_slots(&app).await;

        let replies = at_once((0..8).map(|_| {
            let client = client.clone();
            async move { switch(&client).await }
        }))
        .await;

        let done = replies.iter().filter(|reply| reply.status == 200 && !is_replay(reply)).count();
        assert_eq!(done, 1);
        for reply in replies.iter().filter(|reply| reply.status != 200) {
            assert_eq!(reply.failure(), (409, "idempotency_in_progress".to_owned()));
        }
        assert_eq!(counts(&client).await, (2, 1));
        app.deliver().await;
        app
    })
    .await;
}

/// The change has the same id in every attempt at the request, so that a change already made is
/// found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_whose_result_was_lost_in_a_crash_is_found_and_not_repeated() {
    selling(async |app| {
        let client = with_slots(&app).await;
        assert_eq!(switch(&client).await.status, 200);
        assert_eq!(run_raw(app.store(), DIED).await.unwrap(), 1);

        let again = switch(&client).await;
        let repeated = switch(&client).await;

        assert_eq!((again.status, is_replay(&again)), (200, false), "{}", again.text());
        assert!(is_replay(&repeated));
        assert_eq!(counts(&client).await, (2, 1));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_continues_a_switch_of_unknown_outcome() {
    selling(async |app| {
        let client = with_slots(&app).await;
        go_wrong(&app, "error_before", 3).await;
        let unknown = switch(&client).await;
        let other = client.post("/v1/billing/slots", &json!({"platform": BETA, "count": 1})).await;
        assert_eq!(unknown.failure(), (504, "change_outcome_unknown".to_owned()));
        assert_eq!(unknown.header("x-should-retry"), "true");
        assert_eq!(other.failure(), (422, "idempotency_mismatch".to_owned()));

        app.advance_seconds(20);
        let continued = switch(&client).await;
        let repeated = switch(&client).await;

        assert_eq!((continued.status, is_replay(&continued)), (200, false), "{}", continued.text());
        assert!(is_replay(&repeated), "{}", repeated.text());
        assert_eq!(counts(&client).await, (2, 1));
        app.deliver().await;
        app
    })
    .await;
}

/// The same if a request without the key has continued the change in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_completed_in_the_meantime_is_not_repeated() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        assert_eq!(set(&client, 3).await.status, 200);
        let keyed = client.with("idempotency-key", "once");
        go_wrong(&app, "error_before", 3).await;
        assert_eq!(switch(&keyed).await.failure(), (504, "change_outcome_unknown".to_owned()));
        app.advance_seconds(20);
        assert_eq!(switch(&client).await.status, 200);
        assert_eq!(counts(&client).await, (2, 1));

        let found = switch(&keyed).await;

        assert_eq!(found.status, 200, "{}", found.text());
        assert_eq!(counts(&client).await, (2, 1));
        app.deliver().await;
        app
    })
    .await;
}

/// Repeating a switch that was made would move another slot; repeating a number of slots would not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_a_switch_of_unknown_outcome_must_not_be_repeated() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        assert_eq!(set(&client, 3).await.status, 200);
        for (moves, hint) in [(true, "false"), (false, "true")] {
            go_wrong(&app, "error_before", 3).await;

            let unknown = if moves { switch(&client).await } else { set(&client, 4).await };

            assert_eq!(unknown.failure(), (504, "change_outcome_unknown".to_owned()));
            assert_eq!(unknown.header("x-should-retry"), hint, "{}", unknown.text());
            app.advance_seconds(20);
            let ended = if moves { switch(&client).await } else { set(&client, 4).await };
            assert_eq!(ended.status, 200, "{}", ended.text());
        }
        assert_eq!(counts(&client).await, (4, 1));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_raise_frees_its_key() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let keyed = client.with("idempotency-key", "once");
        app.control("declines", json!({"codes": ["insufficient_funds"]})).await;

        let declined = set(&keyed, 1).await;
        let done = set(&keyed, 1).await;
        let again = set(&keyed, 1).await;

        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()), "{}", declined.text());
        assert_eq!((done.status, is_replay(&done)), (200, false), "{}", done.text());
        assert!(is_replay(&again));
        assert_eq!(counts(&client).await, (1, 0));
        app.deliver().await;
        app
    })
    .await;
}

fn pack() -> Value {
    json!({"pack_id": PACK})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_is_replayed_and_is_the_same_purchase_even_after_a_day() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        let keyed = client.with("idempotency-key", "once");

        let first = keyed.post("/v1/billing/charge", &pack()).await;
        let again = keyed.post("/v1/billing/charge", &pack()).await;
        assert_eq!(run_raw(app.store(), DIED).await.unwrap(), 1);
        let after_a_death = keyed.post("/v1/billing/charge", &pack()).await;
        app.advance_seconds(86_400);
        let next_day = keyed.post("/v1/billing/charge", &pack()).await;

        assert_eq!((first.status, is_replay(&first)), (200, false), "{}", first.text());
        assert_eq!((is_replay(&again), again.json()), (true, first.json()));
        for later in [&after_a_death, &next_day] {
            assert_eq!((later.json(), is_replay(later)), (first.json(), false));
        }
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        assert_eq!(app.asked("POST", "payment_intents").await.len(), 1);
        app.deliver().await;
        app
    })
    .await;
}

/// The address of a page works only while the page is open, or only once, so a repetition requests
/// it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_the_processor_are_requested_again_and_not_replayed() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let (subscribe, choice) = ("/v1/billing/subscribe", json!({"plan_id": PLAN}));
        let keyed = client.with("idempotency-key", "once");
        let page = keyed.post(subscribe, &choice).await;
        let again = keyed.post(subscribe, &choice).await;
        let other = keyed.post(subscribe, &json!({"plan_id": BIG_PLAN})).await;
        app.pay(&page, GOOD_CARD).await;
        app.deliver().await;
        let paid = keyed.post(subscribe, &choice).await;

        assert_eq!((page.status, &page.body), (200, &again.body), "{}", page.text());
        assert!(!is_replay(&again));
        assert_eq!(other.failure(), (422, "idempotency_mismatch".to_owned()));
        assert_eq!(paid.failure(), (409, "already_subscribed".to_owned()));
        let portal = client.with("idempotency-key", "portal");
        let one = portal.send("POST", "/v1/billing/portal", None).await;
        let another = portal.send("POST", "/v1/billing/portal", None).await;
        assert_eq!((one.status, another.status), (200, 200), "{}", one.text());
        assert_ne!(one.json()["url"], another.json()["url"]);
        assert!(!is_replay(&another));
        app
    })
    .await;
}

/// Another key gets the ids of the pending charge, and no reason to retry in a loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_charge_is_named_to_other_keys_and_is_not_retryable() {
    with_app(async |app| {
        let (_, client) = app.with_card("4000002760003184").await;
        let other = client.with("idempotency-key", "other");
        let keyed = client.with("idempotency-key", "once");
        let asked = keyed.post("/v1/billing/charge", &pack()).await.json();
        assert_eq!(asked["status"], "requires_action", "{asked}");

        let young = other.post("/v1/billing/charge", &pack()).await;
        app.advance_seconds(10);
        let waits = other.post("/v1/billing/charge", &pack()).await;

        for (refused, retryable) in [(&young, true), (&waits, false)] {
            assert_eq!(refused.failure(), (409, "change_in_progress".to_owned()));
            let body = refused.json();
            for field in ["order_id", "pi_id", "expires_at"] {
                assert_eq!(body[field], asked[field], "{body}");
            }
            assert_eq!(body["retryable"], retryable, "{body}");
            assert_eq!(refused.header("x-should-retry"), retryable.to_string());
            assert!(body["detail"].as_str().unwrap().contains(asked["order_id"].as_str().unwrap()));
        }
        assert_eq!(young.header("retry-after"), "1");
        assert_eq!(waits.header("retry-after"), "");
        // As the detail says: without a key the charge is continued, and confirming it ends it.
        assert!(waits.text().contains("without an `Idempotency-Key`"), "{}", waits.text());
        let continued = client.post("/v1/billing/charge", &pack()).await.json();
        assert_eq!(continued["client_secret"], asked["client_secret"]);
        app.authenticate(asked["pi_id"].as_str().unwrap(), true).await;
        let confirm = json!({"pi_id": asked["pi_id"]});
        let confirmed = client.post("/v1/billing/confirm-charge", &confirm).await.json();
        assert_eq!(confirmed["status"], "paid", "{confirmed}");
        let next = other.post("/v1/billing/charge", &pack()).await.json();
        assert_ne!(next["order_id"], asked["order_id"], "{next}");
        app.deliver().await;
        app
    })
    .await;
}

/// A client secret is never stored, and a repetition returns the current state of the payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_of_a_pending_charge_returns_its_current_state() {
    with_app(async |app| {
        let (_, client) = app.with_card("4000002760003184").await;
        let keyed = client.with("idempotency-key", "once");
        let asked = keyed.post("/v1/billing/charge", &pack()).await;
        let again = keyed.post("/v1/billing/charge", &pack()).await;
        assert_eq!((asked.json(), is_replay(&again)), (again.json(), false));
        let stored = "delete from own_requests where answer is not null";
        assert_eq!(run_raw(app.store(), stored).await.unwrap(), 0);
        let body = asked.json();
        let intent = body["pi_id"].as_str().unwrap();

        let confirming = client.with("idempotency-key", "confirm");
        let confirm = json!({"pi_id": intent});
        let early = confirming.post("/v1/billing/confirm-charge", &confirm).await;
        app.authenticate(intent, true).await;
        let confirmed = confirming.post("/v1/billing/confirm-charge", &confirm).await;
        let repeated = confirming.post("/v1/billing/confirm-charge", &confirm).await;
        let paid = keyed.post("/v1/billing/charge", &pack()).await;

        assert_eq!(early.json()["requires_action"], true, "{}", early.text());
        assert_eq!((&confirmed.json()["ok"], is_replay(&confirmed)), (&json!(true), false));
        assert_eq!((is_replay(&repeated), repeated.json()), (true, confirmed.json()));
        assert_eq!((paid.json(), is_replay(&paid)), (confirmed.json(), false));
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app.deliver().await;
        app
    })
    .await;
}
