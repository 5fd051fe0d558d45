//! Data keys, which seal customers' credentials and are wrapped by a master key. Sealing and
//! opening happen above the store, which never sees an unwrapped key.

use domain::id::{CustomerId, DataKeyId};
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::sql::{SqlRow, SqlValue};
use crate::{Store, StoreError};

/// A wrapped data key.
#[derive(Clone, PartialEq, Eq)]
pub struct DataKey {
    /// Its id, recorded with everything it seals.
    pub id: DataKeyId,
    /// The customer whose credentials it seals.
    pub customer: CustomerId,
    /// The key, wrapped by the master key.
    pub wrapped: Vec<u8>,
    /// The id of the master key that wraps it.
    pub master_key: String,
    /// When it was created.
    pub created_at: Timestamp,
}

impl std::fmt::Debug for DataKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "DataKey({} under {})", self.id, self.master_key)
    }
}

/// The customer's current key; none before the first account is connected.
pub async fn current(store: &Store, customer: CustomerId) -> Result<Option<DataKey>, StoreError> {
    find_where(store, "customer_id = $1 and retired_at is null", customer.into()).await
}

/// The key with this id, current or retired.
pub async fn find(store: &Store, id: DataKeyId) -> Result<Option<DataKey>, StoreError> {
    find_where(store, "id = $1", id.into()).await
}

/// Stores `new` unless the customer has a current key. Returns the current one.
pub async fn create_first(store: &Store, new: &DataKey) -> Result<DataKey, StoreError> {
    const INSERT: &str = "
        insert into data_keys (id, customer_id, wrapped, master_key_id, created_at)
        values ($1, $2, $3, $4, $5)
        on conflict (customer_id) where retired_at is null do nothing";
    let mut tx = store.write().await?;
    tx.execute(
        INSERT,
        &[
            new.id.into(),
            new.customer.into(),
            new.wrapped.as_slice().into(),
            new.master_key.as_str().into(),
            new.created_at.into(),
        ],
    )
    .await?;
    tx.commit().await?;
    let stored = current(store, new.customer).await?;
    stored.ok_or_else(|| StoreError::corrupt("data_keys", new.id))
}

/// Keys wrapped by a master key other than `master_key`, at most `limit`.
pub async fn list_under_others(
    store: &Store,
    master_key: &str,
    limit: i64,
) -> Result<Vec<DataKey>, StoreError> {
    let sql = select("master_key_id <> $1 order by id limit $2");
    let rows = store.read().await?.rows(sql, &[master_key.into(), limit.into()]).await?;
    rows.iter().map(data_key).collect()
}

/// How many keys a master key wraps. It must not be removed before this is zero.
pub async fn count_under(store: &Store, master_key: &str) -> Result<i64, StoreError> {
    const SQL: &str = "select count(*) as data_keys from data_keys where master_key_id = $1";
    let row = store.read().await?.row(SQL, &[master_key.into()]).await?;
    row.map_or(Ok(0), |row| row.int("data_keys"))
}

/// A master key in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKeyUse {
    /// The master key.
    pub master_key: String,
    /// The number of data keys that it wraps.
    pub data_keys: i64,
}

/// The master keys in use.
pub async fn count_by_master_key(store: &Store) -> Result<Vec<MasterKeyUse>, StoreError> {
    const SQL: &str = "
        select master_key_id, count(*) as data_keys
        from data_keys group by master_key_id order by master_key_id";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(MasterKeyUse {
                master_key: row.text("master_key_id")?,
                data_keys: row.int("data_keys")?,
            })
        })
        .collect()
}

/// Whether a master key has sealed anything here.
pub async fn are_sealed(store: &Store) -> Result<bool, StoreError> {
    const SQL: &str = "
        select 1 from data_keys union all select 1 from master_key_canaries limit 1";
    Ok(store.read().await?.row(SQL, &[]).await?.is_some())
}

/// Replaces the wrapping of a key that is still wrapped by `from_master_key`. False if it is not.
pub async fn rewrap(
    store: &Store,
    from_master_key: &str,
    rewrapped: &DataKey,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update data_keys set wrapped = $3, master_key_id = $4 where id = $1 and master_key_id = $2";
    let values = [
        rewrapped.id.into(),
        from_master_key.into(),
        rewrapped.wrapped.as_slice().into(),
        rewrapped.master_key.as_str().into(),
    ];
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// The canary of a master key; none if the key was never used here.
pub async fn canary(store: &Store, master_key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    const SQL: &str = "select sealed from master_key_canaries where master_key_id = $1";
    let row = store.read().await?.row(SQL, &[master_key.into()]).await?;
    row.map(|row| row.bytes("sealed")).transpose()
}

/// Stores the canary of a master key. False if there is one already, which stays.
pub async fn create_canary(
    store: &Store,
    master_key: &str,
    sealed: &[u8],
    now: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into master_key_canaries (master_key_id, sealed, created_at) values ($1, $2, $3)
        on conflict (master_key_id) do nothing";
    let mut tx = store.write().await?;
    let inserted = tx.execute(SQL, &[master_key.into(), sealed.into(), now.into()]).await?;
    tx.commit().await?;
    Ok(inserted == 1)
}

async fn find_where(
    store: &Store,
    condition: &str,
    value: SqlValue<'_>,
) -> Result<Option<DataKey>, StoreError> {
    let sql = select(condition);
    let row = store.read().await?.row(sql, &[value]).await?;
    row.as_ref().map(data_key).transpose()
}

fn select(condition: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "select id, customer_id, wrapped, master_key_id, created_at from data_keys where {condition}"
    ))
}

fn data_key(row: &SqlRow) -> Result<DataKey, StoreError> {
    Ok(DataKey {
        id: row.parse("id", "data_keys")?,
        customer: row.parse("customer_id", "data_keys")?,
        wrapped: row.bytes("wrapped")?,
        master_key: row.text("master_key_id")?,
        created_at: row.time("created_at")?,
    })
}
