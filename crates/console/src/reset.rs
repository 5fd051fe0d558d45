//! `/console/reset`: the page that password reset emails link to, and where such an email is
//! requested.

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use domain::mail::LinkPurpose;
use failures::Failure;
use http::StatusCode;
use identity::email_flows;
use store::mail_links::LinkState;
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;

use super::confirm::{Address, PageToken, TOO_MANY};
use super::page::{PageBrand, PageForm, show};
use crate::ConsoleState;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/reset", get(show_link).post(set_password))
        .route("/console/reset/ask", post(ask))
}

#[derive(serde::Deserialize)]
struct PasswordForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    new_password: String,
    #[serde(default)]
    repeated: String,
}

/// The page. At most one of its parts is set; without any it shows the form that requests an email.
#[derive(Template, Default)]
#[template(path = "console/reset.html")]
struct Page {
    brand: PageBrand,
    /// The link can be used: its token.
    open: Option<String>,
    /// The problem with the submitted password.
    password_problem: Option<String>,
    /// The password is set.
    done: bool,
    /// An email was requested.
    asked: bool,
    /// The link cannot be used: the reason.
    refused: Option<&'static str>,
    /// The problem with the address in the form that requests an email.
    address_problem: Option<String>,
}

impl Page {
    /// A page of this service without any of its parts.
    fn of(console: &ConsoleState) -> Self {
        Self { brand: PageBrand::of(console), ..Self::default() }
    }
}

/// Shows the form for a new password, or the one that requests an email. Checking a link does not
/// consume it.
async fn show_link(
    State(console): State<ConsoleState>,
    Query(link): Query<PageToken>,
) -> Result<Response, ApiError> {
    if link.token.is_empty() {
        return Ok(show(StatusCode::OK, &Page::of(&console)));
    }
    let found = email_flows::look(&console.identity, &link.token).await?;
    let found = found.filter(|found| found.purpose == LinkPurpose::ResetPassword);
    match found.map(|found| found.state) {
        Some(LinkState::Open) => Ok(form(&console, StatusCode::OK, link.token, None)),
        Some(state) => Ok(refused(&console, &email_flows::not_open(state).into())),
        None => Ok(refused(&console, &ApiError::Failure(Failure::UnknownLink))),
    }
}

async fn set_password(
    State(console): State<ConsoleState>,
    Extension(client): Extension<ClientAddress>,
    PageForm(new): PageForm<PasswordForm>,
) -> Result<Response, ApiError> {
    if new.new_password != new.repeated {
        let problem = "The two passwords are not the same.".to_owned();
        return Ok(form(&console, StatusCode::UNPROCESSABLE_ENTITY, new.token, Some(problem)));
    }
    let set =
        email_flows::reset_password(&console.identity, client.ip, &new.token, new.new_password)
            .await;
    match set {
        Ok(()) => Ok(show(StatusCode::OK, &Page { done: true, ..Page::of(&console) })),
        Err(Failure::Invalid(problems)) => {
            let said = problems.first().map(|problem| format!("The password {}.", problem.msg));
            Ok(form(&console, StatusCode::UNPROCESSABLE_ENTITY, new.token, said))
        }
        Err(
            error @ (Failure::UnknownLink
            | Failure::LinkUsed
            | Failure::LinkExpired
            | Failure::LinkOutdated),
        ) => Ok(refused(&console, &error.into())),
        Err(other) => Err(other.into()),
    }
}

async fn ask(
    State(console): State<ConsoleState>,
    Extension(client): Extension<ClientAddress>,
    PageForm(address): PageForm<Address>,
) -> Result<Response, ApiError> {
    let (status, said) = match address.email.trim().parse() {
        Ok(email) => {
            match email_flows::forgot_password(&console.identity, client.ip, email).await {
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
    Ok(show(status, &Page { address_problem: Some(said), ..Page::of(&console) }))
}

fn form(
    console: &ConsoleState,
    status: StatusCode,
    token: String,
    password_problem: Option<String>,
) -> Response {
    show(status, &Page { open: Some(token), password_problem, ..Page::of(console) })
}

fn refused(console: &ConsoleState, error: &ApiError) -> Response {
    let reason = match error {
        ApiError::Failure(Failure::LinkUsed) => "This link, or a newer one, has already been used.",
        ApiError::Failure(Failure::LinkExpired) => {
            "This link has expired. Links work for one hour."
        }
        ApiError::Failure(Failure::LinkOutdated) => {
            "This link was sent to an address that the account no longer uses."
        }
        _ => {
            "This link is not known. Part of it may be missing: copy the whole link from the email."
        }
    };
    show(error.row().status, &Page { refused: Some(reason), ..Page::of(console) })
}
