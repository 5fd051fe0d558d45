//! `/console/billing`: the page that the payment processor and emails about payments link to.
//!
//! It needs no login and shows nothing about a customer: the person who pays may not be the one who
//! uses the API.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::page::{PageBrand, show};
use crate::ConsoleState;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route("/console/billing", get(come_back))
}

/// The query of the return addresses given to the processor.
#[derive(serde::Deserialize)]
struct ReturnAddress {
    /// The completed checkout, filled in by the processor; only its presence is used.
    #[serde(default)]
    session_id: String,
    /// Present when the checkout was left without paying.
    cancelled: Option<String>,
}

#[derive(Template)]
#[template(path = "console/billing.html")]
struct Page {
    brand: PageBrand,
    came: CameFrom,
}

/// How the visitor got here.
enum CameFrom {
    /// From a completed checkout.
    Paid,
    /// From a checkout left without paying.
    Left,
    /// From the portal, the bank or an email.
    Back,
}

/// Grants nothing: payments are handled by the processor's events, whether or not the customer
/// opens this page.
async fn come_back(
    State(console): State<ConsoleState>,
    Query(way): Query<ReturnAddress>,
) -> Response {
    let came = if way.cancelled.is_some() {
        CameFrom::Left
    } else if way.session_id.is_empty() {
        CameFrom::Back
    } else {
        CameFrom::Paid
    };
    show(StatusCode::OK, &Page { brand: PageBrand::of(&console), came })
}
