//! SQLite: one writer at a time behind a fair queue, several readers, and a lock file.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Row as _};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::balance_cache::BalanceCache;
use crate::direct;
use crate::disk::DiskSpace;
use crate::tx::{Tx, WriteLock};
use crate::{OpenOptions, StoreAccess, StoreError, private_files};

/// How long a statement waits for a lock that another process holds.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Size of the prepared-statement cache of a connection.
const STATEMENTS_MAX: usize = 256;
/// How many rows SQLite's thread may be ahead of the reader, so that the two need not alternate.
const ROWS_BUFFERED: usize = 1024;

pub(crate) struct SqliteDatabase {
    readers: SqlitePool,
    writer: Option<SqliteWriter>,
    balance_cache: BalanceCache,
    other_commits: Arc<AtomicU64>,
    disk: DiskSpace,
}

struct SqliteWriter {
    pool: SqlitePool,
    /// The metering's own connection.
    metering: Arc<direct::DirectConnection>,
    queue: Arc<Mutex<()>>,
    /// Set after a disk error: the connection is replaced when it is returned to the pool.
    renew: Arc<AtomicBool>,
    /// Held so that no second server can open the same file.
    _lock: File,
}

impl SqliteDatabase {
    pub(crate) async fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let path = path_of(&options.url);
        if options.access == StoreAccess::ReadOnly || !options.create_if_missing {
            refuse_missing(&path)?;
        }
        let writer = match options.access {
            StoreAccess::ReadWrite => Some(SqliteWriter::open(&path).await?),
            StoreAccess::ReadOnly => None,
        };
        let connect = connect_options(&path).read_only(true).pragma("query_only", "on");
        let readers = SqlitePoolOptions::new()
            .max_connections(options.connections_max.max(1))
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_with(connect)
            .await?;
        let disk = DiskSpace::new(&path, options.reserve_bytes);
        Ok(Self {
            readers,
            writer,
            balance_cache: BalanceCache::default(),
            other_commits: Arc::default(),
            disk,
        })
    }

    pub(crate) fn disk(&self) -> &DiskSpace {
        &self.disk
    }

    pub(crate) fn balance_cache(&self) -> &BalanceCache {
        &self.balance_cache
    }

    pub(crate) fn writer(&self) -> Result<&SqlitePool, StoreError> {
        self.writer.as_ref().map(|writer| &writer.pool).ok_or(StoreError::ReadOnly)
    }

    /// Waits for the write lock.
    pub(crate) async fn write_guard(&self) -> Option<OwnedMutexGuard<()>> {
        match &self.writer {
            Some(writer) => Some(Arc::clone(&writer.queue).lock_owned().await),
            None => None,
        }
    }

    pub(crate) async fn begin_read(&self) -> Result<Tx, StoreError> {
        Ok(Tx::sqlite(self.readers.begin().await?, None))
    }

    pub(crate) async fn begin_write(&self) -> Result<Tx, StoreError> {
        let write_lock = self.write_lock().await?;
        let transaction = self.writer()?.begin_with("begin immediate").await?;
        Ok(Tx::sqlite(transaction, Some(write_lock)))
    }

    /// A transaction whose statements block the thread they run on.
    pub(crate) async fn begin_metering(&self) -> Result<Tx, StoreError> {
        let write_lock = self.write_lock().await?;
        let writer = self.writer.as_ref().ok_or(StoreError::ReadOnly)?;
        Ok(Tx::direct(writer.metering.begin()?, write_lock))
    }

    async fn write_lock(&self) -> Result<WriteLock, StoreError> {
        let guard = self.write_guard().await.ok_or(StoreError::ReadOnly)?;
        if self.disk.has_failed() {
            return Err(StoreError::Stopped);
        }
        Ok(WriteLock {
            balance_cache: self.balance_cache.clone(),
            guard,
            other_commits: Arc::clone(&self.other_commits),
            disk: self.disk.clone(),
        })
    }

    pub(crate) fn renew_connection(&self) {
        if let Some(writer) = &self.writer {
            writer.renew.store(true, Ordering::Relaxed);
            writer.metering.renew();
        }
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        if let Some(writer) = &self.writer {
            writer.metering.close();
            writer.pool.close().await;
        }
    }
}

impl SqliteWriter {
    async fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = lock(path)?;
        private_files::secure(path)?;
        let renew = Arc::new(AtomicBool::new(false));
        let renewed = Arc::clone(&renew);
        let connect = connect_options(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            // The data for undoing a single statement is not worth a file.
            .pragma("temp_store", "memory");
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_release(move |_, _| {
                let keep = !renewed.swap(false, Ordering::Relaxed);
                Box::pin(std::future::ready(Ok(keep)))
            })
            .connect_with(connect)
            .await?;
        check(&pool).await?;
        let metering = Arc::new(direct::DirectConnection::new(path));
        Ok(Self { pool, metering, queue: Arc::new(Mutex::new(())), renew, _lock: lock })
    }
}

/// Refuses a file that does not exist, or whose folder may not be read.
fn refuse_missing(path: &Path) -> Result<(), StoreError> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let path_text = whole.display().to_string();
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::NoDatabase { path: path_text }),
        Err(source) => Err(StoreError::File { path: path_text, source }),
    }
}

fn path_of(url: &str) -> PathBuf {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    PathBuf::from(path.strip_prefix("//").unwrap_or(path))
}

fn connect_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .statement_cache_capacity(STATEMENTS_MAX)
        .row_buffer_size(ROWS_BUFFERED)
        .disable_statement_logging()
}

/// Locks the lock file next to the database. The file is never removed; only the lock on it counts.
fn lock(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let failed = |source| StoreError::File { path: lock_path.display().to_string(), source };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(private_files::MODE)
        .open(&lock_path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::InUse { path: path.display().to_string() })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Reads back the settings that durability depends on: SQLite silently ignores those it cannot
/// apply.
async fn check(pool: &SqlitePool) -> Result<(), StoreError> {
    let journal_mode: String =
        sqlx::query("pragma journal_mode").fetch_one(pool).await?.try_get(0)?;
    let synchronous: i64 = sqlx::query("pragma synchronous").fetch_one(pool).await?.try_get(0)?;
    judge(journal_mode, synchronous)
}

/// Checks that a connection's settings keep a commit through a power failure.
pub(crate) fn judge(journal_mode: String, synchronous: i64) -> Result<(), StoreError> {
    if journal_mode != "wal" {
        return Err(StoreError::Unsafe { setting: "journal_mode", value: journal_mode });
    }
    if synchronous != 2 {
        return Err(StoreError::Unsafe { setting: "synchronous", value: synchronous.to_string() });
    }
    Ok(())
}
