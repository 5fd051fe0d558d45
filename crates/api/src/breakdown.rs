//! Spending by what it was for, as JSON or as CSV.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::breakdown::{BreakdownBy, BreakdownCursor};
use domain::field_error::FieldErrorKind;
use domain::id::KeyId;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::UtcDay;
use http::{HeaderMap, HeaderValue, header};
use store::breakdown::{BreakdownEntry, BreakdownQuery, SpendBreakdown, SpendCounts};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::fields::{FieldProblems, GoodFields, RequestQuery};
use web::page::{FilteredPageQuery, ListPage};

use crate::ApiState;
use crate::usage_scope::{self, UsageScope, Wanted};
use web::words;

/// The most days of one breakdown.
const DAYS_MAX: i64 = 366;
/// The days of a breakdown without `from`.
const DAYS_DEFAULT: i64 = 30;
/// The columns of the CSV.
const COLUMNS: &str = "name,platform,method,calls,exports,credits,ok,errors";

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_breakdown))
}

/// Which spending to show.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BreakdownFilter {
    /// What spending is grouped by.
    #[param(schema_with = words::breakdown_by)]
    by: Option<BreakdownBy>,
    /// The first UTC day; 29 days before `to` when absent. At most 366 days in all.
    #[param(value_type = Option<String>, format = "utc-day")]
    from: Option<UtcDay>,
    /// The last UTC day, inclusive; today when absent.
    #[param(value_type = Option<String>, format = "utc-day")]
    to: Option<UtcDay>,
    /// Whose spending: that of all keys, or of one. By default a key sees its own, and a session
    /// that of all keys. A limited key can request only its own.
    #[param(schema_with = usage_scope::described)]
    scope: Option<UsageScope>,
    /// Only the spending of this key.
    #[param(value_type = Option<String>, format = "key-id")]
    key_id: Option<KeyId>,
}

impl RequestQuery for BreakdownFilter {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        let to = fields.parsed::<UtcDay>("to").unwrap_or_else(|| web.clock.now().day());
        let Some(from) = fields.parsed::<UtcDay>("from") else { return };
        if from > to {
            problems.query("from", FieldErrorKind::OutOfRange, "must not be after `to`");
        } else if to.number().saturating_sub(from.number()) >= DAYS_MAX {
            let message =
                "must be less than 366 days before `to`; request shorter times one by one";
            problems.query("from", FieldErrorKind::OutOfRange, message);
        }
    }
}

type BreakdownParams = FilteredPageQuery<BreakdownFilter, BreakdownCursor>;

/// Spending by account, key, route or tag. The sums are those of the ledger for the same days.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Breakdown {
    /// Whose spending this is.
    #[schema(schema_with = usage_scope::described)]
    scope: UsageScope,
    /// The key, with the scope `key`.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    #[schema(schema_with = words::breakdown_by)]
    by: BreakdownBy,
    /// The first UTC day.
    #[schema(value_type = String, format = Date)]
    from: UtcDay,
    /// The last UTC day.
    #[schema(value_type = String, format = Date)]
    to: UtcDay,
    /// What cost the most comes first.
    entries: Vec<BreakdownEntryOut>,
    /// The sums of all entries, of every page.
    total: BreakdownTotalOut,
    /// The `before` for the next page; null on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<BreakdownCursor>,
}

/// What one account, key, route or tag cost.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct BreakdownEntryOut {
    /// The account's `creator_id`, the key's id, the route (`export DATASET` for exports) or the
    /// tag; null for what has no tag.
    name: Option<String>,
    /// The platform, with `by=route`.
    #[schema(schema_with = words::optional_platform)]
    platform: Option<Platform>,
    /// The method, with `by=route`.
    #[schema(schema_with = words::optional_method)]
    method: Option<Method>,
    /// Native calls that ended; each is ok or an error.
    calls: i64,
    /// Charged exports, by the day on which they were requested. They do not count as calls.
    exports: i64,
    /// The cost of calls and exports.
    credits: i64,
    ok: i64,
    errors: i64,
}

/// The sums of all entries, of every page.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct BreakdownTotalOut {
    /// Native calls that ended.
    calls: i64,
    /// Charged exports.
    exports: i64,
    /// What they cost: the same as in the ledger for these days.
    credits: i64,
    ok: i64,
    errors: i64,
}

impl From<BreakdownEntry> for BreakdownEntryOut {
    fn from(entry: BreakdownEntry) -> Self {
        let SpendCounts { calls, exports, credits, ok } = entry.counts;
        Self {
            name: Some(entry.name).filter(|name| !name.is_empty()),
            platform: entry.platform,
            method: entry.method,
            calls,
            exports,
            credits: credits.whole(),
            ok,
            errors: calls.saturating_sub(ok),
        }
    }
}

impl From<SpendCounts> for BreakdownTotalOut {
    fn from(SpendCounts { calls, exports, credits, ok }: SpendCounts) -> Self {
        let errors = calls.saturating_sub(ok);
        Self { calls, exports, credits: credits.whole(), ok, errors }
    }
}

/// Shows what was spent, grouped by account, key, route or tag, what cost the most first. With
/// `Accept: text/csv` the entries come as CSV, and `X-Next-Before` has the `before` of the next
/// page.
#[utoipa::path(
    get, path = "/v1/billing/usage/breakdown", tag = "usage", params(BreakdownParams),
    responses((
        status = 200, description = "Spending by what it was for.",
        content((Breakdown = "application/json"), (String = "text/csv")),
        headers(("X-Next-Before" = String, description = "with CSV: the `before` of the next page; absent on the last one")),
    ))
)]
async fn get_breakdown(
    State(api): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
    Query(params): Query<BreakdownParams>,
) -> Result<Response, ApiError> {
    let FilteredPageQuery { filter, page } = params;
    let wanted = Wanted { scope: filter.scope, key_id: filter.key_id };
    let of = wanted.by(&api, &caller, UsageScope::Key).await?;
    let by = filter.by.unwrap_or(BreakdownBy::Account);
    let last = filter.to.unwrap_or_else(|| api.clock.now().day());
    let first = filter.from.unwrap_or_else(|| last.plus_days(1 - DAYS_DEFAULT));
    let (after, limit) = (page.before(), page.to_read());
    let query = BreakdownQuery { of, by, first, last, after, limit };
    let SpendBreakdown { entries, total } = store::breakdown::read(&api.store, &query).await?;
    let ListPage { entries, next_before } = page.page(entries, BreakdownEntry::cursor);
    let entries: Vec<BreakdownEntryOut> =
        entries.into_iter().map(BreakdownEntryOut::from).collect();
    if wants_csv(&headers) {
        return Ok(csv_response(&entries, next_before.as_ref()));
    }
    let body = Breakdown {
        scope: UsageScope::of_key(of.key),
        key_id: of.key,
        by,
        from: first,
        to: last,
        entries,
        total: total.into(),
        next_before,
    };
    Ok(([(header::VARY, "Accept")], Json(body)).into_response())
}

/// Whether the caller asks for CSV by name. What accepts anything gets JSON.
fn wants_csv(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let essence = range.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("text/csv")
    })
}

fn csv_response(entries: &[BreakdownEntryOut], next: Option<&BreakdownCursor>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8"), (header::VARY, "Accept")];
    let mut response = (kind, csv(entries)).into_response();
    let next = next.and_then(|cursor| HeaderValue::try_from(cursor.to_string()).ok());
    if let Some(next) = next {
        response.headers_mut().insert("x-next-before", next);
    }
    response
}

/// The entries as CSV (RFC 4180), with a line of names.
fn csv(entries: &[BreakdownEntryOut]) -> String {
    let line = |entry: &BreakdownEntryOut| {
        let BreakdownEntryOut { name, platform, method, calls, exports, credits, ok, errors } =
            entry;
        let name = quoted(name.as_deref().unwrap_or_default());
        let platform = platform.map_or("", Platform::as_str);
        let method = method.map_or("", Method::as_str);
        format!("{name},{platform},{method},{calls},{exports},{credits},{ok},{errors}\r\n")
    };
    let lines: String = entries.iter().map(line).collect();
    format!("{COLUMNS}\r\n{lines}")
}

/// A field, in quotes where it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_sent_to_those_who_name_it() {
        let asks = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            wants_csv(&headers)
        };

        assert!(asks("text/csv") && asks("application/json;q=0.5, Text/CSV; charset=utf-8"));
        assert!(!asks("*/*") && !asks("application/json") && !asks("text/*"));
        assert!(!wants_csv(&HeaderMap::new()));
    }

    #[test]
    fn fields_with_commas_or_quotes_are_quoted() {
        let entry = BreakdownEntryOut {
            name: Some("GET a,b\"c".to_owned()),
            platform: Some(Platform::ALPHA),
            method: Some(Method::Get),
            calls: 3,
            exports: 0,
            credits: 2,
            ok: 2,
            errors: 1,
        };

        let text = csv(&[entry]);

        let line = "\"GET a,b\"\"c\",platform_alpha,GET,3,0,2,2,1";
        assert_eq!(text, format!("{COLUMNS}\r\n{line}\r\n"));
    }
}
