//! How a list is paged, and what the walk needs to know of a page.

use catalog::dataset::PagingStyle;

use super::super::next_page::NextPage;
use super::TAIL_ROWS;

/// The number of rows that each page overlaps.
const OVERLAP: u64 = 8;

/// How a list is paged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListPaging {
    pub(crate) style: PagingStyle,
    /// The number of rows on a page.
    pub(crate) size: u64,
    /// The number of rows that each page overlaps. With 0, moving rows are not tracked.
    pub(crate) overlap: u64,
}

impl ListPaging {
    /// A list that is read completely.
    pub(crate) fn whole(style: PagingStyle, size: u64) -> Self {
        Self { style, size, overlap: OVERLAP.min(size / 4) }
    }
}

/// What the walk needs to know of one page.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageSheet<'a> {
    /// The ids of its rows, in order.
    pub(crate) ids: &'a [u64],
    /// Whether more rows follow, if the platform says so.
    pub(crate) more: Option<bool>,
    /// The next cursor.
    pub(crate) cursor: Option<&'a str>,
    /// The length of the whole list, if the platform reports it.
    pub(crate) total: Option<u64>,
    /// Ids, as text, of some rows near the end of the page, for a before-id list.
    pub(crate) anchors: Vec<String>,
    /// The times never ascend on it.
    pub(crate) is_newest_first: bool,
    /// Its last rows are older than the window.
    pub(crate) is_past: bool,
}

/// The positions of a page's anchors: its last row, the one before the overlapping rows, and two
/// further back.
pub(crate) fn anchors(count: usize, ListPaging { overlap, .. }: ListPaging) -> Vec<usize> {
    let overlap = usize::try_from(overlap).unwrap_or(0);
    let back = [0, overlap, TAIL_ROWS, count.saturating_sub(1)];
    back.iter().filter_map(|back| count.checked_sub(back.saturating_add(1))).collect()
}

/// The page that begins within the overlap before this position and reaches furthest beyond it.
pub(super) fn window(place: u64, ListPaging { size, overlap, .. }: ListPaging) -> NextPage {
    let from = place.saturating_sub(overlap);
    let pages = (size / 2 + 1..=size).map(|rows| (from / rows + 1, rows));
    let furthest = pages.max_by_key(|(number, rows)| number.saturating_mul(*rows));
    let (number, rows) = furthest.unwrap_or((1, size));
    NextPage::Page { number, size: rows }
}
