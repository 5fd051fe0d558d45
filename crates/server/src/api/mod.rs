//! The control plane: one file per resource, with its router, its types and its handlers.
//!
//! A handler unpacks, calls one thing and answers. It never touches the data plane's modules.

pub(crate) mod accounts;
pub(crate) mod audit;
pub(crate) mod billing;
pub(crate) mod email;
pub(crate) mod exports;
pub(crate) mod health;
mod key_limits;
pub(crate) mod keys;
pub(crate) mod me;
pub(crate) mod password_reset;
pub(crate) mod platforms;
pub(crate) mod register;
pub(crate) mod sessions;
pub(crate) mod signup;
pub(crate) mod support;
pub(crate) mod usage;
mod usage_scope;
pub(crate) mod whoami;
pub(crate) mod words;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// Every route of the service's own, with its description.
pub(crate) fn router() -> OpenApiRouter<App> {
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
        .merge(whoami::router())
        .merge(accounts::router())
        .merge(billing::router())
        .merge(usage::router())
        .merge(exports::router())
}
