//! A listening service, and how it is stopped.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::service::SimulatorService;

/// Simulators that serve requests until they are stopped.
pub struct RunningService {
    service: Arc<SimulatorService>,
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl RunningService {
    pub(crate) fn new(
        service: Arc<SimulatorService>,
        address: SocketAddr,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        Self { service, address, stop, tasks }
    }

    /// The common address of all simulators and the control interface.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the port with this name, if a simulator has one.
    pub fn port_address(&self, name: &str) -> Option<SocketAddr> {
        self.service.ports.get()?.address(name)
    }

    /// Starts background work; it must end soon after its token is cancelled.
    pub fn spawn<F>(&self, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(work(self.stop.clone()));
    }

    /// Stops accepting requests and waits until the running ones have their responses.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl std::fmt::Debug for RunningService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("RunningService");
        shown.field("address", &self.address).finish_non_exhaustive()
    }
}
