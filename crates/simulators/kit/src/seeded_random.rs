//! Repeatable randomness: every number is determined by the seed and by what it is for.

/// A stream of numbers that is determined by its seed (`SplitMix64`).
#[derive(Clone, Copy, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The numbers of one thing: number `index` of its `kind` in a world with this seed.
    pub fn of(seed: u64, kind: u64, index: u64) -> Self {
        Self(mix(mix(mix(seed) ^ kind) ^ index))
    }

    /// The next number; all 64 bits are equally distributed.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 to `end`, exclusive; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw().checked_rem(end).unwrap_or(0)
    }

    /// A number from `first` to `last`, inclusive.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        match last.saturating_sub(first).checked_add(1) {
            Some(count) => first + self.below(count),
            None => self.draw(),
        }
    }

    /// True in `percent` of 100 cases.
    pub fn in_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the given words; empty if there are none.
    pub fn pick(&mut self, words: &[&'static str]) -> &'static str {
        let at = self.below(words.len() as u64);
        usize::try_from(at).ok().and_then(|at| words.get(at)).copied().unwrap_or_default()
    }
}

/// Spreads adjacent numbers over all 64 bits.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn drawn(mut random: SeededRandom) -> [u64; 4] {
        std::array::from_fn(|_| random.draw())
    }

    #[test]
    fn the_same_seed_draws_the_same_numbers_and_each_thing_has_its_own() {
        let all = [(1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0, 1), (0, 0, 1)];
        let of = |(seed, kind, index)| drawn(SeededRandom::of(seed, kind, index));

        assert_eq!(of(all[0]), of(all[0]));
        let different: BTreeSet<[u64; 4]> = all.into_iter().map(of).collect();
        assert_eq!(different.len(), all.len());
    }

    /// Worlds that people know by their seed stay the same: the first numbers are written down.
    #[test]
    fn numbers_never_change_between_versions() {
        assert_eq!([mix(0), mix(1)], [16_294_208_416_658_607_535, 10_451_216_379_200_822_465]);
    }

    #[test]
    fn a_range_has_both_its_ends_and_nothing_else() {
        let mut random = SeededRandom::of(1, 2, 3);

        let seen: BTreeSet<u64> = (0..500).map(|_| random.between(3, 6)).collect();

        assert_eq!(seen, BTreeSet::from([3, 4, 5, 6]));
        assert_eq!(random.between(9, 9), 9);
        assert_eq!(random.between(9, 2), 9);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert!((0..100).all(|_| random.between(u64::MAX - 1, u64::MAX) >= u64::MAX - 1));
        let mut twin = random;
        assert_eq!(random.between(0, u64::MAX), twin.draw());
    }

    #[test]
    fn percentages_have_their_ends_and_words_their_list() {
        let mut random = SeededRandom::of(1, 0, 0);

        assert!((0..200).all(|_| random.in_percent(100)));
        assert!(!(0..200).any(|_| random.in_percent(0)));
        let half = (0..1_000).filter(|_| random.in_percent(50)).count();
        assert!((400..600).contains(&half), "{half}");
        let picked: BTreeSet<&str> = (0..100).map(|_| random.pick(&["a", "b"])).collect();
        assert_eq!(picked, BTreeSet::from(["a", "b"]));
        assert_eq!(random.pick(&[]), "");
    }
}
