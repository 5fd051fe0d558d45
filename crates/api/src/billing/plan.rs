//! The plan of a subscription: changing it, and previewing the cost.

use axum::extract::State;
use billing::changes;
use billing::decide::{ChangeRequest, Target};
use billing::previews::{self, ChangePreview};
use domain::id::CustomerId;
use domain::plan::credits_of_upgrade;
use domain::time::Timestamp;
use settings::billing::CURRENCY;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{Json, Query};
use web::fields::{RequestBody, RequestQuery};
use web::own_requests::ChangeOfRequest;

use super::subscription::{self, OverLimitAccount, SubscriptionState};
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(change_plan)).routes(routes!(preview_plan))
}

/// The new plan.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PlanIn {
    /// A plan of `GET /v1/billing/subscriptions/plans`, or the paid plan, which withdraws a pending
    /// change.
    plan_id: String,
}

impl RequestBody for PlanIn {}

/// The subscription after a change of its plan, and what the change cost and granted.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PlanChanged {
    #[serde(flatten)]
    subscription: SubscriptionState,
    /// The amount charged now, in cents, with tax; null while it is unknown.
    charged_cents: Option<i64>,
    /// The invoice that was paid; null if nothing was charged.
    invoice_id: Option<String>,
    /// The credits granted by the change; null while that is unknown. They are granted once the
    /// payment is confirmed.
    credits_granted: Option<i64>,
}

/// Changes the plan. A plan whose price and credits are at least those of the paid one is an
/// upgrade: the difference for the rest of the period is charged immediately, and its credits for
/// the rest are granted; if the charge is declined, nothing changes. Any other plan takes effect at
/// the end of the period: it is shown as `next_plan`, moves no money, and is withdrawn by choosing
/// the paid plan. The billing date stays the same, and so does the end of a subscription that is
/// cancelled.
#[utoipa::path(
    post, path = "/v1/billing/subscription/plan", tag = "billing", request_body = PlanIn,
    responses(
        (status = 200, description = "the subscription as it is now", body = PlanChanged),
    )
)]
async fn change_plan(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    ChangeOfRequest(change): ChangeOfRequest,
    Json(wanted): Json<PlanIn>,
) -> Result<axum::Json<PlanChanged>, ApiError> {
    let wish = ChangeRequest {
        id: change,
        customer: caller.customer,
        actor: caller.actor(),
        creator: None,
        target: Target::Plan(wanted.plan_id),
    };
    let made = changes::make(&api.billing, wish).await?;
    Ok(axum::Json(PlanChanged {
        subscription: subscription::state(&api, caller.customer).await?,
        charged_cents: made.charged_cents,
        invoice_id: made.invoice_id,
        credits_granted: made.credits_granted,
    }))
}

/// The change of plan to preview.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PlanQuery {
    /// A plan of `GET /v1/billing/subscriptions/plans`, or the paid plan.
    plan_id: String,
}

impl RequestQuery for PlanQuery {}

/// What a change of the plan would cost and grant, as computed by the payment processor.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PlanPreview {
    plan_id: String,
    /// When the plan would take effect: now, or at the end of the period.
    #[schema(value_type = String, format = DateTime)]
    effective_at: Timestamp,
    /// What would be charged now, in cents, with tax and after credit.
    charged_now_cents: i64,
    /// The credit for the unused time of the paid plan, in cents; it is already subtracted from
    /// `charged_now_cents`.
    credited_cents: i64,
    /// Always `usd`.
    currency: &'static str,
    /// The credits that would be granted now.
    credits_granted: i64,
    /// Accounts that would become inactive when the plan takes effect.
    over_limit: Vec<OverLimitAccount>,
    /// The billing date; a change does not move it.
    #[schema(value_type = Option<String>, format = DateTime)]
    period_end: Option<Timestamp>,
    /// The time from which the rest of the period is counted.
    #[schema(value_type = String, format = DateTime)]
    proration_date: Timestamp,
    /// Until then, the same change costs this.
    #[schema(value_type = String, format = DateTime)]
    holds_until: Timestamp,
}

/// Previews what a change of the plan would cost and grant. A change within ten minutes costs the
/// same.
#[utoipa::path(
    get, path = "/v1/billing/subscription/plan/preview", tag = "billing", params(PlanQuery),
    responses(
        (status = 200, body = PlanPreview),
    )
)]
async fn preview_plan(
    State(api): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<PlanQuery>,
) -> Result<axum::Json<PlanPreview>, ApiError> {
    caller.refuse_limited()?;
    let target = Target::Plan(wanted.plan_id.clone());
    let preview = previews::preview(&api.billing, caller.customer, &target).await?;
    let now = preview.proration_date;
    let end = preview.view.period_end;
    let effects = effects(&api, caller.customer, &preview).await?;
    Ok(axum::Json(PlanPreview {
        plan_id: wanted.plan_id,
        effective_at: if preview.is_immediate { now } else { end.unwrap_or(now) },
        charged_now_cents: preview.charged_now_cents,
        credited_cents: preview.unused_cents,
        currency: CURRENCY,
        credits_granted: effects.credits_granted,
        over_limit: effects.over_limit,
        period_end: end,
        proration_date: preview.proration_date,
        holds_until: preview.holds_until,
    }))
}

/// What a plan would grant, and the accounts that it has no slots for.
struct Effects {
    credits_granted: i64,
    over_limit: Vec<OverLimitAccount>,
}

async fn effects(
    api: &ApiState,
    customer: CustomerId,
    preview: &ChangePreview,
) -> Result<Effects, ApiError> {
    let view = &preview.view;
    let wanted = match &preview.plan_price_id {
        Some(price) => store::plan_versions::find(&api.store, price).await?,
        None => None,
    };
    let extra =
        store::slot_limits::usage(&api.store, customer, &api.allowances).await?.limits.extra;
    let plan = wanted.as_ref().map(|version| version.accounts.clone()).unwrap_or_default();
    let limit = api.allowances.included.plus(&plan).plus(&extra);
    let over = store::slot_limits::over(&api.store, customer, &limit).await?;
    let rest =
        |from: Timestamp, to: Timestamp| to.unix_seconds().saturating_sub(from.unix_seconds());
    let versions = view.paid.as_ref().zip(wanted.as_ref()).filter(|_| preview.is_upgrade);
    let period = view.period_start.zip(view.period_end);
    let credits_granted = versions.zip(period).map(|((paid, next), (start, end))| {
        credits_of_upgrade(paid, next, rest(preview.proration_date, end), rest(start, end))
    });
    let credits_granted = credits_granted.unwrap_or_default();
    Ok(Effects {
        credits_granted,
        over_limit: over.into_iter().map(OverLimitAccount::from).collect(),
    })
}
