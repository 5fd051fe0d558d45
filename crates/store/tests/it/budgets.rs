//! Budgets of keys: never exceeded by concurrent calls, restored by refunds, renewed each UTC
//! month.

use domain::charge::Outcome;
use domain::time::Timestamp;
use store::keys::NewKey;
use store::metering::{self, Hold, HoldOutcome, MeterOptions};
use store::{Store, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, create_key, credits, fresh_secret, is_held,
    new_key, node, resolution, unique,
};

/// The first instant of the month after `NOON`'s.
const NEXT_MONTH: &str = "2026-12-01T00:00:00Z";

/// A caller with plenty of credits, using an additional key with this monthly budget.
async fn limited(store: &Store, budget: i64) -> TestCaller {
    let owner = TestCaller::with(store, 10_000).await;
    let key = NewKey { monthly_budget: Some(credits(budget)), ..new_key(fresh_secret()) };
    create_key(store, owner.customer, &key).await;
    TestCaller { key: key.id, key_hash: key.secret.hash, ..owner }
}

fn next_month() -> Timestamp {
    Timestamp::from_rfc3339(NEXT_MONTH).unwrap()
}

/// The (budget, used) of a refused hold.
fn exhausted(outcome: &HoldOutcome) -> (i64, i64) {
    match outcome {
        HoldOutcome::BudgetExhausted { budget, used, resets_at } => {
            assert_eq!(*resets_at, next_month());
            (budget.whole(), used.whole())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_holds_spend_a_budget_exactly() {
    let store = testing::store().await;
    let caller = limited(&store, 10).await;
    let other_node = domain::id::NodeId::new(NOON, unique());
    let mut nodes = vec![TestMetering::start(&store).await];
    if store.database() == store::DatabaseKind::Postgres {
        nodes.push(TestMetering::recovered(&store, other_node).await.0);
    }
    let mut waiting = Vec::new();
    for number in 0..1_000 {
        let meter = &nodes[number % nodes.len()].meter;
        waiting.push(meter.reserve(caller.hold(1)).await.unwrap());
    }

    let mut outcomes = Vec::new();
    for mut reservation in waiting {
        outcomes.push(reservation.durable().await);
    }

    let (held, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(is_held);
    assert_eq!((held.len(), refused.len()), (10, 990));
    assert!(refused.iter().all(|outcome| exhausted(outcome) == (10, 10)));
    let balance = caller.balance(&store).await;
    assert_eq!((balance.available, balance.held), (credits(9_990), credits(10)));
    assert_sound(&store).await;
}

#[tokio::test]
async fn refunded_credits_return_to_the_budget_and_charged_ones_do_not() {
    let store = testing::store().await;
    let caller = limited(&store, 5).await;
    let metering = TestMetering::start(&store).await;
    let (one, other) = (caller.hold(2), caller.hold(3));
    assert!(is_held(&metering.hold(one.clone()).await));
    assert!(is_held(&metering.hold(other.clone()).await));
    assert_eq!(exhausted(&metering.hold(caller.hold(1)).await), (5, 5));

    metering.end(one.call_id, Outcome::UpstreamTimeout).await;
    metering.end(other.call_id, Outcome::Answered).await;

    assert_eq!(exhausted(&metering.hold(caller.hold(3)).await), (5, 3));
    assert!(is_held(&metering.hold(caller.hold(2)).await));
    assert_eq!(exhausted(&metering.hold(caller.hold(1)).await), (5, 5));
    assert_sound(&store).await;
}

/// A call that is settled in the same transaction in which another is held is in no sum yet.
#[tokio::test]
async fn calls_settled_in_the_same_transaction_count() {
    let store = testing::store().await;
    let caller = limited(&store, 3).await;
    let first = TestMetering::start(&store).await;
    let (charged, refunded) = (caller.hold(1), caller.hold(2));
    assert!(is_held(&first.hold(charged.clone()).await));
    assert!(is_held(&first.hold(refunded.clone()).await));
    first.stop().await;
    let (meter, writer) = metering::start(&store, MeterOptions::new(node(), 1));
    let ends = [
        meter.resolve(resolution(charged.call_id, Outcome::Answered)),
        meter.resolve(resolution(refunded.call_id, Outcome::ConnectFailed)),
    ];
    let mut asked = Vec::new();
    for cost in [3, 2, 1] {
        asked.push(meter.reserve(caller.hold(cost)).await.unwrap());
    }
    drop(meter);

    writer.run().await;

    let [too_much, fits, one_more] = &mut asked[..] else { panic!("three holds were requested") };
    assert_eq!(exhausted(&too_much.durable().await), (3, 1));
    assert!(is_held(&fits.durable().await));
    assert_eq!(exhausted(&one_more.durable().await), (3, 3));
    drop(ends);
    assert_sound(&store).await;
}

#[tokio::test]
async fn each_month_has_its_own_budget() {
    let store = testing::store().await;
    let caller = limited(&store, 4).await;
    let metering = TestMetering::start(&store).await;
    let last = next_month().plus_micros(-1);
    let at = |held_at: Timestamp| Hold { held_at, ..caller.hold(4) };

    assert!(is_held(&metering.hold(at(NOON)).await));
    assert_eq!(exhausted(&metering.hold(at(last)).await), (4, 4));

    assert!(is_held(&metering.hold(at(next_month())).await));
}

#[tokio::test]
async fn an_exhausted_budget_does_not_limit_other_keys() {
    let store = testing::store().await;
    let owner = TestCaller::with(&store, 100).await;
    let key = NewKey { monthly_budget: Some(credits(0)), ..new_key(fresh_secret()) };
    create_key(&store, owner.customer, &key).await;
    let broke = TestCaller { key: key.id, key_hash: key.secret.hash, ..owner.clone() };
    let metering = TestMetering::start(&store).await;

    assert_eq!(exhausted(&metering.hold(broke.hold(1)).await), (0, 0));
    assert!(is_held(&metering.hold(broke.hold(0)).await), "a free call needs no budget");
    assert!(is_held(&metering.hold(owner.hold(90)).await));
}
