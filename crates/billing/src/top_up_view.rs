//! Automatic top-up as its customer sees it: its settings, what it has charged today, what it is
//! about to charge, and why it waits.

use domain::id::CustomerId;
use domain::time::Timestamp;
use domain::top_up::{TopUpWait, packs};
use failures::Failure;
use store::top_up_settings::{self, TopUpSettings};
use store::top_ups::{self, TopUp};

use crate::BillingState;

/// The state of automatic top-up, as shown to a customer.
pub struct TopUpView {
    /// The settings, if it was ever turned on.
    pub settings: Option<TopUpSettings>,
    /// The cents of today's charges, including open ones.
    pub spent_today_cents: i64,
    /// The open charge.
    pub open: Option<TopUp>,
    /// What is charged now or within seconds, because the balance is below the threshold and no
    /// charge is open.
    pub due: Option<DueCharge>,
}

/// A charge that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueCharge {
    /// How many packs it buys.
    pub packs: i64,
    /// Their credits together.
    pub credits: i64,
    /// What the card is charged, in cents.
    pub cents: i64,
}

/// The state of automatic top-up for this customer.
pub async fn view(billing: &BillingState, customer: CustomerId) -> Result<TopUpView, Failure> {
    let now = billing.clock.now();
    let mut view = TopUpView {
        settings: top_up_settings::find(&billing.store, customer).await?,
        spent_today_cents: top_ups::spent_on(&billing.store, customer, now.day()).await?,
        open: top_ups::find_open(&billing.store, customer).await?,
        due: None,
    };
    let missing = match &view.settings {
        Some(settings) if settings.enabled => {
            let found = store::usage::balance(&billing.store, customer).await?;
            found.map_or(0, |has| {
                let own = has.available.whole() + has.held.whole() - has.debt.whole();
                settings.threshold.whole() - own
            })
        }
        _ => 0,
    };
    view.due = due(billing, &view, missing, now);
    if missing <= 0
        && let Some(settings) = &mut view.settings
    {
        settings.wait = None;
    }
    Ok(view)
}

/// What the next check charges, as far as can be seen without making the claim.
fn due(
    billing: &BillingState,
    view: &TopUpView,
    missing: i64,
    now: Timestamp,
) -> Option<DueCharge> {
    let settings = view.settings.as_ref()?;
    let is_over = |wait: TopUpWait| wait.until.is_some_and(|until| until <= now);
    let is_held_up = settings.next_attempt_at > now
        || settings.wait.is_some_and(|wait| !is_over(wait))
        || view.open.is_some();
    if missing <= 0 || is_held_up {
        return None;
    }
    let pack = billing.config.packs.iter().find(|pack| pack.id == settings.pack_id)?;
    let cents = settings.daily_cap_cents - view.spent_today_cents;
    let packs = packs(missing, pack.credits, pack.price_cents, cents);
    (packs > 0).then(|| DueCharge {
        packs,
        credits: packs.saturating_mul(pack.credits),
        cents: packs.saturating_mul(pack.price_cents),
    })
}
