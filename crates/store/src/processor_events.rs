//! The processor's events, stored before the webhook responds, so that none is lost.
//!
//! They are hints about which object to read again. Whether an event was seen decides nothing about
//! money.

use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::sql::SqlRow;
use crate::{Store, StoreError};

/// An event as it was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredEvent {
    /// The processor's id of the event.
    pub id: String,
    /// What happened, such as `payment_intent.succeeded`.
    pub kind: String,
    /// The object it happened to, if it names one.
    pub object: Option<String>,
    /// The processor's customer it concerns, if it names one.
    pub processor_customer: Option<String>,
    /// The version of the processor's API that it was written in.
    pub api_version: Option<String>,
    /// When it happened, according to the processor; accurate to the second, so it is no ordering.
    pub created_at: Timestamp,
}

/// The outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    /// It was processed.
    Done,
    /// There was nothing to do.
    Ignored,
    /// It is about money that was not recorded.
    Unmatched,
}

/// What is known about a delivered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventReceipt {
    /// It is new, or still to be processed.
    Open,
    /// It was already processed.
    Ended,
}

impl EventOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Done, Self::Ignored, Self::Unmatched];

    /// The word in the database and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Ignored => "ignored",
            Self::Unmatched => "unmatched",
        }
    }
}

/// Stores an event together with the job that processes it as a fallback. Counts repeated
/// deliveries. An event that was left unmatched is processed again, because the cause may have been
/// fixed.
pub async fn receive(
    store: &Store,
    event: &DeliveredEvent,
    job: &NewJob,
    run_at: Timestamp,
) -> Result<EventReceipt, StoreError> {
    const SQL: &str = "
        insert into processor_events
            (id, kind, object_id, processor_customer_id, api_version, created_at, received_at, deliveries,
             state, job_id)
        values ($1, $2, $3, $4, $5, $6, $7, 1, 'received', $8)
        on conflict (id) do update set deliveries = processor_events.deliveries + 1
        returning deliveries, state";
    let values = [
        event.id.as_str().into(),
        event.kind.as_str().into(),
        event.object.as_deref().into(),
        event.processor_customer.as_deref().into(),
        event.api_version.as_deref().into(),
        event.created_at.into(),
        job.created_at.into(),
        job.id.into(),
    ];
    let mut tx = store.write().await?;
    let row = tx.row(SQL, &values).await?;
    let (deliveries, state) = row.map_or(Ok((1, "received".to_owned())), |row| {
        Ok::<_, StoreError>((row.int("deliveries")?, row.text("state")?))
    })?;
    if deliveries == 1 {
        jobs::insert_at(&mut tx, job, run_at).await?;
    }
    tx.commit().await?;
    Ok(if matches!(state.as_str(), "done" | "ignored") {
        EventReceipt::Ended
    } else {
        EventReceipt::Open
    })
}

/// The event, if it has not been processed yet.
pub async fn find_open(store: &Store, id: &str) -> Result<Option<DeliveredEvent>, StoreError> {
    const SQL: &str = "
        select id, kind, object_id, processor_customer_id, api_version, created_at
        from processor_events where id = $1 and state = 'received'";
    let row = store.read().await?.row(SQL, &[id.into()]).await?;
    row.as_ref().map(event).transpose()
}

/// Records the outcome of an event, and deletes its fallback job.
pub async fn finish(
    store: &Store,
    id: &str,
    outcome: EventOutcome,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update processor_events set state = $2, processed_at = $3 where id = $1
        returning job_id";
    let mut tx = store.write().await?;
    let row = tx.row(SQL, &[id.into(), outcome.as_str().into(), at.into()]).await?;
    if let Some(row) = row {
        jobs::drop_unclaimed(&mut tx, row.parse("job_id", "processor_events")?).await?;
    }
    tx.commit().await
}

/// Deletes processed events received before `before`, and returns how many.
pub async fn delete_old(store: &Store, before: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from processor_events where received_at < $1 and state <> 'received'";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[before.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

fn event(row: &SqlRow) -> Result<DeliveredEvent, StoreError> {
    Ok(DeliveredEvent {
        id: row.text("id")?,
        kind: row.text("kind")?,
        object: row.optional_text("object_id")?,
        processor_customer: row.optional_text("processor_customer_id")?,
        api_version: row.optional_text("api_version")?,
        created_at: row.time("created_at")?,
    })
}
