//! Accounts: creator accounts that customers connected, with their sealed credentials.

use std::sync::Arc;

use domain::account::{AccountState, CreatorId};
use domain::id::{CustomerId, DataKeyId};
use domain::platform::Platform;
use domain::slot::Allowances;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::places::{self, Shift};
use crate::sql::Row;
use crate::tx::Tx;
use crate::{Store, StoreError, customers, limits, notices};

/// A connected account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Whose it is.
    pub customer: CustomerId,
    /// The id the customer chose.
    pub creator_id: CreatorId,
    /// Where it lives.
    pub platform: Platform,
    /// What the platform calls it.
    pub platform_account_id: String,
    /// What it can be used for.
    pub state: AccountState,
    /// Changes with every change of credentials or state; a hold names the one its call was prepared with.
    pub version: i64,
    /// What opens it at the platform.
    pub credentials: Credentials,
    /// When it was first connected.
    pub connected_at: Timestamp,
    /// When the platform last confirmed the credentials.
    pub verified_at: Option<Timestamp>,
}

/// Sealed credentials and what must be known of them without opening them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// The data key that opens them.
    pub data_key: DataKeyId,
    /// The OAuth scopes of the token, where the platform told them.
    pub scopes: Option<Vec<String>>,
    /// When the token ends.
    pub token_expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Credentials({}, ..)", self.data_key)
    }
}

/// An account to be connected.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// Whose it is.
    pub customer: CustomerId,
    /// The id the customer chose.
    pub creator_id: CreatorId,
    /// Where it lives.
    pub platform: Platform,
    /// What the platform calls it.
    pub platform_account_id: String,
    /// What opens it.
    pub credentials: Credentials,
    /// Now, when the platform has just confirmed the credentials.
    pub at: Timestamp,
    /// What plans and customers have: with the subscription they say how many accounts may be in use at once.
    pub allowances: Arc<Allowances>,
    /// What the audit list is told.
    pub entry: AuditEntry,
}

/// How connecting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The account is stored with these credentials.
    Connected {
        /// False when it was connected before and its credentials were replaced.
        created: bool,
        /// `Inactive` when the plan has no room for another one.
        state: AccountState,
        /// Its new version.
        version: i64,
    },
    /// The customer has this id on another platform; nothing changed.
    OtherPlatform(Platform),
    /// There is no such customer.
    NoCustomer,
}

/// How many accounts of a platform a customer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// In use: active, or waiting to be connected again.
    pub in_use: i64,
    /// Over the limit of the plan.
    pub inactive: i64,
}

/// Stores an account, or replaces the credentials of one that is connected, in one transaction.
pub async fn connect(store: &Store, new: &NewAccount) -> Result<Connection, StoreError> {
    const EXISTING: &str = "
        select platform, state, version from accounts where customer_id = $1 and creator_id = $2";
    let mut tx = store.write().await?;
    // The lock orders those who give or take places at once, so that limit and count below hold.
    if !customers::lock(&mut tx, new.customer).await? {
        return Ok(Connection::NoCustomer);
    }
    let key = [new.customer.into(), (&new.creator_id).into()];
    let existing = tx.row(EXISTING, &key).await?;
    let in_use = count_in(&mut tx, new.customer, new.platform).await?.in_use;
    let limits = limits::of(&mut tx, new.customer, &new.allowances).await?.limit;
    let has_room = in_use < limits.on(new.platform);
    let (created, keeps_place, version) = match &existing {
        None => (true, false, new.at.unix_micros()),
        Some(row) => {
            let platform = row.parse::<Platform>(0, "accounts")?;
            if platform != new.platform {
                return Ok(Connection::OtherPlatform(platform));
            }
            let inactive = row.parse::<AccountState>(1, "accounts")? == AccountState::Inactive;
            (false, !inactive, row.int(2)?.saturating_add(1).max(new.at.unix_micros()))
        }
    };
    let state = if keeps_place || has_room { AccountState::Active } else { AccountState::Inactive };
    upsert(&mut tx, new, state, version).await?;
    audit::insert(&mut tx, &new.entry).await?;
    notices::tell_account(&mut tx, new.customer, &new.creator_id).await?;
    tx.commit().await?;
    Ok(Connection::Connected { created, state, version })
}

/// A customer's accounts, in the order of their ids.
pub async fn list(store: &Store, customer: CustomerId) -> Result<Vec<Account>, StoreError> {
    const SQL: &str = "
        select customer_id, creator_id, platform, platform_account_id, state, version, credentials,
               data_key_id, scopes, token_expires_at, connected_at, verified_at
        from accounts where customer_id = $1 order by creator_id";
    let rows = store.read().await?.rows(SQL, &[customer.into()]).await?;
    rows.iter().map(account).collect()
}

/// One account of a customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    creator_id: &CreatorId,
) -> Result<Option<Account>, StoreError> {
    const SQL: &str = "
        select customer_id, creator_id, platform, platform_account_id, state, version, credentials,
               data_key_id, scopes, token_expires_at, connected_at, verified_at
        from accounts where customer_id = $1 and creator_id = $2";
    let row = store.read().await?.row(SQL, &[customer.into(), creator_id.into()]).await?;
    row.as_ref().map(account).transpose()
}

/// Forgets an account and its credentials; its place goes to the oldest account that waits for one. Gives the accounts
/// that got a place; nothing when there is no such account.
pub async fn delete(
    store: &Store,
    customer: CustomerId,
    creator_id: &CreatorId,
    allowances: &Allowances,
    entry: &AuditEntry,
) -> Result<Option<Vec<Shift>>, StoreError> {
    const SQL: &str = "delete from accounts where customer_id = $1 and creator_id = $2";
    let mut tx = store.write().await?;
    customers::lock(&mut tx, customer).await?;
    if tx.execute(SQL, &[customer.into(), creator_id.into()]).await? == 0 {
        return Ok(None);
    }
    let limits = limits::of(&mut tx, customer, allowances).await?.limit;
    let shifts = places::fill(&mut tx, customer, &limits, None).await?;
    audit::insert(&mut tx, entry).await?;
    notices::tell_account(&mut tx, customer, creator_id).await?;
    tx.commit().await?;
    Ok(Some(shifts))
}

/// Changes the state of an account that still has this version; gives the new version. Nothing when the
/// account is gone or changed meanwhile: read it again and decide anew.
pub async fn set_state(
    store: &Store,
    customer: CustomerId,
    creator_id: &CreatorId,
    version: i64,
    state: AccountState,
) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "
        update accounts set state = $4, version = version + 1
        where customer_id = $1 and creator_id = $2 and version = $3
        returning version";
    let values = [customer.into(), creator_id.into(), version.into(), state.as_str().into()];
    let mut tx = store.write().await?;
    let row = tx.row(SQL, &values).await?;
    let changed = row.map(|row| row.int(0)).transpose()?;
    notices::tell_account(&mut tx, customer, creator_id).await?;
    tx.commit().await?;
    Ok(changed)
}

/// Replaces the credentials of an account that still has this version (a refreshed token, or sealed with
/// another data key); gives the new version. Nothing when it changed meanwhile.
pub async fn replace_credentials(
    store: &Store,
    customer: CustomerId,
    creator_id: &CreatorId,
    version: i64,
    credentials: &Credentials,
) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "
        update accounts set credentials = $4, data_key_id = $5, scopes = $6, token_expires_at = $7,
               refresh_claimed_until = null, version = version + 1
        where customer_id = $1 and creator_id = $2 and version = $3
        returning version";
    let scopes = credentials.scopes.as_ref().map(|scopes| scopes.join(" "));
    let mut tx = store.write().await?;
    let row = tx
        .row(
            SQL,
            &[
                customer.into(),
                creator_id.into(),
                version.into(),
                credentials.sealed.as_slice().into(),
                credentials.data_key.into(),
                scopes.as_deref().into(),
                credentials.token_expires_at.into(),
            ],
        )
        .await?;
    let changed = row.map(|row| row.int(0)).transpose()?;
    notices::tell_account(&mut tx, customer, creator_id).await?;
    tx.commit().await?;
    Ok(changed)
}

/// Claims the refresh of a token for one node until `until`. False when another node has claimed it and its
/// time is not over, or the account changed meanwhile.
pub async fn claim_refresh(
    store: &Store,
    (customer, creator_id, version): (CustomerId, &CreatorId, i64),
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update accounts set refresh_claimed_until = $5
        where customer_id = $1 and creator_id = $2 and version = $3
          and (refresh_claimed_until is null or refresh_claimed_until <= $4)";
    let values = [customer.into(), creator_id.into(), version.into(), now.into(), until.into()];
    let mut tx = store.write().await?;
    let claimed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(claimed == 1)
}

/// How many accounts of this platform the customer has.
pub async fn count(
    store: &Store,
    customer: CustomerId,
    platform: Platform,
) -> Result<Count, StoreError> {
    count_in(&mut store.read().await?, customer, platform).await
}

/// The accounts of a platform that are in use, oldest first.
pub(crate) async fn in_use(
    tx: &mut Tx,
    customer: CustomerId,
    platform: Platform,
) -> Result<Vec<CreatorId>, StoreError> {
    const SQL: &str = "
        select creator_id from accounts
        where customer_id = $1 and platform = $2 and state <> 'inactive'
        order by connected_at, creator_id";
    let rows = tx.rows(SQL, &[customer.into(), platform.as_str().into()]).await?;
    rows.iter().map(|row| row.parse(0, "accounts")).collect()
}

/// How many accounts of this platform the customer has, under its lock where the number must stay.
pub(crate) async fn count_in(
    tx: &mut Tx,
    customer: CustomerId,
    platform: Platform,
) -> Result<Count, StoreError> {
    const SQL: &str = "
        select state, count(*) from accounts
        where customer_id = $1 and platform = $2 group by state";
    let mut count = Count { in_use: 0, inactive: 0 };
    for row in tx.rows(SQL, &[customer.into(), platform.as_str().into()]).await? {
        match row.parse::<AccountState>(0, "accounts")? {
            AccountState::Active | AccountState::ReconnectNeeded => count.in_use += row.int(1)?,
            AccountState::Inactive => count.inactive += row.int(1)?,
        }
    }
    Ok(count)
}

async fn upsert(
    tx: &mut Tx,
    new: &NewAccount,
    state: AccountState,
    version: i64,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into accounts
            (customer_id, creator_id, platform, platform_account_id, state, version, credentials,
             data_key_id, scopes, token_expires_at, connected_at, verified_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)
        on conflict (customer_id, creator_id) do update set
            platform_account_id = excluded.platform_account_id, state = excluded.state,
            version = excluded.version, credentials = excluded.credentials,
            data_key_id = excluded.data_key_id, scopes = excluded.scopes,
            token_expires_at = excluded.token_expires_at, refresh_claimed_until = null,
            verified_at = excluded.verified_at";
    let scopes = new.credentials.scopes.as_ref().map(|scopes| scopes.join(" "));
    tx.execute(
        SQL,
        &[
            new.customer.into(),
            (&new.creator_id).into(),
            new.platform.as_str().into(),
            new.platform_account_id.as_str().into(),
            state.as_str().into(),
            version.into(),
            new.credentials.sealed.as_slice().into(),
            new.credentials.data_key.into(),
            scopes.as_deref().into(),
            new.credentials.token_expires_at.into(),
            new.at.into(),
        ],
    )
    .await?;
    Ok(())
}

fn account(row: &Row) -> Result<Account, StoreError> {
    let scopes = row.optional_text(8)?;
    Ok(Account {
        customer: row.parse(0, "accounts")?,
        creator_id: row.parse(1, "accounts")?,
        platform: row.parse(2, "accounts")?,
        platform_account_id: row.text(3)?,
        state: row.parse(4, "accounts")?,
        version: row.int(5)?,
        credentials: Credentials {
            sealed: row.bytes(6)?,
            data_key: row.parse(7, "accounts")?,
            scopes: scopes.map(|text| text.split_whitespace().map(str::to_owned).collect()),
            token_expires_at: row.optional_time(9)?,
        },
        connected_at: row.time(10)?,
        verified_at: row.optional_time(11)?,
    })
}
