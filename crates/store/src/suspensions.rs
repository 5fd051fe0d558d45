//! Suspended customers. A suspension sets `disabled_at`, which every check of a key, a session, a
//! hold, a top-up and an export reads, and `suspended_at`, which says that it can be ended.

use domain::customer::CustomerState;
use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, customers, notices, sessions};

/// What the operator did to a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomerStanding {
    /// What the customer can do now.
    pub state: CustomerState,
    /// When it was suspended.
    pub suspended_at: Option<Timestamp>,
    /// Why.
    pub suspended_reason: Option<String>,
    /// When it was erased.
    pub erased_at: Option<Timestamp>,
}

/// The outcome of suspending or resuming a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspensionOutcome {
    /// The state changed.
    Changed,
    /// It was so before; nothing changed.
    Repeated,
    /// The customer was closed or erased, so it can be neither suspended nor resumed.
    Closed(CustomerState),
    /// There is no such customer.
    NoCustomer,
}

/// The state of a row of `customers`, as SQL.
pub(crate) const STATE: &str = "
    case when c.erased_at is not null then 'erased'
         when c.suspended_at is not null then 'suspended'
         when c.disabled_at is not null then 'closed'
         when c.email_verified_at is null then 'unconfirmed'
         else 'active' end";

/// Whether the customer is suspended now.
pub async fn is_suspended(store: &Store, customer: CustomerId) -> Result<bool, StoreError> {
    let found = find(store, customer).await?;
    Ok(found.is_some_and(|found| found.state == CustomerState::Suspended))
}

/// What the operator did to the customer; none if there is no such customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<CustomerStanding>, StoreError> {
    find_in(&mut store.read().await?, customer).await
}

/// Suspends a customer: its keys, sessions, calls, top-ups and exports are refused on every node
/// once this commits. Running exports are given back and continue after the customer is resumed.
pub async fn suspend(
    store: &Store,
    reason: &str,
    entry: &AuditEntry,
) -> Result<SuspensionOutcome, StoreError> {
    const SQL: &str = "
        update customers set disabled_at = $2, suspended_at = $2, suspended_reason = $3
        where id = $1";
    const EXPORTS: &str = "
        update export_jobs set lease_until = $2, leased_by = '', attempt = 0
        where customer_id = $1 and state = 'running' and leased_by <> ''";
    let mut tx = store.write().await?;
    let customer = entry.customer;
    if let Err(outcome) = expect(&mut tx, customer, CustomerState::Suspended).await? {
        return Ok(outcome);
    }
    tx.execute(SQL, &[customer.into(), entry.at.into(), reason.into()]).await?;
    tx.execute(EXPORTS, &[customer.into(), entry.at.into()]).await?;
    finish(tx, entry).await
}

/// Ends a suspension. Keys work again as before; sessions of before the suspension have ended.
pub async fn resume(store: &Store, entry: &AuditEntry) -> Result<SuspensionOutcome, StoreError> {
    const SQL: &str = "
        update customers set disabled_at = null, suspended_at = null, suspended_reason = null
        where id = $1 and suspended_at is not null and erased_at is null";
    let mut tx = store.write().await?;
    if let Err(outcome) = expect(&mut tx, entry.customer, CustomerState::Active).await? {
        return Ok(outcome);
    }
    tx.execute(SQL, &[entry.customer.into()]).await?;
    sessions::end_all_in(&mut tx, entry.customer).await?;
    finish(tx, entry).await
}

async fn finish(mut tx: Tx, entry: &AuditEntry) -> Result<SuspensionOutcome, StoreError> {
    audit::insert(&mut tx, entry).await?;
    notices::tell_keys(&mut tx, entry.customer).await?;
    tx.commit().await?;
    Ok(SuspensionOutcome::Changed)
}

/// Locks the customer. `Err` if it cannot be brought into the state, or is in it already.
async fn expect(
    tx: &mut Tx,
    customer: CustomerId,
    wanted: CustomerState,
) -> Result<Result<(), SuspensionOutcome>, StoreError> {
    customers::lock(tx, customer).await?;
    let Some(found) = find_in(tx, customer).await? else {
        return Ok(Err(SuspensionOutcome::NoCustomer));
    };
    Ok(match (found.state, wanted) {
        (CustomerState::Erased | CustomerState::Closed, _) => {
            Err(SuspensionOutcome::Closed(found.state))
        }
        (CustomerState::Suspended, CustomerState::Suspended)
        | (CustomerState::Active | CustomerState::Unconfirmed, CustomerState::Active) => {
            Err(SuspensionOutcome::Repeated)
        }
        _ => Ok(()),
    })
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<Option<CustomerStanding>, StoreError> {
    let sql = format!(
        "select {STATE} as state, c.suspended_at, c.suspended_reason, c.erased_at
         from customers c where c.id = $1"
    );
    let row = tx.row(sqlx::AssertSqlSafe(sql), &[customer.into()]).await?;
    row.as_ref().map(standing).transpose()
}

fn standing(row: &SqlRow) -> Result<CustomerStanding, StoreError> {
    Ok(CustomerStanding {
        state: row.parse("state", "customers")?,
        suspended_at: row.optional_time("suspended_at")?,
        suspended_reason: row.optional_text("suspended_reason")?,
        erased_at: row.optional_time("erased_at")?,
    })
}
