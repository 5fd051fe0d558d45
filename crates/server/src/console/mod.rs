//! The pages for people, below `/console`: written on the server, with the functions that the API uses. Only the page on
//! which a bank asks has scripts. A GET changes nothing; a form counts only when it comes from a page of ours.

mod billing;
mod confirm;
mod page;
mod pay;
mod reset;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::app::App;

/// Every page, and what pages load.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/console/style.css", get(style))
        .merge(billing::router())
        .merge(confirm::router())
        .merge(pay::router())
        .merge(reset::router())
}

async fn style() -> impl IntoResponse {
    let headers =
        [(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "public, max-age=300")];
    (headers, include_str!("style.css"))
}
