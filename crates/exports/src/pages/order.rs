//! The order in which the first rows of a list were read, to see how far its head has moved since.

use std::collections::{HashMap, HashSet};

/// So many rows are ordered. A head that moved further is not recognised, and its list counts as changed.
const ROWS_MAX: usize = 10_000;

/// Rows by their places from the top, as they were read last.
#[derive(Debug, Default)]
pub(super) struct RowOrder {
    rows: Vec<u64>,
    /// Those that are read again, in their order.
    again: Vec<u64>,
    places: HashMap<u64, usize>,
}

impl RowOrder {
    /// Puts a row behind all others.
    pub(super) fn add(&mut self, id: u64) {
        if self.rows.len() < ROWS_MAX {
            self.rows.push(id);
        }
    }

    /// The list is going to be read again, from the top.
    pub(super) fn begin(&mut self) {
        self.again.clear();
        self.places = self.rows.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    }

    /// Takes in rows that are read again.
    pub(super) fn note(&mut self, ids: &[u64]) {
        if self.again.len() < ROWS_MAX {
            self.again.extend(ids);
        }
    }

    /// The rows that were read again come first from now on, as they stood then.
    pub(super) fn renew(&mut self) {
        let mut rows = std::mem::take(&mut self.again);
        let first: HashSet<u64> = rows.iter().copied().collect();
        rows.extend(self.rows.iter().filter(|id| !first.contains(id)));
        rows.truncate(ROWS_MAX);
        self.rows = rows;
    }

    /// Whether so many of these rows in a row stand in the order in which they were read before. Those that moved to the
    /// front do not.
    pub(super) fn has_run(&mut self, ids: &[u64], rows: usize) -> bool {
        if self.places.is_empty() {
            self.begin();
        }
        let (mut run, mut last) = (0, None);
        for id in ids {
            let place = self.places.get(id).copied();
            run = match place {
                None => 0,
                Some(_) if last.is_some() && place > last => run + 1,
                Some(_) => 1,
            };
            last = place;
            if run >= rows {
                return true;
            }
        }
        false
    }
}
