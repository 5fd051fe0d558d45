//! The runner: claims due jobs and runs them, woken by a signal and by a timer, on every node with
//! workers. A job that fails is retried with growing pauses; one that fails for days is given up
//! and reported.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::job::{GIVE_UP_AFTER_S, pause_s};
use runtime::clock::{Clock, Random};
use runtime::metrics;
use runtime::tasks::Tasks;
use store::jobs::{self, Job, JobClaimant};
use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::{JobError, JobQueue};

/// How long a claimed job is reserved for its worker, in seconds.
const LEASE_S: i64 = 120;
/// The timeout of one attempt, well within its lease.
const ATTEMPT_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a running job may continue when the service stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A running attempt of a job.
pub type RunningJob = Pin<Box<dyn Future<Output = Result<(), JobError>> + Send>>;
/// Runs a job, by its kind.
pub type JobDispatch = Arc<dyn Fn(Job) -> RunningJob + Send + Sync>;

/// What a node needs to run jobs.
#[derive(Clone)]
pub struct JobRunner {
    /// Stores jobs.
    pub store: Store,
    /// Tells what is due.
    pub clock: Clock,
    /// Adds jitter to the pauses after failures.
    pub random: Random,
    /// Runs the attempts.
    pub tasks: Tasks,
    /// Wakes the workers.
    pub queue: JobQueue,
    /// The node that claims jobs.
    pub node: NodeId,
    /// How often workers look for jobs without being woken.
    pub poll: Duration,
    /// Runs a job by its kind.
    pub dispatch: JobDispatch,
}

impl JobRunner {
    /// Starts this many workers. They end when `stop` is cancelled.
    pub fn start(&self, workers: usize, stop: &CancellationToken) {
        for _ in 0..workers {
            let (worker, stop) = (self.clone(), stop.clone());
            self.tasks.spawn_control(async move { worker.work(stop).await });
        }
    }

    /// Runs everything that is due, one job at a time; returns the number of attempts.
    pub async fn run_due(&self) -> Result<usize, StoreError> {
        let mut attempts = 0;
        while self.run_next(&CancellationToken::new()).await? {
            attempts += 1;
        }
        Ok(attempts)
    }

    async fn work(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.run_next(&stop).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "jobs could not be claimed or finished"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.queue.woken() => {}
                () = tokio::time::sleep(self.poll) => {}
            }
        }
    }

    /// Claims and runs one job. False if none is due.
    async fn run_next(&self, stop: &CancellationToken) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let claimant =
            JobClaimant { node: self.node, now, leased_until: now.plus_seconds(LEASE_S) };
        let Some(job) = jobs::claim(&self.store, &claimant).await? else { return Ok(false) };
        // There may be more jobs: another worker looks for them while this one is busy.
        self.queue.wake();
        let (running, stop) = ((self.dispatch)(job.clone()), stop.clone());
        // A separate task, so that a panic ends this attempt and not the worker.
        let ended = self.tasks.on_control(attempt(running, stop)).await;
        let ended = ended.unwrap_or_else(|error| Err(JobError::Later(error.to_string())));
        self.end(&job, ended).await?;
        Ok(true)
    }

    /// Records the result of an attempt, unless another worker has claimed the job since.
    async fn end(&self, job: &Job, ended: Result<(), JobError>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let kind = job.kind.as_str();
        let is_old = now >= job.created_at.plus_seconds(GIVE_UP_AFTER_S);
        let (outcome, is_ours) = match ended {
            Ok(()) => ("done", jobs::finish(&self.store, job.id, job.attempt).await?),
            Err(JobError::Later(error)) if !is_old => {
                let run_at = now.plus_seconds(pause_s(job.attempt, self.random.below(100)));
                let id = job.id.to_string();
                tracing::warn!(
                    job.id = id,
                    kind,
                    attempt = job.attempt,
                    "a job failed and will be retried"
                );
                let postponed =
                    jobs::postpone(&self.store, job.id, job.attempt, run_at, &error).await?;
                ("postponed", postponed)
            }
            Err(JobError::Later(error) | JobError::Never(error)) => {
                let id = job.id.to_string();
                tracing::error!(job.id = id, kind, attempt = job.attempt, "a job was given up");
                ("given_up", jobs::give_up(&self.store, job.id, job.attempt, now, &error).await?)
            }
        };
        metrics::job_ended(job.kind, if is_ours { outcome } else { "overtaken" });
        Ok(())
    }
}

async fn attempt(running: RunningJob, stop: CancellationToken) -> Result<(), JobError> {
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        ended = running => ended,
        () = tokio::time::sleep(ATTEMPT_TIMEOUT) => {
            Err(JobError::Later("the attempt took too long".to_owned()))
        }
        () = stopped => Err(JobError::Later("the service stopped".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(text: &str) -> Result<(), JobError> {
        Err(JobError::Later(text.to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_takes_a_minute_is_ended_within_its_lease() {
        let slow = Box::pin(async {
            tokio::time::sleep(Duration::from_millis(59_999)).await;
            Ok(())
        });
        let endless = Box::pin(std::future::pending());

        assert_eq!(attempt(slow, CancellationToken::new()).await, Ok(()));
        assert_eq!(
            attempt(endless, CancellationToken::new()).await,
            later("the attempt took too long")
        );
        let lease = Duration::from_secs(LEASE_S.unsigned_abs());
        assert!(ATTEMPT_TIMEOUT + STOP_GRACE < lease, "nobody else may run it meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_attempt_has_a_few_seconds_when_the_service_stops() {
        let stop = CancellationToken::new();
        stop.cancel();
        let short = Box::pin(async {
            tokio::time::sleep(Duration::from_millis(4_999)).await;
            Err(JobError::Never("its own result".to_owned()))
        });

        assert_eq!(
            attempt(short, stop.clone()).await,
            Err(JobError::Never("its own result".to_owned()))
        );
        let endless = Box::pin(std::future::pending());
        assert_eq!(attempt(endless, stop).await, later("the service stopped"));
    }
}
