//! `/console/confirm`: where the mails that ask for the confirmation of an address lead to.

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

use super::page::{PageForm, show};
use crate::ConsoleState;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/confirm", get(show_link).post(use_link))
        .route("/console/confirm/again", post(ask_again))
}

/// The token in the address of the page, or in its form.
#[derive(serde::Deserialize)]
pub(super) struct PageToken {
    #[serde(default)]
    pub(super) token: String,
}

/// The address in the form that asks for a mail.
#[derive(serde::Deserialize)]
pub(super) struct Address {
    #[serde(default)]
    pub(super) email: String,
}

/// The page: exactly one of its parts is there.
#[derive(Template, Default)]
#[template(path = "console/confirm.html")]
struct Page {
    /// The link is open: what it would confirm.
    open: Option<Open>,
    /// The address is confirmed.
    done: Option<Done>,
    /// The link opens nothing.
    refused: Option<&'static str>,
    /// A new link was asked for.
    asked: bool,
    /// What is wrong with the address in the form that asks for one.
    address_problem: Option<String>,
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

/// Shows what the link would do. It is not used by that.
async fn show_link(
    State(console): State<ConsoleState>,
    Query(link): Query<PageToken>,
) -> Result<Response, ApiError> {
    let found = email_flows::look(&console.identity, &link.token).await?;
    let found = found.filter(|found| found.purpose != LinkPurpose::ResetPassword);
    let Some(found) = found else { return Ok(refused(&ApiError::Failure(Failure::UnknownLink))) };
    if found.state != LinkState::Open {
        return Ok(refused(&email_flows::not_open(found.state).into()));
    }
    let open = Open {
        email: found.email.to_string(),
        token: link.token,
        is_change: found.purpose == LinkPurpose::ChangeEmail,
    };
    Ok(show(StatusCode::OK, &Page { open: Some(open), ..Page::default() }))
}

async fn use_link(
    State(console): State<ConsoleState>,
    PageForm(link): PageForm<PageToken>,
) -> Result<Response, ApiError> {
    match email_flows::confirm(&console.identity, &link.token).await {
        Ok(ConfirmedAddress { email, granted, .. }) => {
            let done = Done { email: email.to_string(), credits: granted.whole() };
            Ok(show(StatusCode::OK, &Page { done: Some(done), ..Page::default() }))
        }
        Err(error) => refused_or(error.into()),
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
                        &Page { asked: true, ..Page::default() },
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
        refused: Some("Ask for a new link."),
        address_problem: Some(problem.1),
        ..Page::default()
    };
    Ok(show(problem.0, &page))
}

/// What is said where too many mails were asked for.
pub(super) const TOO_MANY: &str =
    "Too many emails were requested from your network. Try again in an hour.";

fn refused_or(error: ApiError) -> Result<Response, ApiError> {
    match error {
        ApiError::Failure(
            Failure::UnknownLink
            | Failure::LinkUsed
            | Failure::LinkExpired
            | Failure::LinkOutdated
            | Failure::EmailTaken,
        ) => Ok(refused(&error)),
        other => Err(other),
    }
}

fn refused(error: &ApiError) -> Response {
    let reason = match error {
        ApiError::Failure(Failure::LinkUsed) => {
            "This link was used before, or another one for the same was. If you confirmed your address, it is confirmed."
        }
        ApiError::Failure(Failure::LinkExpired) => {
            "This link's time is over: it worked for 24 hours."
        }
        ApiError::Failure(Failure::LinkOutdated) => {
            "This link is for an address that does not wait for a confirmation any more."
        }
        ApiError::Failure(Failure::EmailTaken) => {
            "Another customer has taken this address meanwhile."
        }
        _ => {
            "This link is not known. Perhaps a part of it was lost: copy the whole link out of the mail."
        }
    };
    show(error.row().status, &Page { refused: Some(reason), ..Page::default() })
}
