//! Audit: what staff and customers did that must be found again. Append only by having no other function.

use domain::id::{CustomerId, EntryId};
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// Something somebody did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its id.
    pub id: EntryId,
    /// The customer it concerns.
    pub customer: CustomerId,
    /// When.
    pub at: Timestamp,
    /// Who, such as a customer's id or `operator`.
    pub actor: String,
    /// What, such as `calls.read`.
    pub action: String,
    /// What else is worth knowing; never a secret.
    pub details: String,
}

/// Writes an entry.
pub async fn record(store: &Store, entry: &AuditEntry) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into audit (id, customer_id, at, actor, action, details)
        values ($1, $2, $3, $4, $5, $6)";
    let values = [
        entry.id.into(),
        entry.customer.into(),
        entry.at.into(),
        entry.actor.as_str().into(),
        entry.action.as_str().into(),
        entry.details.as_str().into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// The newest entries about a customer, newest first.
pub async fn recent(
    store: &Store,
    customer: CustomerId,
    limit: i64,
) -> Result<Vec<AuditEntry>, StoreError> {
    const SQL: &str = "
        select id, customer_id, at, actor, action, details
        from audit where customer_id = $1 order by at desc, id desc limit $2";
    let rows = store.read().await?.rows(SQL, &[customer.into(), limit.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(AuditEntry {
                id: row.parse(0, "audit")?,
                customer: row.parse(1, "audit")?,
                at: row.time(2)?,
                actor: row.text(3)?,
                action: row.text(4)?,
                details: row.text(5)?,
            })
        })
        .collect()
}
