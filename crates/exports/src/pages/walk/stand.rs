//! The state of a walk, stored with the rows of each page so that another process can continue from
//! it.

use serde::{Deserialize, Serialize};

use super::super::next_page::NextPage;

/// The phase of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WalkPhase {
    /// From the top to the end.
    Down,
    /// Reading the head again.
    Head,
}

/// The state of a walk, without the ids that it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate observation")]
pub(crate) struct WalkState {
    pub(crate) phase: WalkPhase,
    pub(crate) next: NextPage,
    /// The number of rows up to the end of the last page, if known.
    pub(super) place: u64,
    /// How often in a row the last rows were not found.
    pub(super) back: u8,
    /// The end was reached, and is being confirmed by another request.
    pub(super) is_confirming: bool,
    /// The order of a list with cursors was disturbed: a row appeared twice.
    pub(super) is_disturbed: bool,
    /// A page was not in order of time.
    pub(super) is_unordered: bool,
    /// The walk ended before the end of the list, because the rest is older than the window.
    pub(super) is_cut: bool,
    pub(super) rereads: u8,
    pub(super) heads: u8,
    /// Consecutive repeated pages without anything new.
    pub(super) idle: u8,
    /// Pages since the top.
    pub(super) pages: u64,
    /// This walk from the top found new rows.
    pub(super) is_fruitful: bool,
    /// The length of the list, as last reported.
    pub(crate) total: Option<u64>,
    /// The smallest length reported since the top.
    pub(super) least: Option<u64>,
    /// The last rows.
    pub(super) tail: Vec<u64>,
    /// Points to go back to: ids before which, or cursors after which, the walk can continue.
    pub(super) anchors: Vec<String>,
}

impl WalkState {
    /// How often the list was read again from its top.
    pub(crate) const fn rereads(&self) -> u8 {
        self.rereads
    }

    /// The state before the first page.
    pub(super) const fn at_top() -> Self {
        Self {
            phase: WalkPhase::Down,
            next: NextPage::First,
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
