//! Confirming email addresses: checking an emailed link, using it, and requesting another one.

use axum::extract::{Extension, State};
use domain::customer::Email;
use domain::id::CustomerId;
use domain::mail::LinkPurpose;
use http::StatusCode;
use identity::email_flows::{self, ConfirmedAddress};
use identity::link_proof::LinkProof;
use store::mail_links::{EmailLink, LinkState};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::OptionalCredentials;
use web::auth::device::CallingDevice;
use web::error::ApiError;
use web::extract::{Json, Query};
use web::fields::{FieldProblems, GoodFields, RequestBody, RequestQuery};
use web::middleware::real_ip::ClientAddress;
use web::request_log::KnownCaller;

use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(check_email_link, confirm_email))
        .routes(routes!(resend_email_link))
}

/// The token of an emailed link.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LinkToken {
    /// The `token=` of the link.
    token: String,
}

impl RequestQuery for LinkToken {}

/// An emailed link, and what shows who uses it.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EmailConfirmation)]
pub(crate) struct ConfirmationIn {
    /// The `token=` of the link.
    token: String,
    /// The customer's password, if no key or session of the customer is sent.
    #[serde(default)]
    #[schema(max_length = 128, format = Password)]
    current_password: Option<String>,
    /// Sets a new password and ends everything else that gives access to the customer: the old
    /// password, every key and every session. Needed to confirm a first address without a key, a
    /// session or the password of the customer. 8 to 128 characters, used unchanged.
    #[serde(default)]
    #[schema(min_length = 8, max_length = 128, format = Password)]
    new_password: Option<String>,
}

impl RequestBody for ConfirmationIn {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        problems.new_password(fields, web, "new_password");
    }
}

/// What an emailed link would do.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct LinkOut {
    /// `open` if it can be used; otherwise `used`, `expired`, `outdated` (the address is no longer
    /// the customer's) or `unknown`.
    state: &'static str,
    /// Its purpose: `confirm_email` or `change_email`. Null if it is unknown.
    #[schema(value_type = Option<String>)]
    purpose: Option<LinkPurpose>,
    /// The address that it would confirm. Null unless it is open.
    #[schema(value_type = Option<String>)]
    email: Option<Email>,
    /// When it expires or expired. Null if it is unknown.
    expires_at: Option<String>,
}

/// Checks an emailed link. Checking does not consume it.
#[utoipa::path(
    get, path = "/v1/auth/email/verify", tag = "auth", params(LinkToken),
    responses((status = 200, body = LinkOut))
)]
async fn check_email_link(
    State(api): State<ApiState>,
    Query(link): Query<LinkToken>,
) -> Result<axum::Json<LinkOut>, ApiError> {
    let found = email_flows::look(&api.identity, &link.token).await?;
    let found = found.filter(|found| found.purpose != LinkPurpose::ResetPassword);
    Ok(axum::Json(found.map_or_else(LinkOut::unknown, LinkOut::of)))
}

/// A confirmed address.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ConfirmedOut {
    #[schema(value_type = String)]
    customer_id: CustomerId,
    #[schema(value_type = String)]
    email: Email,
    /// Always true.
    email_verified: bool,
    /// Credits of the free trial that were granted with it; 0 if none was pending.
    credits_granted: i64,
}

/// Confirms an email address with an emailed link, once, and grants a pending free trial.
///
/// A key, a session or `current_password` shows that the caller is the customer. When a customer
/// confirms its first address, that session and that key last (without a key, the first one), and
/// everything else ends: other sessions and keys, pending changes of address, support access, and
/// older links. Without any of them, `new_password` ends everything. A later change of address ends
/// nothing, and needs a key, a session or `current_password`.
#[utoipa::path(
    post, path = "/v1/auth/email/verify", tag = "auth", request_body = ConfirmationIn,
    responses(
        (status = 200, body = ConfirmedOut),
    )
)]
async fn confirm_email(
    State(api): State<ApiState>,
    caller: CallingDevice,
    OptionalCredentials(accompanying): OptionalCredentials,
    Json(sent): Json<ConfirmationIn>,
) -> Result<(Extension<KnownCaller>, axum::Json<ConfirmedOut>), ApiError> {
    let ConfirmationIn { token, current_password, new_password } = sent;
    let proof = LinkProof { accompanying, current_password, new_password };
    let ConfirmedAddress { customer, email, granted, .. } =
        email_flows::confirm(&api.identity, &caller, &token, proof).await?;
    let confirmed = ConfirmedOut {
        customer_id: customer,
        email,
        email_verified: true,
        credits_granted: granted.whole(),
    };
    Ok((Extension(KnownCaller { customer, key: None }), axum::Json(confirmed)))
}

/// An email address.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Address)]
pub(crate) struct EmailAddressIn {
    /// The address.
    #[schema(value_type = String, format = Email, example = "ada@example.com")]
    pub(super) email: Email,
}

impl RequestBody for EmailAddressIn {}

/// The response to a request for an email; always the same.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Asked {
    /// Always true: if the address is waiting for such an email, it will be sent.
    accepted: bool,
}

impl Asked {
    /// The response.
    pub(super) const fn answer() -> (StatusCode, axum::Json<Self>) {
        (StatusCode::ACCEPTED, axum::Json(Self { accepted: true }))
    }
}

/// Sends the confirmation email again. The response is the same whether the address is known,
/// confirmed or neither.
#[utoipa::path(
    post, path = "/v1/auth/email/resend", tag = "auth", request_body = EmailAddressIn,
    responses(
        (status = 202, body = Asked),
    )
)]
async fn resend_email_link(
    State(api): State<ApiState>,
    Extension(client): Extension<ClientAddress>,
    Json(address): Json<EmailAddressIn>,
) -> Result<(StatusCode, axum::Json<Asked>), ApiError> {
    email_flows::send_confirmation(&api.identity, client.ip, address.email).await?;
    Ok(Asked::answer())
}

impl LinkOut {
    fn unknown() -> Self {
        Self { state: "unknown", purpose: None, email: None, expires_at: None }
    }

    fn of(link: EmailLink) -> Self {
        let state = match link.state {
            LinkState::Open => "open",
            LinkState::Used => "used",
            LinkState::Expired => "expired",
            LinkState::Outdated => "outdated",
        };
        Self {
            state,
            purpose: Some(link.purpose),
            email: (link.state == LinkState::Open).then_some(link.email),
            expires_at: Some(link.expires_at.to_rfc3339()),
        }
    }
}
