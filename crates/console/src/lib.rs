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
use axum::extract::{FromRef, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use emails::EmailsState;
use failures::Failure;
use identity::IdentityState;
use settings::Config;
use settings::brand::BrandLogo;
use store::Store;
use web::WebState;
use web::error::ApiError;

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
    /// The operator's logo, as it was at the start; none without one.
    pub logo: Option<Arc<BrandLogo>>,
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
        .route("/console/logo", get(logo))
        .merge(billing::router())
        .merge(confirm::router())
        .merge(pay::router())
        .merge(reset::router())
}

/// The style of all pages, with the operator's colors. In the dark, the style's own colors are
/// kept: they are made for it.
async fn style(State(console): State<ConsoleState>) -> impl IntoResponse {
    let headers =
        [(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "public, max-age=300")];
    let brand = &console.config.brand;
    let own = format!(
        "@media not (prefers-color-scheme: dark) {{\n  :root {{ --accent: {}; --on-accent: {}; }}\n}}\n",
        brand.color, brand.text_color
    );
    (headers, format!("{}{own}", include_str!("style.css")))
}

/// The operator's logo, for pages and emails. A drawing with scripts in it runs none of them.
async fn logo(State(console): State<ConsoleState>) -> Response {
    let Some(logo) = &console.logo else {
        return ApiError::Failure(Failure::NotFound("there is no logo")).into_response();
    };
    let headers = [
        (CONTENT_TYPE, logo.media_type),
        (CACHE_CONTROL, "public, max-age=300"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; sandbox"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, logo.bytes.clone()).into_response()
}
