//! Changes of a key's name and limits. Its secret is changed by a rotation.

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::{CustomerId, KeyId};
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::keys::{self, ApiKey};
use crate::sql::SqlValue;
use crate::{Store, StoreError, balance, notices};

/// A change of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LimitChange<T> {
    /// Leave it as it is.
    #[default]
    Keep,
    /// Remove it.
    End,
    /// Set it to this value.
    Set(T),
}

impl<T> LimitChange<T> {
    /// Converts the limit of the change.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> LimitChange<U> {
        match self {
            Self::Keep => LimitChange::Keep,
            Self::End => LimitChange::End,
            Self::Set(limit) => LimitChange::Set(make(limit)),
        }
    }

    /// 1 and the new value if there is something to write, else 0.
    fn written(&self) -> (i64, Option<&T>) {
        match self {
            Self::Keep => (0, None),
            Self::End => (1, None),
            Self::Set(limit) => (1, Some(limit)),
        }
    }
}

/// A change of a key's name and limits.
#[derive(Debug, Clone)]
pub struct KeyChange {
    /// The key.
    pub key: KeyId,
    /// The customer who must own it.
    pub customer: CustomerId,
    /// A new name; none keeps the current one.
    pub name: Option<String>,
    /// The accounts it is limited to.
    pub accounts: LimitChange<Vec<CreatorId>>,
    /// Its monthly budget.
    pub monthly_budget: LimitChange<Credits>,
    /// When it expires.
    pub expires_at: LimitChange<Timestamp>,
}

/// The outcome of a change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChanging {
    /// The change applies to every call held from now on. The key after the change.
    Changed(ApiKey),
    /// The customer has no such key, or it is revoked.
    NotFound,
    /// The customer has no account with this id, to which the key was to be limited.
    NoAccount(CreatorId),
}

/// Changes a key. Waits for holds of this customer that are being decided, so that none is decided
/// by the old limits after this returns.
pub async fn change(
    store: &Store,
    change: &KeyChange,
    entry: &AuditEntry,
) -> Result<KeyChanging, StoreError> {
    const KEY: &str = "
        update keys set name = coalesce(cast($3 as text), name), version = version + 1,
               monthly_budget = case when $4 = 1 then $5 else monthly_budget end,
               expires_at = case when $6 = 1 then $7 else expires_at end
        where id = $1 and customer_id = $2 and revoked_at is null";
    const FORGET: &str = "delete from key_accounts where key_id = $1";
    let mut tx = store.write().await?;
    balance::lock(&mut tx, std::iter::once(change.customer)).await?;
    let (budget_changes, budget) = change.monthly_budget.written();
    let (expiry_changes, expires_at) = change.expires_at.written();
    let values: [SqlValue<'_>; 7] = [
        change.key.into(),
        change.customer.into(),
        change.name.as_deref().into(),
        budget_changes.into(),
        budget.copied().map(Credits::whole).into(),
        expiry_changes.into(),
        expires_at.copied().into(),
    ];
    if tx.execute(KEY, &values).await? == 0 {
        return Ok(KeyChanging::NotFound);
    }
    let (accounts_change, accounts) = change.accounts.written();
    let accounts = accounts.map_or(&[][..], Vec::as_slice);
    if let Some(missing) = keys::missing_account(&mut tx, change.customer, accounts).await? {
        return Ok(KeyChanging::NoAccount(missing));
    }
    if accounts_change == 1 {
        tx.execute(FORGET, &[change.key.into()]).await?;
        keys::insert_accounts(&mut tx, change.key, accounts).await?;
    }
    let changed = keys::find_in(&mut tx, change.customer, change.key).await?;
    audit::insert(&mut tx, entry).await?;
    notices::tell_keys(&mut tx, change.customer).await?;
    tx.commit().await?;
    Ok(changed.map_or(KeyChanging::NotFound, KeyChanging::Changed))
}
