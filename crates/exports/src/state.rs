//! What exports use.

use std::ops::Deref;
use std::sync::Arc;

use catalog::Catalog;
use gateway::state::GatewayState;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use settings::Config;
use storage::Storage;
use store::Store;
use tokio::sync::Notify;

use crate::at_work::AtWork;

/// What exports use. Cloning it is cheap.
#[derive(Clone)]
pub struct ExportsState(Arc<ExportsParts>);

/// The parts of [`ExportsState`].
pub struct ExportsParts {
    /// Stores exports.
    pub store: Store,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids.
    pub random: Random,
    /// Runs the workers.
    pub tasks: Tasks,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The lists that can be exported.
    pub catalog: Arc<Catalog>,
    /// Signs links to files.
    pub vault: Arc<Vault>,
    /// Stores finished files and spools.
    pub storage: Arc<Storage>,
    /// Reads platforms with the credentials of accounts.
    pub gateway: GatewayState,
    /// Wakes the workers when there may be an export.
    pub signal: Notify,
    /// The exports that this process is working on.
    pub at_work: AtWork,
}

impl ExportsState {
    /// Builds the state.
    pub fn new(parts: ExportsParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for ExportsState {
    type Target = ExportsParts;

    fn deref(&self) -> &ExportsParts {
        &self.0
    }
}
