//! The audit list: what staff, operators and customers did. Triggers enforce that no entry is
//! changed, and none removed before its time is over.

use domain::id::{AuditId, CustomerId, EntryId};
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError};

/// One action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// The customer it concerns.
    pub customer: CustomerId,
    /// When it happened.
    pub at: Timestamp,
    /// Who did it: the id of a key or of a session, `operator`, or the customer id of staff.
    pub actor: String,
    /// What was done, such as `key.created`.
    pub action: String,
    /// Details: a JSON object, or prose written by versions without structured details; never a
    /// secret.
    pub details: String,
}

/// Which entries to list.
#[derive(Debug, Clone)]
pub struct AuditQuery<'a> {
    /// The customer whose entries to list.
    pub customer: CustomerId,
    /// Only actions with this prefix; empty for all.
    pub action: &'a str,
    /// Only entries older than this one of the same customer.
    pub before: Option<AuditId>,
    /// The page size.
    pub limit: i64,
}

/// Writes an entry in a transaction of its own. Entries that belong to a change are written in the
/// change's transaction.
pub async fn record(store: &Store, entry: &AuditEntry) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    insert(&mut tx, entry).await?;
    tx.commit().await
}

/// The newest entries about a customer, newest first.
pub async fn list(store: &Store, query: &AuditQuery<'_>) -> Result<Vec<AuditEntry>, StoreError> {
    const SQL: &str = "
        select id, customer_id, at, actor, action, details from audit
        where customer_id = $1 and substr(action, 1, cast($2 as integer)) = $3
          and (cast($4 as text) is null
               or (at, id) < (select at, id from audit where id = $4 and customer_id = $1))
        order by at desc, id desc limit $5";
    let before = query.before.map(stored);
    let length = i64::try_from(query.action.len()).unwrap_or(i64::MAX);
    let values = [
        query.customer.into(),
        length.into(),
        query.action.into(),
        before.as_deref().into(),
        query.limit.into(),
    ];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter()
        .map(|row| {
            Ok(AuditEntry {
                id: row.parse("id", "audit")?,
                customer: row.parse("customer_id", "audit")?,
                at: row.time("at")?,
                actor: row.text("actor")?,
                action: row.text("action")?,
                details: row.text("details")?,
            })
        })
        .collect()
}

/// Deletes entries that are older than `before`, the oldest first, at most `limit`. Returns how
/// many were deleted.
pub async fn delete_old(store: &Store, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    // The condition that the triggers check. Nodes with other settings never move it back.
    const KEPT_SINCE: &str = "
        insert into settings (name, value) values ('audit_kept_since', $1)
        on conflict (name) do update set value = excluded.value
        where cast(settings.value as bigint) < cast(excluded.value as bigint)";
    // Ids begin with their time: the primary key finds the oldest.
    const SQL: &str = "
        delete from audit where id in (
            select id from audit where id < $1 and at < $2 order by id limit $3)";
    let mut tx = store.write().await?;
    tx.execute(KEPT_SINCE, &[before.unix_micros().to_string().as_str().into()]).await?;
    let oldest_kept = stored(AuditId::new(before, [0; 10]));
    let values = [oldest_kept.as_str().into(), before.into(), limit.into()];
    let deleted = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// Writes an entry in the transaction of the change it describes.
pub(crate) async fn insert(tx: &mut Tx, entry: &AuditEntry) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into audit (id, customer_id, at, actor, action, details)
        values ($1, $2, $3, $4, $5, $6)";
    let id = stored(entry.id);
    let values = [
        id.as_str().into(),
        entry.customer.into(),
        entry.at.into(),
        entry.actor.as_str().into(),
        entry.action.as_str().into(),
        entry.details.as_str().into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

/// An id as stored. The previous version reads no other prefix, and may run at the same time.
pub(crate) fn stored(id: AuditId) -> String {
    id.to_string().replacen(AuditId::PREFIX, EntryId::PREFIX, 1)
}
