//! `/console/confirm`: the page that emails asking to confirm an address link to.

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use domain::mail::LinkPurpose;
use failures::Failure;
use http::StatusCode;
use identity::email_flows::{self, ConfirmedAddress};
use store::mail_links::LinkState;
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;

use super::page::{PageBrand, PageForm, show};
use crate::ConsoleState;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/confirm", get(show_link).post(use_link))
        .route("/console/confirm/again", post(ask_again))
}

/// The token, from the page's query or its form.
#[derive(serde::Deserialize)]
pub(super) struct PageToken {
    #[serde(default)]
    pub(super) token: String,
}

/// The address, in the form that requests an email.
#[derive(serde::Deserialize)]
pub(super) struct Address {
    #[serde(default)]
    pub(super) email: String,
}

/// The page. Exactly one of its parts is set.
#[derive(Template, Default)]
#[template(path = "console/confirm.html")]
struct Page {
    brand: PageBrand,
    /// The link can be used: what it would confirm.
    open: Option<Open>,
    /// The address is confirmed.
    done: Option<Done>,
    /// The link cannot be used: the reason.
    refused: Option<&'static str>,
    /// A new link was requested.
    asked: bool,
    /// The problem with the address in the form that requests a link.
    address_problem: Option<String>,
}

impl Page {
    /// A page of this service without any of its parts.
    fn of(console: &ConsoleState) -> Self {
        Self { brand: PageBrand::of(console), ..Self::default() }
    }
}

struct Open {
    email: String,
    token: String,
    is_change: bool,
}

struct Done {
    email: String,
    credits: i64,
}

/// Shows what the link would do. Checking a link does not consume it.
async fn show_link(
    State(console): State<ConsoleState>,
    Query(link): Query<PageToken>,
) -> Result<Response, ApiError> {
    let found = email_flows::look(&console.identity, &link.token).await?;
    let found = found.filter(|found| found.purpose != LinkPurpose::ResetPassword);
    let Some(found) = found else {
        return Ok(refused(&console, &ApiError::Failure(Failure::UnknownLink)));
    };
    if found.state != LinkState::Open {
        return Ok(refused(&console, &email_flows::not_open(found.state).into()));
    }
    let open = Open {
        email: found.email.to_string(),
        token: link.token,
        is_change: found.purpose == LinkPurpose::ChangeEmail,
    };
    Ok(show(StatusCode::OK, &Page { open: Some(open), ..Page::of(&console) }))
}

async fn use_link(
    State(console): State<ConsoleState>,
    PageForm(link): PageForm<PageToken>,
) -> Result<Response, ApiError> {
    match email_flows::confirm(&console.identity, &link.token).await {
        Ok(ConfirmedAddress { email, granted, .. }) => {
            let done = Done { email: email.to_string(), credits: granted.whole() };
            Ok(show(StatusCode::OK, &Page { done: Some(done), ..Page::of(&console) }))
        }
        Err(error) => refused_or(&console, error.into()),
    }
}

async fn ask_again(
    State(console): State<ConsoleState>,
    Extension(client): Extension<ClientAddress>,
    PageForm(address): PageForm<Address>,
) -> Result<Response, ApiError> {
    let problem = match address.email.trim().parse() {
        Ok(email) => {
            match email_flows::send_confirmation(&console.identity, client.ip, email).await {
                Ok(()) => {
                    return Ok(show(
                        StatusCode::ACCEPTED,
                        &Page { asked: true, ..Page::of(&console) },
                    ));
                }
                Err(error @ Failure::TooManyMails { .. }) => {
                    (ApiError::from(error).row().status, TOO_MANY.to_owned())
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(domain::customer::InvalidEmail) => {
            let said = format!("The address {}.", domain::customer::InvalidEmail);
            (StatusCode::UNPROCESSABLE_ENTITY, said)
        }
    };
    let page = Page {
        refused: Some("Request a new link."),
        address_problem: Some(problem.1),
        ..Page::of(&console)
    };
    Ok(show(problem.0, &page))
}

/// Shown when too many emails were requested.
pub(super) const TOO_MANY: &str =
    "Too many emails were requested from your network. Try again in an hour.";

fn refused_or(console: &ConsoleState, error: ApiError) -> Result<Response, ApiError> {
    match error {
        ApiError::Failure(
            Failure::UnknownLink
            | Failure::LinkUsed
            | Failure::LinkExpired
            | Failure::LinkOutdated
            | Failure::EmailTaken,
        ) => Ok(refused(console, &error)),
        other => Err(other),
    }
}

fn refused(console: &ConsoleState, error: &ApiError) -> Response {
    let reason = match error {
        ApiError::Failure(Failure::LinkUsed) => {
            "This link, or a newer one, has already been used. If you confirmed your address, no action is needed."
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
            "This link is not known. Part of it may be missing: copy the whole link from the email."
        }
    };
    show(error.row().status, &Page { refused: Some(reason), ..Page::of(console) })
}
