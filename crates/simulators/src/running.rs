//! Starting and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::mount::Mount;
use crate::platform::{self, DemoAccount};
use crate::present;
use crate::service::Service;
use crate::settings::Settings;

/// Why the simulators did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder, a log or a journal in it cannot be used.
    #[error("the data folder of the simulators cannot be used")]
    Data(#[source] io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Simulators that serve requests until they are stopped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    server: JoinHandle<io::Result<()>>,
}

/// Starts all platforms on one listener. They serve until [`Running::stop`].
#[expect(clippy::disallowed_methods, reason = "Running owns the task and waits for it in stop")]
pub async fn start(settings: Settings) -> Result<Running, StartError> {
    let router = router(&settings)?;
    let address = settings.listen;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| StartError::Listen { address, source })?;
    let address = listener.local_addr().map_err(|source| StartError::Listen { address, source })?;
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let server =
        tokio::spawn(
            async move { axum::serve(listener, router).with_graceful_shutdown(stopped).await },
        );
    Ok(Running { address, stop, server })
}

/// The service without a listener, for tests that call it in process.
pub fn router(settings: &Settings) -> Result<axum::Router, StartError> {
    if let Some(folder) = &settings.data {
        std::fs::create_dir_all(folder).map_err(StartError::Data)?;
    }
    let present_ms = present::of(settings).map_err(StartError::Data)?;
    let open = |platform| Mount::open(platform, settings, present_ms).map_err(StartError::Data);
    let mounts = platform::all(settings).into_iter().map(open).collect::<Result<_, _>>()?;
    Ok(Arc::new(Service { mounts }).router())
}

/// The accounts that the simulators accept, with their credentials; the first of each platform is
/// the sandbox's demo account, the last has no fans and no content.
pub fn demo_accounts(settings: &Settings) -> Vec<DemoAccount> {
    platform::all(settings).iter().flat_map(|platform| platform.accounts()).collect()
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that a platform lives under, such as `http://127.0.0.1:9000/platform_alpha`.
    pub fn platform_url(&self, platform: &str) -> String {
        format!("http://{}/{platform}", self.address)
    }

    /// Takes no more requests and waits until the running ones are answered.
    pub async fn stop(self) {
        self.stop.cancel();
        match self.server.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the listener of the simulators failed"),
            Err(error) => tracing::error!(%error, "the task of the simulators failed"),
        }
    }
}
