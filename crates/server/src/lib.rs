//! Who calls us: the HTTP service, its background work, and the flows between store and clients.
//!
//! `start::start` puts everything together. The data plane is in `gateway`, the control plane in `api`; they
//! share the app, the errors and the extractors, and never import each other.

mod addresses;
mod admin;
mod api;
mod app;
mod auth;
mod connect;
mod console;
mod contract;
mod control_limits;
mod created;
pub mod demo;
mod error;
pub mod exports;
mod extract;
mod fields;
mod gateway;
mod idempotency;
mod idempotency_key;
mod job_kinds;
mod login;
mod mail_limits;
mod middleware;
pub mod openapi;
mod own_requests;
mod passwords;
mod pipeline;
mod request_log;
mod router;
mod sealed_credentials;
pub mod staff;
pub mod start;
mod support;
mod trial;

/// The reference of every error code, as Markdown: what `docs/errors.md` holds.
pub fn error_reference() -> String {
    error::reference::markdown()
}
