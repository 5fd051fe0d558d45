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

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ends the service as a crash does: its disk does not keep what it is given, so nothing more may be written, not even
/// at the end. Whoever starts it again lets it recover from what the disk has.
pub(crate) fn end_at_once(running: server::start::Running) -> ExitCode {
    /// An input or output error, by the convention of `sysexits.h`.
    const IO_ERROR: u8 = 74;
    tracing::error!(
        "the database's disk failed to keep a write: the service ends, to recover at its next start"
    );
    std::mem::forget(running);
    ExitCode::from(IO_ERROR)
}

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
