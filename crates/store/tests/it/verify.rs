//! The checks detect violations: every rule is broken once.

use domain::charge::Outcome;
use store::metering::{CallResolution, Hold, IdempotencyClaim};
use store::{idempotency, testing, verify};

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, is_held, resolution};

/// A database with a settled call, an open one, and a stored response.
async fn used(store: &store::Store) {
    let caller = TestCaller::with(store, 100).await;
    let metering = TestMetering::start(store).await;
    let claim = IdempotencyClaim {
        key_hash: [1; 32],
        fingerprint: [2; 32],
        identity: None,
        expires_at: NOON.plus_seconds(60),
    };
    let hold = Hold { idempotency: Some(claim), ..caller.hold(2) };
    assert!(is_held(&metering.hold(hold.clone()).await));
    let answer = idempotency::StoredAnswer { status: 200, sealed: vec![1] };
    let end =
        CallResolution { answer: Some(answer), ..resolution(hold.call_id, Outcome::Answered) };
    assert!(metering.meter.resolve(end).await);
    assert!(is_held(&metering.hold(caller.hold(3)).await));
    metering.stop().await;
    assert_sound(store).await;
    testing::add_up_usage(store).await.unwrap();
    assert_sound(store).await;
}

/// Damages a used database and returns the rules that are then violated.
async fn broken_by(sql: &'static str) -> Vec<&'static str> {
    let store = testing::store().await;
    used(&store).await;
    assert_ne!(testing::run_raw(&store, sql).await.unwrap(), 0, "{sql}");
    let violations = verify::check(&store, NOON).await.unwrap();
    assert!(violations.iter().all(|violation| !violation.subject.is_empty()));
    violations.into_iter().map(|violation| violation.rule).collect()
}

#[tokio::test]
async fn credits_held_without_a_call_are_detected() {
    let sql = "update customer_credits set held = held + 1, available = available - 1";
    let rules = broken_by(sql).await;
    assert_eq!(rules, ["a customer's held credits equal the cost of its open calls and exports"]);
}

#[tokio::test]
async fn credits_spent_without_a_call_are_detected() {
    let sql = "update customer_credits set spent = spent + 1, available = available - 1";
    let rules = broken_by(sql).await;
    assert_eq!(
        rules,
        ["a customer's spent credits equal the charges of its settled calls and exports"]
    );
}

#[tokio::test]
async fn credits_granted_without_a_ledger_entry_are_detected() {
    let sql = "update customer_credits set granted = granted + 1, available = available + 1";
    let rules = broken_by(sql).await;
    assert_eq!(
        rules,
        [
            "a customer's credits granted and removed equal the sum of its ledger",
            "the credits left and spent in a customer's lots equal its available, spent and held credits less its debt",
        ]
    );
}

#[tokio::test]
async fn a_lost_call_is_detected() {
    let rules = broken_by("delete from ended_calls where charged = 1").await;
    assert_eq!(
        rules,
        [
            "a customer's spent credits equal the charges of its settled calls and exports",
            "an Idempotency-Key is running exactly while its call is open",
            "usage by day counts every settled call once",
            "usage by endpoint counts every settled call once",
        ]
    );
}

#[tokio::test]
async fn a_call_in_both_tables_and_a_missing_word_are_detected() {
    let twice = "
        insert into ended_calls (id, customer, key, account, platform, method, route, outcome, node, path, cost,
            charged, request, request_text, epoch, held_at, lasted)
        select id, customer, key, account, platform, method, route,
            (select number from words where word = 'answered'), node, path, 0, 1, request, request_text, epoch,
            held_at, 0
        from open_calls";
    let rules = broken_by(twice).await;
    let damaged = "a call is open or has ended, and all its words are known";
    let counts = [
        "usage by day counts every settled call once",
        "usage by endpoint counts every settled call once",
    ];
    assert_eq!(rules, [damaged, counts[0], counts[1]]);
    let nameless = broken_by("delete from words where word like 'node%'").await;
    assert_eq!(nameless, [damaged, damaged]);
}

#[tokio::test]
async fn wrong_usage_counts_are_detected() {
    let day = "
        insert into usage_daily (customer_id, key_id, day, calls, credits, ok, errors)
        select customer_id, key_id, 20000, 1, 0, 1, 0 from usage_by_day";
    let rules = broken_by(day).await;
    assert_eq!(rules, ["usage by day counts every settled call once"]);
    let route = "
        insert into usage_routes (customer_id, key_id, day, creator_id, platform, method, route, calls, errors,
            last_status, last_at)
        select customer_id, key_id, 20000, creator_id, platform, method, route, 1, 0, last_status, last_at
        from usage_by_route";
    let of_routes = broken_by(route).await;
    assert_eq!(of_routes, ["usage by endpoint counts every settled call once"]);
}

#[tokio::test]
async fn a_lost_new_call_is_detected() {
    let store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(2);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.meter.resolve(resolution(hold.call_id, Outcome::Answered)).await);
    metering.stop().await;
    assert_sound(&store).await;
    assert_eq!(testing::run_raw(&store, "delete from new_calls").await.unwrap(), 1);

    let violations = verify::check(&store, NOON).await.unwrap();

    let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    let expected = "a customer's spent credits equal the charges of its settled calls and exports";
    assert_eq!(rules, [expected]);
}

#[tokio::test]
async fn a_lost_response_is_detected() {
    let rules = broken_by("update idempotency set answer = null").await;
    assert_eq!(rules, ["a response is stored exactly when its state says so"]);
    let running = broken_by("update idempotency set answer_state = 'running', answer = null").await;
    assert_eq!(running, ["an Idempotency-Key is running exactly while its call is open"]);
}

#[tokio::test]
async fn a_hold_long_after_its_expiry_is_detected() {
    let store = testing::store().await;
    used(&store).await;
    let expiry = NOON.plus_seconds(170);

    let in_time = verify::check(&store, expiry.plus_seconds(30)).await.unwrap();
    let late = verify::check(&store, expiry.plus_seconds(31)).await.unwrap();

    assert_eq!(in_time, []);
    assert_eq!(late[0].rule, "no call is held long after its expiry");
}

#[tokio::test]
async fn a_balance_that_does_not_add_up_cannot_be_stored() {
    let store = testing::store().await;
    used(&store).await;

    for sql in [
        "update customer_credits set available = available + 1",
        "update customer_credits set available = -1, held = held + available + 1",
        "update open_calls set cost = -1",
    ] {
        assert!(testing::run_raw(&store, sql).await.is_err(), "{sql}");
    }
}
