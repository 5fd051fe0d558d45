//! Maps each kind of job to the part of the service that runs it.

use std::sync::Arc;

use billing::jobs::{adjust_credit, process_event, update_email, use_card};
use domain::job::JobKind;
use emails::EmailRequest;
use jobs::{JobDispatch, JobError, chain, payload};
use runtime::metrics;
use store::jobs::Job;

use crate::state::NodeState;

/// The function that runs this service's jobs.
pub(crate) fn dispatch(state: &NodeState) -> JobDispatch {
    let state = state.clone();
    Arc::new(move |job| {
        let state = state.clone();
        Box::pin(async move { run(&state, &job).await })
    })
}

async fn run(state: &NodeState, job: &Job) -> Result<(), JobError> {
    match job.kind {
        JobKind::SendMail => send_email(state, job).await,
        JobKind::ProcessEvent => process_event::run(&state.billing, job).await,
        JobKind::AdjustCredit => adjust_credit::run(&state.billing, job).await,
        JobKind::UseCard => use_card::run(&state.billing, job).await,
        JobKind::UpdateEmail => update_email::run(&state.billing, job).await,
    }
}

/// Writes and sends an email. Safe to run again: its contents are read anew, and it is not sent if
/// it is no longer needed or its address has reached its limit. A crash between sending and
/// recording sends it twice.
async fn send_email(state: &NodeState, job: &Job) -> Result<(), JobError> {
    let request: EmailRequest = payload(job)?;
    let Some(sending) = state.identity.mail_limits.send(&request, state.clock.now()) else {
        let id = job.id.to_string();
        tracing::info!(
            job.id = id,
            "an email was not sent: its address has received too many recently"
        );
        return Ok(());
    };
    let Some(mail) = emails::write(&state.emails, &request, job.id).await? else { return Ok(()) };
    let sent = state.mailer.send(&mail).await;
    metrics::mail_ended(sent.is_ok());
    sent.map_err(|error| {
        let text = chain(&error);
        if error.is_permanent { JobError::Never(text) } else { JobError::Later(text) }
    })?;
    sending.done();
    Ok(())
}
