//! Support access: a customer's consent, and what staff may read while it is in force.

use axum::Json as Answer;
use axum::extract::{OriginalUri, State};
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use domain::staff::Permission;
use domain::time::Timestamp;
use identity::support::{self, StaffVisit};
use runtime::audit::{self, AuditRecord};
use serde_json::json;
use store::audit::AuditQuery;
use store::support_access::SupportAccess;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{Json, NoQuery, Path, Query};
use web::fields::{FieldProblems, GoodFields, RequestBody};

use super::audit::AuditEntryOut;
use super::usage::{self, DailyQuery, DailyUsage, RecentCallsOut, RecentQuery};
use crate::ApiState;

const HOURS_DEFAULT: i64 = 24;
const SECONDS_PER_HOUR: i64 = 3_600;
/// The number of staff accesses shown with the setting; `GET /v1/audit` has all of them.
const USES_SHOWN: i64 = 20;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(get_support_access, set_support_access))
        .routes(routes!(list_customer_calls))
        .routes(routes!(get_customer_usage))
}

/// Whether staff may view the customer's calls, exports and usage, and what they viewed recently.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct SupportAccessOut {
    enabled: bool,
    /// When it ends automatically; null while it is not enabled.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// What staff viewed, newest first: the latest twenty. `GET /v1/audit?action=support.` has all
    /// of them.
    uses: Vec<AuditEntryOut>,
}

/// Shows whether staff may view the customer's calls, exports and usage, and what they viewed
/// recently.
#[utoipa::path(
    get, path = "/v1/support-access", tag = "support",
    responses((status = 200, body = SupportAccessOut))
)]
async fn get_support_access(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<Answer<SupportAccessOut>, ApiError> {
    caller.refuse_limited()?;
    let access = store::support_access::find(&api.store, caller.customer).await?;
    shown(&api, caller.customer, access).await
}

/// A new setting.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SupportAccessIn {
    enabled: bool,
    /// Hours until it ends automatically: 1 to 72, 24 when absent. Only with `enabled: true`.
    #[schema(minimum = 1, maximum = 72)]
    expires_in_hours: Option<i64>,
}

impl RequestBody for SupportAccessIn {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        let is_off = fields.value("enabled").and_then(serde_json::Value::as_bool) == Some(false);
        if is_off && fields.value("expires_in_hours").is_some() {
            let message = "can only be sent with `enabled: true`";
            problems.body("expires_in_hours", FieldErrorKind::NotAllowed, message);
        }
    }
}

/// Allows support access for some hours, or ends it immediately.
#[utoipa::path(
    post, path = "/v1/support-access", tag = "support", request_body = SupportAccessIn,
    responses((status = 200, body = SupportAccessOut))
)]
async fn set_support_access(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    Json(setting): Json<SupportAccessIn>,
) -> Result<Answer<SupportAccessOut>, ApiError> {
    let hours = setting.enabled.then(|| setting.expires_in_hours.unwrap_or(HOURS_DEFAULT));
    let (action, details) = match hours {
        Some(hours) => (audit::SUPPORT_ENABLED, json!({"hours": hours})),
        None => (audit::SUPPORT_DISABLED, json!({})),
    };
    let record = AuditRecord { customer: caller.customer, actor: caller.actor(), action, details };
    let entry = record.now(&api.clock, &api.random);
    let access = match hours {
        Some(hours) => {
            let until = entry.at.plus_seconds(hours * SECONDS_PER_HOUR);
            Some(store::support_access::enable(&api.store, until, &entry).await?)
        }
        None => {
            store::support_access::disable(&api.store, &entry).await?;
            None
        }
    };
    shown(&api, caller.customer, access).await
}

async fn shown(
    api: &ApiState,
    customer: CustomerId,
    access: Option<SupportAccess>,
) -> Result<Answer<SupportAccessOut>, ApiError> {
    let query =
        AuditQuery { customer, action: audit::STAFF_LOOKS, before: None, limit: USES_SHOWN };
    let uses = store::audit::list(&api.store, &query).await?;
    let open = access.filter(|given| given.is_open(api.clock.now()));
    Ok(Answer(SupportAccessOut {
        enabled: open.is_some(),
        expires_at: open.map(|open| open.expires_at),
        uses: uses.into_iter().map(AuditEntryOut::from).collect(),
    }))
}

/// For staff: lists the calls of a customer who allows it. Each access is in the customer's audit
/// list.
#[utoipa::path(
    get, path = "/v1/support/customers/{customer_id}/calls", tag = "support",
    params(("customer_id" = String, Path, description = "the customer"), RecentQuery),
    responses(
        (status = 200, body = RecentCallsOut),
    )
)]
async fn list_customer_calls(
    State(api): State<ApiState>,
    caller: Caller,
    Path(customer): Path<CustomerId>,
    OriginalUri(uri): OriginalUri,
    Query(query): Query<RecentQuery>,
) -> Result<Answer<RecentCallsOut>, ApiError> {
    let wanted = query.whose().of(&api, customer).await?;
    let wanted = query.wanted(wanted);
    look(&api, &caller, customer, audit::STAFF_READ_CALLS, &uri).await?;
    usage::recent(&api, &wanted).await
}

/// For staff: shows calls, credits, successes and errors of a customer who allows it, day by day.
/// Each access is in the customer's audit list.
#[utoipa::path(
    get, path = "/v1/support/customers/{customer_id}/usage", tag = "support",
    params(("customer_id" = String, Path, description = "the customer"), DailyQuery),
    responses(
        (status = 200, body = DailyUsage),
    )
)]
async fn get_customer_usage(
    State(api): State<ApiState>,
    caller: Caller,
    Path(customer): Path<CustomerId>,
    OriginalUri(uri): OriginalUri,
    Query(query): Query<DailyQuery>,
) -> Result<Answer<DailyUsage>, ApiError> {
    let (days, of) = (query.days(), query.whose().of(&api, customer).await?);
    look(&api, &caller, customer, audit::STAFF_READ_USAGE, &uri).await?;
    usage::daily(&api, of, days).await
}

async fn look(
    api: &ApiState,
    caller: &Caller,
    customer: CustomerId,
    action: &'static str,
    uri: &http::Uri,
) -> Result<(), ApiError> {
    let query = uri.query().filter(|query| !query.is_empty());
    let details = query.map_or_else(|| json!({}), |query| json!({"query": query}));
    let visit = StaffVisit { customer, needs: Permission::TO_LOOK, action, details };
    Ok(support::visit(&api.identity, caller, visit).await?)
}
