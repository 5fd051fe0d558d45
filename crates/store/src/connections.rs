//! Which accounts may be connected. Decided before the platform is called, and again in the
//! transaction that stores the account.

use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::authority::{AllowedAccounts, ChangeAuthority};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A request to connect an account under an id.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionRequest<'r> {
    /// The customer who will own it.
    pub customer: CustomerId,
    /// The authority for the request.
    pub authority: ChangeAuthority,
    /// The id that the customer chose.
    pub creator_id: &'r CreatorId,
    /// The account's platform.
    pub platform: Platform,
    /// The current time.
    pub at: Timestamp,
}

/// Why an account is not connected; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The key or the session has ended, the key is read-only, or there is no such customer.
    NoAuthority,
    /// The customer has used this id, and the key may not use it.
    NotAllowed,
    /// The customer has this id on another platform.
    OtherPlatform(Platform),
    /// The account connected under this id is another one at the platform.
    OtherIdentity {
        /// The platform's id of the connected account.
        connected: String,
    },
}

/// An account connected under an id.
#[derive(Debug, Clone)]
pub(crate) struct ExistingAccount {
    pub(crate) platform_account_id: String,
    pub(crate) state: AccountState,
    pub(crate) is_switched_off: bool,
    pub(crate) version: i64,
}

/// Why an account cannot be connected under this id now; none if it can.
pub async fn refusal(
    store: &Store,
    request: &ConnectionRequest<'_>,
) -> Result<Option<ConnectionRefusal>, StoreError> {
    let mut tx = store.read().await?;
    let allowed = request.authority.allowed(&mut tx, request.customer, request.at).await?;
    let Some(allowed) = allowed else { return Ok(Some(ConnectionRefusal::NoAuthority)) };
    Ok(existing(&mut tx, request, &allowed).await?.err())
}

/// The account with this id, if any, or why it may not be connected. Lock the customer first if the
/// result must not change.
pub(crate) async fn existing(
    tx: &mut Tx,
    request: &ConnectionRequest<'_>,
    allowed: &AllowedAccounts,
) -> Result<Result<Option<ExistingAccount>, ConnectionRefusal>, StoreError> {
    const EXISTING: &str = "
        select platform, state, version, platform_account_id, switched_off_at
        from accounts where customer_id = $1 and creator_id = $2";
    let name = [request.customer.into(), request.creator_id.into()];
    let row = tx.row(EXISTING, &name).await?;
    if !allowed.may_use(request.creator_id)
        && (row.is_some() || has_left_exports(tx, request).await?)
    {
        return Ok(Err(ConnectionRefusal::NotAllowed));
    }
    let Some(row) = row else { return Ok(Ok(None)) };
    let platform = row.platform("platform", "accounts")?;
    if platform != request.platform {
        return Ok(Err(ConnectionRefusal::OtherPlatform(platform)));
    }
    Ok(Ok(Some(ExistingAccount {
        state: row.parse("state", "accounts")?,
        is_switched_off: row.optional_time("switched_off_at")?.is_some(),
        version: row.int("version")?,
        platform_account_id: row.text("platform_account_id")?,
    })))
}

/// Exports outlive their account: a key that took over its id would gain access to them.
async fn has_left_exports(
    tx: &mut Tx,
    request: &ConnectionRequest<'_>,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        select 1 from export_jobs
        where customer_id = $1 and creator_id = $2 and state <> 'deleted' limit 1";
    let name = [request.customer.into(), request.creator_id.into()];
    Ok(tx.row(SQL, &name).await?.is_some())
}
