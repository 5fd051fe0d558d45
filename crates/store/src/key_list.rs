//! A customer's keys with their use, for display.

use std::collections::HashMap;

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::{CustomerId, KeyId};
use domain::time::{Timestamp, UtcDay};
use sqlx::AssertSqlSafe;

use crate::keys::{self, ApiKey};
use crate::tx::Tx;
use crate::{DatabaseKind, Store, StoreError};

/// How many revoked keys are listed: the newest.
const REVOKED_MAX: i64 = 100;

/// A key with its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// The key.
    pub key: ApiKey,
    /// What this UTC month's calls have spent or hold.
    pub used: Credits,
    /// When it was last used, as far as recorded.
    pub last_used_at: Option<Timestamp>,
    /// Until when the previous secret is accepted; may be in the past.
    pub old_secret_valid_until: Option<Timestamp>,
}

/// A customer's keys, oldest first: the active ones, and the newest hundred revoked ones. Use is
/// counted in the month of `today`.
pub async fn list(
    store: &Store,
    customer: CustomerId,
    today: UtcDay,
) -> Result<Vec<ListedKey>, StoreError> {
    let mut tx = store.snapshot().await?;
    listed_in(&mut tx, customer, None, today).await
}

/// One key of the customer, revoked or not.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    key: KeyId,
    today: UtcDay,
) -> Result<Option<ListedKey>, StoreError> {
    let mut tx = store.snapshot().await?;
    Ok(listed_in(&mut tx, customer, Some(key), today).await?.pop())
}

async fn listed_in(
    tx: &mut Tx,
    customer: CustomerId,
    only: Option<KeyId>,
    today: UtcDay,
) -> Result<Vec<ListedKey>, StoreError> {
    const SQL: &str = "
        select id, customer_id, name, shown_prefix, shown_suffix, scope, created_at, rotated_at,
               expires_at, revoked_at, monthly_budget, version, last_used_at,
               (select max(valid_until) from key_secrets where key_id = keys.id) as old_secret_valid_until
        from keys
        where customer_id = $1 and (id = $3 or cast($3 as text) is null and (revoked_at is null or id in (
            select id from keys where customer_id = $1 and revoked_at is not null
            order by revoked_at desc, id desc limit $2)))
        order by created_at, id";
    let only = only.map(|key| key.to_string());
    let rows = tx.rows(SQL, &[customer.into(), REVOKED_MAX.into(), only.as_deref().into()]).await?;
    let mut accounts = accounts_of_all(tx, customer).await?;
    let used = used_by_all(tx, customer, today).await?;
    let last_calls = last_calls(tx, customer, only.as_deref()).await?;
    rows.iter()
        .map(|row| {
            let key = keys::key(row)?;
            let accounts = accounts.remove(&key.id).unwrap_or_default();
            Ok(ListedKey {
                used: Credits::from_whole(used.get(&key.id).copied().unwrap_or(0)),
                last_used_at: row
                    .optional_time("last_used_at")?
                    .max(last_calls.get(&key.id).copied()),
                old_secret_valid_until: row.optional_time("old_secret_valid_until")?,
                key: ApiKey { accounts, ..key },
            })
        })
        .collect()
}

async fn accounts_of_all(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<HashMap<KeyId, Vec<CreatorId>>, StoreError> {
    const SQL: &str = "
        select key_id, creator_id from key_accounts
        where key_id in (select id from keys where customer_id = $1)
        order by key_id, creator_id";
    let mut accounts: HashMap<KeyId, Vec<CreatorId>> = HashMap::new();
    for row in &tx.rows(SQL, &[customer.into()]).await? {
        let key = row.parse("key_id", "key_accounts")?;
        accounts.entry(key).or_default().push(row.parse("creator_id", "key_accounts")?);
    }
    Ok(accounts)
}

/// When the last call of each key ended that is counted as usage. Only the last day of a key is
/// read, because the counts of all days are many; SQLite keeps the order of a `cross join`.
async fn last_calls(
    tx: &mut Tx,
    customer: CustomerId,
    only: Option<&str>,
) -> Result<HashMap<KeyId, Timestamp>, StoreError> {
    const COUNTED: &str = "
        select r.key_id, max(r.last_at) as at
        from (
            select key_id, max(day) as day from usage_daily
            where customer_id = $1 and (cast($2 as text) is null or key_id = $2) group by key_id
        ) as last
        cross join usage_routes r
        where r.customer_id = $1 and r.key_id = last.key_id and r.day = last.day
        group by r.key_id";
    const NEW: &str = "
        select key.word, max(n.held_at) from new_calls n join words key on key.number = n.key
        where n.customer = (select number from words where word = $1) group by key.word";
    let sql = match tx.database() {
        DatabaseKind::Sqlite => format!("{COUNTED} union all {NEW}"),
        DatabaseKind::Postgres => COUNTED.to_owned(),
    };
    let mut last: HashMap<KeyId, Timestamp> = HashMap::new();
    for row in &tx.rows(AssertSqlSafe(sql), &[customer.into(), only.into()]).await? {
        let (key, at) = (row.parse("key_id", "usage_routes")?, row.time("at")?);
        last.entry(key).and_modify(|known| *known = at.max(*known)).or_insert(at);
    }
    Ok(last)
}

/// What each key's calls and exports have spent and hold in the UTC month of `today`.
async fn used_by_all(
    tx: &mut Tx,
    customer: CustomerId,
    today: UtcDay,
) -> Result<HashMap<KeyId, i64>, StoreError> {
    // As in `used_in`, all open calls are looked at.
    const SQL: &str = "
        select key_id, cast(sum(credits) as bigint) as credits from (
            select key_id, credits from usage_by_day
            where customer_id = $1 and day >= $2 and day < $3
            union all
            select key.word, o.cost from open_calls o join words key on key.number = o.key
            where o.customer = (select number from words where word = $1)
                and o.held_at >= $4 and o.held_at < $5
            union all
            select key_id, cost from export_jobs
            where customer_id = $1 and credit_state <> 'refunded' and created_at >= $4 and created_at < $5
        ) as uses group by key_id";
    let (first, next) = (today.month_start(), today.next_month_start());
    let values =
        [customer.into(), first.into(), next.into(), first.start().into(), next.start().into()];
    let rows = tx.rows(SQL, &values).await?;
    rows.iter().map(|row| Ok((row.parse("key_id", "usage_by_day")?, row.int("credits")?))).collect()
}
