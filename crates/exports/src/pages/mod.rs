//! The pages of a dataset, from the first to the last: fetched, checked, and their rows taken out as they are written.
//!
//! Lists change while they are read, so each page overlaps the one before ([`walk`]). A page that is malformed or
//! incomplete is asked for again, and is a fault if that does not help; a list with a fault is never given out as if it
//! were whole. Memory is that of one page beside the fingerprints of the ids. Only GETs leave, none of which marks
//! anything as read.

mod body;
mod chat;
mod fault;
mod fetch;
mod order;
mod resume_state;
mod rows;
mod scan;
mod seen;
mod taken;
mod walk;

use std::sync::Arc;

use catalog::Dataset;
use catalog::dataset::{self, DatasetLocation, PagingRules};
use domain::account::CreatorId;
use domain::dataset::DatasetName;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use domain::window::DateWindow;

pub use self::fault::is_retryable;
pub use self::fault::{CODES, PageFault, PageRemedy};
pub use self::resume_state::Next;
pub use self::rows::PageRows;

use self::chat::SearchedList;
use self::fetch::PageRequest;
use self::resume_state::ResumePoint;
use self::seen::SeenPages;
use self::taken::TakenPage;
use self::walk::{ListPaging, ListWalk};
use crate::ExportsState;
use gateway::read;

/// What is to be read.
#[derive(Debug, Clone)]
pub struct WantedList {
    /// Whose account it is.
    pub customer: CustomerId,
    /// The account.
    pub account: CreatorId,
    /// The list.
    pub dataset: DatasetName,
    /// The fan's account id, for a list that is of one conversation.
    pub chat_id: Option<String>,
    /// Rows outside it are left out.
    pub window: DateWindow,
    /// The read ends when it has so many rows.
    pub max_rows: Option<u64>,
    /// What may not be exceeded.
    pub limits: ReadLimits,
    /// Stands for the id of a call in what the platform is sent.
    pub label: String,
    /// Where the read says until when it waits.
    pub waits: PageWaits,
}

/// Until when a read asks nothing of the platform, for those who watch it.
#[derive(Debug, Clone, Default)]
pub struct PageWaits(Arc<parking_lot::Mutex<Option<Timestamp>>>);

impl PageWaits {
    /// Until when it waits; nothing while it does not.
    pub fn until(&self) -> Option<Timestamp> {
        *self.0.lock()
    }

    fn set(&self, until: Option<Timestamp>) {
        *self.0.lock() = until;
    }
}

/// What a read may not exceed, over all its attempts.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// More rows fail it.
    pub rows_max: u64,
    /// More pages of a conversation fail it. Another list may have as many as its allowed rows fill, if that is more.
    pub pages_max: u64,
    /// From then on no page is asked for or taken.
    pub ends_at: Option<Timestamp>,
}

/// One page, checked.
#[derive(Debug)]
pub struct Page {
    /// Which page it is, from 1 on.
    pub number: u64,
    /// Its rows that lie in the window.
    pub rows: PageRows,
    /// What [`PageReader::restore`] needs of this page beside its rows.
    pub point: Vec<u8>,
    /// What comes after it.
    pub next: Next,
}

impl Page {
    /// Whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        self.next == Next::Last
    }
}

/// A page that came, and what its rows are known by.
#[derive(Debug)]
pub struct FetchedPage {
    number: u64,
    taken: TakenPage,
}

/// A list may take so many times the pages that its rows fill.
const OVERLAPPING_PAGES: u64 = 6;
/// What was kept of earlier pages cannot be read.
pub const BROKEN_RESUME_POINT: &str = "broken_resume_point";

/// Reads the pages of one list, one after the other.
pub struct PageReader {
    exports: ExportsState,
    wanted: WantedList,
    platform: Platform,
    dataset: Arc<Dataset>,
    own_id: String,
    /// The conversation, once it was found.
    chat: Option<String>,
    pages: u64,
    rows: u64,
    walk: ListWalk,
    seen: SeenPages,
}

impl PageReader {
    /// Prepares to read from the first page. Nothing is sent yet.
    pub async fn new(exports: &ExportsState, wanted: WantedList) -> Result<Self, PageFault> {
        let account = read::account(&exports.gateway, wanted.customer, &wanted.account)
            .await
            .map_err(|error| fetch::unavailable(&error))?;
        let platform = account.platform;
        let dataset = dataset_of(exports, platform, wanted.dataset)?;
        let own_id = account.platform_account_id.clone();
        let exports = exports.clone();
        let (walk, seen) = (ListWalk::new(paged(&dataset)), SeenPages::default());
        let (chat, pages, rows) = (None, 0, 0);
        Ok(Self { exports, wanted, platform, dataset, own_id, chat, pages, rows, walk, seen })
    }

    /// Takes in what is known of the next page that was read before: its [`Page::point`] and its rows. To go on behind
    /// the last of several pages, all of them are taken in, in their order.
    pub fn restore<'a>(
        &mut self,
        point: &[u8],
        rows: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), PageFault> {
        let number = self.pages.saturating_add(1);
        let broken = || {
            let message = format!("what was kept of page {number} cannot be read");
            PageFault::last(BROKEN_RESUME_POINT, message)
        };
        let kept = ResumePoint::from_bytes(point).ok_or_else(broken)?;
        if kept.pages != number {
            return Err(broken());
        }
        let mut left_out = kept.left_out.iter().peekable();
        let mut nth = 0;
        for row in rows {
            while let Some((_, id)) = left_out.next_if(|(place, _)| *place == nth) {
                self.walk.restore_row(*id);
                nth += 1;
            }
            let row = body::row(&self.dataset, row, kept.pages)?;
            if !self.walk.restore_row(row.fingerprint) {
                return Err(broken());
            }
            nth += 1;
        }
        for (_, id) in left_out {
            self.walk.restore_row(*id);
        }
        self.remember(&kept);
        self.walk.restore(kept.stand);
        Ok(())
    }

    /// The next page, or nothing after the last: fetched, and taken in at once.
    pub async fn next(&mut self) -> Result<Option<Page>, PageFault> {
        let Some(fetched) = self.fetch().await? else { return Ok(None) };
        self.take(fetched).map(Some)
    }

    /// Fetches the next page, or nothing after the last. A page that is wrong is asked for again, after a second and
    /// after five more. Dropping the future loses nothing, and neither does dropping what it gives: the same page can be
    /// asked for again.
    pub async fn fetch(&mut self) -> Result<Option<FetchedPage>, PageFault> {
        while self.walk.stand.next != Next::Last {
            let number = self.pages.saturating_add(1);
            self.check_pages(number)?;
            if self.chat.is_none() {
                self.chat = self.chat().await?;
            }
            let place = self.place()?;
            let request = PageRequest {
                exports: &self.exports,
                wanted: &self.wanted,
                platform: self.platform,
                place: &place,
                paging: &self.dataset.paging,
                next: &self.walk.stand.next,
                number,
                fan: self.dataset.chat.as_ref().and(self.wanted.chat_id.as_deref()),
            };
            let check = |taken: &TakenPage| self.check(taken, number);
            match request.taken(&self.dataset, self.wanted.window, check).await? {
                Some(taken) => return Ok(Some(FetchedPage { number, taken })),
                None => self.walk.is_lost()?,
            }
        }
        Ok(None)
    }

    /// Whether a page is right by itself.
    fn check(&self, taken: &TakenPage, number: u64) -> Result<(), PageFault> {
        self.walk.check(&taken.sheet(), (number, self.was_there(taken))).map(|_| ())
    }

    fn was_there(&self, taken: &TakenPage) -> bool {
        !taken.ids.is_empty() && self.seen.has_page(seen::of_page(&taken.ids))
    }

    /// Takes in the page that was fetched last and compares it with those before it. After a fault the reader is of no
    /// use.
    pub fn take(&mut self, fetched: FetchedPage) -> Result<Page, PageFault> {
        let FetchedPage { number, mut taken } = fetched;
        let page = (!taken.ids.is_empty()).then(|| seen::of_page(&taken.ids));
        let was_there = self.was_there(&taken);
        let is_retracing = self.walk.is_retracing();
        let fresh = self.walk.take(&taken.sheet(), (number, was_there))?;
        self.seen.follow(self.walk.rereads());
        if !is_retracing {
            self.check_cursor(number)?;
        }
        let left_out = taken.keep_fresh(&fresh);
        let mut rows = taken.rows;
        if self.is_full(&mut rows)? {
            self.walk.finish();
        }
        let taken_rows = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let point = ResumePoint {
            stand: self.walk.stand.clone(),
            pages: number,
            rows: self.rows.saturating_add(taken_rows),
            chat: self.chat.clone(),
            page,
            left_out,
        };
        self.remember(&point);
        let next = point.stand.next.clone();
        Ok(Page { number, rows, point: point.to_bytes(), next })
    }

    /// Pages read so far.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// The length of the whole list as told last, where the platform tells it.
    pub const fn list_rows(&self) -> Option<u64> {
        self.walk.stand.total
    }

    /// Rows of the list that were read so far, each once, also those that are not taken.
    pub fn list_rows_read(&self) -> u64 {
        self.walk.rows()
    }

    /// Whether the end was reached, and the head of the list is read again.
    pub fn is_checking(&self) -> bool {
        self.walk.is_at_end()
    }

    /// Rows taken so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    fn check_pages(&self, number: u64) -> Result<(), PageFault> {
        let ReadLimits { rows_max, pages_max, .. } = self.wanted.limits;
        // Pages overlap, and a list that changes is read again in part or as a whole.
        let filled = rows_max.div_ceil(u64::from(self.dataset.paging.size.max(1)));
        let filled = filled.saturating_mul(OVERLAPPING_PAGES);
        let most = if self.dataset.needs_chat() { pages_max } else { pages_max.max(filled) };
        if number <= most {
            return Ok(());
        }
        Err(PageFault::last("too_many_pages", format!("the list has more than {most} pages")))
    }

    /// The conversation that the list is of, found if need be.
    async fn chat(&self) -> Result<Option<String>, PageFault> {
        let Some(parameter) = &self.dataset.chat else { return Ok(None) };
        let fan = self.wanted.chat_id.as_deref().filter(|fan| parameter.form.fits(fan));
        let missing = || PageFault::last("chat_not_found", "params.chat_id is no account id");
        let fan = fan.ok_or_else(missing)?;
        let Some(fields) = &parameter.lookup else { return Ok(Some(fan.to_owned())) };
        let list = dataset_of(&self.exports, self.platform, fields.dataset)?;
        let place = list.place(&self.own_id, "").ok_or_else(unknown_id)?;
        let (exports, wanted, platform) = (&self.exports, &self.wanted, self.platform);
        let lookup = SearchedList { exports, wanted, platform, list: &list, place: &place, fields };
        Box::pin(lookup.find(fan)).await.map(Some)
    }

    /// Where the pages are, narrowed to the window's days where the platform can do that.
    fn place(&self) -> Result<DatasetLocation, PageFault> {
        let chat = self.chat.as_deref().unwrap_or_default();
        let mut place = self.dataset.place(&self.own_id, chat).ok_or_else(unknown_id)?;
        let Some(days) = &self.dataset.days else { return Ok(place) };
        let window = &self.wanted.window;
        let first = window.first_day();
        // Platforms end an open window today, and refuse one that begins later.
        let future = first.filter(|first| *first > self.exports.clock.now().day());
        for (name, day) in [(&days.from, first), (&days.to, window.last_day().or(future))] {
            if let Some(day) = day {
                dataset::add(&mut place.query, name, &day.to_string());
            }
        }
        Ok(place)
    }

    fn check_cursor(&self, number: u64) -> Result<(), PageFault> {
        let Next::Cursor(cursor) = &self.walk.stand.next else { return Ok(()) };
        let Some(earlier) = self.seen.earlier_cursor(cursor) else { return Ok(()) };
        let message = format!("page {number} tells the cursor that page {earlier} told before");
        Err(PageFault::last("repeated_cursor", message))
    }

    /// Cuts the rows at what was asked for; whether that is reached. More than may be is a fault.
    fn is_full(&self, rows: &mut PageRows) -> Result<bool, PageFault> {
        let room = |most: u64| usize::try_from(most.saturating_sub(self.rows));
        if let Some(max_rows) = self.wanted.max_rows {
            let room = room(max_rows).unwrap_or(usize::MAX);
            if rows.len() >= room {
                rows.truncate(room);
                return Ok(true);
            }
        }
        let rows_max = self.wanted.limits.rows_max;
        if rows.len() > room(rows_max).unwrap_or(usize::MAX) {
            let message =
                format!("the list has more than {rows_max} rows: narrow the dates or set max_rows");
            return Err(PageFault::last("too_many_rows", message));
        }
        Ok(false)
    }

    /// Stands behind the page of this point.
    fn remember(&mut self, point: &ResumePoint) {
        self.seen.follow(point.stand.rereads());
        if let Some(page) = point.page {
            self.seen.add_page(page, point.pages);
        }
        if let Next::Cursor(cursor) = &point.stand.next {
            self.seen.add_cursor(cursor, point.pages);
        }
        (self.pages, self.rows) = (point.pages, point.rows);
        self.chat.clone_from(&point.chat);
    }
}

/// How a list is paged.
fn paged(dataset: &Dataset) -> ListPaging {
    let PagingRules { style, size, .. } = dataset.paging;
    ListPaging::whole(style, u64::from(size))
}

fn dataset_of(
    exports: &ExportsState,
    platform: Platform,
    name: DatasetName,
) -> Result<Arc<Dataset>, PageFault> {
    let found = exports.catalog.platform(platform).dataset(name);
    let unknown = || {
        let message = format!("{platform} has no dataset {name}");
        PageFault::last("unknown_dataset", message)
    };
    found.cloned().map(Arc::new).ok_or_else(unknown)
}

fn unknown_id() -> PageFault {
    let message = "the platform's own id of the account or of the conversation is not known: connect the account again";
    PageFault::last("account_unknown_id", message)
}
