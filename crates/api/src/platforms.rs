//! Platforms: what can be connected, and which routes each one has.

use accounts::drift::PlatformDegradation;
use axum::Json;
use axum::extract::State;
use domain::platform::Platform;
use domain::time::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::error::ApiError;
use web::extract::{NoQuery, Path};

use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_platforms)).routes(routes!(list_platform_routes))
}

/// The platforms that this service supports.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Platforms {
    platforms: Vec<PlatformOut>,
}

/// A platform and what connecting an account requires.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PlatformOut {
    /// The platform's name in requests and responses.
    #[schema(schema_with = super::words::platform)]
    platform: Platform,
    /// Whether accounts can be connected in this deployment.
    offered: bool,
    /// `ok`, `refusing_credentials` or `degraded`. `refusing_credentials`: the platform currently
    /// refuses the credentials of all accounts. `degraded`: far more calls of several customers
    /// fail than usual, as `degradations` says; the platform may have changed. In both states no
    /// account needs to be connected again, and calls that get a 401 cost nothing.
    #[schema(value_type = String, example = "ok")]
    state: PlatformState,
    /// Since when the platform is in this state; `null` while it is `ok`.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// What fails more often than usual; empty unless calls do. The oldest is first.
    degradations: Vec<DegradationOut>,
    /// The fields of `auth` in `POST /v1/connect/import`.
    auth: Vec<AuthFieldOut>,
    /// The number of routes in the catalogue.
    routes: usize,
}

/// Whether a platform accepts credentials and works as usual.
#[derive(Debug, Clone, Copy, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum PlatformState {
    Ok,
    RefusingCredentials,
    Degraded,
}

/// Calls to a platform that fail more often than usual.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct DegradationOut {
    /// How they fail: `unauthorized` (401), `forbidden` (403), `not_found` (404), or `envelope` (a
    /// success without the platform's envelope).
    #[schema(value_type = String)]
    kind: &'static str,
    /// The route; `other` for routes that are counted together, `null` for all routes of the
    /// platform.
    route: Option<String>,
    /// The share of these calls that failed when one last did, in percent. Customers count equally.
    share_percent: u64,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

impl From<PlatformDegradation> for DegradationOut {
    fn from(degradation: PlatformDegradation) -> Self {
        let PlatformDegradation { kind, route, share_percent, since } = degradation;
        Self { kind: kind.as_str(), route, share_percent, since }
    }
}

impl PlatformState {
    /// The state of a platform, and since when.
    fn of(
        refusing_since: Option<Timestamp>,
        degradations: &[PlatformDegradation],
    ) -> (Self, Option<Timestamp>) {
        match (refusing_since, degradations.first()) {
            (Some(since), _) => (Self::RefusingCredentials, Some(since)),
            (None, Some(oldest)) => (Self::Degraded, Some(oldest.since)),
            (None, None) => (Self::Ok, None),
        }
    }
}

/// One field of `auth`.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct AuthFieldOut {
    name: String,
    /// `string`, `timestamp`, `string_list` or `string_map`.
    r#type: &'static str,
    required: bool,
    /// Whether it is a secret; secrets are sealed at rest and never shown again.
    secret: bool,
    description: String,
}

/// Lists the platforms and the `auth` fields that each needs.
#[utoipa::path(get, path = "/v1/platforms", tag = "platforms", responses((status = 200, body = Platforms)))]
async fn list_platforms(State(api): State<ApiState>, _: NoQuery) -> Json<Platforms> {
    let platforms = Platform::all().into_iter().map(|platform| {
        let catalog = api.catalog.platform(platform);
        let auth = catalog.auth_fields().iter().map(|field| AuthFieldOut {
            name: field.name.clone(),
            r#type: field.kind.as_str(),
            required: field.required,
            secret: field.secret,
            description: field.description.clone(),
        });
        let health = &api.accounts.platform_health;
        let degradations = health.drift.degradations(platform, api.clock.now());
        let (state, since) = PlatformState::of(health.refusing_since(platform), &degradations);
        PlatformOut {
            platform,
            offered: api.accounts.target(platform).is_ok(),
            state,
            since,
            degradations: degradations.into_iter().map(DegradationOut::from).collect(),
            auth: auth.collect(),
            routes: catalog.routes().len(),
        }
    });
    Json(Platforms { platforms: platforms.collect() })
}

/// The catalogue of one platform.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct PlatformRoutes {
    #[schema(schema_with = super::words::platform)]
    platform: Platform,
    routes: Vec<RouteOut>,
}

/// One route of a platform.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct RouteOut {
    #[schema(schema_with = super::words::method)]
    method: domain::method::Method,
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
    /// Query parameters that are added when absent.
    default_query: std::collections::BTreeMap<String, String>,
    /// Whether a call to it is known to have succeeded.
    verified: bool,
    /// When the first call through this service succeeded.
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
}

/// Lists the routes of a platform with their cost, group and scopes, and whether they are known to
/// work.
#[utoipa::path(
    get, path = "/v1/platforms/{platform}/routes", tag = "platforms",
    params(("platform" = String, Path, description = "such as platform_delta")),
    responses(
        (status = 200, body = PlatformRoutes),
    )
)]
async fn list_platform_routes(
    State(api): State<ApiState>,
    Path(platform): Path<Platform>,
    _: NoQuery,
) -> Result<Json<PlatformRoutes>, ApiError> {
    let verified = store::routes::list_verified(&api.store).await?;
    let verified: std::collections::HashMap<String, Timestamp> = verified
        .into_iter()
        .filter(|route| route.platform == platform)
        .map(|route| (route.route, route.verified_at))
        .collect();
    let costs = api.config.credits.costs();
    let routes = api.catalog.platform(platform).routes().iter().map(|route| {
        let verified_at = verified.get(&route.name).copied();
        RouteOut {
            method: route.method,
            path: route.template.clone(),
            group: route.group.clone(),
            cost: route.cost(&costs).whole(),
            scopes: route.scopes.clone(),
            description: route.description.clone(),
            notes: route.notes.clone(),
            rewrites_to: route.shorthand().map(|shorthand| format!("/{}", shorthand.target)),
            default_query: route.default_query.iter().cloned().collect(),
            verified: route.verified || verified_at.is_some(),
            verified_at,
        }
    });
    Ok(Json(PlatformRoutes { platform, routes: routes.collect() }))
}
