//! The settings of the public listener, and the admin and probe listeners.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use settings::Config;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::ListenerSettings;

use super::StartError;
use crate::state::NodeState;

/// Binds the listener for probes, if one is configured.
pub(super) async fn probe_listener(
    wanted: Option<SocketAddr>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = wanted else { return Ok(None) };
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|source| StartError::Listen { address, source })
}

/// Serves these routes until the service stops.
pub(super) fn serve_admin(
    state: &NodeState,
    routes: axum::Router,
    listener: TcpListener,
    stop: &CancellationToken,
) {
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    let stopped = stop.clone().cancelled_owned();
    state.tasks.spawn_control(async move {
        let served = axum::serve(listener, routes).with_graceful_shutdown(stopped).await;
        if let Err(error) = served {
            tracing::error!(%error, "the admin listener ended");
        }
    });
}

/// The settings of the public listener, from the configuration.
pub(super) fn listener_settings(config: &Config) -> ListenerSettings {
    let (limits, timeouts) = (&config.http.limits, &config.http.timeouts);
    ListenerSettings {
        listen: config.http.listen,
        cores: config.http.cores_in_force(),
        tls: config.http.tls_files(),
        head_timeout: Duration::from_millis(timeouts.head_ms),
        head_bytes_max: limits.head_bytes_max,
        headers_max: limits.headers_max,
        write_stall_timeout: Duration::from_millis(timeouts.write_stall_ms),
        // The stop ends all connections together, before a connection would end itself.
        drain_timeout: config.http.drain_timeout() + Duration::from_secs(5),
        connections_max: limits.connections_max,
        connections_per_ip_max: limits.connections_per_ip_max,
        trusted_proxies: config.http.trusted_networks(),
    }
}
