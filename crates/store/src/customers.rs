//! Customers, who register and pay.

use domain::customer::{Email, TrialState};
use domain::id::CustomerId;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::keys::{self, NewKey};
use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError, dialect, notices};

/// An argon2 password hash. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl PasswordHash {
    /// No password: no login succeeds until one is set.
    pub const fn none() -> Self {
        Self(String::new())
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PasswordHash(..)")
    }
}

/// A customer as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    /// Its id.
    pub id: CustomerId,
    /// The canonical address.
    pub email: Email,
    /// The customer's name; may be empty.
    pub name: String,
    /// The hash of the password.
    pub password_hash: PasswordHash,
    /// When the address was confirmed.
    pub email_verified_at: Option<Timestamp>,
    /// The state of the trial.
    pub trial: TrialState,
    /// When the customer registered.
    pub created_at: Timestamp,
    /// When staff closed the customer, whose keys and sessions are then refused.
    pub disabled_at: Option<Timestamp>,
}

/// The data of a registration, stored in one transaction.
#[derive(Debug, Clone)]
pub struct NewCustomer {
    /// Its id.
    pub id: CustomerId,
    /// The canonical address.
    pub email: Email,
    /// The customer's name; may be empty.
    pub name: String,
    /// The hash of the password.
    pub password_hash: PasswordHash,
    /// When the address was confirmed; staff create customers with confirmed addresses.
    pub email_verified_at: Option<Timestamp>,
    /// `Pending` for registrations with a trial.
    pub trial: TrialState,
    /// The current time.
    pub created_at: Timestamp,
    /// The customer's first key.
    pub first_key: NewKey,
}

/// The outcome of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomerCreation {
    /// The customer, its empty balance and its first key exist.
    Created,
    /// The address belongs to another customer; nothing was stored.
    EmailTaken,
}

/// Creates a customer with an empty balance and a first key, in one transaction.
pub async fn create(store: &Store, new: &NewCustomer) -> Result<CustomerCreation, StoreError> {
    let mut tx = store.write().await?;
    if !insert(&mut tx, new).await? {
        return Ok(CustomerCreation::EmailTaken);
    }
    tx.commit().await?;
    Ok(CustomerCreation::Created)
}

/// The customer with this id.
pub async fn find_by_id(store: &Store, id: CustomerId) -> Result<Option<Customer>, StoreError> {
    find_where(store, "id = $1", id.into()).await
}

/// The customer with this address.
pub async fn find_by_email(store: &Store, email: &Email) -> Result<Option<Customer>, StoreError> {
    find_where(store, "email = $1", email.into()).await
}

/// Renames the customer. False if there is no such customer.
pub async fn rename(store: &Store, id: CustomerId, name: &str) -> Result<bool, StoreError> {
    const SQL: &str = "update customers set name = $2 where id = $1";
    change(store, SQL, id, name).await
}

/// Replaces the password. False when there is no such customer.
pub async fn set_password(
    store: &Store,
    id: CustomerId,
    password_hash: &PasswordHash,
) -> Result<bool, StoreError> {
    const SQL: &str = "update customers set password_hash = $2 where id = $1";
    change(store, SQL, id, &password_hash.0).await
}

/// Closes the customer: keys and sessions are refused once this commits. False if it is already
/// closed or does not exist.
pub async fn disable(store: &Store, id: CustomerId, now: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "update customers set disabled_at = $2 where id = $1 and disabled_at is null";
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &[id.into(), now.into()]).await?;
    notices::tell_keys(&mut tx, id).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// Locks the customer's row until the transaction ends, so that no other transaction changes what
/// is counted for this customer. False if there is no such customer.
///
/// A transaction that holds the customer's balance may insert rows that refer to the customer
/// meanwhile: it would deadlock with one that locks the customer and then the balance.
pub(crate) async fn lock(tx: &mut Tx, id: CustomerId) -> Result<bool, StoreError> {
    const SQL: &str = "select id from customers where id = $1";
    let sql = format!("{SQL}{}", dialect::for_no_key_update(tx.database()));
    Ok(tx.row(AssertSqlSafe(sql), &[id.into()]).await?.is_some())
}

/// Stores a customer with an empty balance and its first key. False when the address is taken.
pub(crate) async fn insert(tx: &mut Tx, new: &NewCustomer) -> Result<bool, StoreError> {
    const CUSTOMER: &str = "
        insert into customers
            (id, email, name, password_hash, email_verified_at, trial_state, created_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (email) do nothing";
    const CREDITS: &str = "
        insert into customer_credits (customer_id, granted, removed, spent, held, available, debt)
        values ($1, 0, 0, 0, 0, 0, 0)";
    let inserted = tx
        .execute(
            CUSTOMER,
            &[
                new.id.into(),
                (&new.email).into(),
                new.name.as_str().into(),
                new.password_hash.0.as_str().into(),
                new.email_verified_at.into(),
                new.trial.as_str().into(),
                new.created_at.into(),
            ],
        )
        .await?;
    if inserted == 0 {
        return Ok(false);
    }
    tx.execute(CREDITS, &[new.id.into()]).await?;
    keys::insert(tx, new.id, &new.first_key, new.created_at).await?;
    Ok(true)
}

/// Stores an address that its customer has just confirmed. A unique violation means that it is
/// taken.
pub(crate) async fn set_email(
    tx: &mut Tx,
    id: CustomerId,
    email: &Email,
    now: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "update customers set email = $2, email_verified_at = $3 where id = $1";
    tx.execute(SQL, &[id.into(), email.into(), now.into()]).await?;
    Ok(())
}

async fn change(
    store: &Store,
    sql: &'static str,
    id: CustomerId,
    text: &str,
) -> Result<bool, StoreError> {
    let mut tx = store.write().await?;
    let changed = tx.execute(sql, &[id.into(), text.into()]).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

async fn find_where(
    store: &Store,
    condition: &str,
    value: SqlValue<'_>,
) -> Result<Option<Customer>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "select id, email, name, password_hash, email_verified_at, trial_state, created_at, disabled_at
         from customers where {condition}"
    ));
    let row = store.read().await?.row(sql, &[value]).await?;
    row.as_ref().map(customer).transpose()
}

/// The customer in a row with all columns of `customers`.
pub(crate) fn customer(row: &SqlRow) -> Result<Customer, StoreError> {
    Ok(Customer {
        id: row.parse("id", "customers")?,
        email: row.parse("email", "customers")?,
        name: row.text("name")?,
        password_hash: PasswordHash(row.text("password_hash")?),
        email_verified_at: row.optional_time("email_verified_at")?,
        trial: row.parse("trial_state", "customers")?,
        created_at: row.time("created_at")?,
        disabled_at: row.optional_time("disabled_at")?,
    })
}
