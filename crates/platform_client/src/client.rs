//! The connections of one core to the platforms, and the sending of requests over them.

use std::collections::HashMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::platform::Platform;
use futures_util::future::Either;
use http::{Request, Uri};
use outbound::{
    ClientError, ConnectionPool, PlatformResponse, ProxyAddress, RequestBody, SignerAddress,
    SignerConnections, UpstreamSettings,
};
use tokio::time::Instant;

use super::cookies::RequestCookies;
use super::proxy::ProxyRoute;
use super::signing::external::ExternalSigner;
use super::target::PlatformTarget;

/// The connections of one core to all platforms. Cheap to clone; clones share their connections.
///
/// It serves one [`PlatformTarget`] of each platform, HTTP/1.1 and HTTP/2, directly and through the
/// proxies of accounts. Redirects are never followed, and proxy variables of the environment are
/// not read.
#[derive(Debug, Clone)]
pub struct PlatformClient(Arc<PlatformPools>);

#[derive(Debug)]
struct PlatformPools {
    settings: UpstreamSettings,
    pools: Mutex<HashMap<PoolKey, PoolEntry>>,
    signers: Mutex<HashMap<SignerAddress, SignerConnections>>,
}

/// What makes connections equal, beside where they lead: accounts behind two proxies never share
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    platform: Platform,
    proxy: Option<Arc<ProxyAddress>>,
}

#[derive(Debug)]
struct PoolEntry {
    pool: ConnectionPool,
    used_at: Instant,
}

/// The most proxies whose connections one core keeps.
const PROXIES_MAX: usize = 1_000;

/// The sending of a request that takes more than its connection.
type BoxedSending = Pin<Box<dyn Future<Output = Result<PlatformResponse, ClientError>> + Send>>;

impl PlatformClient {
    /// Makes no connection yet. Must be used within one tokio runtime.
    pub fn new(settings: &UpstreamSettings) -> Self {
        Self(Arc::new(PlatformPools {
            settings: *settings,
            pools: Mutex::default(),
            signers: Mutex::default(),
        }))
    }

    /// Sends a request that `target` built, and waits for the head of its answer.
    ///
    /// The phases are limited by the target's timeouts. Whatever must not be passed on is an error:
    /// statuses below 200 or above 599, both or strange framing headers, a head of more than 65,536
    /// bytes or 100 headers, on HTTP/1.1 more than eight informational answers. A connection with
    /// such an answer is not used again. Dropping the future ends the request.
    pub fn send(
        &self,
        target: &PlatformTarget,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<PlatformResponse, ClientError>> + Send + use<> {
        let proxy = request.extensions().get::<ProxyRoute>().map(|route| Arc::clone(&route.0));
        let cookies = request.extensions().get::<RequestCookies>().cloned();
        match (self.connections(target, proxy), target.external_signer(), cookies) {
            (Ok(connections), None, None) => Either::Left(connections.send(request)),
            (Ok(connections), None, Some(cookies)) => {
                let uri = request.uri().clone();
                Either::Right(receiving(cookies, uri, connections.send(request)))
            }
            (Ok(connections), Some(signer), cookies) => {
                let uri = request.uri().clone();
                let sending = self.signed(connections, signer.clone(), request);
                Either::Right(match cookies {
                    Some(cookies) => receiving(cookies, uri, sending),
                    None => sending,
                })
            }
            (Err(problem), _, _) => Either::Right(Box::pin(ready(Err(problem))) as BoxedSending),
        }
    }

    /// Boxed: most requests are signed where they are built.
    fn signed(
        &self,
        connections: ConnectionPool,
        signer: ExternalSigner,
        mut request: Request<RequestBody>,
    ) -> BoxedSending {
        let mut signers = self.0.signers.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = signers.entry(signer.address.clone()).or_default().clone();
        drop(signers);
        Box::pin(async move {
            signer.sign(&sockets, &mut request).await?;
            connections.send(request).await
        })
    }

    fn connections(
        &self,
        target: &PlatformTarget,
        proxy: Option<Arc<ProxyAddress>>,
    ) -> Result<ConnectionPool, ClientError> {
        let settings = target.connection();
        let key = PoolKey { platform: target.platform(), proxy };
        let mut pools = self.0.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pools.get_mut(&key) {
            if key.proxy.is_some() {
                known.used_at = Instant::now();
            }
            // Connections made with other trusted authorities must not carry this target's
            // credentials.
            return if known.pool.settings().is_same(settings) {
                Ok(known.pool.clone())
            } else {
                Err(ClientError::build("these connections serve another target of this platform"))
            };
        }
        make_room(&mut pools, self.0.settings.idle);
        let pool = ConnectionPool::through(key.proxy.clone(), settings, &self.0.settings);
        pools.insert(key, PoolEntry { pool: pool.clone(), used_at: Instant::now() });
        Ok(pool)
    }
}

/// Takes the cookies of the response. Boxed: most platforms set none.
fn receiving(
    cookies: RequestCookies,
    uri: Uri,
    sending: impl Future<Output = Result<PlatformResponse, ClientError>> + Send + 'static,
) -> BoxedSending {
    Box::pin(async move {
        let response = sending.await?;
        cookies.receive(&response.headers, &uri);
        Ok(response)
    })
}

/// Forgets proxies that were not used for as long as connections are kept, and of too many the one
/// that was used longest ago. Calls that are under way keep their connections.
fn make_room(pools: &mut HashMap<PoolKey, PoolEntry>, idle: Duration) {
    pools.retain(|key, entry| key.proxy.is_none() || entry.used_at.elapsed() <= idle);
    let proxies = || pools.iter().filter(|(key, _)| key.proxy.is_some());
    if proxies().count() < PROXIES_MAX {
        return;
    }
    let oldest = proxies().min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        pools.remove(&oldest);
    }
}
