//! Reads that were sent and whose commit takes too long: their callers do not wait for it, and are
//! not charged, however the commit ends.

use std::time::Duration;

use domain::charge::Outcome;
use store::Store;
use store::metering::{self, HoldOutcome, MeterOptions};
use store::testing;

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, resolution};
use crate::traveling_reads::{answered, books, leave, look, node};

/// Makes commits that insert calls hang until `open_gate`.
async fn shut_gate(store: &Store) {
    let wait = "create function wait_for_gate() returns trigger language plpgsql as $$
        begin
            while exists (select from settings where name = 'gate') loop
                perform pg_sleep(0.002);
            end loop;
            return null;
        end $$";
    let open = "create constraint trigger calls_wait after insert on open_calls
        deferrable initially deferred for each row execute function wait_for_gate()";
    let ended = "create constraint trigger calls_wait after insert on ended_calls
        deferrable initially deferred for each row execute function wait_for_gate()";
    let shut = "insert into settings (name, value) values ('gate', 'shut')";
    for statement in [wait, open, ended, shut] {
        testing::run_raw(store, statement).await.unwrap();
    }
}

async fn open_gate(store: &Store) {
    testing::run_raw(store, "delete from settings where name = 'gate'").await.unwrap();
}

/// A node whose reads wait for their record for this long, and that has seen the caller's balance.
async fn hasty(store: &Store, caller: &TestCaller) -> TestMetering {
    let recovery = metering::recover(store, node(0), NOON).await.unwrap();
    let options = MeterOptions {
        patience: Duration::from_hours(1),
        queue_age_max: Duration::from_mins(1),
        read_wait_max: SHORT,
        ..MeterOptions::new(node(0), recovery.epoch)
    };
    let metering = TestMetering::with(store, options);
    look(&metering, caller).await;
    metering
}

const SHORT: Duration = Duration::from_millis(40);

/// What the ledger gave back, by call.
async fn given_back(store: &Store) -> Vec<String> {
    let sql =
        "select source_id || ' ' || amount as line from ledger where source = 'withheld_read'";
    testing::lines(store, sql).await.unwrap()
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_whose_commit_hangs_fails_in_time_and_gets_its_charge_back() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = hasty(&store, &caller).await;
    let read = leave(&metering, caller.hold(3)).await;
    let call = read.call_id();
    shut_gate(&store).await;

    let failed = answered(read).await;

    assert!(matches!(failed, HoldOutcome::Failed(_)), "{failed:?}");
    open_gate(&store).await;
    metering.stop().await;
    assert_eq!(given_back(&store).await, [format!("{call} 3")]);
    assert_eq!(books(&store, &caller).await, (10, 3, 1));
    assert_sound(&store).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_that_waits_behind_a_commit_that_hangs_fails_in_time_and_is_not_recorded() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = hasty(&store, &caller).await;
    let reads = [leave(&metering, caller.hold(0)).await, leave(&metering, caller.hold(3)).await];
    shut_gate(&store).await;

    for read in reads {
        let failed = answered(read).await;
        assert!(matches!(failed, HoldOutcome::Failed(_)), "{failed:?}");
    }

    // Nothing more leaves.
    assert!(!metering.meter.reserve_read(caller.hold(1)).await.unwrap().may_leave());
    open_gate(&store).await;
    metering.stop().await;
    assert!(given_back(&store).await.is_empty());
    let balance = caller.balance(&store).await;
    assert_eq!((balance.held, balance.spent), (credits(1), credits(0)));
    assert_sound(&store).await;
}

/// The read takes longer than its hold waited to be written.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_without_an_end_whose_commit_hangs_fails_in_time_and_is_refunded() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = hasty(&store, &caller).await;
    let mut read = leave(&metering, caller.hold(3)).await;
    shut_gate(&store).await;

    let failed = read.durable().await;
    assert!(matches!(failed, HoldOutcome::Failed(_)), "{failed:?}");
    assert!(read.resolve_together(resolution(read.call_id(), Outcome::Answered)).is_some());
    open_gate(&store).await;

    drop(read);
    metering.stop().await;
    assert_eq!(books(&store, &caller).await, (10, 0, 1));
    assert!(given_back(&store).await.is_empty());
    assert_sound(&store).await;
}
