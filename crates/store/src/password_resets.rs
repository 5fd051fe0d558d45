//! Password resets: using an emailed link replaces the password.

use domain::customer::Email;
use domain::id::CustomerId;
use domain::mail::LinkPurpose;
use domain::time::Timestamp;
use domain::token::TokenHash;

use crate::audit::{self, AuditEntry};
use crate::confirmations::{self, TrialGrant};
use crate::customers::{self, PasswordHash};
use crate::ended_credentials::{self, LastingCredentials};
use crate::jobs::{self, NewJob};
use crate::mail_links::{self, LinkState};
use crate::{Store, StoreError, email_changes, sessions};

/// A request to use an emailed link.
#[derive(Debug, Clone)]
pub struct PasswordReset<'a> {
    /// The hash of the link's token.
    pub hash: &'a TokenHash,
    /// The new password.
    pub password: &'a PasswordHash,
    /// The trial's grant, if the reset confirms the address and a trial is pending.
    pub trial: TrialGrant,
    /// Jobs to enqueue on success, such as a notice.
    pub jobs: &'a [NewJob],
    /// The audit entry to write on success.
    pub entry: Option<&'a AuditEntry>,
    /// The current time.
    pub now: Timestamp,
}

/// The outcome of a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordResetOutcome {
    /// The password is replaced and all sessions have ended.
    Done {
        /// The customer whose password it is.
        customer: CustomerId,
        /// The customer's address.
        email: Email,
    },
    /// The link is no longer valid; nothing changed.
    NotOpen(LinkState),
    /// There is no such link, or it is for another purpose.
    NotFound,
}

/// Uses a link to replace a password, once. Ends all of the customer's sessions, marks all other
/// links of this kind as used, and cancels a pending change of address, because an attacker may
/// have requested it. If the address was not confirmed, the link confirms it, and keys end as well.
pub async fn reset(
    store: &Store,
    resetting: &PasswordReset<'_>,
) -> Result<PasswordResetOutcome, StoreError> {
    const PASSWORD: &str = "update customers set password_hash = $2 where id = $1";
    let now = resetting.now;
    let mut tx = store.write().await?;
    let Some(link) = mail_links::lock(&mut tx, resetting.hash, now).await? else {
        return Ok(PasswordResetOutcome::NotFound);
    };
    match (link.purpose, link.state) {
        (LinkPurpose::ResetPassword, LinkState::Open) => {}
        (LinkPurpose::ResetPassword, state) => return Ok(PasswordResetOutcome::NotOpen(state)),
        (LinkPurpose::ConfirmEmail | LinkPurpose::ChangeEmail, _) => {
            return Ok(PasswordResetOutcome::NotFound);
        }
    }
    let password = resetting.password.0.as_str();
    tx.execute(PASSWORD, &[link.customer.into(), password.into()]).await?;
    mail_links::use_up(&mut tx, link.customer, LinkPurpose::ResetPassword, now).await?;
    email_changes::cancel(&mut tx, link.customer, now).await?;
    sessions::end_all_in(&mut tx, link.customer).await?;
    if !link.is_customer_confirmed {
        let lasting = LastingCredentials::Nothing(resetting.password);
        ended_credentials::end_others(&mut tx, link.customer, &lasting, now).await?;
        customers::set_email(&mut tx, link.customer, &link.email, now).await?;
        confirmations::end_trial(&mut tx, &link, resetting.trial, now).await?;
    }
    jobs::insert_all(&mut tx, resetting.jobs).await?;
    if let Some(entry) = resetting.entry {
        audit::insert(&mut tx, entry).await?;
    }
    tx.commit().await?;
    Ok(PasswordResetOutcome::Done { customer: link.customer, email: link.email })
}
