//! The pages for people, below `/console`: rendered on the server, with the same services as the
//! API. Only the page for confirming a payment has scripts. A GET changes nothing; a form is
//! accepted only from our own pages.

mod billing;
mod confirm;
mod page;
mod pay;
mod reset;

use std::sync::Arc;

use ::billing::BillingState;
use axum::Router;
use axum::extract::FromRef;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use emails::EmailsState;
use identity::IdentityState;
use settings::Config;
use store::Store;
use web::WebState;

/// What the pages use.
#[derive(Clone)]
pub struct ConsoleState {
    /// Stores customers.
    pub store: Store,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The HTTP edge.
    pub web: WebState,
    /// Handles emailed links.
    pub identity: IdentityState,
    /// Confirms payments that a bank asks about.
    pub billing: BillingState,
    /// Opens the links to payments.
    pub emails: EmailsState,
}

impl FromRef<ConsoleState> for WebState {
    fn from_ref(console: &ConsoleState) -> Self {
        console.web.clone()
    }
}

/// Every page, and the files that pages load.
pub fn router() -> Router<ConsoleState> {
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
