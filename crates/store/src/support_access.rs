//! Support access: whether staff may look at a customer's calls, exports and usage.
//!
//! It is asked for in the transaction that writes the look into the customer's audit list: nobody looks
//! without permission, without the customer's consent at that moment, or without a trace.

use domain::id::CustomerId;
use domain::staff::Permission;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::tx::Tx;
use crate::{Store, StoreError, dialect, permissions};

/// A customer's consent, as it set it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupportAccess {
    /// Since when.
    pub enabled_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// When the customer ended it.
    pub ended_at: Option<Timestamp>,
}

impl SupportAccess {
    /// Whether staff may look at `now`. The instant of its expiry is no longer part of it.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }
}

/// Who wants to look at whose things.
#[derive(Debug, Clone, Copy)]
pub struct SupportLook<'a> {
    /// The member of the staff.
    pub staff: CustomerId,
    /// What it takes to do this: all of them.
    pub needs: &'a [Permission],
    /// The customer.
    pub customer: CustomerId,
}

/// Whether staff may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupportLookOutcome {
    /// The look is in the customer's audit list; the things may be shown.
    Allowed,
    /// The caller is no staff, or lacks a permission.
    NotPermitted,
    /// There is no such customer, or it does not allow it now. Which one must not be told.
    NotOpen,
}

/// Allows staff to look until `until`, from the entry's time on; an earlier consent is replaced.
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

/// Ends the consent: no look that is asked for after this is allowed, on any node. False when there was none
/// to end.
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

/// A customer's consent, however it stands; nothing when it never gave any.
pub async fn find(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<SupportAccess>, StoreError> {
    let mut tx = store.read().await?;
    find_in(&mut tx, FIND, customer).await
}

/// Asks whether staff may look at a customer's things now, and writes the look into the customer's audit
/// list. `entry` is about the customer, at the time of the look.
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
    // A consent that is just being ended is waited for.
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
            enabled_at: row.time(0)?,
            expires_at: row.time(1)?,
            ended_at: row.optional_time(2)?,
        })
    })
    .transpose()
}
