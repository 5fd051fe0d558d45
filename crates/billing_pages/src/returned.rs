//! `/console/billing/return`: the page that the payment processor leads back to.
//!
//! It needs no session and shows nothing about a customer: the person who pays may not be the one
//! who uses the service.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, StatusCode};
use pages::PageFrame;
use pages::respond::PagePolicy;

use console_kit::ConsoleState;
use console_kit::page_query::PageQuery;

const PATH: &str = "/console/billing/return";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(come_back))
}

/// The query of the addresses given to the processor.
#[derive(serde::Deserialize)]
pub(crate) struct ReturnAddress {
    /// The completed checkout, filled in by the processor; only its presence is used.
    #[serde(default)]
    session_id: String,
    /// Present when the checkout was left without paying.
    cancelled: Option<String>,
}

impl ReturnAddress {
    /// The address of this page for a query that only those have who return; none for others. What
    /// was in the query is not repeated.
    pub(crate) fn address(&self) -> Option<String> {
        match self.came() {
            CameFrom::Paid => Some(format!("{PATH}?session_id=1")),
            CameFrom::Left => Some(format!("{PATH}?cancelled=true")),
            CameFrom::Back => None,
        }
    }

    const fn came(&self) -> CameFrom {
        if self.cancelled.is_some() {
            CameFrom::Left
        } else if self.session_id.is_empty() {
            CameFrom::Back
        } else {
            CameFrom::Paid
        }
    }
}

/// How the visitor got here.
enum CameFrom {
    /// From a completed checkout.
    Paid,
    /// From a checkout left without paying.
    Left,
    /// From the portal or the bank.
    Back,
}

#[derive(Template)]
#[template(path = "console/billing/returned.html")]
struct ReturnedPage {
    frame: PageFrame,
    came: CameFrom,
}

/// Grants nothing: payments are handled by the processor's events, whether or not the customer
/// opens this page.
async fn come_back(
    State(console): State<ConsoleState>,
    PageQuery(back): PageQuery<ReturnAddress>,
    headers: HeaderMap,
) -> Response {
    let page = ReturnedPage { frame: console.pages.frame(&headers), came: back.came() };
    pages::plain::or_apology(StatusCode::OK, &page, &PagePolicy::default())
}
