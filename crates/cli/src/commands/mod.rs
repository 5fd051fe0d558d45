//! One file for each command.

pub(crate) mod admin;
pub(crate) mod catalog;
pub(crate) mod check_config;
pub(crate) mod migrate;
pub(crate) mod openapi;
mod request;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod simulators;
pub(crate) mod verify;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and the termination signal. Listened for from before a command says that it is ready, so that
/// whoever reads that can stop it in order at once.
pub(crate) struct StopSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignal {
    /// Listens from now on: the signals no longer end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for either.
    pub(crate) async fn given(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
