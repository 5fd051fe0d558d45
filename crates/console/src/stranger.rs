//! A visitor who is not signed in, on the pages that lead into the console.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use pages::PageFrame;
use pages::respond::PagePolicy;
use serde::Serialize;

use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::service::{self, ServiceProblem, ServiceResponse};
use console_kit::visitor::RequestOrigin;

/// A visitor who is not signed in.
pub(crate) struct Stranger(RequestOrigin);

impl FromRequestParts<ConsoleState> for Stranger {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &ConsoleState,
    ) -> Result<Self, Infallible> {
        Ok(Self(RequestOrigin::of(parts, console)))
    }
}

impl Stranger {
    /// What the head of the page needs.
    pub(crate) fn frame(&self) -> PageFrame {
        self.0.frame.clone()
    }

    /// What the pages use.
    pub(crate) const fn console(&self) -> &ConsoleState {
        &self.0.console
    }

    /// Sends JSON to a route of the service, as from this visitor's browser.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ServiceResponse, ServiceProblem> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let mut request = service::request(&Method::POST, path, Body::from(body));
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        self.0.sign(&mut request);
        let response = self.0.serve(request).await;
        ServiceResponse::read(response).await.done()
    }

    /// The failure of the whole page.
    pub(crate) fn fail(&self, problem: ServiceProblem) -> PageFailure {
        let (frame, problem) = (self.frame(), Box::new(problem));
        PageFailure::Problem { frame, problem, request_id: self.0.request_id().to_owned() }
    }

    /// Shows a page.
    pub(crate) fn show<T: askama::Template>(status: StatusCode, page: &T) -> Response {
        pages::plain::or_apology(status, page, &PagePolicy::default())
    }
}

/// Hands what a response of the service tells the browser to keep or to forget on to it.
pub(crate) fn hand_over(from: &ServiceResponse, to: &mut Response) {
    for name in [SET_COOKIE, HeaderName::from_static("clear-site-data")] {
        for value in from.headers.get_all(&name) {
            to.headers_mut().append(&name, value.clone());
        }
    }
}
