//! Emailed links. Each works once, for one purpose, for the customer and address it was sent to.
//!
//! Only hashes of tokens are stored. Using a link locks its customer's row first, so that two links
//! of one customer are used one after the other.

use domain::customer::Email;
use domain::id::CustomerId;
use domain::mail::LinkPurpose;
use domain::time::Timestamp;
use domain::token::TokenHash;

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, customers, ended_credentials};

/// A link to be stored.
#[derive(Debug, Clone)]
pub struct NewEmailLink {
    /// The hash of its token.
    pub hash: TokenHash,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// What it is for.
    pub purpose: LinkPurpose,
    /// The address it is sent to.
    pub email: Email,
    /// The current time.
    pub created_at: Timestamp,
}

/// A link as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailLink {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// What it is for.
    pub purpose: LinkPurpose,
    /// The address it was sent to.
    pub email: Email,
    /// The customer's current address.
    pub current_email: Email,
    /// Whether the customer has confirmed an address before.
    pub is_customer_confirmed: bool,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Whether it can still be used.
    pub state: LinkState,
}

/// Whether a link can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It can be used.
    Open,
    /// It was used, or another link for the same thing was.
    Used,
    /// It has expired.
    Expired,
    /// It is obsolete: the address has changed, or the customer is closed.
    Outdated,
}

/// Stores a link. False, with nothing stored, if it could not be used.
pub async fn create(store: &Store, new: &NewEmailLink) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into mail_links (hash, customer_id, purpose, email, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6)";
    let values = [
        (&new.hash).into(),
        new.customer.into(),
        new.purpose.as_str().into(),
        (&new.email).into(),
        new.created_at.into(),
        new.created_at.plus_seconds(new.purpose.lifetime_s()).into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    let link = read(&mut tx, &new.hash, new.created_at).await?;
    if link.is_none_or(|link| link.state != LinkState::Open) {
        return Ok(false);
    }
    tx.commit().await?;
    Ok(true)
}

/// The link with this token. Finding a link does not use it.
pub async fn find(
    store: &Store,
    hash: &TokenHash,
    now: Timestamp,
) -> Result<Option<EmailLink>, StoreError> {
    read(&mut store.read().await?, hash, now).await
}

/// Deletes links that expired before `before`.
pub async fn delete_ended(store: &Store, before: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "delete from mail_links where expires_at < $1";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[before.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// The link with this token, with the rows of its customer and the customer's keys locked until the
/// transaction ends.
pub(crate) async fn lock(
    tx: &mut Tx,
    hash: &TokenHash,
    now: Timestamp,
) -> Result<Option<EmailLink>, StoreError> {
    const OWNER: &str = "select customer_id from mail_links where hash = $1";
    let Some(owner) = tx.row(OWNER, &[hash.into()]).await? else { return Ok(None) };
    let customer = owner.parse("customer_id", "mail_links")?;
    ended_credentials::lock_keys(tx, customer).await?;
    lock_customer(tx, customer).await?;
    read(tx, hash, now).await
}

/// Locks a customer's row until the transaction ends and returns its address.
pub(crate) async fn lock_customer(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<Option<Email>, StoreError> {
    const EMAIL: &str = "select email from customers where id = $1";
    customers::lock(tx, customer).await?;
    let row = tx.row(EMAIL, &[customer.into()]).await?;
    row.map(|row| row.parse("email", "customers")).transpose()
}

/// Marks every link of the customer for this purpose as used.
pub(crate) async fn use_up(
    tx: &mut Tx,
    customer: CustomerId,
    purpose: LinkPurpose,
    now: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update mail_links set used_at = $3
        where customer_id = $1 and purpose = $2 and used_at is null";
    tx.execute(SQL, &[customer.into(), purpose.as_str().into(), now.into()]).await?;
    Ok(())
}

async fn read(
    tx: &mut Tx,
    hash: &TokenHash,
    now: Timestamp,
) -> Result<Option<EmailLink>, StoreError> {
    const SQL: &str = "
        select l.customer_id, l.purpose, l.email, c.email as current_email, l.expires_at, l.used_at,
               c.email_verified_at, c.disabled_at, e.email as wanted_email
        from mail_links l
        join customers c on c.id = l.customer_id
        left join email_changes e on e.customer_id = l.customer_id
        where l.hash = $1";
    let row = tx.row(SQL, &[hash.into()]).await?;
    row.as_ref().map(|row| link(row, now)).transpose()
}

fn link(row: &SqlRow, now: Timestamp) -> Result<EmailLink, StoreError> {
    let purpose: LinkPurpose = row.parse("purpose", "mail_links")?;
    let (email, current): (Email, Email) =
        (row.parse("email", "mail_links")?, row.parse("current_email", "customers")?);
    let wanted: Option<Email> = row.parse_optional("wanted_email", "email_changes")?;
    let is_closed = row.optional_time("disabled_at")?.is_some();
    let is_customer_confirmed = row.optional_time("email_verified_at")?.is_some();
    let is_wanted = match purpose {
        LinkPurpose::ConfirmEmail => email == current && !is_customer_confirmed,
        LinkPurpose::ChangeEmail => wanted.as_ref() == Some(&email),
        LinkPurpose::ResetPassword => email == current,
    };
    let expires_at = row.time("expires_at")?;
    let state = if row.optional_time("used_at")?.is_some() {
        LinkState::Used
    } else if now >= expires_at {
        LinkState::Expired
    } else if is_closed || !is_wanted {
        LinkState::Outdated
    } else {
        LinkState::Open
    };
    Ok(EmailLink {
        customer: row.parse("customer_id", "mail_links")?,
        purpose,
        email,
        current_email: current,
        is_customer_confirmed,
        expires_at,
        state,
    })
}
