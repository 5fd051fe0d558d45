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

/// Waits for Ctrl-C or a termination signal.
pub(crate) async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}
