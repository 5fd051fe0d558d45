//! Jobs: work that follows a commit and is stored in it. This crate has the queue and the runner.
//! The services define what each kind of job does, and `node` connects the two.
//!
//! A job is data and a function that is safe to run twice: it reads the state again and does what
//! is missing. The service that enqueues one calls [`JobQueue::wake`] after the commit; a timer
//! finds any that are left.

mod runner;

use std::sync::Arc;

use domain::id::JobId;
use domain::job::JobKind;
use failures::Failure;
use runtime::clock::{Clock, Random};
use store::jobs::{Job, NewJob};
use tokio::sync::Notify;

pub use runner::{JobDispatch, JobRunner, RunningJob};

/// Creates jobs and wakes the workers.
#[derive(Clone)]
pub struct JobQueue {
    clock: Clock,
    random: Random,
    signal: Arc<Notify>,
}

/// Why a job failed. The text is for the operator.
#[derive(Debug, PartialEq, Eq)]
pub enum JobError {
    /// A later attempt may succeed.
    Later(String),
    /// No attempt will succeed.
    Never(String),
}

impl JobQueue {
    /// Starts without a runner.
    pub fn new(clock: Clock, random: Random) -> Self {
        Self { clock, random, signal: Arc::new(Notify::new()) }
    }

    /// A job to be committed with its cause. The payload must not contain secrets.
    pub fn job<T: serde::Serialize>(&self, kind: JobKind, payload: &T) -> NewJob {
        let now = self.clock.now();
        NewJob {
            id: JobId::new(now, self.random.bytes()),
            kind,
            // Ids and addresses can always be serialized as JSON.
            payload: serde_json::to_string(payload).unwrap_or_default(),
            created_at: now,
        }
    }

    /// Signals that there may be a job. Call it after the commit that stored the job.
    pub fn wake(&self) {
        self.signal.notify_one();
    }

    /// Waits until there may be a job.
    async fn woken(&self) {
        self.signal.notified().await;
    }
}

/// The payload of a job. One that this version cannot read is retried, possibly by a newer node,
/// and given up like any other job that keeps failing.
pub fn payload<T: serde::de::DeserializeOwned>(job: &Job) -> Result<T, JobError> {
    serde_json::from_str(&job.payload)
        .map_err(|error| JobError::Later(format!("the payload cannot be read: {error}")))
}

impl JobError {
    /// An error after which a later attempt may succeed, with its causes.
    pub fn later(error: &dyn std::error::Error) -> Self {
        Self::Later(chain(error))
    }
}

impl From<store::StoreError> for JobError {
    fn from(error: store::StoreError) -> Self {
        Self::later(&error)
    }
}

impl From<Failure> for JobError {
    fn from(failure: Failure) -> Self {
        Self::later(&failure)
    }
}

/// An error and its causes in one sentence.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
