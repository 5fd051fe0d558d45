//! The callers' side: puts reservations, settlements and renewals into the writer's queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use domain::credits::Credits;
use domain::id::{CallId, CustomerId, NodeId};
use domain::time::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::live_calls::LiveCalls;
use super::outcome_dispatcher::{Mailbox, OutcomeDispatcher};
use super::queue::{
    HoldRequest, MeterQueue, ParkedHold, ParkingTime, QueueLimits, QueueOverloaded, ResolveRequest,
};
use super::reads_in_transaction::ReadsInTransaction;
use super::seen_balances::SeenBalances;
use super::writer::MeterWriter;
use super::{CallResolution, Hold, HoldOutcome, HoldRefusal, MeterOptions, MeterStats};
use crate::balance_cache::{BalanceCache, CreditTaking};
use crate::{Store, StoreError};

/// Reserves credits and settles calls. Clones share one writer.
#[derive(Clone)]
pub struct Meter {
    store: Store,
    options: Arc<MeterOptions>,
    desk: Arc<MeterHandle>,
    /// Closes the queue when the last clone is gone.
    _open: Arc<OpenQueue>,
}

/// State shared by a meter and its reservations. Each runtime has its own, so that its reference
/// count is not contended between runtimes.
struct MeterHandle {
    shared: Arc<SharedQueue>,
    /// The mailbox that receives outcomes for this runtime.
    mailbox: Option<usize>,
    live: Arc<LiveCalls>,
}

/// State shared by the writer and all meters.
#[derive(Default)]
pub(crate) struct SharedQueue {
    pub(crate) queue: MeterQueue,
    /// The balances as this node last saw them, on PostgreSQL.
    pub(crate) seen: SeenBalances,
    /// The traveling reads in the writer's transaction.
    pub(crate) in_transaction: ReadsInTransaction,
    /// When the writer started what it is doing now; none while it is idle.
    busy_since: Mutex<Option<Instant>>,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
    /// The calls of each runtime.
    live: Mutex<Vec<Arc<LiveCalls>>>,
    pub(crate) late_resolutions: AtomicU64,
    pub(crate) failed_batches: AtomicU64,
}

impl SharedQueue {
    /// Called before the writer waits for the database.
    pub(crate) fn begin_work(&self) {
        *self.busy() = Some(Instant::now());
    }

    /// Called when it has finished, successfully or not.
    pub(crate) fn end_work(&self) {
        *self.busy() = None;
    }

    fn busy(&self) -> MutexGuard<'_, Option<Instant>> {
        self.busy_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the writer has been busy with its current work.
    fn busy_for(&self) -> Duration {
        self.busy().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// A new mailbox, and its number.
    fn add_mailbox(&self) -> (Arc<Mailbox>, usize) {
        let mailbox = Arc::new(Mailbox::default());
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        mailboxes.push(Arc::clone(&mailbox));
        (mailbox, mailboxes.len() - 1)
    }

    /// A new set of live calls.
    fn add_live(&self) -> Arc<LiveCalls> {
        let live = Arc::new(LiveCalls::default());
        self.live().push(Arc::clone(&live));
        live
    }

    fn live(&self) -> MutexGuard<'_, Vec<Arc<LiveCalls>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mailbox with this number.
    pub(crate) fn mailbox(&self, number: usize) -> Option<Arc<Mailbox>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }
}

/// A hold that is asked for.
struct CreditRequest {
    hold: Hold,
    is_read: bool,
}

/// How the cost of a hold is covered before it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CreditCover {
    /// It is reserved in the balance cache of SQLite, and no other process can take it.
    Reserved,
    /// The balance that this node last saw on PostgreSQL covers it, but other nodes may take it
    /// first.
    Assumed,
    /// Only the commit knows.
    Open,
}

struct OpenQueue(Arc<SharedQueue>);

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

/// Starts the metering of this node. The caller spawns the writer, a future that completes when
/// every `Meter` has been dropped and all requests are written.
pub fn start(store: &Store, options: MeterOptions) -> (Meter, MeterWriter) {
    let options = Arc::new(options);
    let shared = Arc::new(SharedQueue::default());
    let writer = MeterWriter::new(store.clone(), Arc::clone(&options), Arc::clone(&shared));
    let open = Arc::new(OpenQueue(Arc::clone(&shared)));
    let live = shared.add_live();
    let desk = Arc::new(MeterHandle { shared, mailbox: None, live });
    (Meter { store: store.clone(), options, desk, _open: open }, writer)
}

impl Meter {
    /// A clone of this meter for the tasks of one runtime, with a dispatcher to spawn there.
    pub fn on_one_runtime(&self) -> (Self, OutcomeDispatcher) {
        let shared = Arc::clone(&self.desk.shared);
        let (mailbox, number) = shared.add_mailbox();
        let live = shared.add_live();
        let desk = Arc::new(MeterHandle { shared, mailbox: Some(number), live });
        (Self { desk, ..self.clone() }, OutcomeDispatcher::new(mailbox))
    }

    /// A customer's balance, if it is in memory: on SQLite, unless it has to be read first.
    pub fn balance_in_memory(&self, customer: CustomerId) -> Option<Credits> {
        self.store.balance_cache()?.left(customer).map(Credits::from_whole)
    }

    /// Requests a hold. Returns as soon as it is queued, on SQLite with its cost reserved. The
    /// caller that gets a reservation must settle the call, even if the hold's outcome makes the
    /// call pointless; dropping the reservation refunds nothing.
    pub async fn reserve(&self, hold: Hold) -> Result<PendingHold, HoldRefusal> {
        let request = CreditRequest { hold, is_read: false };
        Box::pin(self.reserve_for(request)).await
    }

    /// Like `reserve`, for a read. If `PendingHold::may_leave`, the read may be sent before its
    /// hold is durable, and its response must wait for that. Such a hold is written up to
    /// `MeterOptions::patience` later, or earlier if the call ends or a caller starts to wait for
    /// it. Settle and renew the call through its reservation, which knows where the hold is.
    pub async fn reserve_read(&self, hold: Hold) -> Result<PendingHold, HoldRefusal> {
        self.reserve_for(CreditRequest { hold, is_read: true }).await
    }

    async fn reserve_for(&self, request: CreditRequest) -> Result<PendingHold, HoldRefusal> {
        let limits = QueueLimits {
            holds_max: self.options.queue_max,
            age_max: self.options.queue_age_max,
            wait_max: self.options.commit_wait_max,
            batch: self.options.batch_max,
        };
        let shared = &self.desk.shared;
        if !self.store.has_room() {
            return Err(HoldRefusal::Unavailable);
        }
        let CreditRequest { hold, is_read } = request;
        let (customer, cost, call_id) = (hold.customer, hold.cost.whole(), hold.call_id);
        let cover = self.cover(&hold).await?;
        let (reply, outcome) = oneshot::channel();
        let may_leave = is_read && cover != CreditCover::Open;
        let reserved = cover == CreditCover::Reserved;
        let queued = HoldRequest {
            hold: Arc::new(hold),
            reserved,
            travels: may_leave && !reserved,
            since: Instant::now(),
            reply: Some(reply),
            mailbox: self.desk.mailbox,
            end: None,
        };
        let time = ParkingTime { fresh: self.options.fresh, whole: self.options.patience };
        match shared.queue.push_hold(queued, may_leave.then_some(time), limits) {
            Ok(parked) => {
                let desk = Arc::clone(&self.desk);
                let waiting = outcome;
                let is_live = false;
                Ok(PendingHold {
                    call_id,
                    may_leave,
                    waiting,
                    outcome: None,
                    parked,
                    is_live,
                    desk,
                })
            }
            Err(QueueOverloaded) => {
                match self.store.balance_cache() {
                    Some(balance_cache) if reserved => balance_cache.give_back(customer, cost),
                    Some(_) => {}
                    None => shared.seen.failed(customer, cost),
                }
                Err(self.too_many())
            }
        }
    }

    /// How this hold is covered before it is committed.
    async fn cover(&self, hold: &Hold) -> Result<CreditCover, HoldRefusal> {
        let Some(balance_cache) = self.store.balance_cache() else {
            let is_covered = self.desk.shared.seen.enter(hold.customer, hold.cost.whole());
            // While the database fails, nothing leaves that cannot be recorded.
            let may_assume = is_covered && self.store.is_healthy();
            return Ok(if may_assume { CreditCover::Assumed } else { CreditCover::Open });
        };
        match self.take(balance_cache, hold).await? {
            CreditTaking::Taken => Ok(CreditCover::Reserved),
            // The request may be a repetition, whose replay costs nothing: the batch decides.
            CreditTaking::TooLow(_) | CreditTaking::Unknown if hold.idempotency.is_some() => {
                Ok(CreditCover::Open)
            }
            CreditTaking::TooLow(balance) => {
                Err(HoldRefusal::Insufficient { balance: Credits::from_whole(balance) })
            }
            CreditTaking::Unknown => Err(HoldRefusal::Overloaded),
        }
    }

    /// Why no further hold is accepted: the database does not respond, or there are more requests
    /// than it can write.
    fn too_many(&self) -> HoldRefusal {
        let is_stuck = self.desk.shared.busy_for() > self.options.queue_age_max;
        if is_stuck || !self.store.is_healthy() {
            HoldRefusal::Unavailable
        } else {
            HoldRefusal::Overloaded
        }
    }

    /// Settles a call whose reservation is not at hand. A call reserved with `reserve_read` must
    /// be settled through its reservation. Never lost while the process runs: the writer
    /// retries until it is written. The returned handle may be dropped.
    pub fn resolve(&self, resolution: CallResolution) -> PendingResolution {
        let (end, resolved) = awaited(resolution);
        self.desk.shared.queue.push_end(None, end);
        resolved
    }

    /// Extends a call's hold, under the same condition as `resolve`. Does nothing if the call has
    /// ended.
    pub fn renew(&self, call_id: CallId, expires_at: Timestamp) {
        self.desk.shared.queue.push_renewal(call_id, expires_at);
    }

    /// Extends the holds of this process's live calls whose turn it is at this second: each is
    /// renewed once a minute, and for the first time when it is at most 90 seconds old.
    pub fn renew_live(&self, second: u64, expires_at: Timestamp) {
        let due = |live: &Arc<LiveCalls>| live.due(second);
        let due: Vec<CallId> = self.desk.shared.live().iter().flat_map(due).collect();
        for call in due {
            self.renew(call, expires_at);
        }
    }

    /// Extends the holds of all live calls; for tests that move the clock.
    pub fn renew_all(&self, expires_at: Timestamp) {
        let all: Vec<CallId> = self.desk.shared.live().iter().flat_map(|live| live.all()).collect();
        for call in all {
            self.renew(call, expires_at);
        }
    }

    /// Whether this process is carrying out the call.
    pub fn is_live(&self, call: CallId) -> bool {
        self.desk.shared.live().iter().any(|live| live.contains(call))
    }

    /// The node whose calls these are.
    pub fn node(&self) -> NodeId {
        self.options.node
    }

    /// The state of the metering.
    pub fn stats(&self) -> MeterStats {
        let shared = &self.desk.shared;
        let fill = shared.queue.fill();
        MeterStats {
            holds_waiting: fill.holds,
            resolutions_waiting: fill.resolutions,
            oldest: fill.oldest.max(shared.busy_for()),
            late_resolution_total: shared.late_resolutions.load(Ordering::Relaxed),
            failed_batch_total: shared.failed_batches.load(Ordering::Relaxed),
        }
    }

    /// Reserves in the balance cache, reading the balance first if it is unknown.
    async fn take(
        &self,
        balance_cache: &BalanceCache,
        hold: &Hold,
    ) -> Result<CreditTaking, HoldRefusal> {
        let taking = balance_cache.take(hold.customer, hold.cost.whole());
        if taking != CreditTaking::Unknown {
            return Ok(taking);
        }
        // Boxed, so that the future of a hold with a known balance does not include that of a
        // query.
        Box::pin(self.load(balance_cache, hold.customer)).await.map_err(HoldRefusal::Store)?;
        Ok(balance_cache.take(hold.customer, hold.cost.whole()))
    }

    /// Reads a balance under the write lock, so that no commit falls between reading and storing
    /// it.
    async fn load(
        &self,
        balance_cache: &BalanceCache,
        customer: CustomerId,
    ) -> Result<(), StoreError> {
        let mut tx = self.store.write().await?;
        let available = crate::balance::available(&mut tx, customer).await?;
        balance_cache.load(customer, available);
        Ok(())
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Meter({:?}, {:?})", self.options, self.stats())
    }
}

/// A queued hold, through which its call is settled.
pub struct PendingHold {
    call_id: CallId,
    may_leave: bool,
    waiting: oneshot::Receiver<HoldOutcome>,
    outcome: Option<HoldOutcome>,
    /// The hold, while it may still be parked.
    parked: Option<ParkedHold>,
    /// Whether it keeps its hold from expiring.
    is_live: bool,
    desk: Arc<MeterHandle>,
}

impl PendingHold {
    /// The call it is for.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Whether the call is a read that may be sent before its hold is durable. Its response must
    /// then wait for `durable`, which may still refuse it.
    pub fn may_leave(&self) -> bool {
        self.may_leave
    }

    /// Settles the call. Never lost while the process runs: the writer retries until it is written.
    pub fn resolve(&self, resolution: CallResolution) {
        let end = Box::new(ResolveRequest { resolution, reply: None, since: Instant::now() });
        self.desk.shared.queue.push_end(self.parked.as_ref(), end);
    }

    /// Like `resolve`, for callers that need to know when it is written.
    pub fn resolve_and_tell(&self, resolution: CallResolution) -> PendingResolution {
        let (end, resolved) = awaited(resolution);
        self.desk.shared.queue.push_end(self.parked.as_ref(), end);
        resolved
    }

    /// Says that the call is alive: until this is dropped, [`Meter::renew_live`] renews its hold,
    /// and this process never counts it as expired.
    pub fn keep_alive(&mut self) {
        self.is_live = true;
        self.desk.live.insert(self.call_id);
    }

    /// Settles the call together with its hold, if that is not written yet. Otherwise its
    /// settlement is returned; once the hold is known to be durable, pass it to `resolve_apart`. If
    /// the hold fails, there is nothing to settle.
    pub fn resolve_together(&self, resolution: CallResolution) -> Option<SeparateResolution> {
        let end = Box::new(ResolveRequest { resolution, reply: None, since: Instant::now() });
        self.desk.shared.queue.join_end(self.parked.as_ref(), end).map(SeparateResolution)
    }

    /// Settles the call after its hold.
    pub fn resolve_apart(&self, resolution: SeparateResolution) {
        self.desk.shared.queue.push_end(None, resolution.0);
    }

    /// Waits until the hold is durable or has failed. Cancel-safe, and may be called again.
    pub async fn durable(&mut self) -> HoldOutcome {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        if let Some(parked) = self.parked.take() {
            self.desk.shared.queue.hurry(&parked);
        }
        let outcome = match (&mut self.waiting).await {
            Ok(outcome) => outcome,
            Err(_) => HoldOutcome::Failed(Arc::new(StoreError::Stopped)),
        };
        self.outcome = Some(outcome.clone());
        outcome
    }
}

impl Drop for PendingHold {
    fn drop(&mut self) {
        if self.is_live {
            self.desk.live.remove(self.call_id);
        }
    }
}

impl std::fmt::Debug for PendingHold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PendingHold({}, {:?})", self.call_id, self.outcome)
    }
}

/// A settlement that waits for its hold.
pub struct SeparateResolution(Box<ResolveRequest>);

impl std::fmt::Debug for SeparateResolution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SeparateResolution({:?})", self.0.resolution)
    }
}

/// A settlement request and the handle that completes when it is written.
fn awaited(resolution: CallResolution) -> (Box<ResolveRequest>, PendingResolution) {
    let (reply, done) = oneshot::channel();
    let end = ResolveRequest { resolution, reply: Some(reply), since: Instant::now() };
    (Box::new(end), PendingResolution(done))
}

/// A settlement being written. Resolves to true if this settlement is the one that counts, and to
/// false if the call had ended before or was never held.
#[derive(Debug)]
pub struct PendingResolution(oneshot::Receiver<bool>);

impl Future for PendingResolution {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(context).map(|result| result.unwrap_or(false))
    }
}
