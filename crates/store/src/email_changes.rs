//! Changes of email address: a requested address is pending until it is confirmed. Until then the
//! old one stays in use.

use domain::customer::Email;
use domain::id::CustomerId;
use domain::mail::LinkPurpose;
use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::mail_links;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// The outcome of a request for another address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmailChange {
    /// The request is stored; the address changes once it is confirmed.
    Requested,
    /// The customer has this address already; an earlier request for another one is cancelled.
    Unchanged,
    /// The address belongs to another customer; nothing changed.
    EmailTaken,
    /// There is no such customer.
    NotFound,
}

/// Stores the requested address, replacing an earlier request and its links, and enqueues the jobs
/// that follow, in one transaction.
pub async fn request(
    store: &Store,
    customer: CustomerId,
    email: &Email,
    jobs: &[NewJob],
    now: Timestamp,
) -> Result<EmailChange, StoreError> {
    const TAKEN: &str = "select 1 from customers where email = $1";
    const WISH: &str = "
        insert into email_changes (customer_id, email, requested_at) values ($1, $2, $3)
        on conflict (customer_id) do update
            set email = excluded.email, requested_at = excluded.requested_at";
    let mut tx = store.write().await?;
    let Some(current) = mail_links::lock_customer(&mut tx, customer).await? else {
        return Ok(EmailChange::NotFound);
    };
    if current == *email {
        cancel(&mut tx, customer, now).await?;
        tx.commit().await?;
        return Ok(EmailChange::Unchanged);
    }
    if tx.row(TAKEN, &[email.into()]).await?.is_some() {
        return Ok(EmailChange::EmailTaken);
    }
    cancel(&mut tx, customer, now).await?;
    tx.execute(WISH, &[customer.into(), email.into(), now.into()]).await?;
    jobs::insert_all(&mut tx, jobs).await?;
    tx.commit().await?;
    Ok(EmailChange::Requested)
}

/// The address that a customer has requested and not confirmed yet.
pub async fn find(store: &Store, customer: CustomerId) -> Result<Option<Email>, StoreError> {
    const SQL: &str = "select email from email_changes where customer_id = $1";
    let row = store.read().await?.row(SQL, &[customer.into()]).await?;
    row.map(|row| row.parse("email", "email_changes")).transpose()
}

/// Cancels the request and invalidates its links.
pub(crate) async fn cancel(
    tx: &mut Tx,
    customer: CustomerId,
    now: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "delete from email_changes where customer_id = $1";
    tx.execute(SQL, &[customer.into()]).await?;
    mail_links::use_up(tx, customer, LinkPurpose::ChangeEmail, now).await
}
