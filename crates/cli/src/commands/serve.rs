//! `serve`: the service, until it is told to stop.

use std::process::ExitCode;

use server::clock::{Clock, Random};

use super::StopSignal;
use crate::{ConfigFile, logs};

/// Runs the service.
pub(crate) async fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = file.load()?;
    let _flushed_at_end = logs::start(&config.log)?;
    let mut stop = StopSignal::listen()?;
    let starting = server::start::start(config, Clock::system(), Random::System);
    let running = tokio::select! {
        started = starting => started?,
        () = stop.given() => return Ok(ExitCode::SUCCESS),
    };
    tracing::info!(
        address = %running.address(),
        admin_address = %running.admin_address(),
        "the service listens"
    );
    tokio::select! {
        () = stop.given() => {}
        () = running.disk_failure() => return Ok(super::end_at_once(running)),
    }
    tracing::info!("stopping: running calls may end, new ones are refused");
    running.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
