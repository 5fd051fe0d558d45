//! Support access: whether staff may view a customer's calls, exports and usage.
//!
//! The check runs in the transaction that writes the access into the customer's audit list, so that
//! staff never view anything without permission, without the customer's current consent, or without
//! a trace.

use domain::id::CustomerId;
use domain::staff::Permission;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::tx::Tx;
use crate::{Store, StoreError, dialect, permissions};

/// A customer's latest consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupportAccess {
    /// When it began.
    pub enabled_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// When the customer ended it.
    pub ended_at: Option<Timestamp>,
}

impl SupportAccess {
    /// Whether staff have access at `now`. It ends at the instant of its expiry.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }
}

/// A request by staff to view a customer's data.
#[derive(Debug, Clone, Copy)]
pub struct SupportLook<'a> {
    /// The member of the staff.
    pub staff: CustomerId,
    /// The permissions needed; all of them.
    pub needs: &'a [Permission],
    /// The customer.
    pub customer: CustomerId,
}

/// The outcome of such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupportLookOutcome {
    /// Access is granted and in the customer's audit list.
    Allowed,
    /// The caller is not staff, or lacks a permission.
    NotPermitted,
    /// There is no such customer, or it does not allow access now. The response must not say which.
    NotOpen,
}

/// Gives staff access until `until`, starting at the entry's time. Replaces an earlier consent.
pub async fn enable(
    store: &Store,
    until: Timestamp,
    entry: &AuditEntry,
) -> Result<SupportAccess, StoreError> {
    const SQL: &str = "
        insert into support_access (customer_id, enabled_at, expires_at) values ($1, $2, $3)
        on conflict (customer_id) do update
            set enabled_at = excluded.enabled_at, expires_at = excluded.expires_at, ended_at = null";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[entry.customer.into(), entry.at.into(), until.into()]).await?;
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(SupportAccess { enabled_at: entry.at, expires_at: until, ended_at: None })
}

/// Ends the consent: no later access is allowed, on any node. False if there was none to end.
pub async fn disable(store: &Store, entry: &AuditEntry) -> Result<bool, StoreError> {
    const SQL: &str = "
        update support_access set ended_at = $2
        where customer_id = $1 and ended_at is null and expires_at > $2";
    let mut tx = store.write().await?;
    if tx.execute(SQL, &[entry.customer.into(), entry.at.into()]).await? == 0 {
        return Ok(false);
    }
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(true)
}

/// A customer's latest consent, open or not; none if it never gave any.
pub async fn find(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<SupportAccess>, StoreError> {
    let mut tx = store.read().await?;
    find_in(&mut tx, FIND, customer).await
}

/// Checks whether staff may view a customer's data now, and writes the access into the customer's
/// audit list. `entry` names the customer and the time of the access.
pub async fn look(
    store: &Store,
    look: &SupportLook<'_>,
    entry: &AuditEntry,
) -> Result<SupportLookOutcome, StoreError> {
    let mut tx = store.write().await?;
    let has = permissions::of(&mut tx, look.staff).await?;
    if !look.needs.iter().all(|permission| has.contains(permission)) {
        return Ok(SupportLookOutcome::NotPermitted);
    }
    // The lock waits for a concurrent end of the consent.
    let locking = format!("{FIND}{}", dialect::for_update(tx.database()));
    let access = find_in(&mut tx, sqlx::AssertSqlSafe(locking), look.customer).await?;
    if !access.is_some_and(|access| access.is_open(entry.at)) {
        return Ok(SupportLookOutcome::NotOpen);
    }
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(SupportLookOutcome::Allowed)
}

const FIND: &str = "
    select enabled_at, expires_at, ended_at from support_access where customer_id = $1";

async fn find_in(
    tx: &mut Tx,
    sql: impl sqlx::SqlSafeStr,
    customer: CustomerId,
) -> Result<Option<SupportAccess>, StoreError> {
    let row = tx.row(sql, &[customer.into()]).await?;
    row.map(|row| {
        Ok(SupportAccess {
            enabled_at: row.time("enabled_at")?,
            expires_at: row.time("expires_at")?,
            ended_at: row.optional_time("ended_at")?,
        })
    })
    .transpose()
}
