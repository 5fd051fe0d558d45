//! `/console/billing`: where people come to from the payment processor's pages and from letters about payments.
//!
//! It needs no login and tells nothing about anybody: whoever pays may be somebody else than who uses the API.

use askama::Template;
use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::page::show;
use crate::ConsoleState;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route("/console/billing", get(come_back))
}

/// What the addresses that the processor was given say.
#[derive(serde::Deserialize)]
struct ReturnAddress {
    /// The checkout that was completed: the processor writes it there, and nothing is done with it.
    #[serde(default)]
    session_id: String,
    /// There when a checkout was left.
    cancelled: Option<String>,
}

#[derive(Template)]
#[template(path = "console/billing.html")]
struct Page {
    came: CameFrom,
}

/// Where somebody comes from.
enum CameFrom {
    /// A checkout that was completed.
    Paid,
    /// A checkout that was left.
    Left,
    /// The portal, the bank, or a letter.
    Back,
}

/// Books nothing: what was paid counts by the processor's event, whether anybody comes here or not.
async fn come_back(Query(way): Query<ReturnAddress>) -> Response {
    let came = if way.cancelled.is_some() {
        CameFrom::Left
    } else if way.session_id.is_empty() {
        CameFrom::Back
    } else {
        CameFrom::Paid
    };
    show(StatusCode::OK, &Page { came })
}
