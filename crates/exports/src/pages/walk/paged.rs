//! How a list is paged, and what of a page the way through it depends on.

use catalog::dataset::PagingStyle;

use super::super::resume_state::Next;
use super::TAIL_ROWS;

/// So many rows are asked for again with each page.
const OVERLAP: u64 = 8;

/// How the list is paged.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct ListPaging {
    pub(in super::super) style: PagingStyle,
    /// Rows of a page.
    pub(in super::super) size: u64,
    /// So many rows are asked for again with each page; without any, what moves is not looked after.
    pub(in super::super) overlap: u64,
}

impl ListPaging {
    /// A list that is read whole.
    pub(in super::super) fn whole(style: PagingStyle, size: u64) -> Self {
        Self { style, size, overlap: OVERLAP.min(size / 4) }
    }
}

/// One page, as far as the way through the list depends on it.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct PageSheet<'a> {
    /// Its rows by their ids, in order.
    pub(in super::super) ids: &'a [u64],
    /// Whether there is more, where the platform says so.
    pub(in super::super) more: Option<bool>,
    /// The next cursor.
    pub(in super::super) cursor: Option<&'a str>,
    /// The length of the whole list, where the platform tells it.
    pub(in super::super) total: Option<u64>,
    /// Ids as text at some places of the page, for a list that is read before an id: the last row but some.
    pub(in super::super) anchors: Vec<String>,
    /// Times never ascend on it.
    pub(in super::super) is_newest_first: bool,
    /// Its last rows are older than what is wanted.
    pub(in super::super) is_past: bool,
}

/// Which anchors a page of so many rows gives, by their places: its last row, the one before those that are asked for
/// again, and two further back.
pub(in super::super) fn anchors(
    count: usize,
    ListPaging { overlap, .. }: ListPaging,
) -> Vec<usize> {
    let overlap = usize::try_from(overlap).unwrap_or(0);
    let back = [0, overlap, TAIL_ROWS, count.saturating_sub(1)];
    back.iter().filter_map(|back| count.checked_sub(back.saturating_add(1))).collect()
}

/// The page that begins within the last rows before this place and reaches furthest beyond it.
pub(super) fn window(place: u64, ListPaging { size, overlap, .. }: ListPaging) -> Next {
    let from = place.saturating_sub(overlap);
    let pages = (size / 2 + 1..=size).map(|rows| (from / rows + 1, rows));
    let furthest = pages.max_by_key(|(number, rows)| number.saturating_mul(*rows));
    let (number, rows) = furthest.unwrap_or((1, size));
    Next::Page { number, size: rows }
}
