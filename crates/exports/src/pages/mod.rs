//! The pages of a dataset, from first to last: fetched and checked, with their rows in the
//! platform's own text.
//!
//! Lists change while they are read, so each page overlaps the one before ([`walk`]). A malformed
//! or incomplete page is requested again, and is a fault if that does not help; a list with a fault
//! is never delivered as if it were complete. Memory holds one page and the fingerprints of the
//! ids. Only GETs are sent, none of which marks anything as read.

mod body;
mod chat;
mod fault;
mod fetch;
mod next_page;
mod order;
mod resume_state;
mod rows;
mod scan;
mod seen;
mod taken;
mod walk;
mod wanted_list;

use std::sync::Arc;

use catalog::Dataset;
use catalog::dataset::{self, DatasetLocation};
use domain::dataset::DatasetName;
use domain::platform::Platform;

pub use self::fault::is_retryable;
pub use self::fault::{CODES, PageFault, PageRemedy};
pub use self::next_page::NextPage;
pub use self::rows::PageRows;
pub use self::wanted_list::{PageWaits, ReadLimits, WantedList};

use self::chat::SearchedList;
use self::fetch::PageRequest;
use self::resume_state::ResumePoint;
use self::seen::SeenPages;
use self::taken::TakenPage;
use self::walk::ListWalk;
use self::wanted_list::paged;
use crate::ExportsState;
use gateway::read;

/// One page, checked.
#[derive(Debug)]
pub struct CheckedPage {
    /// The number of the page, from 1.
    pub number: u64,
    /// Its rows within the window.
    pub rows: PageRows,
    /// What [`PageReader::restore`] needs of this page besides its rows.
    pub point: Vec<u8>,
    /// What comes after it.
    pub next: NextPage,
}

impl CheckedPage {
    /// Whether this is the last page.
    pub fn is_last(&self) -> bool {
        self.next == NextPage::Last
    }
}

/// A page that was fetched, with the identity of its rows.
#[derive(Debug)]
pub struct FetchedPage {
    number: u64,
    taken: TakenPage,
}

/// How many times the pages that its rows fill a list may take.
const OVERLAPPING_PAGES: u64 = 6;
/// The stored state of earlier pages cannot be read.
pub const BROKEN_RESUME_POINT: &str = "broken_resume_point";

/// Reads the pages of one list, one after another.
pub struct PageReader {
    exports: ExportsState,
    wanted: WantedList,
    platform: Platform,
    dataset: Arc<Dataset>,
    own_id: String,
    /// The conversation, once it has been found.
    chat: Option<String>,
    pages: u64,
    rows: u64,
    walk: ListWalk,
    seen: SeenPages,
}

impl PageReader {
    /// Prepares to read from the first page, without sending anything.
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

    /// Restores the next page that was read earlier, from its [`CheckedPage::point`] and its rows.
    /// To continue after several pages, restore all of them in order.
    pub fn restore<'a>(
        &mut self,
        point: &[u8],
        rows: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), PageFault> {
        let number = self.pages.saturating_add(1);
        let broken = || {
            let message = format!("the stored state of page {number} cannot be read");
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

    /// Fetches and takes the next page; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<CheckedPage>, PageFault> {
        let Some(fetched) = self.fetch().await? else { return Ok(None) };
        self.take(fetched).map(Some)
    }

    /// Fetches the next page; `None` after the last. A malformed page is requested again, after one
    /// second and after five more. Dropping the future or its result loses nothing: the same page
    /// can be fetched again.
    pub async fn fetch(&mut self) -> Result<Option<FetchedPage>, PageFault> {
        while self.walk.stand.next != NextPage::Last {
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

    /// Checks a page by itself.
    fn check(&self, taken: &TakenPage, number: u64) -> Result<(), PageFault> {
        self.walk.check(&taken.sheet(), number, self.was_there(taken)).map(|_| ())
    }

    fn was_there(&self, taken: &TakenPage) -> bool {
        !taken.ids.is_empty() && self.seen.has_page(seen::of_page(&taken.ids))
    }

    /// Takes the page that was fetched last and compares it with those before it. After a fault the
    /// reader must not be used.
    pub fn take(&mut self, fetched: FetchedPage) -> Result<CheckedPage, PageFault> {
        let FetchedPage { number, mut taken } = fetched;
        let page = (!taken.ids.is_empty()).then(|| seen::of_page(&taken.ids));
        let was_there = self.was_there(&taken);
        let is_retracing = self.walk.is_retracing();
        let fresh = self.walk.take(&taken.sheet(), number, was_there)?;
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
        Ok(CheckedPage { number, rows, point: point.to_bytes(), next })
    }

    /// The number of pages read so far.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// The length of the whole list as last reported, if the platform reports it.
    pub const fn list_rows(&self) -> Option<u64> {
        self.walk.stand.total
    }

    /// The number of distinct rows of the list read so far, including those outside the window.
    pub fn list_rows_read(&self) -> u64 {
        self.walk.rows()
    }

    /// Whether the end was reached, and the head of the list is being read again.
    pub fn is_checking(&self) -> bool {
        self.walk.is_at_end()
    }

    /// The number of rows taken so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    fn check_pages(&self, number: u64) -> Result<(), PageFault> {
        let ReadLimits { rows_max, pages_max, .. } = self.wanted.limits;
        // Pages overlap, and a list that changes is read again in part or completely.
        let filled = rows_max.div_ceil(u64::from(self.dataset.paging.size.max(1)));
        let filled = filled.saturating_mul(OVERLAPPING_PAGES);
        let most = if self.dataset.needs_chat() { pages_max } else { pages_max.max(filled) };
        if number <= most {
            return Ok(());
        }
        Err(PageFault::last("too_many_pages", format!("the list has more than {most} pages")))
    }

    /// The conversation that the list belongs to, searched for if necessary.
    async fn chat(&self) -> Result<Option<String>, PageFault> {
        let Some(parameter) = &self.dataset.chat else { return Ok(None) };
        let fan = self.wanted.chat_id.as_deref().filter(|fan| parameter.form.fits(fan));
        let missing = || PageFault::last("chat_not_found", "params.chat_id is not an account id");
        let fan = fan.ok_or_else(missing)?;
        let Some(fields) = &parameter.lookup else { return Ok(Some(fan.to_owned())) };
        let list = dataset_of(&self.exports, self.platform, fields.dataset)?;
        let place = list.place(&self.own_id, "").ok_or_else(unknown_id)?;
        let (exports, wanted, platform) = (&self.exports, &self.wanted, self.platform);
        let lookup = SearchedList { exports, wanted, platform, list: &list, place: &place, fields };
        Box::pin(lookup.find(fan)).await.map(Some)
    }

    /// The location of the pages, narrowed to the window's days if the platform supports that.
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
        let NextPage::Cursor(cursor) = &self.walk.stand.next else { return Ok(()) };
        let Some(earlier) = self.seen.earlier_cursor(cursor) else { return Ok(()) };
        let message = format!("page {number} returns the cursor that page {earlier} returned");
        Err(PageFault::last("repeated_cursor", message))
    }

    /// Truncates the rows at `max_rows`, and returns whether it is reached. More rows than the
    /// limit are a fault.
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

    /// Continues after the page of this point.
    fn remember(&mut self, point: &ResumePoint) {
        self.seen.follow(point.stand.rereads());
        if let Some(page) = point.page {
            self.seen.add_page(page, point.pages);
        }
        if let NextPage::Cursor(cursor) = &point.stand.next {
            self.seen.add_cursor(cursor, point.pages);
        }
        (self.pages, self.rows) = (point.pages, point.rows);
        self.chat.clone_from(&point.chat);
    }
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
    let message = "the platform's own id of the account or of the conversation is unknown: connect the account again";
    PageFault::last("account_unknown_id", message)
}
