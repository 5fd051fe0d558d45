//! Parses one page: identifies its rows by their ids, and selects those within the window.
//!
//! Works on one body, without what was seen before.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use catalog::Dataset;
use catalog::dataset::PagingStyle;
use domain::time::Timestamp;
use domain::window::DateWindow;

use super::body;
use super::fault::PageFault;
use super::rows::PageRows;
use super::scan;
use super::walk::{self, PageSheet};
use super::wanted_list::paged;

/// Bodies of at least this length are parsed on a blocking thread.
const LARGE_BYTES: usize = 131_072;

/// The number of rows at the end of a page that must be older than the window for the read to end
/// there.
const PAST_ROWS: usize = 20;

/// A parsed page, before it is compared with earlier ones.
#[derive(Debug, Default)]
pub(super) struct TakenPage {
    /// The rows within the window, in their original text.
    pub(super) rows: PageRows,
    /// The positions of those rows on the page.
    places: Vec<usize>,
    /// The ids of all rows, in order.
    pub(super) ids: Vec<u64>,
    /// Ids, as text, from which a before-id list can continue.
    anchors: Vec<String>,
    /// The times never ascend, if they were checked.
    is_newest_first: bool,
    /// The last rows are older than the window.
    is_past: bool,
    /// What the page says about the list.
    more: Option<bool>,
    cursor: Option<String>,
    total: Option<u64>,
}

impl TakenPage {
    /// What the walk through the list depends on.
    pub(super) fn sheet(&self) -> PageSheet<'_> {
        PageSheet {
            ids: &self.ids,
            more: self.more,
            cursor: self.cursor.as_deref(),
            total: self.total,
            anchors: self.anchors.clone(),
            is_newest_first: self.is_newest_first,
            is_past: self.is_past,
        }
    }

    /// Keeps the rows that are new, and returns the new ones outside the window: their positions
    /// among the new ones, and their ids.
    pub(super) fn keep_fresh(&mut self, fresh: &[bool]) -> Vec<(usize, u64)> {
        let is_fresh = |place: &usize| fresh.get(*place).copied().unwrap_or_default();
        if fresh.contains(&false) {
            let kept: Vec<bool> = self.places.iter().map(is_fresh).collect();
            self.rows.keep(&kept);
        }
        let new = self.ids.iter().enumerate().filter(|(place, _)| is_fresh(place)).enumerate();
        let mut taken = self.places.iter().peekable();
        let mut left_out = Vec::new();
        for (nth, (place, id)) in new {
            while taken.next_if(|taken| **taken < place).is_some() {}
            if taken.next_if(|taken| **taken == place).is_none() {
                left_out.push((nth, *id));
            }
        }
        left_out
    }
}

/// Parses a page, on a blocking thread if it is large.
pub(super) async fn take(
    dataset: &Arc<Dataset>,
    bytes: Bytes,
    window: DateWindow,
    number: u64,
) -> Result<TakenPage, PageFault> {
    if bytes.len() < LARGE_BYTES {
        return taken(dataset, bytes, window, number);
    }
    let dataset = Arc::clone(dataset);
    let work = move || taken(&dataset, bytes, window, number);
    let lost = |_| PageFault::for_now("platform_unavailable", "a page could not be parsed");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

/// Parses a page.
pub(super) fn taken(
    dataset: &Dataset,
    bytes: Bytes,
    window: DateWindow,
    number: u64,
) -> Result<TakenPage, PageFault> {
    let text = String::from_utf8(bytes.into())
        .map_err(|_| PageFault::malformed(number, "it is not UTF-8"))?;
    let page = body::read(dataset, &text, number)?;
    let mut taken = TakenPage {
        ids: page.rows.iter().map(|row| row.fingerprint).collect(),
        more: page.more,
        cursor: page.next,
        total: page.total,
        ..TakenPage::default()
    };
    if dataset.paging.style == PagingStyle::BeforeId {
        let places = walk::anchors(page.rows.len(), paged(dataset));
        let texts = places.iter().filter_map(|place| scan::plain(page.rows.get(*place)?.id));
        taken.anchors = texts.map(Cow::into_owned).collect();
    }
    let mut kept = Vec::with_capacity(page.rows.len());
    let mut order = TimeOrder::new(window);
    for (place, row) in page.rows.iter().enumerate() {
        let is_in = if window.is_open() {
            true
        } else {
            let time = body::time(dataset, row, number)?;
            order.see(time);
            time.is_some_and(|time| window.contains(time))
        };
        if is_in {
            kept.push(row.at..row.at.saturating_add(row.text.len()));
            taken.places.push(place);
        }
    }
    taken.is_newest_first = dataset.time.newest_first && order.is_newest_first;
    taken.is_past = taken.is_newest_first && order.is_past(page.rows.len());
    taken.rows = PageRows::new(text, kept);
    Ok(taken)
}

/// Whether the times of a page descend, and how many of its last rows lie before the window.
struct TimeOrder {
    window: DateWindow,
    last: Option<Timestamp>,
    is_newest_first: bool,
    older: usize,
}

impl TimeOrder {
    const fn new(window: DateWindow) -> Self {
        Self { window, last: None, is_newest_first: true, older: 0 }
    }

    fn see(&mut self, time: Option<Timestamp>) {
        let is_older = time.is_some_and(|time| self.window.is_before(time));
        self.older = if is_older { self.older.saturating_add(1) } else { 0 };
        if let Some(time) = time {
            self.is_newest_first &= self.last.is_none_or(|last| time <= last);
            self.last = Some(time);
        }
    }

    /// Whether enough of the last rows are older that nothing after them can lie in the window.
    fn is_past(&self, rows: usize) -> bool {
        rows > 0 && self.older >= PAST_ROWS.min(rows)
    }
}
