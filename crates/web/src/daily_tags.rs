//! How many different tags a customer uses on a UTC day.
//!
//! Spending is listed by tag, so callers must not be able to create unlimited tags. The count is
//! kept in memory, so that a call needs no further statement: each node counts its own, and after a
//! start from zero.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use domain::call_tag::CallTag;
use domain::id::CustomerId;
use domain::time::{Timestamp, UtcDay};
use failures::Failure;
use parking_lot::Mutex;

/// The tags that each customer has used today.
#[derive(Debug)]
pub struct DailyTags {
    tags_max: usize,
    today: Mutex<UsedTags>,
}

/// The tags of one day. Hashes of them are enough to count them.
#[derive(Debug)]
struct UsedTags {
    day: UtcDay,
    customers: HashMap<CustomerId, HashSet<u64>>,
    hasher: RandomState,
}

impl DailyTags {
    /// Allows this number of different tags per customer and day.
    pub fn new(tags_max: usize) -> Self {
        let (customers, hasher) = (HashMap::new(), RandomState::new());
        let today = UsedTags { day: UtcDay::from_number(0), customers, hasher };
        Self { tags_max, today: Mutex::new(today) }
    }

    /// Counts a tag. Refuses one that the customer has not used today if it has used the maximum.
    pub fn admit(
        &self,
        customer: CustomerId,
        tag: &CallTag,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let mut today = self.today.lock();
        if today.day != now.day() {
            today.day = now.day();
            today.customers = HashMap::new();
        }
        let hash = today.hasher.hash_one(tag);
        let used = today.customers.entry(customer).or_default();
        if used.contains(&hash) {
            return Ok(());
        }
        if used.len() >= self.tags_max {
            return Err(Failure::TooManyTags(self.tags_max));
        }
        used.insert(hash);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_per_customer_and_day_are_limited_and_known_ones_stay_accepted() {
        let tags = DailyTags::new(2);
        let noon = Timestamp::from_unix_micros(1_790_000_000_000_000);
        let customer = |number| CustomerId::new(noon, [number; 10]);
        let is_accepted =
            |of, text: &str, at| tags.admit(customer(of), &text.parse().unwrap(), at).is_ok();

        assert!(is_accepted(1, "a", noon) && is_accepted(1, "b", noon));
        assert!(!is_accepted(1, "c", noon));
        assert!(is_accepted(1, "a", noon));
        assert!(is_accepted(2, "c", noon));
        assert!(is_accepted(1, "c", noon.plus_seconds(86_400)));
    }
}
