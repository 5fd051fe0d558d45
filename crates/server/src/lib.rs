//! Who calls us: the HTTP service, its background work, and the flows between store and clients.
//!
//! `start::start` puts everything together. The data plane is in `gateway`, the control plane in `api`; they
//! share the app, the errors and the extractors, and never import each other.

mod addresses;
mod admin;
mod api;
mod app;
mod connect;
mod console;
mod contract;
pub mod demo;
pub mod exports;
mod gateway;
mod job_kinds;
mod login;
mod mail_limits;
pub mod openapi;
mod passwords;
mod pipeline;
mod router;
mod sealed_credentials;
pub mod staff;
pub mod start;
mod support;

/// The reference of every error code, as Markdown: what `docs/errors.md` holds.
pub fn error_reference() -> String {
    web::error::reference::markdown()
}
