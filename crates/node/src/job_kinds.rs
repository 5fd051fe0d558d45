//! Which part of the service carries out which kind of job.

use std::sync::Arc;

use billing::jobs::{adjust_credit, process_event, update_email, use_card};
use domain::job::JobKind;
use emails::EmailRequest;
use jobs::{Dispatch, JobError, chain, payload};
use runtime::metrics;
use store::jobs::Job;

use crate::state::NodeState;

/// Carries out the jobs of this service.
pub(crate) fn dispatch(state: &NodeState) -> Dispatch {
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

/// Writes an email and hands it over. Safe to run again: what the email would say is read anew, and one that nobody needs any
/// more, or that the limits of its address leave out, is not sent. A crash between handing over and recording that sends it a
/// second time.
async fn send_email(state: &NodeState, job: &Job) -> Result<(), JobError> {
    let request: EmailRequest = payload(job)?;
    let Some(sending) = state.identity.mail_limits.send(&request, state.clock.now()) else {
        let id = job.id.to_string();
        tracing::info!(job.id = id, "an email was left out: many were sent to its address lately");
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
