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
    "delete from customer_credits where customer_id = $1",
    "delete from customers where id = $1",
];

/// Deletes customers who registered before `before`, never confirmed an address, and have neither
/// used a key or a session since then nor left anything of their own; at most `limit`. Returns how
/// many.
pub async fn delete(store: &Store, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    let mut tx = store.write().await?;
    let unused = unused(&mut tx, before, limit).await?;
    for customer in &unused {
        for part in PARTS {
            tx.execute(*part, &[(*customer).into()]).await?;
        }
        notices::tell_keys(&mut tx, *customer).await?;
    }
    tx.commit().await?;
    Ok(u64::try_from(unused.len()).unwrap_or(u64::MAX))
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

/// Locks the customers that may go.
async fn unused(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<Vec<CustomerId>, StoreError> {
    const UNCONFIRMED: &str = "
        select id from customers
        where email_verified_at is null and created_at < $1 and disabled_at is null and trial_state <> 'granted'
          and not exists (select 1 from keys where customer_id = customers.id and last_used_at >= $1)";
    let without: String = TRACES
        .iter()
        .map(|table| {
            format!(" and not exists (select 1 from {table} where customer_id = customers.id)")
        })
        .collect();
    let lock = dialect::for_update_skip_locked(tx.database());
    let sql = format!("{UNCONFIRMED}{without} order by id limit $2{lock}");
    let rows = tx.rows(AssertSqlSafe(sql), &[before.into(), limit.max(1).into()]).await?;
    rows.iter().map(|row| row.parse("id", "customers")).collect()
}
