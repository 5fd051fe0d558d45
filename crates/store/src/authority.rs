//! The authority for a change, checked again in the transaction that makes the change.
//!
//! Time passes between the check of a caller and the change: a platform is called, a password is
//! hashed. A key or session revoked meanwhile changes nothing, and a key's limits are those at the
//! moment of the change.

use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId, SessionId};
use domain::key::KeyScope;
use domain::time::Timestamp;

use crate::StoreError;
use crate::dialect;
use crate::keys;
use crate::tx::Tx;

/// What authorizes a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAuthority {
    /// A key, with its limits.
    Key(KeyId),
    /// A session, which may change everything.
    Session(SessionId),
    /// The operator.
    Operator,
}

/// The accounts that an authority allows at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedAccounts {
    /// The allowed accounts; empty means all.
    accounts: Vec<CreatorId>,
}

impl AllowedAccounts {
    /// Whether it is limited to some accounts.
    pub(crate) fn is_limited(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// Whether this account may be used.
    pub(crate) fn may_use(&self, creator_id: &CreatorId) -> bool {
        !self.is_limited() || self.accounts.contains(creator_id)
    }
}

impl ChangeAuthority {
    /// What it allows for changes; none if it has ended or is read-only. Locks the key's row,
    /// before its customer's, so that the key cannot change until the transaction ends.
    pub(crate) async fn lock(
        self,
        tx: &mut Tx,
        customer: CustomerId,
        now: Timestamp,
    ) -> Result<Option<AllowedAccounts>, StoreError> {
        const KEY: &str = "select id from keys where id = $1";
        if let Self::Key(key) = self {
            let sql = format!("{KEY}{}", dialect::for_update(tx.database()));
            tx.row(sqlx::AssertSqlSafe(sql), &[key.into()]).await?;
        }
        self.allowed(tx, customer, now).await
    }

    /// Like `lock`, without locking.
    pub(crate) async fn allowed(
        self,
        tx: &mut Tx,
        customer: CustomerId,
        now: Timestamp,
    ) -> Result<Option<AllowedAccounts>, StoreError> {
        const SESSION: &str = "select 1 from sessions where id = $1 and customer_id = $2";
        let unlimited = AllowedAccounts { accounts: Vec::new() };
        match self {
            Self::Operator => Ok(Some(unlimited)),
            Self::Session(session) => {
                let row = tx.row(SESSION, &[session.into(), customer.into()]).await?;
                Ok(row.map(|_| unlimited))
            }
            Self::Key(id) => {
                let found = keys::find_in(tx, customer, id).await?;
                let usable = found.filter(|key| {
                    key.revoked_at.is_none()
                        && key.expires_at.is_none_or(|end| now < end)
                        && key.scope == KeyScope::Full
                });
                Ok(usable.map(|key| AllowedAccounts { accounts: key.accounts }))
            }
        }
    }
}
