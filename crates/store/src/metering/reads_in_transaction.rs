//! The traveling reads in the writer's transaction: who waits for them, and for how long.
//!
//! A read that was sent must not wait for a database that does not respond. So its reply is kept
//! here while its transaction runs, where it can be answered before the transaction's outcome is
//! known.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::HoldOutcome;
use super::queue::RequestBatch;

/// The replies of the reads in the writer's transaction.
#[derive(Default)]
pub(crate) struct ReadsInTransaction(Mutex<Vec<WaitingRead>>);

struct WaitingRead {
    /// Its place among the holds of the batch.
    place: usize,
    since: Instant,
    reply: oneshot::Sender<HoldOutcome>,
}

impl ReadsInTransaction {
    /// Takes over the replies of a batch.
    pub(crate) fn enter(&self, batch: &mut RequestBatch) {
        let traveling = batch.holds.iter_mut().enumerate().filter(|(_, hold)| hold.travels);
        let waiting = traveling.filter_map(|(place, hold)| {
            let reply = hold.reply.take()?;
            Some(WaitingRead { place, since: hold.since, reply })
        });
        self.waiting().extend(waiting);
    }

    /// Gives the replies back to the batch, except those of reads that waited too long.
    pub(crate) fn leave(&self, batch: &mut RequestBatch) {
        for read in self.waiting().drain(..) {
            if let Some(hold) = batch.holds.get_mut(read.place) {
                hold.reply = Some(read.reply);
            }
        }
    }

    /// Takes the replies of reads that have waited for this long.
    pub(crate) fn take_overdue(&self, limit: Duration) -> Vec<oneshot::Sender<HoldOutcome>> {
        let mut waiting = self.waiting();
        waiting
            .extract_if(.., |read| read.since.elapsed() >= limit)
            .map(|read| read.reply)
            .collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<WaitingRead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
