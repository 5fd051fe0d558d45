//! The cookies that platforms set for accounts, sealed. What they say is known above the store.
//!
//! The cookies of an account are a jar with an id. An account that is connected with another
//! identity gets another jar, so that a node that still has the old one can store nothing into it.

use domain::account::CreatorId;
use domain::id::{CustomerId, DataKeyId};
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError, notices};

/// The stored cookies of an account.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredCookies {
    /// The jar.
    pub jar: JarVersion,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// The data key that opens them.
    pub data_key: DataKeyId,
}

/// A jar, as of one of its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JarVersion {
    /// The id of the jar. Of an account that was connected without cookies it is the time at which
    /// it was connected.
    pub id: i64,
    /// Grows with every change; 0 before the first one.
    pub version: i64,
}

/// The cookies of an account that is being connected.
#[derive(Clone, PartialEq, Eq)]
pub struct NewCookies {
    /// The stored jar that these cookies include. None: they are a new one.
    pub continued: Option<JarVersion>,
    /// The id of a new jar.
    pub id: i64,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// The data key that opens them.
    pub data_key: DataKeyId,
}

/// Cookies that replace those of one version of a jar.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieUpdate {
    /// The customer who owns the account.
    pub customer: CustomerId,
    /// The account.
    pub creator: CreatorId,
    /// The jar with the version that they replace.
    pub jar: JarVersion,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// The data key that opens them.
    pub data_key: DataKeyId,
    /// Whether other nodes should read them now.
    pub is_news: bool,
}

impl std::fmt::Debug for StoredCookies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "StoredCookies({:?}, ..)", self.jar)
    }
}

impl std::fmt::Debug for NewCookies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "NewCookies({}, ..)", self.id)
    }
}

impl std::fmt::Debug for CookieUpdate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CookieUpdate({:?}, ..)", self.jar)
    }
}

/// The cookies of an account, if any were stored.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    creator: &CreatorId,
) -> Result<Option<StoredCookies>, StoreError> {
    const SQL: &str = "
        select jar_id, version, sealed, data_key_id from account_cookies
        where customer_id = $1 and creator_id = $2";
    let row = store.read().await?.row(SQL, &[customer.into(), creator.into()]).await?;
    row.map(|row| {
        Ok(StoredCookies {
            jar: JarVersion { id: row.int("jar_id")?, version: row.int("version")? },
            sealed: row.bytes("sealed")?,
            data_key: row.parse("data_key_id", "account_cookies")?,
        })
    })
    .transpose()
}

/// Stores cookies of several accounts, each in the place of the version that it replaces. Returns
/// for each whether it was stored; if not, the jar was changed meanwhile, or there is no such jar
/// any more.
pub async fn update_all(
    store: &Store,
    updates: &[CookieUpdate],
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let mut tx = store.write().await?;
    let mut stored = Vec::with_capacity(updates.len());
    for update in updates {
        let is_stored = match update.jar.version {
            0 => insert(&mut tx, update, now).await?,
            _ => replace(&mut tx, update, now).await?,
        };
        if is_stored && update.is_news {
            notices::tell_account(&mut tx, update.customer, &update.creator).await?;
        }
        stored.push(is_stored);
    }
    tx.commit().await?;
    Ok(stored)
}

async fn insert(tx: &mut Tx, update: &CookieUpdate, now: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into account_cookies
            (customer_id, creator_id, jar_id, version, sealed, data_key_id, stored_at)
        select customer_id, creator_id, connected_at, 1, $4, $5, $6 from accounts
        where customer_id = $1 and creator_id = $2 and connected_at = $3
        on conflict (customer_id, creator_id) do nothing";
    let values = [
        update.customer.into(),
        (&update.creator).into(),
        update.jar.id.into(),
        update.sealed.as_slice().into(),
        update.data_key.into(),
        now.into(),
    ];
    Ok(tx.execute(SQL, &values).await? == 1)
}

async fn replace(tx: &mut Tx, update: &CookieUpdate, now: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "
        update account_cookies
        set sealed = $5, data_key_id = $6, stored_at = $7, version = version + 1
        where customer_id = $1 and creator_id = $2 and jar_id = $3 and version = $4";
    let values = [
        update.customer.into(),
        (&update.creator).into(),
        update.jar.id.into(),
        update.jar.version.into(),
        update.sealed.as_slice().into(),
        update.data_key.into(),
        now.into(),
    ];
    Ok(tx.execute(SQL, &values).await? == 1)
}

/// Stores the cookies of an account that is being connected, in place of all that are there. False
/// if they continue a jar that was changed meanwhile: nothing may be committed then.
pub(crate) async fn connect(
    tx: &mut Tx,
    customer: CustomerId,
    creator: &CreatorId,
    new: Option<&NewCookies>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    const DELETE: &str = "delete from account_cookies where customer_id = $1 and creator_id = $2";
    const INSERT: &str = "
        insert into account_cookies
            (customer_id, creator_id, jar_id, version, sealed, data_key_id, stored_at)
        values ($1, $2, $3, 1, $4, $5, $6)";
    let place = [customer.into(), creator.into()];
    if let Some(NewCookies { continued: Some(jar), sealed, data_key, .. }) = new {
        let update = CookieUpdate {
            customer,
            creator: creator.clone(),
            jar: *jar,
            sealed: sealed.clone(),
            data_key: *data_key,
            is_news: false,
        };
        return replace(tx, &update, now).await;
    }
    tx.execute(DELETE, &place).await?;
    if let Some(NewCookies { id, sealed, data_key, .. }) = new {
        let values = [
            customer.into(),
            creator.into(),
            (*id).into(),
            sealed.as_slice().into(),
            (*data_key).into(),
            now.into(),
        ];
        tx.execute(INSERT, &values).await?;
    }
    Ok(true)
}
