//! Counts what is in progress, by owner: calls, connections, bytes. Many threads may count; no
//! limit is exceeded.
//!
//! A caller that counts often should look up its [`LoadCounter`] once and keep it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// With fewer remembered loads than this, unused ones are not searched for.
const REMEMBERED_MIN: usize = 1_024;

/// The current load of one customer, account or address: a number of things, or of bytes.
#[derive(Debug, Default)]
pub struct LoadCounter(AtomicUsize);

impl LoadCounter {
    /// Adds `amount`, unless the load would exceed `max`.
    pub fn take(&self, amount: usize, max: usize) -> bool {
        let more = |load: usize| load.checked_add(amount).filter(|load| *load <= max);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Subtracts `amount`.
    pub fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }
}

impl LoadCounter {
    /// The current load.
    pub fn amount(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts one until it is dropped.
#[derive(Debug)]
pub struct LoadGuard(Arc<LoadCounter>);

/// The loads in use, by owner.
#[derive(Debug)]
pub struct LoadMap<K>(Mutex<RememberedLoads<K>>);

#[derive(Debug)]
struct RememberedLoads<K> {
    by_key: HashMap<K, Weak<LoadCounter>>,
    /// The number of loads at which unused ones are removed.
    full_at: usize,
}

impl LoadGuard {
    /// Counts one more, unless the load is already `max`.
    pub fn enter(load: &Arc<LoadCounter>, max: usize) -> Option<Self> {
        load.take(1, max).then(|| Self(Arc::clone(load)))
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

impl<K: Hash + Eq> Default for LoadMap<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq> LoadMap<K> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self(Mutex::new(RememberedLoads { by_key: HashMap::new(), full_at: REMEMBERED_MIN }))
    }

    /// The load of this key: the same one for all callers, as long as it is in use.
    pub fn of(&self, key: K) -> Arc<LoadCounter> {
        let mut remembered = self.0.lock();
        if remembered.by_key.len() >= remembered.full_at {
            remembered.forget_unused();
        }
        let place = remembered.by_key.entry(key).or_default();
        place.upgrade().unwrap_or_else(|| {
            let load = Arc::default();
            *place = Arc::downgrade(&load);
            load
        })
    }
}

impl<K: Hash + Eq> RememberedLoads<K> {
    fn forget_unused(&mut self) {
        self.by_key.retain(|_, load| load.strong_count() > 0);
        self.by_key.shrink_to_fit();
        self.full_at = (self.by_key.len() * 2).max(REMEMBERED_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_shared_as_long_as_it_is_in_use() {
        let loads = LoadMap::new();
        let first = loads.of("a");

        assert!(Arc::ptr_eq(&first, &loads.of("a")));
        assert!(!Arc::ptr_eq(&first, &loads.of("b")));
    }

    #[test]
    fn unused_loads_are_removed() {
        let loads = LoadMap::new();
        let kept = loads.of(0);

        for key in 1..100_000 {
            drop(loads.of(key));
        }

        assert!(loads.0.lock().by_key.len() <= REMEMBERED_MIN);
        assert!(Arc::ptr_eq(&kept, &loads.of(0)));
    }

    #[test]
    fn concurrent_threads_stay_within_the_maximum() {
        let load = Arc::default();

        let entered: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let held: Vec<_> =
                            (0..100).filter_map(|_| LoadGuard::enter(&load, 50)).collect();
                        let held_count = held.len();
                        // Held until every thread is done, so that no unit is counted twice.
                        std::mem::forget(held);
                        held_count
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });

        assert_eq!(entered, 50);
    }

    #[test]
    fn a_load_takes_up_to_its_maximum_and_nothing_that_would_overflow() {
        let load = LoadCounter::default();

        assert!(load.take(3, 5) && !load.take(3, 5) && load.take(2, 5));
        assert!(!load.take(usize::MAX, usize::MAX), "the sum has no number");
        assert_eq!(load.amount(), 5);
        assert!(!load.take(0, 4), "a limit that was lowered holds for what is there");
        load.give_back(5);
        assert!(load.take(usize::MAX, usize::MAX));
    }

    #[test]
    fn a_dropped_guard_makes_room_for_another() {
        let load = Arc::default();
        let held = LoadGuard::enter(&load, 1).unwrap();
        assert!(LoadGuard::enter(&load, 1).is_none() && LoadGuard::enter(&load, 0).is_none());

        drop(held);

        assert!(LoadGuard::enter(&load, 1).is_some());
        assert_eq!(load.amount(), 0);
    }

    #[test]
    fn a_load_in_use_survives_that_others_are_forgotten() {
        let loads = LoadMap::default();
        let held: Vec<Arc<LoadCounter>> =
            (0..REMEMBERED_MIN * 3).map(|key| loads.of(key)).collect();
        for (amount, load) in (1..).zip(&held) {
            assert!(load.take(amount, usize::MAX));
        }
        for key in REMEMBERED_MIN * 3..REMEMBERED_MIN * 20 {
            drop(loads.of(key));
        }

        for (key, load) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(load, &loads.of(key)), "{key}");
            assert_eq!(load.amount(), key + 1);
        }
        assert!(loads.0.lock().by_key.len() <= held.len() * 2, "unused ones are forgotten");
    }
}
