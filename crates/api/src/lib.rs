//! The control plane: one file per resource, with its router, its types and its handlers.
//!
//! A handler unpacks, calls one thing and responds. The data plane is out of its reach.

mod accounts;
mod audit;
mod billing;
mod email;
mod exports;
mod health;
mod key_limits;
mod keys;
mod me;
mod password_reset;
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

/// What the control plane uses, as one core sees it. A clone is another handle to the same.
#[derive(Clone)]
pub struct ApiState(Arc<ApiParts>);

/// The parts of [`ApiState`].
pub struct ApiParts {
    /// Where everything is recorded.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Every task.
    pub tasks: Tasks,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Which routes exist.
    pub catalog: Arc<Catalog>,
    /// How many accounts customers and plans have, besides what is paid for.
    pub allowances: Arc<AccountAllowances>,
    /// What this node remembers of keys and accounts.
    pub cached: Arc<dyn CachedEntries>,
    /// Where work that follows a commit is queued.
    pub jobs: JobQueue,
    /// Registrations of each network.
    pub registrations: Arc<NetworkLimiter>,
    /// The HTTP edge.
    pub web: WebState,
    /// Logins, passwords and links in emails.
    pub identity: IdentityState,
    /// Connecting accounts.
    pub accounts: AccountsState,
    /// Payments.
    pub billing: BillingState,
    /// Exports.
    pub exports: ExportsState,
}

impl ApiState {
    /// Puts the parts together.
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

/// Every route of the service's own, with its description.
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
