//! The retired registration route (specification 5.6): it no longer issues keys or credits.

use axum::response::{AppendHeaders, IntoResponse, Response};
use failures::Failure;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::error::ApiError;

use crate::ApiState;

/// When it was deprecated: midnight UTC of 2026-11-21, in the format of RFC 9745.
const DEPRECATED_SINCE: &str = "@1795219200";
/// The route that replaces it (RFC 8288, RFC 5829).
const SUCCESSOR: &str = "</v1/auth/register>; rel=\"successor-version\"";

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(sign_up))
}

/// Retired: register with `POST /v1/auth/register`. It never creates anything.
#[utoipa::path(
    post, path = "/v1/signup", tag = "auth", security(()),
    responses((status = 410, description = "gone; `Link` names the successor, `Deprecation` since when"))
)]
async fn sign_up() -> Response {
    let headers = AppendHeaders([("deprecation", DEPRECATED_SINCE), ("link", SUCCESSOR)]);
    let gone = ApiError::Failure(Failure::Gone(
        "`POST /v1/signup` is retired; use `POST /v1/auth/register`",
    ));
    (headers, gone).into_response()
}
