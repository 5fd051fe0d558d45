//! The control plane: one file per resource, with its router, its types and its handlers.
//!
//! A handler unpacks the request, calls one function and responds. It cannot reach the data plane.

mod accounts;
mod audit;
mod billing;
mod email;
mod exports;
mod health;
mod key_limits;
mod keys;
mod me;
mod pages;
mod password_reset;
mod platform_routes;
mod platforms;
mod register;
mod sessions;
mod signup;
mod support;
mod usage;
mod usage_scope;
mod whoami;
pub mod words;

use std::ops::Deref;
use std::sync::Arc;

use ::accounts::AccountsState;
use ::billing::BillingState;
use ::exports::ExportsState;
use axum::extract::FromRef;
use catalog::Catalog;
use domain::slot::AccountAllowances;
use identity::IdentityState;
use jobs::JobQueue;
use runtime::cached::CachedEntries;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use settings::Config;
use store::Store;
use utoipa_axum::router::OpenApiRouter;
use web::WebState;
use web::middleware::network_limit::NetworkLimiter;

/// What the control plane uses, as one core sees it. Cloning it is cheap.
#[derive(Clone)]
pub struct ApiState(Arc<ApiParts>);

/// The parts of [`ApiState`].
pub struct ApiParts {
    /// Stores everything that is recorded.
    pub store: Store,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids.
    pub random: Random,
    /// Runs background tasks.
    pub tasks: Tasks,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The routes of each platform.
    pub catalog: Arc<Catalog>,
    /// The accounts that customers and plans include, besides paid slots.
    pub allowances: Arc<AccountAllowances>,
    /// This node's cache of keys and accounts.
    pub cached: Arc<dyn CachedEntries>,
    /// The queue for work that follows a commit.
    pub jobs: JobQueue,
    /// Limits the registrations of each network.
    pub registrations: Arc<NetworkLimiter>,
    /// The HTTP edge.
    pub web: WebState,
    /// Logins, passwords and links in emails.
    pub identity: IdentityState,
    /// Connects accounts.
    pub accounts: AccountsState,
    /// Payments.
    pub billing: BillingState,
    /// Exports.
    pub exports: ExportsState,
}

impl ApiState {
    /// Builds the state.
    pub fn new(parts: ApiParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for ApiState {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

impl FromRef<ApiState> for WebState {
    fn from_ref(api: &ApiState) -> Self {
        api.web.clone()
    }
}

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
        .merge(whoami::router())
        .merge(accounts::router())
        .merge(billing::router())
        .merge(usage::router())
        .merge(exports::router())
}
