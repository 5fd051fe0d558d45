//! The ledger, page by page: everything that changed a customer's balance.

use axum::Json;
use axum::extract::State;
use domain::credits::Credits;
use domain::field_error::FieldErrorKind;
use domain::id::{EntryId, KeyId, LotId};
use domain::ledger::{LedgerLine, MalformedLine};
use domain::time::Timestamp;
use failures::FieldProblem;
use store::ledger_pages::{self, LedgerEntry, LedgerQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::fields::RequestQuery;
use web::page::FilteredPageQuery;

use crate::ApiState;
use crate::usage_scope::{self, UsageScope, Wanted};
use web::words;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_ledger))
}

/// Which lines to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LedgerFilter {
    /// Only lines of this kind.
    #[param(schema_with = words::ledger_kind)]
    kind: Option<String>,
    /// Whose ledger: the customer's (the default), or the charges of one key. A limited key sees
    /// its own charges.
    #[param(schema_with = usage_scope::described)]
    scope: Option<UsageScope>,
    /// Only the charges of this key.
    #[param(value_type = Option<String>, format = "key-id")]
    key_id: Option<KeyId>,
}

impl RequestQuery for LedgerFilter {}

type LedgerParams = FilteredPageQuery<LedgerFilter, LedgerLine>;

/// A page of the ledger, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct LedgerPage {
    /// Whose ledger this is. With `key` it contains the key's charges and no grants.
    #[schema(schema_with = usage_scope::described)]
    scope: UsageScope,
    /// The key, with the scope `key`.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    entries: Vec<EntryOut>,
    /// The `before` for the next page; null on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<LedgerLine>,
}

/// One change of the balance.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct EntryOut {
    /// Null for `usage` and `export`, which sum up the charges between two entries, day by day
    /// (UTC).
    #[schema(value_type = Option<String>)]
    entry_id: Option<EntryId>,
    /// When. `usage` and `export` are placed at their end: before the next entry, or at the end of
    /// their day (for today, at this moment).
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    #[schema(schema_with = words::ledger_kind)]
    kind: String,
    /// Credits added if positive, removed if negative.
    amount: i64,
    /// The balance after it. Null with the scope `key`: keys have no balance.
    balance_after: Option<i64>,
    /// The debt after it. Null with the scope `key`.
    debt_after: Option<i64>,
    /// The entry's lot (`lots` in `GET /v1/billing`); null for `usage` and `export`.
    #[schema(value_type = Option<String>)]
    lot_id: Option<LotId>,
    /// What it belongs to, such as an order; for `usage` and `export` the day.
    reference: Option<String>,
}

/// Lines as they are shown; the current day ends at `now`.
pub(super) fn shown(entries: Vec<LedgerEntry>, now: Timestamp) -> Vec<EntryOut> {
    let line = |entry: LedgerEntry| {
        let (entry_id, at) = match entry.line {
            LedgerLine::Entry(id) => (Some(id), entry.at),
            LedgerLine::Sum(..) | LedgerLine::SumAfter(..) => (None, entry.at.min(now)),
        };
        EntryOut {
            entry_id,
            at,
            kind: entry.kind,
            amount: entry.amount.whole(),
            balance_after: entry.balance_after.map(Credits::whole),
            debt_after: entry.debt_after.map(Credits::whole),
            lot_id: entry.lot,
            reference: entry.reference,
        }
    };
    entries.into_iter().map(line).collect()
}

/// Lists everything that changed the balance, newest first, each line with the balance after it:
/// entries, and between them the charges of calls and of exports, one line each for every UTC day.
#[utoipa::path(
    get, path = "/v1/billing/ledger", tag = "billing", params(LedgerParams),
    responses((status = 200, body = LedgerPage))
)]
async fn list_ledger(
    State(api): State<ApiState>,
    caller: Caller,
    Query(params): Query<LedgerParams>,
) -> Result<Json<LedgerPage>, ApiError> {
    let FilteredPageQuery { filter, page } = params;
    let wanted = Wanted { scope: filter.scope, key_id: filter.key_id };
    let of = wanted.by(&api, &caller, UsageScope::Customer).await?;
    let now = api.clock.now();
    let kind = filter.kind.as_deref();
    let query = LedgerQuery { of, kind, before: page.before(), limit: page.to_read(), now };
    let found = ledger_pages::page(&api.store, &query).await?;
    let page = page.page(found.ok_or_else(unknown_line)?, |entry| entry.line);
    Ok(Json(LedgerPage {
        scope: UsageScope::of_key(of.key),
        key_id: of.key,
        entries: shown(page.entries, now),
        next_before: page.next_before,
    }))
}

fn unknown_line() -> ApiError {
    let message = MalformedLine.to_string();
    FieldProblem::new("query", "before", FieldErrorKind::NotFound, message).into()
}
