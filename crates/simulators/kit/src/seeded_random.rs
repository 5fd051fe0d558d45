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
        first + self.below(last.saturating_sub(first) + 1)
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
