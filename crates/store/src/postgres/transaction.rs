//! A transaction on PostgreSQL, none of whose statements waits longer than its deadline.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, SqlSafeStr};
use tokio::runtime::Handle;

use super::pool::PooledClient;
use crate::StoreError;

/// How long a statement may take from here: longer than the server lets it run, so that only a server that does not
/// respond at all is given up.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(7);

/// Conditions under which a connection is of no use any more: the server shuts down, or takes no writes (any more).
const LOST_CONNECTION: [&str; 2] = ["57P", "25006"];

/// How long undoing a transaction may take.
const ROLLBACK_DEADLINE: Duration = Duration::from_secs(2);

/// An open transaction. Dropping it undoes its work.
pub(crate) struct PgTransaction {
    /// None only while it is dropped.
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

    /// Statements may take as long as they do.
    pub(crate) fn lift_deadline(&mut self) {
        self.deadline = None;
    }

    /// The connection, for one statement; `leave` must be called with its result.
    pub(crate) fn enter(&mut self) -> Result<(&mut PgConnection, Option<Duration>), StoreError> {
        let client = self.client.as_mut().ok_or(StoreError::Stopped)?;
        client.is_unusable = true;
        Ok((&mut client.connection, self.deadline))
    }

    /// The end of a statement; nothing where it did not come in time.
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
            // What ended this connection has most likely ended those that are idle.
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
    /// Undoes the transaction in a task of its own, so that what it has locked is free before its connection is used again.
    /// Nobody has to wait for that task: a connection on which it does not succeed is closed, which undoes the work, too.
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

/// Closes a connection now, instead of giving it back to the pool, which would notice when it is needed next.
fn close(client: PooledClient) {
    drop(PooledClient::take(client));
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
