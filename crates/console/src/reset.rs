//! `/console/reset`: the page that password reset emails link to, and where such an email is
//! requested.

use askama::Template;
use axum::Router;
use axum::extract::Extension;
use axum::response::Response;
use axum::routing::{get, post};
use domain::mail::LinkPurpose;
use failures::Failure;
use http::StatusCode;
use http::header::SET_COOKIE;
use identity::devices::RECOGNIZED_FOR_S;
use identity::email_flows::{self, NewPassword};
use pages::PageFrame;
use store::mail_links::LinkState;
use web::auth::device::CallingDevice;
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;

use crate::confirm::{PageToken, address_form, too_many, wrong_address};
use crate::stranger::Stranger;
use console_kit::ConsoleState;
use console_kit::form::{FormView, OpenForm};
use console_kit::page_query::PageQuery;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/reset", get(show_link).post(set_password))
        .route("/console/reset/ask", post(ask))
}

#[derive(Template)]
#[template(path = "console/reset.html")]
struct ResetPage {
    frame: PageFrame,
    step: ResetStep,
}

/// What the page shows.
enum ResetStep {
    /// The link can be used: its token, whether it also confirms the address and so ends every key,
    /// and the form for the password.
    Open { token: String, ends_keys: bool, form: FormView },
    /// The password is set. Whether every key has ended.
    Done { ended_keys: bool },
    /// An email was requested.
    Asked,
    /// The form that requests an email, and why the link cannot be used; empty without a link.
    Ask { refused: &'static str, form: FormView },
}

fn page(stranger: &Stranger, status: StatusCode, step: ResetStep) -> Response {
    Stranger::show(status, &ResetPage { frame: stranger.frame(), step })
}

/// Shows the form for a new password, or the one that requests an email. Checking a link does not
/// consume it.
async fn show_link(
    PageQuery(link): PageQuery<PageToken>,
    stranger: Stranger,
) -> Result<Response, ApiError> {
    if link.token.is_empty() {
        let step = ResetStep::Ask { refused: "", form: FormView::default() };
        return Ok(page(&stranger, StatusCode::OK, step));
    }
    form(&stranger, link.token, FormView::default()).await
}

async fn set_password(
    caller: CallingDevice,
    stranger: Stranger,
    OpenForm(sent): OpenForm,
) -> Result<Response, ApiError> {
    let (token, new) = (sent.raw("token"), sent.raw("new_password"));
    if new != sent.raw("repeated") {
        let wrong = FormView::default().mark("repeated", "The two passwords are not the same.");
        return form(&stranger, token.to_owned(), wrong).await;
    }
    let identity = &stranger.console().identity;
    match email_flows::reset_password(identity, &caller, token, new.to_owned()).await {
        Ok(done) => Ok(set(&stranger, &done)),
        Err(Failure::Invalid(problems)) => {
            let said = problems.first().map(|problem| problem.msg.clone());
            let wrong = FormView::default().mark("new_password", said.unwrap_or_default());
            form(&stranger, token.to_owned(), wrong).await
        }
        Err(
            error @ (Failure::UnknownLink
            | Failure::LinkUsed
            | Failure::LinkExpired
            | Failure::LinkOutdated),
        ) => Ok(refused(&stranger, &error.into())),
        Err(other) => Err(other.into()),
    }
}

/// The page after a reset, with the cookie by which the browser is recognized.
fn set(stranger: &Stranger, done: &NewPassword) -> Response {
    let step = ResetStep::Done { ended_keys: done.is_first_confirmation };
    let mut response = page(stranger, StatusCode::OK, step);
    if let Some(value) = &done.device_cookie {
        let cookies = stranger.console().web.cookies;
        let cookie = cookies.hand_over_device(value, RECOGNIZED_FOR_S);
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

async fn ask(
    Extension(client): Extension<ClientAddress>,
    stranger: Stranger,
    OpenForm(form): OpenForm,
) -> Result<Response, ApiError> {
    let identity = &stranger.console().identity;
    let (status, problem) = match form.text("email").parse() {
        Ok(email) => match email_flows::forgot_password(identity, client.ip, email).await {
            Ok(()) => return Ok(page(&stranger, StatusCode::ACCEPTED, ResetStep::Asked)),
            Err(error) => too_many(error)?,
        },
        Err(wrong) => wrong_address(wrong),
    };
    let step = ResetStep::Ask { refused: "", form: address_form(&form, problem) };
    Ok(page(&stranger, status, step))
}

/// The page of a link: the form for a new password, or why the link cannot be used.
async fn form(stranger: &Stranger, token: String, form: FormView) -> Result<Response, ApiError> {
    let found = email_flows::look(&stranger.console().identity, &token).await?;
    let found = found.filter(|found| found.purpose == LinkPurpose::ResetPassword);
    Ok(match found {
        Some(link) if link.state == LinkState::Open => {
            let (status, ends_keys) = (form.status(), !link.is_customer_confirmed);
            page(stranger, status, ResetStep::Open { token, ends_keys, form })
        }
        Some(link) => refused(stranger, &email_flows::not_open(link.state).into()),
        None => refused(stranger, &ApiError::Failure(Failure::UnknownLink)),
    })
}

fn refused(stranger: &Stranger, error: &ApiError) -> Response {
    let refused = match error {
        ApiError::Failure(Failure::LinkUsed) => "This link, or a newer one, has already been used.",
        ApiError::Failure(Failure::LinkExpired) => {
            "This link has expired. Links work for one hour."
        }
        ApiError::Failure(Failure::LinkOutdated) => {
            "This link was sent to an address that the account no longer uses."
        }
        _ => {
            "This link isn’t known. Part of it may be missing: copy the whole link from the email."
        }
    };
    page(stranger, error.row().status, ResetStep::Ask { refused, form: FormView::default() })
}
