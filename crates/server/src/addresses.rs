//! Mail addresses: confirmed, changed, and used to get back in, by links that are mailed. The API and the pages
//! use these functions alike.
//!
//! Nobody who only names an address learns whether it has a customer: the response to a request for an email is the same,
//! and so are its work and its limits, whether one is sent or not (`mail_limits.rs`).

use std::net::IpAddr;

use domain::credits::Credits;
use domain::customer::Email;
use domain::id::{CustomerId, EntryId};
use domain::job::{AddressChange, JobKind};
use domain::mail::LinkPurpose;
use domain::token::Token;
use emails::EmailRequest;
use failures::Failure;
use runtime::audit::{self, AuditRecord};
use serde_json::json;
use store::audit::AuditEntry;
use store::confirmations::{Confirmation, Confirming, TrialGrant};
use store::email_changes::EmailChange;
use store::jobs::NewJob;
use store::mail_links::{Link, LinkState};
use store::password_resets::{Reset, Resetting};
use transport::neighbourhood_text;
use transport::network_of;
use web::error::ApiError;

use crate::app::App;
use crate::passwords::{self, Requester};

/// An address that is confirmed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// Whose it is.
    pub(crate) customer: CustomerId,
    /// The address.
    pub(crate) email: Email,
    /// The trial's credits that came with it.
    pub(crate) granted: Credits,
}

/// The link that has this token, if there is one. Looking at it uses nothing.
pub(crate) async fn look(app: &App, token: &str) -> Result<Option<Link>, ApiError> {
    let Ok(token) = Token::parse(token) else { return Ok(None) };
    Ok(store::mail_links::find(&app.store, &token.hash(), app.clock.now()).await?)
}

/// Uses a link to confirm an address, and grants the trial that waits for it.
pub(crate) async fn confirm(app: &App, token: &str) -> Result<Confirmed, ApiError> {
    let token = Token::parse(token).map_err(|_| ApiError::Failure(Failure::UnknownLink))?;
    let (hash, now) = (token.hash(), app.clock.now());
    let link = store::mail_links::find(&app.store, &hash, now).await?;
    let jobs = link.as_ref().map(|link| notices(app, link)).unwrap_or_default();
    let entry = link.as_ref().and_then(|link| record(app, link));
    let confirming = Confirming {
        hash: &hash,
        trial: TrialGrant {
            entry: EntryId::new(now, app.random.bytes()),
            credits: Credits::from_whole(app.config.credits.trial),
        },
        jobs: &jobs,
        entry: entry.as_ref(),
        now,
    };
    match store::confirmations::confirm(&app.store, &confirming).await? {
        Confirmation::Confirmed { customer, email, granted } => {
            app.jobs.wake();
            Ok(Confirmed { customer, email, granted })
        }
        Confirmation::NotOpen(state) => Err(not_open(state)),
        Confirmation::EmailTaken => Err(ApiError::Failure(Failure::EmailTaken)),
        Confirmation::NotFound => Err(ApiError::Failure(Failure::UnknownLink)),
    }
}

/// What using a link is in the audit list. That an address was confirmed for the first time is no news.
fn record(app: &App, link: &Link) -> Option<AuditEntry> {
    let (action, details) = match link.purpose {
        LinkPurpose::ConfirmEmail => return None,
        LinkPurpose::ChangeEmail => (audit::EMAIL_CHANGED, json!({"email": link.email.as_str()})),
        LinkPurpose::ResetPassword => (audit::PASSWORD_RESET, json!({})),
    };
    let actor = audit::MAILED_LINK.to_owned();
    let record = AuditRecord { customer: link.customer, actor, action, details };
    Some(record.now(&app.clock, &app.random))
}

/// Emails the previous address when another one takes its place, and tells the payment processor the new one.
fn notices(app: &App, link: &Link) -> Vec<NewJob> {
    match link.purpose {
        LinkPurpose::ChangeEmail => {
            let (email, current) = (link.current_email.clone(), link.email.clone());
            let letter = EmailRequest::EmailChanged { email, current };
            vec![
                emails::job(&app.jobs, &letter),
                app.jobs.job(JobKind::UpdateEmail, &AddressChange { customer: link.customer }),
            ]
        }
        LinkPurpose::ConfirmEmail | LinkPurpose::ResetPassword => Vec::new(),
    }
}

/// Asks for the mail that asks for a confirmation, once more. `ip` is who asks.
pub(crate) async fn send_confirmation(app: &App, ip: IpAddr, email: Email) -> Result<(), ApiError> {
    app.mail_limits.ask(LinkPurpose::ConfirmEmail, ip, app.clock.now())?;
    let asked_by = Some(network_of(ip).to_string());
    enqueue(app, &EmailRequest::ConfirmEmail { email, asked_by }).await
}

/// Asks for the mail that lets a customer set a password. `ip` is who asks.
pub(crate) async fn forgot_password(app: &App, ip: IpAddr, email: Email) -> Result<(), ApiError> {
    app.mail_limits.ask(LinkPurpose::ResetPassword, ip, app.clock.now())?;
    let asked_by = Some(network_of(ip).to_string());
    enqueue(app, &EmailRequest::ResetPassword { email, asked_by }).await
}

/// Uses a link to set a password; every session of the customer ends. `ip` is who uses it.
pub(crate) async fn reset_password(
    app: &App,
    ip: IpAddr,
    token: &str,
    password: String,
) -> Result<(), ApiError> {
    if let Some(problem) = web::fields::problem_of_new("new_password", &password) {
        return Err(problem.into());
    }
    let token = Token::parse(token).map_err(|_| ApiError::Failure(Failure::UnknownLink))?;
    let (hash, now) = (token.hash(), app.clock.now());
    // Hashing takes long: who has no link to use does not get that far.
    let link = store::mail_links::find(&app.store, &hash, now).await?;
    let link = link.filter(|link| link.purpose == LinkPurpose::ResetPassword);
    let link = link.ok_or(ApiError::Failure(Failure::UnknownLink))?;
    if link.state != LinkState::Open {
        return Err(not_open(link.state));
    }
    let requester = Requester::Known(link.customer, ip);
    let password = passwords::hash(app, requester, password).await?;
    let entry = record(app, &link);
    let jobs = [emails::job(&app.jobs, &EmailRequest::PasswordReset { email: link.email })];
    let resetting = Resetting {
        hash: &hash,
        password: &password,
        jobs: &jobs,
        entry: entry.as_ref(),
        network: &neighbourhood_text(ip),
        now,
    };
    match store::password_resets::reset(&app.store, &resetting).await? {
        Reset::Done { .. } => {
            app.jobs.wake();
            Ok(())
        }
        Reset::NotOpen(state) => Err(not_open(state)),
        Reset::NotFound => Err(ApiError::Failure(Failure::UnknownLink)),
    }
}

/// Begins a change of address: remembers the new one, mails it a link, and tells the old one. Until the link is
/// used the old address counts, and logs in. `PATCH /v1/auth/me` calls this with who asks (`Client::ip`) after it
/// has checked the current password, answers `Unchanged` and `Requested` with 200 and the account as it is
/// (`store::email_changes::find` gives the address that waits), `EmailTaken` with `ApiError::Failure(Failure::EmailTaken)`, and
/// `NotFound`, which only a customer deleted meanwhile gives, with `ApiError::Failure(Failure::NotFound)`.
pub(crate) async fn request_change(
    app: &App,
    ip: IpAddr,
    customer: CustomerId,
    email: Email,
) -> Result<EmailChange, ApiError> {
    let Some(current) = store::customers::find_by_id(&app.store, customer).await? else {
        return Ok(EmailChange::NotFound);
    };
    if current.email != email {
        app.mail_limits.ask_change(customer, ip, app.clock.now())?;
    }
    let letters = [
        EmailRequest::ChangeEmail { customer, email: email.clone() },
        EmailRequest::EmailChangeAsked { email: current.email, wanted: email.clone() },
    ];
    let jobs = letters.map(|letter| emails::job(&app.jobs, &letter));
    let now = app.clock.now();
    let change = store::email_changes::request(&app.store, customer, &email, &jobs, now).await?;
    app.jobs.wake();
    Ok(change)
}

async fn enqueue(app: &App, letter: &EmailRequest) -> Result<(), ApiError> {
    store::jobs::enqueue(&app.store, &emails::job(&app.jobs, letter)).await?;
    app.jobs.wake();
    Ok(())
}

/// Why a link that is not open does not open anything.
pub(crate) const fn not_open(state: LinkState) -> ApiError {
    match state {
        LinkState::Used => ApiError::Failure(Failure::LinkUsed),
        LinkState::Expired => ApiError::Failure(Failure::LinkExpired),
        LinkState::Outdated => ApiError::Failure(Failure::LinkOutdated),
        LinkState::Open => ApiError::Failure(Failure::UnknownLink),
    }
}
