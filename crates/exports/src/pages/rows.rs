//! The rows of a page, in the platform's own text.

use std::ops::Range;

/// The rows taken from a page, each in the platform's own text.
#[derive(Debug, Clone, Default)]
pub struct PageRows {
    text: String,
    places: Vec<Range<usize>>,
}

impl PageRows {
    /// The rows at these ranges of a text.
    pub(super) const fn new(text: String, places: Vec<Range<usize>>) -> Self {
        Self { text, places }
    }

    /// The number of rows.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no rows.
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|place| self.text.get(place.clone()).unwrap_or_default())
    }

    /// Keeps the rows whose entry is true.
    pub(super) fn keep(&mut self, kept: &[bool]) {
        let mut kept = kept.iter().copied();
        self.places.retain(|_| kept.next().unwrap_or_default());
    }

    /// Keeps the first rows.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.places.truncate(rows);
    }
}
