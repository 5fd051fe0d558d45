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
use web::page::FilteredPageQuery;

use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_audit))
}

/// Which entries to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditFilter {
    /// Only actions that start with this, such as `key.` or `support.`.
    #[param(max_length = 64)]
    action: Option<String>,
}

impl RequestQuery for AuditFilter {}

type AuditParams = FilteredPageQuery<AuditFilter, AuditId>;

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
    let query = AuditQuery {
        customer: caller.customer,
        action: params.filter.action.as_deref().unwrap_or_default(),
        before: params.page.before(),
        limit: params.page.to_read(),
    };
    let found = store::audit::list(&api.store, &query).await?;
    let page = params.page.page(found, |entry| entry.id);
    Ok(axum::Json(Audit {
        entries: page.entries.into_iter().map(AuditEntryOut::from).collect(),
        next_before: page.next_before,
    }))
}
