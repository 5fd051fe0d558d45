//! Notices tell other nodes what to drop from their caches, with the commit that changed it.
//! PostgreSQL only.
//!
//! A notice makes a change take effect immediately. Nothing depends on it, because every hold
//! checks its key and account again. It is never part of a metering transaction.

use std::io::ErrorKind;
use std::time::Duration;

use domain::account::CreatorId;
use domain::id::CustomerId;
use sqlx::Executor as _;
use sqlx::postgres::PgListener;

use crate::options::DatabaseKind;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// How often a silent connection is tested.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How long the server may take to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(6);

const CHANNEL: &str = "creator_gateway";
const KEYS: &str = "keys";
const PLATFORMS: &str = "platforms";

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeNotice {
    /// A key was changed, rotated or revoked, or its customer closed.
    Keys {
        /// The customer; none in notices of older versions.
        customer: Option<CustomerId>,
    },
    /// An account was connected, changed or deleted.
    Account {
        /// The customer who owns it.
        customer: CustomerId,
        /// The account.
        creator: CreatorId,
    },
    /// A platform began to refuse all credentials, or accepts them again.
    Platforms,
    /// Notices may have been missed: anything may have changed.
    Missed,
}

/// Receives the notices of other nodes.
#[derive(Debug)]
pub struct NoticeListener(PgListener);

/// Starts to listen; none on SQLite, which has no other nodes.
pub async fn listen(store: &Store) -> Result<Option<NoticeListener>, StoreError> {
    let Some(postgres) = store.postgres() else { return Ok(None) };
    let mut listener = in_time(postgres.listener()).await?;
    in_time(async { Ok(listener.listen(CHANNEL).await?) }).await?;
    Ok(Some(NoticeListener(listener)))
}

impl NoticeListener {
    /// Waits for the next notice. A lost connection is an error, even if it was lost silently:
    /// listen again, and treat notices sent meanwhile as missed.
    pub async fn next(&mut self) -> Result<ChangeNotice, StoreError> {
        loop {
            match tokio::time::timeout(CHECK_EVERY, self.0.try_recv()).await {
                Ok(Ok(Some(heard))) => return Ok(read(heard.payload())),
                Ok(Ok(None)) => {
                    return Err(sqlx::Error::Io(ErrorKind::ConnectionReset.into()).into());
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => in_time(async { Ok(self.0.execute("select 1").await?) }).await?,
            };
        }
    }
}

/// Waits for the server, for at most `RESPONSE_TIMEOUT`.
async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = StoreError::Deadline { doing: "listening for notices", waited: RESPONSE_TIMEOUT };
    tokio::time::timeout(RESPONSE_TIMEOUT, work).await.unwrap_or(Err(late))
}

/// Notifies the other nodes that keys have changed, when the transaction commits.
pub(crate) async fn tell_keys(tx: &mut Tx, customer: CustomerId) -> Result<(), StoreError> {
    tell(tx, &format!("{KEYS} {customer}")).await
}

/// Notifies the other nodes that a platform's health has changed, when the transaction commits.
/// Versions that do not know this notice drop all they have cached.
pub(crate) async fn tell_platforms(tx: &mut Tx) -> Result<(), StoreError> {
    tell(tx, PLATFORMS).await
}

/// Notifies the other nodes that an account has changed, when the transaction commits.
pub(crate) async fn tell_account(
    tx: &mut Tx,
    customer: CustomerId,
    creator: &CreatorId,
) -> Result<(), StoreError> {
    tell(tx, &format!("{customer} {}", creator.as_str())).await
}

async fn tell(tx: &mut Tx, payload: &str) -> Result<(), StoreError> {
    const SQL: &str = "select cast(pg_notify($1, $2) as text)";
    if tx.database() == DatabaseKind::Postgres {
        tx.rows(SQL, &[CHANNEL.into(), payload.into()]).await?;
    }
    Ok(())
}

/// Parses a notice. One that this version does not understand counts as missed.
fn read(payload: &str) -> ChangeNotice {
    if payload == KEYS {
        return ChangeNotice::Keys { customer: None };
    }
    if payload == PLATFORMS {
        return ChangeNotice::Platforms;
    }
    let parts = payload.split_once(' ');
    if let Some((KEYS, customer)) = parts {
        let keys = customer.parse().map(|customer| ChangeNotice::Keys { customer: Some(customer) });
        return keys.unwrap_or(ChangeNotice::Missed);
    }
    let account = parts.and_then(|(customer, creator)| {
        Some(ChangeNotice::Account {
            customer: customer.parse().ok()?,
            creator: creator.parse().ok()?,
        })
    });
    account.unwrap_or(ChangeNotice::Missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_notices_count_as_missed() {
        let customer = CustomerId::new(domain::time::Timestamp::from_unix_micros(0), [1; 10]);
        let creator: CreatorId = "ada".parse().unwrap();

        assert_eq!(read("keys"), ChangeNotice::Keys { customer: None });
        let of_one = ChangeNotice::Keys { customer: Some(customer) };
        assert_eq!(read(&format!("keys {customer}")), of_one);
        assert_eq!(read(&format!("{customer} ada")), ChangeNotice::Account { customer, creator });
        for other in ["", "keys nobody", "something new", "something"] {
            assert_eq!(read(other), ChangeNotice::Missed, "{other}");
        }
    }
}
