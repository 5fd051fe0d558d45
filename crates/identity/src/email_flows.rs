//! Email addresses: confirmed, changed and used for password resets through emailed links. The API
//! and the console share these functions.
//!
//! A caller who only names an address cannot find out whether it has a customer: the response is
//! the same, and so are the work and the limits, whether an email is sent or not
//! (`mail_limits.rs`).

use std::net::IpAddr;

use domain::credits::Credits;
use domain::customer::Email;
use domain::id::{CustomerId, EntryId};
use domain::job::{AddressChange, JobKind};
use domain::mail::LinkPurpose;
use domain::token::{SecretToken, TokenHash};
use emails::EmailRequest;
use failures::Failure;
use runtime::audit::{self, AuditRecord};
use serde_json::json;
use settings::ExpirySection;
use store::audit::AuditEntry;
use store::confirmations::{ConfirmationOutcome, EmailConfirmation, TrialGrant};
use store::customers::PasswordHash;
use store::email_changes::EmailChange;
use store::jobs::NewJob;
use store::mail_links::{EmailLink, LinkState};
use store::password_resets::{PasswordReset, PasswordResetOutcome};
use transport::network_of;
use web::auth::device::CallingDevice;

use crate::IdentityState;
use crate::devices::{DeviceCookie, DeviceOwner};
use crate::link_proof::{LinkProof, LinkUser};
use crate::passwords::{self, HashRequester};

/// An address that has just been confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedAddress {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The address.
    pub email: Email,
    /// The trial credits granted with it.
    pub granted: Credits,
    /// Whether a new password was set with it, which ended every key and session.
    pub is_password_new: bool,
}

/// A new password that was set with a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPassword {
    /// The customer whose password it is.
    pub customer: CustomerId,
    /// Whether it confirmed the address, and ended every key.
    pub is_first_confirmation: bool,
    /// The device cookie of the browser, if its connection may carry one.
    pub device_cookie: Option<String>,
}

/// The link with this token, if it exists. Checking a link does not consume it.
pub async fn look(identity: &IdentityState, token: &str) -> Result<Option<EmailLink>, Failure> {
    let Ok(token) = SecretToken::parse(token) else { return Ok(None) };
    Ok(store::mail_links::find(&identity.store, &token.hash(), identity.clock.now()).await?)
}

/// Uses a link to confirm an address, and grants a pending trial. `proof` is what shows who the
/// caller is.
pub async fn confirm(
    identity: &IdentityState,
    caller: &CallingDevice,
    token: &str,
    proof: LinkProof,
) -> Result<ConfirmedAddress, Failure> {
    let is_wanted = |purpose| purpose != LinkPurpose::ResetPassword;
    let (hash, link) = open_link(identity, token, is_wanted).await?;
    let user = proof.check(identity, caller, &link).await?;
    let is_password_new = matches!(user, LinkUser::Owner(_));
    let jobs = notices(identity, &link, is_password_new);
    let now = identity.clock.now();
    let entry = record(identity, &link, is_password_new);
    let confirming = EmailConfirmation {
        hash: &hash,
        trial: trial(identity),
        lasting: user.lasting(&link),
        jobs: &jobs,
        entry: entry.as_ref(),
        now,
    };
    match store::confirmations::confirm(&identity.store, &confirming).await? {
        ConfirmationOutcome::Confirmed { customer, email, granted } => {
            identity.cached.forget_keys_of(customer);
            identity.jobs.wake();
            Ok(ConfirmedAddress { customer, email, granted, is_password_new })
        }
        ConfirmationOutcome::NotOpen(state) => Err(not_open(state)),
        ConfirmationOutcome::EmailTaken => Err(Failure::EmailTaken),
        ConfirmationOutcome::NotFound => Err(Failure::UnknownLink),
    }
}

/// The link with this token, if it is open and for a wanted purpose. Hashing a password is slow, so
/// links are checked before.
async fn open_link(
    identity: &IdentityState,
    token: &str,
    is_wanted: impl Fn(LinkPurpose) -> bool,
) -> Result<(TokenHash, EmailLink), Failure> {
    let hash = SecretToken::parse(token).map_err(|_| Failure::UnknownLink)?.hash();
    let link = store::mail_links::find(&identity.store, &hash, identity.clock.now()).await?;
    let link = link.filter(|link| is_wanted(link.purpose)).ok_or(Failure::UnknownLink)?;
    if link.state == LinkState::Open { Ok((hash, link)) } else { Err(not_open(link.state)) }
}

fn trial(identity: &IdentityState) -> TrialGrant {
    let (now, credits) = (identity.clock.now(), &identity.config.credits);
    TrialGrant {
        entry: EntryId::new(now, identity.random.bytes()),
        credits: Credits::from_whole(credits.trial),
        expires_at: ExpirySection::after(credits.expiry.trial_days, now),
    }
}

/// The audit record of using a link. The first confirmation of an address by its customer is not
/// recorded.
fn record(identity: &IdentityState, link: &EmailLink, is_password_new: bool) -> Option<AuditEntry> {
    let (action, details) = match link.purpose {
        LinkPurpose::ConfirmEmail if !is_password_new => return None,
        LinkPurpose::ChangeEmail if !is_password_new => {
            (audit::EMAIL_CHANGED, json!({"email": link.email.as_str()}))
        }
        _ if link.is_customer_confirmed => (audit::PASSWORD_RESET, json!({})),
        _ => (audit::PASSWORD_RESET, json!({"email_confirmed": true, "keys_revoked": true})),
    };
    let actor = audit::MAILED_LINK.to_owned();
    let record = AuditRecord { customer: link.customer, actor, action, details };
    Some(record.now(&identity.clock, &identity.random))
}

/// Jobs that notify the owner of a new password and the previous address of a change, and send the
/// new one to the payment processor.
fn notices(identity: &IdentityState, link: &EmailLink, is_password_new: bool) -> Vec<NewJob> {
    let mut jobs = Vec::new();
    if link.purpose == LinkPurpose::ChangeEmail {
        let (email, current) = (link.current_email.clone(), link.email.clone());
        let letter = EmailRequest::EmailChanged { email, current };
        jobs.push(emails::job(&identity.jobs, &letter));
        let change = AddressChange { customer: link.customer };
        jobs.push(identity.jobs.job(JobKind::UpdateEmail, &change));
    }
    if is_password_new {
        let (email, keys_revoked) = (link.email.clone(), !link.is_customer_confirmed);
        let letter = EmailRequest::PasswordReset { email, keys_revoked };
        jobs.push(emails::job(&identity.jobs, &letter));
    }
    jobs
}

/// Sends the confirmation email again. `ip` is the caller's address.
pub async fn send_confirmation(
    identity: &IdentityState,
    ip: IpAddr,
    email: Email,
) -> Result<(), Failure> {
    identity.mail_limits.ask(LinkPurpose::ConfirmEmail, ip, identity.clock.now())?;
    let asked_by = Some(network_of(ip).to_string());
    enqueue(identity, &EmailRequest::ConfirmEmail { email, asked_by }).await
}

/// Sends an email with a link to set a new password. `ip` is the caller's address.
pub async fn forgot_password(
    identity: &IdentityState,
    ip: IpAddr,
    email: Email,
) -> Result<(), Failure> {
    identity.mail_limits.ask(LinkPurpose::ResetPassword, ip, identity.clock.now())?;
    let asked_by = Some(network_of(ip).to_string());
    enqueue(identity, &EmailRequest::ResetPassword { email, asked_by }).await
}

/// Uses a link to set a password; every session of the customer ends. If the address was not
/// confirmed, this confirms it, and every key ends as well.
pub async fn reset_password(
    identity: &IdentityState,
    caller: &CallingDevice,
    token: &str,
    password: String,
) -> Result<NewPassword, Failure> {
    let is_wanted = |purpose| purpose == LinkPurpose::ResetPassword;
    let (hash, link) = open_link(identity, token, is_wanted).await?;
    passwords::check_new(identity, &password, &link.email)?;
    let requester = HashRequester::Known(link.customer, caller.ip);
    let password = passwords::hash(identity, requester, password).await?;
    let device_cookie = device_cookie(identity, caller, &link, &password)?;
    let entry = record(identity, &link, true);
    let jobs = notices(identity, &link, true);
    let resetting = PasswordReset {
        hash: &hash,
        password: &password,
        trial: trial(identity),
        jobs: &jobs,
        entry: entry.as_ref(),
        now: identity.clock.now(),
    };
    match store::password_resets::reset(&identity.store, &resetting).await? {
        PasswordResetOutcome::Done { customer, .. } => {
            identity.cached.forget_keys_of(customer);
            identity.jobs.wake();
            let is_first_confirmation = !link.is_customer_confirmed;
            Ok(NewPassword { customer, is_first_confirmation, device_cookie })
        }
        PasswordResetOutcome::NotOpen(state) => Err(not_open(state)),
        PasswordResetOutcome::NotFound => Err(Failure::UnknownLink),
    }
}

/// The cookie by which the customer of a link recognizes this browser from now on: with the next
/// login it must not depend on who else guesses the password.
fn device_cookie(
    identity: &IdentityState,
    caller: &CallingDevice,
    link: &EmailLink,
    password: &PasswordHash,
) -> Result<Option<String>, Failure> {
    if !caller.can_keep_cookies {
        return Ok(None);
    }
    let owner = DeviceOwner { customer: link.customer, password };
    DeviceCookie::read(identity, caller.cookie.as_deref()).renewed(owner, owner).map(Some)
}

/// Starts a change of address: stores the new one, emails it a link, and notifies the old one.
/// Until the link is used, the old address stays in use, also for logging in. The caller must have
/// checked the current password. `NotFound` means that the customer was deleted in the meantime.
pub async fn request_change(
    identity: &IdentityState,
    ip: IpAddr,
    customer: CustomerId,
    email: Email,
) -> Result<EmailChange, Failure> {
    let Some(current) = store::customers::find_by_id(&identity.store, customer).await? else {
        return Ok(EmailChange::NotFound);
    };
    if current.email != email {
        identity.mail_limits.ask_change(customer, ip, identity.clock.now())?;
    }
    let letters = [
        EmailRequest::ChangeEmail { customer, email: email.clone() },
        EmailRequest::EmailChangeAsked { email: current.email, wanted: email.clone() },
    ];
    let jobs = letters.map(|letter| emails::job(&identity.jobs, &letter));
    let now = identity.clock.now();
    let change =
        store::email_changes::request(&identity.store, customer, &email, &jobs, now).await?;
    identity.jobs.wake();
    Ok(change)
}

async fn enqueue(identity: &IdentityState, letter: &EmailRequest) -> Result<(), Failure> {
    store::jobs::enqueue(&identity.store, &emails::job(&identity.jobs, letter)).await?;
    identity.jobs.wake();
    Ok(())
}

/// Why a link cannot be used.
pub const fn not_open(state: LinkState) -> Failure {
    match state {
        LinkState::Used => Failure::LinkUsed,
        LinkState::Expired => Failure::LinkExpired,
        LinkState::Outdated => Failure::LinkOutdated,
        LinkState::Open => Failure::UnknownLink,
    }
}
