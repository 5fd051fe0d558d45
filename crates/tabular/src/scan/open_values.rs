//! Which brackets are open.

/// The closing bracket of each open value, the innermost last: a bit each, of which the last 64 are
/// at hand.
#[derive(Debug, Default)]
pub(super) struct OpenValues {
    pub(super) depth: usize,
    last: u64,
    before: Vec<u64>,
}

impl OpenValues {
    pub(super) fn push(&mut self, close: u8) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.before.push(self.last);
        }
        self.last = self.last << 1 | u64::from(close == b'}');
        self.depth += 1;
    }

    pub(super) fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.last >>= 1;
        if self.depth.is_multiple_of(64) {
            self.last = self.before.pop().unwrap_or_default();
        }
    }

    pub(super) const fn last(&self) -> Option<u8> {
        match (self.depth, self.last & 1) {
            (0, _) => None,
            (_, 0) => Some(b']'),
            _ => Some(b'}'),
        }
    }
}
