//! Previews of slots: what setting or moving them would cost.

use axum::extract::State;
use billing::decide::Target;
use billing::previews;
use domain::field_error::FieldErrorKind;
use domain::platform::Platform;
use domain::time::Timestamp;
use settings::billing::CURRENCY;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::fields::{FieldProblems, GoodFields, RequestQuery};
use web::words;

use super::slots::not_sold;
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(preview_slots)).routes(routes!(preview_switch))
}

/// The change of slots to preview.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PreviewQuery {
    /// `platform_alpha` or `platform_beta`.
    #[param(value_type = words::PlatformName, inline)]
    platform: Platform,
    /// The exact number of extra slots, 0 to 1,000.
    #[param(minimum = 0, maximum = 1000)]
    count: i64,
}

impl RequestQuery for PreviewQuery {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        if let Some(message) = fields.parsed("platform").and_then(not_sold) {
            problems.query("platform", FieldErrorKind::NotAllowed, message);
        }
    }
}

/// What a change of slots would cost, as computed by the payment processor.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PreviewOut {
    #[schema(schema_with = words::platform)]
    platform: Platform,
    /// The number of extra slots now.
    count_before: i64,
    /// The number of extra slots after the change.
    count: i64,
    /// What would be charged immediately, in cents.
    charged_now_cents: i64,
    /// What would be credited on the next invoice, in cents.
    credited_cents: i64,
    /// Always `usd`.
    currency: &'static str,
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

/// Previews what a change of slots would cost. A change within ten minutes costs the same.
#[utoipa::path(
    get, path = "/v1/billing/slots/preview", tag = "billing", params(PreviewQuery),
    responses(
        (status = 200, body = PreviewOut),
    )
)]
async fn preview_slots(
    State(api): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<PreviewQuery>,
) -> Result<axum::Json<PreviewOut>, ApiError> {
    caller.refuse_limited()?;
    let PreviewQuery { platform, count } = wanted;
    let target = Target::Slots(platform, count);
    let preview = previews::preview(&api.billing, caller.customer, &target).await?;
    Ok(axum::Json(PreviewOut {
        platform,
        count_before: preview.view.slots(platform),
        count,
        charged_now_cents: preview.charged_now_cents,
        credited_cents: preview.next_invoice_cents.saturating_neg().max(0),
        currency: CURRENCY,
        period_end: preview.view.period_end,
        proration_date: preview.proration_date,
        holds_until: preview.holds_until,
    }))
}

/// The switch of a slot to preview.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SwitchQuery {
    /// The platform that would have one slot fewer.
    #[param(value_type = words::PlatformName, inline)]
    from: Platform,
    /// The platform that would have one slot more.
    #[param(value_type = words::PlatformName, inline)]
    to: Platform,
}

impl RequestQuery for SwitchQuery {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        for field in ["from", "to"] {
            if let Some(message) = fields.parsed(field).and_then(not_sold) {
                problems.query(field, FieldErrorKind::NotAllowed, message);
            }
        }
        if fields.text("from").is_some() && fields.text("from") == fields.text("to") {
            let message = "must be a different platform than `from`";
            problems.query("to", FieldErrorKind::NotAllowed, message);
        }
    }
}

/// What a switch of a slot would cost, as computed by the payment processor.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SwitchPreview {
    #[schema(schema_with = words::platform)]
    from: Platform,
    #[schema(schema_with = words::platform)]
    to: Platform,
    /// The difference that would be on the next invoice, in cents; negative for a credit. Nothing
    /// is charged now.
    next_invoice_cents: i64,
    /// Always `usd`.
    currency: &'static str,
    /// The billing date; a change does not move it.
    #[schema(value_type = Option<String>, format = DateTime)]
    period_end: Option<Timestamp>,
    /// The time from which the rest of the period is counted.
    #[schema(value_type = String, format = DateTime)]
    proration_date: Timestamp,
    /// Until then, the same switch costs this.
    #[schema(value_type = String, format = DateTime)]
    holds_until: Timestamp,
}

/// Previews what switching a slot would cost. A switch within ten minutes costs the same.
#[utoipa::path(
    get, path = "/v1/billing/slots/switch/preview", tag = "billing", params(SwitchQuery),
    responses(
        (status = 200, body = SwitchPreview),
    )
)]
async fn preview_switch(
    State(api): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<SwitchQuery>,
) -> Result<axum::Json<SwitchPreview>, ApiError> {
    caller.refuse_limited()?;
    let SwitchQuery { from, to } = wanted;
    let preview =
        previews::preview(&api.billing, caller.customer, &Target::Switch(from, to)).await?;
    Ok(axum::Json(SwitchPreview {
        from,
        to,
        next_invoice_cents: preview.next_invoice_cents,
        currency: CURRENCY,
        period_end: preview.view.period_end,
        proration_date: preview.proration_date,
        holds_until: preview.holds_until,
    }))
}
