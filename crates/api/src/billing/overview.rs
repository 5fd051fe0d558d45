//! The balance, the credits spent, and the latest lines of the ledger.

use axum::Json;
use axum::extract::State;
use billing::lots;
use domain::customer::TrialState;
use domain::id::{CustomerId, KeyId, LotId};
use domain::lots::{Lot, LotSource};
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use failures::Failure;
use store::ledger_pages::LedgerQuery;
use store::usage::CreditOverview;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::fields::RequestQuery;
use web::trial;

use super::ledger::{self, EntryOut};
use crate::ApiState;
use crate::usage_scope::{self, UsageScope, Wanted};

/// The number of ledger lines in the overview.
const ENTRIES: i64 = 50;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_billing))
}

/// Whose spending to show.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BillingQuery {
    /// Whose `spend` and `ledger`: the customer's (the default), or those of one key. A limited key
    /// sees its own.
    #[param(schema_with = usage_scope::described)]
    scope: Option<UsageScope>,
    /// Only those of this key.
    #[param(value_type = Option<String>, format = "key-id")]
    key_id: Option<KeyId>,
}

impl RequestQuery for BillingQuery {}

/// An overview of a customer's credits.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct Billing {
    /// Whose `spend` and `ledger` these are. `balance` and `held` are always the customer's: all
    /// keys spend from one balance.
    #[schema(schema_with = usage_scope::described)]
    scope: UsageScope,
    /// The key, with the scope `key`.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    /// The credits that can still be spent.
    balance: i64,
    /// The credits held for running calls and exports.
    held: i64,
    /// Credits that a refund or dispute took back after they had been spent. The next credits pay
    /// it first; until then calls are refused with 402. Greater than 0 only while `balance` is 0.
    debt: i64,
    /// The lots that make up `balance`, in the order of spending: those that expire soonest first,
    /// those that do not expire last.
    lots: Vec<LotOut>,
    /// What expires next; null if no credits expire.
    next_expiring: Option<ExpiringOut>,
    spend: SpendOut,
    /// The latest 50 lines of the ledger, newest first; `GET /v1/billing/ledger` has all of them.
    ledger: Vec<EntryOut>,
    trial: Trial,
    /// The subscription; null without a plan.
    subscription: Option<SubscriptionOut>,
}

/// Credits that were granted together: `granted` = `left` + `spent` + `expired` + `taken`.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct LotOut {
    /// The id of the lot, which the ledger calls `lot_id`.
    #[schema(value_type = String)]
    lot_id: LotId,
    /// Why they were granted.
    #[schema(schema_with = web::words::lot_source)]
    source: LotSource,
    /// What they belong to, such as an order or a plan; null if nothing.
    reference: Option<String>,
    /// The credits granted.
    granted: i64,
    /// The credits that can still be spent.
    left: i64,
    /// The credits that calls and exports were charged or hold.
    spent: i64,
    /// The credits that expired.
    expired: i64,
    /// The credits that were taken back with their payment.
    taken: i64,
    /// When the rest expires; null if it does not.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// When they were granted.
    #[schema(value_type = String, format = DateTime)]
    granted_at: Timestamp,
}

/// Credits that expire at the same time.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ExpiringOut {
    /// How many of `balance` expire then, unless they are spent before.
    credits: i64,
    /// When they expire.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

impl ExpiringOut {
    /// The first to expire of these lots.
    fn of(lots: &[Lot]) -> Option<Self> {
        let expires_at = lots.iter().filter_map(|lot| lot.expires_at).min()?;
        let same = lots.iter().filter(|lot| lot.expires_at == Some(expires_at));
        let credits = same.map(|lot| lot.left).fold(0, i64::saturating_add);
        Some(Self { credits, expires_at })
    }
}

impl From<Lot> for LotOut {
    fn from(lot: Lot) -> Self {
        Self {
            lot_id: lot.id,
            source: lot.source,
            reference: lot.reference,
            granted: lot.granted,
            left: lot.left,
            spent: lot.spent,
            expired: lot.expired,
            taken: lot.taken,
            expires_at: lot.expires_at,
            granted_at: lot.granted_at,
        }
    }
}

/// Credits spent.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SpendOut {
    /// Since midnight UTC.
    today: i64,
    last_7_days: i64,
    last_30_days: i64,
}

/// The free trial.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Trial {
    /// `none`, `pending` or `granted`.
    #[schema(schema_with = web::words::trial_state)]
    state: TrialState,
    /// Credits that the trial granted, or that confirming the email address grants; 0 without a
    /// trial.
    credits: i64,
}

/// The subscription in force.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscriptionOut {
    /// The plan's id.
    plan_id: String,
    #[schema(schema_with = web::words::subscription_status)]
    status: SubscriptionStatus,
}

/// Shows the balance, the credits spent, and the latest changes. A limited key sees its own
/// charges.
#[utoipa::path(
    get, path = "/v1/billing", tag = "billing", params(BillingQuery),
    responses((status = 200, body = Billing))
)]
async fn get_billing(
    State(api): State<ApiState>,
    caller: Caller,
    Query(query): Query<BillingQuery>,
) -> Result<Json<Billing>, ApiError> {
    let wanted = Wanted { scope: query.scope, key_id: query.key_id };
    let of = wanted.by(&api, &caller, UsageScope::Customer).await?;
    let customer = caller.customer;
    let found = store::customers::find_by_id(&api.store, customer).await?;
    let state = found.ok_or(ApiError::Failure(Failure::InvalidKey))?.trial;
    // What the customer bought is nothing of a limited key's.
    let is_limited = caller.key().is_some_and(|key| key.is_limited);
    let lots = if is_limited { Vec::new() } else { lots::list(&api.billing, customer).await? };
    let now = api.clock.now();
    let overview = store::usage::overview(&api.store, of, now.day()).await?;
    let CreditOverview { balance, spend } =
        overview.ok_or(ApiError::Failure(Failure::InvalidKey))?;
    let lines = LedgerQuery { of, kind: None, before: None, limit: ENTRIES, now };
    let entries = store::ledger_pages::page(&api.store, &lines).await?.unwrap_or_default();
    Ok(Json(Billing {
        scope: UsageScope::of_key(of.key),
        key_id: of.key,
        balance: balance.available.whole(),
        held: balance.held.whole(),
        debt: balance.debt.whole(),
        next_expiring: ExpiringOut::of(&lots),
        lots: lots.into_iter().map(LotOut::from).collect(),
        spend: SpendOut {
            today: spend.today.whole(),
            last_7_days: spend.last_7_days.whole(),
            last_30_days: spend.last_30_days.whole(),
        },
        ledger: ledger::shown(entries, now),
        trial: Trial { state, credits: trial::credits(&api.web, customer, state).await? },
        subscription: subscription(&api, customer).await?,
    }))
}

/// The plan of a subscription that has not ended.
async fn subscription(
    api: &ApiState,
    customer: CustomerId,
) -> Result<Option<SubscriptionOut>, ApiError> {
    let known = store::subscriptions::find(&api.store, customer).await?;
    let live = known.map(|known| known.view).filter(|view| view.status.is_live());
    Ok(live.and_then(|view| {
        let plan_id = view.plan_id()?.to_owned();
        Some(SubscriptionOut { plan_id, status: view.status })
    }))
}
