//! Emails: what they say. Nothing in them was chosen by the caller who requested the email, and
//! their links are built from `http.public_base_url` only.

mod notices;
mod operator;
pub mod pay_links;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use askama::Template as _;
use domain::customer::Email;
use domain::id::{CustomerId, JobId};
use domain::job::JobKind;
use domain::mail::LinkPurpose;
use domain::payment::ReversalKind;
use domain::time::Timestamp;
use domain::token::SecretToken;
use domain::top_up::{TopUpState, WAIT_S};
use jobs::{JobError, JobQueue};
use mail::OutgoingMail;
use runtime::Vault;
use runtime::clock::{Clock, Random};
use settings::Config;
use store::Store;
use store::jobs::NewJob;
use store::mail_links::NewEmailLink;
use text::{ConsolePages, EmailContent, Html, Plain};

pub use notices::CustomerNotice;
pub use operator::OperatorNotice;
pub use text::{amount, time};

/// What writing emails needs.
#[derive(Clone)]
pub struct EmailsState {
    /// Looks up customers and links.
    pub store: Store,
    /// Tells when links begin.
    pub clock: Clock,
    /// Generates the tokens of links.
    pub random: Random,
    /// Signs the links to payments.
    pub vault: Arc<Vault>,
    /// The addresses of pages, and the credits of trials.
    pub config: Arc<Config>,
}

/// The email as a job, to be committed with its cause.
pub fn job(queue: &JobQueue, request: &EmailRequest) -> NewJob {
    queue.job(JobKind::SendMail, request)
}

/// A requested email. It contains no secret: the token of a link is created when the email is
/// written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "letter", rename_all = "snake_case")]
pub enum EmailRequest {
    /// Asks the person who registered with the address to confirm it. The address may have no
    /// customer.
    ConfirmEmail {
        /// The address.
        email: Email,
        /// The network that requested it by naming the address; `None` if it follows the
        /// registration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<String>,
    },
    /// Lets a customer set a password without the old one. The address may have no customer.
    ResetPassword {
        /// The address.
        email: Email,
        /// The network that requested it; `None` in rows of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<String>,
    },
    /// Asks for confirmation of a customer's new address.
    ChangeEmail {
        /// The customer.
        customer: CustomerId,
        /// The new address.
        email: Email,
    },
    /// Tells a customer's current address that a change was requested.
    EmailChangeAsked {
        /// The current address.
        email: Email,
        /// The new address.
        wanted: Email,
    },
    /// Tells the previous address that it has been replaced.
    EmailChanged {
        /// The previous address.
        email: Email,
        /// The new address.
        current: Email,
    },
    /// Tells a customer that the bank requires a confirmation of an automatic charge.
    TopUpWaits {
        /// The customer.
        customer: CustomerId,
    },
    /// Tells a customer that automatic top-up was turned off, because its card was declined
    /// repeatedly.
    TopUpStopped {
        /// The customer.
        customer: CustomerId,
    },
    /// Tells a customer that the password was reset.
    PasswordReset {
        /// The customer's address.
        email: Email,
        /// Whether every key was revoked, because the address was not confirmed before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keys_revoked: bool,
    },
    /// Tells a customer which accounts lost their slots.
    AccountsDeactivated {
        /// The customer.
        customer: CustomerId,
        /// The accounts, each with its platform.
        accounts: Vec<String>,
    },
    /// Tells a customer that a payment was reversed, or a reversal undone, and what that did to the
    /// credits.
    MoneyReversed {
        /// The customer.
        customer: CustomerId,
        /// Refund or dispute.
        kind: ReversalKind,
        /// Whether the refund failed or the dispute was won, so that the money came back to us.
        is_undone: bool,
        /// The amount, in the smallest unit of the currency.
        amount_cents: i64,
        /// The currency, such as `USD`.
        currency: String,
        /// Credits taken (positive) or returned (negative).
        credits: i64,
        /// The balance afterwards.
        balance: i64,
        /// The debt afterwards.
        debt: i64,
        /// Whether this turned automatic top-up off.
        #[serde(default)]
        stops_top_up: bool,
    },
    /// Tells a customer that the payment for its subscription failed.
    PaymentFailed {
        /// The customer.
        customer: CustomerId,
        /// The amount due, in the smallest unit of the currency.
        amount_cents: i64,
        /// The currency, such as `USD`.
        currency: String,
        /// When it is retried (RFC 3339), if it is.
        next_attempt: Option<String>,
    },
    /// Tells a customer something that it did not ask for and may have switched off.
    Notice {
        /// The customer.
        customer: CustomerId,
        /// What it is told.
        notice: CustomerNotice,
    },
    /// Tells the operator something that needs a decision.
    Operator {
        /// What it is told.
        notice: OperatorNotice,
    },
}

/// Writes the email; `None` if it is no longer needed.
#[expect(clippy::too_many_lines, reason = "an arm for each email")]
pub async fn write(
    emails: &EmailsState,
    letter: &EmailRequest,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let address;
    let (to, words) = match letter {
        EmailRequest::Notice { customer, notice } => {
            return notices::write(emails, *customer, notice, job).await;
        }
        EmailRequest::Operator { notice } => return operator::write(emails, notice, job),
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
        EmailRequest::PasswordReset { email, keys_revoked } => {
            (email, text::password_reset(*keys_revoked))
        }
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
            let account = text::ReversedCredits {
                moved: *credits,
                balance: *balance,
                debt: *debt,
                stops_top_up: *stops_top_up,
            };
            (
                &address,
                text::money_reversed(*kind, *is_undone, &amount, &account, billing_page(emails)),
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

/// The customer's address; `None` if the customer is closed. One that is suspended still reads
/// about its subscription and its money.
async fn address_of(emails: &EmailsState, customer: CustomerId) -> Result<Option<Email>, JobError> {
    let Some(found) = store::customers::find_by_id(&emails.store, customer).await? else {
        return Ok(None);
    };
    let is_closed = found.disabled_at.is_some()
        && !store::suspensions::is_suspended(&emails.store, customer).await?;
    Ok((!is_closed).then_some(found.email))
}

/// `None` if the charge no longer waits for the customer.
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
    let settings = pages(emails).page("billing/topup");
    finish(emails, &email, &text::top_up_waits(&amount, &time(until), link, &settings), job)
        .map(Some)
}

async fn top_up_stopped(
    emails: &EmailsState,
    customer: CustomerId,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let Some(email) = address_of(emails, customer).await? else { return Ok(None) };
    finish(emails, &email, &text::top_up_stopped(billing_page(emails)), job).map(Some)
}

/// The pages that emails name.
fn pages(emails: &EmailsState) -> ConsolePages<'_> {
    ConsolePages::new(&emails.config.http.public_base_url, billing_page(emails))
}

/// The page where a customer manages payments.
fn billing_page(emails: &EmailsState) -> String {
    emails.config.processor.billing_url(&emails.config.http.public_base_url)
}

async fn owner(emails: &EmailsState, email: &Email) -> Result<Option<CustomerId>, JobError> {
    let customer = store::customers::find_by_email(&emails.store, email).await?;
    Ok(customer.map(|customer| customer.id))
}

/// A new link to the page for its purpose; `None` if the purpose no longer applies.
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
    words: &EmailContent,
    job: JobId,
) -> Result<OutgoingMail, JobError> {
    let unwritten = |error: askama::Error| JobError::Never(error.to_string());
    let service = emails.config.http.public_base_url.as_str();
    let brand = &emails.config.brand;
    Ok(OutgoingMail {
        to: to.clone(),
        subject: words.subject.to_owned(),
        text: Plain { words, service, brand }.render().map_err(unwritten)?,
        html: Html { words, service, brand }.render().map_err(unwritten)?,
        id: job.to_string(),
        at: emails.clock.now(),
    })
}
