//! Idempotency: the first response to a request with an `Idempotency-Key`. The metering writes the
//! rows of calls, in the transactions of the hold and of its settlement. The row of an export is
//! written in the transaction that creates it.

use domain::id::{CallId, CustomerId};
use domain::time::Timestamp;

use crate::sql::{SqlRow, hex};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// An `Idempotency-Key` and the request it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// SHA-256 of the key as sent.
    pub key_hash: [u8; 32],
    /// SHA-256 of everything that identifies the request.
    pub fingerprint: [u8; 32],
    /// SHA-256 of who the account is on its platform, for requests that concern one: the response
    /// of another creator under the same name is never repeated.
    pub identity: Option<[u8; 32]>,
    /// Until when its response is kept.
    pub expires_at: Timestamp,
}

/// A response kept for repetitions.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The status code.
    pub status: u16,
    /// The sealed headers and body.
    pub sealed: Vec<u8>,
}

impl std::fmt::Debug for StoredAnswer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "StoredAnswer({}, {} bytes)", self.status, self.sealed.len())
    }
}

/// What is known about an earlier request with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingRequest {
    /// It completed; return this response again.
    Replay(StoredAnswer),
    /// It is still running.
    Running,
    /// The platform may have acted on it, but its response is unknown.
    OutcomeUnknown {
        /// The call's id in the call log.
        call: CallId,
    },
    /// It completed, but the response was too large to keep.
    NotStored {
        /// The call's id in the call log.
        call: CallId,
    },
    /// The key was used for a different request.
    OtherRequest,
}

/// What is known about the key; none if it is free. `fingerprint` is that of the current request.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    key_hash: &[u8; 32],
    fingerprint: &[u8; 32],
    now: Timestamp,
) -> Result<Option<ExistingRequest>, StoreError> {
    let mut tx = store.read().await?;
    let (key_hash, fingerprint) = (&hex(key_hash), &hex(fingerprint));
    let wanted = WantedRequest { key_hash, fingerprint, identity: None };
    find_in(&mut tx, customer, wanted, now).await
}

/// Deletes expired responses, at most `limit`, and returns how many.
pub async fn delete_expired(store: &Store, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from idempotency where (customer_id, key_hash) in (
            select customer_id, key_hash from idempotency
            where expires_at <= $1 and answer_state <> 'running'
            order by expires_at limit $2
        )";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[now.into(), limit.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// The hashes of a request, as stored.
#[derive(Clone, Copy)]
pub(crate) struct WantedRequest<'a> {
    pub(crate) key_hash: &'a str,
    pub(crate) fingerprint: &'a str,
    pub(crate) identity: Option<&'a str>,
}

/// Like `find`, within a transaction.
pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
    wanted: WantedRequest<'_>,
    now: Timestamp,
) -> Result<Option<ExistingRequest>, StoreError> {
    const SQL: &str = "
        select fingerprint, identity, call_id, answer_state, status, answer
        from idempotency
        where customer_id = $1 and key_hash = $2
          and (expires_at > $3 or answer_state = 'running')";
    let row = tx.row(SQL, &[customer.into(), wanted.key_hash.into(), now.into()]).await?;
    row.map(|row| existing(&row, wanted)).transpose()
}

/// A request that is complete, and what is kept of it.
pub(crate) struct CompletedRequest<'a> {
    /// What the request created.
    pub(crate) id: &'a str,
    pub(crate) answer: &'a StoredAnswer,
    pub(crate) now: Timestamp,
}

/// Writes the row of a request that completes in this transaction, replacing an expired one. The
/// caller has locked the customer's balance and found the key free.
pub(crate) async fn store_in(
    tx: &mut Tx,
    customer: CustomerId,
    claim: &IdempotencyClaim,
    CompletedRequest { id, answer, now }: CompletedRequest<'_>,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into idempotency
            (customer_id, key_hash, fingerprint, call_id, answer_state, status, answer, created_at,
             expires_at, identity)
        values ($1, $2, $3, $4, 'stored', $5, $6, $7, $8, $9)
        on conflict (customer_id, key_hash) do update set
            fingerprint = excluded.fingerprint, identity = excluded.identity, call_id = excluded.call_id, answer_state = 'stored',
            status = excluded.status, answer = excluded.answer, created_at = excluded.created_at,
            expires_at = excluded.expires_at";
    let identity = claim.identity.map(|identity| hex(&identity));
    let values = [
        customer.into(),
        hex(&claim.key_hash).into(),
        hex(&claim.fingerprint).into(),
        id.into(),
        i64::from(answer.status).into(),
        answer.sealed.as_slice().into(),
        now.into(),
        claim.expires_at.into(),
        identity.as_deref().into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

fn existing(row: &SqlRow, wanted: WantedRequest<'_>) -> Result<ExistingRequest, StoreError> {
    // Rows of earlier versions name nobody.
    let identity = row.optional_text("identity")?;
    let is_other =
        identity.as_deref().zip(wanted.identity).is_some_and(|(known, own)| known != own);
    if is_other || row.text("fingerprint")? != wanted.fingerprint {
        return Ok(ExistingRequest::OtherRequest);
    }
    let id = row.text("call_id")?;
    // Only calls can be running, or end without a stored response.
    let call = || id.parse::<CallId>().map_err(|_| StoreError::corrupt("idempotency", &id));
    let corrupt = || StoreError::corrupt("idempotency", &id);
    match row.text("answer_state")?.as_str() {
        "running" => Ok(ExistingRequest::Running),
        "not_stored" => Ok(ExistingRequest::NotStored { call: call()? }),
        "outcome_unknown" => Ok(ExistingRequest::OutcomeUnknown { call: call()? }),
        "stored" => Ok(ExistingRequest::Replay(StoredAnswer {
            status: row.status("status")?.ok_or_else(corrupt)?,
            sealed: row.optional_bytes("answer")?.ok_or_else(corrupt)?,
        })),
        _ => Err(corrupt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const NOON: Timestamp = Timestamp::from_unix_micros(1_800_000_000_000_000);

    #[tokio::test]
    async fn a_hundred_thousand_expired_responses_are_deleted_in_bounded_steps_on_sqlite() {
        let store = testing::sqlite().await;
        deletes_in_bounded_steps(&store).await;
    }

    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn a_hundred_thousand_expired_responses_are_deleted_in_bounded_steps_on_postgresql() {
        let store = testing::postgres().await;
        deletes_in_bounded_steps(&store).await;
    }

    /// More rows than 1,600 writes per second create in a minute. Each step is bounded, and a
    /// hundred steps delete all.
    async fn deletes_in_bounded_steps(store: &Store) {
        const MANY: &str = "
            with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000)
            insert into idempotency
                (customer_id, key_hash, fingerprint, call_id, answer_state, status, created_at, expires_at)
            select 'cus', cast(i as text), 'f', 'call', 'stored', 200, 0, $1 from n";
        let mut tx = store.write().await.unwrap();
        tx.execute(MANY, &[NOON.into()]).await.unwrap();
        tx.commit().await.unwrap();

        assert_eq!(delete_expired(store, NOON.plus_seconds(-1), 1_000).await.unwrap(), 0);
        for _ in 0..100 {
            assert_eq!(delete_expired(store, NOON, 1_000).await.unwrap(), 1_000);
        }
        assert_eq!(delete_expired(store, NOON, 1_000).await.unwrap(), 0);
    }
}
