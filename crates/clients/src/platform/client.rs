//! The connections of one core to the platforms, and the sending of requests over them.

use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::per_platform::PerPlatform;
use futures_util::future::Either;
use http::Request;

use super::answer::PlatformResponse;
use super::body::RequestBody;
use super::connection_pool::ConnectionPool;
use super::target::PlatformTarget;
use crate::error::ClientError;

/// The longest head of an answer, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 65_536;
/// The most headers of an answer.
pub(super) const HEADERS_MAX: usize = 100;

/// The connections of one core to all platforms. Cheap to clone; clones share their connections.
///
/// It serves one [`PlatformTarget`] of each platform, HTTP/1.1 and HTTP/2. Redirects are never followed, and
/// proxy variables of the environment are not read.
#[derive(Debug, Clone)]
pub struct PlatformClient(Arc<PlatformPools>);

#[derive(Debug)]
struct PlatformPools {
    settings: UpstreamSettings,
    pools: PerPlatform<OnceLock<ConnectionPool>>,
}

/// How many connections wait for a next request, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// An idle connection is closed after this time.
    pub idle: Duration,
    /// The most idle connections to one host.
    pub idle_connections_max: usize,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { idle: Duration::from_secs(30), idle_connections_max: 16_000 }
    }
}

impl PlatformClient {
    /// Makes no connection yet. Must be used within one tokio runtime.
    pub fn new(settings: &UpstreamSettings) -> Self {
        Self(Arc::new(PlatformPools {
            settings: *settings,
            pools: PerPlatform::of_all(|_| OnceLock::new()),
        }))
    }

    /// Sends a request that `target` built, and waits for the head of its answer.
    ///
    /// The phases are limited by the target's timeouts. Whatever must not be passed on is an error:
    /// statuses below 200 or above 599, both or strange framing headers, a head of more than 65,536 bytes
    /// or 100 headers, on HTTP/1.1 more than eight informational answers. A connection with such
    /// an answer is not used again. Dropping the future ends the request.
    pub fn send(
        &self,
        target: &PlatformTarget,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<PlatformResponse, ClientError>> + Send {
        match self.connections(target) {
            Ok(connections) => Either::Left(connections.send(request)),
            Err(problem) => Either::Right(ready(Err(problem))),
        }
    }

    fn connections(&self, target: &PlatformTarget) -> Result<&ConnectionPool, ClientError> {
        let pool = self.0.pools.get(target.platform()).ok_or_else(|| {
            ClientError::build("this client was made before the platform was declared")
        })?;
        let settings = target.connection();
        let connections = pool.get_or_init(|| ConnectionPool::new(settings, &self.0.settings));
        // Connections made with other trusted authorities must not carry this target's credentials.
        if connections.settings().is_same(settings) {
            Ok(connections)
        } else {
            Err(ClientError::build("these connections serve another target of this platform"))
        }
    }
}
