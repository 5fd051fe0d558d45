//! Switching accounts off and on, by which the customer chooses those that get a slot. The
//! credentials are kept.

use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::slot::AccountAllowances;

use crate::accounts::{self, Account};
use crate::audit::{self, AuditEntry};
use crate::authority::{AllowedAccounts, ChangeAuthority};
use crate::slot_assignment::{self, NoteSlotShifts, SlotShift};
use crate::tx::Tx;
use crate::{Store, StoreError, customers, notices, slot_limits};

/// An account to be switched off or on.
pub struct AccountSwitch<'s> {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The authority for the request.
    pub authority: ChangeAuthority,
    /// The id the customer chose.
    pub creator_id: &'s CreatorId,
    /// Whether it should be in use.
    pub on: bool,
    /// The slots of plans and customers.
    pub allowances: &'s AccountAllowances,
    /// The audit entry to write if anything changes. Its time is the time of the change.
    pub entry: &'s AuditEntry,
    /// Makes the audit entry about other accounts that get the slot.
    pub note: &'s NoteSlotShifts<'s>,
}

/// The outcome of switching an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchOutcome {
    /// The account is in the requested state.
    Done {
        /// The account as it is now.
        account: Box<Account>,
        /// Whether that changed anything.
        changed: bool,
        /// Other accounts that got the slot it had.
        shifts: Vec<SlotShift>,
    },
    /// It cannot be switched on, because other accounts have all slots. Nothing changed.
    NoFreeSlot {
        /// Its platform.
        platform: Platform,
        /// How many accounts on the platform may be in use.
        limit: i64,
        /// The accounts in use that the caller may use, oldest first.
        accounts: Vec<CreatorId>,
    },
    /// There is no such account that the authority may use.
    NoAccount,
}

/// Switches an account off or on, in one transaction under the customer's lock. Switching it off
/// makes it inactive and passes its slot to the oldest account that waits for one; it gets no slot
/// by itself again. Switching it on needs a free slot.
pub async fn switch(
    store: &Store,
    switch: &AccountSwitch<'_>,
) -> Result<SwitchOutcome, StoreError> {
    let customer = switch.customer;
    let mut tx = store.write().await?;
    let allowed = switch.authority.lock(&mut tx, customer, switch.entry.at).await?;
    let Some(allowed) = allowed.filter(|allowed| allowed.may_use(switch.creator_id)) else {
        return Ok(SwitchOutcome::NoAccount);
    };
    customers::lock(&mut tx, customer).await?;
    let Some(account) = accounts::find_in(&mut tx, customer, switch.creator_id).await? else {
        return Ok(SwitchOutcome::NoAccount);
    };
    let is_in_use = account.state != AccountState::Inactive;
    let is_as_asked = if switch.on { is_in_use } else { account.switched_off_at.is_some() };
    if is_as_asked {
        let account = Box::new(account);
        return Ok(SwitchOutcome::Done { account, changed: false, shifts: Vec::new() });
    }
    if switch.on
        && let Some(refused) = refusal(&mut tx, switch, &account, &allowed).await?
    {
        return Ok(refused);
    }
    write(&mut tx, switch).await?;
    let limits = slot_limits::of(&mut tx, customer, switch.allowances).await?.limit;
    let shifts = slot_assignment::fill(&mut tx, customer, &limits, None).await?;
    audit::insert(&mut tx, switch.entry).await?;
    if let Some(noted) = (switch.note)(&shifts) {
        audit::insert(&mut tx, &noted).await?;
    }
    let switched = accounts::find_in(&mut tx, customer, switch.creator_id).await?;
    tx.commit().await?;
    let switched = switched.ok_or_else(|| StoreError::corrupt("accounts", customer.to_string()))?;
    Ok(SwitchOutcome::Done { account: Box::new(switched), changed: true, shifts })
}

/// The refusal if there is no slot for an account to be switched on.
async fn refusal(
    tx: &mut Tx,
    switch: &AccountSwitch<'_>,
    account: &Account,
    allowed: &AllowedAccounts,
) -> Result<Option<SwitchOutcome>, StoreError> {
    const IN_USE: &str = "
        select creator_id from accounts
        where customer_id = $1 and platform = $2 and state <> 'inactive'
        order by connected_at, creator_id";
    let platform = account.platform;
    let limit = slot_limits::of(tx, switch.customer, switch.allowances).await?.limit.on(platform);
    let rows = tx.rows(IN_USE, &[switch.customer.into(), platform.stored_name().into()]).await?;
    if i64::try_from(rows.len()).unwrap_or(i64::MAX) < limit {
        return Ok(None);
    }
    let in_use: Vec<CreatorId> =
        rows.iter().map(|row| row.parse("creator_id", "accounts")).collect::<Result<_, _>>()?;
    let accounts = in_use.into_iter().filter(|name| allowed.may_use(name)).collect();
    Ok(Some(SwitchOutcome::NoFreeSlot { platform, limit, accounts }))
}

/// Changes the state and the version, so that calls prepared in the other state are refused.
async fn write(tx: &mut Tx, switch: &AccountSwitch<'_>) -> Result<(), StoreError> {
    const SQL: &str = "
        update accounts set state = $3, switched_off_at = $4, version = version + 1
        where customer_id = $1 and creator_id = $2";
    let state = if switch.on { AccountState::Active } else { AccountState::Inactive };
    let switched_off_at = (!switch.on).then_some(switch.entry.at);
    let values = [
        switch.customer.into(),
        switch.creator_id.into(),
        state.as_str().into(),
        switched_off_at.into(),
    ];
    tx.execute(SQL, &values).await?;
    notices::tell_account(tx, switch.customer, switch.creator_id).await
}

impl std::fmt::Debug for AccountSwitch<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let to = if self.on { "on" } else { "off" };
        write!(formatter, "AccountSwitch({} {to})", self.creator_id)
    }
}
