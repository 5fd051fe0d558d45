//! Forgotten passwords: requesting a link by email, and setting a password with it.

use axum::extract::{Extension, State};
use axum::response::{AppendHeaders, IntoResponse};
use http::StatusCode;
use http::header::SET_COOKIE;
use identity::email_flows;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::device::CallingDevice;
use web::error::ApiError;
use web::extract::Json;
use web::fields::{FieldProblems, GoodFields, RequestBody};
use web::middleware::real_ip::ClientAddress;
use web::request_log::KnownCaller;

use super::email::{Asked, EmailAddressIn};
use super::sessions::device_cookie;
use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(forgot_password)).routes(routes!(reset_password))
}

/// Sends an email with a link to set a new password. The response is the same whether the address
/// is known or not.
#[utoipa::path(
    post, path = "/v1/auth/password/forgot", tag = "auth", request_body = EmailAddressIn,
    responses(
        (status = 202, body = Asked),
    )
)]
async fn forgot_password(
    State(api): State<ApiState>,
    Extension(client): Extension<ClientAddress>,
    Json(address): Json<EmailAddressIn>,
) -> Result<(StatusCode, axum::Json<Asked>), ApiError> {
    email_flows::forgot_password(&api.identity, client.ip, address.email).await?;
    Ok(Asked::answer())
}

/// A new password, and the link that allows it.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    /// The `token=` of the emailed link.
    token: String,
    /// 8 to 128 characters, used unchanged. Passwords that attackers
    /// try first are refused: common ones, sequences, the name of the service, the email address.
    #[schema(min_length = 8, max_length = 128, format = Password)]
    new_password: String,
}

impl RequestBody for NewPassword {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        problems.new_password(fields, web, "new_password");
    }
}

/// Sets a password with an emailed link, once. Every session of the customer ends. Keys keep
/// working, unless the address was not confirmed before: then this confirms it and ends every key,
/// because somebody else may have registered.
#[utoipa::path(
    post, path = "/v1/auth/password/reset", tag = "auth", request_body = NewPassword,
    responses(
        (status = 204, description = "the password is set, and every session has ended"),
    )
)]
async fn reset_password(
    State(api): State<ApiState>,
    caller: CallingDevice,
    Json(new): Json<NewPassword>,
) -> Result<impl IntoResponse, ApiError> {
    let (token, password) = (&new.token, new.new_password);
    let done = email_flows::reset_password(&api.identity, &caller, token, password).await?;
    let cookie = done.device_cookie.map(|value| (SET_COOKIE, device_cookie(&api, &value)));
    let known = KnownCaller { customer: done.customer, key: None };
    Ok((StatusCode::NO_CONTENT, Extension(known), AppendHeaders(cookie)))
}
