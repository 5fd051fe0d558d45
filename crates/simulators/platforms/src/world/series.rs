//! Which of a range of numbered things belong to a collection, by a rule instead of a list. A page
//! of a million fans is found by counting, without visiting those before it.

/// The things `0..total` whose number, modulo `period`, is one of `keep` (ascending).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    total: u64,
    period: u64,
    keep: &'static [u64],
}

impl Series {
    /// All things `0..total`.
    pub(crate) const fn all(total: u64) -> Self {
        Self { total, period: 1, keep: &[0] }
    }

    /// The things of `0..total` whose number modulo `period` is in `keep`.
    pub(crate) const fn of(total: u64, period: u64, keep: &'static [u64]) -> Self {
        Self { total, period, keep }
    }

    /// A number above all things of the range.
    pub(crate) const fn end(&self) -> u64 {
        self.total
    }

    /// The number of things that belong to it.
    pub(crate) fn count(&self) -> u64 {
        let rest = self.total % self.period;
        let in_rest = self.keep.iter().filter(|kept| **kept < rest).count() as u64;
        self.total / self.period * self.keep.len() as u64 + in_rest
    }

    /// The number of those below `end`.
    pub(crate) fn count_below(&self, end: u64) -> u64 {
        Self { total: self.total.min(end), ..*self }.count()
    }

    /// The thing at this position, counted from 0; `None` after the last.
    pub(crate) fn at(&self, place: u64) -> Option<u64> {
        if place >= self.count() {
            return None;
        }
        let kept = self.keep.len() as u64;
        let within = usize::try_from(place % kept).ok()?;
        Some(place / kept * self.period + self.keep.get(within)?)
    }

    /// The position of the thing; `None` if it does not belong to it.
    pub(crate) fn place_of(&self, index: u64) -> Option<u64> {
        if index >= self.total {
            return None;
        }
        let within = self.keep.iter().position(|kept| *kept == index % self.period)?;
        Some(index / self.period * self.keep.len() as u64 + within as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_finds_the_same_things_as_testing_each() {
        for total in 0..40 {
            let series = Series::of(total, 5, &[0, 1, 3]);

            let looked: Vec<u64> = (0..total).filter(|i| [0, 1, 3].contains(&(i % 5))).collect();
            let counted: Vec<u64> = (0..series.count()).filter_map(|n| series.at(n)).collect();

            assert_eq!(counted, looked);
            assert_eq!(series.at(series.count()), None);
            for (place, index) in looked.iter().enumerate() {
                assert_eq!(series.place_of(*index), Some(place as u64));
            }
            for end in 0..45 {
                let below = looked.iter().filter(|index| **index < end).count() as u64;
                assert_eq!(series.count_below(end), below);
            }
            assert_eq!(series.place_of(total), None);
            assert_eq!(series.place_of(2), None);
        }
    }
}
