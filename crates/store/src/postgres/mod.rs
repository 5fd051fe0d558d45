//! PostgreSQL: a general connection pool, and separate connections for the metering.

mod pool;
mod session;
mod transaction;
mod url;

use std::sync::Arc;

use domain::time::Timestamp;
use sqlx::postgres::{PgConnection, PgListener, PgPoolOptions};

use self::pool::{ClientPool, DatabaseHosts};
use self::session::{ServerDemands, SessionPurpose};
pub(crate) use self::transaction::{PgTransaction, within};
use self::url::DatabaseUrl;
use crate::tx::Tx;
use crate::{OpenOptions, StoreAccess, StoreError};

/// One for the batch, one to check a commit whose outcome is unknown.
const METERING_CONNECTIONS: u32 = 2;

pub(crate) struct PostgresDatabase {
    hosts: Arc<DatabaseHosts>,
    pool: ClientPool,
    metering: ClientPool,
    access: StoreAccess,
}

/// Returns an error if the URL cannot be used.
pub(crate) fn check_url(url: &str) -> Result<(), StoreError> {
    DatabaseUrl::parse(url).map(drop)
}

impl PostgresDatabase {
    pub(crate) async fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let demands = ServerDemands {
            writable: options.access == StoreAccess::ReadWrite,
            durable: options.access == StoreAccess::ReadWrite && !options.allow_unsafe,
        };
        let hosts = DatabaseHosts::new(DatabaseUrl::parse(&options.url)?, demands);
        let pool = pool::pool(&hosts, SessionPurpose::General, options.connections_max.max(2))?;
        let metering = pool::pool(&hosts, SessionPurpose::Metering, METERING_CONNECTIONS)?;
        drop(pool::acquire(&pool).await?);
        Ok(Self { hosts, pool, metering, access: options.access })
    }

    /// A separate connection whose statements have no time limits.
    pub(crate) async fn connection_without_limits(&self) -> Result<PgConnection, StoreError> {
        Box::pin(self.hosts.connect(SessionPurpose::Unlimited)).await
    }

    /// A listener for notifications, on a separate connection.
    pub(crate) async fn listener(&self) -> Result<PgListener, StoreError> {
        // Connecting first finds the host that accepts writes, where other nodes send
        // notifications.
        drop(pool::acquire(&self.pool).await?);
        let options = self.hosts.current().ok_or(StoreError::UnknownUrl)?;
        let own = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        Ok(Box::pin(PgListener::connect_with(&own)).await?)
    }

    pub(crate) async fn begin(&self, statement: &'static str) -> Result<Tx, StoreError> {
        if self.access == StoreAccess::ReadOnly && !statement.ends_with("read only") {
            return Err(StoreError::ReadOnly);
        }
        let client = pool::acquire(&self.pool).await?;
        Ok(Tx::postgres(PgTransaction::begin(client, statement).await?))
    }

    pub(crate) async fn begin_metering(&self) -> Result<Tx, StoreError> {
        if self.access == StoreAccess::ReadOnly {
            return Err(StoreError::ReadOnly);
        }
        let client = pool::acquire(&self.metering).await?;
        Ok(Tx::postgres(PgTransaction::begin(client, "begin").await?))
    }

    /// Discards idle connections, after one of them did not respond.
    pub(crate) fn distrust_connections(&self) {
        self.hosts.distrust();
    }

    /// Reads the database's clock, to measure clock skew. Nothing else does.
    pub(crate) async fn time(&self) -> Result<Timestamp, StoreError> {
        const SQL: &str = "
            select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) as now_micros";
        let row = self.begin("begin read only").await?.row(SQL, &[]).await?;
        let micros = row.ok_or_else(|| StoreError::corrupt("clock", ""))?.int("now_micros")?;
        Ok(Timestamp::from_unix_micros(micros))
    }

    pub(crate) fn close(&self) {
        self.metering.close();
        self.pool.close();
    }
}
