//! Ended subscriptions, and the invoices that are voided because they will not be paid: theirs, and
//! those of live subscriptions that the processor has stopped trying to collect. Each step at the
//! processor is recorded first, so that it is finished after a crash and done once.

use domain::id::CustomerId;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::sql::{SqlRow, SqlValue};
use crate::{Store, StoreError};

/// A subscription that may have open invoices that will not be paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSubscription {
    /// Its id at the processor.
    pub subscription_id: String,
    /// The customer who had it.
    pub customer: CustomerId,
    /// The processor's id of the customer.
    pub processor_customer: String,
    /// False for a live subscription: its latest invoice can still be paid.
    pub has_ended: bool,
}

/// An invoice to be voided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoidedInvoice {
    /// Its id at the processor.
    pub invoice_id: String,
    /// The customer credit used in its lines, in cents, which the customer gets back.
    pub returned_cents: i64,
}

/// Records subscriptions whose invoices have to be checked. One that is known to have ended is not
/// changed: it is checked once.
pub async fn note(
    store: &Store,
    ended: &[EndedSubscription],
    at: Timestamp,
) -> Result<(), StoreError> {
    const KNOWN: &str =
        "select 1 from ended_subscriptions where subscription_id = $1 and has_ended = 1";
    const SQL: &str = "
        insert into ended_subscriptions
            (subscription_id, customer_id, processor_customer, seen_at, has_ended)
        values ($1, $2, $3, $4, $5)
        on conflict (subscription_id) do update set has_ended = $5, settled_at = null
            where ended_subscriptions.has_ended = 0";
    for one in ended {
        let id = one.subscription_id.as_str();
        if store.read().await?.row(KNOWN, &[id.into()]).await?.is_some() {
            continue;
        }
        let payer = one.processor_customer.as_str();
        let mut tx = store.write().await?;
        let has_ended = i64::from(one.has_ended);
        let values = [id.into(), one.customer.into(), payer.into(), at.into(), has_ended.into()];
        tx.execute(SQL, &values).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// The customer's subscriptions that may have open invoices.
pub async fn list_open_of(
    store: &Store,
    customer: CustomerId,
) -> Result<Vec<EndedSubscription>, StoreError> {
    list_where(store, "customer_id = $1", &[customer.into(), i64::MAX.into()]).await
}

/// Subscriptions that may have open invoices and were last checked before `seen_before`, least
/// recently checked first.
pub async fn list_open(
    store: &Store,
    seen_before: Timestamp,
    limit: i64,
) -> Result<Vec<EndedSubscription>, StoreError> {
    list_where(store, "seen_at < $1", &[seen_before.into(), limit.into()]).await
}

/// Records that a subscription was checked and may still have open invoices.
pub async fn look_later(
    store: &Store,
    subscription_id: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update ended_subscriptions set seen_at = $2 where subscription_id = $1";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[subscription_id.into(), at.into()]).await?;
    tx.commit().await
}

/// Records that none of its invoices is open any more.
pub async fn settle(store: &Store, subscription_id: &str, at: Timestamp) -> Result<(), StoreError> {
    const SQL: &str = "
        update ended_subscriptions set settled_at = $2
        where subscription_id = $1 and settled_at is null";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[subscription_id.into(), at.into()]).await?;
    tx.commit().await
}

/// Records that an invoice is about to be voided. An existing record is not changed.
pub async fn begin_void(
    store: &Store,
    of: &EndedSubscription,
    invoice: &VoidedInvoice,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into voided_invoices
            (invoice_id, subscription_id, customer_id, returned_cents, created_at)
        values ($1, $2, $3, $4, $5) on conflict (invoice_id) do nothing";
    let values = [
        invoice.invoice_id.as_str().into(),
        of.subscription_id.as_str().into(),
        of.customer.into(),
        invoice.returned_cents.into(),
        at.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// The invoices of a subscription whose voiding has begun and not finished.
pub async fn list_begun(
    store: &Store,
    subscription_id: &str,
) -> Result<Vec<VoidedInvoice>, StoreError> {
    const SQL: &str = "
        select invoice_id, returned_cents from voided_invoices
        where subscription_id = $1 and done_at is null order by created_at, invoice_id";
    let rows = store.read().await?.rows(SQL, &[subscription_id.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(VoidedInvoice {
                invoice_id: row.text("invoice_id")?,
                returned_cents: row.int("returned_cents")?,
            })
        })
        .collect()
}

/// The customer credit that was, or will be, returned for a voided invoice, in cents; none if this
/// service did not void it.
pub async fn returned_for(store: &Store, invoice: &str) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "select returned_cents from voided_invoices where invoice_id = $1";
    let row = store.read().await?.row(SQL, &[invoice.into()]).await?;
    row.map(|row| row.int("returned_cents")).transpose()
}

/// Records that an invoice is void and how much credit was returned; 0 if it was paid after all.
pub async fn finish_void(
    store: &Store,
    invoice: &VoidedInvoice,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update voided_invoices set returned_cents = $2, done_at = $3
        where invoice_id = $1 and done_at is null";
    let values = [invoice.invoice_id.as_str().into(), invoice.returned_cents.into(), at.into()];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// The subscriptions not settled yet, of the first value's condition, at most the second value.
async fn list_where(
    store: &Store,
    condition: &str,
    values: &[SqlValue<'_>; 2],
) -> Result<Vec<EndedSubscription>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "select subscription_id, customer_id, processor_customer, has_ended from ended_subscriptions
         where settled_at is null and {condition} order by seen_at, subscription_id limit $2"
    ));
    let rows = store.read().await?.rows(sql, values).await?;
    rows.iter().map(ended).collect()
}

fn ended(row: &SqlRow) -> Result<EndedSubscription, StoreError> {
    Ok(EndedSubscription {
        subscription_id: row.text("subscription_id")?,
        customer: row.parse("customer_id", "ended_subscriptions")?,
        processor_customer: row.text("processor_customer")?,
        has_ended: row.int("has_ended")? == 1,
    })
}
