//! A service that listens, and how it is stopped.

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

    /// Where everything listens: all simulators and the control interface.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the port with this name listens, if a simulator has it.
    pub fn port_address(&self, name: &str) -> Option<SocketAddr> {
        self.service.ports.get()?.address(name)
    }

    /// Starts work beside the requests; it must end soon after its token is cancelled.
    pub fn spawn<F>(&self, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(work(self.stop.clone()));
    }

    /// Takes no more requests and waits until the running ones are answered.
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
