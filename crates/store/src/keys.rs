//! API keys, with which programs authenticate. Only hashes of secrets are stored.

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::{CustomerId, KeyId};
use domain::key::{KeyHash, KeyScope};
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::sql::{SqlRow, SqlValue, hex, unhex};
use crate::tx::Tx;
use crate::{Store, StoreError, customers, notices};

/// A key as stored, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id, which rotations keep.
    pub id: KeyId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The name the customer gave it.
    pub name: String,
    /// The first characters of the secret.
    pub shown_prefix: String,
    /// The last characters of the secret.
    pub shown_suffix: String,
    /// Full or read-only.
    pub scope: KeyScope,
    /// The accounts it is limited to; empty means all.
    pub accounts: Vec<CreatorId>,
    /// Its budget for a UTC month; none means no limit but the customer's balance.
    pub monthly_budget: Option<Credits>,
    /// Incremented with every change of what it may do.
    pub version: i64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its secret was last replaced.
    pub rotated_at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A key to be stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its id.
    pub id: KeyId,
    /// The name the customer gave it.
    pub name: String,
    /// The hash of its secret, and the parts that may be shown.
    pub secret: NewSecret,
    /// Full or read-only.
    pub scope: KeyScope,
    /// The accounts it is limited to; empty means all.
    pub accounts: Vec<CreatorId>,
    /// Its budget for a UTC month; none means no limit but the customer's balance.
    pub monthly_budget: Option<Credits>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// The stored parts of a secret.
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
    /// Takes what is stored from a new secret.
    pub fn of(secret: &domain::key::KeySecret) -> Self {
        Self {
            hash: secret.hash(),
            shown_prefix: secret.shown_prefix().to_owned(),
            shown_suffix: secret.shown_suffix().to_owned(),
        }
    }
}

/// The key that a presented secret belongs to, and what decides whether it is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedKey {
    /// The key that the secret belongs to.
    pub key: ApiKey,
    /// Until when this secret is accepted; only for one that was rotated away with a grace period.
    pub secret_valid_until: Option<Timestamp>,
    /// When its customer was closed.
    pub customer_disabled_at: Option<Timestamp>,
    /// When its customer's address was confirmed.
    pub email_verified_at: Option<Timestamp>,
    /// When it was last used for anything but a native call, as far as recorded.
    pub last_used_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it has limits besides its scope: accounts, a budget or an expiry.
    pub fn is_limited(&self) -> bool {
        !self.accounts.is_empty() || self.monthly_budget.is_some() || self.expires_at.is_some()
    }
}

impl PresentedKey {
    /// When this secret stops being accepted: the earlier of its own end and its key's.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.key.expires_at.into_iter().chain(self.secret_valid_until).min()
    }

    /// Whether it is accepted at `now`. It is no longer accepted at the instant of its end.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.is_open(now) && self.customer_disabled_at.is_none()
    }

    /// The customer, if the key is refused only because its customer is closed or suspended.
    pub fn closed_customer(&self, now: Timestamp) -> Option<CustomerId> {
        (self.is_open(now) && self.customer_disabled_at.is_some()).then_some(self.key.customer)
    }

    fn is_open(&self, now: Timestamp) -> bool {
        self.key.revoked_at.is_none() && self.ends_at().is_none_or(|end| now < end)
    }
}

/// A rotation: the replacement of a key's secret.
#[derive(Debug, Clone)]
pub struct KeyRotation {
    /// The key.
    pub key: KeyId,
    /// The customer who must own it.
    pub customer: CustomerId,
    /// The new secret.
    pub secret: NewSecret,
    /// A new scope; none keeps the current one.
    pub scope: Option<KeyScope>,
    /// The current time.
    pub at: Timestamp,
    /// Until when the old secret is still accepted; none ends it with the commit.
    pub old_valid_until: Option<Timestamp>,
}

/// The outcome of creating a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCreation {
    /// The key exists.
    Created,
    /// The customer has the maximum number of keys.
    TooMany,
    /// The customer has no account with this id, to which the key was to be limited.
    NoAccount(CreatorId),
}

/// Creates a key for a customer with fewer than `keys_max` keys, not counting revoked ones.
pub async fn create(
    store: &Store,
    customer: CustomerId,
    new: &NewKey,
    keys_max: i64,
    entry: &AuditEntry,
) -> Result<KeyCreation, StoreError> {
    const COUNT: &str =
        "select count(*) as active_keys from keys where customer_id = $1 and revoked_at is null";
    let mut tx = store.write().await?;
    customers::lock(&mut tx, customer).await?;
    let row = tx.row(COUNT, &[customer.into()]).await?;
    if row.map_or(Ok(0), |row| row.int("active_keys"))? >= keys_max {
        return Ok(KeyCreation::TooMany);
    }
    if let Some(missing) = missing_account(&mut tx, customer, &new.accounts).await? {
        return Ok(KeyCreation::NoAccount(missing));
    }
    insert(&mut tx, customer, new, entry.at).await?;
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(KeyCreation::Created)
}

/// One key of a customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    id: KeyId,
) -> Result<Option<ApiKey>, StoreError> {
    find_in(&mut store.read().await?, customer, id).await
}

/// The key with this id, of any customer: for staff.
pub async fn find_by_id(store: &Store, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
    const SQL: &str = "select customer_id from keys where id = $1";
    let mut tx = store.read().await?;
    let Some(row) = tx.row(SQL, &[id.into()]).await? else { return Ok(None) };
    find_in(&mut tx, row.parse("customer_id", "keys")?, id).await
}

/// The hash of a key's current secret, for requests that a page sends with the key. None if the
/// customer has no such key.
pub async fn current_hash(
    store: &Store,
    customer: CustomerId,
    id: KeyId,
) -> Result<Option<KeyHash>, StoreError> {
    const SQL: &str = "
        select s.hash
        from key_secrets s
        join keys k on k.id = s.key_id
        where k.id = $1 and k.customer_id = $2 and s.valid_until is null";
    let row = store.read().await?.row(SQL, &[id.into(), customer.into()]).await?;
    let Some(row) = row else { return Ok(None) };
    let bytes = unhex(&row.text("hash")?);
    Ok(bytes.and_then(|bytes| KeyHash::from_bytes(&bytes)))
}

/// The key that a secret belongs to. `PresentedKey::is_usable` says whether it is accepted.
pub async fn find_by_hash(
    store: &Store,
    hash: &KeyHash,
) -> Result<Option<PresentedKey>, StoreError> {
    const SQL: &str = "
        select k.id, k.customer_id, k.name, k.shown_prefix, k.shown_suffix, k.scope, k.created_at,
               k.rotated_at, k.expires_at, k.revoked_at, k.monthly_budget, k.version,
               s.valid_until, c.disabled_at, c.email_verified_at, k.last_used_at
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
    Ok(Some(PresentedKey {
        key,
        secret_valid_until: row.optional_time("valid_until")?,
        customer_disabled_at: row.optional_time("disabled_at")?,
        email_verified_at: row.optional_time("email_verified_at")?,
        last_used_at: row.optional_time("last_used_at")?,
    }))
}

const DELETE_SECRETS: &str = "delete from key_secrets where key_id = $1";

/// Replaces the secret of a key that is not revoked. Without a grace period, no older secret is
/// accepted once this returns. None if the customer has no such key.
pub async fn rotate(
    store: &Store,
    rotation: &KeyRotation,
    entry: &AuditEntry,
) -> Result<Option<ApiKey>, StoreError> {
    const KEY: &str = "
        update keys set shown_prefix = $3, shown_suffix = $4, rotated_at = $5,
               scope = coalesce(cast($6 as text), scope), version = version + 1
        where id = $1 and customer_id = $2 and revoked_at is null";
    const KEEP_CURRENT: &str = "
        update key_secrets set valid_until = $2 where key_id = $1 and valid_until is null";
    const END_OLDER: &str = "delete from key_secrets where key_id = $1 and valid_until is not null";
    let mut tx = store.write().await?;
    let values: [SqlValue<'_>; 6] = [
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
        None => tx.execute(DELETE_SECRETS, &[rotation.key.into()]).await?,
        Some(until) => {
            tx.execute(END_OLDER, &[rotation.key.into()]).await?;
            tx.execute(KEEP_CURRENT, &[rotation.key.into(), until.into()]).await?
        }
    };
    insert_secret(&mut tx, rotation.key, &rotation.secret).await?;
    let rotated = find_in(&mut tx, rotation.customer, rotation.key).await?;
    audit::insert(&mut tx, entry).await?;
    notices::tell_keys(&mut tx, rotation.customer).await?;
    tx.commit().await?;
    Ok(rotated)
}

/// Revokes a key permanently, with all its secrets. False if the customer has no such key, or it is
/// already revoked.
pub async fn revoke(
    store: &Store,
    customer: CustomerId,
    key: KeyId,
    entry: &AuditEntry,
) -> Result<bool, StoreError> {
    const KEY: &str = "
        update keys set revoked_at = $3
        where id = $1 and customer_id = $2 and revoked_at is null";
    let mut tx = store.write().await?;
    if tx.execute(KEY, &[key.into(), customer.into(), entry.at.into()]).await? == 0 {
        return Ok(false);
    }
    tx.execute(DELETE_SECRETS, &[key.into()]).await?;
    audit::insert(&mut tx, entry).await?;
    notices::tell_keys(&mut tx, customer).await?;
    tx.commit().await?;
    Ok(true)
}

/// Records when a key was used for anything but a native call. An older time than the recorded one
/// changes nothing.
pub async fn touch(store: &Store, key: KeyId, used_at: Timestamp) -> Result<(), StoreError> {
    const SQL: &str = "
        update keys set last_used_at = $2 where id = $1 and coalesce(last_used_at, 0) < $2";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[key.into(), used_at.into()]).await?;
    tx.commit().await
}

/// Adds an account to the list of a limited key, in the transaction that created the account.
pub(crate) async fn allow_account(
    tx: &mut Tx,
    customer: CustomerId,
    key: KeyId,
    creator_id: &CreatorId,
) -> Result<(), StoreError> {
    const CHANGED: &str = "update keys set version = version + 1 where id = $1";
    insert_accounts(tx, key, std::slice::from_ref(creator_id)).await?;
    tx.execute(CHANGED, &[key.into()]).await?;
    notices::tell_keys(tx, customer).await
}

pub(crate) async fn insert(
    tx: &mut Tx,
    customer: CustomerId,
    new: &NewKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    const KEY: &str = "
        insert into keys (id, customer_id, name, shown_prefix, shown_suffix, scope, created_at, expires_at,
                          monthly_budget)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
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
            new.monthly_budget.map(Credits::whole).into(),
        ],
    )
    .await?;
    insert_accounts(tx, new.id, &new.accounts).await?;
    insert_secret(tx, new.id, &new.secret).await
}

pub(crate) async fn insert_accounts(
    tx: &mut Tx,
    key: KeyId,
    accounts: &[CreatorId],
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into key_accounts (key_id, creator_id) values ($1, $2)
        on conflict (key_id, creator_id) do nothing";
    for creator_id in accounts {
        tx.execute(SQL, &[key.into(), creator_id.into()]).await?;
    }
    Ok(())
}

/// The first of these accounts that the customer does not have.
pub(crate) async fn missing_account(
    tx: &mut Tx,
    customer: CustomerId,
    accounts: &[CreatorId],
) -> Result<Option<CreatorId>, StoreError> {
    const SQL: &str = "select 1 from accounts where customer_id = $1 and creator_id = $2";
    for creator_id in accounts {
        if tx.row(SQL, &[customer.into(), creator_id.into()]).await?.is_none() {
            return Ok(Some(creator_id.clone()));
        }
    }
    Ok(None)
}

async fn insert_secret(tx: &mut Tx, key: KeyId, secret: &NewSecret) -> Result<(), StoreError> {
    const SQL: &str = "insert into key_secrets (hash, key_id) values ($1, $2)";
    tx.execute(SQL, &[hex(secret.hash.as_bytes()).into(), key.into()]).await?;
    Ok(())
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
    id: KeyId,
) -> Result<Option<ApiKey>, StoreError> {
    const SQL: &str = "
        select id, customer_id, name, shown_prefix, shown_suffix, scope, created_at, rotated_at,
               expires_at, revoked_at, monthly_budget, version
        from keys where id = $1 and customer_id = $2";
    let Some(row) = tx.row(SQL, &[id.into(), customer.into()]).await? else {
        return Ok(None);
    };
    let accounts = accounts_of(tx, id).await?;
    Ok(Some(ApiKey { accounts, ..key(&row)? }))
}

async fn accounts_of(tx: &mut Tx, key: KeyId) -> Result<Vec<CreatorId>, StoreError> {
    const SQL: &str = "select creator_id from key_accounts where key_id = $1 order by creator_id";
    let rows = tx.rows(SQL, &[key.into()]).await?;
    rows.iter().map(|row| row.parse("creator_id", "key_accounts")).collect()
}

pub(crate) fn key(row: &SqlRow) -> Result<ApiKey, StoreError> {
    Ok(ApiKey {
        id: row.parse("id", "keys")?,
        customer: row.parse("customer_id", "keys")?,
        name: row.text("name")?,
        shown_prefix: row.text("shown_prefix")?,
        shown_suffix: row.text("shown_suffix")?,
        scope: row.parse("scope", "keys")?,
        accounts: Vec::new(),
        monthly_budget: row.optional_int("monthly_budget")?.map(Credits::from_whole),
        version: row.int("version")?,
        created_at: row.time("created_at")?,
        rotated_at: row.optional_time("rotated_at")?,
        expires_at: row.optional_time("expires_at")?,
        revoked_at: row.optional_time("revoked_at")?,
    })
}
