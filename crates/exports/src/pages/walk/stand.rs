//! Where a read stands: what is kept beside the rows of each page, so that another process can go on behind it.

use serde::{Deserialize, Serialize};

use super::super::resume_state::Next;

/// What the read is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum WalkPhase {
    /// It goes from the top to the end.
    Down,
    /// It reads the head again.
    Head,
}

/// Where a read stands, but for the ids that it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing by itself that was seen or not")]
pub(in super::super) struct WalkState {
    pub(in super::super) phase: WalkPhase,
    pub(in super::super) next: Next,
    /// Rows of the list up to the end of the last page, where that is known.
    pub(super) place: u64,
    /// How often in a row the last rows were not found.
    pub(super) back: u8,
    /// The end was seen, and is asked for once more.
    pub(super) is_confirming: bool,
    /// The order of a list with cursors was disturbed: a row came twice.
    pub(super) is_disturbed: bool,
    /// A page was not in the order of time.
    pub(super) is_unordered: bool,
    /// The walk ended before the end of the list: the rest is older than what is wanted.
    pub(super) is_cut: bool,
    pub(super) rereads: u8,
    pub(super) heads: u8,
    /// Pages without anything new, in a row.
    pub(super) idle: u8,
    /// Pages since the top.
    pub(super) pages: u64,
    /// This read from the top brought rows.
    pub(super) is_fruitful: bool,
    /// The length of the list, as told last.
    pub(in super::super) total: Option<u64>,
    /// The smallest length that was told since the top.
    pub(super) least: Option<u64>,
    /// The last rows.
    pub(super) tail: Vec<u64>,
    /// Ways back into what was read: ids before which, or cursors after which, it goes on.
    pub(super) anchors: Vec<String>,
}

impl WalkState {
    /// How often the list was read again from its top.
    pub(in super::super) const fn rereads(&self) -> u8 {
        self.rereads
    }

    /// Before the first page.
    pub(super) const fn at_top() -> Self {
        Self {
            phase: WalkPhase::Down,
            next: Next::First,
            place: 0,
            back: 0,
            is_confirming: false,
            is_disturbed: false,
            is_unordered: false,
            is_cut: false,
            rereads: 0,
            heads: 0,
            idle: 0,
            pages: 0,
            is_fruitful: false,
            total: None,
            least: None,
            tail: Vec::new(),
            anchors: Vec::new(),
        }
    }
}
