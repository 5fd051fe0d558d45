//! The order of the first rows of a list, used to see how far its head has moved.

use std::collections::{HashMap, HashSet};

/// The number of rows whose order is tracked. If the head moved further than that, the list counts
/// as changed.
const ROWS_MAX: usize = 10_000;

/// Rows by their position from the top, as last read.
#[derive(Debug, Default)]
pub(super) struct RowOrder {
    rows: Vec<u64>,
    /// The rows of the current reread, in order.
    again: Vec<u64>,
    places: HashMap<u64, usize>,
}

impl RowOrder {
    /// Appends a row.
    pub(super) fn add(&mut self, id: u64) {
        if self.rows.len() < ROWS_MAX {
            self.rows.push(id);
        }
    }

    /// Starts reading the list again from the top.
    pub(super) fn begin(&mut self) {
        self.again.clear();
        self.places = self.rows.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    }

    /// Adds rows of the reread.
    pub(super) fn note(&mut self, ids: &[u64]) {
        if self.again.len() < ROWS_MAX {
            self.again.extend(ids);
        }
    }

    /// The rows of the reread come first from now on, in their new order.
    pub(super) fn renew(&mut self) {
        let mut rows = std::mem::take(&mut self.again);
        let first: HashSet<u64> = rows.iter().copied().collect();
        rows.extend(self.rows.iter().filter(|id| !first.contains(id)));
        rows.truncate(ROWS_MAX);
        self.rows = rows;
    }

    /// Whether `rows` consecutive rows are in the order in which they were read before. Rows that
    /// moved to the front break the run.
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
