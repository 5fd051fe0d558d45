//! Every task of the service: tracked, so that stopping waits for them.
//!
//! *Control* tasks run on the runtime that owns the store; *calls* run on the core that accepted them.

use std::future::Future;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::error::ApiError;

/// The two kinds of tasks, and where control tasks run.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    control: Handle,
    work: TaskTracker,
    calls: TaskTracker,
}

impl Tasks {
    /// Tasks whose control runtime is the current one.
    pub(crate) fn on_this_runtime() -> Self {
        Self { control: Handle::current(), work: TaskTracker::new(), calls: TaskTracker::new() }
    }

    /// Runs work of the control plane to its end, also if the one who waits goes away.
    pub(crate) async fn on_control<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let task = self.work.spawn_on(work, &self.control);
        task.await
            .map_err(|error| ApiError::Internal(format!("a task of ours ended early: {error}")))
    }

    /// Starts background work on the control runtime.
    pub(crate) fn spawn_control(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.spawn_on(work, &self.control);
    }

    /// Starts a call on the core that accepted it.
    pub(crate) fn spawn_call(&self, call: impl Future<Output = ()> + Send + 'static) {
        self.calls.spawn(call);
    }

    /// Waits until no call runs.
    pub(crate) async fn calls_ended(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Waits until no control task runs.
    pub(crate) async fn control_ended(&self) {
        self.work.close();
        self.work.wait().await;
    }
}
