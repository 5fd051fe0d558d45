//! The retired way to register (specification 5.6): it issues neither keys nor credits any more.

use axum::response::{AppendHeaders, IntoResponse, Response};
use failures::Failure;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::error::ApiError;

use crate::ApiState;

/// Since when it is deprecated: midnight of 2026-11-21 UTC, as RFC 9745 writes a time.
const DEPRECATED_SINCE: &str = "@1795219200";
/// What took its place (RFC 8288, RFC 5829).
const SUCCESSOR: &str = "</v1/auth/register>; rel=\"successor-version\"";

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(sign_up))
}

/// Retired: register with `POST /v1/auth/register`. Nothing is created, whatever is sent.
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
