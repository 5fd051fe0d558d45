//! Registration: a customer, its first key and its trial, together or not at all.

use std::net::IpAddr;

use axum::extract::{Extension, State};
use domain::customer::{Email, TrialState};
use domain::id::{CustomerId, KeyId};
use domain::key::{KeyScope, KeySecret};
use emails::EmailRequest;
use failures::Failure;
use identity::passwords::{self, HashRequester};
use store::customers::NewCustomer;
use store::keys::{NewKey, NewSecret};
use store::registration::{self, TrialLimit};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::created::CreatedResource;
use web::error::ApiError;
use web::extract::Json;
use web::fields::{FieldProblems, GoodFields, RequestBody};
use web::middleware::real_ip::ClientAddress;
use web::network_of;
use web::request_log::KnownCaller;
use web::trial;

use super::me::CustomerOut;
use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(register_customer))
}
/// A new customer's registration.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Registration {
    /// The email address; letter case does not matter.
    #[schema(value_type = String, format = Email, example = "ada@example.com")]
    email: Email,
    /// 8 to 128 characters, used unchanged. Passwords that attackers
    /// try first are refused: common ones, sequences, the name of the service, the email address.
    #[schema(min_length = 8, max_length = 128, format = Password)]
    password: String,
    /// The name of the customer; up to 200 characters.
    #[serde(default)]
    #[schema(max_length = 200, format = "line")]
    name: Option<String>,
}

impl RequestBody for Registration {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        problems.new_password(fields, web, "password");
    }
}

/// A new customer with its first key.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = Registered)]
pub(crate) struct RegisteredOut {
    customer: CustomerOut,
    /// The secret of the first key, of full scope. It is shown only in this response.
    api_key: String,
    #[schema(value_type = String)]
    key_id: KeyId,
    trial: TrialOut,
}

/// The free trial.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct TrialOut {
    /// `pending` until the email address is confirmed; `none` if too many trials started today from
    /// this network or under this email domain.
    #[schema(schema_with = web::words::trial_state)]
    state: TrialState,
    /// Credits that the confirmation grants, once.
    credits: i64,
}

/// Registers a customer, with a first key, a pending free trial and a confirmation email.
#[utoipa::path(
    post, path = "/v1/auth/register", tag = "auth", request_body = Registration,
    responses(
        (status = 201, body = RegisteredOut,
            headers(("Location" = String, description = "where the customer is shown, to a session"))),
    )
)]
async fn register_customer(
    State(api): State<ApiState>,
    Extension(client): Extension<ClientAddress>,
    Json(form): Json<Registration>,
) -> Result<(Extension<KnownCaller>, CreatedResource<RegisteredOut>), ApiError> {
    limit(&api, client.ip)?;
    let requester = HashRequester::Stranger(client.ip);
    let hashed = passwords::hash(&api.identity, requester, form.password).await;
    // A registration that failed before it was attempted is not counted.
    let password_hash =
        hashed.inspect_err(|_| api.registrations.give_back(client.ip, api.clock.now()))?;
    let secret = KeySecret::generate(|bound| api.random.below(bound));
    let now = api.clock.now();
    let key_id = KeyId::new(now, api.random.bytes());
    let trial = if api.config.credits.trial > 0 { TrialState::Pending } else { TrialState::None };
    let new = NewCustomer {
        id: CustomerId::new(now, api.random.bytes()),
        email: form.email,
        name: form.name.unwrap_or_default(),
        password_hash,
        email_verified_at: None,
        trial,
        created_at: now,
        first_key: NewKey {
            id: key_id,
            name: "first key".to_owned(),
            secret: NewSecret::of(&secret),
            scope: KeyScope::Full,
            accounts: Vec::new(),
            monthly_budget: None,
            expires_at: None,
        },
    };
    let letter = EmailRequest::ConfirmEmail { email: new.email.clone(), asked_by: None };
    let wanted = registration::NewRegistration {
        customer: &new,
        trial_limits: &trial_limits(&api, client.ip, &new.email),
        jobs: &[emails::job(&api.jobs, &letter)],
    };
    match registration::register(&api.store, &wanted).await? {
        registration::RegistrationOutcome::EmailTaken => {
            Err(ApiError::Failure(Failure::EmailTaken))
        }
        registration::RegistrationOutcome::Created { trial: begun } => {
            api.jobs.wake();
            let caller = KnownCaller { customer: new.id, key: Some(key_id) };
            let answer = RegisteredOut::new(&api, new, begun, &secret);
            let created = CreatedResource { location: "/v1/auth/me".to_owned(), body: answer };
            Ok((Extension(caller), created))
        }
    }
}

/// The limits on trials that share a network or an email domain.
fn trial_limits(api: &ApiState, ip: IpAddr, email: &Email) -> Vec<TrialLimit> {
    let limits = &api.config.rate_limits;
    let domain = TrialLimit {
        scope: format!("domain {}", email.domain()),
        per_day: limits.trials_per_domain_per_day.into(),
    };
    if ip.is_loopback() {
        return vec![domain];
    }
    let network = TrialLimit {
        scope: format!("network {}", network_of(ip)),
        per_day: limits.trials_per_network_per_day.into(),
    };
    vec![network, domain]
}

impl RegisteredOut {
    fn new(api: &ApiState, new: NewCustomer, state: TrialState, secret: &KeySecret) -> Self {
        Self {
            api_key: secret.expose().to_owned(),
            key_id: new.first_key.id,
            trial: TrialOut { state, credits: trial::promised(&api.web, state) },
            customer: new.into(),
        }
    }
}

/// Limits registrations from one network per hour; loopback is not limited.
fn limit(api: &ApiState, ip: IpAddr) -> Result<(), ApiError> {
    let decision = api.registrations.check(ip, api.clock.now());
    match decision.and_then(|decision| decision.retry_after_ms) {
        None => Ok(()),
        Some(retry_after_ms) => {
            Err(ApiError::Failure(Failure::TooManyRegistrations { retry_after_ms }))
        }
    }
}
