//! `/console/register`: a new customer, its first key shown once, and a session.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use pages::PageFrame;
use serde_json::json;

use crate::login;
use crate::stranger::{Stranger, hand_over};
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView, OpenForm};

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route("/console/register", get(show).post(register))
}

#[derive(Template)]
#[template(path = "console/register.html")]
struct RegisterPage {
    frame: PageFrame,
    form: FormView,
    trial_credits: i64,
}

/// The page after it: the only one that shows the key.
#[derive(Template)]
#[template(path = "console/registered.html")]
struct RegisteredPage {
    frame: PageFrame,
    email: String,
    api_key: String,
    /// Credits that confirming the address grants; 0 without a trial.
    trial_credits: i64,
    /// Whether the browser has a session now.
    is_signed_in: bool,
}

/// The members of the response that the page shows.
#[derive(serde::Deserialize)]
struct NewCustomer {
    api_key: String,
    trial: TrialInfo,
}

#[derive(serde::Deserialize)]
struct TrialInfo {
    credits: i64,
}

async fn show(stranger: Stranger) -> Response {
    page(&stranger, FormView::default())
}

fn page(stranger: &Stranger, form: FormView) -> Response {
    let trial_credits = stranger.console().config.credits.trial;
    let status = form.status();
    Stranger::show(status, &RegisterPage { frame: stranger.frame(), form, trial_credits })
}

/// Registers as `POST /v1/auth/register` does, and signs in. What was not entered is not sent.
async fn register(stranger: Stranger, OpenForm(form): OpenForm) -> Result<Response, PageFailure> {
    let mut body = json!({ "email": form.text("email"), "password": form.raw("password") });
    if let (Some(name), Some(fields)) = (form.optional("name"), body.as_object_mut()) {
        fields.insert("name".to_owned(), json!(name));
    }
    let done = match stranger.post("/v1/auth/register", &body).await {
        Ok(done) => done,
        Err(problem) => {
            let mut view = FormView::refused(kept(&form), &problem, &[]);
            if problem.code == "email_taken" {
                view =
                    view.mark("email", "There is an account with this address. Sign in instead.");
            }
            return Ok(page(&stranger, view));
        }
    };
    let made: NewCustomer = done.json().map_err(|problem| stranger.fail(problem))?;
    let session = login::log_in(&stranger, &form).await.ok();
    let shown = RegisteredPage {
        frame: stranger.frame(),
        email: form.text("email").to_owned(),
        api_key: made.api_key,
        trial_credits: made.trial.credits,
        is_signed_in: session.is_some(),
    };
    let mut response = Stranger::show(StatusCode::CREATED, &shown);
    if let Some(session) = session {
        hand_over(&session, &mut response);
    }
    Ok(response)
}

/// What the form shows again: everything but the password.
fn kept(form: &FormData) -> FormData {
    FormData::default().with("email", form.text("email")).with("name", form.text("name"))
}
