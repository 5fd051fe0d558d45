//! The writer: one transaction after another, each with everything requested during the previous
//! one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::charge::Outcome;
use tokio::time::Instant;

use super::batch::{self, BatchDecisions, CommitProbe};
use super::meter::SharedQueue;
use super::outcome_dispatcher::{self, HoldDelivery};
use super::queue::{HoldRequest, RequestBatch};
use super::withheld::{self, WithheldRead};
use super::writer_cache::WriterCache;
use super::{BatchReport, HoldOutcome, MeterOptions};
use crate::disk::DiskSpace;
use crate::options::DatabaseKind;
use crate::{Store, StoreError};

/// How long the writer waits after a failure before it retries.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Writes what the meters of a store request. There must be only one for each store and process.
pub struct MeterWriter {
    pub(super) store: Store,
    pub(super) options: Arc<MeterOptions>,
    pub(super) shared: Arc<SharedQueue>,
    cache: WriterCache,
    /// What must be given back.
    pub(super) withheld: Vec<WithheldRead>,
}

/// Why a batch may not have been written.
enum BatchFailure {
    /// Nothing was committed.
    Failed(StoreError),
    /// The commit was sent, but its outcome is unknown.
    Unknown(BatchDecisions, StoreError),
}

impl MeterWriter {
    pub(crate) fn new(store: Store, options: Arc<MeterOptions>, shared: Arc<SharedQueue>) -> Self {
        Self { store, options, shared, cache: WriterCache::default(), withheld: Vec::new() }
    }

    /// Whether it blocks its thread while it waits for the database, as on SQLite. Then it must run
    /// on its own thread.
    pub fn blocks_its_thread(&self) -> bool {
        self.store.balance_cache().is_some()
    }

    /// Runs until every meter has been dropped and all requests are written.
    pub async fn run(mut self) {
        while !self.has_lost_its_disk() {
            let next = self.shared.queue.next(self.options.batch_max, self.options.gather_max);
            let asked = match self.probe_after() {
                Some(pause) => tokio::time::timeout(pause, next).await,
                None => Ok(next.await),
            };
            let Some(asked) = asked.transpose() else { return self.report_withheld() };
            self.shared.begin_work();
            self.work(asked.ok()).await;
            self.shared.end_work();
        }
    }

    /// Writes a batch, or tests the database if there is none. On PostgreSQL, reads that were sent
    /// do not wait for it without end.
    async fn work(&mut self, batch: Option<RequestBatch>) {
        let (store, shared) = (self.store.clone(), Arc::clone(&self.shared));
        let limit = self.options.read_wait_max;
        let work = async {
            match batch {
                Some(batch) => self.process(batch).await,
                None => self.try_out().await,
            }
            self.give_back_withheld().await;
        };
        if store.database() == DatabaseKind::Postgres {
            withheld::watched(work, &shared, &store, limit).await;
        } else {
            work.await;
        }
    }

    /// How long to wait for requests before testing whether the database accepts writes: briefly
    /// after a failure, and regularly where another server may take over, because traffic only goes
    /// to nodes that are ready.
    fn probe_after(&self) -> Option<Duration> {
        if !self.store.is_healthy() {
            return Some(RETRY_PAUSE);
        }
        let is_shared = self.store.database() == DatabaseKind::Postgres;
        is_shared.then_some(self.options.probe_every)
    }

    async fn process(&mut self, mut batch: RequestBatch) {
        let begun = Instant::now();
        let mut report = BatchReport {
            holds: batch.holds.len(),
            held: 0,
            resolutions: batch.ends(),
            duration: Duration::ZERO,
            balances: Vec::new(),
            committed: false,
        };
        self.shared.in_transaction.enter(&mut batch);
        let attempt = self.write(&batch).await;
        if attempt.is_err() {
            self.cache.forget();
        }
        let result = match attempt {
            Ok(written) => Ok(written),
            Err(BatchFailure::Failed(error)) => Err(error),
            Err(BatchFailure::Unknown(written, error)) => {
                self.fail(&error);
                self.find_out(&batch, written, error).await
            }
        };
        self.shared.in_transaction.leave(&mut batch);
        report.duration = begun.elapsed();
        match result {
            Ok(written) => {
                self.cache.words.keep();
                self.store.set_healthy(true);
                self.shared.queue.note_commit(report.duration);
                report.committed = true;
                report.held = written.holds.iter().filter(|outcome| outcome.is_held()).count();
                report.balances.clone_from(&written.balances);
                self.tell(batch, written);
                (self.options.on_batch)(&report);
            }
            Err(error) => {
                self.fail(&error);
                (self.options.on_batch)(&report);
                if self.has_lost_its_disk() {
                    // It may be on the disk or not, so its callers must not be told that nothing
                    // was charged. They get no response, because the process ends now.
                    std::mem::forget(batch);
                    return;
                }
                let is_pressing = self.give_up(batch, error);
                if is_pressing {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn write(&mut self, batch: &RequestBatch) -> Result<BatchDecisions, BatchFailure> {
        let limit = TransactionDeadline::new(&self.store, self.options.batch_deadline);
        let work = async {
            let mut tx = self.store.write_metering().await?;
            let writing = batch::write(&mut tx, batch, &self.options, &mut self.cache);
            let written = Box::pin(writing).await?;
            Ok((tx, written))
        };
        let (mut tx, written) = limit.keep(work).await.map_err(BatchFailure::Failed)?;
        // A reservation ends in the same step in which the committed balance includes its hold.
        for request in batch.holds.iter().filter(|request| request.reserved) {
            tx.note_release(request.hold.customer, request.hold.cost.whole());
        }
        match limit.keep(tx.commit()).await {
            Ok(()) => Ok(written),
            Err(error) => Err(BatchFailure::Unknown(written, error)),
        }
    }

    /// Checks until it is known whether a commit took place. Until then no caller gets an outcome.
    async fn find_out(
        &self,
        batch: &RequestBatch,
        written: BatchDecisions,
        error: StoreError,
    ) -> Result<BatchDecisions, StoreError> {
        let Some(probe) = written.probe else {
            return Err(error);
        };
        loop {
            match self.is_written(probe).await {
                Ok(true) => {
                    batch.holds.iter().for_each(|request| self.give_back(request));
                    return Ok(written);
                }
                Ok(false) => return Err(error),
                Err(_) if self.has_lost_its_disk() => return Err(error),
                Err(again) => self.fail(&again),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn is_written(&self, probe: CommitProbe) -> Result<bool, StoreError> {
        let limit = TransactionDeadline::new(&self.store, self.options.batch_deadline);
        let work = async {
            let mut tx = self.store.write_metering().await?;
            batch::is_written(&mut tx, probe).await
        };
        limit.keep(work).await
    }

    /// Ends a reservation that no commit has ended.
    fn give_back(&self, request: &HoldRequest) {
        if let (true, Some(balance_cache)) = (request.reserved, self.store.balance_cache()) {
            balance_cache.give_back(request.hold.customer, request.hold.cost.whole());
        }
    }

    /// Sends the outcomes to all callers of a batch.
    fn tell(&mut self, batch: RequestBatch, mut written: BatchDecisions) {
        let mut late = 0;
        if self.store.database() == DatabaseKind::Postgres {
            let holds = batch.holds.iter().map(|request| &request.hold);
            let calls = holds.map(|hold| (hold.customer, hold.cost.whole()));
            self.shared.seen.decided(calls, &written.sights);
        }
        self.note_withheld(&batch, &written);
        let outcomes = batch.holds.into_iter().zip(written.holds).map(|(request, outcome)| {
            let is_open = request.end.is_none() && outcome.is_held();
            if is_open && !written.ended.contains(&request.hold.call_id) {
                self.cache.open.insert(request.hold.call_id, Arc::clone(&request.hold));
            }
            (request, outcome)
        });
        deliver(&self.shared, outcomes);
        for request in batch.resolutions {
            self.cache.open.remove(&request.resolution.call_id);
            let is_first = written.ended.remove(&request.resolution.call_id);
            // A call that was not sent because its hold took too long may never have got that hold.
            let has_left = request.resolution.outcome != Outcome::NotDispatched;
            late += u64::from(!is_first && has_left);
            request.tell(is_first);
        }
        self.shared.late_resolutions.fetch_add(late, Ordering::Relaxed);
    }

    /// Fails the holds together with the settlements that came with them, and keeps the rest for
    /// the next attempt. True if settlements are left to write.
    fn give_up(&self, mut batch: RequestBatch, error: StoreError) -> bool {
        let error = Arc::new(error);
        let failed = std::mem::take(&mut batch.holds).into_iter().map(|request| {
            self.give_back(&request);
            if self.store.database() == DatabaseKind::Postgres {
                self.shared.seen.failed(request.hold.customer, request.hold.cost.whole());
            }
            (request, HoldOutcome::Failed(Arc::clone(&error)))
        });
        deliver(&self.shared, failed);
        let is_pressing = !batch.resolutions.is_empty();
        self.shared.queue.put_back(batch);
        is_pressing
    }

    /// Whether a lost write forbids all further writes.
    fn has_lost_its_disk(&self) -> bool {
        self.store.disk().is_some_and(DiskSpace::has_failed)
    }

    pub(super) fn fail(&self, error: &StoreError) {
        self.store.note_failure(error);
        self.shared.failed_batches.fetch_add(1, Ordering::Relaxed);
        self.store.set_healthy(false);
        self.store.renew_connections();
        tracing::error!(%error, "a metering batch was not written");
    }

    /// Makes a small write to test whether the database accepts writes. On PostgreSQL it is a
    /// message in the write-ahead log, so that nodes do not contend for a row.
    async fn try_out(&self) {
        const ROW: &str = "
            insert into settings (name, value) values ('write_test', '1')
            on conflict (name) do update
                set value = case settings.value when '1' then '2' else '1' end";
        const MESSAGE: &str = "
            select cast(pg_logical_emit_message(true, 'creator-gateway', 'write test') as text)";
        let sql = match self.store.database() {
            DatabaseKind::Sqlite => ROW,
            DatabaseKind::Postgres => MESSAGE,
        };
        let limit = TransactionDeadline::new(&self.store, self.options.batch_deadline);
        let work = async {
            let mut tx = self.store.write_metering().await?;
            tx.execute(sql, &[]).await?;
            tx.commit().await
        };
        match limit.keep(work).await {
            Ok(()) => self.store.set_healthy(true),
            Err(error) => self.fail(&error),
        }
    }
}

/// The deadline of a transaction.
pub(super) struct TransactionDeadline {
    store: Store,
    waited: Duration,
    deadline: Instant,
}

impl TransactionDeadline {
    pub(super) fn new(store: &Store, waited: Duration) -> Self {
        Self { store: store.clone(), waited, deadline: Instant::now() + waited }
    }

    /// Runs `work` until the deadline. Work that is cancelled loses its connection, and with it its
    /// transaction.
    pub(super) async fn keep<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let late = StoreError::Deadline { doing: "a metering transaction", waited: self.waited };
        let done = tokio::time::timeout_at(self.deadline, work).await;
        done.unwrap_or_else(|_| {
            self.store.distrust_connections();
            Err(late)
        })
    }
}

/// Sends the outcomes of holds to their callers, grouped by runtime.
pub(super) fn deliver(shared: &SharedQueue, outcomes: impl Iterator<Item = HoldDelivery>) {
    let mut mailboxes: Vec<(Option<usize>, Vec<HoldDelivery>)> = Vec::new();
    for delivery in outcomes {
        let mailbox = delivery.0.mailbox;
        match mailboxes.iter_mut().find(|(number, _)| *number == mailbox) {
            Some((_, deliveries)) => deliveries.push(delivery),
            None => mailboxes.push((mailbox, vec![delivery])),
        }
    }
    for (number, deliveries) in mailboxes {
        match number.and_then(|number| shared.mailbox(number)) {
            Some(mailbox) => mailbox.fill(deliveries),
            None => outcome_dispatcher::hand_out(deliveries),
        }
    }
}

impl Drop for MeterWriter {
    fn drop(&mut self) {
        self.shared.queue.abandon();
    }
}

impl std::fmt::Debug for MeterWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MeterWriter({:?})", self.options)
    }
}

#[cfg(test)]
mod tests {
    use domain::id::NodeId;
    use domain::time::Timestamp;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::super::queue::QueueLimits;
    use super::super::queue::tests::request;
    use super::*;
    use crate::disk::tests::{LOST_WRITE, refused};
    use crate::testing;

    const LIMITS: QueueLimits =
        QueueLimits { holds_max: 10, age_max: Duration::MAX, wait_max: Duration::MAX, batch: 10 };

    /// Writes a hold into a database that refuses it; whether the disk then counts as failed.
    async fn outcome_of_a_failed_batch(is_disk_lost: bool) -> Result<HoldOutcome, TryRecvError> {
        let store = testing::sqlite().await;
        testing::run_raw(&store, "alter table customer_credits rename to elsewhere").await.unwrap();
        let (disk, shared) = (store.disk().unwrap().clone(), Arc::new(SharedQueue::default()));
        let queue = Arc::clone(&shared);
        let node = NodeId::new(Timestamp::from_unix_micros(0), [1; 10]);
        let options = MeterOptions {
            on_batch: Arc::new(move |report| {
                assert!(!report.committed);
                if is_disk_lost {
                    disk.note(&refused(LOST_WRITE));
                }
                queue.queue.close();
            }),
            ..MeterOptions::new(node, 1)
        };
        let (hold, mut outcome) = request();
        shared.queue.push_hold(hold, None, LIMITS).unwrap();
        MeterWriter::new(store.clone(), Arc::new(options), shared).run().await;
        outcome.try_recv()
    }

    #[tokio::test]
    async fn callers_learn_that_a_batch_failed_but_not_if_the_disk_may_have_it() {
        let failed = outcome_of_a_failed_batch(false).await;
        assert!(matches!(failed, Ok(HoldOutcome::Failed(_))), "{failed:?}");

        let unknown = outcome_of_a_failed_batch(true).await;
        assert!(matches!(unknown, Err(TryRecvError::Empty)), "{unknown:?}");
    }
}
