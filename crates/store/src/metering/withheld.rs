//! Reads on PostgreSQL whose response is withheld because their record took too long.
//!
//! While the database does not respond, the holds of reads that were sent fail after a while: those
//! that wait for the writer are dropped, and those in its transaction are answered before its
//! outcome is known. If it turns out to be committed, nobody got what it charged: the charge is
//! given back as an entry of the ledger, because an ended call never changes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CallId, CustomerId, EntryId};
use domain::lots::LotSource;
use domain::time::Timestamp;
use tokio::time::Instant;

use super::batch::BatchDecisions;
use super::meter::SharedQueue;
use super::queue::{HoldRequest, RequestBatch, ResolveRequest};
use super::writer::{MeterWriter, TransactionDeadline, deliver};
use super::{CallResolution, HoldOutcome};
use crate::ledger::{self, CreditGrant, CreditGrantOutcome};
use crate::{Store, StoreError};

/// How often the writer looks for reads that wait too long, within the time that they may wait.
const LOOKS: u32 = 8;

/// A read that was charged although its response was withheld.
#[derive(Debug, Clone, Copy)]
pub(super) struct WithheldRead {
    call: CallId,
    customer: CustomerId,
    cost: Credits,
    at: Timestamp,
}

/// Runs the writer's work. Meanwhile, holds of traveling reads that have waited longer than `limit`
/// fail.
pub(super) async fn watched(
    work: impl Future<Output = ()>,
    shared: &SharedQueue,
    store: &Store,
    limit: Duration,
) {
    let mut work = pin!(work);
    let pause = (limit / LOOKS).max(Duration::from_millis(1));
    while tokio::time::timeout(pause, &mut work).await.is_err() {
        fail_overdue(shared, store, limit);
    }
}

fn fail_overdue(shared: &SharedQueue, store: &Store, limit: Duration) {
    let queued = shared.queue.take_overdue(limit);
    let in_transaction = shared.in_transaction.take_overdue(limit);
    if queued.is_empty() && in_transaction.is_empty() {
        return;
    }
    // Further reads wait for their holds.
    store.set_healthy(false);
    let (queued_count, unknown_count) = (queued.len(), in_transaction.len());
    tracing::warn!(queued_count, unknown_count, "reads were sent and not recorded in time");
    let doing = "recording a read that was sent";
    let error = Arc::new(StoreError::Deadline { doing, waited: limit });
    for reply in in_transaction {
        drop(reply.send(HoldOutcome::Failed(Arc::clone(&error))));
    }
    let failed = queued.into_iter().map(|request| {
        shared.seen.failed(request.hold.customer, request.hold.cost.whole());
        (request, HoldOutcome::Failed(Arc::clone(&error)))
    });
    deliver(shared, failed);
}

impl MeterWriter {
    /// Notes the charges of a committed batch whose reads had been answered before as failed, and
    /// ends the calls among them that are open.
    pub(super) fn note_withheld(&mut self, batch: &RequestBatch, written: &BatchDecisions) {
        for (request, outcome) in batch.holds.iter().zip(&written.holds) {
            if request.reply.is_some() || !outcome.is_held() {
                continue;
            }
            match &request.end {
                Some(end) => self.withheld.extend(charge(request, &end.resolution)),
                None => self.shared.queue.push_end(None, Box::new(unknown_end(request))),
            }
        }
    }

    /// Gives back what was charged for reads whose response was withheld. What fails is tried again
    /// after the next batch or test of the database.
    pub(super) async fn give_back_withheld(&mut self) {
        while let Some(read) = self.withheld.last().copied() {
            let limit = TransactionDeadline::new(&self.store, self.options.batch_deadline);
            match limit.keep(give_back(&self.store, read)).await {
                Ok(outcome) => {
                    tracing::warn!(call.id = %read.call, ?outcome, "gave back what a withheld read was charged");
                    self.withheld.pop();
                }
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Names what this process can no longer give back.
    pub(super) fn report_withheld(&self) {
        for WithheldRead { call, customer, cost, .. } in &self.withheld {
            tracing::error!(call.id = %call, customer.id = %customer, credits = cost.whole(), "a withheld read stays charged; grant its credits by hand");
        }
    }
}

/// What a read was charged, if anything.
fn charge(request: &HoldRequest, end: &CallResolution) -> Option<WithheldRead> {
    let hold = &request.hold;
    let is_charged = end.outcome.is_charged() && hold.cost > Credits::ZERO;
    is_charged.then_some(WithheldRead {
        call: hold.call_id,
        customer: hold.customer,
        cost: hold.cost,
        at: end.resolved_at,
    })
}

/// The end of a read whose response is withheld and whose hold stands.
fn unknown_end(request: &HoldRequest) -> ResolveRequest {
    let resolution = CallResolution {
        call_id: request.hold.call_id,
        outcome: Outcome::OutcomeUnknown,
        status: None,
        resolved_at: request.hold.held_at,
        duration_ms: 0,
        upstream_ms: None,
        answer: None,
        frees_key: false,
    };
    ResolveRequest { resolution, reply: None, since: Instant::now() }
}

/// Once for each call, however often it is tried.
async fn give_back(store: &Store, read: WithheldRead) -> Result<CreditGrantOutcome, StoreError> {
    let call = read.call.to_string();
    let grant = CreditGrant {
        entry: EntryId::of_call(read.call),
        customer: read.customer,
        amount: read.cost,
        kind: "adjustment",
        source: "withheld_read",
        source_id: &call,
        reference: Some(&call),
        lot: LotSource::Gift,
        expires_at: None,
        at: read.at,
    };
    let mut tx = store.write_metering().await?;
    let outcome = ledger::grant_in(&mut tx, &grant).await?;
    if matches!(outcome, CreditGrantOutcome::Granted { .. }) {
        tx.commit().await?;
    }
    Ok(outcome)
}
