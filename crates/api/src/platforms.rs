//! Platforms: what can be connected, and with which credentials.

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
    #[schema(schema_with = super::words::platform)]
    platform: Platform,
    /// Whether accounts can be connected in this deployment.
    offered: bool,
    /// `ok`, or `refusing_credentials`: the platform currently refuses the credentials of all
    /// accounts. No account needs to be connected again; refused calls cost nothing.
    #[schema(value_type = String, example = "ok")]
    state: PlatformState,
    /// Since when the platform refuses credentials; `null` while its state is `ok`.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// The fields of `auth` in `POST /v1/connect/import`.
    auth: Vec<AuthFieldOut>,
    /// The number of routes in the catalogue; `GET /v1/platforms/{platform}/routes` lists them.
    routes: usize,
    /// Where the OpenAPI document of its routes is; with `?version=3.0` in OpenAPI 3.0.3.
    openapi: String,
}

/// Whether a platform accepts credentials.
#[derive(Debug, Clone, Copy, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum PlatformState {
    Ok,
    RefusingCredentials,
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
        let since = api.accounts.platform_health.refusing_since(platform);
        PlatformOut {
            platform,
            offered: api.accounts.target(platform).is_ok(),
            state: since.map_or(PlatformState::Ok, |_| PlatformState::RefusingCredentials),
            since,
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
