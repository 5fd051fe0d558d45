//! Acts on an event of the payment processor that could not be acted on when it came. Safe to run again: what the
//! event is about is read anew, and one that was acted on since is left alone.

use domain::job::JobKind;
use store::jobs::{Job, NewJob};
use store::processor_events;

use super::{JobError, chain};
use crate::app::App;
use crate::billing::webhook;

#[derive(serde::Serialize, serde::Deserialize)]
struct Payload {
    event: String,
}

/// The work as a job, to be written down with the event.
pub(crate) fn job(app: &App, event: &str) -> NewJob {
    super::new(app, JobKind::ProcessEvent, &Payload { event: event.to_owned() })
}

/// Acts on the event, unless that was done.
pub(crate) async fn run(app: &App, job: &Job) -> Result<(), JobError> {
    let payload: Payload = super::payload(job)?;
    let Some(event) = processor_events::find_open(&app.store, &payload.event).await? else {
        return Ok(());
    };
    webhook::process(app, &event).await.map_err(|error| JobError::Later(chain(&error)))
}
