//! The control plane: one file per resource, with its router, its types and its handlers.
//!
//! A handler unpacks the request, calls one function and responds. It cannot reach the data plane.

mod accounts;
mod audit;
mod billing;
mod breakdown;
mod call;
mod email;
mod exports;
mod health;
mod key_limits;
mod keys;
mod me;
mod notices;
mod password_reset;
mod platform_routes;
mod platforms;
mod register;
mod sessions;
mod signup;
mod state;
mod support;
mod usage;
mod usage_scope;
mod whoami;

pub use state::{ApiParts, ApiState};

use utoipa_axum::router::OpenApiRouter;

/// Every route of the control plane, with its OpenAPI description.
pub fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .merge(health::router())
        .merge(platforms::router())
        .merge(register::router())
        .merge(sessions::router())
        .merge(me::router())
        .merge(email::router())
        .merge(password_reset::router())
        .merge(signup::router())
        .merge(keys::router())
        .merge(audit::router())
        .merge(support::router())
        .merge(notices::router())
        .merge(whoami::router())
        .merge(accounts::router())
        .merge(billing::router())
        .merge(usage::router())
        .merge(breakdown::router())
        .merge(exports::router())
}
