//! `/console/confirm`: the page that emails asking to confirm an address link to.

use askama::Template;
use axum::Router;
use axum::extract::Extension;
use axum::response::Response;
use axum::routing::{get, post};
use domain::mail::LinkPurpose;
use failures::Failure;
use http::StatusCode;
use identity::email_flows::{self, ConfirmedAddress};
use pages::PageFrame;
use store::mail_links::LinkState;
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;

use crate::stranger::Stranger;
use console_kit::ConsoleState;
use console_kit::form::{FormData, FormView, OpenForm};
use console_kit::page_query::PageQuery;

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
    /// The link can be used: what it would confirm.
    Open { email: String, token: String, is_change: bool },
    /// The address is confirmed.
    Done { email: String, credits: i64 },
    /// A new link was requested.
    Asked,
    /// The link cannot be used: the reason, and the form that requests another one.
    Refused { reason: &'static str, form: FormView },
}

fn page(stranger: &Stranger, status: StatusCode, step: ConfirmStep) -> Response {
    Stranger::show(status, &ConfirmPage { frame: stranger.frame(), step })
}

/// Shows what the link would do. Checking a link does not consume it.
async fn show_link(
    PageQuery(link): PageQuery<PageToken>,
    stranger: Stranger,
) -> Result<Response, ApiError> {
    let found = email_flows::look(&stranger.console().identity, &link.token).await?;
    let found = found.filter(|found| found.purpose != LinkPurpose::ResetPassword);
    let Some(found) = found else {
        return Ok(refused(&stranger, &ApiError::Failure(Failure::UnknownLink)));
    };
    if found.state != LinkState::Open {
        return Ok(refused(&stranger, &email_flows::not_open(found.state).into()));
    }
    let is_change = found.purpose == LinkPurpose::ChangeEmail;
    let step = ConfirmStep::Open { email: found.email.to_string(), token: link.token, is_change };
    Ok(page(&stranger, StatusCode::OK, step))
}

async fn use_link(stranger: Stranger, OpenForm(form): OpenForm) -> Result<Response, ApiError> {
    match email_flows::confirm(&stranger.console().identity, form.raw("token")).await {
        Ok(ConfirmedAddress { email, granted, .. }) => {
            let step = ConfirmStep::Done { email: email.to_string(), credits: granted.whole() };
            Ok(page(&stranger, StatusCode::OK, step))
        }
        Err(error) => refused_or(&stranger, error.into()),
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
