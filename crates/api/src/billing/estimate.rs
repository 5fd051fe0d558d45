//! What a request would cost, before it is made.

use axum::Json;
use axum::extract::State;
use domain::account::CreatorId;
use domain::credits::Credits;
use domain::dataset::DatasetName;
use domain::field_error::FieldErrorKind;
use domain::method::Method;
use domain::platform::Platform;
use failures::{Failure, FieldProblem};
use settings::http::UnlistedRoutes;
use store::accounts::Account;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::Caller;
use web::error::ApiError;
use web::extract;
use web::fields::{FieldProblems, GoodFields, RequestBody};
use web::words;

use crate::ApiState;

/// When calls are charged.
const CALLS_CHARGED: &str = "Each call is charged only if the platform answers it: one that the platform refuses with \
                             401, 408, 421, 425 or 429, that fails with 5xx, or that never reaches it costs nothing.";
/// When exports are charged.
const EXPORTS_CHARGED: &str = "Each export is charged once its file is finished, or if it is cancelled after its first \
                               page; one that fails costs nothing. The cost does not depend on the number of rows.";

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(estimate_cost))
}

/// Native calls or exports to be estimated: either `method` and `path`, or `dataset`.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct EstimateIn {
    /// The `creator_id` of a connected account.
    #[schema(value_type = String, min_length = 1, max_length = 64, format = "creator-id")]
    account: CreatorId,
    /// Of a call.
    #[schema(schema_with = words::optional_method)]
    method: Option<Method>,
    /// Of a call: the native path, without a query. Whether it is a route of the catalogue does not
    /// change the cost.
    #[schema(min_length = 1, max_length = 2048)]
    path: Option<String>,
    /// Of an export.
    #[schema(schema_with = words::optional_dataset)]
    dataset: Option<DatasetName>,
    /// How many of them; 1 when absent.
    #[schema(minimum = 1, maximum = 1_000_000)]
    count: Option<i64>,
}

impl RequestBody for EstimateIn {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        let is_export = !fields.is_absent("dataset");
        for field in ["method", "path"] {
            if is_export && !fields.is_absent(field) {
                let message = "is of a call, and `dataset` of an export; send one of them";
                problems.body(field, FieldErrorKind::NotAllowed, message);
            } else if !is_export && fields.is_absent(field) {
                let message = "is required, unless `dataset` names an export";
                problems.body(field, FieldErrorKind::Missing, message);
            }
        }
    }
}

/// What requests would cost. Estimating is free.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Estimate {
    /// What they are charged as.
    #[schema(schema_with = words::charge_kind)]
    charged_as: &'static str,
    #[schema(schema_with = words::platform)]
    platform: Platform,
    /// Of a call: its route in the catalogue; null for an unlisted path, and for exports.
    route: Option<String>,
    /// How many were estimated.
    count: i64,
    /// What one of them costs.
    unit_cost: i64,
    /// The most that all of them cost.
    cost: i64,
    /// What the customer can spend now.
    balance: i64,
    /// Whether the balance covers the cost now. A key's own budget may be lower.
    is_covered: bool,
    /// When they are charged. What a request will get cannot be known before it is made.
    charged_when: &'static str,
}

/// What one of the requests is.
struct EstimatedUnit {
    charged_as: &'static str,
    route: Option<String>,
    cost: Credits,
    charged_when: &'static str,
}

/// Estimates what native calls or exports would cost: free, and nothing is sent or held. The most
/// that a request may cost can be sent with it as `X-Max-Cost`.
#[utoipa::path(
    post, path = "/v1/billing/estimate", tag = "billing", request_body = EstimateIn,
    responses((status = 200, body = Estimate))
)]
async fn estimate_cost(
    State(api): State<ApiState>,
    caller: Caller,
    extract::Json(wanted): extract::Json<EstimateIn>,
) -> Result<Json<Estimate>, ApiError> {
    const NOT_FOUND: ApiError = ApiError::Failure(Failure::AccountNotFound);
    if !caller.may_use(&wanted.account) {
        return Err(NOT_FOUND);
    }
    let found = store::accounts::find(&api.store, caller.customer, &wanted.account).await?;
    let account = found.ok_or(NOT_FOUND)?;
    api.accounts.target(account.platform)?;
    let unit = unit(&api, &account, &wanted)?;
    let balance = store::usage::balance(&api.store, caller.customer).await?;
    let balance = balance.map_or(0, |balance| balance.available.whole());
    let count = wanted.count.unwrap_or(1);
    let cost = unit.cost.whole().saturating_mul(count);
    Ok(Json(Estimate {
        charged_as: unit.charged_as,
        platform: account.platform,
        route: unit.route,
        count,
        unit_cost: unit.cost.whole(),
        cost,
        balance,
        is_covered: cost <= balance,
        charged_when: unit.charged_when,
    }))
}

fn unit(api: &ApiState, account: &Account, wanted: &EstimateIn) -> Result<EstimatedUnit, ApiError> {
    let costs = api.config.credits.costs();
    let catalog = api.catalog.platform(account.platform);
    if let Some(dataset) = wanted.dataset {
        if catalog.dataset(dataset).is_none() {
            let message = format!("is not a dataset of {}", account.platform);
            let kind = FieldErrorKind::NotAllowed;
            return Err(FieldProblem::new("body", "dataset", kind, message).into());
        }
        let (cost, charged_when) = (costs.export, EXPORTS_CHARGED);
        return Ok(EstimatedUnit { charged_as: "export", route: None, cost, charged_when });
    }
    // Both are there: the fields were checked.
    let method = wanted.method.unwrap_or(Method::Get);
    let path = wanted.path.as_deref().unwrap_or_default();
    let route = catalog.find(method, path).map(|found| found.route.name.clone());
    let is_refused = api.config.unlisted_routes(account.platform) == UnlistedRoutes::Refuse;
    if route.is_none() && is_refused {
        return Err(ApiError::Failure(Failure::RouteNotListed(account.platform)));
    }
    let charged_as = if method.is_read() { "read" } else { "write" };
    let (cost, charged_when) = (costs.of(method), CALLS_CHARGED);
    Ok(EstimatedUnit { charged_as, route, cost, charged_when })
}
