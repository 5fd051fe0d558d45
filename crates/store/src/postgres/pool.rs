//! Connections to the host that accepts writes, and the pools that keep them.
//!
//! Every wait for a server has a deadline here, because a connection can die silently: the server
//! lost power, its address moved, or a device in between dropped the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool::managed::{self, Metrics, PoolError, RecycleError, RecycleResult};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::timeout;

use super::session::{self, ServerDemands, SessionPurpose};
use super::url::{DatabaseHost, DatabaseUrl};
use crate::StoreError;

/// How long a caller waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(4);
/// The pause between attempts to connect while a caller waits. It doubles up to the maximum, so
/// that a starting server is not overwhelmed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// How long an idle connection may take to respond to a ping.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) type ClientPool = managed::Pool<ClientManager>;
pub(super) type PooledClient = managed::Object<ClientManager>;

/// The servers that may hold the database.
pub(super) struct DatabaseHosts {
    url: DatabaseUrl,
    demands: ServerDemands,
    /// Index of the host to try first: the one connected to last.
    current: AtomicUsize,
    /// Incremented when a connection is found dead: older idle connections are no longer used.
    generation: AtomicU64,
}

impl DatabaseHosts {
    pub(super) fn new(url: DatabaseUrl, demands: ServerDemands) -> Arc<Self> {
        let (current, generation) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { url, demands, current, generation })
    }

    /// Connects to the first host that responds in time and meets the demands, starting with the
    /// last one that did.
    pub(super) async fn connect(
        &self,
        purpose: SessionPurpose,
    ) -> Result<PgConnection, StoreError> {
        let hosts = &self.url.hosts;
        let first = self.current.load(Ordering::Relaxed);
        let mut refused: Option<StoreError> = None;
        for index in (first..first + hosts.len()).map(|index| index % hosts.len()) {
            let Some(host) = hosts.get(index) else { continue };
            match self.connect_to(host, purpose).await {
                Ok(connection) => {
                    if self.current.swap(index, Ordering::Relaxed) != index {
                        tracing::info!(host = host.name, "the database has moved to another host");
                    }
                    return Ok(connection);
                }
                Err(error) => {
                    let error =
                        StoreError::Connect { host: host.name.clone(), source: Box::new(error) };
                    // With several hosts the others are standbys, so the primary's error is more
                    // informative than theirs.
                    let says_more = !error.is_standby() || refused.is_none();
                    if let Some(less) = if says_more { refused.replace(error) } else { Some(error) }
                    {
                        tracing::debug!(
                            error = &less as &dyn std::error::Error,
                            "a host cannot be used"
                        );
                    }
                }
            }
        }
        Err(refused.unwrap_or(StoreError::UnknownUrl))
    }

    async fn connect_to(
        &self,
        host: &DatabaseHost,
        purpose: SessionPurpose,
    ) -> Result<PgConnection, StoreError> {
        let work = async {
            let mut connection = host.options.connect().await?;
            session::prepare(&mut connection, purpose, self.demands).await?;
            Ok(connection)
        };
        let waited = self.url.connect_timeout;
        let late = StoreError::Deadline { doing: "connecting", waited };
        timeout(waited, work).await.unwrap_or(Err(late))
    }

    /// Connection options of the host connected to last.
    pub(super) fn current(&self) -> Option<PgConnectOptions> {
        let index = self.current.load(Ordering::Relaxed);
        self.url.hosts.get(index).map(|host| host.options.clone())
    }

    /// Treats all connections that are idle now as dead.
    pub(super) fn distrust(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates a pool's connections and checks that they still work.
pub(super) struct ClientManager {
    hosts: Arc<DatabaseHosts>,
    purpose: SessionPurpose,
}

/// A connection of a pool.
pub(super) struct PostgresClient {
    pub(super) connection: PgConnection,
    pub(super) hosts: Arc<DatabaseHosts>,
    generation: u64,
    /// A transaction was begun and has not ended.
    pub(super) is_in_transaction: bool,
    /// A statement's response was not read to its end, or the connection is known to be lost.
    pub(super) is_unusable: bool,
}

/// A connection pool. It connects on demand.
pub(super) fn pool(
    hosts: &Arc<DatabaseHosts>,
    purpose: SessionPurpose,
    connections_max: u32,
) -> Result<ClientPool, StoreError> {
    let manager = ClientManager { hosts: Arc::clone(hosts), purpose };
    let size = usize::try_from(connections_max).unwrap_or(usize::MAX);
    managed::Pool::builder(manager)
        .max_size(size)
        .runtime(deadpool::Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Url(error.to_string()))
}

/// Returns a connection that seems to work. Waits for a server that is unavailable and may come
/// back soon.
pub(super) async fn acquire(pool: &ClientPool) -> Result<PooledClient, StoreError> {
    let (mut pause, mut last) = (FIRST_PAUSE, None);
    let attempts = async {
        loop {
            match pool.get().await {
                Ok(client) => return Ok(client),
                Err(PoolError::Backend(error)) if error.may_pass() => last = Some(error),
                Err(PoolError::Backend(error)) => return Err(error),
                Err(_) => return Err(StoreError::Stopped),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    if let Ok(ended) = timeout(ACQUIRE_TIMEOUT, attempts).await {
        return ended;
    }
    let doing = "waiting for a free connection";
    Err(last.unwrap_or(StoreError::Deadline { doing, waited: ACQUIRE_TIMEOUT }))
}

impl managed::Manager for ClientManager {
    type Type = PostgresClient;
    type Error = StoreError;

    async fn create(&self) -> Result<PostgresClient, StoreError> {
        let generation = self.hosts.generation.load(Ordering::Relaxed);
        // Boxed, because connecting is rare and its future is large.
        let connection = Box::pin(self.hosts.connect(self.purpose)).await?;
        let hosts = Arc::clone(&self.hosts);
        Ok(PostgresClient {
            connection,
            hosts,
            generation,
            is_in_transaction: false,
            is_unusable: false,
        })
    }

    /// Pings the server, except on metering connections, whose transactions have a deadline of
    /// their own.
    async fn recycle(&self, client: &mut PostgresClient, _: &Metrics) -> RecycleResult<StoreError> {
        let generation = self.hosts.generation.load(Ordering::Relaxed);
        // A connection still in a transaction could not be rolled back.
        let is_lost = client.is_unusable || client.is_in_transaction;
        if is_lost || client.generation != generation {
            return Err(RecycleError::message("the connection is lost"));
        }
        if self.purpose != SessionPurpose::General {
            return Ok(());
        }
        client.is_unusable = true;
        match timeout(CHECK_TIMEOUT, client.connection.ping()).await {
            Ok(Ok(())) => {
                client.is_unusable = false;
                Ok(())
            }
            Ok(Err(error)) => Err(RecycleError::Backend(error.into())),
            Err(_) => {
                self.hosts.distrust();
                Err(RecycleError::message("the connection does not respond"))
            }
        }
    }
}
