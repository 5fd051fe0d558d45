//! Customers: who registers and pays.

use domain::credits::Credits;
use domain::customer::{Email, TrialState};
use domain::id::{CustomerId, EntryId};
use domain::time::Timestamp;

use crate::keys::{self, NewKey};
use crate::ledger::{self, Grant, Granting};
use crate::sql::Row;
use crate::tx::Tx;
use crate::{Store, StoreError, dialect, notices};

/// A password, as argon2 wrote it. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl PasswordHash {
    /// No password: nothing opens it, until one is set.
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
    /// What the customer is called; may be empty.
    pub name: String,
    /// What a password is checked against.
    pub password_hash: PasswordHash,
    /// When the address was confirmed.
    pub email_verified_at: Option<Timestamp>,
    /// Where the trial credits stand.
    pub trial: TrialState,
    /// When it registered.
    pub created_at: Timestamp,
    /// When staff closed it; its keys and sessions are then refused.
    pub disabled_at: Option<Timestamp>,
}

/// What registration stores, all or nothing.
#[derive(Debug, Clone)]
pub struct NewCustomer {
    /// Its id.
    pub id: CustomerId,
    /// The canonical address.
    pub email: Email,
    /// What the customer is called; may be empty.
    pub name: String,
    /// What a password is checked against.
    pub password_hash: PasswordHash,
    /// When the address was confirmed; staff create customers with confirmed addresses.
    pub email_verified_at: Option<Timestamp>,
    /// `Pending` for registrations with a trial.
    pub trial: TrialState,
    /// Now.
    pub created_at: Timestamp,
    /// The key that comes with it.
    pub first_key: NewKey,
}

/// How a registration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// The customer, its empty balance and its first key exist.
    Created,
    /// The address belongs to another customer; nothing was stored.
    EmailTaken,
}

/// How a change of the address ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmailChange {
    /// The address is stored and unconfirmed.
    Changed,
    /// The address belongs to another customer.
    EmailTaken,
    /// There is no such customer.
    NotFound,
}

/// How the confirmation of an address ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Confirmed now; `granted` trial credits were added with it.
    Confirmed {
        /// The trial's credits, zero where no trial was pending.
        granted: Credits,
    },
    /// It was confirmed before; nothing changed.
    AlreadyConfirmed,
    /// No customer has this id and this address.
    NotFound,
}

/// The credits of a pending trial, and the ledger entry that would grant them.
#[derive(Debug, Clone, Copy)]
pub struct TrialGrant {
    /// The id of the entry.
    pub entry: EntryId,
    /// How many.
    pub credits: Credits,
}

/// Creates a customer with an empty balance and a first key, in one transaction.
pub async fn create(store: &Store, new: &NewCustomer) -> Result<Creation, StoreError> {
    const CUSTOMER: &str = "
        insert into customers
            (id, email, name, password_hash, email_verified_at, trial_state, created_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (email) do nothing";
    const CREDITS: &str = "
        insert into customer_credits (customer_id, granted, removed, spent, held, available, debt)
        values ($1, 0, 0, 0, 0, 0, 0)";
    let mut tx = store.write().await?;
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
        return Ok(Creation::EmailTaken);
    }
    tx.execute(CREDITS, &[new.id.into()]).await?;
    keys::insert(&mut tx, new.id, &new.first_key, new.created_at).await?;
    tx.commit().await?;
    Ok(Creation::Created)
}

/// The customer with this id.
pub async fn find_by_id(store: &Store, id: CustomerId) -> Result<Option<Customer>, StoreError> {
    const SQL: &str = "
        select id, email, name, password_hash, email_verified_at, trial_state, created_at, disabled_at
        from customers where id = $1";
    let row = store.read().await?.row(SQL, &[id.into()]).await?;
    row.as_ref().map(customer).transpose()
}

/// The customer with this address.
pub async fn find_by_email(store: &Store, email: &Email) -> Result<Option<Customer>, StoreError> {
    const SQL: &str = "
        select id, email, name, password_hash, email_verified_at, trial_state, created_at, disabled_at
        from customers where email = $1";
    let row = store.read().await?.row(SQL, &[email.into()]).await?;
    row.as_ref().map(customer).transpose()
}

/// Gives the customer another name. False when there is no such customer.
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

/// Replaces the address, which is then unconfirmed.
pub async fn change_email(
    store: &Store,
    id: CustomerId,
    email: &Email,
) -> Result<EmailChange, StoreError> {
    const SQL: &str = "
        update customers set email = $2, email_verified_at = null where id = $1";
    let mut tx = store.write().await?;
    match tx.execute(SQL, &[id.into(), email.into()]).await {
        Ok(0) => Ok(EmailChange::NotFound),
        Ok(_) => {
            tx.commit().await?;
            Ok(EmailChange::Changed)
        }
        Err(error) if error.is_unique_violation() => Ok(EmailChange::EmailTaken),
        Err(error) => Err(error),
    }
}

/// Confirms the address and, the first time, grants a pending trial in the same transaction.
pub async fn confirm_email(
    store: &Store,
    id: CustomerId,
    email: &Email,
    trial: TrialGrant,
    now: Timestamp,
) -> Result<Confirmation, StoreError> {
    const CONFIRM: &str = "
        update customers set email_verified_at = $3
        where id = $1 and email = $2 and email_verified_at is null
        returning trial_state";
    const EXISTS: &str = "select 1 from customers where id = $1 and email = $2";
    const GRANTED: &str = "update customers set trial_state = 'granted' where id = $1";
    let mut tx = store.write().await?;
    let confirmed = tx.row(CONFIRM, &[id.into(), email.into(), now.into()]).await?;
    let Some(row) = confirmed else {
        let exists = tx.row(EXISTS, &[id.into(), email.into()]).await?;
        return Ok(exists.map_or(Confirmation::NotFound, |_| Confirmation::AlreadyConfirmed));
    };
    let pending = row.parse::<TrialState>(0, "customers")? == TrialState::Pending;
    let granted = if pending { grant_trial(&mut tx, id, trial, now).await? } else { Credits::ZERO };
    if pending {
        tx.execute(GRANTED, &[id.into()]).await?;
    }
    tx.commit().await?;
    Ok(Confirmation::Confirmed { granted })
}

/// Closes the customer: keys and sessions are refused from the commit on. False when it is closed already
/// or does not exist.
pub async fn disable(store: &Store, id: CustomerId, now: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "update customers set disabled_at = $2 where id = $1 and disabled_at is null";
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &[id.into(), now.into()]).await?;
    notices::tell_keys(&mut tx).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// Lets nobody else change what belongs to this customer and is counted, until the transaction ends.
pub(crate) async fn lock(tx: &mut Tx, id: CustomerId) -> Result<(), StoreError> {
    const SQL: &str = "select id from customers where id = $1";
    let sql = format!("{SQL}{}", dialect::for_update(tx.database()));
    tx.row(sqlx::AssertSqlSafe(sql), &[id.into()]).await?;
    Ok(())
}

async fn grant_trial(
    tx: &mut Tx,
    customer: CustomerId,
    trial: TrialGrant,
    at: Timestamp,
) -> Result<Credits, StoreError> {
    if trial.credits <= Credits::ZERO {
        return Ok(Credits::ZERO);
    }
    let source_id = customer.to_string();
    let grant = Grant {
        entry: trial.entry,
        customer,
        amount: trial.credits,
        kind: "trial",
        source: "trial",
        source_id: &source_id,
        reference: None,
        at,
    };
    match ledger::grant_in(tx, &grant).await? {
        Granting::Granted { .. } => Ok(trial.credits),
        Granting::Repeated | Granting::NoCustomer => Ok(Credits::ZERO),
    }
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

fn customer(row: &Row) -> Result<Customer, StoreError> {
    Ok(Customer {
        id: row.parse(0, "customers")?,
        email: row.parse(1, "customers")?,
        name: row.text(2)?,
        password_hash: PasswordHash(row.text(3)?),
        email_verified_at: row.optional_time(4)?,
        trial: row.parse(5, "customers")?,
        created_at: row.time(6)?,
        disabled_at: row.optional_time(7)?,
    })
}
