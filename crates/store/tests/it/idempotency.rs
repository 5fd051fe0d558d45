//! Idempotency: one request with a key is sent, the others get its result.

use domain::charge::Outcome;
use domain::time::Timestamp;
use store::idempotency::{self, ExistingRequest, StoredAnswer};
use store::metering::{CallResolution, Hold, HoldOutcome, IdempotencyClaim};
use store::testing;

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, is_held, resolution};

const KEY: [u8; 32] = [1; 32];
const REQUEST: [u8; 32] = [2; 32];

fn claim(expires_at: Timestamp) -> IdempotencyClaim {
    IdempotencyClaim { key_hash: KEY, fingerprint: REQUEST, identity: None, expires_at }
}

fn claiming(caller: &TestCaller) -> Hold {
    Hold { idempotency: Some(claim(NOON.plus_seconds(86_400))), ..caller.hold(2) }
}

fn answer() -> StoredAnswer {
    StoredAnswer { status: 201, sealed: vec![4, 5, 6] }
}

async fn found(
    store: &store::Store,
    caller: &TestCaller,
    now: Timestamp,
) -> Option<ExistingRequest> {
    idempotency::find(store, caller.customer, &KEY, &REQUEST, now).await.unwrap()
}

#[tokio::test]
async fn concurrent_calls_with_one_key_are_sent_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (meter, hold) = (metering.meter.clone(), claiming(&caller));
        tasks.spawn(async move { meter.reserve(hold).await.unwrap().durable().await });
    }

    let outcomes = tasks.join_all().await;

    let running = |outcome: &&HoldOutcome| {
        matches!(outcome, HoldOutcome::Idempotency(ExistingRequest::Running))
    };
    assert_eq!(outcomes.iter().filter(|outcome| is_held(outcome)).count(), 1);
    assert_eq!(outcomes.iter().filter(running).count(), 49);
    assert_eq!(caller.balance(&store).await.available, credits(98));
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_first_response_is_replayed_even_without_credits() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 2).await;
    let metering = TestMetering::start(&store).await;
    assert_eq!(found(&store, &caller, NOON).await, None);
    let hold = claiming(&caller);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert_eq!(found(&store, &caller, NOON).await, Some(ExistingRequest::Running));
    let end =
        CallResolution { answer: Some(answer()), ..resolution(hold.call_id, Outcome::Answered) };
    assert!(metering.meter.resolve(end).await);

    let again = metering.hold(claiming(&caller)).await;

    let HoldOutcome::Idempotency(existing) = again else { panic!("{again:?}") };
    assert_eq!(existing, ExistingRequest::Replay(answer()));
    assert_eq!(found(&store, &caller, NOON).await, Some(existing));
    assert_eq!(caller.balance(&store).await.spent, credits(2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_key_refused_for_lack_of_credits_stays_free() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1).await;
    let metering = TestMetering::start(&store).await;

    let outcome = metering.hold(claiming(&caller)).await;

    assert!(
        matches!(outcome, HoldOutcome::Insufficient { balance } if balance == credits(1)),
        "{outcome:?}"
    );
    assert_eq!(found(&store, &caller, NOON).await, None);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_key_reused_for_another_request_is_detected() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(claiming(&caller)).await));
    let claim = IdempotencyClaim { fingerprint: [3; 32], ..claim(NOON.plus_seconds(60)) };

    let other = metering.hold(Hold { idempotency: Some(claim), ..caller.hold(2) }).await;

    let HoldOutcome::Idempotency(existing) = other else { panic!("{other:?}") };
    assert_eq!(existing, ExistingRequest::OtherRequest);
}

#[tokio::test]
async fn two_customers_may_use_the_same_key() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 10).await, TestCaller::with(&store, 10).await);
    let metering = TestMetering::start(&store).await;

    assert!(is_held(&metering.hold(claiming(&one)).await));
    assert!(is_held(&metering.hold(claiming(&other)).await));
}

#[tokio::test]
async fn a_keys_result_depends_on_the_outcome_of_its_call() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    for (number, outcome) in Outcome::ALL.iter().enumerate() {
        let claim = IdempotencyClaim {
            key_hash: [u8::try_from(number).unwrap() + 100; 32],
            ..claim(NOON.plus_seconds(60))
        };
        let hold = Hold { idempotency: Some(claim), ..caller.hold(1) };
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.end(hold.call_id, *outcome).await);

        let existing = idempotency::find(&store, caller.customer, &claim.key_hash, &REQUEST, NOON)
            .await
            .unwrap();

        let call = hold.call_id;
        let expected = match outcome {
            Outcome::Answered | Outcome::Upstream5xx => Some(ExistingRequest::NotStored { call }),
            Outcome::NotDispatched
            | Outcome::ConnectFailed
            | Outcome::Upstream401
            | Outcome::Upstream429
            | Outcome::UpstreamNotCarriedOut
            | Outcome::ClientGoneBeforeDispatch => None,
            Outcome::UpstreamTimeout
            | Outcome::BadResponse
            | Outcome::OutcomeUnknown
            | Outcome::Expired => Some(ExistingRequest::OutcomeUnknown { call }),
        };
        assert_eq!(existing, expected, "{outcome}");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_call_that_was_never_sent_frees_its_key() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let hold = claiming(&caller);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::ConnectFailed).await);

    assert!(is_held(&metering.hold(claiming(&caller)).await));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_retryable_response_frees_its_key_with_the_settlement() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    for (outcome, status) in [(Outcome::Answered, 401), (Outcome::Upstream5xx, 503)] {
        let hold = claiming(&caller);
        assert!(is_held(&metering.hold(hold.clone()).await));
        let end = resolution(hold.call_id, outcome);
        let end = CallResolution { status: Some(status), frees_key: true, ..end };
        assert!(metering.meter.resolve(end).await);

        assert_eq!(found(&store, &caller, NOON).await, None, "{status}");
        assert_sound(&store).await;
    }
    assert!(is_held(&metering.hold(claiming(&caller)).await));
}

#[tokio::test]
async fn an_expired_key_is_free_again() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let end = NOON.plus_seconds(60);
    let hold = Hold { idempotency: Some(claim(end)), ..caller.hold(1) };
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);
    assert!(found(&store, &caller, end.plus_micros(-1)).await.is_some());
    assert_eq!(found(&store, &caller, end).await, None);

    let claim = claim(end.plus_seconds(60));
    let later = Hold { held_at: end, idempotency: Some(claim), ..caller.hold(1) };

    assert!(is_held(&metering.hold(later).await));
    assert_eq!(found(&store, &caller, end).await, Some(ExistingRequest::Running));
    assert_sound(&store).await;
}

#[tokio::test]
async fn expired_responses_are_deleted_but_never_running_ones() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    for number in 0..6 {
        let key_hash = [number + 1; 32];
        let claim = IdempotencyClaim { key_hash, ..claim(NOON.plus_seconds(60)) };
        let hold = Hold { idempotency: Some(claim), ..caller.hold(1) };
        assert!(is_held(&metering.hold(hold.clone()).await));
        if number != 0 {
            assert!(metering.end(hold.call_id, Outcome::Answered).await);
        }
    }
    let later = NOON.plus_seconds(60);

    let mut deleted = Vec::new();
    for now in [NOON, later, later, later] {
        deleted.push(idempotency::delete_expired(&store, now, 3).await.unwrap());
    }

    assert_eq!(deleted, [0, 3, 2, 0]);
    assert_eq!(found(&store, &caller, later).await, Some(ExistingRequest::Running));
    assert_sound(&store).await;
}
