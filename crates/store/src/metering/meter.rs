//! The side of those who ask: reservations, ends and renewals go into the writer's queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use domain::credits::Credits;
use domain::id::{CallId, CustomerId};
use domain::time::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::courier::{Bag, Courier};
use super::queue::{HoldRequest, Pushed, Queue, Request, ResolveRequest};
use super::writer::Writer;
use super::{Hold, HoldOutcome, MeterOptions, MeterStats, Refusal, Resolution};
use crate::mirror::{Mirror, Taking};
use crate::{Store, StoreError};

/// Where credits are reserved and calls are ended. Clones share one writer.
#[derive(Clone)]
pub struct Meter {
    store: Store,
    options: Arc<MeterOptions>,
    shared: Arc<Shared>,
    /// Where outcomes are handed out, for those who use this clone.
    bag: Option<Arc<Bag>>,
    /// Closes the queue when the last clone is gone.
    _open: Arc<Open>,
}

/// What the writer and the meters have in common.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) late_resolutions: AtomicU64,
    pub(crate) failed_batches: AtomicU64,
}

struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

pub(crate) fn start(store: &Store, options: MeterOptions) -> (Meter, Writer) {
    let options = Arc::new(options);
    let shared = Arc::new(Shared::default());
    let writer = Writer::new(store.clone(), Arc::clone(&options), Arc::clone(&shared));
    let open = Arc::new(Open(Arc::clone(&shared)));
    (Meter { store: store.clone(), options, shared, bag: None, _open: open }, writer)
}

impl Meter {
    /// The same meter for those who run on one runtime, and the courier to be spawned there.
    pub fn on_one_runtime(&self) -> (Self, Courier) {
        let bag = Arc::new(Bag::default());
        let meter = Self { bag: Some(Arc::clone(&bag)), ..self.clone() };
        (meter, Courier::new(bag))
    }

    /// Whether a reservation alone is enough for a read to leave: on SQLite, where no other process can
    /// take the same credits. On PostgreSQL wait for `Reservation::durable`.
    pub fn is_authority(&self) -> bool {
        self.store.mirror().is_some()
    }

    /// Asks for a hold. Returns as soon as it is queued, on SQLite with its cost reserved. Whoever gets a
    /// reservation ends the call with `resolve`, also when the hold's outcome makes the call pointless;
    /// dropping the reservation gives nothing back.
    pub async fn reserve(&self, hold: Hold) -> Result<Reservation, Refusal> {
        Box::pin(self.reserve_within(hold, Duration::ZERO)).await
    }

    /// As `reserve`, where nobody waits for the hold yet: unless somebody does, or the call ends, it may be
    /// written as much later as `MeterOptions::patience` says. Only where a reservation alone is enough.
    pub async fn reserve_patiently(&self, hold: Hold) -> Result<Reservation, Refusal> {
        self.reserve_within(hold, self.options.patience).await
    }

    async fn reserve_within(&self, hold: Hold, patience: Duration) -> Result<Reservation, Refusal> {
        let limits = (self.options.queue_max, self.options.queue_age_max);
        if self.shared.queue.is_overloaded(limits.0, limits.1) || !self.store.has_room() {
            return Err(Refusal::Overloaded);
        }
        let (customer, cost, call_id) = (hold.customer, hold.cost, hold.call_id);
        let reserved = match self.take(&hold).await? {
            None => false,
            Some(Taking::Taken) => true,
            // An earlier answer may have to be given again, which costs nothing: the batch decides.
            Some(Taking::TooLow(_) | Taking::Unknown) if hold.idempotency.is_some() => false,
            Some(Taking::TooLow(balance)) => {
                return Err(Refusal::Insufficient { balance: Credits::from_whole(balance) });
            }
            Some(Taking::Unknown) => return Err(Refusal::Overloaded),
        };
        let (reply, outcome) = oneshot::channel();
        let request = HoldRequest { hold, reserved, reply, bag: self.bag.clone() };
        let patience = if reserved { patience } else { Duration::ZERO };
        if self.shared.queue.push_hold(request, patience, limits) == Pushed::Overloaded {
            if let (true, Some(mirror)) = (reserved, self.store.mirror()) {
                mirror.give_back(customer, cost.whole());
            }
            return Err(Refusal::Overloaded);
        }
        let parked = (!patience.is_zero()).then(|| Arc::clone(&self.shared));
        Ok(Reservation { call_id, waiting: outcome, outcome: None, parked })
    }

    /// Ends a call. Never lost: the writer tries until it is written. The handle may be dropped.
    pub fn resolve(&self, resolution: Resolution) -> Resolved {
        let (reply, done) = oneshot::channel();
        let request = ResolveRequest { resolution, reply, since: Instant::now() };
        self.shared.queue.push(Request::Resolve(Box::new(request)));
        Resolved(done)
    }

    /// Puts off the expiry of a call's hold. Does nothing to a call that has ended.
    pub fn renew(&self, call_id: CallId, expires_at: Timestamp) {
        self.shared.queue.push(Request::Renew { call_id, expires_at });
    }

    /// How the metering is doing.
    pub fn stats(&self) -> MeterStats {
        let fill = self.shared.queue.fill();
        MeterStats {
            holds_waiting: fill.holds,
            resolutions_waiting: fill.resolutions,
            oldest: fill.oldest,
            late_resolution_total: self.shared.late_resolutions.load(Ordering::Relaxed),
            failed_batch_total: self.shared.failed_batches.load(Ordering::Relaxed),
        }
    }

    /// Reserves in the mirror, reading the balance first where it is not known. Nothing on PostgreSQL.
    async fn take(&self, hold: &Hold) -> Result<Option<Taking>, Refusal> {
        let Some(mirror) = self.store.mirror() else {
            return Ok(None);
        };
        let taking = mirror.take(hold.customer, hold.cost.whole());
        if taking != Taking::Unknown {
            return Ok(Some(taking));
        }
        // Boxed, so that a hold whose balance is known does not carry the room of a query.
        Box::pin(self.load(mirror, hold.customer)).await.map_err(Refusal::Store)?;
        Ok(Some(mirror.take(hold.customer, hold.cost.whole())))
    }

    /// Reads a balance while nobody else can write, so that no commit falls between reading and noting.
    async fn load(&self, mirror: &Mirror, customer: CustomerId) -> Result<(), StoreError> {
        const SQL: &str = "select available from customer_credits where customer_id = $1";
        let mut tx = self.store.write().await?;
        let row = tx.row(SQL, &[customer.into()]).await?;
        let available = row.map_or(Ok(0), |row| row.int(0))?;
        mirror.load(customer, available);
        Ok(())
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Meter({:?}, {:?})", self.options, self.stats())
    }
}

/// A hold on its way to the database.
pub struct Reservation {
    call_id: CallId,
    waiting: oneshot::Receiver<HoldOutcome>,
    outcome: Option<HoldOutcome>,
    /// Where the hold may still be parked.
    parked: Option<Arc<Shared>>,
}

impl Reservation {
    /// The call it is for.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Waits until the hold is durable, or is known not to be. May be asked again, and may be dropped
    /// while it waits.
    pub async fn durable(&mut self) -> HoldOutcome {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        if let Some(shared) = self.parked.take() {
            shared.queue.hurry(self.call_id);
        }
        let outcome = match (&mut self.waiting).await {
            Ok(outcome) => outcome,
            Err(_) => HoldOutcome::Failed(Arc::new(StoreError::Stopped)),
        };
        self.outcome = Some(outcome.clone());
        outcome
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Reservation({}, {:?})", self.call_id, self.outcome)
    }
}

/// The end of a call on its way to the database. True when this end is the one that counts; false when
/// the call had ended before, or was never held.
#[derive(Debug)]
pub struct Resolved(oneshot::Receiver<bool>);

impl Future for Resolved {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(context).map(|result| result.unwrap_or(false))
    }
}
