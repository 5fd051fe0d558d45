//! The simulators' own ports, as other tasks close and open them.

use std::net::SocketAddr;

use tokio::sync::watch;

use crate::faults::FaultRules;

/// The simulators' own ports, by name.
#[derive(Debug)]
pub(crate) struct PortSet(Vec<(&'static str, PortHandle)>);

impl PortSet {
    pub(crate) fn new(ports: Vec<(&'static str, PortHandle)>) -> Self {
        Self(ports)
    }

    /// Where the port with this name listens.
    pub(crate) fn address(&self, name: &str) -> Option<SocketAddr> {
        let found = self.0.iter().find(|(of_port, _)| *of_port == name);
        found.map(|(_, handle)| handle.address)
    }

    /// Closes and opens the ports as the faults require; complete when this returns.
    pub(crate) async fn follow(&self, faults: &FaultRules) {
        for (name, handle) in &self.0 {
            handle.set_shut(faults.refuses(name)).await;
        }
    }
}

/// Closes and opens a port from another task.
#[derive(Debug)]
pub(crate) struct PortHandle {
    pub(crate) address: SocketAddr,
    want: watch::Sender<bool>,
    is_shut: watch::Receiver<bool>,
}

impl PortHandle {
    pub(crate) fn new(
        address: SocketAddr,
        want: watch::Sender<bool>,
        is_shut: watch::Receiver<bool>,
    ) -> Self {
        Self { address, want, is_shut }
    }

    /// Closes or opens the port, and waits until it has happened.
    pub(crate) async fn set_shut(&self, shut: bool) {
        self.want.send_replace(shut);
        // Fails if the port is gone, which is as good as closed.
        drop(self.is_shut.clone().wait_for(|is_shut| *is_shut == shut).await);
    }
}
