//! Tests of what the queue hands to the writer, and when.

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
const FRESH: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_millis(50);
const PARKING: Option<ParkingTime> = Some(ParkingTime { fresh: FRESH, whole: PATIENCE });
const LIMITS: QueueLimits = QueueLimits {
    holds_max: 100,
    age_max: Duration::from_secs(1),
    wait_max: Duration::from_millis(500),
    batch: 4,
};

/// A hold request and the receiver of its outcome.
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
        tag: None,
    };
    let hold = Arc::new(hold);
    let request = HoldRequest {
        hold,
        reserved: true,
        travels: false,
        since: Instant::now(),
        reply: Some(reply),
        mailbox: None,
        end: None,
    };
    (request, outcome)
}

fn park(queue: &MeterQueue) -> ParkedHold {
    queue.push_hold(request().0, PARKING, LIMITS).unwrap().unwrap()
}

/// The settlement of the same call, and the receiver that learns when it is written.
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

/// The batch available without waiting: the number of holds, and of settlements among them.
async fn now(queue: &MeterQueue) -> Option<(usize, usize)> {
    let batch = timeout(Duration::ZERO, queue.next(100, GATHER_MAX)).await.ok()??;
    Some((batch.holds.len(), batch.ends()))
}

#[tokio::test(start_paused = true)]
async fn a_single_call_is_written_when_it_ends() {
    let queue = MeterQueue::default();
    let parked = park(&queue);
    assert_eq!(now(&queue).await, None);

    end(&queue, &parked);

    assert_eq!(now(&queue).await, Some((1, 1)));
}

#[tokio::test(start_paused = true)]
async fn settlements_are_gathered_until_half_of_them_wait() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..4).map(|_| park(&queue)).collect();

    end(&queue, &calls[0]);
    assert_eq!(now(&queue).await, None);
    end(&queue, &calls[1]);

    assert_eq!(now(&queue).await, Some((2, 2)));
}

#[tokio::test(start_paused = true)]
async fn the_writer_wakes_when_enough_settlements_are_gathered() {
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
async fn gathering_ends_after_its_time_limit() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    end(&queue, &calls[0]);
    let begun = Instant::now();

    let batch = queue.next(100, GATHER_MAX).await.unwrap();

    assert_eq!((batch.holds.len(), begun.elapsed()), (1, GATHER_MAX));
}

#[tokio::test(start_paused = true)]
async fn a_gather_time_of_zero_gathers_nothing() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    end(&queue, &calls[0]);

    let batch = timeout(Duration::ZERO, queue.next(100, Duration::ZERO)).await.unwrap().unwrap();

    assert_eq!(batch.holds.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_parked_hold_is_queued_when_its_patience_ends() {
    let queue = MeterQueue::default();
    let _calls = [park(&queue), park(&queue)];
    assert_eq!(now(&queue).await, None);

    advance(PATIENCE).await;

    assert_eq!(now(&queue).await, Some((2, 0)));
}

#[tokio::test(start_paused = true)]
async fn nobody_gathers_for_a_hold_that_rests() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    advance(FRESH).await;

    end(&queue, &calls[0]);

    assert_eq!(now(&queue).await, Some((1, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_rests_does_not_count_as_waiting_until_it_is_queued() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..100).map(|_| park(&queue)).collect();
    let beyond = || queue.push_hold(request().0, PARKING, LIMITS);
    assert!(beyond().is_err());
    advance(FRESH).await;

    let further = beyond().unwrap();

    assert_eq!((further.is_some(), queue.fill().holds), (true, 1));
    for call in &calls {
        queue.hurry(call);
    }
    assert_eq!(queue.fill().holds, 101);
    assert!(beyond().is_err());
    assert_eq!(now(&queue).await, Some((100, 0)));
    assert_eq!(queue.fill().holds, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_rests_is_written_together_with_its_end() {
    let queue = MeterQueue::default();
    let parked = park(&queue);
    advance(PATIENCE.checked_sub(Duration::from_millis(1)).unwrap()).await;
    assert_eq!(now(&queue).await, None);

    end(&queue, &parked);

    assert_eq!(now(&queue).await, Some((1, 1)));
    assert_eq!(queue.fill().holds, 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_is_taken_immediately() {
    let queue = MeterQueue::default();
    let calls: Vec<_> = (0..9).map(|_| park(&queue)).collect();
    calls.iter().take(2).for_each(|call| end(&queue, call));

    let batch = timeout(Duration::ZERO, queue.next(2, GATHER_MAX)).await.unwrap().unwrap();

    assert_eq!(batch.holds.len(), 2);
}

/// Puts holds into the queue that nothing parks, until one is refused or there are this many.
fn fill(queue: &MeterQueue, most: usize) -> usize {
    (0..most).take_while(|_| queue.push_hold(request().0, None, LIMITS).is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_refuses_nothing_that_fits_into_one_transaction() {
    let queue = MeterQueue::default();
    (0..7).for_each(|_| queue.note_commit(Duration::from_millis(900)));

    // Four requests fit into one; whoever waits behind them would wait for two.
    assert_eq!(fill(&queue, 50), 4);
    queue.next(4, Duration::ZERO).await.unwrap();
    assert_eq!(fill(&queue, 50), 4);
}

#[tokio::test(start_paused = true)]
async fn as_many_may_wait_as_the_latest_commits_write_in_time() {
    let queue = MeterQueue::default();
    (0..7).for_each(|_| queue.note_commit(Duration::from_millis(100)));

    // Five transactions take 500 ms.
    assert_eq!(fill(&queue, 50), 20);
}

#[tokio::test(start_paused = true)]
async fn a_single_slow_commit_refuses_nothing() {
    let queue = MeterQueue::default();
    (0..6).for_each(|_| queue.note_commit(Duration::from_millis(2)));
    queue.note_commit(Duration::from_secs(3));

    assert_eq!(fill(&queue, 50), 50);
}

#[tokio::test(start_paused = true)]
async fn while_a_commit_hangs_holds_wait_for_its_age_limit_and_no_longer() {
    let queue = MeterQueue::default();
    assert_eq!(fill(&queue, 1), 1);

    advance(LIMITS.age_max).await;
    assert_eq!(fill(&queue, 1), 1);
    advance(Duration::from_millis(1)).await;
    assert_eq!(fill(&queue, 1), 0);
}
