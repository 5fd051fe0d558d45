//! Letters: what our mails say. Nothing in them was chosen by whoever asked for the mail, and their links are
//! built from `http.public_base_url` alone.

pub mod pay_links;
mod text;

use std::sync::Arc;

use askama::Template as _;
use clients::mail::OutgoingMail;
use domain::customer::Email;
use domain::id::{CustomerId, JobId};
use domain::job::JobKind;
use domain::mail::LinkPurpose;
use domain::payment::ReversalKind;
use domain::time::Timestamp;
use domain::token::SecretToken;
use domain::top_up::{TopUpState, WAIT_S};
use jobs::{JobError, JobQueue};
use runtime::Vault;
use runtime::clock::{Clock, Random};
use settings::Config;
use store::Store;
use store::jobs::NewJob;
use store::mail_links::NewEmailLink;
use text::{Content, Html, Plain};

pub use text::{amount, time};

/// What writing emails needs.
#[derive(Clone)]
pub struct EmailsState {
    /// Where customers and links are looked up.
    pub store: Store,
    /// Tells when links begin.
    pub clock: Clock,
    /// Makes the tokens of links.
    pub random: Random,
    /// Signs the links to payments.
    pub vault: Arc<Vault>,
    /// The addresses of pages and the credits of trials.
    pub config: Arc<Config>,
}

/// The email as a job, to be written down with what makes it necessary.
pub fn job(queue: &JobQueue, request: &EmailRequest) -> NewJob {
    queue.job(JobKind::SendMail, request)
}

/// An email that was asked for. It holds no secret: the token of a link is made when the mail is written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "letter", rename_all = "snake_case")]
pub enum EmailRequest {
    /// Asks whoever registered with the address to confirm it. Nobody may have.
    ConfirmEmail {
        /// The address.
        email: Email,
        /// The network that asked for it by naming the address; none where it follows the registration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<String>,
    },
    /// Lets a customer set a password without the old one. Nobody may have the address.
    ResetPassword {
        /// The address.
        email: Email,
        /// The network that asked for it; none in rows of versions before this was written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<String>,
    },
    /// Asks for the confirmation of the address that a customer wants.
    ChangeEmail {
        /// The customer.
        customer: CustomerId,
        /// The address that is wanted.
        email: Email,
    },
    /// Tells the address of a customer that another one is wanted.
    EmailChangeAsked {
        /// The address as it is.
        email: Email,
        /// The address that is wanted.
        wanted: Email,
    },
    /// Tells the address of before that another one is in its place.
    EmailChanged {
        /// The address of before.
        email: Email,
        /// The address as it is.
        current: Email,
    },
    /// Tells a customer that the bank wants it for an automatic charge.
    TopUpWaits {
        /// The customer.
        customer: CustomerId,
    },
    /// Tells a customer that automatic top-up was turned off, because its card was declined again and again.
    TopUpStopped {
        /// The customer.
        customer: CustomerId,
    },
    /// Tells a customer that the password was set anew.
    PasswordReset {
        /// The customer's address.
        email: Email,
    },
    /// Tells a customer which accounts lost their places.
    AccountsDeactivated {
        /// The customer.
        customer: CustomerId,
        /// The accounts, each with its platform.
        accounts: Vec<String>,
    },
    /// Tells a customer that money of a payment went back, or came in again, and what that did to the credits.
    MoneyReversed {
        /// The customer.
        customer: CustomerId,
        /// Refund or dispute.
        kind: ReversalKind,
        /// Whether the refund failed or the dispute was won: the money is with us again.
        is_undone: bool,
        /// How much, in the smallest unit of the currency.
        amount_cents: i64,
        /// Such as `USD`.
        currency: String,
        /// Credits that were taken (positive) or given back (negative).
        credits: i64,
        /// What can be spent afterwards.
        balance: i64,
        /// What is owed afterwards.
        debt: i64,
        /// Whether automatic top-up was on until this turned it off.
        #[serde(default)]
        stops_top_up: bool,
    },
    /// Tells a customer that its subscription could not be paid.
    PaymentFailed {
        /// The customer.
        customer: CustomerId,
        /// What is to be paid, in the smallest unit of the currency.
        amount_cents: i64,
        /// Such as `USD`.
        currency: String,
        /// When it is tried again (RFC 3339), if it is.
        next_attempt: Option<String>,
    },
}

/// Writes the letter; nothing when nobody needs it any more.
pub async fn write(
    emails: &EmailsState,
    letter: &EmailRequest,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let address;
    let (to, words) = match letter {
        EmailRequest::TopUpWaits { customer } => return top_up_waits(emails, *customer, job).await,
        EmailRequest::TopUpStopped { customer } => {
            return top_up_stopped(emails, *customer, job).await;
        }
        EmailRequest::ConfirmEmail { email, .. } => {
            let Some(owner) = owner(emails, email).await? else { return Ok(None) };
            let link = link(emails, owner, LinkPurpose::ConfirmEmail, email).await?;
            let Some(link) = link else { return Ok(None) };
            (email, text::confirm_email(link, emails.config.credits.trial))
        }
        EmailRequest::ResetPassword { email, .. } => {
            let Some(owner) = owner(emails, email).await? else { return Ok(None) };
            let link = link(emails, owner, LinkPurpose::ResetPassword, email).await?;
            let Some(link) = link else { return Ok(None) };
            (email, text::reset_password(link))
        }
        EmailRequest::ChangeEmail { customer, email } => {
            let link = link(emails, *customer, LinkPurpose::ChangeEmail, email).await?;
            let Some(link) = link else { return Ok(None) };
            (email, text::change_email(link))
        }
        EmailRequest::EmailChangeAsked { email, wanted } => {
            (email, text::email_change_asked(wanted))
        }
        EmailRequest::EmailChanged { email, current } => (email, text::email_changed(current)),
        EmailRequest::PasswordReset { email } => (email, text::password_reset()),
        EmailRequest::AccountsDeactivated { customer, accounts } => {
            let Some(email) = address_of(emails, *customer).await? else { return Ok(None) };
            address = email;
            (&address, text::accounts_deactivated(accounts, billing_page(emails)))
        }
        EmailRequest::MoneyReversed {
            customer,
            kind,
            is_undone,
            amount_cents,
            currency,
            credits,
            balance,
            debt,
            stops_top_up,
        } => {
            let Some(email) = address_of(emails, *customer).await? else { return Ok(None) };
            address = email;
            let amount = amount(*amount_cents, currency);
            let account = text::Credits {
                moved: *credits,
                balance: *balance,
                debt: *debt,
                stops_top_up: *stops_top_up,
            };
            (
                &address,
                text::money_reversed((*kind, *is_undone), &amount, &account, billing_page(emails)),
            )
        }
        EmailRequest::PaymentFailed { customer, amount_cents, currency, next_attempt } => {
            let Some(email) = address_of(emails, *customer).await? else { return Ok(None) };
            address = email;
            let amount = amount(*amount_cents, currency);
            let next = next_attempt.as_deref().and_then(Timestamp::from_rfc3339);
            (&address, text::payment_failed(&amount, next, billing_page(emails)))
        }
    };
    finish(emails, to, &words, job).map(Some)
}

/// Where a customer is reached; nothing when it was closed.
async fn address_of(emails: &EmailsState, customer: CustomerId) -> Result<Option<Email>, JobError> {
    let found = store::customers::find_by_id(&emails.store, customer).await?;
    Ok(found.filter(|found| found.disabled_at.is_none()).map(|found| found.email))
}

/// Nothing when the charge no longer waits.
async fn top_up_waits(
    emails: &EmailsState,
    customer: CustomerId,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let open = store::top_ups::find_open(&emails.store, customer).await?;
    let Some(open) = open.filter(|open| open.state == TopUpState::RequiresAction) else {
        return Ok(None);
    };
    let Some(email) = address_of(emails, customer).await? else { return Ok(None) };
    let until = open.claimed_at.plus_seconds(WAIT_S);
    let link = pay_links::url(emails, open.order, until, &email);
    let link = link.ok_or_else(|| JobError::Later("a link could not be signed".to_owned()))?;
    let amount = amount(open.cents, &open.currency.to_uppercase());
    finish(emails, &email, &text::top_up_waits(&amount, &time(until), link), job).map(Some)
}

async fn top_up_stopped(
    emails: &EmailsState,
    customer: CustomerId,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let Some(email) = address_of(emails, customer).await? else { return Ok(None) };
    finish(emails, &email, &text::top_up_stopped(billing_page(emails)), job).map(Some)
}

/// Where a customer looks after payments.
fn billing_page(emails: &EmailsState) -> String {
    emails.config.processor.return_url(&emails.config.http.public_base_url)
}

async fn owner(emails: &EmailsState, email: &Email) -> Result<Option<CustomerId>, JobError> {
    let customer = store::customers::find_by_email(&emails.store, email).await?;
    Ok(customer.map(|customer| customer.id))
}

/// A fresh link to the page for its purpose; nothing when it would open nothing.
async fn link(
    emails: &EmailsState,
    customer: CustomerId,
    purpose: LinkPurpose,
    email: &Email,
) -> Result<Option<String>, JobError> {
    let token = SecretToken::new(emails.random.bytes());
    let link = NewEmailLink {
        hash: token.hash(),
        customer,
        purpose,
        email: email.clone(),
        created_at: emails.clock.now(),
    };
    if !store::mail_links::create(&emails.store, &link).await? {
        return Ok(None);
    }
    let page = match purpose {
        LinkPurpose::ConfirmEmail | LinkPurpose::ChangeEmail => "confirm",
        LinkPurpose::ResetPassword => "reset",
    };
    let base = &emails.config.http.public_base_url;
    Ok(Some(format!("{base}/console/{page}?token={}", token.expose())))
}

fn finish(
    emails: &EmailsState,
    to: &Email,
    words: &Content,
    job: JobId,
) -> Result<OutgoingMail, JobError> {
    let unwritten = |error: askama::Error| JobError::Never(error.to_string());
    let service = emails.config.http.public_base_url.as_str();
    Ok(OutgoingMail {
        to: to.clone(),
        subject: words.subject.to_owned(),
        text: Plain { words, service }.render().map_err(unwritten)?,
        html: Html { words, service }.render().map_err(unwritten)?,
        id: job.to_string(),
        at: emails.clock.now(),
    })
}
