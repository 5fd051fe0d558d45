//! Platforms: what can be connected, and with which credentials.

use accounts::drift::PlatformDegradation;
use axum::Json;
use axum::extract::State;
use domain::platform::Platform;
use domain::time::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::extract::NoQuery;

use crate::{ApiState, platform_routes};

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_platforms)).merge(platform_routes::router())
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
    #[schema(schema_with = web::words::platform)]
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
    /// The number of routes in the catalogue; `GET /v1/platforms/{platform}/routes` lists them.
    routes: usize,
    /// Where the OpenAPI document of its routes is; with `?version=3.0` in OpenAPI 3.0.3.
    openapi: String,
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
            openapi: document_of(platform),
        }
    });
    Json(Platforms { platforms: platforms.collect() })
}

/// Where the OpenAPI document of a platform is.
pub(crate) fn document_of(platform: Platform) -> String {
    format!("/v1/platforms/{platform}/openapi.json")
}
