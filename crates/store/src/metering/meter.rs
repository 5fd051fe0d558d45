//! The side of those who ask: reservations, ends and renewals go into the writer's queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use domain::credits::Credits;
use domain::id::{CallId, CustomerId};
use domain::time::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::outcome_dispatcher::{Mailbox, OutcomeDispatcher};
use super::queue::{HoldRequest, MeterQueue, ParkedHold, QueueOverloaded, ResolveRequest};
use super::writer::MeterWriter;
use super::{CallResolution, Hold, HoldOutcome, HoldRefusal, MeterOptions, MeterStats};
use crate::balance_cache::{BalanceCache, CreditTaking};
use crate::{Store, StoreError};

/// Where credits are reserved and calls are ended. Clones share one writer.
#[derive(Clone)]
pub struct Meter {
    store: Store,
    options: Arc<MeterOptions>,
    desk: Arc<MeterHandle>,
    /// Closes the queue when the last clone is gone.
    _open: Arc<OpenQueue>,
}

/// What a meter and its reservations have in common; each runtime has its own, so that only its calls count it.
struct MeterHandle {
    shared: Arc<SharedQueue>,
    /// The mailbox in which outcomes are handed out.
    mailbox: Option<usize>,
}

/// What the writer and the meters have in common.
#[derive(Default)]
pub(crate) struct SharedQueue {
    pub(crate) queue: MeterQueue,
    /// Since when the writer is at what it does now; nothing while it waits for something to do.
    busy_since: Mutex<Option<Instant>>,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
    pub(crate) late_resolutions: AtomicU64,
    pub(crate) failed_batches: AtomicU64,
}

impl SharedQueue {
    /// The writer begins something that the database must end.
    pub(crate) fn begin_work(&self) {
        *self.busy() = Some(Instant::now());
    }

    /// The writer has ended it, however it came out.
    pub(crate) fn end_work(&self) {
        *self.busy() = None;
    }

    fn busy(&self) -> MutexGuard<'_, Option<Instant>> {
        self.busy_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the writer has been at what it does now.
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

    /// The mailbox with this number.
    pub(crate) fn mailbox(&self, number: usize) -> Option<Arc<Mailbox>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }
}

struct OpenQueue(Arc<SharedQueue>);

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

pub(crate) fn start(store: &Store, options: MeterOptions) -> (Meter, MeterWriter) {
    let options = Arc::new(options);
    let shared = Arc::new(SharedQueue::default());
    let writer = MeterWriter::new(store.clone(), Arc::clone(&options), Arc::clone(&shared));
    let open = Arc::new(OpenQueue(Arc::clone(&shared)));
    let desk = Arc::new(MeterHandle { shared, mailbox: None });
    (Meter { store: store.clone(), options, desk, _open: open }, writer)
}

impl Meter {
    /// The same meter for those who run on one runtime, and the dispatcher to be spawned there.
    pub fn on_one_runtime(&self) -> (Self, OutcomeDispatcher) {
        let shared = Arc::clone(&self.desk.shared);
        let (mailbox, number) = shared.add_mailbox();
        let desk = Arc::new(MeterHandle { shared, mailbox: Some(number) });
        (Self { desk, ..self.clone() }, OutcomeDispatcher::new(mailbox))
    }

    /// Whether a reservation alone is enough for a read to leave: on SQLite, where no other process can
    /// take the same credits. On PostgreSQL wait for `PendingHold::durable`.
    pub fn is_authority(&self) -> bool {
        self.store.balance_cache().is_some()
    }

    /// What a customer may spend, where that is in memory: on SQLite, unless it must be read first.
    pub fn balance_in_memory(&self, customer: CustomerId) -> Option<Credits> {
        self.store.balance_cache()?.left(customer).map(Credits::from_whole)
    }

    /// Asks for a hold. Returns as soon as it is queued, on SQLite with its cost reserved. Whoever gets a
    /// reservation ends the call, also when the hold's outcome makes the call pointless; dropping the
    /// reservation gives nothing back.
    pub async fn reserve(&self, hold: Hold) -> Result<PendingHold, HoldRefusal> {
        Box::pin(self.reserve_within(hold, Duration::ZERO)).await
    }

    /// As `reserve`, where nobody waits for the hold yet: unless somebody does, or the call ends, it may be
    /// written as much later as `MeterOptions::patience` says. Only where a reservation alone is enough. The call is
    /// ended and renewed by its reservation, which knows where the hold is.
    pub async fn reserve_patiently(&self, hold: Hold) -> Result<PendingHold, HoldRefusal> {
        self.reserve_within(hold, self.options.patience).await
    }

    async fn reserve_within(
        &self,
        hold: Hold,
        patience: Duration,
    ) -> Result<PendingHold, HoldRefusal> {
        let limits = (self.options.queue_max, self.options.queue_age_max);
        let queue = &self.desk.shared.queue;
        if !self.store.has_room() {
            return Err(HoldRefusal::Unavailable);
        }
        let (customer, cost, call_id) = (hold.customer, hold.cost, hold.call_id);
        let reserved = match self.take(&hold).await? {
            None => false,
            Some(CreditTaking::Taken) => true,
            // An earlier answer may have to be given again, which costs nothing: the batch decides.
            Some(CreditTaking::TooLow(_) | CreditTaking::Unknown) if hold.idempotency.is_some() => {
                false
            }
            Some(CreditTaking::TooLow(balance)) => {
                return Err(HoldRefusal::Insufficient { balance: Credits::from_whole(balance) });
            }
            Some(CreditTaking::Unknown) => return Err(HoldRefusal::Overloaded),
        };
        let (reply, outcome) = oneshot::channel();
        let hold = Arc::new(hold);
        let request = HoldRequest { hold, reserved, reply, mailbox: self.desk.mailbox, end: None };
        let patience = if reserved { patience } else { Duration::ZERO };
        match queue.push_hold(request, patience, limits) {
            Ok(parked) => {
                let desk = Arc::clone(&self.desk);
                Ok(PendingHold { call_id, waiting: outcome, outcome: None, parked, desk })
            }
            Err(QueueOverloaded) => {
                if let (true, Some(balance_cache)) = (reserved, self.store.balance_cache()) {
                    balance_cache.give_back(customer, cost.whole());
                }
                Err(self.too_many())
            }
        }
    }

    /// Why there is no place for another hold: the database does not respond, or more is asked than it can write.
    fn too_many(&self) -> HoldRefusal {
        let is_stuck = self.desk.shared.busy_for() > self.options.queue_age_max;
        if is_stuck || !self.store.is_healthy() {
            HoldRefusal::Unavailable
        } else {
            HoldRefusal::Overloaded
        }
    }

    /// Ends a call whose reservation is not at hand; one that was reserved patiently is ended by its reservation
    /// alone. Never lost: the writer tries until it is written. The handle may be dropped.
    pub fn resolve(&self, resolution: CallResolution) -> PendingResolution {
        let (end, resolved) = awaited(resolution);
        self.desk.shared.queue.push_end(None, end);
        resolved
    }

    /// Puts off the expiry of a call's hold, under the same condition. Does nothing to a call that has ended.
    pub fn renew(&self, call_id: CallId, expires_at: Timestamp) {
        self.desk.shared.queue.push_renewal(call_id, expires_at);
    }

    /// How the metering is doing.
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

    /// Reserves in the balance cache, reading the balance first where it is not known. Nothing on PostgreSQL.
    async fn take(&self, hold: &Hold) -> Result<Option<CreditTaking>, HoldRefusal> {
        let Some(balance_cache) = self.store.balance_cache() else {
            return Ok(None);
        };
        let taking = balance_cache.take(hold.customer, hold.cost.whole());
        if taking != CreditTaking::Unknown {
            return Ok(Some(taking));
        }
        // Boxed, so that a hold whose balance is known does not carry the room of a query.
        Box::pin(self.load(balance_cache, hold.customer)).await.map_err(HoldRefusal::Store)?;
        Ok(Some(balance_cache.take(hold.customer, hold.cost.whole())))
    }

    /// Reads a balance while nobody else can write, so that no commit falls between reading and noting.
    async fn load(
        &self,
        balance_cache: &BalanceCache,
        customer: CustomerId,
    ) -> Result<(), StoreError> {
        const SQL: &str = "select available from customer_credits where customer_id = $1";
        let mut tx = self.store.write().await?;
        let row = tx.row(SQL, &[customer.into()]).await?;
        let available = row.map_or(Ok(0), |row| row.int(0))?;
        balance_cache.load(customer, available);
        Ok(())
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Meter({:?}, {:?})", self.options, self.stats())
    }
}

/// A hold on its way to the database, and the way to its end.
pub struct PendingHold {
    call_id: CallId,
    waiting: oneshot::Receiver<HoldOutcome>,
    outcome: Option<HoldOutcome>,
    /// The hold, while it may still be parked.
    parked: Option<ParkedHold>,
    desk: Arc<MeterHandle>,
}

impl PendingHold {
    /// The call it is for.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Ends the call. Never lost: the writer tries until it is written.
    pub fn resolve(&self, resolution: CallResolution) {
        let end = Box::new(ResolveRequest { resolution, reply: None, since: Instant::now() });
        self.desk.shared.queue.push_end(self.parked.as_ref(), end);
    }

    /// The same, for who wants to know when it is written.
    pub fn resolve_and_tell(&self, resolution: CallResolution) -> PendingResolution {
        let (end, resolved) = awaited(resolution);
        self.desk.shared.queue.push_end(self.parked.as_ref(), end);
        resolved
    }

    /// Puts off the expiry of the hold, which is then parked no longer. Does nothing to a call that has ended.
    pub fn renew(&self, expires_at: Timestamp) {
        let queue = &self.desk.shared.queue;
        self.parked.iter().for_each(|parked| queue.hurry(parked));
        queue.push_renewal(self.call_id, expires_at);
    }

    /// Waits until the hold is durable, or is known not to be. May be asked again, and may be dropped
    /// while it waits.
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

impl std::fmt::Debug for PendingHold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Reservation({}, {:?})", self.call_id, self.outcome)
    }
}

/// The end of a call, and how its writing is told.
fn awaited(resolution: CallResolution) -> (Box<ResolveRequest>, PendingResolution) {
    let (reply, done) = oneshot::channel();
    let end = ResolveRequest { resolution, reply: Some(reply), since: Instant::now() };
    (Box::new(end), PendingResolution(done))
}

/// The end of a call on its way to the database. True when this end is the one that counts; false when
/// the call had ended before, or was never held.
#[derive(Debug)]
pub struct PendingResolution(oneshot::Receiver<bool>);

impl Future for PendingResolution {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(context).map(|result| result.unwrap_or(false))
    }
}
