//! What was seen before: ids, pages and cursors as 64-bit fingerprints, so that repetitions are
//! noticed.
//!
//! Among a million ids, two different ones collide once in about forty million exports; such an
//! export fails and can be repeated.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// The maximum number of ids that are remembered: about 30 MiB.
pub(super) const IDS_MAX: usize = 3_000_000;

/// The fingerprint of a text.
pub(super) fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The position, from 1, of the first id that appears twice.
pub(super) fn repeated(ids: &[u64]) -> Option<usize> {
    let mut met = std::collections::HashSet::with_capacity(ids.len());
    ids.iter().position(|id| !met.insert(*id)).map(|place| place.saturating_add(1))
}

/// The fingerprint of a page: of its rows' fingerprints in order.
pub(super) fn of_page(ids: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for id in ids {
        hasher.write_u64(*id);
    }
    hasher.finish()
}

/// The pages and cursors of a list seen so far.
#[derive(Debug, Default)]
pub(super) struct SeenPages {
    /// The number of a page, by its fingerprint.
    pages: HashMap<u64, u64>,
    cursors: HashMap<u64, u64>,
    rereads: u8,
}

impl SeenPages {
    /// Whether a page had these rows before.
    pub(super) fn has_page(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// The page that returned this cursor before.
    pub(super) fn earlier_cursor(&self, cursor: &str) -> Option<u64> {
        self.cursors.get(&fingerprint(cursor)).copied()
    }

    /// Follows the number of rereads from the top: with each one, earlier cursors may appear again.
    pub(super) fn follow(&mut self, rereads: u8) {
        if self.rereads != rereads {
            self.rereads = rereads;
            self.cursors.clear();
        }
    }

    /// Remembers a page by its rows.
    pub(super) fn add_page(&mut self, page: u64, number: u64) {
        self.pages.insert(page, number);
    }

    /// Remembers a cursor and the page that returned it.
    pub(super) fn add_cursor(&mut self, cursor: &str, number: u64) {
        self.cursors.insert(fingerprint(cursor), number);
    }
}

/// The number of parts of a set, each of which grows separately.
const PARTS: usize = 256;
/// The number of places in a block. Blocks are not moved or freed before the set is, so growing
/// leaves no fragments of odd sizes for the allocator.
const BLOCK: usize = 256;

/// A set of fingerprints that uses 9 to 12 bytes for each.
#[derive(Debug)]
pub(super) struct FingerprintSet {
    parts: Vec<FingerprintTable>,
    count: usize,
    /// A buffer for a part's keys while they are rehashed.
    moved: Vec<u64>,
}

/// Open addressing with linear probing; 0 is an empty place.
#[derive(Debug, Default, Clone)]
struct FingerprintTable {
    blocks: Vec<Box<[u64]>>,
    count: usize,
}

impl Default for FingerprintSet {
    fn default() -> Self {
        Self { parts: vec![FingerprintTable::default(); PARTS], count: 0, moved: Vec::new() }
    }
}

impl FingerprintSet {
    /// The number of fingerprints.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Whether the set contains it.
    pub(super) fn has(&self, fingerprint: u64) -> bool {
        let key = key(fingerprint);
        self.parts.get(part_of(key)).is_some_and(|part| part.has(key))
    }

    /// Adds it; false if it was already there.
    pub(super) fn add(&mut self, fingerprint: u64) -> bool {
        let key = key(fingerprint);
        let Some(part) = self.parts.get_mut(part_of(key)) else { return false };
        let is_new = part.add(key, &mut self.moved);
        self.count += usize::from(is_new);
        is_new
    }
}

/// 0 marks empty places, so it is stored as 1.
const fn key(fingerprint: u64) -> u64 {
    if fingerprint == 0 { 1 } else { fingerprint }
}

/// The part is chosen by the upper bits, the place within it by the lower ones.
fn part_of(key: u64) -> usize {
    usize::try_from(key >> 56).unwrap_or(0)
}

impl FingerprintTable {
    const fn length(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    fn at(&mut self, place: usize) -> Option<&mut u64> {
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)
    }

    fn has(&self, key: u64) -> bool {
        let length = self.length();
        let Some(start) = first_place(key, length) else { return false };
        let at = |place: usize| self.blocks.get(place / BLOCK).and_then(|it| it.get(place % BLOCK));
        (start..length)
            .chain(0..start)
            .map_while(at)
            .find(|it| **it == 0 || **it == key)
            .is_some_and(|found| *found == key)
    }

    /// Inserts the key; false if it is already there or there is no room.
    fn put(&mut self, key: u64) -> bool {
        let length = self.length();
        let Some(start) = first_place(key, length) else { return false };
        for place in (start..length).chain(0..start) {
            match self.at(place) {
                Some(free) if *free == 0 => {
                    *free = key;
                    return true;
                }
                Some(known) if *known == key => return false,
                Some(_) | None => {}
            }
        }
        false
    }

    fn add(&mut self, key: u64, moved: &mut Vec<u64>) -> bool {
        // At most seven of eight places are used, one of them by a key that may turn out to be
        // known.
        if (self.count + 1) * 8 > self.length() * 7 {
            self.grow(moved);
        }
        let is_new = self.put(key);
        self.count += usize::from(is_new);
        is_new
    }

    /// Grows by an eighth, and at least by one block.
    fn grow(&mut self, moved: &mut Vec<u64>) {
        moved.clear();
        for block in &mut self.blocks {
            moved.extend(block.iter().filter(|key| **key != 0));
            block.fill(0);
        }
        let more = self.blocks.len() / 8 + 1;
        self.blocks.extend((0..more).map(|_| vec![0; BLOCK].into_boxed_slice()));
        for key in moved {
            self.put(*key);
        }
    }
}

/// A number below `length`, determined by the lower bits of the key.
fn first_place(key: u64, length: usize) -> Option<usize> {
    let low = u128::from(key << 8);
    let scaled = (low * u128::try_from(length).ok()?) >> 64;
    usize::try_from(scaled).ok().filter(|place| *place < length)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_take_at_most_twelve_bytes_each() {
        const COUNT: u64 = 200_000;
        let mut set = FingerprintSet::default();

        for number in 0..COUNT {
            assert!(set.add(fingerprint(&number.to_string())));
        }

        assert_eq!(set.count as u64, COUNT);
        assert!((0..COUNT).all(|number| !set.add(fingerprint(&number.to_string()))));
        assert!(!set.has(fingerprint("another")));
        let bytes: usize = set.parts.iter().map(|part| part.length() * 8).sum();
        assert!(bytes as u64 <= COUNT * 12, "{bytes}");
    }

    #[test]
    fn pages_and_cursors_are_recognised() {
        let mut seen = SeenPages::default();

        seen.add_page(of_page(&[1, 2]), 7);
        seen.add_cursor("a", 8);

        assert!(seen.has_page(of_page(&[1, 2])) && !seen.has_page(of_page(&[2, 1])));
        assert_eq!((seen.earlier_cursor("a"), seen.earlier_cursor("b")), (Some(8), None));
        seen.follow(0);
        assert_eq!(seen.earlier_cursor("a"), Some(8));
        seen.follow(1);
        assert_eq!(seen.earlier_cursor("a"), None);
    }

    proptest! {
        #[test]
        fn fingerprint_set_behaves_like_a_set(
            keys in proptest::collection::vec(
                prop_oneof![0_u64..40, any::<u64>(), Just(u64::MAX), (0_u64..40).prop_map(|low| low << 50)],
                0..400,
            )
        ) {
            let mut set = FingerprintSet::default();
            let mut expected = HashSet::new();
            for fingerprint in keys {
                prop_assert_eq!(set.has(fingerprint), expected.contains(&key(fingerprint)));
                prop_assert_eq!(set.add(fingerprint), expected.insert(key(fingerprint)));
                prop_assert!(set.has(fingerprint));
            }
            prop_assert_eq!(set.count, expected.len());
        }
    }
}
