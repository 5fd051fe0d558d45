//! Jobs: held by one claim at a time, ended only by the newest claim, never lost.

use domain::id::NodeId;
use store::jobs::{self, Job, JobClaimant, JobCounts, NewJob};
use store::{Store, testing};

use crate::support::{NOON, new_job, node};

fn at(seconds: i64) -> JobClaimant {
    let now = NOON.plus_seconds(seconds);
    JobClaimant { node: node(), now, leased_until: now.plus_seconds(120) }
}

async fn claim(store: &Store, seconds: i64) -> Option<Job> {
    jobs::claim(store, &at(seconds)).await.unwrap()
}

#[tokio::test]
async fn a_claimed_job_has_its_data_and_is_deleted_when_finished() {
    let store = testing::store().await;
    let new = new_job();
    jobs::enqueue(&store, &new).await.unwrap();

    let job = claim(&store, 0).await.unwrap();

    assert_eq!((job.id, job.kind, job.attempt), (new.id, new.kind, 1));
    assert_eq!((&job.payload, job.created_at), (&new.payload, NOON));
    assert!(jobs::finish(&store, job.id, job.attempt).await.unwrap());
    assert_eq!(jobs::count(&store).await.unwrap(), JobCounts::default());
    assert_eq!(claim(&store, 1_000).await, None);
}

#[tokio::test]
async fn discarding_a_job_prevents_its_claim_unless_it_is_running() {
    let store = testing::store().await;
    let (done, running) = (new_job(), new_job());
    for job in [&done, &running] {
        jobs::enqueue_at(&store, job, NOON.plus_seconds(60)).await.unwrap();
    }
    assert_eq!(claim(&store, 59).await, None);

    jobs::discard(&store, done.id).await.unwrap();
    let job = claim(&store, 60).await.unwrap();
    jobs::discard(&store, job.id).await.unwrap();

    assert_eq!(job.id, running.id);
    assert!(jobs::finish(&store, job.id, job.attempt).await.unwrap());
    assert_eq!(claim(&store, 1_000).await, None);
}

#[tokio::test]
async fn concurrent_claims_get_each_job_once() {
    let store = testing::store().await;
    for _ in 0..10 {
        jobs::enqueue(&store, &new_job()).await.unwrap();
    }
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let shared = (*store).clone();
        tasks.spawn(async move {
            let mut claimed = Vec::new();
            while let Some(job) = claim(&shared, 0).await {
                claimed.push(job.id);
            }
            claimed
        });
    }

    let mut claimed = tasks.join_all().await.concat();

    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), 10);
    assert_eq!(jobs::count(&store).await.unwrap(), JobCounts { waiting: 10, given_up: 0 });
}

#[tokio::test]
async fn the_longest_waiting_job_is_claimed_first() {
    let store = testing::store().await;
    let late = NewJob { created_at: NOON.plus_seconds(10), ..new_job() };
    let early = new_job();
    jobs::enqueue(&store, &late).await.unwrap();
    jobs::enqueue(&store, &early).await.unwrap();

    assert_eq!(claim(&store, 9).await.map(|job| job.id), Some(early.id));
    assert_eq!(claim(&store, 9).await, None, "the other one is not due yet");
    assert_eq!(claim(&store, 10).await.map(|job| job.id), Some(late.id));
}

/// If the claiming node dies, no other node gets the job before the lease expires, and one does
/// afterwards.
#[tokio::test]
async fn a_dead_nodes_job_is_claimed_again_after_its_lease() {
    let store = testing::store().await;
    jobs::enqueue(&store, &new_job()).await.unwrap();
    let first = claim(&store, 0).await.unwrap();

    assert_eq!(claim(&store, 120).await, None, "the time alone ends no lease");
    testing::take_over(&store, NOON.plus_seconds(119)).await.unwrap();
    assert_eq!(claim(&store, 120).await, None);
    testing::take_over(&store, NOON.plus_seconds(120)).await.unwrap();
    let second = claim(&store, 120).await.unwrap();

    assert_eq!((second.id, second.attempt), (first.id, 2));
    assert_eq!(jobs::next_due(&store).await.unwrap(), Some(NOON.plus_seconds(240)));
}

/// The first node was slow, not dead: its reports about the job are ignored.
#[tokio::test]
async fn an_overtaken_claim_can_neither_end_nor_postpone_the_job() {
    let store = testing::store().await;
    jobs::enqueue(&store, &new_job()).await.unwrap();
    let slow = claim(&store, 0).await.unwrap();
    testing::take_over(&store, NOON.plus_seconds(120)).await.unwrap();
    let newest = claim(&store, 120).await.unwrap();

    let later = NOON.plus_seconds(9_999);
    assert!(!jobs::finish(&store, slow.id, slow.attempt).await.unwrap());
    assert!(!jobs::postpone(&store, slow.id, slow.attempt, later, "x").await.unwrap());
    assert!(!jobs::give_up(&store, slow.id, slow.attempt, later, "x").await.unwrap());

    assert_eq!(jobs::count(&store).await.unwrap(), JobCounts { waiting: 1, given_up: 0 });
    assert!(jobs::finish(&store, newest.id, newest.attempt).await.unwrap());
}

#[tokio::test]
async fn a_postponed_job_is_due_at_its_time() {
    let store = testing::store().await;
    jobs::enqueue(&store, &new_job()).await.unwrap();
    let job = claim(&store, 0).await.unwrap();
    let later = NOON.plus_seconds(5);

    // PostgreSQL cannot store NUL, and an error may be long.
    let error = format!("refused\0{}", "é".repeat(1_000));
    assert!(jobs::postpone(&store, job.id, job.attempt, later, &error).await.unwrap());

    assert_eq!(claim(&store, 4).await, None);
    assert_eq!(claim(&store, 5).await.map(|again| again.attempt), Some(2));
}

#[tokio::test]
async fn a_given_up_job_is_kept_and_retried_only_on_request() {
    let store = testing::store().await;
    jobs::enqueue(&store, &new_job()).await.unwrap();
    let job = claim(&store, 0).await.unwrap();

    assert!(jobs::give_up(&store, job.id, job.attempt, NOON, "no such box").await.unwrap());

    assert_eq!(claim(&store, 99_999).await, None);
    assert_eq!(jobs::count(&store).await.unwrap(), JobCounts { waiting: 0, given_up: 1 });
    assert_eq!(jobs::retry_given_up(&store, NOON.plus_seconds(9)).await.unwrap(), 1);
    assert_eq!(claim(&store, 8).await, None);
    assert_eq!(claim(&store, 9).await.map(|again| again.attempt), Some(2));
}

/// A restarted node releases the jobs it left; on a shared database, only its own.
#[tokio::test]
async fn a_restarted_node_releases_the_jobs_it_left() {
    let store = testing::store().await;
    let other = NodeId::new(NOON, [8; 10]);
    jobs::enqueue(&store, &new_job()).await.unwrap();
    store.act_as(node());
    jobs::enqueue(&store, &new_job()).await.unwrap();
    let own = claim(&store, 0).await.unwrap();
    jobs::claim(&store, &JobClaimant { node: other, ..at(0) }).await.unwrap().unwrap();

    let freed = store::leases::release_left(&store).await.unwrap();

    let shared = store.database() == store::DatabaseKind::Postgres;
    assert_eq!(freed, if shared { 1 } else { 2 });
    assert_eq!(claim(&store, 1).await.map(|job| job.id), Some(own.id));
}

#[tokio::test]
async fn jobs_of_unknown_kinds_are_not_claimed() {
    let store = testing::store().await;
    jobs::enqueue(&store, &new_job()).await.unwrap();
    jobs::enqueue(&store, &new_job()).await.unwrap();
    let sql = "update jobs set kind = 'from_tomorrow' where id = (select min(id) from jobs)";
    testing::run_raw(&store, sql).await.unwrap();

    assert!(claim(&store, 0).await.is_some());
    assert_eq!(claim(&store, 0).await, None);
}
