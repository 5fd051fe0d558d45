//! `/`: browsers are led to the documentation, or to the console if they have a session; programs
//! get a list of what there is.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{COOKIE, VARY};
use http::{HeaderMap, HeaderValue};
use pages::accept::wants_html;

use crate::state::NodeState;

/// Where everything is, for programs.
#[derive(serde::Serialize)]
struct ServiceIndex<'a> {
    /// The name of the service, as its operator configured it.
    name: &'a str,
    /// The version of the program.
    version: &'static str,
    documentation: &'static str,
    errors: &'static str,
    openapi: &'static str,
    platforms: &'static str,
    /// Every document as Markdown.
    llms: &'static str,
    health: &'static str,
}

/// The start page, or the way to it.
pub(crate) async fn show(State(node): State<NodeState>, headers: HeaderMap) -> Response {
    let mut response = if wants_html(&headers) {
        let is_known = has_cookie(&headers, node.web.cookies.cookie());
        Redirect::to(if is_known { "/console" } else { "/docs" }).into_response()
    } else {
        Json(index(&node.config.brand.name)).into_response()
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    response
}

const fn index(name: &str) -> ServiceIndex<'_> {
    ServiceIndex {
        name,
        version: env!("CARGO_PKG_VERSION"),
        documentation: "/docs",
        errors: "/docs/errors",
        openapi: "/openapi.json",
        platforms: "/v1/platforms",
        llms: "/llms.txt",
        health: "/health",
    }
}

/// Whether the browser sent a cookie of this name. Whether the session still exists is found out by
/// the console.
fn has_cookie(headers: &HeaderMap, name: &str) -> bool {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).map(str::trim);
    pairs.any(|pair| pair.split_once('=').is_some_and(|(known, _)| known == name))
}
