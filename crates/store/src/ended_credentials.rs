//! What ends when the owner of an address shows for the first time that it is theirs. Until then
//! anybody may have registered with it, so whatever was set up before is a stranger's, unless who
//! confirms the address also holds it.

use domain::id::{CustomerId, KeyId, SessionId};
use domain::mail::LinkPurpose;
use domain::time::Timestamp;

use crate::customers::PasswordHash;
use crate::tx::Tx;
use crate::{StoreError, dialect, email_changes, mail_links, notices};

/// What of a customer's credentials lasts when an address is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastingCredentials<'a> {
    /// All of them: the customer had a confirmed address before.
    Everything,
    /// The password, and what whoever confirms the address holds.
    Held {
        /// The session that the confirmation came with.
        session: Option<SessionId>,
        /// The key that lasts.
        key: LastingKey,
    },
    /// Nothing: this password replaces the old one.
    Nothing(&'a PasswordHash),
}

/// The key that lasts beside the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastingKey {
    /// The key that the confirmation came with.
    Presented(KeyId),
    /// The oldest key that is not revoked: the one that the registration handed over.
    Oldest,
}

/// Ends what does not last, in the transaction that confirms the address. Unless everything lasts,
/// a pending change of address, the access of staff and every emailed link end as well.
pub(crate) async fn end_others(
    tx: &mut Tx,
    customer: CustomerId,
    lasting: &LastingCredentials<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    const PASSWORD: &str = "update customers set password_hash = $2 where id = $1";
    match lasting {
        LastingCredentials::Everything => return Ok(()),
        LastingCredentials::Held { session, key } => {
            let key = match key {
                LastingKey::Presented(key) => Some(*key),
                LastingKey::Oldest => oldest_key(tx, customer).await?,
            };
            end_sessions(tx, customer, *session).await?;
            revoke_keys(tx, customer, key, now).await?;
        }
        LastingCredentials::Nothing(password) => {
            tx.execute(PASSWORD, &[customer.into(), password.0.as_str().into()]).await?;
            end_sessions(tx, customer, None).await?;
            revoke_keys(tx, customer, None, now).await?;
        }
    }
    end_requests(tx, customer, now).await
}

/// Locks a customer's keys until the transaction ends. Changes lock a key before its customer, so
/// this comes before the customer's lock.
pub(crate) async fn lock_keys(tx: &mut Tx, customer: CustomerId) -> Result<(), StoreError> {
    const SQL: &str = "select id from keys where customer_id = $1 order by id";
    let sql = format!("{SQL}{}", dialect::for_no_key_update(tx.database()));
    tx.rows(sqlx::AssertSqlSafe(sql), &[customer.into()]).await?;
    Ok(())
}

async fn oldest_key(tx: &mut Tx, customer: CustomerId) -> Result<Option<KeyId>, StoreError> {
    const SQL: &str = "
        select id from keys where customer_id = $1 and revoked_at is null
        order by created_at, id limit 1";
    let row = tx.row(SQL, &[customer.into()]).await?;
    row.map(|row| row.parse("id", "keys")).transpose()
}

async fn end_sessions(
    tx: &mut Tx,
    customer: CustomerId,
    kept: Option<SessionId>,
) -> Result<(), StoreError> {
    const SQL: &str = "delete from sessions where customer_id = $1 and id <> $2";
    let kept = kept.map_or_else(String::new, |id| id.to_string());
    tx.execute(SQL, &[customer.into(), kept.as_str().into()]).await?;
    Ok(())
}

async fn revoke_keys(
    tx: &mut Tx,
    customer: CustomerId,
    kept: Option<KeyId>,
    now: Timestamp,
) -> Result<(), StoreError> {
    const KEYS: &str = "
        update keys set revoked_at = $3
        where customer_id = $1 and id <> $2 and revoked_at is null";
    const SECRETS: &str = "
        delete from key_secrets where key_id in (
            select id from keys where customer_id = $1 and id <> $2
        )";
    let kept = kept.map_or_else(String::new, |id| id.to_string());
    tx.execute(KEYS, &[customer.into(), kept.as_str().into(), now.into()]).await?;
    tx.execute(SECRETS, &[customer.into(), kept.as_str().into()]).await?;
    notices::tell_keys(tx, customer).await
}

/// Ends what was asked for and would still change who has access.
async fn end_requests(tx: &mut Tx, customer: CustomerId, now: Timestamp) -> Result<(), StoreError> {
    const SUPPORT: &str = "
        update support_access set ended_at = $2
        where customer_id = $1 and ended_at is null and expires_at > $2";
    email_changes::cancel(tx, customer, now).await?;
    mail_links::use_up(tx, customer, LinkPurpose::ConfirmEmail, now).await?;
    mail_links::use_up(tx, customer, LinkPurpose::ResetPassword, now).await?;
    tx.execute(SUPPORT, &[customer.into(), now.into()]).await?;
    Ok(())
}
