//! The runner: what becomes of a job that ends well, fails, panics, or is overtaken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::id::NodeId;
use domain::job::{GIVE_UP_AFTER_S, JobKind};
use domain::time::Timestamp;
use jobs::{JobDispatch, JobError, JobQueue, JobRunner};
use runtime::{Clock, Random, Tasks};
use store::jobs::{JobClaimant, JobCounts};
use store::testing::TestStore;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

/// A node whose jobs do what the test says.
struct TestNode {
    runner: JobRunner,
    clock: Clock,
}

/// What an attempt of a job does: its payload and the number of the attempt are known.
type TestAttempt = fn(&str, i64) -> Result<(), JobError>;

impl TestNode {
    fn new(store: &TestStore, dispatch: JobDispatch) -> Self {
        let (clock, random) = (Clock::manual(NOW), Random::System);
        let runner = JobRunner {
            store: (**store).clone(),
            clock: clock.clone(),
            random: random.clone(),
            tasks: Tasks::on_this_runtime(),
            queue: JobQueue::new(clock.clone(), random),
            node: NodeId::new(NOW, [1; 10]),
            poll: Duration::from_mins(10),
            dispatch,
        };
        Self { runner, clock }
    }

    /// A node that runs this function, and the payloads that it ran in their order.
    fn doing(store: &TestStore, attempt: TestAttempt) -> (Self, Arc<Mutex<Vec<String>>>) {
        let ran: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&ran);
        let dispatch = move |job: store::jobs::Job| -> jobs::RunningJob {
            let noted = Arc::clone(&noted);
            Box::pin(async move {
                let payload: String = jobs::payload(&job)?;
                noted.lock().unwrap().push(payload.clone());
                attempt(&payload, job.attempt)
            })
        };
        (Self::new(store, Arc::new(dispatch)), ran)
    }

    async fn enqueue(&self, payload: &str) {
        let job = self.runner.queue.job(JobKind::SendMail, &payload);
        store::jobs::enqueue(&self.runner.store, &job).await.unwrap();
        // Two jobs are never of the same moment.
        if let Clock::Manual(micros) = &self.clock {
            micros.fetch_add(1_000, Ordering::SeqCst);
        }
    }

    async fn counts(&self) -> (i64, i64) {
        let JobCounts { waiting, given_up } = store::jobs::count(&self.runner.store).await.unwrap();
        (waiting, given_up)
    }
}

#[tokio::test]
async fn everything_that_is_due_runs_once_in_its_order() {
    let store = store::testing::store().await;
    let (node, ran) = TestNode::doing(&store, |_, _| Ok(()));
    for payload in ["a", "b", "c"] {
        node.enqueue(payload).await;
    }

    assert_eq!(node.runner.run_due().await.unwrap(), 3);
    assert_eq!(node.runner.run_due().await.unwrap(), 0);

    assert_eq!(*ran.lock().unwrap(), ["a", "b", "c"]);
    assert_eq!(node.counts().await, (0, 0));
}

#[tokio::test]
async fn a_job_that_fails_is_retried_after_growing_pauses_and_others_run_meanwhile() {
    let store = store::testing::store().await;
    let (node, ran) = TestNode::doing(&store, |payload, attempt| match (payload, attempt) {
        ("a", 1 | 2) => Err(JobError::Later("not yet".to_owned())),
        _ => Ok(()),
    });
    node.enqueue("a").await;
    node.enqueue("b").await;

    assert_eq!(node.runner.run_due().await.unwrap(), 2);
    for (pause, spread) in [(5, 1), (10, 2)] {
        node.clock.advance_seconds(pause - 1);
        assert_eq!(node.runner.run_due().await.unwrap(), 0, "it waits {pause} s");
        node.clock.advance_seconds(1 + spread);
        assert_eq!(node.runner.run_due().await.unwrap(), 1);
    }

    assert_eq!(*ran.lock().unwrap(), ["a", "b", "a", "a"]);
    assert_eq!(node.counts().await, (0, 0));
}

#[tokio::test]
async fn a_job_that_can_never_succeed_is_kept_for_the_operator_and_not_retried() {
    let store = store::testing::store().await;
    let (node, ran) =
        TestNode::doing(&store, |_, _| Err(JobError::Never("no such mailbox".to_owned())));
    node.enqueue("a").await;

    node.runner.run_due().await.unwrap();
    node.clock.advance_seconds(GIVE_UP_AFTER_S);
    node.runner.run_due().await.unwrap();

    assert_eq!(node.counts().await, (0, 1));
    assert_eq!(ran.lock().unwrap().len(), 1);
    let errors =
        store::testing::lines(&store, "select last_error as line from jobs").await.unwrap();
    assert_eq!(errors, ["no such mailbox"]);
}

#[tokio::test]
async fn a_job_that_fails_for_three_days_is_given_up_and_can_be_tried_again() {
    let store = store::testing::store().await;
    let (node, ran) =
        TestNode::doing(&store, |_, _| Err(JobError::Later("the server is gone".to_owned())));
    node.enqueue("a").await;

    node.runner.run_due().await.unwrap();
    assert_eq!(node.counts().await, (1, 0));
    node.clock.advance_seconds(GIVE_UP_AFTER_S);
    node.runner.run_due().await.unwrap();
    assert_eq!(node.counts().await, (0, 1));
    assert_eq!(ran.lock().unwrap().len(), 2);

    assert_eq!(store::jobs::retry_given_up(&store, node.clock.now()).await.unwrap(), 1);
    node.runner.run_due().await.unwrap();
    assert_eq!(node.counts().await, (1, 0), "its three days begin anew");
}

#[tokio::test]
async fn a_job_that_panics_fails_for_now_and_the_next_one_runs() {
    let store = store::testing::store().await;
    let (node, ran) = TestNode::doing(&store, |payload, _| {
        assert_ne!(payload, "a", "of this test");
        Ok(())
    });
    node.enqueue("a").await;
    node.enqueue("b").await;

    assert_eq!(node.runner.run_due().await.unwrap(), 2);

    assert_eq!(*ran.lock().unwrap(), ["a", "b"]);
    assert_eq!(node.counts().await, (1, 0));
    let errors =
        store::testing::lines(&store, "select last_error as line from jobs").await.unwrap();
    assert!(errors[0].starts_with("an internal task ended early"), "{errors:?}");
}

/// Its lease ended while it ran, so another node may be at it: the first result counts for nothing.
#[tokio::test]
async fn a_job_that_another_node_has_taken_over_is_not_ended_by_the_first() {
    let store = store::testing::store().await;
    let shared = (*store).clone();
    let taken_over = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&taken_over);
    let dispatch: JobDispatch = Arc::new(move |_| {
        let (shared, counting) = (shared.clone(), Arc::clone(&counting));
        Box::pin(async move {
            let now = NOW.plus_seconds(3_600);
            let other = JobClaimant {
                node: NodeId::new(NOW, [2; 10]),
                now,
                leased_until: now.plus_seconds(120),
            };
            store::testing::take_over(&shared, now).await?;
            let claimed = store::jobs::claim(&shared, &other).await?;
            assert_eq!(claimed.map(|job| job.attempt), Some(2));
            counting.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    });
    let node = TestNode::new(&store, dispatch);
    node.enqueue("a").await;

    assert_eq!(node.runner.run_due().await.unwrap(), 1);

    assert_eq!(taken_over.load(Ordering::SeqCst), 1);
    assert_eq!(node.counts().await, (1, 0), "the other node is still at it");
}

#[tokio::test]
async fn one_signal_is_enough_for_all_workers() {
    let store = store::testing::store().await;
    // Each job waits until all of them run at the same time.
    let (together, ended) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(4)));
    let (barrier, done) = (Arc::clone(&together), Arc::clone(&ended));
    let dispatch: JobDispatch = Arc::new(move |_| {
        let (barrier, done) = (Arc::clone(&barrier), Arc::clone(&done));
        Box::pin(async move {
            barrier.wait().await;
            done.wait().await;
            Ok(())
        })
    });
    let node = TestNode::new(&store, dispatch);
    let stop = CancellationToken::new();
    node.runner.start(3, &stop);
    for payload in ["a", "b", "c"] {
        node.enqueue(payload).await;
    }

    node.runner.queue.wake();
    ended.wait().await;

    stop.cancel();
    node.runner.tasks.control_ended().await;
    assert_eq!(node.counts().await, (0, 0));
}

#[tokio::test]
async fn many_workers_of_several_nodes_run_each_job_once() {
    let store = store::testing::store().await;
    let (node, ran) = TestNode::doing(&store, |_, _| Ok(()));
    let payloads: Vec<String> = (10..40).map(|number| number.to_string()).collect();
    for payload in &payloads {
        node.enqueue(payload).await;
    }
    let second = JobRunner { node: NodeId::new(NOW, [2; 10]), ..node.runner.clone() };

    let (one, other) = tokio::join!(node.runner.run_due(), second.run_due());

    assert_eq!(one.unwrap() + other.unwrap(), payloads.len());
    let mut ran = ran.lock().unwrap().clone();
    ran.sort();
    assert_eq!(ran, payloads);
}

#[tokio::test]
async fn workers_end_with_the_service_and_leave_what_they_did_not_begin() {
    let store = store::testing::store().await;
    let (node, ran) = TestNode::doing(&store, |_, _| Ok(()));
    node.enqueue("a").await;
    let stop = CancellationToken::new();
    stop.cancel();

    node.runner.start(2, &stop);
    node.runner.tasks.control_ended().await;

    assert!(ran.lock().unwrap().is_empty());
    assert_eq!(node.counts().await, (1, 0));
}
