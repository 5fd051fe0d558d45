//! Erasing a customer: what identifies a person is removed, in one transaction, and what the ledger
//! needs is kept. `docs/data.md` lists every table.

use domain::account::CreatorId;
use domain::export::ExportRemoval;
use domain::id::CustomerId;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::jobs::{self, NewJob};
use crate::sql::SqlValue;
use crate::tx::Tx;
use crate::{Store, StoreError, balance, customers, notices, suspensions};

/// Why a customer cannot be erased yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureObstacle {
    /// Its subscription is live.
    LiveSubscription,
    /// Invoices of its last subscription are still being closed.
    OpenInvoices,
    /// An order may still be paid.
    OpenOrder,
    /// An automatic charge has not ended.
    OpenTopUp,
    /// A change of its subscription is being carried out.
    OpenChange,
    /// An offer to subscribe may still be paid.
    OpenOffer,
    /// Credits are held for calls or exports.
    HeldCredits,
}

/// What an erasure removed from one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasedRows {
    /// The table.
    pub table: &'static str,
    /// How many of its rows were deleted or emptied.
    pub rows: u64,
}

/// What an erasure did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureReport {
    /// The rows of each table.
    pub tables: Vec<ErasedRows>,
    /// The accounts that were deleted.
    pub accounts: Vec<CreatorId>,
    /// What the payment processor knows the customer by, to be deleted there.
    pub payers: Vec<String>,
}

/// The outcome of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureOutcome {
    /// The customer is erased.
    Erased(ErasureReport),
    /// It was erased before; nothing changed.
    Repeated,
    /// It cannot be erased now; nothing changed.
    Refused(Vec<ErasureObstacle>),
    /// There is no such customer.
    NoCustomer,
}

/// Whether an erasure is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureMode {
    /// It is.
    Commit,
    /// It is only computed what it would do.
    Preview,
}

/// Erases the customer of the entry. `follow` makes the jobs that delete it elsewhere.
pub async fn erase(
    store: &Store,
    entry: &AuditEntry,
    mode: ErasureMode,
    follow: &(dyn Fn(&[String]) -> Vec<NewJob> + Send + Sync),
) -> Result<ErasureOutcome, StoreError> {
    let mut tx = store.write().await?;
    let customer = entry.customer;
    customers::lock(&mut tx, customer).await?;
    let Some(found) = suspensions::find_in(&mut tx, customer).await? else {
        return Ok(ErasureOutcome::NoCustomer);
    };
    if found.erased_at.is_some() {
        return Ok(ErasureOutcome::Repeated);
    }
    let obstacles = obstacles(&mut tx, customer).await?;
    if !obstacles.is_empty() {
        return Ok(ErasureOutcome::Refused(obstacles));
    }
    let report = remove(&mut tx, customer, entry.at).await?;
    audit::insert(&mut tx, entry).await?;
    jobs::insert_all(&mut tx, &follow(&report.payers)).await?;
    notices::tell_keys(&mut tx, customer).await?;
    for account in &report.accounts {
        notices::tell_account(&mut tx, customer, account).await?;
    }
    if mode == ErasureMode::Commit {
        tx.commit().await?;
    }
    Ok(ErasureOutcome::Erased(report))
}

/// Everything that must end before the customer can be erased.
async fn obstacles(tx: &mut Tx, customer: CustomerId) -> Result<Vec<ErasureObstacle>, StoreError> {
    const SQL: &str = "
        select
            (select status from subscriptions where customer_id = $1) as status,
            (select count(*) from ended_subscriptions where customer_id = $1 and settled_at is null) as invoices,
            (select count(*) from orders where customer_id = $1 and state = 'pending') as orders,
            (select count(*) from top_ups
             where customer_id = $1 and state in ('claimed', 'requires_action')) as top_ups,
            (select count(*) from slot_changes where customer_id = $1 and state = 'open') as changes,
            (select count(*) from subscription_offers
             where customer_id = $1 and closed_at is null) as offers,
            (select held from customer_credits where customer_id = $1) as held";
    balance::lock(tx, std::iter::once(customer)).await?;
    let Some(row) = tx.row(SQL, &[customer.into()]).await? else { return Ok(Vec::new()) };
    let status: Option<SubscriptionStatus> = row.parse_optional("status", "subscriptions")?;
    let checks = [
        (status.is_some_and(SubscriptionStatus::is_live), ErasureObstacle::LiveSubscription),
        (row.int("invoices")? > 0, ErasureObstacle::OpenInvoices),
        (row.int("orders")? > 0, ErasureObstacle::OpenOrder),
        (row.int("top_ups")? > 0, ErasureObstacle::OpenTopUp),
        (row.int("changes")? > 0, ErasureObstacle::OpenChange),
        (row.int("offers")? > 0, ErasureObstacle::OpenOffer),
        (row.optional_int("held")?.unwrap_or(0) > 0, ErasureObstacle::HeldCredits),
    ];
    Ok(checks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, obstacle)| obstacle).collect())
}

/// The tables whose rows go, each with its statement: `$1` is the customer.
const DELETED: &[(&str, &str)] = &[
    (
        "key_secrets",
        "delete from key_secrets where key_id in (select id from keys where customer_id = $1)",
    ),
    (
        "key_accounts",
        "delete from key_accounts where key_id in (select id from keys where customer_id = $1)",
    ),
    ("sessions", "delete from sessions where customer_id = $1"),
    ("login_networks", "delete from login_networks where customer_id = $1"),
    ("mail_links", "delete from mail_links where customer_id = $1"),
    ("email_changes", "delete from email_changes where customer_id = $1"),
    ("support_access", "delete from support_access where customer_id = $1"),
    ("staff_permissions", "delete from staff_permissions where customer_id = $1"),
    ("accounts", "delete from accounts where customer_id = $1"),
    ("credential_refusals", "delete from credential_refusals where customer_id = $1"),
    ("data_keys", "delete from data_keys where customer_id = $1"),
    ("idempotency", "delete from idempotency where customer_id = $1"),
    ("own_requests", "delete from own_requests where customer_id = $1"),
    ("cards", "delete from cards where customer_id = $1"),
    ("top_up_settings", "delete from top_up_settings where customer_id = $1"),
    ("notice_choices", "delete from notice_choices where customer_id = $1"),
    ("sent_notices", "delete from sent_notices where customer_id = $1"),
    ("slot_previews", "delete from slot_previews where customer_id = $1"),
    ("change_previews", "delete from change_previews where customer_id = $1"),
    ("invoice_reads", "delete from invoice_reads where customer_id = $1"),
    (
        "order_receipts",
        "delete from order_receipts where order_id in (select id from orders where customer_id = $1)",
    ),
    (
        "jobs",
        "delete from jobs where kind in ('send_mail', 'update_email', 'use_card')
            and replace(payload, $1, '') <> payload",
    ),
];

async fn remove(
    tx: &mut Tx,
    customer: CustomerId,
    at: Timestamp,
) -> Result<ErasureReport, StoreError> {
    let accounts = accounts(tx, customer).await?;
    let payers = payers(tx, customer).await?;
    let mut tables = Vec::new();
    for (table, sql) in DELETED {
        tables.push(ErasedRows { table, rows: tx.execute(*sql, &[customer.into()]).await? });
    }
    for (table, sql) in EMPTIED {
        let values = [customer.into(), at.into()];
        tables.push(ErasedRows { table, rows: tx.execute(*sql, &values).await? });
    }
    tables.push(ErasedRows { table: "export_jobs", rows: exports(tx, customer, at).await? });
    tables.push(ErasedRows { table: "customers", rows: name(tx, customer, at).await? });
    let invoices = tx.execute(INVOICES, &[customer.into()]).await?;
    tables.push(ErasedRows { table: "invoices", rows: invoices });
    // Only entries of an erased customer can be emptied, so this comes last.
    let entries = tx.execute(AUDIT, &[customer.into()]).await?;
    tables.push(ErasedRows { table: "audit", rows: entries });
    Ok(ErasureReport { tables, accounts, payers })
}

/// The tables whose rows are kept without what identifies a person: `$2` is the time.
const EMPTIED: &[(&str, &str)] = &[
    (
        "keys",
        "update keys set name = '', shown_prefix = '', shown_suffix = '',
            revoked_at = coalesce(revoked_at, $2), version = version + 1
         where customer_id = $1",
    ),
    (
        "processor_customers",
        "update processor_customers set deleted_at = $2
         where customer_id = $1 and deleted_at is null",
    ),
];

const INVOICES: &str = "
    update invoices set hosted_url = null, pdf_url = null
    where customer_id = $1 and (hosted_url is not null or pdf_url is not null)";

const AUDIT: &str = r#"
    update audit set details = '{"erased":true}'
    where customer_id = $1 and details <> '{"erased":true}'"#;

/// Removes the exports' parameters and makes their files due for removal from the storage.
async fn exports(tx: &mut Tx, customer: CustomerId, at: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'deleted', output_key = null, sha256 = null, bytes = null, rows = null,
            params = '{}', columns = null, start_date = null, end_date = null, error_code = null,
            error_message = null, cleanup_due_at = $2, removal = $3, removed_at = $2
        where customer_id = $1 and credit_state <> 'held' and state <> 'deleted'";
    let removal = ExportRemoval::BySupport.as_str();
    tx.execute(SQL, &[customer.into(), at.into(), removal.into()]).await
}

/// Replaces the address by one that nobody has, and removes the name and the password.
async fn name(tx: &mut Tx, customer: CustomerId, at: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "
        update customers set email = $3, name = '', password_hash = '', email_verified_at = null,
            disabled_at = $2, suspended_at = null, suspended_reason = null, erased_at = $2
        where id = $1";
    let email = format!("{customer}@erased.invalid");
    let values: [SqlValue<'_>; 3] = [customer.into(), at.into(), email.into()];
    tx.execute(SQL, &values).await
}

async fn accounts(tx: &mut Tx, customer: CustomerId) -> Result<Vec<CreatorId>, StoreError> {
    const SQL: &str = "select creator_id from accounts where customer_id = $1 order by creator_id";
    let rows = tx.rows(SQL, &[customer.into()]).await?;
    rows.iter().map(|row| row.parse("creator_id", "accounts")).collect()
}

/// Every id that the customer has at the payment processor, except deleted ones.
async fn payers(tx: &mut Tx, customer: CustomerId) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "
        select processor_customer_id from processor_customers
        where customer_id = $1 and deleted_at is null order by processor_customer_id";
    let rows = tx.rows(SQL, &[customer.into()]).await?;
    rows.iter().map(|row| row.text("processor_customer_id")).collect()
}
