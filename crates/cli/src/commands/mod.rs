//! One file for each command.

pub(crate) mod admin;
pub(crate) mod catalog;
pub(crate) mod check_config;
mod liability;
pub(crate) mod migrate;
pub(crate) mod openapi;
mod operator_tables;
pub(crate) mod operators;
pub(crate) mod package_files;
pub(crate) mod processor;
mod request;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod simulators;
pub(crate) mod verify;

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ends the process without any further write, as a crash would: the disk has failed to keep a
/// write, so nothing more may be written. The next start recovers from what is on the disk.
pub(crate) fn end_at_once(running: node::start::RunningService) -> ExitCode {
    /// An input or output error, by the convention of `sysexits.h`.
    const IO_ERROR: u8 = 74;
    tracing::error!(
        "the database's disk failed to keep a write: exiting, to recover at the next start"
    );
    std::mem::forget(running);
    ExitCode::from(IO_ERROR)
}

/// The signals that an operator sends to a running command: stop (Ctrl-C, SIGTERM) or read files
/// again (SIGHUP). Handled before a command says that it is ready, so that a caller can send a
/// signal as soon as it has read that.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Starts handling: the signals no longer end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to stop. SIGHUP has no meaning here, but does not end the process either.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Lets load balancers see that the service is about to stop while it still serves; another
    /// stop signal ends the wait.
    pub(crate) async fn announce_stop(&mut self, running: &node::start::RunningService) {
        let announced = running.announce_stop();
        if announced.is_zero() {
            return;
        }
        let announced_ms = announced.as_millis();
        tracing::info!(announced_ms, "about to stop: no longer ready, but still serving");
        // A second stop signal means that the operator does not want to wait.
        drop(tokio::time::timeout(announced, self.stop()).await);
    }

    /// Waits for a signal to stop, and returns which one it was. Each SIGHUP reads the files of the
    /// running service again, one reading after the other; a signal to stop is noticed during a
    /// reading too.
    pub(crate) async fn stop_or_reload(
        &mut self,
        running: &node::start::RunningService,
    ) -> StopSignal {
        let Self { interrupt, terminate, hang_up } = self;
        let reload = async {
            while hang_up.recv().await.is_some() {
                let outcome = running.reload_certificate().await;
                tracing::info!(certificate = outcome.as_str(), "SIGHUP: files read again");
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

/// How a running command is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGINT: a person at a terminal, who is waiting.
    Interrupt,
    /// SIGTERM: a supervisor, often with a load balancer in front of the service.
    Terminate,
}
