//! `/console/login` and `/console/logout`.

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{Method, StatusCode};
use pages::PageFrame;
use serde_json::json;

use crate::stranger::{Stranger, hand_over};
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView, OpenForm, SentForm};
use console_kit::page_query::PageQuery;
use console_kit::service::{ServiceProblem, ServiceResponse};

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/login", get(show).post(sign_in))
        .route("/console/logout", post(sign_out))
}

/// Where to go after signing in.
#[derive(serde::Deserialize)]
struct LoginQuery {
    /// The page that asked for it; present only if one did.
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "console/login.html")]
struct LoginPage {
    frame: PageFrame,
    form: FormView,
    /// What to know about a refusal.
    hint: String,
    next: String,
    /// Whether a page sent the visitor here.
    has_ended: bool,
    trial_credits: i64,
}

async fn show(PageQuery(query): PageQuery<LoginQuery>, stranger: Stranger) -> Response {
    let has_ended = query.next.is_some();
    let next = local_path(query.next.as_deref().unwrap_or_default()).to_owned();
    let page = LoginPage { next, has_ended, ..page(&stranger) };
    Stranger::show(StatusCode::OK, &page)
}

fn page(stranger: &Stranger) -> LoginPage {
    LoginPage {
        frame: stranger.frame(),
        form: FormView::default(),
        hint: String::new(),
        next: "/console".to_owned(),
        has_ended: false,
        trial_credits: stranger.console().config.credits.trial,
    }
}

/// Signs in as `POST /v1/auth/login` does, and hands its cookie to the browser.
async fn sign_in(stranger: Stranger, OpenForm(form): OpenForm) -> Response {
    let next = local_path(form.raw("next")).to_owned();
    match log_in(&stranger, &form).await {
        Ok(done) => {
            let mut redirect = Redirect::to(&next).into_response();
            hand_over(&done, &mut redirect);
            redirect
        }
        Err(problem) => {
            let kept = FormData::default().with("email", form.text("email"));
            let mut view = FormView::refused(kept, &problem, &[]);
            let is_wrong = problem.code == "wrong_credentials";
            let hint = if is_wrong { attempts(stranger.console()) } else { String::new() };
            if is_wrong {
                "Email or password is wrong".clone_into(&mut view.summary);
            }
            let page = LoginPage { next, form: view, hint, ..page(&stranger) };
            Stranger::show(problem.status, &page)
        }
    }
}

fn attempts(console: &ConsoleState) -> String {
    let attempts = console.config.rate_limits.wrong_passwords_per_hour;
    format!("After {attempts} attempts, sign-in pauses for an hour.")
}

/// Logs in with the address and the password of a form.
pub(super) async fn log_in(
    stranger: &Stranger,
    form: &FormData,
) -> Result<ServiceResponse, ServiceProblem> {
    let body = json!({ "email": form.text("email"), "password": form.raw("password") });
    stranger.post("/v1/auth/login", &body).await
}

async fn sign_out(form: SentForm) -> Result<Response, PageFailure> {
    let done = form.visitor.send_empty(&Method::POST, "/v1/auth/logout").await;
    let done = done.map_err(|problem| form.visitor.fail(problem))?;
    let mut response = Redirect::to("/console/login").into_response();
    hand_over(&done, &mut response);
    Ok(response)
}

/// The path if it leads to a page of ours, else the console: `next` must not lead elsewhere.
pub(super) fn local_path(next: &str) -> &str {
    let is_ours = next == "/console"
        || next.starts_with("/console/")
        || next.starts_with("/console?")
        || next == "/docs"
        || next.starts_with("/docs/");
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours && is_plain && !next.contains("//") { next } else { "/console" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_pages_of_ours_alone() {
        for ours in ["/console", "/console/calls?status=5xx", "/console?days=7", "/docs/guides"] {
            assert_eq!(local_path(ours), ours);
        }
        for foreign in [
            "",
            "https://evil.example/",
            "//evil.example",
            "/console//evil.example",
            "/consoleevil",
            "/\\evil.example",
            "/console/\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
        ] {
            assert_eq!(local_path(foreign), "/console", "{foreign}");
        }
    }
}
