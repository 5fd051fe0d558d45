//! The routes of a platform: a list in pages that can be searched, for people and programs that
//! look for one.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::State;
use catalog::{Route, RouteOperation, RoutePaging, RouteParameter};
use domain::credits::MeteringCosts;
use domain::field_error::FieldErrorKind;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;
use failures::FieldProblem;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::error::ApiError;
use web::extract::{Path, Query};
use web::fields::RequestQuery;
use web::page::{FilteredPageQuery, PageCursor};

use crate::ApiState;
use crate::platforms::document_of;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_platform_routes))
}

/// A route of a platform: its method and its path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(transparent)]
struct RouteCursor(String);

impl PageCursor for RouteCursor {
    const ENTRIES: &'static str = "routes";
    const FORMAT: &'static str = "route-name";
    const LIMIT_MAX: i64 = 500;
    const LIMIT_DEFAULT: i64 = 100;
    const FOLLOWING: &'static str = "after";
}

/// Which routes to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RouteFilter {
    /// Only routes of this group, in any case.
    #[param(max_length = 200)]
    group: Option<String>,
    /// Only routes with this method.
    #[param(schema_with = web::words::method)]
    method: Option<Method>,
    /// Only routes with this text in their path, operation, description, group or notes, in any
    /// case.
    #[param(max_length = 200)]
    search: Option<String>,
}

impl RequestQuery for RouteFilter {}

type RouteParams = FilteredPageQuery<RouteFilter, RouteCursor>;

/// A page of a platform's routes, in the order of the catalogue.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct PlatformRoutes {
    #[schema(schema_with = web::words::platform)]
    platform: Platform,
    routes: Vec<RouteOut>,
    /// The `before` for the next page; null on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<RouteCursor>,
}

/// One route of a platform.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct RouteOut {
    #[schema(schema_with = web::words::method)]
    method: Method,
    /// The path after `/native/`; words in braces are parameters.
    path: String,
    group: String,
    /// Credits that a call costs.
    cost: i64,
    /// OAuth scopes that the account's token needs (`platform_delta`).
    scopes: Vec<String>,
    description: String,
    notes: String,
    /// For a shorthand, the path it stands for.
    rewrites_to: Option<String>,
    /// The documented query parameters; others are passed on as well.
    query: Vec<RouteQueryOut>,
    /// Query parameters that are added when absent.
    default_query: BTreeMap<String, String>,
    /// How its pages are requested; null if nothing is known of it.
    paging: Option<RoutePagingOut>,
    /// Whether the platform advises against it.
    deprecated: bool,
    /// Its id in the platform's OpenAPI document.
    operation_id: String,
    /// Where it is in that document.
    operation: String,
    /// Whether a call to it is known to have succeeded.
    verified: bool,
    /// When the first call through this service succeeded.
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
}

/// A query parameter of a route.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct RouteQueryOut {
    /// The parameter's name.
    name: String,
    /// Its type, values and limits in a few words.
    r#type: String,
    /// Whether the platform refuses a call without it.
    required: bool,
    /// What it does; may be empty.
    description: String,
}

/// How the pages of a route are requested.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct RoutePagingOut {
    /// `cursor`, `page`, `offset`, `link_header` or `next_url`.
    style: &'static str,
    /// The query parameter that selects a page.
    parameter: Option<String>,
    /// The query parameter for the number of rows.
    size_parameter: Option<String>,
    /// Whether this was guessed from the names in the platform's document.
    guessed: bool,
}

/// Lists the routes of a platform with their cost, group and scopes, and whether they are known to
/// work.
#[utoipa::path(
    get, path = "/v1/platforms/{platform}/routes", tag = "platforms",
    params(("platform" = String, Path, description = "such as platform_delta"), RouteParams),
    responses(
        (status = 200, body = PlatformRoutes),
    )
)]
async fn list_platform_routes(
    State(api): State<ApiState>,
    Path(platform): Path<Platform>,
    Query(params): Query<RouteParams>,
) -> Result<Json<PlatformRoutes>, ApiError> {
    let catalog = api.catalog.platform(platform);
    let start = match params.page.before() {
        None => 0,
        Some(RouteCursor(name)) => {
            let last = catalog.routes().iter().position(|route| route.name == name);
            last.ok_or_else(unknown_page)? + 1
        }
    };
    let wanted = catalog.operations().skip(start).filter(|(route, _)| params.filter.wants(route));
    let found = wanted.take(usize::try_from(params.page.to_read()).unwrap_or(usize::MAX));
    let page = params.page.page(found.collect(), |(route, _)| RouteCursor(route.name.clone()));
    let verified = verified(&api, platform).await?;
    let costs = api.config.credits.costs();
    let routes = page.entries.into_iter().map(|(route, named)| {
        RouteOut::new(platform, route, named, &costs, verified.get(&route.name).copied())
    });
    Ok(Json(PlatformRoutes { platform, routes: routes.collect(), next_before: page.next_before }))
}

fn unknown_page() -> ApiError {
    let message = "must be the next_before of a page; this platform has no such route";
    FieldProblem::new("query", "before", FieldErrorKind::NotFound, message).into()
}

/// When the first call to each route of a platform succeeded.
async fn verified(
    api: &ApiState,
    platform: Platform,
) -> Result<HashMap<String, Timestamp>, ApiError> {
    let verified = store::routes::list_verified(&api.store).await?.into_iter();
    let own = verified.filter(|route| route.platform == platform);
    Ok(own.map(|route| (route.route, route.verified_at)).collect())
}

impl RouteFilter {
    fn wants(&self, route: &Route) -> bool {
        let in_group =
            self.group.as_ref().is_none_or(|group| route.group.eq_ignore_ascii_case(group));
        let has_method = self.method.is_none_or(|method| route.method == method);
        in_group && has_method && self.search.as_ref().is_none_or(|text| route.mentions(text))
    }
}

impl RouteOut {
    fn new(
        platform: Platform,
        route: &Route,
        named: &RouteOperation,
        costs: &MeteringCosts,
        verified_at: Option<Timestamp>,
    ) -> Self {
        let docs = route.docs.as_deref();
        Self {
            method: route.method,
            path: route.template.clone(),
            group: route.group.clone(),
            cost: route.cost(costs).whole(),
            scopes: route.scopes.clone(),
            description: route.description.clone(),
            notes: route.notes.clone(),
            rewrites_to: route.shorthand().map(|shorthand| format!("/{}", shorthand.target)),
            query: route.query_parameters.iter().map(RouteQueryOut::from).collect(),
            default_query: route.default_query.iter().cloned().collect(),
            paging: docs.and_then(|docs| docs.paging.as_ref()).map(RoutePagingOut::from),
            deprecated: docs.is_some_and(|docs| docs.deprecated),
            operation_id: operation_id(route, named).to_owned(),
            operation: operation_link(platform, route, named),
            verified: route.verified || verified_at.is_some(),
            verified_at,
        }
    }
}

/// The upload is an operation of the service.
const UPLOAD: (&str, &str) = ("upload_media", "/v1/{account}/media/upload");

fn operation_id<'a>(route: &Route, named: &'a RouteOperation) -> &'a str {
    if route.is_native() { &named.id } else { UPLOAD.0 }
}

/// The document of the platform, with a JSON pointer to the operation.
fn operation_link(platform: Platform, route: &Route, named: &RouteOperation) -> String {
    let path = if route.is_native() { &named.path } else { UPLOAD.1 };
    let mut pointer = String::with_capacity(path.len() + 16);
    for character in path.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            '{' => pointer.push_str("%7B"),
            '}' => pointer.push_str("%7D"),
            '%' => pointer.push_str("%25"),
            other => pointer.push(other),
        }
    }
    let method = route.method.as_str().to_ascii_lowercase();
    format!("{}#/paths/{pointer}/{method}", document_of(platform))
}

impl From<&RouteParameter> for RouteQueryOut {
    fn from(known: &RouteParameter) -> Self {
        let summary = known.schema.as_ref().map(catalog::SchemaText::summary);
        Self {
            name: known.name.clone(),
            r#type: summary.unwrap_or_else(|| "string".to_owned()),
            required: known.required,
            description: known.description.clone(),
        }
    }
}

impl From<&RoutePaging> for RoutePagingOut {
    fn from(paging: &RoutePaging) -> Self {
        Self {
            style: paging.style.as_str(),
            parameter: paging.parameter.clone(),
            size_parameter: paging.size_parameter.clone(),
            guessed: paging.guessed,
        }
    }
}
