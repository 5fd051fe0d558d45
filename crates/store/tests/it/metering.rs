//! Holds and settlements of calls: what is granted, refused, charged and refunded.

use std::time::Duration;

use domain::charge::{CallState, Outcome};
use domain::id::CallId;
use store::Store;
use store::calls::{self, RecentCalls};
use store::metering::{BatchReport, Hold, HoldOutcome, HoldRefusal, MeterOptions};
use store::{keys, testing};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, credits, entry, grant, is_held, node, removal,
    resolution, unique, unnoted,
};

#[tokio::test]
async fn an_answered_call_is_charged_and_logged() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(3);

    let outcome = metering.hold(hold.clone()).await;
    let ended = metering.end(hold.call_id, Outcome::Answered).await;

    assert!(
        matches!(outcome, HoldOutcome::Held { balance } if balance == credits(7)),
        "{outcome:?}"
    );
    assert!(ended);
    let balance = caller.balance(&store).await;
    assert_eq!(
        (balance.available, balance.held, balance.spent),
        (credits(7), credits(0), credits(3))
    );
    let page = calls::recent(&store, &all_calls(&caller)).await.unwrap();
    let [call] = page.calls.as_slice() else { panic!("{page:?}") };
    assert_eq!(
        (call.id, call.state, call.credits),
        (hold.call_id, CallState::Settled, Some(credits(3)))
    );
    assert_eq!((call.status, call.outcome.as_deref()), (Some(200), Some("answered")));
    assert_eq!(
        (call.request.clone(), call.path.as_str(), call.duration_ms),
        (hold.request_id, "users/me", Some(7))
    );
    assert_sound(&store).await;
}

#[tokio::test]
async fn every_other_outcome_is_refunded() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;

    for outcome in Outcome::ALL.iter().filter(|outcome| !outcome.is_charged()) {
        let hold = caller.hold(4);
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.end(hold.call_id, *outcome).await);
    }

    let balance = caller.balance(&store).await;
    assert_eq!(
        (balance.available, balance.held, balance.spent),
        (credits(10), credits(0), credits(0))
    );
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_call_is_settled_only_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(4);
    assert!(is_held(&metering.hold(hold.clone()).await));

    assert!(metering.end(hold.call_id, Outcome::UpstreamTimeout).await);
    assert!(!metering.end(hold.call_id, Outcome::Answered).await);

    assert_eq!(caller.balance(&store).await.available, credits(10));
    assert_eq!(metering.meter.stats().late_resolution_total, 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn two_settlements_in_one_batch_count_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(4);
    assert!(is_held(&metering.hold(hold.clone()).await));

    let first = metering.meter.resolve(resolution(hold.call_id, Outcome::Answered));
    let second = metering.meter.resolve(resolution(hold.call_id, Outcome::BadResponse));

    assert_eq!((first.await, second.await), (true, false));
    assert_eq!(caller.balance(&store).await.spent, credits(4));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_hold_and_its_settlement_may_share_a_batch() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;

    let mut waiting = Vec::new();
    for _ in 0..40 {
        let hold = caller.hold(2);
        let reservation = metering.meter.reserve(hold.clone()).await.unwrap();
        let ended = metering.meter.resolve(resolution(hold.call_id, Outcome::Answered));
        waiting.push((reservation, ended));
    }
    for (mut reservation, ended) in waiting {
        assert!(is_held(&reservation.durable().await));
        assert!(ended.await);
    }

    let balance = caller.balance(&store).await;
    assert_eq!(
        (balance.available, balance.held, balance.spent),
        (credits(20), credits(0), credits(80))
    );
    assert_sound(&store).await;
}

#[tokio::test]
async fn settling_a_call_that_was_never_held_changes_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;

    let ended = metering.end(CallId::new(NOON, unique()), Outcome::Answered).await;

    assert!(!ended);
    assert_eq!(caller.balance(&store).await.available, credits(5));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_thousand_concurrent_calls_spend_one_credit_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1).await;
    let metering = TestMetering::start(&store).await;

    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (meter, hold) = (metering.meter.clone(), caller.hold(1));
        tasks.spawn(async move {
            match meter.reserve(hold).await {
                Ok(mut reservation) => reservation.durable().await,
                Err(HoldRefusal::Insufficient { balance }) => HoldOutcome::Insufficient { balance },
                Err(refusal) => panic!("{refusal:?}"),
            }
        });
    }
    let outcomes = tasks.join_all().await;

    let held = outcomes.iter().filter(|outcome| is_held(outcome)).count();
    let refused = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, HoldOutcome::Insufficient { .. }))
        .count();
    assert_eq!((held, refused), (1, 999));
    assert_eq!(caller.balance(&store).await.available, credits(0));
    assert_sound(&store).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn two_nodes_on_one_database_share_one_balance() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let other = Store::open(store.options()).await.unwrap();
    let first = TestMetering::start(&store).await;
    let (second, _) = TestMetering::recovered(&other, domain::id::NodeId::new(NOON, [8; 10])).await;

    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let meter = if number % 2 == 0 { first.meter.clone() } else { second.meter.clone() };
        let hold = caller.hold(1);
        tasks.spawn(async move { meter.reserve(hold).await.unwrap().durable().await });
    }
    let outcomes = tasks.join_all().await;

    assert_eq!(outcomes.iter().filter(|outcome| is_held(outcome)).count(), 10);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_the_hold() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(caller.hold(1)).await));

    assert!(
        keys::revoke(&store, caller.customer, caller.key, &entry(caller.customer)).await.unwrap()
    );

    let outcome = metering.hold(caller.hold(1)).await;
    assert!(matches!(outcome, HoldOutcome::KeyRefused), "{outcome:?}");
    // The refused hold's reservation has been returned.
    assert_eq!(caller.balance(&store).await.available, credits(4));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_closed_customer_is_refused_at_the_hold() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;

    assert!(store::customers::disable(&store, caller.customer, NOON).await.unwrap());

    let outcome = metering.hold(caller.hold(1)).await;
    assert!(matches!(outcome, HoldOutcome::KeyRefused), "{outcome:?}");
}

#[tokio::test]
async fn a_call_prepared_with_an_older_account_is_refused() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;
    let state = domain::account::AccountState::ReconnectNeeded;
    let (customer, account) = (caller.customer, &caller.account);
    let version =
        store::accounts::set_state(&store, customer, account, caller.account_version, state)
            .await
            .unwrap()
            .unwrap();

    let refused = metering.hold(caller.hold(1)).await;
    let renewed = TestCaller { account_version: version, ..caller.clone() };
    let held = metering.hold(renewed.hold(1)).await;

    assert!(matches!(refused, HoldOutcome::AccountChanged), "{refused:?}");
    assert!(is_held(&held), "{held:?}");
    let (limits, entry) = (domain::slot::AccountAllowances::of_each(1), entry(customer));
    let removal = removal(customer, account, &limits);
    let deleted = store::accounts::delete(&store, &removal, &entry, &unnoted).await;
    assert!(deleted.unwrap().is_some());
    let gone = metering.hold(renewed.hold(1)).await;
    assert!(matches!(gone, HoldOutcome::AccountChanged), "{gone:?}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_refused_hold_returns_its_reservation() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1).await;
    let metering = TestMetering::start(&store).await;
    let stale = TestCaller { account_version: 1, ..caller.clone() };

    for _ in 0..5 {
        let outcome = metering.hold(stale.hold(1)).await;
        assert!(matches!(outcome, HoldOutcome::AccountChanged), "{outcome:?}");
    }

    assert!(is_held(&metering.hold(caller.hold(1)).await));
}

#[tokio::test]
async fn granted_credits_can_be_spent_immediately() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let metering = TestMetering::start(&store).await;
    let refused = metering.hold(caller.hold(2)).await;
    assert!(matches!(refused, HoldOutcome::Insufficient { balance } if balance == credits(0)));

    grant(&store, caller.customer, 2).await;

    assert!(is_held(&metering.hold(caller.hold(2)).await));
    assert_sound(&store).await;
}

#[tokio::test]
async fn refunded_credits_can_be_spent_immediately() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 2).await;
    let metering = TestMetering::start(&store).await;

    for _ in 0..20 {
        let hold = caller.hold(2);
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.end(hold.call_id, Outcome::Upstream5xx).await);
    }

    assert_eq!(caller.balance(&store).await.available, credits(2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_free_call_needs_no_credits() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(0);

    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);

    assert_sound(&store).await;
}

#[tokio::test]
async fn too_many_waiting_holds_are_refused_and_cost_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 6).await;
    let options = MeterOptions { queue_max: 1, ..MeterOptions::new(node(), 1) };
    // The writer does not run yet, so the queue cannot drain.
    let (meter, writer) = store::metering::start(&store, options);
    let mut first = meter.reserve(caller.hold(5)).await.unwrap();

    let refused = meter.reserve(caller.hold(1)).await;

    assert!(matches!(refused, Err(HoldRefusal::Overloaded)), "{refused:?}");
    drop(meter);
    writer.run().await;
    assert!(is_held(&first.durable().await));
    assert!(is_held(&first.durable().await), "asking again returns the same outcome");
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_writer_completes_all_requests_before_it_ends() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 50).await;
    let metering = TestMetering::start(&store).await;
    for _ in 0..25 {
        let hold = caller.hold(1);
        let reservation = metering.meter.reserve(hold.clone()).await.unwrap();
        reservation.resolve(resolution(hold.call_id, Outcome::Answered));
        drop(reservation);
    }

    metering.stop().await;

    assert_eq!(caller.balance(&store).await.spent, credits(25));
    assert_sound(&store).await;
}

#[tokio::test]
async fn batches_are_reported_with_the_new_balances() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let options = MeterOptions {
        on_batch: std::sync::Arc::new(move |report| drop(sender.send(report.clone()))),
        ..MeterOptions::new(node(), 1)
    };
    let metering = TestMetering::with(&store, options);

    assert!(is_held(&metering.hold(caller.hold(2)).await));

    let report = reports.recv().await.unwrap();
    assert_eq!((report.holds, report.held, report.resolutions, report.committed), (1, 1, 0, true));
    assert_eq!(report.balances, [(caller.customer, credits(5))], "with what is held");
}

/// A metering with this patience that has seen the caller's balance, and the reports of its further
/// transactions.
async fn patient(
    store: &Store,
    patience: Duration,
    caller: &TestCaller,
) -> (TestMetering, UnboundedReceiver<BatchReport>) {
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let options = MeterOptions {
        patience,
        on_batch: std::sync::Arc::new(move |report| drop(sender.send(report.clone()))),
        ..MeterOptions::new(node(), 1)
    };
    let metering = TestMetering::with(store, options);
    let first = caller.hold(0);
    assert!(is_held(&metering.hold(first.clone()).await));
    assert!(metering.end(first.call_id, Outcome::Answered).await);
    while reports.recv().await.unwrap().resolutions == 0 {}
    (metering, reports)
}

const LONGER_THAN_A_TEST: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_parked_hold_is_written_together_with_its_settlement() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (metering, mut reports) = patient(&store, LONGER_THAN_A_TEST, &caller).await;
    let hold = caller.hold(2);
    let mut reservation = metering.meter.reserve_read(hold.clone()).await.unwrap();
    assert!(reservation.may_leave());

    assert!(reservation.resolve_and_tell(resolution(hold.call_id, Outcome::Answered)).await);

    let report = reports.recv().await.unwrap();
    assert_eq!((report.holds, report.held, report.resolutions), (1, 1, 1));
    assert!(is_held(&reservation.durable().await));
    assert_eq!(caller.balance(&store).await.spent, credits(2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn calls_written_together_are_each_written_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 50).await;
    let (metering, _reports) = patient(&store, LONGER_THAN_A_TEST, &caller).await;
    let mut calls = Vec::new();
    for _ in 0..21 {
        let hold = caller.hold(2);
        let reserved = metering.meter.reserve_read(hold.clone()).await.unwrap();
        calls.push((hold.call_id, reserved));
    }

    let ends: Vec<_> = calls
        .iter()
        .map(|(id, call)| call.resolve_and_tell(resolution(*id, Outcome::Answered)))
        .collect();
    for end in ends {
        assert!(end.await);
    }

    assert_eq!(caller.balance(&store).await.spent, credits(42));
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_first_of_several_settlements_of_a_parked_hold_counts() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (metering, _reports) = patient(&store, LONGER_THAN_A_TEST, &caller).await;
    let hold = caller.hold(2);
    let reservation = metering.meter.reserve_read(hold.clone()).await.unwrap();

    let first = reservation.resolve_and_tell(resolution(hold.call_id, Outcome::BadResponse));
    let second = reservation.resolve_and_tell(resolution(hold.call_id, Outcome::Answered));

    assert_eq!((first.await, second.await), (true, false));
    assert_eq!(metering.meter.stats().late_resolution_total, 1);
    let balance = caller.balance(&store).await;
    assert_eq!((balance.spent, balance.available), (credits(0), credits(5)));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_settlement_whose_hold_was_refused_does_not_count() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (metering, _reports) = patient(&store, LONGER_THAN_A_TEST, &caller).await;
    let hold = Hold { key_version: 7, ..caller.hold(2) };
    let mut reservation = metering.meter.reserve_read(hold.clone()).await.unwrap();

    let ended = reservation.resolve_and_tell(resolution(hold.call_id, Outcome::Answered));

    assert!(!ended.await);
    let outcome = reservation.durable().await;
    assert!(matches!(outcome, HoldOutcome::KeyChanged), "{outcome:?}");
    assert_eq!(caller.balance(&store).await.available, credits(5));
    assert_sound(&store).await;
}

#[tokio::test]
async fn waiting_for_a_hold_ends_its_parking() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (metering, mut reports) = patient(&store, LONGER_THAN_A_TEST, &caller).await;

    let mut reservation = metering.meter.reserve_read(caller.hold(2)).await.unwrap();
    assert!(is_held(&reservation.durable().await));
    assert_eq!(reports.recv().await.unwrap().held, 1);

    assert_eq!(caller.balance(&store).await.held, credits(2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_parked_hold_is_written_when_its_patience_ends() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (metering, mut reports) = patient(&store, Duration::from_millis(1), &caller).await;

    let _reservation = metering.meter.reserve_read(caller.hold(2)).await.unwrap();

    assert_eq!(reports.recv().await.unwrap().held, 1);
    assert_eq!(caller.balance(&store).await.held, credits(2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_parked_hold_is_written_before_the_writer_ends() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let (metering, _reports) = patient(&store, LONGER_THAN_A_TEST, &caller).await;
    drop(metering.meter.reserve_read(caller.hold(2)).await.unwrap());

    metering.stop().await;

    assert_eq!(caller.balance(&store).await.held, credits(2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn parked_holds_count_as_waiting() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let options = MeterOptions {
        queue_max: 1,
        patience: LONGER_THAN_A_TEST,
        fresh: LONGER_THAN_A_TEST,
        ..MeterOptions::new(node(), 1)
    };
    // The writer does not run yet, so the queue cannot drain.
    let (meter, writer) = store::metering::start(&store, options);
    let mut first = meter.reserve_read(caller.hold(2)).await.unwrap();

    let refused = meter.reserve_read(caller.hold(1)).await;

    assert!(matches!(refused, Err(HoldRefusal::Overloaded)), "{refused:?}");
    assert_eq!(meter.stats().holds_waiting, 1);
    drop(meter);
    writer.run().await;
    assert!(is_held(&first.durable().await));
    assert_sound(&store).await;
}

fn all_calls(caller: &TestCaller) -> RecentCalls {
    RecentCalls::of(caller.customer, 100)
}
