//! The subscription: what is offered, what a customer has, and the pages on which it is bought and looked after.

use std::collections::BTreeMap;

use axum::extract::State;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::words;
use crate::app::App;
use crate::auth::{Caller, Manager};
use crate::billing::decide::{Target, Wish};
use crate::billing::subscribe::{self, Choice};
use crate::billing::{changes, plans};
use crate::config::billing::{CURRENCY, INTERVAL, Plan};
use crate::error::ApiError;
use crate::extract::{Json, NoQuery};
use crate::fields::RequestBody;
use crate::own_requests::ChangeOfRequest;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_subscription_plans))
        .routes(routes!(subscribe))
        .routes(routes!(get_subscription))
        .routes(routes!(change_plan))
        .routes(routes!(open_portal))
}

/// What can be subscribed to.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscriptionPlans {
    bundles: Vec<PlanOut>,
    /// What one more account costs each month, for each platform that sells them.
    slot_addon: Vec<SlotPriceOut>,
    /// False where nothing can be paid.
    processor_configured: bool,
}

/// A plan: credits for each paid month, and accounts on top of those that everybody has.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PlanOut {
    plan_id: String,
    name: String,
    price_cents: i64,
    /// `usd`.
    currency: &'static str,
    /// `month`.
    interval: &'static str,
    monthly_credits: i64,
    /// Accounts that the plan adds, for each platform.
    #[schema(value_type = BTreeMap<String, i64>)]
    platforms: BTreeMap<Platform, i64>,
}

/// What an extra slot costs.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SlotPriceOut {
    #[schema(schema_with = words::platform)]
    platform: Platform,
    /// For each `interval`.
    price_cents: i64,
    /// `usd`.
    currency: &'static str,
    /// `month`.
    interval: &'static str,
}

impl From<&Plan> for PlanOut {
    fn from(plan: &Plan) -> Self {
        let accounts = |platform: &Platform| (*platform, plan.platforms.of(*platform));
        Self {
            plan_id: plan.id.clone(),
            name: plan.name.clone(),
            price_cents: plan.price_cents,
            currency: CURRENCY,
            interval: INTERVAL,
            monthly_credits: plan.monthly_credits,
            platforms: Platform::ALL.iter().map(accounts).collect(),
        }
    }
}

/// Lists the plans, and what extra slots cost.
#[utoipa::path(
    get, path = "/v1/billing/subscriptions/plans", tag = "billing",
    responses((status = 200, body = SubscriptionPlans))
)]
async fn list_subscription_plans(
    State(app): State<App>,
    _caller: Caller,
    _: NoQuery,
) -> axum::Json<SubscriptionPlans> {
    let price = |platform: &Platform| {
        let price_cents = plans::slot(&app, *platform)?.cents();
        Some(SlotPriceOut {
            platform: *platform,
            price_cents,
            currency: CURRENCY,
            interval: INTERVAL,
        })
    };
    axum::Json(SubscriptionPlans {
        bundles: plans::sold(&app.config).map(PlanOut::from).collect(),
        slot_addon: Platform::ALL.iter().filter_map(price).collect(),
        processor_configured: app.config.processor.is_configured(),
    })
}

/// What to subscribe to.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SubscribeIn {
    /// One of `GET /v1/billing/subscriptions/plans`.
    plan_id: String,
    /// Extra slots from the beginning, for `platform_alpha` and `platform_beta`.
    #[serde(default)]
    #[schema(schema_with = words::extra_slots)]
    slots: BTreeMap<Platform, i64>,
}

impl RequestBody for SubscribeIn {}

/// A page of the processor's.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscribeOut {
    /// Where to send the customer.
    url: String,
    /// What the success page is given as `session_id`.
    session_id: String,
}

/// Opens the processor's page for buying a plan. The same request returns the same page; another choice replaces it.
/// Once it is paid, the accounts and the credits of the first month are available.
#[utoipa::path(
    post, path = "/v1/billing/subscribe", tag = "billing", request_body = SubscribeIn,
    responses(
        (status = 200, body = SubscribeOut),
    )
)]
async fn subscribe(
    State(app): State<App>,
    Manager(caller): Manager,
    Json(wanted): Json<SubscribeIn>,
) -> Result<axum::Json<SubscribeOut>, ApiError> {
    let plan = plans::plan(&app, &wanted.plan_id)?;
    let slots = wanted.slots.into_iter().filter(|(_, count)| *count > 0).collect();
    let page = subscribe::subscribe(&app, caller.customer, &Choice { plan, slots }).await?;
    Ok(axum::Json(SubscribeOut { url: page.url, session_id: page.session }))
}

/// What a customer has.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SubscriptionState {
    #[schema(schema_with = words::subscription_status)]
    status: SubscriptionStatus,
    /// The plan that is paid for; null without one.
    plan: Option<PlanOut>,
    /// Its id, also when it is no longer sold.
    plan_id: Option<String>,
    /// Accounts that may be in use, for each platform, with what everybody has.
    #[schema(value_type = BTreeMap<String, i64>)]
    entitlements: BTreeMap<Platform, i64>,
    /// The billing date.
    #[schema(value_type = Option<String>, format = DateTime)]
    current_period_end: Option<Timestamp>,
    /// Whether it ends with its period.
    cancel_at_period_end: bool,
    /// When it ends, where that is known.
    #[schema(value_type = Option<String>, format = DateTime)]
    cancels_at: Option<Timestamp>,
    /// Credits that may still be spent.
    balance: i64,
    /// Use `balance`: the same by an older name.
    #[schema(deprecated)]
    credit_balance: i64,
    /// False where nothing can be paid.
    processor_configured: bool,
}

/// Shows the plan, what it includes, and when it renews.
#[utoipa::path(
    get, path = "/v1/billing/subscription", tag = "billing",
    responses((status = 200, body = SubscriptionState))
)]
async fn get_subscription(
    State(app): State<App>,
    caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<SubscriptionState>, ApiError> {
    caller.refuse_limited()?;
    state(&app, caller.customer).await
}

async fn state(app: &App, customer: CustomerId) -> Result<axum::Json<SubscriptionState>, ApiError> {
    let standing = store::limits::standing(&app.store, customer, &app.allowances).await?;
    let balance = store::usage::balance(&app.store, customer).await?.ok_or(ApiError::InvalidKey)?;
    let view = standing.subscription.map(|known| known.view);
    let plan_id = view.as_ref().and_then(|view| view.plan()).map(|(_, plan)| plan.to_owned());
    let plan = app.config.plans.iter().find(|plan| Some(&plan.id) == plan_id.as_ref());
    let limit = |platform: &Platform| (*platform, standing.parts.limit.on(*platform));
    let period_end = view.as_ref().and_then(|view| view.period_end);
    let cancels_at = view.as_ref().and_then(|view| view.cancels_at);
    Ok(axum::Json(SubscriptionState {
        status: view.map_or(SubscriptionStatus::None, |view| view.status),
        plan: plan.map(PlanOut::from),
        plan_id,
        entitlements: Platform::ALL.iter().map(limit).collect(),
        current_period_end: period_end,
        cancel_at_period_end: cancels_at.is_some() && cancels_at == period_end,
        cancels_at,
        balance: balance.available.whole(),
        credit_balance: balance.available.whole(),
        processor_configured: app.config.processor.is_configured(),
    }))
}

/// Another plan.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PlanIn {
    /// One of `GET /v1/billing/subscriptions/plans`.
    plan_id: String,
}

impl RequestBody for PlanIn {}

/// Changes the plan. A dearer one is paid at once, for the rest of the period, and counts only if it is paid; a cheaper
/// one is credited on the next invoice. The billing date stays; the new plan's credits come with the next period.
#[utoipa::path(
    post, path = "/v1/billing/subscription/plan", tag = "billing", request_body = PlanIn,
    responses(
        (status = 200, description = "the subscription as it is now", body = SubscriptionState),
    )
)]
async fn change_plan(
    State(app): State<App>,
    Manager(caller): Manager,
    ChangeOfRequest(change): ChangeOfRequest,
    Json(wanted): Json<PlanIn>,
) -> Result<axum::Json<SubscriptionState>, ApiError> {
    let plan = plans::plan(&app, &wanted.plan_id)?;
    let wish = Wish {
        id: change,
        customer: caller.customer,
        actor: caller.actor(),
        creator: None,
        target: Target::Plan(plan.id.clone()),
    };
    changes::make(&app, wish).await?;
    state(&app, caller.customer).await
}

/// A page of the processor's.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PortalOut {
    /// Where to send the customer: for one use, soon.
    url: String,
}

/// Opens the processor's portal, where cards and invoices are managed and a subscription is canceled. The plan is not changed
/// there but with `POST /v1/billing/subscription/plan`, and slots with `POST /v1/billing/slots`.
#[utoipa::path(
    post, path = "/v1/billing/portal", tag = "billing",
    responses(
        (status = 200, body = PortalOut),
    )
)]
async fn open_portal(
    State(app): State<App>,
    Manager(caller): Manager,
    _: NoQuery,
) -> Result<axum::Json<PortalOut>, ApiError> {
    let url = subscribe::portal(&app, caller.customer).await?;
    Ok(axum::Json(PortalOut { url }))
}
