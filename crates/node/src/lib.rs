//! One running service: the state of every part is built here, with the routers, the OpenAPI document, the admin listener,
//! start and stop. The only crate that knows all others.

mod admin;
mod contract;
pub mod demo;
mod job_kinds;
pub mod openapi;
mod pipeline;
mod router;
pub mod start;
mod state;

/// The reference of every error code, as Markdown: what `docs/errors.md` holds.
pub fn error_reference() -> String {
    web::error::reference::markdown()
}
