//! Counts of things that are going on at present, by key.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use parking_lot::Mutex;

/// A power of two; keys of different shards never wait for each other.
const SHARDS: usize = 16;

/// How many of each key are going on. Keys with none take no memory.
#[derive(Debug)]
pub(crate) struct KeyedCount<K> {
    hasher: RandomState,
    shards: [Mutex<HashMap<K, usize>>; SHARDS],
}

/// One that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<K: Eq + Hash> {
    counts: Arc<KeyedCount<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> KeyedCount<K> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
        }
    }

    /// Counts one more of `key`, unless there are `max` already.
    pub(crate) fn enter(self: &Arc<Self>, key: K, max: usize) -> Option<Counted<K>> {
        let mut shard = self.shard(&key).lock();
        match shard.get_mut(&key) {
            Some(count) if *count < max => *count += 1,
            None if max > 0 => drop(shard.insert(key.clone(), 1)),
            Some(_) | None => return None,
        }
        drop(shard);
        Some(Counted { counts: Arc::clone(self), key })
    }
}

impl<K: Eq + Hash> KeyedCount<K> {
    #[expect(clippy::indexing_slicing, reason = "the index is taken modulo the length")]
    fn shard(&self, key: &K) -> &Mutex<HashMap<K, usize>> {
        let hash = self.hasher.hash_one(key);
        // The map uses the low bits of its own hash; which bits are used here does not matter.
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }

    fn leave(&self, key: &K) {
        let mut shard = self.shard(key).lock();
        if let Some(count) = shard.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                shard.remove(key);
            }
        }
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        self.counts.leave(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_has_more_than_its_maximum() {
        let counts = Arc::new(KeyedCount::new());
        let first = counts.enter("a", 2).unwrap();
        let _second = counts.enter("a", 2).unwrap();

        assert!(counts.enter("a", 2).is_none());
        assert!(counts.enter("b", 2).is_some());
        drop(first);

        assert!(counts.enter("a", 2).is_some());
    }

    #[test]
    fn keys_with_nothing_going_on_take_no_memory() {
        let counts = Arc::new(KeyedCount::new());

        let held: Vec<_> = (0..100).map(|key| counts.enter(key, 1).unwrap()).collect();
        drop(held);

        assert!(counts.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn a_refusal_at_a_maximum_of_zero_leaves_nothing_behind() {
        let counts = Arc::new(KeyedCount::new());

        assert!(counts.enter("a", 0).is_none());

        assert!(counts.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn many_threads_at_once_stay_within_the_maximum() {
        let counts = Arc::new(KeyedCount::new());

        let entered: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let held: Vec<_> = (0..100).filter_map(|_| counts.enter("a", 50)).collect();
                        let held_count = held.len();
                        // Held until every thread is done, so that no place is used twice.
                        std::mem::forget(held);
                        held_count
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });

        assert_eq!(entered, 50);
    }
}
