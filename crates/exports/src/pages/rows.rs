//! The rows of a page, in the text that the platform wrote.

use std::ops::Range;

/// The rows of a page that are taken, each as the platform wrote it.
#[derive(Debug, Clone, Default)]
pub struct PageRows {
    text: String,
    places: Vec<Range<usize>>,
}

impl PageRows {
    /// The rows at these places of a text.
    pub(super) const fn new(text: String, places: Vec<Range<usize>>) -> Self {
        Self { text, places }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|place| self.text.get(place.clone()).unwrap_or_default())
    }

    /// Leaves those for which this says so, by their places.
    pub(super) fn keep(&mut self, kept: &[bool]) {
        let mut kept = kept.iter().copied();
        self.places.retain(|_| kept.next().unwrap_or_default());
    }

    /// Leaves the first ones.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.places.truncate(rows);
    }
}
