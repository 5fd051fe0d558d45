//! One call with everything about it, found by its id, its request's id or its `Idempotency-Key`.

use domain::charge::Outcome;
use domain::id::{CallId, CustomerId, RequestId};
use domain::time::Timestamp;
use store::call_details::{self, CallDetails, CallSearch};
use store::metering::{Hold, IdempotencyClaim};
use store::{Store, testing};

use crate::support::{NOON, TestCaller, TestMetering, is_held, node, unique};

async fn find(store: &Store, wanted: &CallSearch<'_>) -> Vec<CallDetails> {
    let found = call_details::find(store, wanted).await.unwrap();
    assert_eq!(call_details::find_soon(store, wanted).await.unwrap(), found);
    found
}

async fn ids(store: &Store, text: &str, customer: Option<CustomerId>) -> Vec<CallId> {
    let found = find(store, &CallSearch::of_request(text, customer)).await;
    found.into_iter().map(|found| found.call.id).collect()
}

/// A free call that began at this time, with this request id.
async fn called(
    metering: &TestMetering,
    caller: &TestCaller,
    request: &str,
    at: Timestamp,
) -> CallId {
    let hold = Hold {
        call_id: CallId::new(at, unique()),
        request_id: request.to_owned(),
        held_at: at,
        expires_at: at.plus_seconds(170),
        ..caller.hold(0)
    };
    let id = hold.call_id;
    assert!(is_held(&metering.hold(hold).await));
    id
}

#[tokio::test]
async fn an_open_call_shows_its_node_and_its_end_and_an_ended_one_its_outcome() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(3);
    let id = hold.call_id;
    assert!(is_held(&metering.hold(hold.clone()).await));
    let shown = async || {
        let text = id.to_string();
        let found = find(&store, &CallSearch::of_request(&text, Some(caller.customer))).await;
        assert_eq!(found.len(), 1);
        found[0].clone()
    };

    let open = shown().await;
    assert!(metering.end(id, Outcome::Answered).await);
    let ended = shown().await;
    testing::add_up_usage(&store).await.unwrap();

    assert_eq!((open.node, open.epoch, open.has_idempotency_key), (node(), 1, false));
    assert_eq!(open.expires_at, Some(hold.expires_at));
    assert_eq!((open.call.outcome.as_deref(), open.call.credits), (None, None));
    assert_eq!((ended.node, ended.epoch, ended.expires_at), (node(), 1, None));
    assert_eq!(ended.call.outcome.as_deref(), Some("answered"));
    assert_eq!(ended.call.credits, Some(hold.cost));
    assert_eq!((ended.call.request.as_str(), ended.call.at), (hold.request_id.as_str(), NOON));
    assert_eq!(shown().await, ended, "sorting it in changes nothing");
    metering.stop().await;
}

#[tokio::test]
async fn calls_of_a_request_are_found_among_the_customers_own() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let metering = TestMetering::start(&store).await;
    let chosen = "it's 100 % mine_\\✓";
    let first = called(&metering, &caller, chosen, NOON).await;
    let second = called(&metering, &caller, chosen, NOON.plus_seconds(1)).await;
    let foreign = called(&metering, &other, chosen, NOON.plus_seconds(2)).await;

    assert_eq!(ids(&store, chosen, Some(caller.customer)).await, [second, first]);
    assert_eq!(ids(&store, chosen, Some(other.customer)).await, [foreign]);
    assert_eq!(ids(&store, chosen, None).await, [foreign, second, first]);
    let text = foreign.to_string();
    assert_eq!(ids(&store, &text, Some(caller.customer)).await, []);
    assert_eq!(ids(&store, &text, None).await, [foreign]);
    for none in ["", "%", "it's 100 % mine", "IT'S 100 % MINE_\\✓"] {
        assert_eq!(ids(&store, none, None).await, [], "{none}");
    }
    metering.stop().await;
}

/// A caller may choose an id that looks like one of ours and contains no time.
#[tokio::test]
async fn calls_of_a_chosen_id_in_our_form_are_found() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let metering = TestMetering::start(&store).await;
    let chosen = "req_8d2f0c1e9b7a4f6c8e3d5a1b2c4d6e8f";
    let first = called(&metering, &caller, chosen, NOON).await;
    let second = called(&metering, &caller, chosen, NOON.plus_seconds(86_400)).await;
    assert!(metering.end(first, Outcome::Answered).await);

    let found = find(&store, &CallSearch::of_request(chosen, Some(caller.customer))).await;

    let found: Vec<(CallId, &str)> =
        found.iter().map(|found| (found.call.id, found.call.request.as_str())).collect();
    assert_eq!(found, [(second, chosen), (first, chosen)]);
    metering.stop().await;
}

#[tokio::test]
async fn at_most_twenty_calls_of_a_request_are_found_the_newest() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let metering = TestMetering::start(&store).await;
    let mut made = Vec::new();
    for number in 0..21 {
        made.push(called(&metering, &caller, "batch", NOON.plus_seconds(number)).await);
    }
    made.reverse();

    assert_eq!(ids(&store, "batch", Some(caller.customer)).await, made[..20]);
    metering.stop().await;
}

/// Ids that this service makes have their time, which bounds where their calls are searched.
#[tokio::test]
async fn calls_of_our_own_request_ids_are_found_from_a_minute_before_to_an_hour_after() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let metering = TestMetering::start(&store).await;
    let request = RequestId::new(NOON, unique()).to_string();
    let millisecond = 1_000;
    let mut expected = Vec::new();
    for (at, is_found) in [
        (NOON.plus_seconds(-60).plus_micros(-millisecond), false),
        (NOON.plus_seconds(-60), true),
        (NOON, true),
        (NOON.plus_seconds(3_600).plus_micros(-millisecond), true),
        (NOON.plus_seconds(3_600), false),
    ] {
        let id = called(&metering, &caller, &request, at).await;
        expected.extend(is_found.then_some(id));
    }
    expected.reverse();

    assert_eq!(ids(&store, &request, None).await, expected);
    assert_eq!(ids(&store, &request, Some(caller.customer)).await, expected);
    metering.stop().await;
}

#[tokio::test]
async fn calls_are_found_by_the_idempotency_key_of_their_customer() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 5).await, TestCaller::with(&store, 5).await);
    let metering = TestMetering::start(&store).await;
    let claim = IdempotencyClaim {
        key_hash: [0xab; 32],
        fingerprint: [2; 32],
        identity: None,
        expires_at: NOON.plus_seconds(60),
    };
    let mut made = Vec::new();
    for one in [&caller, &other] {
        let hold = Hold { idempotency: Some(claim), ..one.hold(1) };
        made.push(hold.call_id);
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.end(hold.call_id, Outcome::Answered).await);
    }
    let found = async |hash, customer_of: &TestCaller| {
        let calls = find(&store, &CallSearch::of_key(hash, customer_of.customer)).await;
        assert!(calls.iter().all(|one| one.has_idempotency_key));
        calls.into_iter().map(|one| one.call.id).collect::<Vec<_>>()
    };

    assert_eq!(found([0xab; 32], &caller).await, made[..1]);
    assert_eq!(found([0xab; 32], &other).await, made[1..]);
    assert_eq!(found([0xac; 32], &caller).await, []);
    metering.stop().await;
}
