//! How long the writer's transactions usually take.

use std::time::Duration;

/// How many transactions are looked at: few enough to follow a load within a second, enough that
/// single slow ones do not matter.
const LATEST: usize = 7;

/// The times of the latest transactions.
#[derive(Debug, Default)]
pub(super) struct CommitTimes {
    latest: [Duration; LATEST],
    added: usize,
    usual: Duration,
}

impl CommitTimes {
    /// Adds the time of a transaction.
    pub(super) fn add(&mut self, took: Duration) {
        if let Some(oldest) = self.latest.get_mut(self.added % LATEST) {
            *oldest = took;
        }
        self.added = self.added.wrapping_add(1);
        let mut sorted = self.latest;
        sorted.sort_unstable();
        self.usual = sorted.get(LATEST / 2).copied().unwrap_or_default();
    }

    /// The median of the latest; zero until more than half as many were added.
    pub(super) fn usual(&self) -> Duration {
        self.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_three_slow_transactions_of_seven_do_not_count() {
        let mut times = CommitTimes::default();
        let ms = Duration::from_millis;
        for took in [10, 3_000, 12, 3_000, 11, 3_000, 9] {
            times.add(ms(took));
        }
        assert_eq!(times.usual(), ms(12));
        times.add(ms(3_000));
        assert_eq!(times.usual(), ms(3_000));
        for _ in 0..4 {
            times.add(ms(8));
        }
        assert_eq!(times.usual(), ms(8));
    }
}
