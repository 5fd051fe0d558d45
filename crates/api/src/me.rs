//! The signed-in customer: its name, email address and password.

use axum::extract::State;
use axum::response::IntoResponse;
use domain::customer::Email;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use domain::time::Timestamp;
use failures::Failure;
use failures::FieldProblem;
use identity::email_flows;
use identity::login;
use store::customers::{Customer, NewCustomer};
use store::email_changes::EmailChange;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::SignedIn;
use web::auth::device::{CallingDevice, SessionDevice};
use web::error::ApiError;
use web::extract::{Json, NoQuery, OptionalJson};
use web::fields::{FieldProblems, GoodFields, RequestBody};

use super::sessions::{LoggedIn, handed_over};
use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_me, update_me)).routes(routes!(change_password))
}

/// A customer.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct CustomerOut {
    #[schema(value_type = String)]
    customer_id: CustomerId,
    email: String,
    name: String,
    /// Whether the address is confirmed.
    email_verified: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Customer> for CustomerOut {
    fn from(customer: Customer) -> Self {
        Self {
            customer_id: customer.id,
            email: customer.email.as_str().to_owned(),
            name: customer.name,
            email_verified: customer.email_verified_at.is_some(),
            created_at: customer.created_at,
        }
    }
}

impl From<NewCustomer> for CustomerOut {
    fn from(new: NewCustomer) -> Self {
        Self {
            customer_id: new.id,
            email: new.email.as_str().to_owned(),
            name: new.name,
            email_verified: new.email_verified_at.is_some(),
            created_at: new.created_at,
        }
    }
}

/// The signed-in customer.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct MeOut {
    #[serde(flatten)]
    customer: CustomerOut,
    /// The address that will replace `email` when the link emailed to it is used.
    pending_email: Option<String>,
}

/// Shows who is signed in.
#[utoipa::path(get, path = "/v1/auth/me", tag = "auth", responses((status = 200, body = MeOut)))]
async fn get_me(
    State(api): State<ApiState>,
    signed_in: SignedIn,
    _: NoQuery,
) -> Result<axum::Json<MeOut>, ApiError> {
    shown(&api, signed_in.customer).await
}

async fn shown(api: &ApiState, customer: CustomerId) -> Result<axum::Json<MeOut>, ApiError> {
    let found = store::customers::find_by_id(&api.store, customer).await?;
    let pending = store::email_changes::find(&api.store, customer).await?;
    Ok(axum::Json(MeOut {
        customer: found.ok_or(ApiError::Failure(Failure::InvalidSession))?.into(),
        pending_email: pending.map(|email| email.as_str().to_owned()),
    }))
}

/// The changes to a customer; absent fields stay as they are.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MePatch {
    /// The name of the customer; up to 200 characters.
    #[serde(default)]
    #[schema(max_length = 200, format = "line")]
    name: Option<String>,
    /// A new email address. It takes effect when the link emailed to it is used; until then the old
    /// one stays in use.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Email)]
    email: Option<Email>,
    /// The customer's password, as a confirmation; required with `email`.
    #[serde(default)]
    #[schema(max_length = 128, format = Password)]
    current_password: Option<String>,
}

impl RequestBody for MePatch {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        if fields.value("email").is_some() && fields.value("current_password").is_none() {
            problems.add(missing_password());
        }
    }
}

/// Changes the name or the email address of the customer. Everything is checked before anything is
/// changed.
#[utoipa::path(
    patch, path = "/v1/auth/me", tag = "auth", request_body = Option<MePatch>,
    responses(
        (status = 200, body = MeOut),
    )
)]
async fn update_me(
    State(api): State<ApiState>,
    signed_in: SignedIn,
    device: SessionDevice,
    OptionalJson(patch): OptionalJson<MePatch>,
) -> Result<axum::Json<MeOut>, ApiError> {
    if let Some(email) = patch.email {
        let password = patch.current_password.ok_or_else(missing_password)?;
        change_address(&api, signed_in.customer, &device.calling, email, password).await?;
    }
    if let Some(name) = &patch.name {
        store::customers::rename(&api.store, signed_in.customer, name).await?;
    }
    shown(&api, signed_in.customer).await
}

fn missing_password() -> FieldProblem {
    let message = "is required to change the email address";
    FieldProblem::new("body", "current_password", FieldErrorKind::Missing, message)
}

async fn change_address(
    api: &ApiState,
    customer: CustomerId,
    caller: &CallingDevice,
    email: Email,
    password: String,
) -> Result<(), ApiError> {
    login::confirm(&api.identity, customer, password, caller).await?;
    match email_flows::request_change(&api.identity, caller.ip, customer, email).await? {
        EmailChange::Requested | EmailChange::Unchanged => Ok(()),
        EmailChange::EmailTaken => Err(ApiError::Failure(Failure::EmailTaken)),
        EmailChange::NotFound => Err(ApiError::Failure(Failure::InvalidSession)),
    }
}

/// A change of the password.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordIn {
    /// The current password.
    #[schema(max_length = 128, format = Password)]
    current_password: String,
    /// The new password: 8 to 128 characters, used unchanged. Passwords that attackers
    /// try first are refused: common ones, sequences, the name of the service, the email address.
    #[schema(min_length = 8, max_length = 128, format = Password)]
    new_password: String,
}

impl RequestBody for PasswordIn {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        problems.new_password(fields, web, "new_password");
    }
}

/// Changes the password. Every session ends, and this browser gets a new one.
#[utoipa::path(
    post, path = "/v1/auth/password", tag = "auth", request_body = PasswordIn,
    responses(
        (status = 200, body = LoggedIn),
    )
)]
async fn change_password(
    State(api): State<ApiState>,
    signed_in: SignedIn,
    device: SessionDevice,
    Json(change): Json<PasswordIn>,
) -> Result<impl IntoResponse, ApiError> {
    let begun = login::change_password(
        &api.identity,
        signed_in.customer,
        change.current_password,
        change.new_password,
        &device,
    )
    .await?;
    Ok(handed_over(&api, begun))
}
