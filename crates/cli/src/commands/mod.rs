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
pub(crate) fn end_at_once(running: node::start::RunningService) -> ExitCode {
    /// An input or output error, by the convention of `sysexits.h`.
    const IO_ERROR: u8 = 74;
    tracing::error!(
        "the database's disk failed to keep a write: the service ends, to recover at its next start"
    );
    std::mem::forget(running);
    ExitCode::from(IO_ERROR)
}

/// What an operator asks of a command that runs on: to stop (Ctrl-C, SIGTERM) or to read files again (SIGHUP). Listened
/// for from before a command says that it is ready, so that the caller who reads that can send a signal immediately.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Listens from now on: the signals no longer end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the signal to stop. To read files again means nothing here, and does not end the process either.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Lets load balancers see that the service is about to stop while it still serves; another signal ends that.
    pub(crate) async fn announce_stop(&mut self, running: &node::start::RunningService) {
        let announced = running.announce_stop();
        if announced.is_zero() {
            return;
        }
        let announced_ms = announced.as_millis();
        tracing::info!(announced_ms, "about to stop: not ready any more, but still serving");
        // Who has asked to stop and asks again does not want to wait.
        drop(tokio::time::timeout(announced, self.stop()).await);
    }

    /// Waits for the signal to stop, also while files are being read; gives which one. Whenever it is asked to, it reads the files of the
    /// running service again, one reading after the other.
    pub(crate) async fn stop_or_reload(
        &mut self,
        running: &node::start::RunningService,
    ) -> StopSignal {
        let Self { interrupt, terminate, hang_up } = self;
        let reload = async {
            while hang_up.recv().await.is_some() {
                let outcome = running.reload_certificate().await;
                tracing::info!(certificate = outcome.as_str(), "SIGHUP: files were read again");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = interrupt.recv() => StopSignal::Interrupt,
            _ = terminate.recv() => StopSignal::Terminate,
            () = reload => StopSignal::Terminate,
        }
    }
}

/// How a command that runs on is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGINT: somebody at a terminal, who waits for it.
    Interrupt,
    /// SIGTERM: a supervisor, often with a load balancer before the service.
    Terminate,
}
