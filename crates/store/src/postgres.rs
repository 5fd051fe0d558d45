//! PostgreSQL: one pool for everything, and connections of its own for the metering.

use std::str::FromStr as _;
use std::time::Duration;

use domain::time::Timestamp;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Row as _};

use crate::tx::Tx;
use crate::{Access, OpenOptions, StoreError};

/// How long a caller waits for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept prepared in a connection.
const STATEMENTS_MAX: usize = 256;
/// One for the batch, one to look after a commit whose end is unknown.
const METERING_CONNECTIONS: u32 = 2;

/// The metering's statements are few and take arrays: planning them anew for each batch costs as much as running them,
/// and finds the same plan. That plan is kept while tables grow from nothing, so it may only look rows up by their
/// index: a plan that reads a whole table is right for an empty one, and wrong from then on.
const METERING_SETTINGS: &[(&str, &str)] = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

pub(crate) struct Postgres {
    pool: PgPool,
    metering: PgPool,
    access: Access,
}

impl Postgres {
    pub(crate) async fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let connect = PgConnectOptions::from_str(&options.url)?
            .application_name("creator-gateway")
            .statement_cache_capacity(STATEMENTS_MAX)
            .options([
                ("lock_timeout", "2s"),
                ("statement_timeout", "5s"),
                ("idle_in_transaction_session_timeout", "30s"),
            ])
            .disable_statement_logging();
        // A connection that broke while nobody used it is found out before it is handed on.
        let pool = pool_options(options.connections_max.max(2))
            .test_before_acquire(true)
            .connect_with(connect.clone())
            .await?;
        if !options.allow_unsafe {
            check(&pool).await?;
        }
        let metering = pool_options(METERING_CONNECTIONS)
            .connect_lazy_with(connect.options(METERING_SETTINGS.iter().copied()));
        Ok(Self { pool, metering, access: options.access })
    }

    /// A connection of its own whose statements may take their time.
    pub(crate) async fn connection_without_limits(&self) -> Result<PgConnection, StoreError> {
        let options = self.pool.connect_options().as_ref().clone();
        Ok(options.options([("statement_timeout", "0"), ("lock_timeout", "0")]).connect().await?)
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(crate) async fn begin(&self, statement: &'static str) -> Result<Tx, StoreError> {
        if self.access == Access::ReadOnly && !statement.ends_with("read only") {
            return Err(StoreError::ReadOnly);
        }
        Ok(Tx::postgres(self.pool.begin_with(statement).await?))
    }

    pub(crate) async fn begin_metering(&self) -> Result<Tx, StoreError> {
        if self.access == Access::ReadOnly {
            return Err(StoreError::ReadOnly);
        }
        Ok(Tx::postgres(self.metering.begin().await?))
    }

    /// The only place that asks a database for the time, to measure how far clocks are apart.
    pub(crate) async fn time(&self) -> Result<Timestamp, StoreError> {
        const SQL: &str = "
            select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)";
        let micros: i64 = sqlx::query(SQL).fetch_one(&self.pool).await?.try_get(0)?;
        Ok(Timestamp::from_unix_micros(micros))
    }

    pub(crate) async fn close(&self) {
        self.metering.close().await;
        self.pool.close().await;
    }
}

fn pool_options(connections_max: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
}

/// Refuses a server that could lose a commit it confirmed.
async fn check(pool: &PgPool) -> Result<(), StoreError> {
    const SQL: &str = "
        select current_setting('fsync'), current_setting('full_page_writes'),
               current_setting('synchronous_commit')";
    let row = sqlx::query(SQL).fetch_one(pool).await?;
    for (place, setting) in
        ["fsync", "full_page_writes", "synchronous_commit"].into_iter().enumerate()
    {
        let value: String = row.try_get(place)?;
        if value == "off" {
            return Err(StoreError::Unsafe { setting, value });
        }
    }
    Ok(())
}
