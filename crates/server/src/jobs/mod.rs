//! Jobs: work that follows a commit and was written down in it. This is the list of what they do.
//!
//! A job is data and a function that may run twice: it reads the state again and does what is missing. Whoever
//! writes one down wakes the runner with `app.job_signal` after the commit; a timer finds what nobody told of.

pub(crate) mod adjust_credit;
pub(crate) mod process_event;
pub(crate) mod runner;
pub(crate) mod send_mail;
pub(crate) mod update_email;
pub(crate) mod use_card;

use domain::id::JobId;
use domain::job::JobKind;
use store::jobs::{Job, NewJob};

use crate::app::App;

/// Why a job did not do its work. The text is for those who look after the service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JobError {
    /// Another attempt may succeed.
    Later(String),
    /// No attempt will.
    Never(String),
}

/// Carries out a job.
async fn run(app: &App, job: &Job) -> Result<(), JobError> {
    match job.kind {
        JobKind::SendMail => send_mail::run(app, job).await,
        JobKind::ProcessEvent => process_event::run(app, job).await,
        JobKind::AdjustCredit => adjust_credit::run(app, job).await,
        JobKind::UseCard => use_card::run(app, job).await,
        JobKind::UpdateEmail => update_email::run(app, job).await,
    }
}

/// A job to be written down with what makes it necessary. The payload must hold no secret.
fn new<T: serde::Serialize>(app: &App, kind: JobKind, payload: &T) -> NewJob {
    let now = app.clock.now();
    NewJob {
        id: JobId::new(now, app.random.bytes()),
        kind,
        // Ids and addresses can always be written as JSON.
        payload: serde_json::to_string(payload).unwrap_or_default(),
        created_at: now,
    }
}

/// The payload of a job. One that this version cannot read waits for a node that can, as long as any job is tried, and is
/// then given up: kept, counted and reported like every other.
fn payload<T: serde::de::DeserializeOwned>(job: &Job) -> Result<T, JobError> {
    serde_json::from_str(&job.payload)
        .map_err(|error| JobError::Later(format!("the payload cannot be read: {error}")))
}

impl From<store::StoreError> for JobError {
    fn from(error: store::StoreError) -> Self {
        Self::Later(chain(&error))
    }
}

/// An error and its causes as one sentence.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
