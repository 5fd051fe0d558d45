//! The audit list: what was done to a customer's keys, accounts and settings, by whom, and what
//! staff read.

use axum::extract::State;
use domain::id::AuditId;
use domain::time::Timestamp;
use runtime::audit;
use store::audit::{AuditEntry, AuditQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::fields::RequestQuery;

use crate::ApiState;

const LIMIT_DEFAULT: i64 = 50;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_audit))
}

/// Which entries to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditParams {
    /// The number of entries: 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<i64>,
    /// Only actions that start with this, such as `key.` or `support.`.
    #[param(max_length = 64)]
    action: Option<String>,
    /// Only entries older than this one; pass the `next_before` of a page to get the next one.
    #[param(value_type = Option<String>, format = "audit-id")]
    before: Option<AuditId>,
}

impl RequestQuery for AuditParams {}

/// A page of the audit list, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Audit {
    entries: Vec<AuditEntryOut>,
    /// The `before` for the next page; absent on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<AuditId>,
}

/// An action that was recorded.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AuditEntryOut {
    #[schema(value_type = String)]
    entry_id: AuditId,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Who did it: the id of a key or session, `operator`, `processor`, `mailed link`, or the
    /// customer id of a member of the staff.
    actor: String,
    /// What was done, such as `key.created` or `support.calls_read`.
    action: String,
    /// Further details, as fields that depend on the action (`docs/api.md` lists them). Entries
    /// from before fields were stored have one field, `text`.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    details: serde_json::Map<String, serde_json::Value>,
}

impl From<AuditEntry> for AuditEntryOut {
    fn from(entry: AuditEntry) -> Self {
        Self {
            entry_id: entry.id,
            at: entry.at,
            actor: audit::shown_actor(&entry.actor).to_owned(),
            action: entry.action,
            details: audit::fields(&entry.details),
        }
    }
}

/// Lists what was done to this customer's keys, accounts and settings, and what staff looked at,
/// newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "auth", params(AuditParams),
    responses((status = 200, body = Audit))
)]
async fn list_audit(
    State(api): State<ApiState>,
    caller: Caller,
    Query(params): Query<AuditParams>,
) -> Result<axum::Json<Audit>, ApiError> {
    caller.refuse_limited()?;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    let query = AuditQuery {
        customer: caller.customer,
        action: params.action.as_deref().unwrap_or_default(),
        before: params.before,
        // One more, to see whether there is a next page.
        limit: limit + 1,
    };
    let mut found = store::audit::list(&api.store, &query).await?;
    let has_more = i64::try_from(found.len()).is_ok_and(|count| count > limit);
    if has_more {
        found.pop();
    }
    let next_before = if has_more { found.last().map(|entry| entry.id) } else { None };
    Ok(axum::Json(Audit {
        entries: found.into_iter().map(AuditEntryOut::from).collect(),
        next_before,
    }))
}
