//! The customers' ids at the payment processor. One is current; deleted ones are kept for history.

use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError};

/// The customer's current id at the processor, if there is one.
pub async fn find(store: &Store, customer: CustomerId) -> Result<Option<String>, StoreError> {
    find_in(&mut store.read().await?, customer).await
}

/// The customer with this processor id, current or deleted.
pub async fn owner(
    store: &Store,
    processor_customer: &str,
) -> Result<Option<CustomerId>, StoreError> {
    owner_in(&mut store.read().await?, processor_customer).await
}

/// How many processor ids the customer has had, which distinguishes the request that creates the
/// next one from earlier ones.
pub async fn count(store: &Store, customer: CustomerId) -> Result<i64, StoreError> {
    const SQL: &str = "select count(*) as linked from processor_customers where customer_id = $1";
    let row = store.read().await?.row(SQL, &[customer.into()]).await?;
    row.map_or(Ok(0), |row| row.int("linked"))
}

/// The current ids of customers of whose credit there something is withdrawn, in any order.
pub async fn list_withdrawn(store: &Store) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "
        select processor_customer_id from processor_customers
        where deleted_at is null
            and customer_id in (select customer_id from sales where withdrawn_cents <> 0)";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter().map(|row| row.text("processor_customer_id")).collect()
}

/// Stores a processor id before it is used. Returns the current id, which may be one that a
/// concurrent request stored first.
pub async fn link(
    store: &Store,
    customer: CustomerId,
    processor_customer: &str,
    at: Timestamp,
) -> Result<String, StoreError> {
    const SQL: &str = "
        insert into processor_customers (processor_customer_id, customer_id, created_at)
        values ($1, $2, $3) on conflict do nothing";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[processor_customer.into(), customer.into(), at.into()]).await?;
    let current = find_in(&mut tx, customer).await?;
    let current =
        current.ok_or_else(|| StoreError::corrupt("processor_customers", processor_customer))?;
    tx.commit().await?;
    Ok(current)
}

/// Records that the processor deleted its customer, and deletes the saved card. False if that was
/// known, or no customer has this id.
pub async fn unlink(
    store: &Store,
    processor_customer: &str,
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update processor_customers set deleted_at = $2
        where processor_customer_id = $1 and deleted_at is null
        returning customer_id";
    let mut tx = store.write().await?;
    let Some(row) = tx.row(SQL, &[processor_customer.into(), at.into()]).await? else {
        return Ok(false);
    };
    crate::cards::remove_in(&mut tx, row.parse("customer_id", "processor_customers")?, at).await?;
    tx.commit().await?;
    Ok(true)
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<Option<String>, StoreError> {
    const SQL: &str = "
        select processor_customer_id from processor_customers
        where customer_id = $1 and deleted_at is null";
    let row = tx.row(SQL, &[customer.into()]).await?;
    row.map(|row| row.text("processor_customer_id")).transpose()
}

pub(crate) async fn owner_in(
    tx: &mut Tx,
    processor_customer: &str,
) -> Result<Option<CustomerId>, StoreError> {
    const SQL: &str = "
        select customer_id from processor_customers where processor_customer_id = $1";
    let row = tx.row(SQL, &[processor_customer.into()]).await?;
    row.map(|row| row.parse("customer_id", "processor_customers")).transpose()
}
