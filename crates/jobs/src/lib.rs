//! Jobs: work that follows a commit and was written down in it. The queue and the runner; what the kinds of jobs do is
//! for the services, and which service does which is decided where the service is put together.
//!
//! A job is data and a function that may run twice: it reads the state again and does what is missing. The service
//! that enqueues one wakes the runner with [`JobQueue::wake`] after the commit; a timer finds the rest.

mod runner;

use std::sync::Arc;

use domain::id::JobId;
use domain::job::JobKind;
use failures::Failure;
use runtime::clock::{Clock, Random};
use store::jobs::{Job, NewJob};
use tokio::sync::Notify;

pub use runner::{Dispatch, Runner, RunningJob};

/// Makes jobs and wakes who carries them out.
#[derive(Clone)]
pub struct JobQueue {
    clock: Clock,
    random: Random,
    signal: Arc<Notify>,
}

/// Why a job did not do its work. The text is for those who look after the service.
#[derive(Debug, PartialEq, Eq)]
pub enum JobError {
    /// Another attempt may succeed.
    Later(String),
    /// No attempt will.
    Never(String),
}

impl JobQueue {
    /// A queue without a runner so far.
    pub fn new(clock: Clock, random: Random) -> Self {
        Self { clock, random, signal: Arc::new(Notify::new()) }
    }

    /// A job to be written down with what makes it necessary. The payload must hold no secret.
    pub fn job<T: serde::Serialize>(&self, kind: JobKind, payload: &T) -> NewJob {
        let now = self.clock.now();
        NewJob {
            id: JobId::new(now, self.random.bytes()),
            kind,
            // Ids and addresses can always be written as JSON.
            payload: serde_json::to_string(payload).unwrap_or_default(),
            created_at: now,
        }
    }

    /// Says that there may be a job. To be called after the commit that wrote it down.
    pub fn wake(&self) {
        self.signal.notify_one();
    }

    /// Waits until there may be a job.
    async fn woken(&self) {
        self.signal.notified().await;
    }
}

/// The payload of a job. One that this version cannot read waits for a node that can, as long as any job is tried, and is
/// then given up: kept, counted and reported like every other.
pub fn payload<T: serde::de::DeserializeOwned>(job: &Job) -> Result<T, JobError> {
    serde_json::from_str(&job.payload)
        .map_err(|error| JobError::Later(format!("the payload cannot be read: {error}")))
}

impl JobError {
    /// An error after which another attempt may succeed, with its causes.
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

/// An error and its causes as one sentence.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
