//! Usage: calls by day, and the call log.

use axum::Json;
use axum::extract::State;
use domain::account::CreatorId;
use domain::id::{CallId, KeyId};
use domain::method::Method;
use domain::platform::Platform;
use domain::time::{MICROS_PER_SECOND, Timestamp, UtcDay};
use store::calls::{Call, RecentCalls, StatusClass};
use store::usage::{HotFailure, UsageOf};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::fields::{DecimalNumber, RequestQuery};

use super::call;
use super::usage_scope::{self, UsageScope, Wanted};
use crate::ApiState;

const DAYS_DEFAULT: i64 = 14;
const LIMIT_DEFAULT: i64 = 100;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(get_daily_usage))
        .routes(routes!(list_recent_calls))
        .merge(call::router())
}

/// How many days to show.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DailyQuery {
    /// The number of UTC days, up to today: 1 to 366.
    #[param(minimum = 1, maximum = 366, default = 14)]
    days: Option<i64>,
    /// Whose usage: that of all keys, or of one. By default a key sees its own, and a session that
    /// of all keys. A limited key can request only its own.
    #[param(schema_with = usage_scope::described)]
    scope: Option<UsageScope>,
    /// Only the usage of this key.
    #[param(value_type = Option<String>, format = "key-id")]
    key_id: Option<KeyId>,
}

impl RequestQuery for DailyQuery {}

impl DailyQuery {
    /// The number of days.
    pub(super) fn days(&self) -> i64 {
        self.days.unwrap_or(DAYS_DEFAULT)
    }

    /// Whose usage is requested.
    pub(super) const fn whose(&self) -> Wanted {
        Wanted { scope: self.scope, key_id: self.key_id }
    }
}

/// Usage by UTC day.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct DailyUsage {
    /// Whose usage this is.
    #[schema(schema_with = usage_scope::described)]
    scope: UsageScope,
    /// The key, with the scope `key`.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    /// One entry per day, oldest first, without gaps.
    days: Vec<DayOut>,
    /// The endpoint with the most failures in the last seven days, if one keeps failing.
    hot_failure: Option<HotFailureOut>,
}

/// One UTC day.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct DayOut {
    #[schema(value_type = String, format = Date)]
    day: UtcDay,
    /// Native calls; each is ok or an error.
    calls: i64,
    /// Charged exports, by the day on which they were requested. They do not count as calls.
    exports: i64,
    /// The cost of calls and exports.
    credits: i64,
    ok: i64,
    errors: i64,
}

/// An endpoint that keeps failing: at least 5 calls in seven days, 80 % of them failed.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct HotFailureOut {
    #[schema(schema_with = web::words::method)]
    method: Method,
    route: String,
    #[schema(value_type = String)]
    account: CreatorId,
    calls: i64,
    errors: i64,
    last_status: Option<u16>,
    #[schema(value_type = String, format = DateTime)]
    last_at: Timestamp,
}

impl From<HotFailure> for HotFailureOut {
    fn from(failure: HotFailure) -> Self {
        Self {
            method: failure.method,
            route: failure.route,
            account: failure.account,
            calls: failure.calls,
            errors: failure.errors,
            last_status: failure.last_status,
            last_at: failure.last_at,
        }
    }
}

/// Shows calls, credits, successes and errors, day by day: of one key, or of all; `scope` says
/// which.
#[utoipa::path(
    get, path = "/v1/billing/usage/daily", tag = "usage", params(DailyQuery),
    responses((status = 200, body = DailyUsage))
)]
async fn get_daily_usage(
    State(api): State<ApiState>,
    caller: Caller,
    Query(query): Query<DailyQuery>,
) -> Result<Json<DailyUsage>, ApiError> {
    let days = query.days();
    let of = query.whose().by(&api, &caller, UsageScope::Key).await?;
    daily(&api, of, days).await
}

/// The usage of a customer or of one of its keys, in the last `days` days.
pub(super) async fn daily(
    api: &ApiState,
    of: UsageOf,
    days: i64,
) -> Result<Json<DailyUsage>, ApiError> {
    let today = api.clock.now().day();
    let daily = store::usage::daily(&api.store, of, today, days).await?;
    let hot_failure = store::usage::hot_failure(&api.store, of, today).await?;
    let buckets = daily.into_iter().map(|day| DayOut {
        day: day.day,
        calls: day.calls,
        exports: day.exports,
        credits: day.credits.whole(),
        ok: day.ok,
        errors: day.errors,
    });
    Ok(Json(DailyUsage {
        scope: UsageScope::of_key(of.key),
        key_id: of.key,
        days: buckets.collect(),
        hot_failure: hot_failure.map(HotFailureOut::from),
    }))
}

/// Which calls to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecentQuery {
    /// The number of entries: 1 to 1000. A page never splits calls of the same instant, so it may
    /// contain a few more.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i64>,
    /// `2xx`, `3xx`, `4xx`, `5xx`, `ok` or `error`.
    #[param(schema_with = web::words::status_class)]
    status_class: Option<String>,
    /// Whose calls: those of all keys, or of one. By default a key sees its own, and a session
    /// those of all keys. A limited key can request only its own.
    #[param(schema_with = usage_scope::described)]
    scope: Option<UsageScope>,
    /// Only the calls of this key.
    #[param(value_type = Option<String>, format = "key-id")]
    key_id: Option<KeyId>,
    /// The `creator_id` of an account.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, format = "creator-id")]
    account: Option<CreatorId>,
    /// Only the calls of this route: the `route` of an entry, such as `GET users/me`.
    #[param(max_length = 512, format = "line")]
    route: Option<String>,
    /// Only the calls with this `X-Tag`.
    #[param(max_length = 64, format = "line")]
    tag: Option<String>,
    /// Epoch seconds with at most six decimals: only calls before this time. Pass the `next_before`
    /// of a page to get the next one.
    #[param(value_type = Option<f64>, minimum = 0, maximum = 253_402_300_799_i64, format = "epoch-seconds")]
    before: Option<DecimalNumber>,
}

impl RequestQuery for RecentQuery {}

impl RecentQuery {
    /// Whose calls are requested.
    pub(super) const fn whose(&self) -> Wanted {
        Wanted { scope: self.scope, key_id: self.key_id }
    }

    /// The request, for this customer or key.
    pub(super) fn wanted(self, of: UsageOf) -> RecentCalls {
        RecentCalls {
            customer: of.customer,
            key: of.key,
            only_allowed: of.only_allowed,
            account: self.account,
            route: self.route,
            tag: self.tag,
            status_class: self.status_class.as_deref().and_then(read_status_class),
            before: self.before.and_then(|before| read_instant(&before.0)),
            limit: self.limit.unwrap_or(LIMIT_DEFAULT),
            scanned_max: RecentCalls::SCANNED_MAX,
        }
    }
}

/// A page of the call log, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct RecentCallsOut {
    /// Whose calls these are.
    #[schema(schema_with = usage_scope::described)]
    scope: UsageScope,
    /// The key, with the scope `key`.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    calls: Vec<CallOut>,
    /// The `before` for the next page; absent on the last one. A page with a filter other than
    /// `key_id`, or for a key that is limited to some accounts, looks at 50,000 calls at most. If
    /// fewer than `limit` of them match, it is short or empty, and older calls may follow.
    #[schema(value_type = Option<f64>)]
    next_before: Option<serde_json::Number>,
}

/// One call.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct CallOut {
    #[schema(value_type = String)]
    call_id: CallId,
    #[schema(value_type = String)]
    key_id: KeyId,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    #[schema(value_type = String)]
    account: CreatorId,
    #[schema(schema_with = web::words::platform)]
    platform: Platform,
    #[schema(schema_with = web::words::method)]
    method: Method,
    /// The native path, as it was sent.
    path: String,
    /// The route in the catalogue. For an unlisted path: the path with its ids replaced, such as
    /// `GET chats/{}/notes`, or `unlisted` beyond the maximum number of those.
    route: String,
    /// The status of the response; absent while the call is running, and if its end is unknown.
    status: Option<u16>,
    /// `held` while the call runs, then how it ended (`answered`, `upstream_timeout`, …).
    outcome: String,
    /// What it cost; for a running call, the credits held.
    credits: i64,
    duration_ms: Option<i64>,
    upstream_ms: Option<i64>,
    /// The `X-Tag` that it came with.
    tag: Option<String>,
    request_id: String,
}

impl From<Call> for CallOut {
    fn from(call: Call) -> Self {
        let outcome = call.outcome.unwrap_or_else(|| call.state.as_str().to_owned());
        Self {
            call_id: call.id,
            key_id: call.key,
            at: call.at,
            account: call.account,
            platform: call.platform,
            method: call.method,
            path: call.path,
            route: call.route,
            status: call.status,
            outcome,
            credits: call.credits.unwrap_or(call.cost).whole(),
            duration_ms: call.duration_ms,
            upstream_ms: call.upstream_ms,
            tag: call.tag,
            request_id: call.request,
        }
    }
}

/// Lists calls, newest first: those of one key, or of all; `scope` says which. A key that is
/// limited to some accounts sees its calls for those.
#[utoipa::path(
    get, path = "/v1/billing/usage/recent", tag = "usage", params(RecentQuery),
    responses((status = 200, body = RecentCallsOut))
)]
async fn list_recent_calls(
    State(api): State<ApiState>,
    caller: Caller,
    Query(query): Query<RecentQuery>,
) -> Result<Json<RecentCallsOut>, ApiError> {
    let of = query.whose().by(&api, &caller, UsageScope::Key).await?;
    recent(&api, &query.wanted(of)).await
}

/// A page of the call log.
pub(super) async fn recent(
    api: &ApiState,
    wanted: &RecentCalls,
) -> Result<Json<RecentCallsOut>, ApiError> {
    let page = store::calls::recent(&api.store, wanted).await?;
    let calls = page.calls.into_iter().map(CallOut::from).collect();
    Ok(Json(RecentCallsOut {
        scope: UsageScope::of_key(wanted.key),
        key_id: wanted.key,
        calls,
        next_before: page.next_before.and_then(written_instant),
    }))
}

fn read_status_class(text: &str) -> Option<StatusClass> {
    match text {
        "2xx" => Some(StatusClass::Success),
        "3xx" => Some(StatusClass::Redirection),
        "4xx" => Some(StatusClass::ClientError),
        "5xx" => Some(StatusClass::ServerError),
        "ok" => Some(StatusClass::Ok),
        "error" => Some(StatusClass::Error),
        _ => None,
    }
}

/// Parses epoch seconds with up to six decimals, without the rounding of a float.
fn read_instant(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 12
        || fraction.len() > 6
        || !digits(whole)
        || !digits(fraction)
    {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
    Some(Timestamp::from_unix_micros(seconds * MICROS_PER_SECOND + micros))
}

/// A time as a JSON number of seconds with six decimals.
fn written_instant(instant: Timestamp) -> Option<serde_json::Number> {
    let micros = instant.unix_micros().rem_euclid(MICROS_PER_SECOND);
    format!("{}.{micros:06}", instant.unix_seconds()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_exact_to_the_microsecond() {
        let instant = read_instant("1790000000.000001").unwrap();

        assert_eq!(instant.unix_micros(), 1_790_000_000_000_001);
        assert_eq!(read_instant("1790000000.5").unwrap().unix_micros(), 1_790_000_000_500_000);
        assert_eq!(read_instant("7").unwrap().unix_micros(), 7_000_000);
        assert_eq!(written_instant(instant).unwrap().to_string(), "1790000000.000001");
    }

    #[test]
    fn invalid_instants_are_refused() {
        for text in ["", "NaN", "-1", "1e9", "1.0000001", "9999999999999", ".5", "1.", "1,5"] {
            let accepted = read_instant(text).is_some();
            assert_eq!(accepted, text == "1.", "{text:?}");
        }
    }
}
