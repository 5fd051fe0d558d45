//! Holds that are parked until their call ends, a caller waits for them, or their time is up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::HoldRequest;

/// A parked hold. It is taken by the caller that waits for it or settles its call, or by the queue
/// when its time is up.
#[derive(Clone)]
pub(crate) struct ParkedHold(Arc<Mutex<ParkingPlace>>);

struct ParkingPlace {
    request: Option<HoldRequest>,
    is_resting: bool,
}

/// A hold taken from where it was parked.
pub(super) struct TakenHold {
    pub(super) request: HoldRequest,
    pub(super) was_resting: bool,
}

impl ParkedHold {
    pub(super) fn new(request: HoldRequest) -> Self {
        Self(Arc::new(Mutex::new(ParkingPlace { request: Some(request), is_resting: false })))
    }

    fn place(&self) -> MutexGuard<'_, ParkingPlace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Option<TakenHold> {
        let mut place = self.place();
        let was_resting = place.is_resting;
        place.request.take().map(|request| TakenHold { request, was_resting })
    }

    /// Lets it rest. False if it was already taken.
    pub(super) fn rest(&self) -> bool {
        let mut place = self.place();
        place.is_resting = true;
        place.request.is_some()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.place().request.is_none()
    }
}

/// How long a hold may be parked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParkingTime {
    /// For how long settlements are gathered for it; then it rests.
    pub(crate) fresh: Duration,
    /// When it is written in any case.
    pub(crate) whole: Duration,
}

/// A parked hold in the queue.
pub(super) struct ParkedEntry {
    pub(super) rests_at: Instant,
    pub(super) due: Instant,
    pub(super) hold: ParkedHold,
}
