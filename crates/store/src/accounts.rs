//! Accounts: creator accounts connected by customers, with their sealed credentials.

use std::sync::Arc;

use domain::account::{AccountState, CreatorId, InactiveReason};
use domain::id::{CustomerId, DataKeyId};
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::account_cookies::{self, NewCookies};
use crate::audit::{self, AuditEntry};
use crate::authority::ChangeAuthority;
use crate::connections::{self, ConnectionRefusal, ConnectionRequest, ExistingAccount};
use crate::slot_assignment::{self, NoteSlotShifts, SlotShift};
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, customers, keys, notices, slot_limits};

/// A connected account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The id the customer chose.
    pub creator_id: CreatorId,
    /// Its platform.
    pub platform: Platform,
    /// The platform's id for it.
    pub platform_account_id: String,
    /// Whether it can be used.
    pub state: AccountState,
    /// Changes whenever the credentials or the state change. A hold names the version its call was
    /// prepared with.
    pub version: i64,
    /// Its credentials at the platform.
    pub credentials: SealedCredentials,
    /// When it was first connected.
    pub connected_at: Timestamp,
    /// When the platform last confirmed the credentials.
    pub verified_at: Option<Timestamp>,
    /// When the customer switched it off. None if it is in use, or inactive because no slot was
    /// free.
    pub switched_off_at: Option<Timestamp>,
}

/// Sealed credentials, with what must be known without opening them.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedCredentials {
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// The data key that opens them.
    pub data_key: DataKeyId,
    /// The token's OAuth scopes, if the platform reported them.
    pub scopes: Option<Vec<String>>,
    /// When the token expires.
    pub token_expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for SealedCredentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SealedCredentials({}, ..)", self.data_key)
    }
}

impl Account {
    /// Why it is inactive; none if it is not.
    pub fn inactive_reason(&self) -> Option<InactiveReason> {
        let why = self
            .switched_off_at
            .map_or(InactiveReason::NoFreeSlot, |_| InactiveReason::SwitchedOff);
        (self.state == AccountState::Inactive).then_some(why)
    }
}

/// An account to be connected.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The authority for the request, checked again in the transaction that stores the account.
    pub authority: ChangeAuthority,
    /// The id the customer chose.
    pub creator_id: CreatorId,
    /// Its platform.
    pub platform: Platform,
    /// The platform's id for it; empty if the platform does not report one.
    pub platform_account_id: String,
    /// Whether it may replace another account of the platform that is connected under this id.
    pub replaces_identity: bool,
    /// Its credentials.
    pub credentials: SealedCredentials,
    /// The cookies that the platform set, if they are kept.
    pub cookies: Option<NewCookies>,
    /// The current time, at which the platform has just confirmed the credentials.
    pub at: Timestamp,
    /// The slots of plans and customers. With the subscription they decide how many accounts may be
    /// in use.
    pub allowances: Arc<AccountAllowances>,
    /// The entry for the audit list.
    pub entry: AuditEntry,
}

/// The outcome of connecting an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionOutcome {
    /// The account is stored with these credentials.
    Connected {
        /// False when it was connected before and its credentials were replaced.
        created: bool,
        /// `Inactive` if the plan has no free slot, or the customer has switched it off.
        state: AccountState,
        /// Its new version.
        version: i64,
        /// Whether the account was added to the list of the limited key that asked.
        joined_list: bool,
    },
    /// Nothing changed.
    Refused(ConnectionRefusal),
    /// Nothing changed: the cookies that the new ones continue were changed meanwhile.
    CookiesChanged,
}

/// An account to be deleted.
#[derive(Debug, Clone, Copy)]
pub struct AccountRemoval<'r> {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The authority for the request.
    pub authority: ChangeAuthority,
    /// The id the customer chose.
    pub creator_id: &'r CreatorId,
    /// The slots of plans and customers.
    pub allowances: &'r AccountAllowances,
}

/// How many accounts a customer has on a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountCount {
    /// In use: active, or in need of reconnecting.
    pub in_use: i64,
    /// Without a slot, or switched off.
    pub inactive: i64,
}

/// Stores an account, or replaces the credentials of a connected one, in one transaction. A limited
/// key that created the account may use it from then on.
pub async fn connect(store: &Store, new: &NewAccount) -> Result<ConnectionOutcome, StoreError> {
    let refused = |refusal| Ok(ConnectionOutcome::Refused(refusal));
    let mut tx = store.write().await?;
    let allowed = new.authority.lock(&mut tx, new.customer, new.at).await?;
    // The lock serializes concurrent changes of slots, so that the limit and the count below stay
    // valid.
    let is_known = customers::lock(&mut tx, new.customer).await?;
    let Some(allowed) = allowed.filter(|_| is_known) else {
        return refused(ConnectionRefusal::NoAuthority);
    };
    let existing = match connections::existing(&mut tx, &new.request(), &allowed).await? {
        Ok(existing) => existing,
        Err(refusal) => return refused(refusal),
    };
    let replaced = existing.as_ref().filter(|known| new.is_another_than(known));
    if let Some(known) = replaced
        && !new.replaces_identity
    {
        let connected = known.platform_account_id.clone();
        return refused(ConnectionRefusal::OtherIdentity { connected });
    }
    let (state, version) = standing(&mut tx, new, existing.as_ref()).await?;
    upsert(&mut tx, new, state, version).await?;
    if !account_cookies::connect(
        &mut tx,
        new.customer,
        &new.creator_id,
        new.cookies.as_ref(),
        new.at,
    )
    .await?
    {
        return Ok(ConnectionOutcome::CookiesChanged);
    }
    let created = existing.is_none();
    let joined_list = created && !allowed.may_use(&new.creator_id);
    if joined_list && let ChangeAuthority::Key(key) = new.authority {
        keys::allow_account(&mut tx, new.customer, key, &new.creator_id).await?;
    }
    audit::insert(&mut tx, &new.audited(replaced)).await?;
    notices::tell_account(&mut tx, new.customer, &new.creator_id).await?;
    tx.commit().await?;
    Ok(ConnectionOutcome::Connected { created, state, version, joined_list })
}

impl NewAccount {
    fn request(&self) -> ConnectionRequest<'_> {
        ConnectionRequest {
            customer: self.customer,
            authority: self.authority,
            creator_id: &self.creator_id,
            platform: self.platform,
            at: self.at,
        }
    }

    /// Whether the platform's id differs from that of the connected account. A missing id never
    /// differs.
    fn is_another_than(&self, known: &ExistingAccount) -> bool {
        let (new, old) = (&self.platform_account_id, &known.platform_account_id);
        !new.is_empty() && !old.is_empty() && new != old
    }

    fn audited(&self, replaced: Option<&ExistingAccount>) -> AuditEntry {
        let mut entry = self.entry.clone();
        if let Some(known) = replaced {
            let (new, old) = (&self.platform_account_id, &known.platform_account_id);
            entry.details = format!("{}, now {new} in place of {old}", entry.details);
        }
        entry
    }
}

/// The state and version of an account that is being connected.
async fn standing(
    tx: &mut Tx,
    new: &NewAccount,
    existing: Option<&ExistingAccount>,
) -> Result<(AccountState, i64), StoreError> {
    let now = new.at.unix_micros();
    let version = existing.map_or(now, |known| known.version.saturating_add(1).max(now));
    if existing.is_some_and(|known| known.state != AccountState::Inactive) {
        return Ok((AccountState::Active, version));
    }
    if existing.is_some_and(|known| known.is_switched_off) {
        return Ok((AccountState::Inactive, version));
    }
    let in_use = count_in(tx, new.customer, new.platform).await?.in_use;
    let limits = slot_limits::of(tx, new.customer, &new.allowances).await?.limit;
    let has_room = in_use < limits.on(new.platform);
    Ok((if has_room { AccountState::Active } else { AccountState::Inactive }, version))
}

/// A customer's accounts, ordered by id.
pub async fn list(store: &Store, customer: CustomerId) -> Result<Vec<Account>, StoreError> {
    let sql = select("customer_id = $1 order by creator_id");
    let rows = store.read().await?.rows(sql, &[customer.into()]).await?;
    rows.iter().map(account).collect()
}

/// One account of a customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    creator_id: &CreatorId,
) -> Result<Option<Account>, StoreError> {
    find_in(&mut store.read().await?, customer, creator_id).await
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
    creator_id: &CreatorId,
) -> Result<Option<Account>, StoreError> {
    let sql = select("customer_id = $1 and creator_id = $2");
    let row = tx.row(sql, &[customer.into(), creator_id.into()]).await?;
    row.as_ref().map(account).transpose()
}

/// The other ids under which the customer has connected the same platform account, if the platform
/// reports which account it is.
pub async fn twins(
    store: &Store,
    customer: CustomerId,
    account: &Account,
) -> Result<Vec<CreatorId>, StoreError> {
    const SQL: &str = "
        select creator_id from accounts
        where customer_id = $1 and platform = $2 and platform_account_id = $3
          and platform_account_id <> '' and creator_id <> $4
        order by connected_at, creator_id";
    let values = [
        customer.into(),
        account.platform.stored_name().into(),
        account.platform_account_id.as_str().into(),
        (&account.creator_id).into(),
    ];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter().map(|row| row.parse("creator_id", "accounts")).collect()
}

/// Deletes an account and its credentials. Its slot goes to the oldest account that waits for one.
/// Returns the accounts that got a slot, which `note` turns into an audit entry; none if there is
/// no such account that the authority may use.
pub async fn delete(
    store: &Store,
    removal: &AccountRemoval<'_>,
    entry: &AuditEntry,
    note: &NoteSlotShifts<'_>,
) -> Result<Option<Vec<SlotShift>>, StoreError> {
    const SQL: &str = "delete from accounts where customer_id = $1 and creator_id = $2";
    let AccountRemoval { customer, authority, creator_id, allowances } = *removal;
    let mut tx = store.write().await?;
    let allowed = authority.lock(&mut tx, customer, entry.at).await?;
    if allowed.is_none_or(|allowed| !allowed.may_use(creator_id)) {
        return Ok(None);
    }
    customers::lock(&mut tx, customer).await?;
    if tx.execute(SQL, &[customer.into(), creator_id.into()]).await? == 0 {
        return Ok(None);
    }
    let limits = slot_limits::of(&mut tx, customer, allowances).await?.limit;
    let shifts = slot_assignment::fill(&mut tx, customer, &limits, None).await?;
    audit::insert(&mut tx, entry).await?;
    if let Some(noted) = note(&shifts) {
        audit::insert(&mut tx, &noted).await?;
    }
    notices::tell_account(&mut tx, customer, creator_id).await?;
    tx.commit().await?;
    Ok(Some(shifts))
}

/// Changes the state of an account in use that still has this version, and returns the new version.
/// None if the account is gone, inactive or was changed meanwhile: read it again and decide anew.
pub async fn set_state(
    store: &Store,
    customer: CustomerId,
    creator_id: &CreatorId,
    version: i64,
    state: AccountState,
) -> Result<Option<i64>, StoreError> {
    let mut tx = store.write().await?;
    let changed = set_state_in(&mut tx, customer, creator_id, version, state).await?;
    notices::tell_account(&mut tx, customer, creator_id).await?;
    tx.commit().await?;
    Ok(changed)
}

/// Like `set_state`, within a transaction.
pub(crate) async fn set_state_in(
    tx: &mut Tx,
    customer: CustomerId,
    creator_id: &CreatorId,
    version: i64,
    state: AccountState,
) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "
        update accounts set state = $4, version = version + 1
        where customer_id = $1 and creator_id = $2 and version = $3 and state <> 'inactive'
        returning version";
    let values = [customer.into(), creator_id.into(), version.into(), state.as_str().into()];
    let row = tx.row(SQL, &values).await?;
    row.map(|row| row.int("version")).transpose()
}

/// How many accounts the customer has on this platform.
pub async fn count(
    store: &Store,
    customer: CustomerId,
    platform: Platform,
) -> Result<AccountCount, StoreError> {
    count_in(&mut store.read().await?, customer, platform).await
}

/// How many accounts the customer has on this platform. Lock the customer first if the number must
/// not change.
pub(crate) async fn count_in(
    tx: &mut Tx,
    customer: CustomerId,
    platform: Platform,
) -> Result<AccountCount, StoreError> {
    const SQL: &str = "
        select state, count(*) as accounts from accounts
        where customer_id = $1 and platform = $2 group by state";
    let mut count = AccountCount { in_use: 0, inactive: 0 };
    for row in tx.rows(SQL, &[customer.into(), platform.stored_name().into()]).await? {
        let accounts = row.int("accounts")?;
        match row.parse::<AccountState>("state", "accounts")? {
            AccountState::Active | AccountState::ReconnectNeeded => count.in_use += accounts,
            AccountState::Inactive => count.inactive += accounts,
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
            platform_account_id = case when excluded.platform_account_id = ''
                then accounts.platform_account_id else excluded.platform_account_id end,
            state = excluded.state,
            version = excluded.version, credentials = excluded.credentials,
            data_key_id = excluded.data_key_id, scopes = excluded.scopes,
            token_expires_at = excluded.token_expires_at, refresh_claimed_until = null, refresh_claimed_by = null,
            verified_at = excluded.verified_at";
    let scopes = new.credentials.scopes.as_ref().map(|scopes| scopes.join(" "));
    tx.execute(
        SQL,
        &[
            new.customer.into(),
            (&new.creator_id).into(),
            new.platform.stored_name().into(),
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

/// Stores the same credentials sealed again with the same data key, unless others were stored since
/// `account` was read. Returns whether they were stored.
///
/// The version stays: what other nodes have read is as good.
pub async fn reseal(store: &Store, account: &Account, sealed: &[u8]) -> Result<bool, StoreError> {
    const SQL: &str = "
        update accounts set credentials = $5
        where customer_id = $1 and creator_id = $2 and version = $3 and data_key_id = $4";
    let values = [
        account.customer.into(),
        (&account.creator_id).into(),
        account.version.into(),
        account.credentials.data_key.into(),
        sealed.into(),
    ];
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

fn select(condition: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "select customer_id, creator_id, platform, platform_account_id, state, version, credentials,
                data_key_id, scopes, token_expires_at, connected_at, verified_at, switched_off_at
         from accounts where {condition}"
    ))
}

fn account(row: &SqlRow) -> Result<Account, StoreError> {
    let state = row.parse("state", "accounts")?;
    let scopes = row.optional_text("scopes")?;
    Ok(Account {
        customer: row.parse("customer_id", "accounts")?,
        creator_id: row.parse("creator_id", "accounts")?,
        platform: row.platform("platform", "accounts")?,
        platform_account_id: row.text("platform_account_id")?,
        state,
        version: row.int("version")?,
        credentials: SealedCredentials {
            sealed: row.bytes("credentials")?,
            data_key: row.parse("data_key_id", "accounts")?,
            scopes: scopes.map(|text| text.split_whitespace().map(str::to_owned).collect()),
            token_expires_at: row.optional_time("token_expires_at")?,
        },
        connected_at: row.time("connected_at")?,
        verified_at: row.optional_time("verified_at")?,
        switched_off_at: row
            .optional_time("switched_off_at")?
            .filter(|_| state == AccountState::Inactive),
    })
}
