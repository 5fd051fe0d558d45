//! Calls: the log with its filters, and one call with its receipt.

mod list;
mod one;
pub(crate) mod view;

use axum::Router;

use console_kit::ConsoleState;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().merge(list::router()).merge(one::router())
}
