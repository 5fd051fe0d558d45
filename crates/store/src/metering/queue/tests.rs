//! What the writer gets, and when.

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CustomerId, KeyId};
use domain::key::KeyHash;
use domain::method::Method;
use domain::platform::Platform;
use tokio::time::{advance, timeout};

use super::*;

const NOON: Timestamp = Timestamp::from_unix_micros(1_795_262_400_000_000);
const GATHER_MAX: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_millis(5);
const LIMITS: (usize, Duration) = (100, Duration::from_secs(1));

/// A hold that waits, and where its outcome arrives.
pub(crate) fn request() -> (HoldRequest, oneshot::Receiver<HoldOutcome>) {
    let (reply, outcome) = oneshot::channel();
    let hold = Hold {
        call_id: CallId::new(NOON, [1; 10]),
        customer: CustomerId::new(NOON, [2; 10]),
        key: KeyId::new(NOON, [3; 10]),
        key_hash: KeyHash::from_bytes(&[4; 32]).unwrap(),
        key_version: 1,
        account: "ada".parse().unwrap(),
        account_version: 1,
        platform: Platform::ALPHA,
        method: Method::Get,
        route: "users/me".into(),
        path: "users/me".to_owned(),
        cost: Credits::ZERO,
        held_at: NOON,
        expires_at: NOON,
        request_id: "request".to_owned(),
        idempotency: None,
    };
    let hold = Arc::new(hold);
    (HoldRequest { hold, reserved: true, reply, mailbox: None, end: None }, outcome)
}

fn park(queue: &MeterQueue) -> ParkedHold {
    queue.push_hold(request().0, PATIENCE, LIMITS).unwrap().unwrap()
}

/// The end of the same call, and where it is told that it is written.
pub(crate) fn its_end() -> (Box<ResolveRequest>, oneshot::Receiver<bool>) {
    let resolution = CallResolution {
        call_id: CallId::new(NOON, [1; 10]),
        outcome: Outcome::Answered,
        status: Some(200),
        resolved_at: NOON,
        duration_ms: 1,
        upstream_ms: Some(1),
        answer: None,
        frees_key: false,
    };
    let (reply, told) = oneshot::channel();
    (Box::new(ResolveRequest { resolution, reply: Some(reply), since: Instant::now() }), told)
}

fn end(queue: &MeterQueue, parked: &ParkedHold) {
    queue.push_end(Some(parked), its_end().0);
}

/// What the writer gets without waiting for anything: holds, and ends among them.
async fn now(queue: &MeterQueue) -> Option<(usize, usize)> {
    let batch = timeout(Duration::ZERO, queue.next(100, GATHER_MAX)).await.ok()??;
    Some((batch.holds.len(), batch.ends()))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_alone_is_written_when_it_ends() {
    let queue = MeterQueue::default();
    let parked = park(&queue);
    assert_eq!(now(&queue).await, None);

    end(&queue, &parked);

    assert_eq!(now(&queue).await, Some((1, 1)));
}

#[tokio::test(start_paused = true)]
async fn ends_are_gathered_until_as_many_wait_as_are_still_to_come() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..4).map(|_| park(&queue)).collect();

    end(&queue, &calls[0]);
    assert_eq!(now(&queue).await, None);
    end(&queue, &calls[1]);

    assert_eq!(now(&queue).await, Some((2, 2)));
}

#[tokio::test(start_paused = true)]
async fn the_writer_is_woken_when_enough_is_gathered() {
    let queue = Arc::new(MeterQueue::default());
    let calls: Vec<_> = (0..4).map(|_| park(&queue)).collect();
    end(&queue, &calls[0]);
    let mut writer = Box::pin(queue.next(100, GATHER_MAX));
    assert!(timeout(Duration::ZERO, writer.as_mut()).await.is_err());

    end(&queue, &calls[1]);

    let batch = timeout(Duration::ZERO, writer.as_mut()).await.unwrap().unwrap();
    assert_eq!(batch.ends(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_waiting_for_longer_than_it_may() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    end(&queue, &calls[0]);
    let begun = Instant::now();

    let batch = queue.next(100, GATHER_MAX).await.unwrap();

    assert_eq!((batch.holds.len(), begun.elapsed()), (1, GATHER_MAX));
}

#[tokio::test(start_paused = true)]
async fn without_patience_for_it_nothing_is_gathered() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    end(&queue, &calls[0]);

    let batch = timeout(Duration::ZERO, queue.next(100, Duration::ZERO)).await.unwrap().unwrap();

    assert_eq!(batch.holds.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_patience_is_over_joins_those_that_wait() {
    let queue = MeterQueue::default();
    let _calls = [park(&queue), park(&queue)];
    assert_eq!(now(&queue).await, None);

    advance(PATIENCE).await;

    assert_eq!(now(&queue).await, Some((2, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_does_not_wait_for_more() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    calls.iter().take(2).for_each(|call| end(&queue, call));

    let batch = timeout(Duration::ZERO, queue.next(2, GATHER_MAX)).await.unwrap().unwrap();

    assert_eq!(batch.holds.len(), 2);
}
