//! Notices: emails about what customers should know before it hurts them.
//!
//! Reasons are found in the background, from what is stored anyway, so that calls and changes do
//! nothing for them. One node looks at a time. A look that is cut off is made again from where the
//! last complete one ended, and each reason is told once.

use domain::id::{CustomerId, EntryId};
use domain::notice::reached_steps;
use domain::time::Timestamp;
use domain::top_up::TopUpWait;
use emails::{CustomerNotice, EmailRequest};
use failures::Failure;
use runtime::audit;
use store::notice_reasons::{self, AuditEvent, UsedBudget};
use store::sent_notices::{self, NoticeLook, NoticeReason};
use tokio_util::sync::CancellationToken;

use crate::BillingState;

const SECONDS_PER_DAY: i64 = 86_400;
/// How long sent notices are remembered.
const KEPT_S: i64 = 100 * SECONDS_PER_DAY;

/// Looks for reasons at the configured pace until the service stops.
pub fn start(billing: &BillingState, stop: &CancellationToken) {
    let every = billing.config.notices.every_s;
    if every == 0 {
        return;
    }
    let (billing, stop) = (billing.clone(), stop.clone());
    billing.tasks.clone().spawn_control(async move {
        let mut timer = tokio::time::interval(std::time::Duration::from_secs(every));
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timer.tick() => look(&billing).await,
            }
        }
    });
}

/// What a look has told.
#[derive(Default)]
struct ToldNotices {
    emails: usize,
    /// Whether there were more events than one look reads.
    is_cut_off: bool,
}

/// Looks once, unless a node has looked recently.
pub async fn look(billing: &BillingState) {
    let every_s = i64::try_from(billing.config.notices.every_s).unwrap_or(i64::MAX);
    let now = billing.clock.now();
    // Timers of nodes differ by a little: half of the pause has to have passed.
    let looked = match sent_notices::claim_look(&billing.store, now, every_s / 2).await {
        Ok(None) => return,
        Ok(Some(claimed)) => tell_all(billing, claimed, now).await,
        Err(error) => Err(error.into()),
    };
    match looked {
        Ok(0) => {}
        Ok(notices) => {
            tracing::info!(notices, "customers were sent notices");
            billing.jobs.wake();
        }
        Err(error) => tracing::warn!(%error, "reasons for notices could not be looked for"),
    }
}

/// Tells everything that there is to tell, and returns the number of emails.
async fn tell_all(
    billing: &BillingState,
    look: NoticeLook,
    now: Timestamp,
) -> Result<usize, Failure> {
    let store = &billing.store;
    let threshold = billing.config.notices.low_balance();
    if look.is_first {
        sent_notices::skip_low_balances(store, threshold, now).await?;
    }
    sent_notices::forget_risen_balances(store, threshold).await?;
    let mut told = low_balances(billing, now).await?;
    told += waiting_top_ups(billing, now).await?;
    told += budgets(billing, now).await?;
    told += expiring_credits(billing, now).await?;
    told += expiring_cards(billing, now).await?;
    let events = events(billing, look.since, now).await?;
    sent_notices::delete_old(store, now.plus_seconds(-KEPT_S)).await?;
    if !events.is_cut_off {
        // Otherwise the next look reads the same time again.
        sent_notices::end_look(store, now).await?;
    }
    Ok(told + events.emails)
}

/// Tells what has happened since a time, as opposed to what is so now.
async fn events(
    billing: &BillingState,
    since: Timestamp,
    now: Timestamp,
) -> Result<ToldNotices, Failure> {
    let mut told = ToldNotices::default();
    audit_events(billing, since, now, &mut told).await?;
    payments(billing, since, now, &mut told).await?;
    exports(billing, since, now, &mut told).await?;
    Ok(told)
}

/// Enqueues the email, unless its subjects were told before. Returns the number of emails.
async fn tell(
    billing: &BillingState,
    customer: CustomerId,
    subjects: &[String],
    notice: CustomerNotice,
    at: Timestamp,
) -> Result<usize, Failure> {
    let reason = NoticeReason { kind: notice.kind(), customer, subjects, at };
    let email = emails::job(&billing.jobs, &EmailRequest::Notice { customer, notice });
    let sent = sent_notices::send_once(&billing.store, &reason, &email).await?;
    Ok(usize::from(sent))
}

async fn low_balances(billing: &BillingState, now: Timestamp) -> Result<usize, Failure> {
    let default = billing.config.notices.low_balance();
    let mut told = 0;
    for low in notice_reasons::low_balances(&billing.store, default, now).await? {
        let notice = CustomerNotice::LowBalance { threshold: low.threshold.whole() };
        // One notice for each fall: the row is deleted when the balance has risen.
        told += tell(billing, low.customer, &[String::new()], notice, now).await?;
    }
    Ok(told)
}

/// Each day once, as long as it lasts: calls will be refused although the customer relies on it.
async fn waiting_top_ups(billing: &BillingState, now: Timestamp) -> Result<usize, Failure> {
    let subject = format!("top_up:{}", now.day());
    let mut told = 0;
    for waiting in notice_reasons::waiting_top_ups(&billing.store, &subject, now).await? {
        let TopUpWait { reason, until } = waiting.wait;
        let notice = CustomerNotice::TopUpWaits { reason, until };
        told +=
            tell(billing, waiting.customer, std::slice::from_ref(&subject), notice, now).await?;
    }
    Ok(told)
}

async fn budgets(billing: &BillingState, now: Timestamp) -> Result<usize, Failure> {
    let mut told = 0;
    let mut after = None;
    loop {
        let (used, last) = notice_reasons::used_budgets(&billing.store, now, after).await?;
        for key in used {
            told += budget(billing, key, now).await?;
        }
        after = last;
        if after.is_none() {
            return Ok(told);
        }
    }
}

async fn budget(
    billing: &BillingState,
    used: UsedBudget,
    now: Timestamp,
) -> Result<usize, Failure> {
    let steps = reached_steps(used.used, used.budget);
    let Some(percent) = steps.last().copied() else { return Ok(0) };
    let (key, budget) = (used.key, used.budget);
    let month = now.day().month_start();
    // Another budget is told about anew.
    let subject = |step: &i64| format!("{key}:{month}:{budget}:{step}");
    let subjects: Vec<String> = steps.iter().map(subject).collect();
    let notice = CustomerNotice::KeyBudget {
        key,
        name: used.name,
        percent,
        used: used.used,
        budget,
        resets_at: now.day().next_month_start().start(),
    };
    tell(billing, used.customer, &subjects, notice, now).await
}

async fn expiring_credits(billing: &BillingState, now: Timestamp) -> Result<usize, Failure> {
    let days = billing.config.notices.expiring_days;
    let until = now.plus_seconds(days.saturating_mul(SECONDS_PER_DAY));
    let mut told = 0;
    for customer in notice_reasons::with_expiring_lots(&billing.store, now, until).await? {
        // What was spent since is attributed first: it may have been these credits.
        let entry = EntryId::new(now, billing.random.bytes());
        store::lots::settle(&billing.store, customer, entry, now).await?;
        let mut lots = store::lots::list(&billing.store, customer, now).await?;
        lots.retain(|lot| lot.left > 0 && lot.expires_at.is_some_and(|end| end <= until));
        let Some(first_at) = lots.iter().filter_map(|lot| lot.expires_at).min() else { continue };
        let credits = lots.iter().map(|lot| lot.left).fold(0, i64::saturating_add);
        let subjects: Vec<String> = lots.iter().map(|lot| lot.id.to_string()).collect();
        let notice = CustomerNotice::ExpiringCredits { credits, first_at };
        told += tell(billing, customer, &subjects, notice, now).await?;
    }
    Ok(told)
}

async fn expiring_cards(billing: &BillingState, now: Timestamp) -> Result<usize, Failure> {
    let (year, month) = now.day().year_and_month();
    let this_month = year.saturating_mul(12).saturating_add(month);
    let mut told = 0;
    for card in notice_reasons::expiring_cards(&billing.store, this_month).await? {
        let notice = CustomerNotice::ExpiringCard {
            brand: card.brand,
            last4: card.last4,
            month: card.exp_month,
            year: card.exp_year,
        };
        told += tell(billing, card.customer, &[card.subject], notice, now).await?;
    }
    Ok(told)
}

async fn audit_events(
    billing: &BillingState,
    since: Timestamp,
    now: Timestamp,
    told: &mut ToldNotices,
) -> Result<(), Failure> {
    let found = notice_reasons::audit_events(&billing.store, since).await?;
    told.is_cut_off |= notice_reasons::is_cut_off(found.len());
    for event in found {
        let Some(notice) = notice_of(&event) else { continue };
        told.emails += tell(billing, event.customer, &[event.id], notice, now).await?;
    }
    Ok(())
}

/// What a customer is told about an entry of its audit list; `None` if nothing.
fn notice_of(event: &AuditEvent) -> Option<CustomerNotice> {
    let fields = audit::fields(&event.details);
    let text = |name: &str| {
        let value = fields.get(name).and_then(serde_json::Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    match event.action.as_str() {
        audit::PASSWORD_CHANGED => Some(CustomerNotice::PasswordChanged { at: event.at }),
        audit::SUBSCRIPTION_CHANGED => {
            (text("status") == "canceled").then_some(CustomerNotice::SubscriptionEnded)
        }
        audit::KEY_CREATED | audit::KEY_ROTATED => Some(CustomerNotice::KeyChanged {
            key: text("key_id"),
            name: text("name"),
            is_rotation: event.action == audit::KEY_ROTATED,
            at: event.at,
        }),
        _ => None,
    }
}

async fn payments(
    billing: &BillingState,
    since: Timestamp,
    now: Timestamp,
    told: &mut ToldNotices,
) -> Result<(), Failure> {
    let found = notice_reasons::automatic_payments(&billing.store, since).await?;
    told.is_cut_off |= notice_reasons::is_cut_off(found.len());
    for paid in found {
        let notice = CustomerNotice::Paid {
            is_top_up: paid.is_top_up,
            amount_cents: paid.amount_cents,
            currency: paid.currency,
            credits: paid.credits,
        };
        told.emails += tell(billing, paid.customer, &[paid.sale], notice, now).await?;
    }
    Ok(())
}

async fn exports(
    billing: &BillingState,
    since: Timestamp,
    now: Timestamp,
    told: &mut ToldNotices,
) -> Result<(), Failure> {
    let found = notice_reasons::finished_exports(&billing.store, since).await?;
    told.is_cut_off |= notice_reasons::is_cut_off(found.len());
    for done in found {
        let notice = CustomerNotice::ExportFinished {
            export: done.export.to_string(),
            dataset: done.dataset,
            account: done.account,
            is_complete: done.state == domain::export::ExportState::Completed,
        };
        told.emails +=
            tell(billing, done.customer, &[done.export.to_string()], notice, now).await?;
    }
    Ok(())
}
