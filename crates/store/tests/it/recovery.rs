//! Calls that their owner does not settle: after a crash, after their expiry, and when the owner
//! settles them late.

use domain::charge::Outcome;
use domain::id::NodeId;
use domain::time::Timestamp;
use store::calls::{self, RecentCalls};
use store::idempotency::{self, ExistingRequest};
use store::metering::{self, Hold, IdempotencyClaim};
use store::{DatabaseKind, testing};

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, is_held, node};

async fn outcomes(store: &store::Store, caller: &TestCaller) -> Vec<Option<String>> {
    let wanted = RecentCalls::of(caller.customer, 1000);
    let page = calls::recent(store, &wanted).await.unwrap();
    page.calls.into_iter().map(|call| call.outcome).collect()
}

#[tokio::test]
async fn a_start_refunds_calls_that_a_crash_left_open() {
    let mut store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    for cost in [1, 2] {
        assert!(is_held(&metering.hold(caller.hold(cost)).await));
    }
    metering.crash().await;
    store.reopen().await;
    assert_eq!(caller.balance(&store).await.held, credits(3));

    let (restarted, recovery) = TestMetering::recovered(&store, node()).await;

    assert_eq!((recovery.epoch, recovery.refunded), (2, 2));
    assert_eq!(caller.balance(&store).await.available, credits(10));
    assert_eq!(
        outcomes(&store, &caller).await,
        [(); 2].map(|()| Some("outcome_unknown".to_owned()))
    );
    assert!(is_held(&restarted.hold(caller.hold(10)).await));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_start_leaves_other_nodes_calls_open() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(caller.hold(4)).await));

    let other = NodeId::new(NOON, [8; 10]);
    let recovery = metering::recover(&store, other, NOON).await.unwrap();

    // SQLite has only one node, so any earlier process is gone.
    let refunded = match store.database() {
        DatabaseKind::Sqlite => 1,
        DatabaseKind::Postgres => 0,
    };
    assert_eq!((recovery.epoch, recovery.refunded), (1, refunded));
    assert_sound(&store).await;
}

#[tokio::test]
async fn idempotency_keys_of_calls_lost_in_a_crash_report_an_unknown_outcome() {
    let mut store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let claim = IdempotencyClaim {
        key_hash: [1; 32],
        fingerprint: [2; 32],
        identity: None,
        expires_at: NOON.plus_seconds(86_400),
    };
    let hold = Hold { idempotency: Some(claim), ..caller.hold(2) };
    assert!(is_held(&metering.hold(hold.clone()).await));
    metering.crash().await;
    store.reopen().await;

    metering::recover(&store, node(), NOON).await.unwrap();

    let existing =
        idempotency::find(&store, caller.customer, &[1; 32], &[2; 32], NOON).await.unwrap();
    assert_eq!(existing, Some(ExistingRequest::OutcomeUnknown { call: hold.call_id }));
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_sweeper_refunds_only_expired_holds() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let end = NOON.plus_seconds(170);
    let (left, renewed) = (caller.hold(1), caller.hold(2));
    assert!(is_held(&metering.hold(left).await));
    assert!(is_held(&metering.hold(renewed.clone()).await));
    metering.meter.renew(renewed.call_id, end.plus_seconds(60));
    // Later requests are written later.
    assert!(is_held(&metering.hold(caller.hold(0)).await));

    let mut swept = Vec::new();
    for now in [end, end.plus_micros(1), end.plus_seconds(61)] {
        swept.push(testing::take_over(&store, now).await.unwrap().holds);
    }

    assert_eq!(swept, [0, 2, 1]);
    assert_eq!(caller.balance(&store).await.available, credits(10));
    assert_eq!(outcomes(&store, &caller).await, [(); 3].map(|()| Some("expired".to_owned())));
    assert!(is_held(&metering.hold(caller.hold(10)).await), "the balance cache was updated");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_hold_may_be_renewed_before_it_is_written() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let later = NOON.plus_seconds(1000);
    // The writer starts last, so that it finds all requests together.
    let (meter, writer) = metering::start(&store, metering::MeterOptions::new(node(), 1));
    let hold = caller.hold(1);
    let mut reservation = meter.reserve(hold.clone()).await.unwrap();
    meter.renew(hold.call_id, later);
    meter.renew(hold.call_id, NOON);
    drop(meter);
    writer.run().await;
    assert!(is_held(&reservation.durable().await));

    assert_eq!(testing::take_over(&store, later).await.unwrap().holds, 0);
    assert_eq!(testing::take_over(&store, later.plus_micros(1)).await.unwrap().holds, 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn many_expired_holds_are_swept_together() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1200).await;
    let metering = TestMetering::start(&store).await;
    let mut reservations = Vec::new();
    for _ in 0..1100 {
        reservations.push(metering.meter.reserve(caller.hold(1)).await.unwrap());
    }
    for reservation in &mut reservations {
        assert!(is_held(&reservation.durable().await));
    }
    let now = NOON.plus_seconds(1000);

    assert_eq!(testing::take_over(&store, now).await.unwrap().holds, 1_100);

    assert_eq!(caller.balance(&store).await.available, credits(1200));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_swept_call_cannot_be_charged() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(4);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert_eq!(testing::take_over(&store, NOON.plus_seconds(1000)).await.unwrap().holds, 1);

    assert!(!metering.end(hold.call_id, Outcome::Answered).await);

    assert_eq!(caller.balance(&store).await.spent, credits(0));
    assert_eq!(metering.meter.stats().late_resolution_total, 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn concurrent_sweepers_and_owners_settle_every_call_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 200).await;
    let metering = TestMetering::start(&store).await;
    let mut calls = Vec::new();
    for _ in 0..200 {
        let hold = caller.hold(1);
        calls.push((hold.call_id, metering.meter.reserve(hold).await.unwrap()));
    }
    for (_, reservation) in &mut calls {
        assert!(is_held(&reservation.durable().await));
    }
    let late: Timestamp = NOON.plus_seconds(1000);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let shared = (*store).clone();
        tasks.spawn(async move { testing::take_over(&shared, late).await.unwrap().holds });
    }

    let mut charged = 0;
    for (call_id, _) in &calls {
        charged += usize::from(metering.end(*call_id, Outcome::Answered).await);
    }
    let swept: usize = tasks.join_all().await.into_iter().sum();

    assert_eq!(charged + swept, 200);
    let balance = caller.balance(&store).await;
    assert_eq!(balance.spent, credits(i64::try_from(charged).unwrap()));
    assert_sound(&store).await;
}

#[tokio::test]
async fn thousands_of_open_calls_are_refunded_at_start() {
    let mut store = testing::store().await;
    let caller = TestCaller::with(&store, 3000).await;
    let other = TestCaller::with(&store, 3000).await;
    let metering = TestMetering::start(&store).await;
    let mut reservations = Vec::new();
    for number in 0..2600 {
        let owner = if number % 2 == 0 { &caller } else { &other };
        reservations.push(metering.meter.reserve(owner.hold(1)).await.unwrap());
    }
    for reservation in &mut reservations {
        assert!(is_held(&reservation.durable().await));
    }
    metering.crash().await;
    store.reopen().await;

    let recovery = metering::recover(&store, node(), NOON).await.unwrap();

    assert_eq!(recovery.refunded, 2600);
    assert_eq!(caller.balance(&store).await.available, credits(3000));
    assert_sound(&store).await;
}
