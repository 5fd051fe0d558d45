//! The writer: one transaction after the other, each with all that was asked for during the last.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::charge::Outcome;
use tokio::time::Instant;

use super::batch::{self, BatchDecisions, CommitProbe};
use super::meter::SharedQueue;
use super::outcome_dispatcher::{self, HoldDelivery};
use super::queue::{HoldRequest, RequestBatch};
use super::writer_cache::WriterCache;
use super::{BatchReport, HoldOutcome, MeterOptions};
use crate::disk::DiskSpace;
use crate::store::DatabaseKind;
use crate::{Store, StoreError};

/// How long the writer waits after a failure before it tries again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Writes what the meters of a store ask for. Only one for each store and process.
pub struct MeterWriter {
    store: Store,
    options: Arc<MeterOptions>,
    shared: Arc<SharedQueue>,
    cache: WriterCache,
}

/// Why a batch is not known to be written.
enum BatchFailure {
    /// Nothing was committed.
    Failed(StoreError),
    /// The commit was asked for, but nobody knows how it ended.
    Unknown(BatchDecisions, StoreError),
}

impl MeterWriter {
    pub(crate) fn new(store: Store, options: Arc<MeterOptions>, shared: Arc<SharedQueue>) -> Self {
        Self { store, options, shared, cache: WriterCache::default() }
    }

    /// Whether it keeps its thread waiting for the database: then it must have one to itself. So on SQLite.
    pub fn blocks_its_thread(&self) -> bool {
        self.store.balance_cache().is_some()
    }

    /// Runs until every meter is dropped and all that was asked for is written.
    pub async fn run(mut self) {
        while !self.has_lost_its_disk() {
            let next = self.shared.queue.next(self.options.batch_max, self.options.gather_max);
            let asked = match self.probe_after() {
                Some(pause) => tokio::time::timeout(pause, next).await,
                None => Ok(next.await),
            };
            self.shared.begin_work();
            match asked {
                Ok(Some(batch)) => self.process(batch).await,
                Ok(None) => return,
                Err(_) => self.try_out().await,
            }
            self.shared.end_work();
        }
    }

    /// How long nothing may be asked for until the writer looks by itself whether the database takes writes: soon when it
    /// did not, and from time to time where another server may take its place. Callers go to nodes that are ready.
    fn probe_after(&self) -> Option<Duration> {
        if !self.store.is_healthy() {
            return Some(RETRY_PAUSE);
        }
        let is_shared = self.store.database() == DatabaseKind::Postgres;
        is_shared.then_some(self.options.probe_every)
    }

    async fn process(&mut self, batch: RequestBatch) {
        let begun = Instant::now();
        let mut report = BatchReport {
            holds: batch.holds.len(),
            held: 0,
            resolutions: batch.ends(),
            duration: Duration::ZERO,
            balances: Vec::new(),
            committed: false,
        };
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
        report.duration = begun.elapsed();
        match result {
            Ok(written) => {
                self.store.set_healthy(true);
                report.committed = true;
                report.held = written.holds.iter().filter(|outcome| outcome.is_held()).count();
                report.balances.clone_from(&written.balances);
                self.tell(batch, written);
                (self.options.on_batch)(&report);
            }
            Err(error) => {
                self.fail(&error);
                (self.options.on_batch)(&report);
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
            let written = batch::write(&mut tx, batch, &self.options, &mut self.cache).await?;
            Ok((tx, written))
        };
        let (mut tx, written) = limit.keep(work).await.map_err(BatchFailure::Failed)?;
        // A reservation ends in the instant in which the committed balance shows its hold.
        for request in batch.holds.iter().filter(|request| request.reserved) {
            tx.note_release(request.hold.customer, request.hold.cost.whole());
        }
        match limit.keep(tx.commit()).await {
            Ok(()) => Ok(written),
            Err(error) => Err(BatchFailure::Unknown(written, error)),
        }
    }

    /// Looks until it is known whether a commit took place. Until then nobody is answered.
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

    /// Ends a reservation whose hold did not end it by being committed.
    fn give_back(&self, request: &HoldRequest) {
        if let (true, Some(balance_cache)) = (request.reserved, self.store.balance_cache()) {
            balance_cache.give_back(request.hold.customer, request.hold.cost.whole());
        }
    }

    /// Tells everybody how it came out.
    fn tell(&mut self, batch: RequestBatch, mut written: BatchDecisions) {
        let mut late = 0;
        let outcomes = batch.holds.into_iter().zip(written.holds).map(|(request, outcome)| {
            let is_held = outcome.is_held();
            if request.end.is_some() {
                late += u64::from(!is_held);
            } else if is_held && !written.ended.contains(&request.hold.call_id) {
                self.cache.open.insert(request.hold.call_id, Arc::clone(&request.hold));
            }
            (request, outcome)
        });
        deliver(&self.shared, outcomes);
        for request in batch.resolutions {
            self.cache.open.remove(&request.resolution.call_id);
            let is_first = written.ended.remove(&request.resolution.call_id);
            // A call that did not leave since its hold took too long may never have got that hold.
            let has_left = request.resolution.outcome != Outcome::NotDispatched;
            late += u64::from(!is_first && has_left);
            request.tell(is_first);
        }
        self.shared.late_resolutions.fetch_add(late, Ordering::Relaxed);
    }

    /// Fails the holds, with the ends that came with them, and keeps the rest for the next attempt. True when
    /// something is left to be written.
    fn give_up(&self, mut batch: RequestBatch, error: StoreError) -> bool {
        let error = Arc::new(error);
        let failed = std::mem::take(&mut batch.holds).into_iter().map(|request| {
            self.give_back(&request);
            (request, HoldOutcome::Failed(Arc::clone(&error)))
        });
        deliver(&self.shared, failed);
        let is_pressing = !batch.resolutions.is_empty();
        self.shared.queue.put_back(batch);
        is_pressing
    }

    /// Whether nothing may be written any more.
    fn has_lost_its_disk(&self) -> bool {
        self.store.disk().is_some_and(DiskSpace::has_failed)
    }

    fn fail(&self, error: &StoreError) {
        self.store.note_failure(error);
        self.shared.failed_batches.fetch_add(1, Ordering::Relaxed);
        self.store.set_healthy(false);
        self.store.renew_connections();
        tracing::error!(%error, "a metering batch was not written");
    }

    /// Writes something small, to learn whether the database takes writes. On PostgreSQL that is a message in its log, so
    /// that nodes never wait for each other's row.
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

/// The time that a transaction may take.
struct TransactionDeadline {
    store: Store,
    waited: Duration,
    deadline: Instant,
}

impl TransactionDeadline {
    fn new(store: &Store, waited: Duration) -> Self {
        Self { store: store.clone(), waited, deadline: Instant::now() + waited }
    }

    /// Waits until then. What is given up loses its connection with what it had begun.
    async fn keep<T>(
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

/// Tells everybody what became of their holds, those of one runtime at once.
fn deliver(shared: &SharedQueue, outcomes: impl Iterator<Item = HoldDelivery>) {
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
        write!(formatter, "Writer({:?})", self.options)
    }
}
