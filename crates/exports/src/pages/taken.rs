//! One page taken in: its rows known by their ids, and those that lie in the window kept.
//!
//! Pure work on one body, without what was seen before.

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

/// Bodies from this length on are taken in beside the runtime's own threads.
const LARGE_BYTES: usize = 131_072;

/// So many rows at the end of a page must be older than what is wanted for the read to end with it.
const PAST_ROWS: usize = 20;

/// A page without what it is compared with.
#[derive(Debug, Default)]
pub(super) struct TakenPage {
    /// The rows that lie in the window, as they are written.
    pub(super) rows: PageRows,
    /// Which of the page's rows those are, by their places on it.
    places: Vec<usize>,
    /// All rows by their ids, in order.
    pub(super) ids: Vec<u64>,
    /// Ids as text from which a list that is read before an id goes on.
    anchors: Vec<String>,
    /// Times never ascend, where that was looked at.
    is_newest_first: bool,
    /// The last rows are older than the window.
    is_past: bool,
    /// What the page says of the list.
    more: Option<bool>,
    cursor: Option<String>,
    total: Option<u64>,
}

impl TakenPage {
    /// What the way through the list depends on.
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

    /// Keeps the rows that are new on their page, and gives those that are new and outside the window: their places
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

/// Takes in the page of this number, where others wait for the thread.
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
    let lost = |_| PageFault::for_now("platform_unavailable", "a page could not be taken in");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

/// Takes in the page of this number.
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
        let places = walk::anchors(page.rows.len(), super::paged(dataset));
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

/// Whether the times of a page descend, and how many of its last ones lie before a window.
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

    /// Whether so many of the last rows are older that none of what follows can lie in the window.
    fn is_past(&self, rows: usize) -> bool {
        rows > 0 && self.older >= PAST_ROWS.min(rows)
    }
}
