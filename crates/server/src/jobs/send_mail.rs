//! Sends one mail. Safe to run again: what the mail would say is read anew, and a mail that nobody needs any
//! more, or that the limits of its address leave out, is not sent. A crash between handing over and putting that down sends it a second time.

use domain::job::JobKind;
use runtime::metrics;
use store::jobs::{Job, NewJob};

use super::{JobError, chain};
use crate::app::App;
use crate::letters::{self, Letter};

/// The mail as a job, to be written down with what makes it necessary.
pub(crate) fn job(app: &App, letter: &Letter) -> NewJob {
    super::new(app, JobKind::SendMail, letter)
}

/// Writes the mail and hands it over.
pub(crate) async fn run(app: &App, job: &Job) -> Result<(), JobError> {
    let letter: Letter = super::payload(job)?;
    let Some(sending) = app.mail_limits.send(&letter, app.clock.now()) else {
        tracing::info!(
            job.id = job.id.to_string(),
            "an email was left out: many were sent to its address lately"
        );
        return Ok(());
    };
    let Some(mail) = letters::write(app, &letter, job.id).await? else { return Ok(()) };
    let sent = app.mailer.send(&mail).await;
    metrics::mail_ended(sent.is_ok());
    sent.map_err(|error| {
        let text = chain(&error);
        if error.is_permanent { JobError::Never(text) } else { JobError::Later(text) }
    })?;
    sending.done();
    Ok(())
}
