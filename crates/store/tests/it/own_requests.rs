//! Requests with an `Idempotency-Key` to the service's own routes: one attempt holds the claim, and
//! only it records the result.

use domain::id::{ChangeId, CustomerId, DataKeyId, KeyId, RunId};
use domain::time::Timestamp;
use store::idempotency::StoredAnswer;
use store::own_requests::{
    self, KnownRequest, NewRequest, RequestCaller, RequestClaim, RequestEnd, RequestName,
    RequestState, RequestTakeover,
};
use store::{DatabaseKind, Store, testing};

use crate::support::{NOON, node, unique};

const ASKED: [u8; 32] = [2; 32];
const MAY: [u8; 32] = [3; 32];
const DAY_S: i64 = 86_400;

fn name() -> RequestName {
    RequestName {
        customer: CustomerId::new(NOON, unique()),
        caller: RequestCaller::Key(KeyId::new(NOON, unique())),
        key_hash: [1; 32],
    }
}

fn new_at(name: RequestName, now: Timestamp) -> NewRequest<'static> {
    NewRequest {
        name,
        operation: "POST /v1/billing/slots/switch",
        fingerprint: ASKED,
        data_key: DataKeyId::new(NOON, [5; 10]),
        run: RunId::new(now, unique()),
        change: ChangeId::new(now, unique()),
        leased_until: now.plus_seconds(60),
        created_at: now,
        expires_at: now.plus_seconds(DAY_S),
    }
}

fn answer() -> StoredAnswer {
    StoredAnswer { status: 201, sealed: vec![4, 5, 6] }
}

/// Claims a new request.
async fn claimed(store: &Store, new: &NewRequest<'_>) {
    assert_eq!(own_requests::claim(store, new).await.unwrap(), RequestClaim::Claimed);
}

/// What is known about an earlier request.
async fn known(store: &Store, new: &NewRequest<'_>) -> KnownRequest {
    match own_requests::claim(store, new).await.unwrap() {
        RequestClaim::Known(known) => known,
        other => panic!("{other:?}"),
    }
}

async fn end(store: &Store, new: &NewRequest<'_>, how: RequestEnd<'_>) -> bool {
    own_requests::end(store, &new.name, new.run, how).await.unwrap()
}

fn takeover(from: RunId, to: RunId, now: Timestamp) -> RequestTakeover {
    RequestTakeover { from, to, now, leased_until: now.plus_seconds(60) }
}

#[tokio::test]
async fn of_concurrent_requests_one_runs() {
    let store = testing::store().await;
    let name = name();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let store = (*store).clone();
        tasks.spawn(async move { own_requests::claim(&store, &new_at(name, NOON)).await.unwrap() });
    }

    let claims = tasks.join_all().await;

    let running = RequestState::Running { free_from: None };
    let hears = |claim: &&RequestClaim| matches!(claim, RequestClaim::Known(known) if known.state == running);
    assert_eq!(claims.iter().filter(|claim| **claim == RequestClaim::Claimed).count(), 1);
    assert_eq!(claims.iter().filter(hears).count(), 49);
}

#[tokio::test]
async fn a_stored_response_has_its_fingerprint_and_permissions() {
    let store = testing::store().await;
    let first = new_at(name(), NOON);
    claimed(&store, &first).await;
    let stored = answer();
    assert!(end(&store, &first, RequestEnd::Stored { answer: &stored, permissions: MAY }).await);

    let found = known(&store, &new_at(first.name, NOON.plus_seconds(DAY_S - 1))).await;

    assert_eq!(found.state, RequestState::Stored(answer()));
    assert!(found.has_fingerprint(&ASKED) && !found.has_fingerprint(&MAY));
    assert!(found.has_permissions(&MAY) && !found.has_permissions(&ASKED));
    assert_eq!((found.run, found.change), (first.run, first.change));
    assert_eq!(found.data_key, first.data_key);
}

#[tokio::test]
async fn each_caller_of_a_customer_has_its_own_keys() {
    let store = testing::store().await;
    let first = new_at(name(), NOON);
    claimed(&store, &first).await;
    let of = |caller| NewRequest { name: RequestName { caller, ..first.name }, ..first };

    claimed(&store, &of(RequestCaller::Session)).await;
    claimed(&store, &of(RequestCaller::Key(KeyId::new(NOON, unique())))).await;

    let state = known(&store, &of(RequestCaller::Session)).await.state;
    assert!(matches!(state, RequestState::Running { .. }), "{state:?}");
}

#[tokio::test]
async fn a_key_is_free_after_a_refusal_and_after_a_day() {
    let store = testing::store().await;
    let refused = new_at(name(), NOON);
    claimed(&store, &refused).await;
    assert!(end(&store, &refused, RequestEnd::Freed).await);
    let first = new_at(refused.name, NOON);
    claimed(&store, &first).await;
    assert!(end(&store, &first, RequestEnd::NotStored).await);

    let next = new_at(first.name, NOON.plus_seconds(DAY_S));
    assert_eq!(
        known(&store, &new_at(first.name, NOON.plus_seconds(DAY_S - 1))).await.state,
        RequestState::NotStored
    );
    claimed(&store, &next).await;

    let found = known(&store, &next).await;
    assert_eq!((found.run, found.change), (next.run, next.change));
    assert!(!end(&store, &first, RequestEnd::Freed).await, "an earlier attempt frees nothing");
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_once_and_fences_its_first_holder() {
    let store = testing::store().await;
    let first = new_at(name(), NOON);
    claimed(&store, &first).await;
    let take = async |run: RunId, now: Timestamp| {
        let takeover = takeover(first.run, run, now);
        own_requests::take_over(&store, &first.name, takeover).await.unwrap()
    };
    let (one, other) = (RunId::new(NOON, unique()), RunId::new(NOON, unique()));

    assert!(!take(one, NOON.plus_seconds(60)).await, "the time alone ends no lease");
    let later = NOON.plus_seconds(70);
    let renewed = own_requests::renew(&store, &first.name, first.run, later).await.unwrap();
    testing::take_over(&store, NOON.plus_seconds(69)).await.unwrap();
    assert!(renewed && !take(one, later).await, "the lease was renewed");
    testing::take_over(&store, later).await.unwrap();
    assert!(take(one, later).await);
    assert!(!take(other, later).await, "another attempt was first");

    let until = NOON.plus_seconds(600);
    assert!(!own_requests::renew(&store, &first.name, first.run, until).await.unwrap());
    assert!(!end(&store, &first, RequestEnd::OutcomeUnknown).await);
    let found = known(&store, &first).await;
    assert_eq!((found.run, found.change), (one, first.change));
    let taken = NewRequest { run: one, ..first };
    assert!(end(&store, &taken, RequestEnd::OutcomeUnknown).await);
    assert_eq!(known(&store, &first).await.state, RequestState::OutcomeUnknown);
    assert!(!end(&store, &taken, RequestEnd::Freed).await, "it has ended");
}

#[tokio::test]
async fn a_start_on_sqlite_ends_the_leases_of_the_previous_process() {
    let store = testing::store().await;
    let first = new_at(name(), NOON);
    claimed(&store, &first).await;
    let is_alone = store.database() == DatabaseKind::Sqlite;
    // The claim was another process's.
    store.act_as(node());

    assert_eq!(store::leases::release_left(&store).await.unwrap(), u64::from(is_alone));

    let run = RunId::new(NOON, unique());
    let takeover = takeover(first.run, run, NOON);
    let taken = own_requests::take_over(&store, &first.name, takeover).await;
    assert_eq!(taken.unwrap(), is_alone);
}

#[tokio::test]
async fn a_retryable_request_may_run_again_immediately() {
    let store = testing::store().await;
    let first = new_at(name(), NOON);
    claimed(&store, &first).await;
    assert!(end(&store, &first, RequestEnd::RunAgain).await);

    let found = known(&store, &first).await;
    assert!(found.has_fingerprint(&ASKED));
    let run = RunId::new(NOON, unique());
    let takeover = takeover(found.run, run, NOON);
    let taken = own_requests::take_over(&store, &first.name, takeover).await;

    assert!(taken.unwrap());
}

#[tokio::test]
async fn expired_requests_are_deleted_in_bounded_steps_unless_running() {
    let store = testing::store().await;
    let over = NOON.plus_seconds(DAY_S);
    for _ in 0..25 {
        let new = new_at(name(), NOON);
        claimed(&store, &new).await;
        assert!(end(&store, &new, RequestEnd::NotStored).await);
    }
    let lost = new_at(name(), NOON);
    claimed(&store, &lost).await;
    let runs = new_at(name(), NOON);
    claimed(&store, &runs).await;
    let later = over.plus_seconds(60);
    assert!(own_requests::renew(&store, &runs.name, runs.run, later).await.unwrap());
    testing::take_over(&store, over).await.unwrap();
    let forget = async |now| own_requests::delete_expired(&store, now, 10).await.unwrap();

    assert_eq!(forget(over.plus_seconds(-1)).await, 0);
    assert_eq!((forget(over).await, forget(over).await, forget(over).await), (10, 10, 6));
    assert_eq!(forget(later).await, 0, "one is still running");
    testing::take_over(&store, later).await.unwrap();
    assert_eq!(forget(later).await, 1);
}
