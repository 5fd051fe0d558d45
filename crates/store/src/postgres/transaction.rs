//! A transaction on PostgreSQL, none of whose statements waits longer than its deadline.

use std::task::{Context, Waker};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::pool::Pooled;
use crate::StoreError;

/// How long a statement may take from here: longer than the server lets it run, so that only a server that does not
/// respond at all is given up.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(7);

/// Conditions under which a connection is of no use any more: the server shuts down, or takes no writes (any more).
const LOST_CONNECTION: [&str; 2] = ["57P", "25006"];

/// An open transaction. Dropping it undoes its work.
pub(crate) struct PgTransaction {
    client: Pooled,
    deadline: Option<Duration>,
}

impl PgTransaction {
    pub(super) async fn begin(client: Pooled, statement: &'static str) -> Result<Self, StoreError> {
        let mut transaction = Self { client, deadline: Some(STATEMENT_DEADLINE) };
        transaction.client.is_in_transaction = true;
        transaction.run_text(statement).await?;
        Ok(transaction)
    }

    /// Statements may take as long as they do.
    pub(crate) fn lift_deadline(&mut self) {
        self.deadline = None;
    }

    /// The connection, for one statement: its end is told with `leave`.
    pub(crate) fn enter(&mut self) -> (&mut PgConnection, Option<Duration>) {
        self.client.is_unusable = true;
        (&mut self.client.connection, self.deadline)
    }

    /// The end of a statement; nothing where it did not come in time.
    pub(crate) fn leave<T>(
        &mut self,
        done: Option<Result<T, sqlx::Error>>,
    ) -> Result<T, StoreError> {
        let Some(done) = done else {
            self.client.hosts.distrust();
            let waited = self.deadline.unwrap_or_default();
            return Err(StoreError::Deadline { doing: "waiting for a statement", waited });
        };
        self.client.is_unusable = done.as_ref().is_err_and(is_lost);
        done.map_err(StoreError::from)
    }

    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.run_text("commit").await?;
        self.client.is_in_transaction = false;
        Ok(())
    }

    async fn run_text(&mut self, text: &'static str) -> Result<(), StoreError> {
        let (connection, deadline) = self.enter();
        let statement = sqlx::raw_sql(AssertSqlSafe(text).into_sql_str());
        let done = within(deadline, statement.execute(connection)).await;
        self.leave(done).map(drop)
    }
}

impl Drop for PgTransaction {
    /// Sends the rollback without waiting for its end, so that what the transaction has locked is free before the connection
    /// is used again. Its next statement waits for that end.
    fn drop(&mut self) {
        let client = &mut *self.client;
        if !client.is_in_transaction || client.is_unusable {
            return;
        }
        client.is_in_transaction = false;
        let rollback = std::pin::pin!(sqlx::raw_sql("rollback").execute(&mut client.connection));
        let mut context = Context::from_waker(Waker::noop());
        // One poll writes the statement; it ends when the server has responded.
        let _ = rollback.poll(&mut context).is_ready();
    }
}

/// Waits for as long as may be waited.
pub(crate) async fn within<T>(
    deadline: Option<Duration>,
    work: impl Future<Output = T>,
) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| LOST_CONNECTION.iter().any(|lost| code.starts_with(lost))),
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}
