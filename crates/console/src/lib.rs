//! The pages for people, below `/console`: rendered on the server, with the routes of the API,
//! called inside the process (`service.rs`). Everything works without scripts, but for entering a
//! card. A GET changes nothing; a form is accepted only from our own pages (`form.rs`).

mod accounts;
mod attention;
mod audit;
mod calls;
mod chart;
mod confirm;
mod examples;
mod explorer;
mod exports;
mod keys;
mod login;
mod overview;
mod paying_keys;
mod register;
mod reset;
mod stranger;
mod support;
mod theme;
mod tiles;
mod usage;
mod user_settings;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use console_kit::ConsoleState;
use failures::Failure;
use web::error::ApiError;

/// Every page, and the files that pages load.
pub fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/assets/{name}", get(asset))
        .route("/console/logo", get(logo))
        .merge(accounts::router())
        .merge(audit::router())
        .merge(calls::router())
        .merge(confirm::router())
        .merge(explorer::router())
        .merge(exports::router())
        .merge(keys::router())
        .merge(login::router())
        .merge(overview::router())
        .merge(register::router())
        .merge(reset::router())
        .merge(support::router())
        .merge(theme::router())
        .merge(user_settings::router())
}

/// The style or the script of all pages.
async fn asset(State(console): State<ConsoleState>, Path(name): Path<String>) -> Response {
    let found = console.pages.assets().respond(&name);
    found.unwrap_or_else(|| {
        ApiError::Failure(Failure::NotFound("there is no such file")).into_response()
    })
}

/// What a drawing may do that is opened by itself: have styles.
const LOGO_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; object-src 'none'; \
    base-uri 'none'; frame-ancestors 'none'; sandbox";

/// The operator's logo, for pages and emails. A drawing with scripts in it runs none of them.
async fn logo(State(console): State<ConsoleState>) -> Response {
    let Some(logo) = &console.logo else {
        return ApiError::Failure(Failure::NotFound("there is no logo")).into_response();
    };
    let headers = [
        (CONTENT_TYPE, logo.media_type),
        (CACHE_CONTROL, "public, max-age=300"),
        (CONTENT_SECURITY_POLICY, LOGO_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, logo.bytes.clone()).into_response()
}
