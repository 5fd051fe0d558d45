//! SQLite called directly on the current thread: how the metering writes.
//!
//! sqlx sends every statement to a thread of its own and waits for the result, which costs more
//! than most metering statements do. The metering writer has its own thread anyway, so it can call
//! SQLite there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{CachedStatement, Connection};

use crate::StoreError;
use crate::sql::{SqlRow, SqlValue};
use crate::sqlite::{BUSY_TIMEOUT, judge};

/// Size of the prepared-statement cache: enough for all statements of the metering.
const STATEMENTS_MAX: usize = 64;

/// The metering's connection and where it is kept between transactions.
pub(crate) struct DirectConnection {
    path: PathBuf,
    idle: Mutex<Option<Connection>>,
    /// Set after a disk error: the connection is replaced when it is returned.
    renew: AtomicBool,
    /// Generated statements, by the text they are made from and the number of rows.
    texts: Mutex<HashMap<(&'static str, usize), Arc<str>>>,
}

/// A transaction on the metering's connection. Dropping it rolls it back.
pub(crate) struct DirectTransaction {
    connection: Option<Connection>,
    home: Arc<DirectConnection>,
}

impl DirectConnection {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::new(None),
            renew: AtomicBool::new(false),
            texts: Mutex::default(),
        }
    }

    /// Begins a write transaction. Only one may be open at a time, under the write lock.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<DirectTransaction, StoreError> {
        let idle = self.idle().take();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        connection.execute_batch("begin immediate")?;
        Ok(DirectTransaction { connection: Some(connection), home: Arc::clone(self) })
    }

    /// Makes the next transaction use a fresh connection.
    pub(crate) fn renew(&self) {
        self.renew.store(true, Ordering::Relaxed);
        self.idle().take();
    }

    /// Closes the connection, if it is idle.
    pub(crate) fn close(&self) {
        self.idle().take();
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.execute_batch(
            "pragma synchronous = full; pragma foreign_keys = on; pragma temp_store = memory",
        )?;
        judge(
            connection.query_row("pragma journal_mode", (), |row| row.get(0))?,
            connection.query_row("pragma synchronous", (), |row| row.get(0))?,
        )?;
        self.renew.store(false, Ordering::Relaxed);
        Ok(connection)
    }

    fn idle(&self) -> MutexGuard<'_, Option<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectTransaction {
    /// Runs a statement and returns the number of rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        let mut statement = self.prepared(&numbered(sql))?;
        bind(&mut statement, values)?;
        let changed = statement.raw_execute()?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    /// Runs a statement and returns all its rows.
    pub(crate) fn rows(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> Result<Vec<SqlRow>, StoreError> {
        let mut rows = Vec::new();
        let mut statement = self.prepared(&numbered(sql))?;
        collect(&mut statement, values, &mut rows)?;
        Ok(rows)
    }

    /// Runs a statement once for each chunk of `at_once` values, and appends the rows of all runs
    /// to `rows`.
    pub(crate) fn rows_over(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        at_once: usize,
        rows: &mut Vec<SqlRow>,
    ) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        let mut statement = self.prepared(sql)?;
        for taken in values.chunks(at_once) {
            collect(&mut statement, taken, rows)?;
        }
        Ok(())
    }

    /// Runs an update once for each chunk of `columns` values. Returns the first value of each
    /// chunk that changed a row.
    pub(crate) fn update_each(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        columns: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut changed = Vec::new();
        let mut statement = self.prepared(sql)?;
        for row in values.chunks(columns) {
            bind(&mut statement, row)?;
            if statement.raw_execute()? > 0
                && let Some(SqlValue::Text(Some(first))) = row.first()
            {
                changed.push(first.clone().into_owned());
            }
        }
        Ok(changed)
    }

    /// The statement text for this key, which `make` creates on first use.
    pub(crate) fn text(
        &self,
        of: (&'static str, usize),
        make: impl FnOnce() -> String,
    ) -> Arc<str> {
        let mut texts = self.home.texts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(texts.entry(of).or_insert_with(|| make().into()))
    }

    /// Commits.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        Ok(self.connection()?.execute_batch("commit")?)
    }

    fn connection(&self) -> Result<&Connection, StoreError> {
        self.connection.as_ref().ok_or(StoreError::Stopped)
    }

    fn prepared(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        Ok(self.connection()?.prepare_cached(sql)?)
    }
}

impl Drop for DirectTransaction {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let is_clean = connection.is_autocommit() || connection.execute_batch("rollback").is_ok();
        if is_clean && !self.home.renew.swap(false, Ordering::Relaxed) {
            self.home.idle().replace(connection);
        }
    }
}

/// SQLite treats `$2` as a name, numbered by its first occurrence; `?2` is always the second
/// parameter.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

fn bind(statement: &mut CachedStatement<'_>, values: &[SqlValue<'_>]) -> Result<(), StoreError> {
    for (place, value) in values.iter().enumerate() {
        match value {
            SqlValue::Text(text) => statement.raw_bind_parameter(place + 1, text.as_deref())?,
            SqlValue::Int(number) => statement.raw_bind_parameter(place + 1, number)?,
            SqlValue::Bytes(bytes) => statement.raw_bind_parameter(place + 1, bytes)?,
            SqlValue::Uuid(uuid) => {
                let bytes = uuid.as_ref().map(|uuid| uuid.as_bytes().as_slice());
                statement.raw_bind_parameter(place + 1, bytes)?;
            }
        }
    }
    Ok(())
}

fn collect(
    statement: &mut CachedStatement<'_>,
    values: &[SqlValue<'_>],
    into: &mut Vec<SqlRow>,
) -> Result<(), StoreError> {
    bind(statement, values)?;
    let mut names: Option<Arc<[String]>> = None;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let columns = names.get_or_insert_with(|| {
            row.as_ref().column_names().into_iter().map(str::to_owned).collect()
        });
        let cells: Result<Vec<_>, _> = (0..columns.len()).map(|place| row.get(place)).collect();
        into.push(SqlRow::Direct(Arc::clone(columns), cells?));
    }
    Ok(())
}
