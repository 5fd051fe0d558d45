//! Slot limits: how many accounts a customer may have in use, from its permanent slots, the plan
//! version it paid for, the extra slots of its subscription, and the open change. Transactions that
//! assign slots read them under the customer's lock.

use domain::id::CustomerId;
use domain::platform::Platform;
use domain::slot::{AccountAllowances, AccountCounts};
use domain::subscription::SubscriptionStatus;

use crate::slot_changes::{self, SlotChange};
use crate::subscriptions::{self, DisplacedAccount, StoredSubscription};
use crate::tx::Tx;
use crate::{Store, StoreError, accounts, slot_assignment};

/// The parts of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotLimits {
    /// The slots of the current plan.
    pub plan: AccountCounts,
    /// The extra slots of the processor's subscription.
    pub extra: AccountCounts,
    /// How many accounts may be in use. Slots that the open change gives up are not counted.
    pub limit: AccountCounts,
}

/// A customer's slots at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotUsage {
    /// The subscription; none if there never was one.
    pub subscription: Option<StoredSubscription>,
    /// The limits.
    pub limits: SlotLimits,
    /// The number of connected accounts, in use or not.
    pub connected: AccountCounts,
    /// The number of accounts in use: active, or in need of reconnecting.
    pub active: AccountCounts,
    /// The open change.
    pub open: Option<SlotChange>,
}

/// Reads all of this in one snapshot.
pub async fn usage(
    store: &Store,
    customer: CustomerId,
    allowances: &AccountAllowances,
) -> Result<SlotUsage, StoreError> {
    let mut tx = store.snapshot().await?;
    let mut connected = AccountCounts::default();
    let mut active = AccountCounts::default();
    for platform in Platform::all() {
        let count = accounts::count_in(&mut tx, customer, platform).await?;
        connected.set(platform, count.in_use.saturating_add(count.inactive));
        active.set(platform, count.in_use);
    }
    Ok(SlotUsage {
        subscription: subscriptions::find_in(&mut tx, customer).await?,
        limits: of(&mut tx, customer, allowances).await?,
        connected,
        active,
        open: slot_changes::find_open_in(&mut tx, customer).await?,
    })
}

/// The accounts that would become inactive under these limits: the newest of each platform.
pub async fn over(
    store: &Store,
    customer: CustomerId,
    limits: &AccountCounts,
) -> Result<Vec<DisplacedAccount>, StoreError> {
    slot_assignment::over(&mut store.snapshot().await?, customer, limits).await
}

/// The limits of a customer.
pub(crate) async fn of(
    tx: &mut Tx,
    customer: CustomerId,
    allowances: &AccountAllowances,
) -> Result<SlotLimits, StoreError> {
    const OPEN: &str = "
        select i.platform, i.count_after
        from slot_changes c join slot_change_items i on i.change_id = c.id
        where c.customer_id = $1 and c.state = 'open' and i.platform is not null";
    let plan = of_plan(tx, customer).await?;
    let extra = of_slots(tx, customer).await?;
    let mut kept = extra.clone();
    for row in tx.rows(OPEN, &[customer.into()]).await? {
        let platform = row.platform("platform", "slot_change_items")?;
        kept.set(platform, kept.on(platform).min(row.int("count_after")?));
    }
    let limit = allowances.included.plus(&plan).plus(&kept);
    Ok(SlotLimits { plan, extra, limit })
}

/// The slots of the plan version that was paid for, or if that is unknown, of the one in the
/// subscription.
async fn of_plan(tx: &mut Tx, customer: CustomerId) -> Result<AccountCounts, StoreError> {
    const SQL: &str = "
        select s.status, v.accounts
        from subscriptions s join plan_versions v on v.price_id = coalesce(s.paid_price_id, (
            select min(i.price_id) from subscription_items i
            where i.customer_id = s.customer_id and i.kind = 'plan' and i.quantity > 0))
        where s.customer_id = $1";
    let Some(row) = tx.row(SQL, &[customer.into()]).await? else {
        return Ok(AccountCounts::default());
    };
    let entitles = row.parse::<SubscriptionStatus>("status", "subscriptions")?.entitles();
    if entitles { row.parse("accounts", "plan_versions") } else { Ok(AccountCounts::default()) }
}

/// The extra slots of a subscription in good standing.
async fn of_slots(tx: &mut Tx, customer: CustomerId) -> Result<AccountCounts, StoreError> {
    const SQL: &str = "
        select s.status, i.platform, i.quantity
        from subscriptions s join subscription_items i on i.customer_id = s.customer_id
        where s.customer_id = $1 and i.kind = 'slot' and i.platform is not null";
    let mut extra = AccountCounts::default();
    for row in tx.rows(SQL, &[customer.into()]).await? {
        if row.parse::<SubscriptionStatus>("status", "subscriptions")?.entitles() {
            extra.add(row.platform("platform", "subscription_items")?, row.int("quantity")?);
        }
    }
    Ok(extra)
}
