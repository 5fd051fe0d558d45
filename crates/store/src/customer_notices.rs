//! What the operator sees of a customer beside its own resources: permissions as staff, and failed
//! payments that it was told about.

use domain::id::CustomerId;
use domain::staff::Permission;
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::{Store, StoreError, permissions};

/// A failed payment of an invoice that the customer was told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldFailure {
    /// The invoice.
    pub invoice: String,
    /// The number of the attempt.
    pub attempt: i64,
    /// When the customer was told.
    pub told_at: Timestamp,
}

/// The newest failed payments that the customer was told about.
pub async fn failures(
    store: &Store,
    customer: CustomerId,
    limit: i64,
) -> Result<Vec<ToldFailure>, StoreError> {
    const SQL: &str = "
        select invoice_id, attempt, told_at from invoice_notices
        where customer_id = $1 order by told_at desc, invoice_id, attempt desc limit $2";
    let rows = store.read().await?.rows(SQL, &[customer.into(), limit.into()]).await?;
    rows.iter().map(failure).collect()
}

/// What the customer may do as staff.
pub async fn permissions(
    store: &Store,
    customer: CustomerId,
) -> Result<Vec<Permission>, StoreError> {
    permissions::of(&mut store.read().await?, customer).await
}

fn failure(row: &SqlRow) -> Result<ToldFailure, StoreError> {
    Ok(ToldFailure {
        invoice: row.text("invoice_id")?,
        attempt: row.int("attempt")?,
        told_at: row.time("told_at")?,
    })
}
