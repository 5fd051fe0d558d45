//! Slot assignment: which accounts have a slot when the limits change. Callers hold the customer's
//! lock.

use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::slot::AccountCounts;

use crate::audit::AuditEntry;
use crate::subscriptions::DisplacedAccount;
use crate::tx::Tx;
use crate::{StoreError, notices};

/// An account that got or lost a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotShift {
    /// The account.
    pub creator_id: CreatorId,
    /// Its platform.
    pub platform: Platform,
    /// Its new state.
    pub state: AccountState,
}

/// Makes the audit entry about accounts that got a slot; none if nothing changed.
pub type NoteSlotShifts<'n> = dyn Fn(&[SlotShift]) -> Option<AuditEntry> + Send + Sync + 'n;

/// Slots that a change would remove although accounts occupy them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccupiedSlots {
    /// Their platform.
    pub platform: Platform,
    /// How many accounts have to be removed or switched off before the change can be made.
    pub must_free: i64,
    /// The accounts in use, oldest first.
    pub accounts: Vec<CreatorId>,
    /// The accounts that wait for a slot and would get those that become free, oldest first.
    pub waiting: Vec<CreatorId>,
}

/// What slot assignment needs to know about an account.
struct SlotCandidate {
    creator_id: CreatorId,
    platform: Platform,
    is_in_use: bool,
    is_switched_off: bool,
}

impl SlotCandidate {
    /// Whether it gets a slot as soon as one is free.
    const fn is_waiting(&self) -> bool {
        !self.is_in_use && !self.is_switched_off
    }
}

/// The occupied slots on the first platform whose limit falls below the number in use.
pub(crate) async fn occupied(
    tx: &mut Tx,
    customer: CustomerId,
    before: &AccountCounts,
    after: &AccountCounts,
) -> Result<Option<OccupiedSlots>, StoreError> {
    let accounts = oldest_first(tx, customer).await?;
    let lowered = Platform::all().into_iter().filter(|it| after.on(*it) < before.on(*it));
    for platform in lowered {
        let named = |is_wanted: fn(&SlotCandidate) -> bool| -> Vec<CreatorId> {
            let own = accounts.iter().filter(|account| account.platform == platform);
            own.filter(|it| is_wanted(it)).map(|it| it.creator_id.clone()).collect()
        };
        let in_use = named(|account| account.is_in_use);
        let count = i64::try_from(in_use.len()).unwrap_or(i64::MAX);
        let must_free = count.saturating_sub(after.on(platform));
        if must_free > 0 {
            let waiting = named(SlotCandidate::is_waiting);
            return Ok(Some(OccupiedSlots { platform, must_free, accounts: in_use, waiting }));
        }
    }
    Ok(None)
}

/// Gives free slots to inactive accounts (`first` before all others, then older before newer ones),
/// and takes slots above the limits from the newest accounts.
pub(crate) async fn fit(
    tx: &mut Tx,
    customer: CustomerId,
    limits: &AccountCounts,
    first: Option<&CreatorId>,
) -> Result<Vec<SlotShift>, StoreError> {
    let mut shifts = fill(tx, customer, limits, first).await?;
    let accounts = oldest_first(tx, customer).await?;
    for platform in Platform::all() {
        let in_use = accounts.iter().filter(|account| account.is_in_use);
        let in_use: Vec<_> = in_use.filter(|account| account.platform == platform).collect();
        let kept = usize::try_from(limits.on(platform)).unwrap_or(0);
        for account in in_use.into_iter().skip(kept).rev() {
            shifts.push(shift(tx, customer, account, AccountState::Inactive).await?);
        }
    }
    Ok(shifts)
}

/// The accounts in use that these limits have no slot for: the newest of each platform.
pub(crate) async fn over(
    tx: &mut Tx,
    customer: CustomerId,
    limits: &AccountCounts,
) -> Result<Vec<DisplacedAccount>, StoreError> {
    let accounts = oldest_first(tx, customer).await?;
    let mut over = Vec::new();
    for platform in Platform::all() {
        let in_use = accounts.iter().filter(|it| it.is_in_use && it.platform == platform);
        let kept = usize::try_from(limits.on(platform)).unwrap_or(0);
        let displaced = |account: &SlotCandidate| DisplacedAccount {
            creator_id: account.creator_id.clone(),
            platform: account.platform,
        };
        over.extend(in_use.skip(kept).map(displaced));
    }
    Ok(over)
}

/// Gives free slots to inactive accounts and takes none away. Accounts that are switched off stay
/// inactive.
pub(crate) async fn fill(
    tx: &mut Tx,
    customer: CustomerId,
    limits: &AccountCounts,
    first: Option<&CreatorId>,
) -> Result<Vec<SlotShift>, StoreError> {
    let mut accounts = oldest_first(tx, customer).await?;
    // The sort is stable, so the others keep their order.
    accounts.sort_by_key(|account| Some(&account.creator_id) != first);
    let mut shifts = Vec::new();
    for platform in Platform::all() {
        let own = accounts.iter().filter(|account| account.platform == platform);
        let (in_use, others): (Vec<_>, Vec<_>) = own.partition(|account| account.is_in_use);
        let waiting = others.into_iter().filter(|account| account.is_waiting());
        let limit = usize::try_from(limits.on(platform)).unwrap_or(0);
        for account in waiting.take(limit.saturating_sub(in_use.len())) {
            shifts.push(shift(tx, customer, account, AccountState::Active).await?);
        }
    }
    Ok(shifts)
}

async fn oldest_first(tx: &mut Tx, customer: CustomerId) -> Result<Vec<SlotCandidate>, StoreError> {
    const SQL: &str = "
        select creator_id, platform, state, switched_off_at from accounts
        where customer_id = $1 order by connected_at, creator_id";
    let rows = tx.rows(SQL, &[customer.into()]).await?;
    let candidate = |row: &crate::sql::SqlRow| {
        Ok(SlotCandidate {
            creator_id: row.parse("creator_id", "accounts")?,
            platform: row.platform("platform", "accounts")?,
            is_in_use: row.parse::<AccountState>("state", "accounts")? != AccountState::Inactive,
            is_switched_off: row.optional_time("switched_off_at")?.is_some(),
        })
    };
    rows.iter().map(candidate).collect()
}

/// Changes the state and the version, so that calls prepared in the other state are refused.
async fn shift(
    tx: &mut Tx,
    customer: CustomerId,
    account: &SlotCandidate,
    state: AccountState,
) -> Result<SlotShift, StoreError> {
    const SQL: &str = "
        update accounts set state = $3, version = version + 1, switched_off_at = null
        where customer_id = $1 and creator_id = $2";
    let creator_id = account.creator_id.clone();
    tx.execute(SQL, &[customer.into(), (&creator_id).into(), state.as_str().into()]).await?;
    notices::tell_account(tx, customer, &creator_id).await?;
    Ok(SlotShift { creator_id, platform: account.platform, state })
}
