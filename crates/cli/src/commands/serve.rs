//! `serve`: runs the service until it is told to stop.

use std::process::ExitCode;

use runtime::clock::{Clock, Random};

use super::{Signals, StopSignal};
use crate::{ConfigFile, logs};

/// Runs the service.
pub(crate) async fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = file.load()?;
    let _flushed_at_end = logs::start(&config.log)?;
    let mut signals = Signals::listen()?;
    let starting = node::start::start(config, Clock::system(), Random::System);
    let running = tokio::select! {
        started = starting => started?,
        () = signals.stop() => return Ok(ExitCode::SUCCESS),
    };
    tracing::info!(
        address = %running.address(),
        admin_address = %running.admin_address(),
        probe_address = running.probe_address().map(tracing::field::display),
        "the service is listening"
    );
    let asked = tokio::select! {
        asked = signals.stop_or_reload(&running) => asked,
        () = running.disk_failure() => return Ok(super::end_at_once(running)),
    };
    if asked == StopSignal::Terminate {
        tokio::select! {
            () = signals.announce_stop(&running) => {}
            () = running.disk_failure() => return Ok(super::end_at_once(running)),
        }
    }
    tracing::info!("stopping: running calls may finish, new ones are refused");
    running.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
