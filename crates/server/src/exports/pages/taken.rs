//! One page taken in: its rows known by their ids, and those that lie in the window kept.
//!
//! Pure work on one body, without what was seen before.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use catalog::Dataset;
use catalog::dataset::PagingStyle;
use domain::window::Window;

use super::body;
use super::fault::PageFault;
use super::point::Next;
use super::rows::Rows;
use super::scan;

/// Bodies from this length on are taken in beside the runtime's own threads.
const LARGE_BYTES: usize = 131_072;

/// A page without what it is compared with.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The rows that lie in the window, as they are written.
    pub(super) rows: Rows,
    /// All rows by their ids, in order.
    pub(super) ids: Vec<u64>,
    /// The rows outside the window by their ids.
    pub(super) left_out: Vec<u64>,
    /// The id of the last row.
    pub(super) last_id: Option<String>,
    /// What the page says of the list.
    pub(super) more: Option<bool>,
    pub(super) cursor: Option<String>,
    pub(super) total: Option<u64>,
}

/// Takes in the page of this number, where others wait for the thread.
pub(super) async fn take(
    dataset: &Arc<Dataset>,
    bytes: Bytes,
    window: Window,
    number: u64,
) -> Result<Taken, PageFault> {
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
    window: Window,
    number: u64,
) -> Result<Taken, PageFault> {
    let text = String::from_utf8(bytes.into())
        .map_err(|_| PageFault::malformed(number, "it is not UTF-8"))?;
    let page = body::read(dataset, &text, number)?;
    let mut taken = Taken {
        ids: page.rows.iter().map(|row| row.fingerprint).collect(),
        last_id: page.rows.last().and_then(|row| scan::plain(row.id)).map(Cow::into_owned),
        more: page.more,
        cursor: page.next,
        total: page.total,
        ..Taken::default()
    };
    let mut kept = Vec::with_capacity(page.rows.len());
    for row in &page.rows {
        let is_in = window.is_open()
            || body::time(dataset, row, number)?.is_some_and(|time| window.contains(time));
        if is_in {
            kept.push(row.at..row.at.saturating_add(row.text.len()));
        } else {
            taken.left_out.push(row.fingerprint);
        }
    }
    taken.rows = Rows::new(text, kept);
    Ok(taken)
}

/// What comes after a page, by itself: `seen` rows came before it, and `asked` is how it was asked for.
pub(super) fn after(
    dataset: &Dataset,
    taken: &Taken,
    (asked, seen): (&Next, u64),
    number: u64,
) -> Result<Next, PageFault> {
    let paging = &dataset.paging;
    let count = u64::try_from(taken.ids.len()).unwrap_or(u64::MAX);
    let size = u64::from(paging.size);
    if count > size {
        let problem = format!("it has {count} rows, {size} were asked for");
        return Err(PageFault::malformed(number, &problem));
    }
    if matches!(asked, Next::Confirm(_)) {
        return if count == 0 { Ok(Next::Last) } else { Err(short(number.saturating_sub(1))) };
    }
    let offset = seen.saturating_add(count);
    let more = match paging.style {
        PagingStyle::Cursor => Some(taken.cursor.is_some()),
        PagingStyle::Offset | PagingStyle::Page | PagingStyle::BeforeId => taken.more,
    };
    match more {
        Some(false) => Ok(Next::Last),
        Some(true) if count == 0 => {
            let message = format!("page {number} has no rows and says that there is more");
            Err(PageFault::last("empty_page", message))
        }
        Some(true) if count < size => Err(short(number)),
        Some(true) => turned(paging.style, taken, asked, (offset, number)),
        None if count == size => turned(paging.style, taken, asked, (offset, number)),
        // The list tells its length, or there is nothing to confirm.
        None if count == 0 || taken.total.is_some() => Ok(Next::Last),
        None => match paging.style {
            PagingStyle::BeforeId => turned(paging.style, taken, asked, (offset, number)),
            PagingStyle::Offset | PagingStyle::Page | PagingStyle::Cursor => {
                Ok(Next::Confirm(offset))
            }
        },
    }
}

fn turned(
    style: PagingStyle,
    taken: &Taken,
    asked: &Next,
    (offset, number): (u64, u64),
) -> Result<Next, PageFault> {
    let next = match style {
        PagingStyle::Offset => Some(Next::Offset(offset)),
        PagingStyle::Page => Some(Next::Page(match asked {
            Next::Page(page) => page.saturating_add(1),
            _ => 2,
        })),
        PagingStyle::Cursor => taken.cursor.clone().map(Next::Cursor),
        PagingStyle::BeforeId => taken.last_id.clone().map(Next::Before),
    };
    next.ok_or_else(|| PageFault::malformed(number, "it tells no way to the next page"))
}

fn short(number: u64) -> PageFault {
    let message = format!(
        "page {number} has fewer rows than were asked for although more follow: rows may be missing"
    );
    PageFault::last("short_page", message)
}
