//! Exports: lists of a platform read whole, page by page, and returned as one file, or not at all.
//!
//! `worker` claims an export and keeps its lease, `job` does the work, `page_processor` what of it computes, `pages` reads the
//! platform, `columns` says what the file names, and `cleanup` removes what is no longer needed. What is decided is recorded
//! in the store's `exports`.

pub mod cleanup;
mod columns;
mod failpoints;
mod job;
pub mod links;
mod page_processor;
pub mod pages;
pub mod place;
pub mod worker;

pub use clients::storage::StorageError;
pub use tabular::COLUMN_NAME_BYTES_MAX;

use std::ops::Deref;
use std::sync::Arc;

use catalog::Catalog;
use clients::storage::Storage;
use gateway::state::GatewayState;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use settings::Config;
use store::Store;
use tokio::sync::Notify;

use crate::worker::AtWork;

/// What exports use. A clone is another handle to the same.
#[derive(Clone)]
pub struct ExportsState(Arc<ExportsParts>);

/// The parts of [`ExportsState`].
pub struct ExportsParts {
    /// Where exports are recorded.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Where workers run.
    pub tasks: Tasks,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Which lists can be exported.
    pub catalog: Arc<Catalog>,
    /// Signs links to files.
    pub vault: Arc<Vault>,
    /// Where finished exports and their spools lie.
    pub storage: Arc<Storage>,
    /// Reads platforms with the credentials of accounts.
    pub gateway: GatewayState,
    /// Wakes the workers: there may be an export.
    pub signal: Notify,
    /// The exports that this process works on.
    pub at_work: AtWork,
}

impl ExportsState {
    /// Puts the parts together.
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
