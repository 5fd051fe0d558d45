//! Requests to the service's own routes that came with an `Idempotency-Key`: one of those who send the same request runs
//! it, and the others get its response.
//!
//! A request is claimed before it runs and ended afterwards, by the attempt that holds the claim. The claim is a lease,
//! so that a node that dies does not keep it forever. What a repetition may do then is decided above the store.

use domain::id::{ChangeId, CustomerId, DataKeyId, KeyId, RunId};
use domain::time::Timestamp;

use crate::idempotency::StoredAnswer;
use crate::sql::{SqlRow, SqlValue, hex};
use crate::{Store, StoreError};

/// Whose `Idempotency-Key` it is. Each key of a customer has a space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCaller {
    /// An API key.
    Key(KeyId),
    /// All sessions of the customer together: a new login goes on with what an earlier one asked for.
    Session,
}

/// Which request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestName {
    /// The customer.
    pub customer: CustomerId,
    /// Who sent it.
    pub caller: RequestCaller,
    /// SHA-256 of the `Idempotency-Key`.
    pub key_hash: [u8; 32],
}

/// A request that is about to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRequest<'r> {
    /// Which one.
    pub name: RequestName,
    /// The method and the template of its route.
    pub operation: &'r str,
    /// What it asks for, as a keyed hash.
    pub fingerprint: [u8; 32],
    /// The data key that made the fingerprint and will seal the response.
    pub data_key: DataKeyId,
    /// The attempt that runs it.
    pub run: RunId,
    /// The id that a change of slots or of the plan gets which it makes.
    pub change: ChangeId,
    /// When nobody runs it any more, unless the lease is renewed.
    pub leased_until: Timestamp,
    /// Now.
    pub created_at: Timestamp,
    /// When it is forgotten.
    pub expires_at: Timestamp,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestClaim {
    /// The request may run.
    Claimed,
    /// The key was used before.
    Known(KnownRequest),
    /// The row was removed at the same moment; nothing was claimed.
    Busy,
}

/// An earlier request with the same `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRequest {
    fingerprint: String,
    permissions: Option<String>,
    /// The data key that made its fingerprint and sealed its response.
    pub data_key: DataKeyId,
    /// The attempt that runs it, or ran it last.
    pub run: RunId,
    /// The id of the change that it makes.
    pub change: ChangeId,
    /// Where it stands.
    pub state: RequestState,
}

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// It runs.
    Running {
        /// When its node must have died, unless it renews its lease before.
        leased_until: Timestamp,
    },
    /// It was carried out; the response is to be given again.
    Stored(StoredAnswer),
    /// It was carried out; its response could not be kept.
    NotStored,
    /// Nobody knows whether it was carried out.
    OutcomeUnknown,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd<'r> {
    /// Carried out, with this response.
    Stored {
        /// The response.
        answer: &'r StoredAnswer,
        /// What the caller can do now.
        permissions: [u8; 32],
    },
    /// Carried out, with a response that cannot be kept.
    NotStored,
    /// Nobody knows whether it was carried out.
    OutcomeUnknown,
    /// It is safe to run the same request again; another request still may not use the key.
    RunAgain,
    /// Nothing was carried out: the key is free.
    Freed,
}

impl KnownRequest {
    /// Whether it asked for the same. The fingerprint must be made with the same data key.
    pub fn has_fingerprint(&self, fingerprint: &[u8; 32]) -> bool {
        self.fingerprint == hex(fingerprint)
    }

    /// Whether its caller could do the same when it ended.
    pub fn has_permissions(&self, permissions: &[u8; 32]) -> bool {
        self.permissions.as_ref().is_some_and(|known| *known == hex(permissions))
    }
}

impl std::fmt::Display for RequestCaller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => key.fmt(formatter),
            Self::Session => formatter.write_str("session"),
        }
    }
}

impl RequestName {
    /// The values of the primary key, in its order.
    fn values(&self) -> [SqlValue<'static>; 3] {
        [self.customer.into(), self.caller.to_string().into(), hex(&self.key_hash).into()]
    }
}

/// Claims a request that is about to run, over one whose time is over, or says what is known of the key.
pub async fn claim(store: &Store, new: &NewRequest<'_>) -> Result<RequestClaim, StoreError> {
    const SQL: &str = "
        insert into own_requests
            (customer_id, caller, key_hash, operation, fingerprint, data_key_id, run_id, change_id, state,
             leased_until, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, 'running', $9, $10, $11)
        on conflict (customer_id, caller, key_hash) do update set
            operation = excluded.operation, fingerprint = excluded.fingerprint,
            data_key_id = excluded.data_key_id, run_id = excluded.run_id, change_id = excluded.change_id,
            state = 'running', leased_until = excluded.leased_until, permissions = null, status = null,
            answer = null, created_at = excluded.created_at, expires_at = excluded.expires_at
        where own_requests.expires_at <= excluded.created_at
          and (own_requests.state <> 'running' or own_requests.leased_until <= excluded.created_at)";
    let [customer, caller, key_hash] = new.name.values();
    let values = [
        customer,
        caller,
        key_hash,
        new.operation.into(),
        hex(&new.fingerprint).into(),
        new.data_key.into(),
        new.run.into(),
        new.change.into(),
        new.leased_until.into(),
        new.created_at.into(),
        new.expires_at.into(),
    ];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 1 {
        tx.commit().await?;
        return Ok(RequestClaim::Claimed);
    }
    drop(tx);
    Ok(find(store, &new.name).await?.map_or(RequestClaim::Busy, RequestClaim::Known))
}

/// Takes over a request whose attempt `from` has lost its lease, to run it again. False when somebody else did, or it
/// has ended meanwhile.
pub async fn take_over(
    store: &Store,
    name: &RequestName,
    (from, to): (RunId, RunId),
    (now, leased_until): (Timestamp, Timestamp),
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update own_requests set run_id = $5, leased_until = $7
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4
          and state = 'running' and leased_until <= $6";
    let [customer, caller, key_hash] = name.values();
    let values =
        [customer, caller, key_hash, from.into(), to.into(), now.into(), leased_until.into()];
    change(store, SQL, &values).await
}

/// Keeps the lease of an attempt. False when it has lost it.
pub async fn renew(
    store: &Store,
    name: &RequestName,
    run: RunId,
    leased_until: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update own_requests set leased_until = $5
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4 and state = 'running'";
    let [customer, caller, key_hash] = name.values();
    change(store, SQL, &[customer, caller, key_hash, run.into(), leased_until.into()]).await
}

/// Writes down how an attempt ended. False, and nothing is changed, when another attempt has taken over.
pub async fn end(
    store: &Store,
    name: &RequestName,
    run: RunId,
    end: RequestEnd<'_>,
) -> Result<bool, StoreError> {
    const END: &str = "
        update own_requests set state = $5, permissions = $6, status = $7, answer = $8
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4 and state = 'running'";
    const FREE: &str = "
        delete from own_requests
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4 and state = 'running'";
    let (state, stored) = match end {
        RequestEnd::Stored { answer, permissions } => ("stored", Some((answer, permissions))),
        RequestEnd::NotStored => ("not_stored", None),
        RequestEnd::OutcomeUnknown => ("outcome_unknown", None),
        RequestEnd::RunAgain => {
            return renew(store, name, run, Timestamp::from_unix_micros(0)).await;
        }
        RequestEnd::Freed => {
            let [customer, caller, key_hash] = name.values();
            return change(store, FREE, &[customer, caller, key_hash, run.into()]).await;
        }
    };
    let permissions = stored.map(|(_, permissions)| hex(&permissions));
    let [customer, caller, key_hash] = name.values();
    let values = [
        customer,
        caller,
        key_hash,
        run.into(),
        state.into(),
        permissions.as_deref().into(),
        stored.map(|(answer, _)| i64::from(answer.status)).into(),
        SqlValue::Bytes(stored.map(|(answer, _)| answer.sealed.as_slice())),
    ];
    change(store, END, &values).await
}

/// Forgets requests whose time is over, at most `limit` at once; gives how many. One that runs is kept while its lease
/// lasts.
pub async fn delete_expired(store: &Store, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from own_requests where (customer_id, caller, key_hash) in (
            select customer_id, caller, key_hash from own_requests
            where expires_at <= $1 and (state <> 'running' or leased_until <= $1)
            order by expires_at limit $2
        )";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[now.into(), limit.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

async fn change(
    store: &Store,
    sql: &'static str,
    values: &[SqlValue<'_>],
) -> Result<bool, StoreError> {
    let mut tx = store.write().await?;
    let changed = tx.execute(sql, values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

async fn find(store: &Store, name: &RequestName) -> Result<Option<KnownRequest>, StoreError> {
    const SQL: &str = "
        select fingerprint, permissions, data_key_id, run_id, change_id, state, leased_until, status, answer
        from own_requests where customer_id = $1 and caller = $2 and key_hash = $3";
    let row = store.read().await?.row(SQL, &name.values()).await?;
    row.as_ref().map(known).transpose()
}

fn known(row: &SqlRow) -> Result<KnownRequest, StoreError> {
    const TABLE: &str = "own_requests";
    let run: RunId = row.parse(3, TABLE)?;
    let corrupt = || StoreError::corrupt(TABLE, run);
    let state = match row.text(5)?.as_str() {
        "running" => RequestState::Running { leased_until: row.time(6)? },
        "not_stored" => RequestState::NotStored,
        "outcome_unknown" => RequestState::OutcomeUnknown,
        "stored" => RequestState::Stored(StoredAnswer {
            status: row.status(7)?.ok_or_else(corrupt)?,
            sealed: row.optional_bytes(8)?.ok_or_else(corrupt)?,
        }),
        _ => return Err(corrupt()),
    };
    Ok(KnownRequest {
        fingerprint: row.text(0)?,
        permissions: row.optional_text(1)?,
        data_key: row.parse(2, TABLE)?,
        run,
        change: row.parse(4, TABLE)?,
        state,
    })
}
