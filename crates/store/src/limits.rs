//! Limits: how many accounts a customer may have in use, by what it has for good, by the processor's subscription, and
//! by the change that is under way. Who gives or takes a place reads them under the customer's lock.

use domain::id::CustomerId;
use domain::platform::Platform;
use domain::slot::{Accounts, Allowances};
use domain::subscription::SubscriptionStatus;

use crate::slot_changes::{self, Change};
use crate::subscriptions::{self, Subscription};
use crate::tx::Tx;
use crate::{Store, StoreError, accounts};

/// What a limit is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// What the plan in force adds.
    pub plan: Accounts,
    /// The extra slots of the processor's subscription.
    pub extra: Accounts,
    /// How many accounts may be in use. What a change under way gives up is no longer counted.
    pub limit: Accounts,
}

/// Everything about a customer's places at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The subscription; none when there never was one.
    pub subscription: Option<Subscription>,
    /// The limits.
    pub parts: Parts,
    /// Accounts that are connected, in use or not.
    pub connected: Accounts,
    /// Accounts in use: active, or waiting to be connected again.
    pub active: Accounts,
    /// The change that is under way.
    pub open: Option<Change>,
}

/// Reads all of it as it is at one instant.
pub async fn standing(
    store: &Store,
    customer: CustomerId,
    allowances: &Allowances,
) -> Result<Standing, StoreError> {
    let mut tx = store.snapshot().await?;
    let mut connected = Accounts::default();
    let mut active = Accounts::default();
    for platform in Platform::ALL {
        let count = accounts::count_in(&mut tx, customer, *platform).await?;
        *connected.on_mut(*platform) = count.in_use.saturating_add(count.inactive);
        *active.on_mut(*platform) = count.in_use;
    }
    Ok(Standing {
        subscription: subscriptions::find_in(&mut tx, customer).await?,
        parts: of(&mut tx, customer, allowances).await?,
        connected,
        active,
        open: slot_changes::find_open_in(&mut tx, customer).await?,
    })
}

/// The limits of a customer.
pub(crate) async fn of(
    tx: &mut Tx,
    customer: CustomerId,
    allowances: &Allowances,
) -> Result<Parts, StoreError> {
    const ITEMS: &str = "
        select s.status, i.kind, i.plan_id, i.platform, i.quantity
        from subscriptions s join subscription_items i on i.customer_id = s.customer_id
        where s.customer_id = $1 and i.quantity > 0";
    const OPEN: &str = "
        select i.platform, i.plan_id, i.count_after
        from slot_changes c join slot_change_items i on i.change_id = c.id
        where c.customer_id = $1 and c.state = 'open'";
    let (mut plan, mut extra) = (Accounts::default(), Accounts::default());
    for row in tx.rows(ITEMS, &[customer.into()]).await? {
        if !row.parse::<SubscriptionStatus>(0, "subscriptions")?.entitles() {
            continue;
        }
        match (row.text(1)?.as_str(), row.parse_optional::<Platform>(3, "subscription_items")?) {
            ("plan", _) => {
                plan = plan.plus(&allowances.of_plan(row.optional_text(2)?.as_deref()));
            }
            ("slot", Some(platform)) => *extra.on_mut(platform) += row.int(4)?,
            _ => {}
        }
    }
    let (mut kept_plan, mut kept_extra) = (plan, extra);
    for row in tx.rows(OPEN, &[customer.into()]).await? {
        match row.parse_optional::<Platform>(0, "slot_change_items")? {
            Some(platform) => {
                let kept = kept_extra.on_mut(platform);
                *kept = (*kept).min(row.int(2)?);
            }
            None => {
                let next = allowances.of_plan(row.optional_text(1)?.as_deref());
                kept_plan = kept_plan.least(&next);
            }
        }
    }
    let limit = allowances.included.plus(&kept_plan).plus(&kept_extra);
    Ok(Parts { plan, extra, limit })
}
