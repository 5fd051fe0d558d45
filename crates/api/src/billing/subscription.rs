//! The subscription: what is offered, what a customer has, and the pages on which it is bought and
//! managed.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use billing::decide::SLOTS_MAX;
use billing::offered_prices::{self, PricedOffer};
use billing::plans::{self, OfferedItem};
use billing::subscribe::{self, PlanChoice};
use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use domain::plan::PlanVersion;
use domain::platform::Platform;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use failures::{Failure, FieldProblem};
use serde_json::{Value, json};
use settings::billing::{CURRENCY, INTERVAL, Plan};
use store::slot_limits::SlotLimits;
use store::subscriptions::{DisplacedAccount, SubscriptionView};
use utoipa::openapi::schema::Schema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{Json, NoQuery};
use web::fields::RequestBody;
use web::own_requests::NotKept;
use web::words;

use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_subscription_plans))
        .routes(routes!(subscribe))
        .routes(routes!(get_subscription))
        .routes(routes!(open_portal))
}

/// What can be subscribed to.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscriptionPlans {
    bundles: Vec<OfferedPlanOut>,
    /// The monthly price of one more account, for each platform that sells them.
    slot_addon: Vec<SlotPriceOut>,
    /// Whether payments are possible on this deployment.
    processor_configured: bool,
}

/// A plan: credits for each paid month, and accounts in addition to those that every customer has.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct PlanOut {
    plan_id: String,
    name: String,
    price_cents: i64,
    /// Always `usd`.
    currency: &'static str,
    /// Always `month`.
    interval: &'static str,
    monthly_credits: i64,
    /// The accounts that the plan adds, by platform.
    #[schema(value_type = BTreeMap<String, i64>)]
    platforms: BTreeMap<Platform, i64>,
}

/// A plan that is for sale.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct OfferedPlanOut {
    #[serde(flatten)]
    plan: PlanOut,
    /// Whether it can be subscribed or changed to. False while its price at the payment processor
    /// is not the one here.
    available: bool,
}

/// The price of an extra slot.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SlotPriceOut {
    #[schema(schema_with = words::platform)]
    platform: Platform,
    /// The price per `interval`.
    price_cents: i64,
    /// Always `usd`.
    currency: &'static str,
    /// Always `month`.
    interval: &'static str,
    /// Whether more of them can be bought. False while their price at the payment processor is not
    /// the one here.
    available: bool,
}

impl From<&Plan> for PlanOut {
    fn from(plan: &Plan) -> Self {
        let accounts = |platform: Platform| (platform, plan.platforms.of(platform));
        Self {
            plan_id: plan.id.clone(),
            name: plan.name.clone(),
            price_cents: plan.price_cents,
            currency: CURRENCY,
            interval: INTERVAL,
            monthly_credits: plan.monthly_credits,
            platforms: Platform::all().into_iter().map(accounts).collect(),
        }
    }
}

impl PlanOut {
    /// A version as it was sold. If the plan is no longer configured, its id is used as its name.
    fn of_version(api: &ApiState, version: &PlanVersion) -> Self {
        let accounts = |platform: Platform| (platform, version.accounts.on(platform));
        let mut configured = api.config.plans.iter();
        let plan = configured.find(|plan| plan.id == version.plan_id);
        Self {
            plan_id: version.plan_id.clone(),
            name: plan.map_or_else(|| version.plan_id.clone(), |plan| plan.name.clone()),
            price_cents: version.price_cents,
            currency: CURRENCY,
            interval: INTERVAL,
            monthly_credits: version.monthly_credits,
            platforms: Platform::all().into_iter().map(accounts).collect(),
        }
    }
}

/// Lists the plans, and what extra slots cost.
#[utoipa::path(
    get, path = "/v1/billing/subscriptions/plans", tag = "billing",
    responses((status = 200, body = SubscriptionPlans))
)]
async fn list_subscription_plans(
    State(api): State<ApiState>,
    _caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<SubscriptionPlans>, ApiError> {
    let unavailable = offered_prices::unavailable(&api.billing).await?;
    let plan = |plan| OfferedPlanOut {
        plan: PlanOut::from(plan),
        available: unavailable.allow(PricedOffer::Item(OfferedItem::Plan(plan))),
    };
    let price = |platform: Platform| {
        let offered = plans::slot(&api.billing, platform)?;
        let (price_cents, currency, interval) = (offered.cents(), CURRENCY, INTERVAL);
        let available = unavailable.allow(PricedOffer::Item(offered));
        Some(SlotPriceOut { platform, price_cents, currency, interval, available })
    };
    Ok(axum::Json(SubscriptionPlans {
        bundles: plans::sold(&api.config).map(plan).collect(),
        slot_addon: Platform::all().into_iter().filter_map(price).collect(),
        processor_configured: api.config.processor.is_configured(),
    }))
}

/// What to subscribe to.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SubscribeIn {
    /// A plan of `GET /v1/billing/subscriptions/plans`.
    plan_id: String,
    /// Extra slots from the start, for `platform_alpha` and `platform_beta`.
    #[serde(default)]
    #[schema(schema_with = extra_slots_schema)]
    slots: BTreeMap<String, i64>,
}

impl RequestBody for SubscribeIn {}

/// A page of the processor.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscribeOut {
    /// Where to send the customer.
    url: String,
    /// The `session_id` that the success page receives.
    session_id: String,
}

/// Extra slots of a new subscription, for the platforms that sell them.
fn extra_slots_schema() -> Schema {
    let count = json!({
        "type": "integer", "minimum": 0, "maximum": SLOTS_MAX, "description": "Extra slots on the platform.",
    });
    let sold = Platform::all().into_iter().filter(|platform| platform.sells_slots());
    let properties: serde_json::Map<String, Value> = sold
        .flat_map(|platform| {
            // The same where a platform has kept the name that it is stored under.
            [platform.as_str(), platform.stored_name()].map(|name| (name.to_owned(), count.clone()))
        })
        .collect();
    words::of(json!({
        "type": "object", "additionalProperties": false, "properties": properties,
        "description": "Extra slots from the start, for each platform that sells them.",
    }))
}

/// Extra slots by platform, which may be named by either of its names, but once.
fn extra_slots(given: &BTreeMap<String, i64>) -> Result<Vec<(Platform, i64)>, FieldProblem> {
    let mut slots = BTreeMap::new();
    for (name, count) in given {
        let refused = |message: String| {
            FieldProblem::new("body", "slots", FieldErrorKind::NotAllowed, message)
        };
        let platform: Platform =
            name.parse().map_err(|_| refused(format!("{name} is no platform")))?;
        if slots.insert(platform, *count).is_some() {
            return Err(refused(format!("names {platform} twice")));
        }
    }
    Ok(slots.into_iter().filter(|(_, count)| *count > 0).collect())
}

/// Opens the processor's page for buying a plan. The same request returns the same page; another
/// choice replaces it. Once it is paid, the accounts and the credits of the first month are
/// available.
#[utoipa::path(
    post, path = "/v1/billing/subscribe", tag = "billing", request_body = SubscribeIn,
    responses(
        (status = 200, body = SubscribeOut),
    )
)]
async fn subscribe(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    Json(wanted): Json<SubscribeIn>,
) -> Result<(Extension<NotKept>, axum::Json<SubscribeOut>), ApiError> {
    let plan = plans::plan(&api.billing, &wanted.plan_id)?;
    let slots = extra_slots(&wanted.slots)?;
    let page =
        subscribe::subscribe(&api.billing, caller.customer, &PlanChoice { plan, slots }).await?;
    let out = SubscribeOut { url: page.url, session_id: page.session };
    // A repetition must notice when the page has been closed.
    Ok((Extension(NotKept), axum::Json(out)))
}

/// A customer's subscription.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct SubscriptionState {
    #[schema(schema_with = words::subscription_status)]
    status: SubscriptionStatus,
    /// The plan that is paid until `current_period_end`, with the price and credits at which it was
    /// sold; null without one.
    plan: Option<PlanOut>,
    /// Its id.
    plan_id: Option<String>,
    /// The plan that renews at `current_period_end`; null if the subscription ends then.
    next_plan: Option<PlanOut>,
    /// Its id. If it differs from `plan_id`, a change is pending.
    next_plan_id: Option<String>,
    /// The accounts that may be active, by platform, including those that every customer has.
    #[schema(value_type = BTreeMap<String, i64>)]
    entitlements: BTreeMap<Platform, i64>,
    /// The billing date.
    #[schema(value_type = Option<String>, format = DateTime)]
    current_period_end: Option<Timestamp>,
    /// Whether it ends at the end of its period.
    cancel_at_period_end: bool,
    /// When it ends, if known.
    #[schema(value_type = Option<String>, format = DateTime)]
    cancels_at: Option<Timestamp>,
    /// Accounts that will become inactive at `current_period_end`, because the plan that renews has
    /// no slots for them.
    over_limit: Vec<OverLimitAccount>,
    /// The credits that can still be spent.
    balance: i64,
    /// Use `balance`: the same value under an older name.
    #[schema(deprecated)]
    credit_balance: i64,
    /// Whether payments are possible on this deployment.
    processor_configured: bool,
}

/// An account of the customer.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct OverLimitAccount {
    #[schema(value_type = String)]
    creator_id: CreatorId,
    #[schema(schema_with = words::platform)]
    platform: Platform,
}

impl From<DisplacedAccount> for OverLimitAccount {
    fn from(displaced: DisplacedAccount) -> Self {
        Self { creator_id: displaced.creator_id, platform: displaced.platform }
    }
}

/// Shows the plan that is paid for, what it includes, and what renews when.
#[utoipa::path(
    get, path = "/v1/billing/subscription", tag = "billing",
    responses((status = 200, body = SubscriptionState))
)]
async fn get_subscription(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<SubscriptionState>, ApiError> {
    caller.refuse_limited()?;
    Ok(axum::Json(state(&api, caller.customer).await?))
}

/// The subscription as it is now.
pub(super) async fn state(
    api: &ApiState,
    customer: CustomerId,
) -> Result<SubscriptionState, ApiError> {
    let usage = store::slot_limits::usage(&api.store, customer, &api.allowances).await?;
    let balance = store::usage::balance(&api.store, customer)
        .await?
        .ok_or(ApiError::Failure(Failure::InvalidKey))?;
    let known = usage.subscription.as_ref().map(|known| &known.view);
    let status = known.map_or(SubscriptionStatus::None, |view| view.status);
    let live = known.filter(|view| view.status.is_live());
    let next = match live {
        Some(view) => next(api, customer, view, &usage.limits).await?,
        None => NextPeriod::default(),
    };
    let limit = |platform: Platform| (platform, usage.limits.limit.on(platform));
    let paid = live.and_then(|view| view.paid.as_ref());
    Ok(SubscriptionState {
        status,
        plan: paid.map(|version| PlanOut::of_version(api, version)),
        plan_id: live.and_then(SubscriptionView::plan_id).map(str::to_owned),
        next_plan: next.version.as_ref().map(|version| PlanOut::of_version(api, version)),
        next_plan_id: next.version.map(|version| version.plan_id),
        entitlements: Platform::all().into_iter().map(limit).collect(),
        current_period_end: live.and_then(|view| view.period_end),
        cancel_at_period_end: live.is_some_and(SubscriptionView::ends_with_period),
        cancels_at: known.and_then(|view| view.cancels_at),
        over_limit: next.over_limit.into_iter().map(OverLimitAccount::from).collect(),
        balance: balance.available.whole(),
        credit_balance: balance.available.whole(),
        processor_configured: api.config.processor.is_configured(),
    })
}

/// The state after the end of the period.
#[derive(Default)]
struct NextPeriod {
    /// `None` if the subscription ends, or if the version of its price is unknown.
    version: Option<PlanVersion>,
    over_limit: Vec<DisplacedAccount>,
}

async fn next(
    api: &ApiState,
    customer: CustomerId,
    view: &SubscriptionView,
    limits: &SlotLimits,
) -> Result<NextPeriod, ApiError> {
    let item = view.plan_item().filter(|_| !view.ends_with_period());
    let version = match item {
        Some(item) => store::plan_versions::find(&api.store, &item.price_id).await?,
        None => None,
    };
    let mut limit = api.allowances.included.clone();
    if !view.ends_with_period() {
        let plan = version.as_ref().map(|version| version.accounts.clone()).unwrap_or_default();
        limit = limit.plus(&plan).plus(&limits.extra);
    }
    let over_limit = store::slot_limits::over(&api.store, customer, &limit).await?;
    Ok(NextPeriod { version, over_limit })
}

/// A page of the processor.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PortalOut {
    /// Where to send the customer soon; the address works once.
    url: String,
}

/// Opens the processor's portal, where cards and invoices are managed and a subscription is
/// cancelled. The plan is changed with `POST /v1/billing/subscription/plan` instead, and slots with
/// `POST /v1/billing/slots`.
#[utoipa::path(
    post, path = "/v1/billing/portal", tag = "billing",
    responses(
        (status = 200, body = PortalOut),
    )
)]
async fn open_portal(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    _: NoQuery,
) -> Result<(Extension<NotKept>, axum::Json<PortalOut>), ApiError> {
    let url = subscribe::portal(&api.billing, caller.customer).await?;
    // The page works once, so a repetition needs a new one.
    Ok((Extension(NotKept), axum::Json(PortalOut { url })))
}
