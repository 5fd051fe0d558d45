//! The pages of a dataset, from the first to the last: fetched, checked, and their rows taken out as they are written.
//!
//! A page that is malformed, comes twice or is incomplete is a fault, and a list with a fault is never given out as if it
//! were whole. Memory is that of one page beside the fingerprints of the ids. Only GETs leave, none of which marks
//! anything as read.

mod body;
mod chat;
mod fault;
mod fetch;
mod point;
mod rows;
mod scan;
mod seen;
mod taken;

use std::sync::Arc;

use bytes::Bytes;
use catalog::Dataset;
use catalog::dataset::{self, Place};
use domain::account::CreatorId;
use domain::dataset::DatasetName;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use domain::window::Window;

pub use self::fault::{CODES, PageFault, Remedy};
pub use self::point::Next;
pub use self::rows::Rows;

use self::chat::Lookup;
use self::fetch::Request;
use self::point::Point;
use self::seen::Seen;
use self::taken::Taken;
use crate::app::App;
use crate::gateway::read;

/// What is to be read.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Whose account it is.
    pub customer: CustomerId,
    /// The account.
    pub account: CreatorId,
    /// The list.
    pub dataset: DatasetName,
    /// The fan's account id, for a list that is of one conversation.
    pub chat_id: Option<String>,
    /// Rows outside it are left out.
    pub window: Window,
    /// The read ends when it has so many rows.
    pub max_rows: Option<u64>,
    /// What may not be exceeded.
    pub limits: Limits,
    /// Stands for the id of a call in what the platform is sent.
    pub label: String,
}

/// What a read may not exceed, over all its attempts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
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
    pub rows: Rows,
    /// What [`Reader::restore`] needs of this page beside its rows.
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

/// A page that came, as the platform sent it.
#[derive(Debug)]
pub struct Fetched {
    number: u64,
    body: Bytes,
}

/// What was kept of earlier pages cannot be read.
pub(crate) const BROKEN_RESUME_POINT: &str = "broken_resume_point";

/// Reads the pages of one list, one after the other.
pub struct Reader {
    app: App,
    wanted: Wanted,
    platform: Platform,
    dataset: Arc<Dataset>,
    own_id: String,
    point: Point,
    seen: Seen,
}

impl Reader {
    /// Prepares to read from the first page. Nothing is sent yet.
    pub(crate) async fn new(app: &App, wanted: Wanted) -> Result<Self, PageFault> {
        let account = read::account(app, wanted.customer, &wanted.account)
            .await
            .map_err(|error| fetch::unavailable(&error))?;
        let platform = account.platform;
        let dataset = dataset_of(app, platform, wanted.dataset)?;
        let own_id = account.platform_account_id.clone();
        let app = app.clone();
        let (point, seen) = (Point::start(), Seen::default());
        Ok(Self { app, wanted, platform, dataset, own_id, point, seen })
    }

    /// Takes in what is known of the next page that was read before: its [`Page::point`] and its rows. To go on behind
    /// the last of several pages, all of them are taken in, in their order.
    pub fn restore<'a>(
        &mut self,
        point: &[u8],
        rows: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), PageFault> {
        let broken = || {
            let number = self.point.pages.saturating_add(1);
            let message = format!("what was kept of page {number} cannot be read");
            PageFault::last(BROKEN_RESUME_POINT, message)
        };
        let kept = Point::from_bytes(point).ok_or_else(broken)?;
        if kept.pages != self.point.pages.saturating_add(1) {
            return Err(broken());
        }
        for row in rows {
            let row = body::row(&self.dataset, row, kept.pages)?;
            if !self.seen.add_id(row.fingerprint) {
                return Err(broken());
            }
        }
        for id in &kept.left_out {
            self.seen.add_id(*id);
        }
        self.remember(&kept);
        Ok(())
    }

    /// The next page, or nothing after the last: fetched, and taken in at once.
    pub async fn next(&mut self) -> Result<Option<Page>, PageFault> {
        let Some(fetched) = self.fetch().await? else { return Ok(None) };
        self.take(fetched).map(Some)
    }

    /// Fetches the next page, or nothing after the last. Dropping the future loses nothing, and neither does dropping
    /// what it gives: the same page can be asked for again.
    pub async fn fetch(&mut self) -> Result<Option<Fetched>, PageFault> {
        if self.point.next == Next::Last {
            return Ok(None);
        }
        let number = self.point.pages.saturating_add(1);
        self.check_pages(number)?;
        if self.point.chat.is_none() {
            self.point.chat = self.chat().await?;
        }
        let place = self.place()?;
        let request = Request {
            app: &self.app,
            wanted: &self.wanted,
            platform: self.platform,
            place: &place,
            paging: &self.dataset.paging,
            next: &self.point.next,
            number,
            fan: self.dataset.chat.as_ref().and(self.wanted.chat_id.as_deref()),
        };
        let body = request.page().await?;
        request.check_time()?;
        Ok(Some(Fetched { number, body }))
    }

    /// Takes in and checks the page that was fetched last; computes for as long as it is large. After a fault the reader
    /// is of no use.
    pub fn take(&mut self, fetched: Fetched) -> Result<Page, PageFault> {
        let Fetched { number, body } = fetched;
        let taken = taken::taken(&self.dataset, body, self.wanted.window, number)?;
        self.accept(taken, number)
    }

    /// Pages read so far.
    pub const fn pages(&self) -> u64 {
        self.point.pages
    }

    /// Rows taken so far.
    pub const fn rows(&self) -> u64 {
        self.point.rows
    }

    fn check_pages(&self, number: u64) -> Result<(), PageFault> {
        let Limits { rows_max, pages_max, .. } = self.wanted.limits;
        // One more than full pages: it may take an empty one to see that nothing follows.
        let filled =
            rows_max.div_ceil(u64::from(self.dataset.paging.size.max(1))).saturating_add(1);
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
        let list = dataset_of(&self.app, self.platform, fields.dataset)?;
        let place = list.place(&self.own_id, "").ok_or_else(unknown_id)?;
        let (app, wanted, platform) = (&self.app, &self.wanted, self.platform);
        let lookup = Lookup { app, wanted, platform, list: &list, place: &place, fields };
        Box::pin(lookup.find(fan)).await.map(Some)
    }

    /// Where the pages are, narrowed to the window's days where the platform can do that.
    fn place(&self) -> Result<Place, PageFault> {
        let chat = self.point.chat.as_deref().unwrap_or_default();
        let mut place = self.dataset.place(&self.own_id, chat).ok_or_else(unknown_id)?;
        let Some(days) = &self.dataset.days else { return Ok(place) };
        let window = &self.wanted.window;
        let first = window.first_day();
        // Platforms end an open window today, and refuse one that begins later.
        let future = first.filter(|first| *first > self.app.clock.now().day());
        for (name, day) in [(&days.from, first), (&days.to, window.last_day().or(future))] {
            if let Some(day) = day {
                dataset::add(&mut place.query, name, &day.to_string());
            }
        }
        Ok(place)
    }

    /// Compares a page with those before it, and stands behind it afterwards.
    fn accept(&mut self, taken: Taken, number: u64) -> Result<Page, PageFault> {
        let page = (!taken.ids.is_empty()).then(|| seen::of_page(&taken.ids));
        self.check_page(&taken, page, number)?;
        let mut next =
            taken::after(&self.dataset, &taken, (&self.point.next, self.point.seen), number)?;
        self.check_cursor(&next, number)?;
        let count = u64::try_from(taken.ids.len()).unwrap_or(u64::MAX);
        let seen = self.point.seen.saturating_add(count);
        let totals = self.totals(taken.total, number)?;
        if let (Next::Last, Some((first, _))) = (&next, totals)
            && seen < first
        {
            let message = format!("the pages ended after {seen} rows of {first}");
            return Err(PageFault::last("incomplete_pages", message));
        }
        let mut rows = taken.rows;
        if self.is_full(&mut rows)? {
            next = Next::Last;
        }
        self.check_ids(&taken.ids, number)?;
        let taken_rows = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let point = Point {
            next: next.clone(),
            pages: number,
            rows: self.point.rows.saturating_add(taken_rows),
            seen,
            totals,
            chat: self.point.chat.clone(),
            page,
            left_out: taken.left_out,
        };
        self.remember(&point);
        Ok(Page { number, rows, point: point.to_bytes(), next })
    }

    fn check_page(&self, taken: &Taken, page: Option<u64>, number: u64) -> Result<(), PageFault> {
        if let Some(earlier) = page.and_then(|page| self.seen.earlier_page(page)) {
            let message = format!("page {number} is page {earlier} again");
            return Err(PageFault::last("repeated_page", message));
        }
        if self.seen.ids().saturating_add(taken.ids.len()) > seen::IDS_MAX {
            let message = format!("the list has more than {} rows", seen::IDS_MAX);
            return Err(PageFault::last("too_many_rows", message));
        }
        Ok(())
    }

    fn check_cursor(&self, next: &Next, number: u64) -> Result<(), PageFault> {
        let Next::Cursor(cursor) = next else { return Ok(()) };
        let Some(earlier) = self.seen.earlier_cursor(cursor) else { return Ok(()) };
        let message = format!("page {number} tells the cursor that page {earlier} told before");
        Err(PageFault::last("repeated_cursor", message))
    }

    /// The first and the latest length of the list.
    fn totals(&self, told: Option<u64>, number: u64) -> Result<Option<(u64, u64)>, PageFault> {
        match (self.point.totals, told) {
            (Some((_, before)), Some(total)) if total < before => {
                let message = format!(
                    "page {number} tells of {total} rows, the page before of {before}: the list changed while it was read"
                );
                Err(PageFault::last("total_shrank", message))
            }
            (Some((first, _)), Some(total)) => Ok(Some((first, total))),
            (None, Some(total)) => Ok(Some((total, total))),
            (known, None) => Ok(known),
        }
    }

    /// Cuts the rows at what was asked for; whether that is reached. More than may be is a fault.
    fn is_full(&self, rows: &mut Rows) -> Result<bool, PageFault> {
        let room = |most: u64| usize::try_from(most.saturating_sub(self.point.rows));
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

    fn check_ids(&mut self, ids: &[u64], number: u64) -> Result<(), PageFault> {
        for (place, id) in ids.iter().enumerate() {
            if !self.seen.add_id(*id) {
                let row = place.saturating_add(1);
                let message = format!(
                    "row {row} of page {number} came before: the list changed while it was read, or its pages overlap"
                );
                return Err(PageFault::last("repeated_row", message));
            }
        }
        Ok(())
    }

    /// Stands behind the page of this point.
    fn remember(&mut self, point: &Point) {
        if let Some(page) = point.page {
            self.seen.add_page(page, point.pages);
        }
        if let Next::Cursor(cursor) = &point.next {
            self.seen.add_cursor(cursor, point.pages);
        }
        self.point = Point { left_out: Vec::new(), ..point.clone() };
    }
}

fn dataset_of(app: &App, platform: Platform, name: DatasetName) -> Result<Arc<Dataset>, PageFault> {
    let found = app.catalog.platform(platform).dataset(name);
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
