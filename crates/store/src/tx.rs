//! An open transaction. It never leaves this crate and waits only for SQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::id::CustomerId;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Postgres, Row as _, SqlSafeStr, Sqlite, Transaction};
use tokio::sync::OwnedMutexGuard;

use crate::StoreError;
use crate::balance_cache::{BalanceCache, CommitChanges};
use crate::dialect;
use crate::direct::DirectTransaction;
use crate::disk::DiskSpace;
use crate::options::DatabaseKind;
use crate::postgres::{self, PgTransaction};
use crate::sql::{SqlKind, SqlRow, SqlValue};
use crate::statement_batch::{self, BatchedStatement, RowSource, StatementBatch};

/// How many rows one statement on the metering's SQLite connection takes, if there are that many.
const ROWS_AT_ONCE: usize = 8;

/// An open transaction. Dropping it rolls it back.
pub(crate) struct Tx {
    connection: TxConnection,
    /// Changes to publish to the balance cache after the commit.
    changes: CommitChanges,
}

enum TxConnection {
    /// SQLite through sqlx: readers, and all writers except the metering.
    Sqlite {
        transaction: Transaction<'static, Sqlite>,
        /// None for readers. Declared after the transaction, so that it is released last.
        write_lock: Option<WriteLock>,
    },
    Postgres(PgTransaction),
    /// SQLite on the metering's own connection. The lock is declared last, so that it is released
    /// last.
    Direct {
        transaction: DirectTransaction,
        write_lock: WriteLock,
    },
}

/// The exclusive right to write to SQLite, with the balance cache to update after the commit.
pub(crate) struct WriteLock {
    pub(crate) balance_cache: BalanceCache,
    pub(crate) guard: OwnedMutexGuard<()>,
    /// Counts the commits of all writers except the metering.
    pub(crate) other_commits: Arc<AtomicU64>,
    pub(crate) disk: DiskSpace,
}

/// Runs one statement on the transaction's database.
macro_rules! run {
    ($tx:expr, $sql:expr, $bind:expr, |$query:ident, $connection:ident, $row:ident| $run:expr,
     |$direct:ident, $text:ident| $run_directly:expr) => {
        match &mut $tx.connection {
            TxConnection::Sqlite { transaction, .. } => {
                let mut $query = sqlx::query::<Sqlite>($sql);
                bind!($query, $bind);
                let $connection = &mut **transaction;
                let $row = SqlRow::Sqlite;
                $run
            }
            TxConnection::Postgres(transaction) => {
                let mut $query = sqlx::query::<Postgres>($sql);
                bind!($query, $bind);
                let $row = SqlRow::Postgres;
                let ($connection, deadline) = transaction.enter()?;
                let done = postgres::within(deadline, async { Ok::<_, sqlx::Error>($run) }).await;
                transaction.leave(done)?
            }
            TxConnection::Direct { transaction: $direct, .. } => {
                let text = $sql.into_sql_str();
                let $text = text.as_str();
                $run_directly
            }
        }
    };
}

/// Binds a statement's values, in order.
macro_rules! bind {
    ($query:ident, $values:expr) => {
        for value in $values {
            $query = match value {
                SqlValue::Text(text) => $query.bind(text.as_deref()),
                SqlValue::Int(number) => $query.bind(*number),
                SqlValue::Bytes(bytes) => $query.bind(*bytes),
                SqlValue::Uuid(uuid) => $query.bind(*uuid),
            };
        }
    };
}

impl Tx {
    pub(crate) fn sqlite(
        transaction: Transaction<'static, Sqlite>,
        write_lock: Option<WriteLock>,
    ) -> Self {
        Self {
            connection: TxConnection::Sqlite { transaction, write_lock },
            changes: CommitChanges::default(),
        }
    }

    pub(crate) fn direct(transaction: DirectTransaction, write_lock: WriteLock) -> Self {
        let connection = TxConnection::Direct { transaction, write_lock };
        Self { connection, changes: CommitChanges::default() }
    }

    pub(crate) fn postgres(transaction: PgTransaction) -> Self {
        Self { connection: TxConnection::Postgres(transaction), changes: CommitChanges::default() }
    }

    pub(crate) fn database(&self) -> DatabaseKind {
        match self.connection {
            TxConnection::Sqlite { .. } | TxConnection::Direct { .. } => DatabaseKind::Sqlite,
            TxConnection::Postgres(_) => DatabaseKind::Postgres,
        }
    }

    /// The number of commits by writers other than the metering, on SQLite, where this process
    /// makes all commits. While it is unchanged, what the metering has read is still current.
    pub(crate) fn other_commits(&self) -> Option<u64> {
        match &self.connection {
            TxConnection::Sqlite { write_lock, .. } => write_lock
                .as_ref()
                .map(|write_lock| write_lock.other_commits.load(Ordering::Relaxed)),
            TxConnection::Direct { write_lock, .. } => {
                Some(write_lock.other_commits.load(Ordering::Relaxed))
            }
            TxConnection::Postgres(_) => None,
        }
    }

    /// Runs a statement and returns the number of rows it changed.
    pub(crate) async fn execute(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[SqlValue<'_>],
    ) -> Result<u64, StoreError> {
        Ok(run!(
            self,
            sql,
            values,
            |query, connection, _row| query.execute(connection).await?.rows_affected(),
            |direct, text| direct.execute(text, values)?
        ))
    }

    /// Runs a statement and returns its first row.
    pub(crate) async fn row(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[SqlValue<'_>],
    ) -> Result<Option<SqlRow>, StoreError> {
        Ok(run!(
            self,
            sql,
            values,
            |query, connection, row| query.fetch_optional(connection).await?.map(row),
            |direct, text| direct.rows(text, values)?.into_iter().next()
        ))
    }

    /// Runs a statement and returns all its rows.
    pub(crate) async fn rows(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[SqlValue<'_>],
    ) -> Result<Vec<SqlRow>, StoreError> {
        Ok(run!(
            self,
            sql,
            values,
            |query, connection, row| query
                .fetch_all(connection)
                .await?
                .into_iter()
                .map(row)
                .collect(),
            |direct, text| direct.rows(text, values)?
        ))
    }

    /// Runs a statement over the rows of `table`. In its text, `{rows}` stands for those rows and
    /// `{lock}` for the clause that locks the selected rows.
    pub(crate) async fn rows_over(
        &mut self,
        sql: &'static str,
        table: RowTable<'_>,
    ) -> Result<Vec<SqlRow>, StoreError> {
        if table.is_empty() {
            return Ok(Vec::new());
        }
        let database = self.database();
        let text_for = |rows| {
            sql.replacen("{rows}", &dialect::rows_source(database, table.kinds, rows), 1)
                .replacen("{after}", &statement_batch::after(None), 1)
                .replacen("{lock}", dialect::for_update(database), 1)
        };
        let values = &table.values;
        match &mut self.connection {
            TxConnection::Sqlite { transaction, .. } => {
                fetch_sqlite(transaction, text_for(table.rows), values).await
            }
            TxConnection::Postgres(transaction) => {
                fetch_postgres(transaction, text_for(table.rows), table.kinds, values).await
            }
            // A few rows at a time, so that there are only two statements for any number of rows.
            TxConnection::Direct { transaction, .. } => {
                let columns = table.kinds.len();
                let in_groups = table.rows / ROWS_AT_ONCE * ROWS_AT_ONCE * columns;
                let (groups, single) = values.split_at(in_groups);
                let mut rows = Vec::new();
                for (some, count) in [(groups, ROWS_AT_ONCE), (single, 1)] {
                    let text =
                        transaction.text((sql, count), || dialect::undoing_all(&text_for(count)));
                    transaction.rows_over(&text, some, count * columns, &mut rows)?;
                }
                Ok(rows)
            }
        }
    }

    /// Runs an update over rows (see `dialect::update_over`) and returns the first column of the
    /// rows it changed. That column must be indexed: on the metering's SQLite connection each row
    /// is a separate update.
    pub(crate) async fn update_over(
        &mut self,
        sql: &'static str,
        columns: &'static [(&'static str, SqlKind)],
        values: &[SqlValue<'_>],
    ) -> Result<Vec<String>, StoreError> {
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let Some((first, _)) = columns.first() else { return Ok(Vec::new()) };
        let count = values.len() / columns.len();
        let text = |database| dialect::update_over(database, sql, columns, count);
        let changed = match &mut self.connection {
            TxConnection::Sqlite { transaction, .. } => {
                fetch_sqlite(transaction, text(DatabaseKind::Sqlite), values).await?
            }
            TxConnection::Postgres(transaction) => {
                let kinds: Vec<SqlKind> = columns.iter().map(|(_, kind)| *kind).collect();
                fetch_postgres(transaction, text(DatabaseKind::Postgres), &kinds, values).await?
            }
            TxConnection::Direct { transaction, .. } => {
                let each = transaction
                    .text((sql, 1), || dialect::undoing_all(&dialect::update_each(sql, columns)));
                return transaction.update_each(&each, values, columns.len());
            }
        };
        changed.iter().map(|row: &SqlRow| row.text(first)).collect()
    }

    /// Runs statements that do not depend on each other's results. Returns the rows of each, in
    /// order.
    pub(crate) async fn together<const N: usize>(
        &mut self,
        statements: [BatchedStatement<'_>; N],
    ) -> Result<[Vec<SqlRow>; N], StoreError> {
        let mut given = [const { Vec::new() }; N];
        if let TxConnection::Postgres(transaction) = &mut self.connection {
            fetch_together(transaction, &statements, &mut given).await?;
            return Ok(given);
        }
        for (statement, rows) in statements.into_iter().zip(&mut given) {
            *rows = match statement.over {
                RowSource::Rows(kinds) => {
                    self.rows_over(statement.sql, RowTable::from_parts(kinds, statement.values))
                        .await?
                }
                RowSource::Update(columns) => {
                    let changed =
                        self.update_over(statement.sql, columns, &statement.values).await?;
                    let names: Arc<[String]> =
                        columns.iter().take(1).map(|(name, _)| (*name).to_owned()).collect();
                    let values = changed.into_iter().map(|text| vec![text.into()]);
                    values.map(|row| SqlRow::Direct(Arc::clone(&names), row)).collect()
                }
            };
        }
        Ok(given)
    }

    /// Removes the time limits on statements, for reading whole tables.
    pub(crate) async fn lift_limits(&mut self) -> Result<(), StoreError> {
        const UNLIMITED: [&str; 2] = [
            "set local statement_timeout = 0",
            // Processing rows between statements takes time, too.
            "set local idle_in_transaction_session_timeout = 0",
        ];
        if let TxConnection::Postgres(transaction) = &mut self.connection {
            transaction.lift_deadline();
            for statement in UNLIMITED {
                self.execute(statement, &[]).await?;
            }
        }
        Ok(())
    }

    /// Records the balance a customer will have available once this transaction is committed.
    pub(crate) fn note_balance(&mut self, customer: CustomerId, available: i64) {
        self.changes.balances.push((customer, available));
    }

    /// Records that a reservation of `cost` ends when this transaction is committed.
    pub(crate) fn note_release(&mut self, customer: CustomerId, cost: i64) {
        self.changes.releases.push((customer, cost));
    }

    /// Commits, then updates the balance cache while the write lock is still held.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        match self.connection {
            TxConnection::Sqlite { transaction, write_lock } => {
                let Some(write_lock) = write_lock else {
                    return Ok(transaction.commit().await?);
                };
                // The metering writer's cache may be out of date after this commit.
                write_lock.other_commits.fetch_add(1, Ordering::Relaxed);
                let publication = write_lock.balance_cache.publication(self.changes);
                if let Err(error) = transaction.commit().await {
                    let error = StoreError::from(error);
                    write_lock.disk.note(&error);
                    return Err(error);
                }
                publication.publish();
                drop(write_lock.guard);
                Ok(())
            }
            TxConnection::Direct { transaction, write_lock } => {
                let publication = write_lock.balance_cache.publication(self.changes);
                transaction.commit().inspect_err(|error| write_lock.disk.note(error))?;
                publication.publish();
                drop(write_lock.guard);
                Ok(())
            }
            TxConnection::Postgres(transaction) => transaction.commit().await,
        }
    }
}

/// Rows for a statement over many rows.
pub(crate) struct RowTable<'a> {
    kinds: &'static [SqlKind],
    /// Row by row.
    values: Vec<SqlValue<'a>>,
    rows: usize,
}

impl<'a> RowTable<'a> {
    pub(crate) fn new(kinds: &'static [SqlKind]) -> Self {
        Self { kinds, values: Vec::new(), rows: 0 }
    }

    /// Adds a row with one value for each column.
    pub(crate) fn push<const N: usize>(&mut self, row: [SqlValue<'a>; N]) {
        debug_assert_eq!(N, self.kinds.len(), "a row has a value for each column");
        self.values.extend(row);
        self.rows += 1;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The column types, and the values row by row.
    pub(crate) fn into_parts(self) -> (&'static [SqlKind], Vec<SqlValue<'a>>) {
        (self.kinds, self.values)
    }

    /// A table made of these parts.
    pub(crate) fn from_parts(kinds: &'static [SqlKind], values: Vec<SqlValue<'a>>) -> Self {
        let rows = values.len().checked_div(kinds.len()).unwrap_or(0);
        Self { kinds, values, rows }
    }
}

async fn fetch_sqlite(
    transaction: &mut Transaction<'static, Sqlite>,
    text: String,
    values: &[SqlValue<'_>],
) -> Result<Vec<SqlRow>, StoreError> {
    let mut query = sqlx::query::<Sqlite>(AssertSqlSafe(text));
    bind!(query, values);
    Ok(query.fetch_all(&mut **transaction).await?.into_iter().map(SqlRow::Sqlite).collect())
}

/// Sends each column as one array. A value of another type than its column's becomes null.
async fn fetch_postgres(
    transaction: &mut PgTransaction,
    text: String,
    kinds: &[SqlKind],
    values: &[SqlValue<'_>],
) -> Result<Vec<SqlRow>, StoreError> {
    let query = bind_columns(sqlx::query::<Postgres>(AssertSqlSafe(text)), kinds, values);
    Ok(fetch(transaction, query).await?.into_iter().map(SqlRow::Postgres).collect())
}

/// Fetches all rows of a query, within the transaction's deadline.
async fn fetch(
    transaction: &mut PgTransaction,
    query: PostgresQuery<'_>,
) -> Result<Vec<PgRow>, StoreError> {
    let (connection, deadline) = transaction.enter()?;
    let done = postgres::within(deadline, query.fetch_all(connection)).await;
    transaction.leave(done)
}

type PostgresQuery<'q> = sqlx::query::Query<'q, Postgres, <Postgres as sqlx::Database>::Arguments>;

fn bind_columns<'q>(
    mut query: PostgresQuery<'q>,
    kinds: &[SqlKind],
    values: &'q [SqlValue<'_>],
) -> PostgresQuery<'q> {
    for (place, kind) in kinds.iter().enumerate() {
        let column = values.iter().skip(place).step_by(kinds.len());
        query = match kind {
            SqlKind::Text => query.bind(column.map(SqlValue::as_text).collect::<Vec<_>>()),
            SqlKind::Int => query.bind(column.map(SqlValue::as_int).collect::<Vec<_>>()),
            SqlKind::Bytes => query.bind(column.map(SqlValue::as_bytes).collect::<Vec<_>>()),
            SqlKind::Uuid => query.bind(column.map(SqlValue::as_uuid).collect::<Vec<_>>()),
        };
    }
    query
}

/// Runs several statements as one. Statements without rows are skipped.
async fn fetch_together(
    transaction: &mut PgTransaction,
    statements: &[BatchedStatement<'_>],
    rows: &mut [Vec<SqlRow>],
) -> Result<(), StoreError> {
    let (mut present, mut given): (Vec<&BatchedStatement<'_>>, Vec<&mut Vec<SqlRow>>) =
        statements.iter().zip(rows).filter(|(statement, _)| !statement.values.is_empty()).unzip();
    if present.is_empty() {
        return Ok(());
    }
    let StatementBatch { text, columns } = statement_batch::batched(&present);
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(text));
    for statement in present.drain(..) {
        query = bind_columns(query, &statement.kinds(), &statement.values);
    }
    for row in fetch(transaction, query).await? {
        let number: i64 = row.try_get(0)?;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if let (Some(given), Some(columns)) = (given.get_mut(number), columns.get(number)) {
            given.push(SqlRow::Batched(row, Arc::clone(columns)));
        }
    }
    Ok(())
}
