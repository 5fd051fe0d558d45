//! Keys: what a program signs its calls with. Only hashes of secrets are stored.

use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::key::{KeyHash, KeyScope};
use domain::time::Timestamp;

use crate::sql::{Row, Value, hex};
use crate::tx::Tx;
use crate::{Store, StoreError, notices};

/// A key as stored; its secret is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its id, the same through all rotations.
    pub id: KeyId,
    /// Whose it is.
    pub customer: CustomerId,
    /// What the customer calls it.
    pub name: String,
    /// The first characters of the secret.
    pub shown_prefix: String,
    /// The last characters of the secret.
    pub shown_suffix: String,
    /// What it may do.
    pub scope: KeyScope,
    /// The accounts it is limited to; empty means all.
    pub accounts: Vec<CreatorId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its secret was last replaced.
    pub rotated_at: Option<Timestamp>,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked for good.
    pub revoked_at: Option<Timestamp>,
}

/// A key to be stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its id.
    pub id: KeyId,
    /// What the customer calls it.
    pub name: String,
    /// The hash of its secret, and what may be shown of it.
    pub secret: NewSecret,
    /// What it may do.
    pub scope: KeyScope,
    /// The accounts it is limited to; empty means all.
    pub accounts: Vec<CreatorId>,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

/// What is stored of a secret.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// SHA-256 of the whole text.
    pub hash: KeyHash,
    /// The first characters.
    pub shown_prefix: String,
    /// The last characters.
    pub shown_suffix: String,
}

impl NewSecret {
    /// From a fresh secret.
    pub fn of(secret: &domain::key::KeySecret) -> Self {
        Self {
            hash: secret.hash(),
            shown_prefix: secret.shown_prefix().to_owned(),
            shown_suffix: secret.shown_suffix().to_owned(),
        }
    }
}

/// What a secret opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// The key that the secret belongs to.
    pub key: Key,
    /// Until when this secret is taken; only for one that was rotated away with a time of grace.
    pub secret_valid_until: Option<Timestamp>,
    /// When its customer was closed.
    pub customer_disabled_at: Option<Timestamp>,
    /// When its customer's address was confirmed.
    pub email_verified_at: Option<Timestamp>,
}

impl Presented {
    /// Whether it opens anything at `now`. The instant of an end is no longer part of the time before it.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        let before = |end: Option<Timestamp>| end.is_none_or(|end| now < end);
        self.key.revoked_at.is_none()
            && self.customer_disabled_at.is_none()
            && before(self.key.expires_at)
            && before(self.secret_valid_until)
    }
}

/// The replacement of a key's secret.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The key.
    pub key: KeyId,
    /// Whose it must be.
    pub customer: CustomerId,
    /// The new secret.
    pub secret: NewSecret,
    /// Another scope; nothing keeps the one it has.
    pub scope: Option<KeyScope>,
    /// Now.
    pub at: Timestamp,
    /// Until when the old secret is still taken; nothing ends it with the commit.
    pub old_valid_until: Option<Timestamp>,
}

/// Stores another key of a customer.
pub async fn create(
    store: &Store,
    customer: CustomerId,
    new: &NewKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    insert(&mut tx, customer, new, now).await?;
    tx.commit().await
}

/// A customer's keys, revoked ones too, oldest first.
pub async fn list(store: &Store, customer: CustomerId) -> Result<Vec<Key>, StoreError> {
    const SQL: &str = "
        select id, customer_id, name, shown_prefix, shown_suffix, scope, created_at, rotated_at,
               expires_at, revoked_at
        from keys where customer_id = $1 order by created_at, id";
    const ACCOUNTS: &str = "
        select key_id, creator_id from key_accounts
        where key_id in (select id from keys where customer_id = $1)
        order by key_id, creator_id";
    let mut tx = store.read().await?;
    let rows = tx.rows(SQL, &[customer.into()]).await?;
    let accounts = tx.rows(ACCOUNTS, &[customer.into()]).await?;
    let mut keys = rows.iter().map(key).collect::<Result<Vec<Key>, StoreError>>()?;
    for row in &accounts {
        let id: KeyId = row.parse(0, "key_accounts")?;
        if let Some(key) = keys.iter_mut().find(|key| key.id == id) {
            key.accounts.push(row.parse(1, "key_accounts")?);
        }
    }
    Ok(keys)
}

/// One key of a customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    id: KeyId,
) -> Result<Option<Key>, StoreError> {
    find_in(&mut store.read().await?, customer, id).await
}

/// The key with this id, whoever owns it: for staff.
pub async fn find_by_id(store: &Store, id: KeyId) -> Result<Option<Key>, StoreError> {
    const SQL: &str = "select customer_id from keys where id = $1";
    let mut tx = store.read().await?;
    let Some(row) = tx.row(SQL, &[id.into()]).await? else { return Ok(None) };
    find_in(&mut tx, row.parse(0, "keys")?, id).await
}

/// What a secret opens; `Presented::is_usable` says whether it still does.
pub async fn find_by_hash(store: &Store, hash: &KeyHash) -> Result<Option<Presented>, StoreError> {
    const SQL: &str = "
        select k.id, k.customer_id, k.name, k.shown_prefix, k.shown_suffix, k.scope, k.created_at,
               k.rotated_at, k.expires_at, k.revoked_at, s.valid_until, c.disabled_at,
               c.email_verified_at
        from key_secrets s
        join keys k on k.id = s.key_id
        join customers c on c.id = k.customer_id
        where s.hash = $1";
    let mut tx = store.read().await?;
    let Some(row) = tx.row(SQL, &[hex(hash.as_bytes()).into()]).await? else {
        return Ok(None);
    };
    let mut key = key(&row)?;
    key.accounts = accounts_of(&mut tx, key.id).await?;
    Ok(Some(Presented {
        key,
        secret_valid_until: row.optional_time(10)?,
        customer_disabled_at: row.optional_time(11)?,
        email_verified_at: row.optional_time(12)?,
    }))
}

/// Replaces the secret of a key that is not revoked. Without a time of grace no older secret opens
/// anything once this returns. Nothing when the customer has no such key.
pub async fn rotate(store: &Store, rotation: &Rotation) -> Result<Option<Key>, StoreError> {
    const KEY: &str = "
        update keys set shown_prefix = $3, shown_suffix = $4, rotated_at = $5,
               scope = coalesce(cast($6 as text), scope)
        where id = $1 and customer_id = $2 and revoked_at is null";
    const END_OLD: &str = "delete from key_secrets where key_id = $1";
    const KEEP_CURRENT: &str = "
        update key_secrets set valid_until = $2 where key_id = $1 and valid_until is null";
    const END_OLDER: &str = "delete from key_secrets where key_id = $1 and valid_until is not null";
    let mut tx = store.write().await?;
    let values: [Value<'_>; 6] = [
        rotation.key.into(),
        rotation.customer.into(),
        rotation.secret.shown_prefix.as_str().into(),
        rotation.secret.shown_suffix.as_str().into(),
        rotation.at.into(),
        rotation.scope.map(KeyScope::as_str).into(),
    ];
    if tx.execute(KEY, &values).await? == 0 {
        return Ok(None);
    }
    match rotation.old_valid_until {
        None => tx.execute(END_OLD, &[rotation.key.into()]).await?,
        Some(until) => {
            tx.execute(END_OLDER, &[rotation.key.into()]).await?;
            tx.execute(KEEP_CURRENT, &[rotation.key.into(), until.into()]).await?
        }
    };
    insert_secret(&mut tx, rotation.key, &rotation.secret).await?;
    let rotated = find_in(&mut tx, rotation.customer, rotation.key).await?;
    notices::tell_keys(&mut tx).await?;
    tx.commit().await?;
    Ok(rotated)
}

/// Ends a key for good, all its secrets with it. False when the customer has no such key, or it is
/// revoked already.
pub async fn revoke(
    store: &Store,
    customer: CustomerId,
    key: KeyId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    const KEY: &str = "
        update keys set revoked_at = $3
        where id = $1 and customer_id = $2 and revoked_at is null";
    const SECRETS: &str = "delete from key_secrets where key_id = $1";
    let mut tx = store.write().await?;
    if tx.execute(KEY, &[key.into(), customer.into(), now.into()]).await? == 0 {
        return Ok(false);
    }
    tx.execute(SECRETS, &[key.into()]).await?;
    notices::tell_keys(&mut tx).await?;
    tx.commit().await?;
    Ok(true)
}

/// Lets a key that is limited to some accounts use one more. Does nothing to a key without a limit.
pub async fn allow_account(
    store: &Store,
    key: KeyId,
    creator_id: &CreatorId,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into key_accounts (key_id, creator_id)
        select $1, $2 where exists (select 1 from key_accounts where key_id = $1)
        on conflict (key_id, creator_id) do nothing";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[key.into(), creator_id.into()]).await?;
    notices::tell_keys(&mut tx).await?;
    tx.commit().await
}

pub(crate) async fn insert(
    tx: &mut Tx,
    customer: CustomerId,
    new: &NewKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    const KEY: &str = "
        insert into keys (id, customer_id, name, shown_prefix, shown_suffix, scope, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8)";
    const ACCOUNT: &str = "insert into key_accounts (key_id, creator_id) values ($1, $2)";
    tx.execute(
        KEY,
        &[
            new.id.into(),
            customer.into(),
            new.name.as_str().into(),
            new.secret.shown_prefix.as_str().into(),
            new.secret.shown_suffix.as_str().into(),
            new.scope.as_str().into(),
            now.into(),
            new.expires_at.into(),
        ],
    )
    .await?;
    for creator_id in &new.accounts {
        tx.execute(ACCOUNT, &[new.id.into(), creator_id.into()]).await?;
    }
    insert_secret(tx, new.id, &new.secret).await
}

async fn insert_secret(tx: &mut Tx, key: KeyId, secret: &NewSecret) -> Result<(), StoreError> {
    const SQL: &str = "insert into key_secrets (hash, key_id) values ($1, $2)";
    tx.execute(SQL, &[hex(secret.hash.as_bytes()).into(), key.into()]).await?;
    Ok(())
}

async fn find_in(tx: &mut Tx, customer: CustomerId, id: KeyId) -> Result<Option<Key>, StoreError> {
    const SQL: &str = "
        select id, customer_id, name, shown_prefix, shown_suffix, scope, created_at, rotated_at,
               expires_at, revoked_at
        from keys where id = $1 and customer_id = $2";
    let Some(row) = tx.row(SQL, &[id.into(), customer.into()]).await? else {
        return Ok(None);
    };
    let accounts = accounts_of(tx, id).await?;
    Ok(Some(Key { accounts, ..key(&row)? }))
}

async fn accounts_of(tx: &mut Tx, key: KeyId) -> Result<Vec<CreatorId>, StoreError> {
    const SQL: &str = "select creator_id from key_accounts where key_id = $1 order by creator_id";
    let rows = tx.rows(SQL, &[key.into()]).await?;
    rows.iter().map(|row| row.parse(0, "key_accounts")).collect()
}

fn key(row: &Row) -> Result<Key, StoreError> {
    Ok(Key {
        id: row.parse(0, "keys")?,
        customer: row.parse(1, "keys")?,
        name: row.text(2)?,
        shown_prefix: row.text(3)?,
        shown_suffix: row.text(4)?,
        scope: row.parse(5, "keys")?,
        accounts: Vec::new(),
        created_at: row.time(6)?,
        rotated_at: row.optional_time(7)?,
        expires_at: row.optional_time(8)?,
        revoked_at: row.optional_time(9)?,
    })
}
