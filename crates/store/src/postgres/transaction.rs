//! A transaction on PostgreSQL, with a deadline for each statement.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, SqlSafeStr};
use tokio::runtime::Handle;

use super::pool::PooledClient;
use crate::StoreError;

/// Client-side deadline for a statement: longer than the server's own limit, so that it only
/// expires on a server that does not respond at all.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(7);

/// SQLSTATEs after which a connection is useless: the server is shutting down, or no longer accepts
/// writes.
const LOST_CONNECTION: [&str; 2] = ["57P", "25006"];

/// How long a rollback may take.
const ROLLBACK_DEADLINE: Duration = Duration::from_secs(2);

/// An open transaction. Dropping it rolls it back.
pub(crate) struct PgTransaction {
    /// `None` only while it is being dropped.
    client: Option<PooledClient>,
    deadline: Option<Duration>,
}

impl PgTransaction {
    pub(super) async fn begin(
        mut client: PooledClient,
        statement: &'static str,
    ) -> Result<Self, StoreError> {
        client.is_in_transaction = true;
        let mut transaction = Self { client: Some(client), deadline: Some(STATEMENT_DEADLINE) };
        transaction.run_text(statement).await?;
        Ok(transaction)
    }

    /// Removes the deadline of statements.
    pub(crate) fn lift_deadline(&mut self) {
        self.deadline = None;
    }

    /// The connection, for one statement; `leave` must be called with its result.
    pub(crate) fn enter(&mut self) -> Result<(&mut PgConnection, Option<Duration>), StoreError> {
        let client = self.client.as_mut().ok_or(StoreError::Stopped)?;
        client.is_unusable = true;
        Ok((&mut client.connection, self.deadline))
    }

    /// Records the end of a statement. `done` is `None` if the deadline passed.
    pub(crate) fn leave<T>(
        &mut self,
        done: Option<Result<T, sqlx::Error>>,
    ) -> Result<T, StoreError> {
        let client = self.client.as_mut().ok_or(StoreError::Stopped)?;
        let Some(done) = done else {
            client.hosts.distrust();
            let waited = self.deadline.unwrap_or_default();
            return Err(StoreError::Deadline { doing: "waiting for a statement", waited });
        };
        client.is_unusable = done.as_ref().is_err_and(is_lost);
        if client.is_unusable {
            // Whatever broke this connection has probably broken the idle ones, too.
            client.hosts.distrust();
        }
        done.map_err(StoreError::from)
    }

    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.run_text("commit").await?;
        if let Some(client) = self.client.as_mut() {
            client.is_in_transaction = false;
        }
        Ok(())
    }

    async fn run_text(&mut self, text: &'static str) -> Result<(), StoreError> {
        let (connection, deadline) = self.enter()?;
        let statement = sqlx::raw_sql(AssertSqlSafe(text).into_sql_str());
        let done = within(deadline, statement.execute(connection)).await;
        self.leave(done).map(drop)
    }
}

impl Drop for PgTransaction {
    /// Rolls back in a separate task, so that its locks are released before the connection is used
    /// again. The caller does not wait for it. If the rollback fails, the connection is closed,
    /// which also undoes the work.
    fn drop(&mut self) {
        let Some(mut client) = self.client.take() else { return };
        if client.is_unusable {
            return close(client);
        }
        if !client.is_in_transaction {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return close(client) };
        runtime.spawn(async move {
            let rollback = sqlx::raw_sql("rollback").execute(&mut client.connection);
            match tokio::time::timeout(ROLLBACK_DEADLINE, rollback).await {
                Ok(Ok(_)) => client.is_in_transaction = false,
                Ok(Err(_)) | Err(_) => close(client),
            }
        });
    }
}

/// Closes a connection instead of returning it to the pool, which would only notice at its next
/// use.
fn close(client: PooledClient) {
    drop(PooledClient::take(client));
}

/// Runs `work` until the deadline, if there is one.
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
