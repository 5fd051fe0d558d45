//! Values of a file or an address, as they were read.

use std::sync::Arc;

use tokio::time::Instant;
use zeroize::Zeroizing;

/// One good reading.
pub(crate) struct KeptValues {
    pub(super) names: Arc<[String]>,
    /// In the order of the names.
    pub(super) values: Vec<Zeroizing<String>>,
    pub(super) read_at: Instant,
}

impl KeptValues {
    /// The value of a name; nothing where nobody asked for it when they were read.
    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        self.get(self.names.iter().position(|known| known == name)?)
    }

    /// The value of a name, by its place among the names.
    pub(crate) fn get(&self, index: usize) -> Option<&str> {
        self.values.get(index).map(|value| value.as_str())
    }
}
