//! Sessions: customers' logins in browsers. Only hashes of their tokens are stored.
//!
//! A session is one row; it ends by being deleted. The caller passes its lifetime as
//! [`SessionLifetime`], so that a changed setting applies to existing sessions.

use domain::id::{CustomerId, SessionId};
use domain::mail::LinkPurpose;
use domain::time::Timestamp;
use domain::token::TokenHash;

use crate::audit::{self, AuditEntry};
use crate::customers::PasswordHash;
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, mail_links};

/// A session as stored, without its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id, which is not secret.
    pub id: SessionId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The browser's user agent, shortened.
    pub user_agent: String,
    /// The network it was started from, such as `192.0.2.0/24`.
    pub network: String,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    pub last_used_at: Timestamp,
}

/// The lifetime of sessions, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLifetime {
    /// After its last use.
    pub idle_s: i64,
    /// After its start, however much it is used.
    pub age_s: i64,
}

impl Session {
    /// When it ends if it is not used again. It is no longer valid at that instant.
    pub fn ends_at(&self, lifetime: SessionLifetime) -> Timestamp {
        lifetime.idle_end(self.created_at, self.last_used_at)
    }
}

impl SessionLifetime {
    /// When a session ends at the latest.
    pub const fn latest_end(self, created_at: Timestamp) -> Timestamp {
        created_at.plus_seconds(self.age_s)
    }

    /// When a session ends if it is not used again.
    pub fn idle_end(self, created_at: Timestamp, last_used_at: Timestamp) -> Timestamp {
        last_used_at.plus_seconds(self.idle_s).min(self.latest_end(created_at))
    }
}

/// A session to be stored.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The customer who logs in.
    pub customer: CustomerId,
    /// The hash of its token.
    pub token_hash: TokenHash,
    /// The browser's user agent, shortened.
    pub user_agent: String,
    /// The network it is started from.
    pub network: String,
    /// The current time.
    pub created_at: Timestamp,
}

/// A login with the right password.
#[derive(Debug, Clone)]
pub struct VerifiedLogin<'a> {
    /// The session to begin.
    pub session: &'a NewSession,
    /// The hash that the password was checked against. If it is no longer the customer's, no
    /// session begins.
    pub checked: &'a PasswordHash,
    /// The same password hashed again, if the old hash is outdated.
    pub rehashed: Option<&'a PasswordHash>,
    /// The browser's previous token, whose session ends.
    pub replaced: Option<TokenHash>,
    /// The maximum number of sessions the customer keeps, including this one; the least recently
    /// used ones end.
    pub sessions_max: i64,
}

/// A password change by a customer who knows the old password.
#[derive(Debug, Clone)]
pub struct PasswordChange<'a> {
    /// The new session of the calling device; all others end.
    pub session: &'a NewSession,
    /// The hash that the old password was checked against.
    pub checked: &'a PasswordHash,
    /// The hash of the new password.
    pub new: &'a PasswordHash,
    /// The entry for the audit list.
    pub entry: &'a AuditEntry,
}

/// The session that a presented token belongs to, and what decides whether it is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedSession {
    /// The session that the token belongs to.
    pub session: Session,
    /// When its customer was closed.
    pub customer_disabled_at: Option<Timestamp>,
    /// When its customer's address was confirmed.
    pub email_verified_at: Option<Timestamp>,
}

impl PresentedSession {
    /// Whether it is accepted at `now`.
    pub fn is_usable(&self, now: Timestamp, lifetime: SessionLifetime) -> bool {
        self.customer_disabled_at.is_none() && now < self.session.ends_at(lifetime)
    }

    /// The customer, if the session is refused only because its customer is closed or suspended.
    pub fn closed_customer(&self, now: Timestamp, lifetime: SessionLifetime) -> Option<CustomerId> {
        let is_over = now >= self.session.ends_at(lifetime);
        (!is_over && self.customer_disabled_at.is_some()).then_some(self.session.customer)
    }
}

/// Begins a session. False, with nothing stored, if the password was changed or the customer closed
/// since it was checked.
pub async fn log_in(store: &Store, login: &VerifiedLogin<'_>) -> Result<bool, StoreError> {
    const END_REPLACED: &str = "delete from sessions where token_hash = $1";
    let mut tx = store.write().await?;
    let customer = login.session.customer;
    let password = login.rehashed.unwrap_or(login.checked);
    if !replace_password(&mut tx, customer, login.checked, password).await? {
        return Ok(false);
    }
    if let Some(replaced) = &login.replaced {
        tx.execute(END_REPLACED, &[replaced.into()]).await?;
    }
    end_surplus(&mut tx, customer, login.sessions_max.saturating_sub(1)).await?;
    insert(&mut tx, login.session).await?;
    tx.commit().await?;
    Ok(true)
}

/// Replaces the password, ends all of the customer's sessions and reset links, and begins a new
/// session. False, with nothing changed, if the password was changed or the customer closed since
/// the old one was checked.
pub async fn change_password(
    store: &Store,
    change: &PasswordChange<'_>,
) -> Result<bool, StoreError> {
    let mut tx = store.write().await?;
    let customer = change.session.customer;
    if !replace_password(&mut tx, customer, change.checked, change.new).await? {
        return Ok(false);
    }
    end_all_in(&mut tx, customer).await?;
    let now = change.session.created_at;
    mail_links::use_up(&mut tx, customer, LinkPurpose::ResetPassword, now).await?;
    insert(&mut tx, change.session).await?;
    audit::insert(&mut tx, change.entry).await?;
    tx.commit().await?;
    Ok(true)
}

/// The session that a token belongs to. `PresentedSession::is_usable` says whether it is accepted.
pub async fn find_by_hash(
    store: &Store,
    hash: &TokenHash,
) -> Result<Option<PresentedSession>, StoreError> {
    const SQL: &str = "
        select s.id, s.customer_id, s.user_agent, s.network, s.created_at, s.last_used_at,
               c.disabled_at, c.email_verified_at
        from sessions s
        join customers c on c.id = s.customer_id
        where s.token_hash = $1";
    let row = store.read().await?.row(SQL, &[hash.into()]).await?;
    row.map(|row| {
        Ok(PresentedSession {
            session: session(&row)?,
            customer_disabled_at: row.optional_time("disabled_at")?,
            email_verified_at: row.optional_time("email_verified_at")?,
        })
    })
    .transpose()
}

/// Records that a session was used.
pub async fn touch(store: &Store, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
    const SQL: &str = "update sessions set last_used_at = $2 where id = $1 and last_used_at < $2";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[id.into(), now.into()]).await?;
    tx.commit().await
}

/// A customer's sessions, most recently used first. May include expired ones.
pub async fn list(store: &Store, customer: CustomerId) -> Result<Vec<Session>, StoreError> {
    const SQL: &str = "
        select id, customer_id, user_agent, network, created_at, last_used_at
        from sessions where customer_id = $1 order by last_used_at desc, id desc";
    let rows = store.read().await?.rows(SQL, &[customer.into()]).await?;
    rows.iter().map(session).collect()
}

/// Ends a session. False if the customer has none with this id.
pub async fn end(store: &Store, customer: CustomerId, id: SessionId) -> Result<bool, StoreError> {
    const SQL: &str = "delete from sessions where id = $1 and customer_id = $2";
    let mut tx = store.write().await?;
    let ended = tx.execute(SQL, &[id.into(), customer.into()]).await?;
    tx.commit().await?;
    Ok(ended == 1)
}

/// Ends all of a customer's sessions and returns how many. `entry` names the customer.
pub async fn end_all(store: &Store, entry: &AuditEntry) -> Result<u64, StoreError> {
    let mut tx = store.write().await?;
    let ended = end_all_in(&mut tx, entry.customer).await?;
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(ended)
}

/// Deletes at most `limit` expired sessions and returns how many.
pub async fn delete_expired(
    store: &Store,
    now: Timestamp,
    lifetime: SessionLifetime,
    limit: i64,
) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from sessions where id in (
            select id from sessions where last_used_at <= $1 or created_at <= $2 limit $3
        )";
    let idle_since = now.plus_seconds(lifetime.idle_s.saturating_neg());
    let begun_before = now.plus_seconds(lifetime.age_s.saturating_neg());
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[idle_since.into(), begun_before.into(), limit.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// Ends all of a customer's sessions, in the transaction of what ends them.
pub(crate) async fn end_all_in(tx: &mut Tx, customer: CustomerId) -> Result<u64, StoreError> {
    const SQL: &str = "delete from sessions where customer_id = $1";
    tx.execute(SQL, &[customer.into()]).await
}

/// Replaces the password if it is still the one that was checked. This locks the customer's row
/// until the transaction ends, so that a login and a password change cannot interleave.
async fn replace_password(
    tx: &mut Tx,
    customer: CustomerId,
    checked: &PasswordHash,
    new: &PasswordHash,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update customers set password_hash = $3
        where id = $1 and password_hash = $2 and disabled_at is null";
    let values = [customer.into(), checked.0.as_str().into(), new.0.as_str().into()];
    Ok(tx.execute(SQL, &values).await? == 1)
}

/// Ends all but the `keep` most recently used sessions.
async fn end_surplus(tx: &mut Tx, customer: CustomerId, keep: i64) -> Result<(), StoreError> {
    const SQL: &str = "
        delete from sessions where customer_id = $1 and id not in (
            select id from sessions where customer_id = $1
            order by last_used_at desc, id desc limit $2
        )";
    tx.execute(SQL, &[customer.into(), keep.max(0).into()]).await?;
    Ok(())
}

async fn insert(tx: &mut Tx, new: &NewSession) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into sessions
            (id, customer_id, token_hash, user_agent, network, created_at, last_used_at)
        values ($1, $2, $3, $4, $5, $6, $6)";
    let values = [
        new.id.into(),
        new.customer.into(),
        (&new.token_hash).into(),
        new.user_agent.as_str().into(),
        new.network.as_str().into(),
        new.created_at.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

fn session(row: &SqlRow) -> Result<Session, StoreError> {
    Ok(Session {
        id: row.parse("id", "sessions")?,
        customer: row.parse("customer_id", "sessions")?,
        user_agent: row.text("user_agent")?,
        network: row.text("network")?,
        created_at: row.time("created_at")?,
        last_used_at: row.time("last_used_at")?,
    })
}
