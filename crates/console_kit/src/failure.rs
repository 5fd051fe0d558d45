//! How a page fails: a person is asked to sign in, or reads what went wrong and what to do.

use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use pages::PageFrame;
use pages::plain::{self, FailureText, sentence};
use web::error::ApiError;

use crate::service::ServiceProblem;

/// Why a page could not be shown.
pub enum PageFailure {
    /// Nobody is signed in.
    SignIn {
        /// The page to come back to.
        next: String,
    },
    /// The form is not one of ours, is too old, or was sent before.
    BadForm(PageFrame),
    /// The service refused or failed.
    Problem {
        /// The frame of the page that says so.
        frame: PageFrame,
        /// What the service said.
        problem: Box<ServiceProblem>,
        /// The request's id, to quote to support.
        request_id: String,
    },
    /// The edge refused the request before it was a page.
    Edge(ApiError),
}

impl IntoResponse for PageFailure {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn { next } => {
                let query = serde_urlencoded::to_string([("next", next)]).unwrap_or_default();
                Redirect::to(&format!("/console/login?{query}")).into_response()
            }
            Self::BadForm(frame) => plain::failure(&frame, StatusCode::FORBIDDEN, &bad_form()),
            Self::Problem { frame, problem, request_id } => {
                let status = shown_status(problem.status);
                plain::failure(&frame, status, &text_of(&problem, request_id))
            }
            Self::Edge(error) => error.into_response(),
        }
    }
}

fn bad_form() -> FailureText {
    FailureText {
        title: "This form can't be sent again".to_owned(),
        detail: "It was sent before, or your session has changed. Nothing was changed. Open the page again and repeat what you wanted to do."
            .to_owned(),
        code: "cross_site".to_owned(),
        request_id: String::new(),
    }
}

/// The words of the design for what most people meet; the API's own otherwise.
fn text_of(problem: &ServiceProblem, request_id: String) -> FailureText {
    let (title, detail) = match problem.status {
        StatusCode::NOT_FOUND => {
            ("Nothing here".to_owned(), "There's nothing here, or it isn't yours.".to_owned())
        }
        StatusCode::INTERNAL_SERVER_ERROR => (
            "Something went wrong on our side".to_owned(),
            "Nothing was changed. Quote the request's ID if you contact support.".to_owned(),
        ),
        _ => (problem.title.clone(), sentence(&problem.detail)),
    };
    FailureText { title, detail, code: problem.code.clone(), request_id }
}

/// A missing session leads to the login; what else the service says stays.
fn shown_status(status: StatusCode) -> StatusCode {
    if status.is_success() { StatusCode::INTERNAL_SERVER_ERROR } else { status }
}
