//! The exports that this process is working on.

use std::collections::HashMap;
use std::sync::Arc;

use domain::id::ExportId;
use tokio::sync::Notify;

/// The exports that this process is working on, so that one can be stopped before its next renewal.
#[derive(Debug, Default)]
pub struct AtWork(parking_lot::Mutex<HashMap<ExportId, Arc<Notify>>>);

impl AtWork {
    /// Makes the worker of this export, if it is on this node, check whether to continue.
    pub fn stop(&self, export: ExportId) {
        if let Some(bell) = self.0.lock().get(&export) {
            bell.notify_one();
        }
    }

    pub(super) fn begin(&self, export: ExportId) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        self.0.lock().insert(export, Arc::clone(&bell));
        bell
    }

    pub(super) fn end(&self, export: ExportId) {
        self.0.lock().remove(&export);
    }
}
