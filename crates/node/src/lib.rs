//! One running service: builds the state of every part, the routers, the OpenAPI document and the
//! admin listener, and starts and stops them. The only crate that knows all others.

mod admin;
mod admin_access;
mod command_body;
mod contract;
pub mod demo;
mod failure_page;
mod front_page;
mod job_kinds;
pub mod openapi;
mod operator_routes;
mod pipeline;
mod router;
pub mod start;
mod state;
mod unread_body;

/// The reference of all error codes, as Markdown; `docs/errors.md` is a copy.
pub fn error_reference() -> String {
    web::error::reference::markdown()
}
