//! Exports that wait: paused with a reason, postponed after a failure, or given back; and what the
//! customer sees meanwhile.

use domain::export::ExportState;
use domain::id::ExportId;
use domain::time::Timestamp;
use store::exports::{self, Export, ExportClaimant, ExportFailure, ExportLease, ExportProgress};
use store::{Store, testing};

use crate::exports::{claimed, created, figures, published};
use crate::support::{NOON, TestCaller, assert_sound, node};

const UNTIL: Timestamp = NOON.plus_seconds(300);
const READ: ExportProgress = ExportProgress { pages: 4, rows: 70, worked_micros: 9 };

fn full_storage() -> ExportFailure {
    ExportFailure { code: "storage_full".to_owned(), message: "the disk is full".to_owned() }
}

async fn pause(store: &Store, lease: &ExportLease) -> bool {
    exports::pause(store, lease, UNTIL, &full_storage(), READ).await.unwrap()
}

async fn postpone(store: &Store, lease: &ExportLease) -> bool {
    exports::postpone(store, lease, UNTIL, READ).await.unwrap()
}

async fn find(store: &Store, id: ExportId) -> Export {
    exports::find_of_any(store, id).await.unwrap().unwrap()
}

/// Claims with only this many attempts without a new page.
async fn claimed_with(store: &Store, now: Timestamp, attempts_max: i64) -> Option<ExportLease> {
    let claimant = ExportClaimant {
        node: node(),
        now,
        lease_until: now.plus_seconds(60),
        running_max: 2,
        attempts_max,
    };
    exports::claim(store, &claimant).await.unwrap().map(|claimed| claimed.lease)
}

#[tokio::test]
async fn a_paused_export_shows_its_reason_and_continues_at_its_time() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();

    assert!(pause(&store, &lease).await);

    let paused = find(&store, id).await;
    assert_eq!((paused.state, paused.error), (ExportState::Running, Some(full_storage())));
    assert_eq!((paused.pages, paused.rows_read, paused.worked_micros), (4, 70, 9));
    assert_eq!((paused.attempt, paused.doing.waiting_until), (0, Some(UNTIL)));
    assert_eq!(claimed(&store, UNTIL.plus_micros(-1)).await, None);
    let next = claimed(&store, UNTIL).await.unwrap();
    let continued = find(&store, id).await;
    assert_eq!((continued.error, continued.doing.waiting_until), (None, None));
    assert_eq!((continued.pages, continued.attempt), (4, 1), "what was read stays");
    assert!(published(&store, &next, UNTIL).await);
    assert_sound(&store).await;
}

#[tokio::test]
async fn pauses_count_no_attempts_and_postponements_do() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let id = created(&store, &caller).await;
    let mut now = NOON;
    for _ in 0..4 {
        let lease = claimed_with(&store, now, 1).await.unwrap();
        let until = now.plus_seconds(10);
        assert!(exports::pause(&store, &lease, until, &full_storage(), READ).await.unwrap());
        now = until;
    }
    for attempt in 1..=2 {
        let lease = claimed_with(&store, now, 2).await.unwrap();
        assert_eq!(find(&store, id).await.attempt, attempt);
        let until = now.plus_seconds(10);
        assert!(exports::postpone(&store, &lease, until, READ).await.unwrap());
        now = until;
    }

    assert_eq!(claimed_with(&store, now, 2).await, None, "it is left to the reaper");
    let reaped = exports::reap(&store, now, 2).await.unwrap();
    assert_eq!((reaped.failed, reaped.cancelled), (1, 0));
    assert_eq!(find(&store, id).await.state, ExportState::Failed);
    assert_eq!(figures(&store, &caller).await, (100, 0, 0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_can_put_nothing_off() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let id = created(&store, &caller).await;
    let lost = claimed(&store, NOON).await.unwrap();
    let end = NOON.plus_seconds(60);
    assert_eq!(testing::take_over(&store, end).await.unwrap().leases, 1);
    assert!(!pause(&store, &lost).await, "it was taken over");
    assert!(!postpone(&store, &lost).await);
    assert!(!exports::give_back(&store, &lost, end, READ).await.unwrap());

    let current = claimed(&store, end).await.unwrap();
    for now in [NOON, end] {
        assert!(!pause(&store, &lost).await);
        assert!(!postpone(&store, &lost).await);
        assert!(!exports::give_back(&store, &lost, now, READ).await.unwrap());
    }

    let running = find(&store, id).await;
    assert_eq!((running.pages, running.error, running.lease_token), (0, None, current.token));
    assert!(published(&store, &current, end).await);
    assert!(!pause(&store, &current).await, "it has ended");
    assert_sound(&store).await;
}

#[tokio::test]
async fn cancelling_a_paused_export_ends_it_without_another_worker() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(pause(&store, &lease).await);

    exports::cancel(&store, caller.customer, id, NOON).await.unwrap();
    let cancelling = find(&store, id).await;
    assert_eq!((cancelling.state, cancelling.error), (ExportState::Cancelling, None));
    assert!(!pause(&store, &lease).await);
    let early = exports::reap(&store, UNTIL.plus_micros(-1), 3).await.unwrap();
    let late = exports::reap(&store, UNTIL, 3).await.unwrap();

    assert_eq!((early.cancelled, late.cancelled), (0, 1));
    assert_eq!(find(&store, id).await.state, ExportState::Cancelled);
    assert_eq!(figures(&store, &caller).await.1, 0, "nothing is held");
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_export_is_found_for_the_operator_and_its_customer_until_it_is_deleted() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 100).await, TestCaller::with(&store, 0).await);
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, NOON).await);
    assert_eq!(exports::find(&store, id, other.customer).await.unwrap(), None);
    assert_eq!(exports::find(&store, id, caller.customer).await.unwrap().unwrap().id, id);

    let reason = domain::export::ExportRemoval::BySupport;
    let foreign = exports::delete(&store, other.customer, id, reason, NOON).await.unwrap();
    let own = exports::delete(&store, caller.customer, id, reason, NOON).await.unwrap();

    assert_eq!(foreign, exports::ExportDeletion::NotFound);
    assert_eq!(own, exports::ExportDeletion::Deleted);
    assert_eq!(exports::find(&store, id, caller.customer).await.unwrap(), None);
    let again = exports::delete(&store, caller.customer, id, reason, NOON).await.unwrap();
    assert_eq!(again, exports::ExportDeletion::NotFound);
    assert_eq!(figures(&store, &caller).await, (90, 0, 10), "what it cost is kept");
    assert_sound(&store).await;
}
