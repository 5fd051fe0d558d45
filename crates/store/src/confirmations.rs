//! Confirmations: using an emailed link confirms an address and grants a pending trial.

use domain::credits::Credits;
use domain::customer::Email;
use domain::id::{CustomerId, EntryId};
use domain::lots::LotSource;
use domain::mail::LinkPurpose;
use domain::time::Timestamp;
use domain::token::TokenHash;

use crate::audit::{self, AuditEntry};
use crate::ended_credentials::{self, LastingCredentials};
use crate::jobs::{self, NewJob};
use crate::ledger::{self, CreditGrant, CreditGrantOutcome};
use crate::mail_links::{self, EmailLink, LinkState};
use crate::sql::hex;
use crate::tx::Tx;
use crate::{Store, StoreError, customers};

/// A request to use an emailed link.
#[derive(Debug, Clone)]
pub struct EmailConfirmation<'a> {
    /// The hash of the link's token.
    pub hash: &'a TokenHash,
    /// The trial's grant, if one is pending.
    pub trial: TrialGrant,
    /// What of the customer's credentials lasts.
    pub lasting: LastingCredentials<'a>,
    /// Jobs to enqueue on success, such as a notice to the previous address.
    pub jobs: &'a [NewJob],
    /// The audit entry to write on success.
    pub entry: Option<&'a AuditEntry>,
    /// The current time.
    pub now: Timestamp,
}

/// The credits of a pending trial, and the ledger entry that would grant them.
#[derive(Debug, Clone, Copy)]
pub struct TrialGrant {
    /// The id of the entry.
    pub entry: EntryId,
    /// The number of credits.
    pub credits: Credits,
    /// When they expire; none if they do not.
    pub expires_at: Option<Timestamp>,
}

/// The outcome of a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfirmationOutcome {
    /// The address is confirmed and is now its customer's.
    Confirmed {
        /// The customer who owns it.
        customer: CustomerId,
        /// The address.
        email: Email,
        /// The trial credits granted with it; zero if no trial was pending or the mailbox has had
        /// one.
        granted: Credits,
    },
    /// The link is no longer valid; nothing changed.
    NotOpen(LinkState),
    /// Another customer has since taken the address; nothing changed.
    EmailTaken,
    /// There is no such link, or it is for another purpose.
    NotFound,
}

/// Uses a link to confirm the address it was sent to, once, and grants a pending trial. All other
/// links for the same purpose become used, and the credentials that do not last end.
pub async fn confirm(
    store: &Store,
    confirming: &EmailConfirmation<'_>,
) -> Result<ConfirmationOutcome, StoreError> {
    let now = confirming.now;
    let mut tx = store.write().await?;
    let Some(link) = mail_links::lock(&mut tx, confirming.hash, now).await? else {
        return Ok(ConfirmationOutcome::NotFound);
    };
    match link.state {
        LinkState::Open => {}
        LinkState::Used | LinkState::Expired | LinkState::Outdated => {
            return Ok(ConfirmationOutcome::NotOpen(link.state));
        }
    }
    let stored = match link.purpose {
        LinkPurpose::ConfirmEmail => {
            customers::set_email(&mut tx, link.customer, &link.email, now).await
        }
        LinkPurpose::ChangeEmail => change(&mut tx, &link, now).await,
        LinkPurpose::ResetPassword => return Ok(ConfirmationOutcome::NotFound),
    };
    match stored {
        Ok(()) => {}
        Err(error) if error.is_unique_violation() => return Ok(ConfirmationOutcome::EmailTaken),
        Err(error) => return Err(error),
    }
    mail_links::use_up(&mut tx, link.customer, link.purpose, now).await?;
    ended_credentials::end_others(&mut tx, link.customer, &confirming.lasting, now).await?;
    let granted = end_trial(&mut tx, &link, confirming.trial, now).await?;
    jobs::insert_all(&mut tx, confirming.jobs).await?;
    if let Some(entry) = confirming.entry {
        audit::insert(&mut tx, entry).await?;
    }
    tx.commit().await?;
    Ok(ConfirmationOutcome::Confirmed { customer: link.customer, email: link.email, granted })
}

async fn change(tx: &mut Tx, link: &EmailLink, now: Timestamp) -> Result<(), StoreError> {
    const DONE: &str = "delete from email_changes where customer_id = $1";
    customers::set_email(tx, link.customer, &link.email, now).await?;
    tx.execute(DONE, &[link.customer.into()]).await?;
    Ok(())
}

/// Grants a pending trial, unless the mailbox has had one under any address. Either way it is no
/// longer pending.
pub(crate) async fn end_trial(
    tx: &mut Tx,
    link: &EmailLink,
    trial: TrialGrant,
    now: Timestamp,
) -> Result<Credits, StoreError> {
    const END: &str = "
        update customers set trial_state = 'granted' where id = $1 and trial_state = 'pending'";
    const MAILBOX: &str = "
        insert into trial_mailboxes (hash, customer_id, granted_at) values ($1, $2, $3)
        on conflict (hash) do nothing";
    const TAKE_BACK: &str = "update customers set trial_state = 'none' where id = $1";
    if tx.execute(END, &[link.customer.into()]).await? == 0 {
        return Ok(Credits::ZERO);
    }
    let mailbox = hex(&link.email.mailbox_hash());
    if tx.execute(MAILBOX, &[mailbox.into(), link.customer.into(), now.into()]).await? == 0 {
        tx.execute(TAKE_BACK, &[link.customer.into()]).await?;
        return Ok(Credits::ZERO);
    }
    grant(tx, link.customer, trial, now).await
}

async fn grant(
    tx: &mut Tx,
    customer: CustomerId,
    trial: TrialGrant,
    at: Timestamp,
) -> Result<Credits, StoreError> {
    if trial.credits <= Credits::ZERO {
        return Ok(Credits::ZERO);
    }
    let source_id = customer.to_string();
    let grant = CreditGrant {
        entry: trial.entry,
        customer,
        amount: trial.credits,
        kind: "trial",
        source: "trial",
        source_id: &source_id,
        reference: None,
        lot: LotSource::Trial,
        expires_at: trial.expires_at,
        at,
    };
    match ledger::grant_in(tx, &grant).await? {
        CreditGrantOutcome::Granted { .. } => Ok(trial.credits),
        CreditGrantOutcome::Repeated
        | CreditGrantOutcome::TooMany { .. }
        | CreditGrantOutcome::NoCustomer
        | CreditGrantOutcome::Erased => Ok(Credits::ZERO),
    }
}
