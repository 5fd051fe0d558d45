//! Customers who registered, never confirmed their address, and left nothing else: they are deleted
//! some time later, so that registrations with invented addresses do not pile up.

use domain::id::CustomerId;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::tx::Tx;
use crate::{Store, StoreError, dialect, notices};

/// What a registration that was never used consists of, in the order in which it is deleted: `$1`
/// is the customer.
const PARTS: &[&str] = &[
    "delete from key_secrets where key_id in (select id from keys where customer_id = $1)",
    "delete from key_accounts where key_id in (select id from keys where customer_id = $1)",
    "delete from keys where customer_id = $1",
    "delete from login_networks where customer_id = $1",
    "delete from mail_links where customer_id = $1",
    "delete from email_changes where customer_id = $1",
    "delete from notice_choices where customer_id = $1",
    "delete from sent_notices where customer_id = $1",
    "delete from customer_credits where customer_id = $1",
    "delete from customers where id = $1",
];

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedStep {
    /// The number of customers that were deleted.
    pub deleted: u64,
    /// The last customer that was looked at; the next step begins after it. None if there was none.
    pub last: Option<CustomerId>,
}

/// Looks at customers who registered before `before` and never confirmed an address, at most
/// `limit`, beginning after `after`. Deletes those who have neither used a key or a session since
/// then nor left anything of their own.
pub async fn delete(
    store: &Store,
    after: Option<CustomerId>,
    before: Timestamp,
    limit: i64,
) -> Result<UnconfirmedStep, StoreError> {
    let mut tx = store.write().await?;
    let unconfirmed = unconfirmed(&mut tx, after, before, limit).await?;
    let mut deleted = 0_u64;
    for customer in &unconfirmed {
        if is_used(&mut tx, *customer).await? {
            continue;
        }
        for part in PARTS {
            tx.execute(*part, &[(*customer).into()]).await?;
        }
        notices::tell_keys(&mut tx, *customer).await?;
        deleted = deleted.saturating_add(1);
    }
    tx.commit().await?;
    Ok(UnconfirmedStep { deleted, last: unconfirmed.last().copied() })
}

/// The tables in which a customer that was used has a row. What is not named here, such as refunds
/// and lines of invoices, exists only beside a row of one of these.
const TRACES: &[&str] = &[
    "ledger",
    "sessions",
    "accounts",
    "calls",
    "call_totals",
    "export_jobs",
    "orders",
    "processor_customers",
    "subscriptions",
    "audit",
    "data_keys",
    "lots",
    "own_requests",
    "staff_permissions",
    "support_access",
    "top_up_settings",
    "slot_changes",
    "slot_previews",
    "change_previews",
    "subscription_offers",
    "top_ups",
    "cards",
    "invoices",
    "invoice_reads",
];

/// Locks customers that may go.
async fn unconfirmed(
    tx: &mut Tx,
    after: Option<CustomerId>,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<CustomerId>, StoreError> {
    const SQL: &str = "
        select id from customers
        where id > $1 and email_verified_at is null and created_at < $2 and disabled_at is null
          and trial_state <> 'granted'
          and not exists (select 1 from keys where customer_id = customers.id and last_used_at >= $2)
        order by id limit $3";
    let sql = format!("{SQL}{}", dialect::for_update_skip_locked(tx.database()));
    let after = after.map_or_else(String::new, |id| id.to_string());
    let values = [after.as_str().into(), before.into(), limit.max(1).into()];
    let rows = tx.rows(AssertSqlSafe(sql), &values).await?;
    rows.iter().map(|row| row.parse("id", "customers")).collect()
}

async fn is_used(tx: &mut Tx, customer: CustomerId) -> Result<bool, StoreError> {
    let traces: Vec<String> = TRACES
        .iter()
        .map(|table| format!("exists (select 1 from {table} where customer_id = $1)"))
        .collect();
    let sql = format!(
        "select cast(case when {} then 1 else 0 end as bigint) as is_used",
        traces.join(" or ")
    );
    let row = tx.row(AssertSqlSafe(sql), &[customer.into()]).await?;
    Ok(row.map_or(Ok(1), |row| row.int("is_used"))? != 0)
}
