//! Switching accounts off and on: the customer says which of them have a slot. The credentials are kept.

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

/// An account that is to be switched off or on.
pub struct AccountSwitch<'s> {
    /// Whose it is.
    pub customer: CustomerId,
    /// By what it is asked for.
    pub authority: ChangeAuthority,
    /// The id the customer chose.
    pub creator_id: &'s CreatorId,
    /// Whether it is to be in use.
    pub on: bool,
    /// What plans and customers have.
    pub allowances: &'s AccountAllowances,
    /// What the audit list says if anything changes; its time is the time of the change.
    pub entry: &'s AuditEntry,
    /// What it says of other accounts that get the slot.
    pub note: &'s NoteSlotShifts<'s>,
}

/// How switching an account ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchOutcome {
    /// It is what was asked for.
    Done {
        /// The account as it is now.
        account: Box<Account>,
        /// Whether that is a change.
        changed: bool,
        /// Other accounts that got the slot it had.
        shifts: Vec<SlotShift>,
    },
    /// It cannot be switched on: other accounts have all slots. Nothing changed.
    NoFreeSlot {
        /// Where it lives.
        platform: Platform,
        /// How many accounts of the platform may be in use.
        limit: i64,
        /// Those in use that the caller may use, oldest first.
        accounts: Vec<CreatorId>,
    },
    /// There is no such account that may be used.
    NoAccount,
}

/// Switches an account off or on, in one transaction under the customer's lock. Switched off it is inactive, has no slot
/// and gets none by itself; its slot goes to the oldest account that waits for one. Switched on it needs a free slot.
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

/// Why there is no slot for an account that is to be switched on.
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
        rows.iter().map(|row| row.parse(0, "accounts")).collect::<Result<_, _>>()?;
    let accounts = in_use.into_iter().filter(|name| allowed.may_use(name)).collect();
    Ok(Some(SwitchOutcome::NoFreeSlot { platform, limit, accounts }))
}

/// Changes the state, and with it the version: a call that was prepared under the other state is refused.
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
