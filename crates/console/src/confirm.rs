//! `/console/confirm`: the page that emails asking to confirm an address link to.

use askama::Template;
use axum::Router;
use axum::extract::Extension;
use axum::response::Response;
use axum::routing::{get, post};
use domain::field_error::FieldErrorKind;
use domain::mail::LinkPurpose;
use failures::Failure;
use http::StatusCode;
use identity::email_flows::{self, ConfirmedAddress};
use identity::link_proof::LinkProof;
use pages::PageFrame;
use store::mail_links::{EmailLink, LinkState};
use web::auth::OptionalCredentials;
use web::auth::device::CallingDevice;
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;

use crate::stranger::Stranger;
use console_kit::ConsoleState;
use console_kit::form::{FormData, FormView, OpenForm};
use console_kit::page_query::PageQuery;
use console_kit::service;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/confirm", get(show_link).post(use_link))
        .route("/console/confirm/again", post(ask_again))
}

/// The token in the page's address.
#[derive(serde::Deserialize)]
pub(super) struct PageToken {
    #[serde(default)]
    pub(super) token: String,
}

#[derive(Template)]
#[template(path = "console/confirm.html")]
struct ConfirmPage {
    frame: PageFrame,
    step: ConfirmStep,
}

/// What the page shows.
enum ConfirmStep {
    /// The link can be used: what it would confirm, and who seems to use it.
    Open { email: String, token: String, user: PageUser, form: FormView },
    /// The address is confirmed.
    Done { email: String, credits: i64, is_password_new: bool },
    /// A new link was requested.
    Asked,
    /// The link cannot be used: the reason, and the form that requests another one.
    Refused { reason: &'static str, form: FormView },
}

/// Who opens the page, which decides what confirming needs and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageUser {
    /// The customer, signed in, who confirms a first address.
    New,
    /// Nobody who is signed in as the customer, for a first address.
    Unknown,
    /// The customer, signed in, who confirms a change of address.
    Changing,
    /// Nobody who is signed in as the customer, for a change of address.
    UnknownChanging,
}

impl PageUser {
    fn of(link: &EmailLink, is_customer: bool) -> Self {
        match (link.is_customer_confirmed, is_customer) {
            (false, true) => Self::New,
            (false, false) => Self::Unknown,
            (true, true) => Self::Changing,
            (true, false) => Self::UnknownChanging,
        }
    }

    fn is_change(self) -> bool {
        matches!(self, Self::Changing | Self::UnknownChanging)
    }
}

fn page(stranger: &Stranger, status: StatusCode, step: ConfirmStep) -> Response {
    Stranger::show(status, &ConfirmPage { frame: stranger.frame(), step })
}

/// Shows what the link would do. Checking a link does not consume it.
async fn show_link(
    PageQuery(link): PageQuery<PageToken>,
    OptionalCredentials(accompanying): OptionalCredentials,
    stranger: Stranger,
) -> Result<Response, ApiError> {
    let proof = LinkProof { accompanying, ..LinkProof::default() };
    open(&stranger, link.token, &proof, FormView::default()).await
}

/// The page of a link: what it would do with this proof, or why it cannot be used.
async fn open(
    stranger: &Stranger,
    token: String,
    proof: &LinkProof,
    form: FormView,
) -> Result<Response, ApiError> {
    let found = email_flows::look(&stranger.console().identity, &token).await?;
    let found = found.filter(|found| found.purpose != LinkPurpose::ResetPassword);
    let Some(found) = found else {
        return Ok(refused(stranger, &ApiError::Failure(Failure::UnknownLink)));
    };
    if found.state != LinkState::Open {
        return Ok(refused(stranger, &email_flows::not_open(found.state).into()));
    }
    let (status, user) = (form.status(), PageUser::of(&found, proof.is_of(&found)));
    let step = ConfirmStep::Open { email: found.email.to_string(), token, user, form };
    Ok(page(stranger, status, step))
}

async fn use_link(
    caller: CallingDevice,
    OptionalCredentials(accompanying): OptionalCredentials,
    stranger: Stranger,
    OpenForm(form): OpenForm,
) -> Result<Response, ApiError> {
    let (token, identity) = (form.raw("token"), &stranger.console().identity);
    let entered = |name: &str| Some(form.raw(name).to_owned()).filter(|text| !text.is_empty());
    let shown = LinkProof { accompanying, ..LinkProof::default() };
    let (current_password, new_password) = (entered("current_password"), entered("new_password"));
    if new_password.is_some() && new_password != entered("repeated") {
        let wrong = FormView::default().mark("repeated", "The two passwords are not the same.");
        return open(&stranger, token.to_owned(), &shown, wrong).await;
    }
    let proof = LinkProof { accompanying, current_password, new_password };
    match email_flows::confirm(identity, &caller, token, proof).await {
        Ok(ConfirmedAddress { email, granted, is_password_new, .. }) => {
            let (email, credits) = (email.to_string(), granted.whole());
            let step = ConfirmStep::Done { email, credits, is_password_new };
            Ok(page(&stranger, StatusCode::OK, step))
        }
        Err(error) => match wrong_password(&error) {
            Some(wrong) => open(&stranger, token.to_owned(), &shown, wrong).await,
            None => refused_or(&stranger, error.into()),
        },
    }
}

/// What to mark in the form of a link, if only a password is missing or wrong.
fn wrong_password(error: &Failure) -> Option<FormView> {
    match error {
        Failure::WrongPassword => {
            let wrong = "This isn’t the password of the account.";
            Some(FormView::default().mark("current_password", wrong))
        }
        Failure::Invalid(problems) => {
            let problem = problems.first()?;
            let name = service::name_of(problem);
            let message = match (problem.kind, name.as_str()) {
                (FieldErrorKind::Missing, "new_password") => "Enter a new password.".to_owned(),
                (FieldErrorKind::Missing, _) => "Enter your password.".to_owned(),
                _ => problem.msg.clone(),
            };
            Some(FormView::default().mark(&name, message))
        }
        _ => None,
    }
}

async fn ask_again(
    Extension(client): Extension<ClientAddress>,
    stranger: Stranger,
    OpenForm(form): OpenForm,
) -> Result<Response, ApiError> {
    let identity = &stranger.console().identity;
    let (status, problem) = match form.text("email").parse() {
        Ok(email) => match email_flows::send_confirmation(identity, client.ip, email).await {
            Ok(()) => return Ok(page(&stranger, StatusCode::ACCEPTED, ConfirmStep::Asked)),
            Err(error) => too_many(error)?,
        },
        Err(wrong) => wrong_address(wrong),
    };
    let form = address_form(&form, problem);
    let step = ConfirmStep::Refused { reason: "Request a new link.", form };
    Ok(page(&stranger, status, step))
}

/// The form that requests an email, with what is wrong with the address.
pub(super) fn address_form(form: &FormData, problem: String) -> FormView {
    FormView::filled(FormData::default().with("email", form.text("email"))).mark("email", problem)
}

pub(super) fn wrong_address(wrong: domain::customer::InvalidEmail) -> (StatusCode, String) {
    (StatusCode::UNPROCESSABLE_ENTITY, format!("The address {wrong}."))
}

/// The status and words for too many emails; every other failure stays one.
pub(super) fn too_many(error: Failure) -> Result<(StatusCode, String), ApiError> {
    let is_limit = matches!(error, Failure::TooManyMails { .. });
    let error = ApiError::from(error);
    if is_limit { Ok((error.row().status, TOO_MANY.to_owned())) } else { Err(error) }
}

/// Shown when too many emails were requested.
const TOO_MANY: &str = "Too many emails were requested from your network. Try again in an hour.";

fn refused_or(stranger: &Stranger, error: ApiError) -> Result<Response, ApiError> {
    match error {
        ApiError::Failure(
            Failure::UnknownLink
            | Failure::LinkUsed
            | Failure::LinkExpired
            | Failure::LinkOutdated
            | Failure::EmailTaken,
        ) => Ok(refused(stranger, &error)),
        other => Err(other),
    }
}

fn refused(stranger: &Stranger, error: &ApiError) -> Response {
    let reason = match error {
        ApiError::Failure(Failure::LinkUsed) => {
            "This link, or a newer one, has already been used. If you confirmed your address, you’re all set."
        }
        ApiError::Failure(Failure::LinkExpired) => {
            "This link has expired. Links work for 24 hours."
        }
        ApiError::Failure(Failure::LinkOutdated) => {
            "This link belongs to an address that no longer needs to be confirmed."
        }
        ApiError::Failure(Failure::EmailTaken) => {
            "Another customer has registered this address in the meantime."
        }
        _ => {
            "This link isn’t known. Part of it may be missing: copy the whole link from the email."
        }
    };
    let step = ConfirmStep::Refused { reason, form: FormView::default() };
    page(stranger, error.row().status, step)
}
