//! Liveness: whether the process responds at all. Readiness is on the admin listener.

use axum::Json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::extract::NoQuery;

use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_health))
}

/// The state of the service, and its version.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Health {
    /// Always `ok`; a service that is not running does not respond.
    status: &'static str,
    /// The version of this service.
    version: &'static str,
}

/// Checks that the service is running.
#[utoipa::path(get, path = "/health", tag = "service", responses((status = 200, body = Health)))]
async fn get_health(_: NoQuery) -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}
