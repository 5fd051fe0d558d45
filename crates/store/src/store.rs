//! The store: which database it uses, how it is opened, and how transactions begin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use domain::id::NodeId;
use domain::time::Timestamp;
use sqlx::Connection as _;

use crate::StoreError;
use crate::balance_cache::BalanceCache;
use crate::disk::DiskSpace;
use crate::migrations;
use crate::options::{DatabaseKind, OpenOptions};
use crate::tx::Tx;
use crate::{postgres, sqlite};

/// The database. Clones share one set of connections.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    database: DatabaseHandle,
    healthy: AtomicBool,
    holder: OnceLock<String>,
}

enum DatabaseHandle {
    Sqlite(sqlite::SqliteDatabase),
    Postgres(postgres::PostgresDatabase),
}

/// How many of the migrations that this version needs have been applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaSteps {
    /// Migrations that were applied.
    pub applied: usize,
    /// Migrations that this version needs.
    pub all: usize,
}

/// Whether a statement failed because its table does not exist.
fn is_missing_table(error: &dyn sqlx::error::DatabaseError) -> bool {
    /// PostgreSQL's `undefined_table`.
    const UNDEFINED_TABLE: &str = "42P01";
    error.code().is_some_and(|code| code == UNDEFINED_TABLE)
        || error.message().starts_with("no such table")
}

/// Returns an error if the URL cannot be used. Opens nothing.
pub fn check_url(url: &str) -> Result<(), StoreError> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        return postgres::check_url(url);
    }
    if url.starts_with("sqlite:") { Ok(()) } else { Err(StoreError::UnknownUrl) }
}

impl Store {
    /// Opens the database and checks that its settings keep confirmed commits. Leaves the schema as
    /// it is.
    pub async fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let database = if options.url.starts_with("sqlite:") {
            DatabaseHandle::Sqlite(sqlite::SqliteDatabase::open(options).await?)
        } else if options.url.starts_with("postgres:") || options.url.starts_with("postgresql:") {
            DatabaseHandle::Postgres(postgres::PostgresDatabase::open(options).await?)
        } else {
            return Err(StoreError::UnknownUrl);
        };
        let inner =
            StoreInner { database, healthy: AtomicBool::new(true), holder: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Brings the schema up to date. Safe to run again, and by several nodes concurrently.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let migrator = migrations::migrator(self.database());
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => {
                let guard = sqlite.write_guard().await;
                migrator.run(sqlite.writer()?).await?;
                drop(guard);
            }
            DatabaseHandle::Postgres(postgres) => {
                let mut connection = postgres.connection_without_limits().await?;
                migrator.run(&mut connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    }

    /// How far the schema has been migrated. A database that was never migrated has no applied
    /// step.
    pub async fn schema_steps(&self) -> Result<SchemaSteps, StoreError> {
        const SQL: &str = "select version from _sqlx_migrations where success";
        let versions: Vec<i64> = match self.read().await?.rows(SQL, &[]).await {
            Ok(rows) => rows.iter().map(|row| row.int("version")).collect::<Result<_, _>>()?,
            Err(StoreError::Database(sqlx::Error::Database(error)))
                if is_missing_table(&*error) =>
            {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let migrator = migrations::migrator(self.database());
        let is_applied = |step: &&sqlx::migrate::Migration| versions.contains(&step.version);
        let applied = migrator.iter().filter(is_applied).count();
        Ok(SchemaSteps { applied, all: migrator.iter().count() })
    }

    /// Says which node this process is; the first time counts. Call it at start, before the process
    /// takes a lease.
    pub fn act_as(&self, node: NodeId) {
        self.inner.holder.get_or_init(|| node.to_string());
    }

    /// The name under which this process takes leases: its node. A process that is none, such as an
    /// operator's command, counts as gone once its leases are not renewed.
    pub(crate) fn holder(&self) -> &str {
        self.inner.holder.get().map_or("none", String::as_str)
    }

    /// The kind of database.
    pub fn database(&self) -> DatabaseKind {
        match self.inner.database {
            DatabaseHandle::Sqlite(_) => DatabaseKind::Sqlite,
            DatabaseHandle::Postgres(_) => DatabaseKind::Postgres,
        }
    }

    /// The time of the database's clock, which all nodes share. None on SQLite, which has no clock
    /// of its own.
    pub async fn database_time(&self) -> Result<Option<Timestamp>, StoreError> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(_) => Ok(None),
            DatabaseHandle::Postgres(postgres) => postgres.time().await.map(Some),
        }
    }

    /// Whether the last metering batch was committed and there is room for more. Part of the
    /// server's readiness.
    pub fn is_healthy(&self) -> bool {
        self.inner.healthy.load(Ordering::Relaxed) && self.has_room()
    }

    /// Whether the disk of an embedded database has room for more calls. False at start, and again
    /// after the disk was full, until `lay_reserve_in` succeeds.
    pub fn has_room(&self) -> bool {
        self.disk().is_none_or(|disk| !disk.is_short())
    }

    /// Creates the reserve file unless it exists. Blocks while it writes. Fails if the disk has no
    /// room for it.
    pub fn lay_reserve_in(&self) -> Result<(), std::io::Error> {
        self.disk().map_or(Ok(()), DiskSpace::lay_reserve_in)
    }

    /// Waits until the disk of an embedded database fails to store a write. From then on nothing is
    /// written: the process must exit and recover from what is on disk.
    pub async fn disk_failure(&self) {
        match self.disk() {
            Some(disk) => disk.failure().await,
            None => std::future::pending().await,
        }
    }

    /// Updates what is known about the disk from an error.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        if let Some(disk) = self.disk() {
            disk.note(error);
        }
    }

    pub(crate) fn disk(&self) -> Option<&DiskSpace> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => Some(sqlite.disk()),
            DatabaseHandle::Postgres(_) => None,
        }
    }

    /// Closes all connections, after running work has finished.
    pub async fn close(&self) {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => sqlite.close().await,
            DatabaseHandle::Postgres(postgres) => postgres.close(),
        }
    }

    /// The PostgreSQL database; none on SQLite.
    pub(crate) fn postgres(&self) -> Option<&postgres::PostgresDatabase> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(_) => None,
            DatabaseHandle::Postgres(postgres) => Some(postgres),
        }
    }

    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.inner.healthy.store(healthy, Ordering::Relaxed);
    }

    /// A read-only transaction. On SQLite it sees one snapshot; on PostgreSQL each statement sees
    /// the newest commits.
    pub(crate) async fn read(&self) -> Result<Tx, StoreError> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => sqlite.begin_read().await,
            DatabaseHandle::Postgres(postgres) => postgres.begin("begin read only").await,
        }
    }

    /// A read-only transaction that sees one snapshot on both databases.
    pub(crate) async fn snapshot(&self) -> Result<Tx, StoreError> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => sqlite.begin_read().await,
            DatabaseHandle::Postgres(postgres) => {
                postgres.begin("begin isolation level repeatable read read only").await
            }
        }
    }

    /// Like `snapshot`, without time limits on its statements, for reading whole tables.
    pub(crate) async fn inspect(&self) -> Result<Tx, StoreError> {
        let mut tx = self.snapshot().await?;
        tx.lift_limits().await?;
        Ok(tx)
    }

    /// A transaction that writes. On SQLite, writers take turns in the order in which they asked.
    pub(crate) async fn write(&self) -> Result<Tx, StoreError> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => sqlite.begin_write().await,
            DatabaseHandle::Postgres(postgres) => postgres.begin("begin").await,
        }
    }

    /// A transaction for the metering writer, on a connection reserved for it. On SQLite its
    /// statements block the thread that runs them.
    pub(crate) async fn write_metering(&self) -> Result<Tx, StoreError> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => sqlite.begin_metering().await,
            DatabaseHandle::Postgres(postgres) => postgres.begin_metering().await,
        }
    }

    /// Makes the metering writer's next transaction use a fresh connection.
    pub(crate) fn renew_connections(&self) {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => sqlite.renew_connection(),
            DatabaseHandle::Postgres(_) => {}
        }
    }

    /// Discards idle PostgreSQL connections, after one of them did not respond.
    pub(crate) fn distrust_connections(&self) {
        if let DatabaseHandle::Postgres(postgres) = &self.inner.database {
            postgres.distrust_connections();
        }
    }

    /// The balances in memory, on SQLite.
    pub(crate) fn balance_cache(&self) -> Option<&BalanceCache> {
        match &self.inner.database {
            DatabaseHandle::Sqlite(sqlite) => Some(sqlite.balance_cache()),
            DatabaseHandle::Postgres(_) => None,
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Store({:?})", self.database())
    }
}
