//! The balance, what was spent, and the ledger at a glance.

use axum::Json;
use axum::extract::State;
use domain::credits::Credits;
use domain::customer::TrialState;
use domain::id::{CustomerId, EntryId, KeyId};
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use store::ledger::Entry;
use store::usage::{Spend, UsageOf};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::NoQuery;

/// Entries that the overview shows.
const ENTRIES: i64 = 50;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_billing))
}

/// A customer's credits at a glance.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct Billing {
    /// What may still be spent.
    balance: i64,
    /// What running calls and exports have set aside.
    held: i64,
    spend: SpendOut,
    /// The latest changes, newest first; `usage` and `export` entries sum up one UTC day. Empty for a limited key.
    ledger: Vec<EntryOut>,
    trial: Trial,
    /// The subscription; none without a plan.
    subscription: Option<SubscriptionOut>,
}

/// Credits spent.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SpendOut {
    /// Since midnight UTC.
    today: i64,
    last_7_days: i64,
    last_30_days: i64,
}

/// One change of the balance.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct EntryOut {
    /// Absent for `usage` and `export`, which are sums and not entries of their own.
    #[schema(value_type = Option<String>)]
    entry_id: Option<EntryId>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `trial`, `pack`, `plan`, `usage`, `export`, `refund`, `dispute` or `adjustment`.
    kind: String,
    /// Added when positive, taken when negative.
    amount: i64,
    /// The balance after it; absent for `usage` and `export`.
    balance_after: Option<i64>,
    reference: Option<String>,
}

/// The free trial.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Trial {
    /// `none`, `pending` or `granted`.
    #[schema(schema_with = crate::api::words::trial_state)]
    state: TrialState,
    /// Credits of the trial.
    credits: i64,
}

/// The subscription in force.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscriptionOut {
    /// The plan's id.
    plan_id: String,
    #[schema(schema_with = crate::api::words::subscription_status)]
    status: SubscriptionStatus,
}

impl From<Entry> for EntryOut {
    fn from(entry: Entry) -> Self {
        Self {
            entry_id: entry.id,
            at: entry.at,
            kind: entry.kind,
            amount: entry.amount.whole(),
            balance_after: entry.balance_after.map(Credits::whole),
            reference: entry.reference,
        }
    }
}

/// Shows the balance, what was spent, and the latest changes. A limited key sees what it spent itself, and no ledger.
#[utoipa::path(get, path = "/v1/billing", tag = "billing", responses((status = 200, body = Billing)))]
async fn get_billing(
    State(app): State<App>,
    caller: Caller,
    _: NoQuery,
) -> Result<Json<Billing>, ApiError> {
    let customer = caller.customer;
    let found = store::customers::find_by_id(&app.store, customer).await?;
    let trial = found.ok_or(ApiError::InvalidKey)?.trial;
    let today = app.clock.now().day();
    let overview = store::usage::overview(&app.store, customer, today).await?;
    let (balance, spent_by_all) = overview.ok_or(ApiError::InvalidKey)?;
    let (spend, entries) = match caller.key().filter(|key| key.is_limited) {
        Some(key) => (spend_of_key(&app, customer, key.id).await?, Vec::new()),
        None => (spent_by_all, store::ledger::recent(&app.store, customer, ENTRIES).await?),
    };
    Ok(Json(Billing {
        balance: balance.available.whole(),
        held: balance.held.whole(),
        spend: SpendOut {
            today: spend.today.whole(),
            last_7_days: spend.last_7_days.whole(),
            last_30_days: spend.last_30_days.whole(),
        },
        ledger: entries.into_iter().map(EntryOut::from).collect(),
        trial: Trial { state: trial, credits: app.config.credits.trial },
        subscription: subscription(&app, customer).await?,
    }))
}

/// What calls and exports of one key cost: all that a limited key is shown of the spending.
async fn spend_of_key(app: &App, customer: CustomerId, key: KeyId) -> Result<Spend, ApiError> {
    let of = UsageOf { customer, key: Some(key), only_allowed: false };
    let today = app.clock.now().day();
    let days = store::usage::daily(&app.store, of, today, 30).await?;
    let sum = |count: usize| {
        let newest = days.iter().rev().take(count);
        Credits::from_whole(newest.map(|day| day.credits.whole()).sum())
    };
    Ok(Spend { today: sum(1), last_7_days: sum(7), last_30_days: sum(30) })
}

/// The plan of a subscription that is not over.
async fn subscription(
    app: &App,
    customer: CustomerId,
) -> Result<Option<SubscriptionOut>, ApiError> {
    let known = store::subscriptions::find(&app.store, customer).await?;
    let live = known.map(|known| known.view).filter(|view| view.status.is_live());
    Ok(live.and_then(|view| {
        let plan_id = view.plan()?.1.to_owned();
        Some(SubscriptionOut { plan_id, status: view.status })
    }))
}
