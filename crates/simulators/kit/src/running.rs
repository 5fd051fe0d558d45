//! A listening service, and how it is stopped.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::listener;
use crate::service::SimulatorService;

impl SimulatorService {
    /// Listens on `address` for everything, and on a free port for each port name of the
    /// simulators, until [`RunningService::stop`].
    pub fn listen(self, address: SocketAddr) -> io::Result<RunningService> {
        let service = Arc::new(self);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let common = listener::listen(&service, address, &stop, &tasks)?;
        Ok(RunningService { service, address: common, stop, tasks })
    }
}

/// Simulators that serve requests until they are stopped.
pub struct RunningService {
    service: Arc<SimulatorService>,
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl RunningService {
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
