//! Requests to the service's own routes with an `Idempotency-Key`: one of several identical
//! requests runs, and the others get its response.
//!
//! A request is claimed before it runs, and ended by the attempt that holds the claim. The claim is
//! a lease, so that a dead node does not keep it forever. Code above the store decides what a
//! repetition may do after that.

use domain::id::{ChangeId, CustomerId, DataKeyId, KeyId, RunId};
use domain::time::Timestamp;

use crate::idempotency::StoredAnswer;
use crate::sql::{SqlRow, SqlValue, hex};
use crate::{Store, StoreError};

/// The owner of an `Idempotency-Key`. Each API key of a customer has a namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCaller {
    /// An API key.
    Key(KeyId),
    /// All sessions of the customer together, so that a new login can repeat an earlier session's
    /// request.
    Session,
}

/// The identity of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestName {
    /// The customer.
    pub customer: CustomerId,
    /// The caller that sent it.
    pub caller: RequestCaller,
    /// SHA-256 of the `Idempotency-Key`.
    pub key_hash: [u8; 32],
}

/// A request about to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRequest<'r> {
    /// Its identity.
    pub name: RequestName,
    /// The method and the template of its route.
    pub operation: &'r str,
    /// A keyed hash of what it asks for.
    pub fingerprint: [u8; 32],
    /// The data key for the fingerprint's hash and for sealing the response.
    pub data_key: DataKeyId,
    /// The attempt that runs it.
    pub run: RunId,
    /// The id for a change of slots or of the plan, if it makes one.
    pub change: ChangeId,
    /// When the lease expires unless it is renewed.
    pub leased_until: Timestamp,
    /// The current time.
    pub created_at: Timestamp,
    /// When it is deleted.
    pub expires_at: Timestamp,
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestClaim {
    /// The request may run.
    Claimed,
    /// The key was used before.
    Known(KnownRequest),
    /// The row was removed concurrently; nothing was claimed.
    Busy,
}

/// An earlier request with the same `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRequest {
    fingerprint: String,
    permissions: Option<String>,
    /// The data key for its fingerprint and its response.
    pub data_key: DataKeyId,
    /// The attempt that is running it, or ran it last.
    pub run: RunId,
    /// The id for the change that it makes.
    pub change: ChangeId,
    /// Its state.
    pub state: RequestState,
}

/// The state of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// It is running.
    Running {
        /// When it may be run again; none while a node has it.
        free_from: Option<Timestamp>,
    },
    /// It was carried out; return this response again.
    Stored(StoredAnswer),
    /// It was carried out; its response could not be kept.
    NotStored,
    /// Whether it was carried out is unknown.
    OutcomeUnknown,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd<'r> {
    /// Carried out, with this response.
    Stored {
        /// The response.
        answer: &'r StoredAnswer,
        /// A hash of what the caller may do now.
        permissions: [u8; 32],
    },
    /// Carried out, with a response that cannot be kept.
    NotStored,
    /// Whether it was carried out is unknown.
    OutcomeUnknown,
    /// The same request may safely run again; the key may not be used for another request.
    RunAgain,
    /// Nothing was carried out: the key is free.
    Freed,
}

impl KnownRequest {
    /// Whether it asked for the same. The fingerprint must be made with the same data key.
    pub fn has_fingerprint(&self, fingerprint: &[u8; 32]) -> bool {
        self.fingerprint == hex(fingerprint)
    }

    /// Whether its caller had the same permissions when it ended.
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
    /// The values of the primary key, in order.
    fn values(&self) -> [SqlValue<'static>; 3] {
        [self.customer.into(), self.caller.to_string().into(), hex(&self.key_hash).into()]
    }
}

/// Claims a request that is about to run, replacing an expired one, or returns what is known about
/// the key.
pub async fn claim(store: &Store, new: &NewRequest<'_>) -> Result<RequestClaim, StoreError> {
    const SQL: &str = "
        insert into own_requests
            (customer_id, caller, key_hash, operation, fingerprint, data_key_id, run_id, change_id, state,
             leased_until, created_at, expires_at, leased_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, 'running', $9, $10, $11, $12)
        on conflict (customer_id, caller, key_hash) do update set
            operation = excluded.operation, fingerprint = excluded.fingerprint,
            data_key_id = excluded.data_key_id, run_id = excluded.run_id, change_id = excluded.change_id,
            state = 'running', leased_until = excluded.leased_until, permissions = null, status = null,
            answer = null, created_at = excluded.created_at, expires_at = excluded.expires_at,
            leased_by = excluded.leased_by
        where own_requests.expires_at <= excluded.created_at
          and (own_requests.state <> 'running'
            or (own_requests.leased_by is null and own_requests.leased_until <= excluded.created_at))";
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
        store.holder().into(),
    ];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 1 {
        tx.commit().await?;
        return Ok(RequestClaim::Claimed);
    }
    drop(tx);
    Ok(find(store, &new.name).await?.map_or(RequestClaim::Busy, RequestClaim::Known))
}

/// How a request goes over from one attempt to another.
#[derive(Debug, Clone, Copy)]
pub struct RequestTakeover {
    /// The attempt that nobody carries out any more.
    pub from: RunId,
    /// The attempt that takes over.
    pub to: RunId,
    /// Now.
    pub now: Timestamp,
    /// Until when the new attempt has the request.
    pub leased_until: Timestamp,
}

/// Takes over a request whose attempt `from` has lost its lease, to run it again. False if another
/// attempt did so first, or it has ended meanwhile.
pub async fn take_over(
    store: &Store,
    name: &RequestName,
    RequestTakeover { from, to, now, leased_until }: RequestTakeover,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update own_requests set run_id = $5, leased_until = $7, leased_by = $8
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4
          and state = 'running' and leased_by is null and leased_until <= $6";
    let [customer, caller, key_hash] = name.values();
    let values = [
        customer,
        caller,
        key_hash,
        from.into(),
        to.into(),
        now.into(),
        leased_until.into(),
        store.holder().into(),
    ];
    change(store, SQL, &values).await
}

/// Renews the lease of an attempt. False if it was lost.
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

/// Records how an attempt ended. False, with nothing changed, if another attempt has taken over.
pub async fn end(
    store: &Store,
    name: &RequestName,
    run: RunId,
    end: RequestEnd<'_>,
) -> Result<bool, StoreError> {
    const END: &str = "
        update own_requests set state = $5, permissions = $6, status = $7, answer = $8, leased_by = null
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4 and state = 'running'";
    const RELEASE: &str = "
        update own_requests set leased_until = 0, leased_by = null
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4 and state = 'running'";
    const FREE: &str = "
        delete from own_requests
        where customer_id = $1 and caller = $2 and key_hash = $3 and run_id = $4 and state = 'running'";
    let (state, stored) = match end {
        RequestEnd::Stored { answer, permissions } => ("stored", Some((answer, permissions))),
        RequestEnd::NotStored => ("not_stored", None),
        RequestEnd::OutcomeUnknown => ("outcome_unknown", None),
        RequestEnd::RunAgain | RequestEnd::Freed => {
            let [customer, caller, key_hash] = name.values();
            let sql = if matches!(end, RequestEnd::Freed) { FREE } else { RELEASE };
            return change(store, sql, &[customer, caller, key_hash, run.into()]).await;
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

/// Deletes expired requests, at most `limit`, and returns how many. A running one is kept while a
/// node has it.
pub async fn delete_expired(store: &Store, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from own_requests where (customer_id, caller, key_hash) in (
            select customer_id, caller, key_hash from own_requests
            where expires_at <= $1
              and (state <> 'running' or (leased_by is null and leased_until <= $1))
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
        select fingerprint, permissions, data_key_id, run_id, change_id, state, leased_until, leased_by,
               status, answer
        from own_requests where customer_id = $1 and caller = $2 and key_hash = $3";
    let row = store.read().await?.row(SQL, &name.values()).await?;
    row.as_ref().map(known).transpose()
}

fn known(row: &SqlRow) -> Result<KnownRequest, StoreError> {
    const TABLE: &str = "own_requests";
    let run: RunId = row.parse("run_id", TABLE)?;
    let corrupt = || StoreError::corrupt(TABLE, run);
    let state = match row.text("state")?.as_str() {
        "running" => {
            let is_held = row.optional_text("leased_by")?.is_some();
            let free_from = (!is_held).then(|| row.time("leased_until")).transpose()?;
            RequestState::Running { free_from }
        }
        "not_stored" => RequestState::NotStored,
        "outcome_unknown" => RequestState::OutcomeUnknown,
        "stored" => RequestState::Stored(StoredAnswer {
            status: row.status("status")?.ok_or_else(corrupt)?,
            sealed: row.optional_bytes("answer")?.ok_or_else(corrupt)?,
        }),
        _ => return Err(corrupt()),
    };
    Ok(KnownRequest {
        fingerprint: row.text("fingerprint")?,
        permissions: row.optional_text("permissions")?,
        data_key: row.parse("data_key_id", TABLE)?,
        run,
        change: row.parse("change_id", TABLE)?,
        state,
    })
}
