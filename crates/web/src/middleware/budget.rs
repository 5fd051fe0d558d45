//! A budget that many share: memory for request bodies and for responses, disk for uploads. Each
//! holder (a customer, a network) has a maximum share, so that none can use it all.
//!
//! When the budget runs short, bodies that are still being received are given up, the slowest
//! first, so that a few slow senders do not keep others out. The reader of a given-up body is
//! notified by [`BudgetShare::given_up`]; its memory is free immediately.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use settings::http::READING_BYTES;
use tokio::sync::Notify;
use tokio::time::Instant;
use transport::LoadCounter;

use super::body::BodyProblem;

/// No body counts as slow before this age.
const YOUNG: Duration = Duration::from_secs(1);
/// Bodies that arrive at this rate or faster are not given up.
const FAST_BYTES_PER_SECOND: u64 = 64 * 1024;

/// A budget that many share. Clones share it too.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    bytes_max: usize,
    holder_bytes_max: usize,
    bytes_used: AtomicUsize,
    readings: Mutex<BodyReadings>,
}

/// The bodies that are being received in parts.
#[derive(Debug, Default)]
struct BodyReadings {
    by_number: HashMap<u64, Arc<Reading>>,
    next: u64,
}

#[derive(Debug)]
struct Reading {
    number: u64,
    began: Instant,
    /// The bytes it holds; changed only under the lock of the list.
    bytes: AtomicUsize,
    given_up: AtomicBool,
    bell: Notify,
}

/// A budget, and the holder that takes from it.
#[derive(Debug, Clone, Copy)]
pub struct BudgetRoom<'a> {
    /// The budget.
    pub budget: &'a MemoryBudget,
    /// The bytes that the holder has taken from it.
    pub holder: &'a Arc<LoadCounter>,
}

/// A part of a [`MemoryBudget`]; dropping it returns the part.
#[derive(Debug)]
pub struct BudgetShare {
    budget: MemoryBudget,
    holder: Arc<LoadCounter>,
    reading: Option<Arc<Reading>>,
    bytes: usize,
}

impl MemoryBudget {
    /// A budget of `bytes_max` bytes, of which one holder may have `holder_bytes_max`.
    pub fn new(bytes_max: usize, holder_bytes_max: usize) -> Self {
        Self(Arc::new(SharedBudget {
            bytes_max,
            holder_bytes_max,
            bytes_used: AtomicUsize::new(0),
            readings: Mutex::default(),
        }))
    }

    /// Bytes in use; for metrics.
    pub fn bytes_used(&self) -> usize {
        self.0.bytes_used.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, if that many are left.
    fn take(&self, bytes: usize) -> bool {
        let taken = self.0.bytes_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.0.bytes_max)
        });
        taken.is_ok()
    }

    /// The same, but if needed gives up the slowest bodies being received, except `own`.
    fn take_or_make_room(
        &self,
        readings: &mut BodyReadings,
        own: Option<u64>,
        bytes: usize,
    ) -> Result<(), BodyProblem> {
        if self.take(bytes) {
            return Ok(());
        }
        let slowest = readings.slowest_first(own, Instant::now());
        for slow in slowest {
            readings.by_number.remove(&slow.number);
            slow.given_up.store(true, Ordering::Relaxed);
            self.0.bytes_used.fetch_sub(slow.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            slow.bell.notify_one();
            if self.take(bytes) {
                return Ok(());
            }
        }
        Err(BodyProblem::NoRoom)
    }
}

impl BodyReadings {
    /// The slow readings, the slowest first.
    fn slowest_first(&self, own: Option<u64>, now: Instant) -> Vec<Arc<Reading>> {
        let slow = self.by_number.values().filter(|reading| Some(reading.number) != own);
        let mut slow: Vec<(u64, Arc<Reading>)> = slow
            .filter_map(|reading| {
                let rate = reading.rate(now)?;
                (rate < FAST_BYTES_PER_SECOND).then(|| (rate, Arc::clone(reading)))
            })
            .collect();
        slow.sort_by_key(|(rate, reading)| (*rate, reading.number));
        slow.into_iter().map(|(_, reading)| reading).collect()
    }
}

impl Reading {
    /// Bytes per second since it began; `None` while it is young.
    fn rate(&self, now: Instant) -> Option<u64> {
        let age = now.saturating_duration_since(self.began);
        if age < YOUNG {
            return None;
        }
        let received = self.bytes.load(Ordering::Relaxed).saturating_sub(READING_BYTES);
        let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX).max(1);
        Some(u64::try_from(received).unwrap_or(u64::MAX).saturating_mul(1_000) / millis)
    }
}

impl BudgetRoom<'_> {
    /// An empty share, which grows.
    pub fn share(&self) -> BudgetShare {
        let (budget, holder) = (self.budget.clone(), Arc::clone(self.holder));
        BudgetShare { budget, holder, reading: None, bytes: 0 }
    }
}

impl BudgetShare {
    /// Takes `bytes` more, if the holder and the budget allow.
    pub fn grow(&mut self, bytes: usize) -> Result<(), BodyProblem> {
        if !self.holder.take(bytes, self.budget.0.holder_bytes_max) {
            return Err(BodyProblem::ShareFull);
        }
        let taken = match &self.reading {
            None if self.budget.take(bytes) => Ok(()),
            reading => self.take_slowly(reading.as_deref(), bytes),
        };
        if taken.is_err() {
            self.holder.give_back(bytes);
        } else {
            self.bytes += bytes;
        }
        taken
    }

    fn take_slowly(&self, reading: Option<&Reading>, bytes: usize) -> Result<(), BodyProblem> {
        let mut readings = self.budget.0.readings.lock();
        if reading.is_some_and(Reading::was_given_up) {
            return Err(BodyProblem::TooSlow);
        }
        let own = reading.map(|reading| reading.number);
        self.budget.take_or_make_room(&mut readings, own, bytes)?;
        if let Some(reading) = reading {
            reading.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes sure that the share holds at least `bytes`, besides the overhead of receiving.
    pub fn hold(&mut self, bytes: usize) -> Result<(), BodyProblem> {
        let waiting = if self.reading.is_some() { READING_BYTES } else { 0 };
        let missing = (bytes + waiting).saturating_sub(self.bytes);
        if missing == 0 { Ok(()) } else { self.grow(missing) }
    }

    /// More parts will come, perhaps too slowly: from now on this body may be given up for others.
    pub fn begin_receiving(&mut self) -> Result<(), BodyProblem> {
        self.grow(READING_BYTES)?;
        let mut readings = self.budget.0.readings.lock();
        let number = readings.next;
        readings.next += 1;
        let reading = Arc::new(Reading {
            number,
            began: Instant::now(),
            bytes: AtomicUsize::new(self.bytes),
            given_up: AtomicBool::new(false),
            bell: Notify::new(),
        });
        readings.by_number.insert(number, Arc::clone(&reading));
        self.reading = Some(reading);
        Ok(())
    }

    /// The whole body has arrived; its share stays until it is dropped.
    pub fn end_receiving(&mut self) -> Result<(), BodyProblem> {
        let Some(reading) = &self.reading else { return Ok(()) };
        let mut readings = self.budget.0.readings.lock();
        if reading.was_given_up() {
            return Err(BodyProblem::TooSlow);
        }
        readings.by_number.remove(&reading.number);
        drop(readings);
        self.reading = None;
        Ok(())
    }

    /// Completes when this body is given up for others.
    pub async fn given_up(&self) {
        match &self.reading {
            Some(reading) => reading.bell.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Reading {
    fn was_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.holder.give_back(self.bytes);
        if let Some(reading) = &self.reading {
            let mut readings = self.budget.0.readings.lock();
            if reading.was_given_up() {
                return;
            }
            readings.by_number.remove(&reading.number);
        }
        self.budget.0.bytes_used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    fn holder() -> Arc<LoadCounter> {
        Arc::default()
    }

    fn receiving(budget: &MemoryBudget, bytes: usize) -> BudgetShare {
        let mut share = BudgetRoom { budget, holder: &holder() }.share();
        share.begin_receiving().unwrap();
        share.hold(bytes).unwrap();
        share
    }

    #[test]
    fn a_holder_is_limited_to_its_share() {
        let budget = MemoryBudget::new(100, 40);
        let (one, other) = (holder(), holder());
        let mut shares: Vec<_> =
            (0..2).map(|_| BudgetRoom { budget: &budget, holder: &one }.share()).collect();
        shares[0].grow(30).unwrap();

        assert_eq!(shares[1].grow(11), Err(BodyProblem::ShareFull));
        assert_eq!(shares[1].grow(10), Ok(()));
        let mut of_other = BudgetRoom { budget: &budget, holder: &other }.share();
        assert_eq!(of_other.grow(40), Ok(()));

        drop(shares);
        let mut again = BudgetRoom { budget: &budget, holder: &one }.share();
        assert_eq!(again.grow(40), Ok(()));
        drop((of_other, again));
        assert_eq!(budget.bytes_used(), 0);
    }

    #[test]
    fn a_refusal_takes_nothing() {
        let budget = MemoryBudget::new(50, 100);
        let own = holder();
        let mut share = BudgetRoom { budget: &budget, holder: &own }.share();
        share.grow(30).unwrap();

        assert_eq!(share.grow(30), Err(BodyProblem::NoRoom));
        assert_eq!(share.grow(20), Ok(()));

        drop(share);
        let mut again = BudgetRoom { budget: &budget, holder: &own }.share();
        assert_eq!(again.grow(50), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_as_many_slow_readings_as_needed_are_given_up_the_slowest_first() {
        let budget = MemoryBudget::new(64 * KIB, 64 * KIB);
        let slow = receiving(&budget, 4 * KIB);
        let slower = receiving(&budget, 2 * KIB);
        tokio::time::advance(Duration::from_secs(2)).await;
        let mut young = receiving(&budget, 30 * KIB);
        let mut whole = BudgetRoom { budget: &budget, holder: &holder() }.share();

        whole.grow(20 * KIB).unwrap();

        slower.given_up().await;
        assert_eq!(young.grow(1), Ok(()));
        let gone = tokio::time::timeout(Duration::from_secs(1), slow.given_up()).await;
        assert!(gone.is_err(), "there was enough memory without it");
        drop((slow, slower, young, whole));
        assert_eq!(budget.bytes_used(), 0, "a given-up share is returned once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_given_up_reading_gets_no_more_and_cannot_finish() {
        let budget = MemoryBudget::new(16 * KIB, 16 * KIB);
        let mut slow = receiving(&budget, 4 * KIB);
        tokio::time::advance(Duration::from_secs(2)).await;
        let mut whole = BudgetRoom { budget: &budget, holder: &holder() }.share();
        whole.grow(10 * KIB).unwrap();

        assert_eq!(slow.grow(1), Err(BodyProblem::TooSlow));
        assert_eq!(slow.end_receiving(), Err(BodyProblem::TooSlow));
    }

    #[tokio::test(start_paused = true)]
    async fn fast_and_finished_bodies_are_never_given_up() {
        let budget = MemoryBudget::new(200 * KIB, 200 * KIB);
        let fast = receiving(&budget, 150 * KIB);
        let mut all = receiving(&budget, 20 * KIB);
        all.end_receiving().unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;

        let mut late = BudgetRoom { budget: &budget, holder: &holder() }.share();

        assert_eq!(late.grow(100 * KIB), Err(BodyProblem::NoRoom));
        drop((fast, all));
        assert_eq!(late.grow(100 * KIB), Ok(()));
    }
}
