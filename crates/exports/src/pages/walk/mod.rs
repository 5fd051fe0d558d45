//! The walk through a list that changes while it is read.
//!
//! Each request overlaps the last rows that were read, and the walk continues where they are found
//! again, so that rows that vanish or are inserted above do not hide others. If they are not found,
//! the walk goes back, finally to the top. At the end the head of the list is read again, because a
//! row that jumps to the front while the walk is further down would be missed otherwise.
//! `docs/decisions.md` says what this guarantees for each style.
//!
//! Pure: it takes pages as ids and returns what to request next.

mod paged;
mod stand;

use catalog::dataset::PagingStyle;

pub(super) use self::paged::{ListPaging, PageSheet, anchors};
pub(super) use self::stand::WalkState;

use self::paged::window;
use self::stand::WalkPhase;
use super::fault::PageFault;
use super::next_page::NextPage;
use super::order::RowOrder;
use super::seen::{self, FingerprintSet};

/// The number of last rows that are looked for in the next page.
const TAIL_ROWS: usize = 16;
/// The number of them that must be found, in order.
const FOUND_MIN: usize = 3;
/// The maximum number of rereads of a list from its top.
const REREADS_MAX: u8 = 3;
/// The maximum number of times that a moving head of the list is read again.
const HEADS_MAX: u8 = 10;
/// The number of consecutive repeated pages, without anything new, that count as the platform's
/// mistake.
const IDLE_MAX: u8 = 3;
/// How far the walk goes back if the last rows are not found, in half pages.
const BACK_HALVES: [u64; 3] = [1, 4, 16];

/// A walk in progress.
#[derive(Debug)]
pub(super) struct ListWalk {
    paged: ListPaging,
    pub(super) stand: WalkState,
    known: FingerprintSet,
    order: RowOrder,
}

impl ListWalk {
    /// A walk before its first page.
    pub(super) fn new(paged: ListPaging) -> Self {
        let stand = WalkState::at_top();
        Self { paged, stand, known: FingerprintSet::default(), order: RowOrder::default() }
    }

    /// The number of distinct rows seen so far.
    pub(super) fn rows(&self) -> u64 {
        u64::try_from(self.known.len()).unwrap_or(u64::MAX)
    }

    /// Restores a row that was new on an earlier page; false if it is already known.
    pub(super) fn restore_row(&mut self, id: u64) -> bool {
        let is_new = self.known.add(id);
        if is_new {
            self.order.add(id);
        }
        is_new
    }

    /// Restores the state of an earlier read.
    pub(super) fn restore(&mut self, stand: WalkState) {
        self.stand = stand;
    }

    /// How often the list was read again from its top.
    pub(super) const fn rereads(&self) -> u8 {
        self.stand.rereads()
    }

    /// Whether the end was reached, and the head is being read again.
    pub(super) fn is_at_end(&self) -> bool {
        self.stand.phase == WalkPhase::Head
    }

    /// Whether the next request repeats an earlier one: while going back to a row, or while reading
    /// the head again.
    pub(super) const fn is_retracing(&self) -> bool {
        self.stand.back > 0 || matches!(self.stand.phase, WalkPhase::Head)
    }

    /// The number of rows to request next.
    pub(super) const fn asked_rows(&self) -> u64 {
        match self.stand.next {
            NextPage::Page { size, .. } => size,
            _ => self.paged.size,
        }
    }

    /// Ends the walk.
    pub(super) fn finish(&mut self) {
        self.stand.next = NextPage::Last;
    }

    /// Takes a page and returns, for each of its rows, whether it is new. The number is for
    /// messages; `was_there` says that a page with the same rows came before.
    pub(super) fn take(
        &mut self,
        sheet: &PageSheet<'_>,
        number: u64,
        was_there: bool,
    ) -> Result<Vec<bool>, PageFault> {
        let is_end = self.check(sheet, number, was_there)?;
        self.stand.total = sheet.total.or(self.stand.total);
        self.stand.least = self.stand.least.into_iter().chain(sheet.total).min();
        self.stand.pages = self.stand.pages.saturating_add(1);
        let is_first = self.stand.phase == WalkPhase::Down && self.stand.rereads == 0;
        if !self.is_joined(sheet) {
            self.note_idle(is_first && was_there, number)?;
            self.go_back()?;
            return Ok(vec![false; sheet.ids.len()]);
        }
        let phase = self.stand.phase;
        let is_run = phase == WalkPhase::Head && self.order.has_run(sheet.ids, self.run_rows());
        let is_back = self.stand.back > 0;
        let fresh = self.add(sheet)?;
        let is_fresh = fresh.contains(&true);
        if is_fresh {
            self.stand.idle = 0;
        } else if !is_end && is_first {
            self.note_idle(was_there, number)?;
            if self.paged.style == PagingStyle::Cursor && !is_back {
                // The row that the cursor stands for has moved up, and what follows it was already
                // read.
                self.reread()?;
                return Ok(fresh);
            }
        }
        self.check_length()?;
        let has_passed = sheet.is_past && !self.stand.is_unordered;
        if phase == WalkPhase::Head && is_run {
            self.end_head()?;
        } else if has_passed {
            self.end_walk(true)?;
        } else if is_end {
            self.at_end(sheet, is_fresh)?;
        } else {
            self.stand.is_confirming = false;
            self.go_on(sheet)?;
        }
        Ok(fresh)
    }

    /// Counts a page without anything new, if it was seen before.
    fn note_idle(&mut self, was_there: bool, number: u64) -> Result<(), PageFault> {
        if was_there {
            self.stand.idle = self.stand.idle.saturating_add(1);
        }
        if self.stand.idle >= IDLE_MAX { Err(repeated_page(number)) } else { Ok(()) }
    }

    /// Handles a request whose row or cursor the platform does not know; the row may have been
    /// deleted.
    pub(super) fn is_lost(&mut self) -> Result<(), PageFault> {
        self.stand.pages = self.stand.pages.saturating_add(1);
        self.go_back()
    }

    /// Whether the page says that it is the last. A page that no change of the list can explain is
    /// a fault.
    pub(super) fn check(
        &self,
        sheet: &PageSheet<'_>,
        number: u64,
        was_there: bool,
    ) -> Result<bool, PageFault> {
        let (count, size) = (count(sheet.ids), self.asked_rows());
        if count > size && was_there {
            return Err(repeated_page(number));
        }
        if count > size {
            let problem = format!("it has {count} rows, but {size} were requested");
            return Err(PageFault::malformed(number, &problem));
        }
        if let Some(row) = seen::repeated(sheet.ids) {
            let message = format!("row {row} of page {number} appears twice on that page");
            return Err(PageFault::last("repeated_row", message));
        }
        let more = match self.paged.style {
            PagingStyle::Cursor => Some(sheet.cursor.is_some()),
            PagingStyle::Offset | PagingStyle::Page | PagingStyle::BeforeId => sheet.more,
        };
        match more {
            Some(true) if count == 0 => {
                let message = format!("page {number} has no rows but says that more pages follow");
                Err(PageFault::last("empty_page", message))
            }
            Some(true) if count < size => Err(short(number)),
            Some(more) => Ok(!more),
            None => Ok(count < size),
        }
    }

    /// Whether no unseen row can lie between what was read and this page.
    fn is_joined(&self, sheet: &PageSheet<'_>) -> bool {
        if self.is_top() || self.paged.style == PagingStyle::Cursor || self.paged.overlap == 0 {
            return true;
        }
        // Only rows found in their old order count as not having moved.
        let mut tail = self.stand.tail.as_slice();
        let mut in_order = 0;
        for id in sheet.ids {
            if let Some(at) = tail.iter().position(|it| it == id) {
                in_order += 1;
                tail = tail.get(at.saturating_add(1)..).unwrap_or_default();
            }
        }
        if in_order >= FOUND_MIN.min(self.stand.tail.len()) {
            return true;
        }
        // If the list grew by more than a page, all of this was already read, and the walk
        // continues further down.
        let is_window = matches!(self.paged.style, PagingStyle::Offset | PagingStyle::Page);
        is_window && !sheet.ids.is_empty() && sheet.ids.iter().all(|id| self.known.has(*id))
    }

    /// Whether the requested page begins with the first row.
    const fn is_top(&self) -> bool {
        matches!(
            self.stand.next,
            NextPage::First | NextPage::Offset(0) | NextPage::Page { number: 1, .. }
        )
    }

    fn add(&mut self, sheet: &PageSheet<'_>) -> Result<Vec<bool>, PageFault> {
        let count = count(sheet.ids);
        if self.known.len().saturating_add(sheet.ids.len()) > seen::IDS_MAX {
            let message = format!("the list has more than {} rows", seen::IDS_MAX);
            return Err(PageFault::last("too_many_rows", message));
        }
        if self.paged.style == PagingStyle::Cursor && !self.is_top() && self.stand.back == 0 {
            let stand = &self.stand;
            let is_known = |id: &u64| match (stand.phase, stand.rereads) {
                (WalkPhase::Down, 0) => self.known.has(*id),
                _ => stand.tail.contains(id),
            };
            self.stand.is_disturbed |= sheet.ids.iter().any(is_known);
        }
        let fresh: Vec<bool> = sheet.ids.iter().map(|id| self.restore_row(*id)).collect();
        let start = match self.stand.next {
            NextPage::Offset(offset) => offset,
            NextPage::Page { number, size } => number.saturating_sub(1).saturating_mul(size),
            _ if self.is_top() => 0,
            _ => self.stand.place,
        };
        let stand = &mut self.stand;
        stand.place = start.saturating_add(count);
        stand.back = 0;
        stand.is_fruitful |= fresh.contains(&true);
        stand.is_unordered |= !sheet.is_newest_first;
        stand.tail.retain(|id| !sheet.ids.contains(id));
        stand.tail.extend(sheet.ids);
        let old = stand.tail.len().saturating_sub(TAIL_ROWS);
        stand.tail.drain(..old);
        if self.stand.phase == WalkPhase::Head || self.stand.rereads > 0 {
            self.order.note(sheet.ids);
        }
        Ok(fresh)
    }

    /// A walk from the top may take at most twice as many pages as the known rows fill in half
    /// pages, plus 50.
    fn check_length(&self) -> Result<(), PageFault> {
        let fill = self.rows() / (self.paged.size / 2).max(1);
        if self.stand.pages <= fill.saturating_mul(2).saturating_add(50) {
            return Ok(());
        }
        Err(changed("the list grows faster than it can be read"))
    }

    fn go_on(&mut self, sheet: &PageSheet<'_>) -> Result<(), PageFault> {
        let ListPaging { style, overlap, .. } = self.paged;
        let place = self.stand.place;
        self.stand.next = match style {
            PagingStyle::Offset => NextPage::Offset(place.saturating_sub(overlap)),
            PagingStyle::Page => window(place, self.paged),
            PagingStyle::Cursor => {
                let asked = std::mem::replace(&mut self.stand.next, NextPage::First);
                self.stand.anchors = match asked {
                    NextPage::Cursor(cursor) => vec![cursor],
                    _ => Vec::new(),
                };
                let cursor = sheet.cursor.map(str::to_owned);
                cursor.map_or(NextPage::Last, NextPage::Cursor)
            }
            PagingStyle::BeforeId => {
                if !sheet.anchors.is_empty() {
                    self.stand.anchors.clone_from(&sheet.anchors);
                }
                match self.stand.anchors.get(self.first_anchor()) {
                    Some(anchor) => NextPage::Before(anchor.clone()),
                    None => return self.reread(),
                }
            }
        };
        Ok(())
    }

    /// The index of the anchor from which a before-id list continues.
    fn first_anchor(&self) -> usize {
        usize::from(self.paged.overlap > 0)
    }

    /// Requests a part of the list that was already read, further back each time.
    fn go_back(&mut self) -> Result<(), PageFault> {
        let ListPaging { style, size, overlap } = self.paged;
        let back = usize::from(self.stand.back);
        self.stand.back = self.stand.back.saturating_add(1);
        let next = match style {
            PagingStyle::Offset | PagingStyle::Page => BACK_HALVES.get(back).and_then(|halves| {
                let rows = overlap.saturating_add(halves.saturating_mul(size) / 2);
                let start = self.stand.place.checked_sub(rows).filter(|start| *start > 0)?;
                let number = start / size + 1;
                match style {
                    PagingStyle::Page if number == 1 => None,
                    PagingStyle::Page => Some(NextPage::Page { number, size }),
                    _ => Some(NextPage::Offset(start)),
                }
            }),
            PagingStyle::Cursor => self.stand.anchors.get(back).cloned().map(NextPage::Cursor),
            PagingStyle::BeforeId => {
                let anchor = self.first_anchor().saturating_add(back).saturating_add(1);
                self.stand.anchors.get(anchor).cloned().map(NextPage::Before)
            }
        };
        match next {
            Some(next) => self.stand.next = next,
            None => self.reread()?,
        }
        Ok(())
    }

    /// Handles a page that says that it is the last.
    fn at_end(&mut self, sheet: &PageSheet<'_>, is_fresh: bool) -> Result<(), PageFault> {
        if sheet.ids.is_empty() && self.is_top() && self.rows() > 0 {
            return Err(changed("the list became empty"));
        }
        if self.stand.phase == WalkPhase::Head {
            return self.end_walk(false);
        }
        let is_full = count(sheet.ids) == self.asked_rows();
        let is_told = match self.paged.style {
            PagingStyle::Cursor => true,
            _ if sheet.more.is_some() => !is_full,
            _ => sheet.total.is_some() || sheet.ids.is_empty(),
        };
        if is_told || (self.stand.is_confirming && !is_fresh) {
            return self.end_walk(false);
        }
        self.stand.is_confirming = true;
        self.go_on(sheet)
    }

    /// The walk has reached the end of the list, or of the window.
    fn end_walk(&mut self, is_past: bool) -> Result<(), PageFault> {
        // The whole list was on one page, so nothing can have moved past it.
        let is_single = self.stand.pages == 1 || (self.is_top() && !is_past);
        self.stand.is_cut |= is_past;
        let missing = self.missing_of();
        match (missing, self.stand.is_disturbed) {
            (Some(total), _) if self.stand.rereads > 0 && !self.stand.is_fruitful => {
                let rows = self.rows();
                let message = format!("the pages ended after {rows} of {total} rows");
                return Err(PageFault::last("incomplete_pages", message));
            }
            (Some(_), _) | (None, true) => return self.reread(),
            (None, false) => {}
        }
        match self.stand.phase {
            _ if is_single => self.finish(),
            WalkPhase::Down => {
                self.stand.phase = WalkPhase::Head;
                self.order.renew();
                self.begin_at_top();
            }
            WalkPhase::Head => self.head_again()?,
        }
        Ok(())
    }

    /// The smallest length reported since the top, if fewer rows were read than that.
    fn missing_of(&self) -> Option<u64> {
        self.stand.least.filter(|total| !self.stand.is_cut && self.rows() < *total)
    }

    /// Handles a head of the list that has not moved.
    fn end_head(&mut self) -> Result<(), PageFault> {
        match self.missing_of() {
            Some(_) => self.reread(),
            None if self.stand.pages == 1 => {
                self.finish();
                Ok(())
            }
            None => self.head_again(),
        }
    }

    fn head_again(&mut self) -> Result<(), PageFault> {
        self.stand.heads = self.stand.heads.saturating_add(1);
        if self.stand.heads > HEADS_MAX {
            return Err(changed("the head of the list kept moving"));
        }
        self.order.renew();
        self.begin_at_top();
        Ok(())
    }

    fn reread(&mut self) -> Result<(), PageFault> {
        self.stand.rereads = self.stand.rereads.saturating_add(1);
        if self.stand.rereads > REREADS_MAX {
            return Err(changed("it was read again from its top three times"));
        }
        (self.stand.phase, self.stand.least, self.stand.is_cut) = (WalkPhase::Down, None, false);
        self.begin_at_top();
        Ok(())
    }

    fn begin_at_top(&mut self) {
        let stand = &mut self.stand;
        (stand.next, stand.place, stand.back, stand.pages) = (NextPage::First, 0, 0, 0);
        (stand.is_confirming, stand.is_disturbed, stand.is_fruitful) = (false, false, false);
        stand.idle = 0;
        stand.tail.clear();
        stand.anchors.clear();
        self.order.begin();
    }

    /// The number of rows in their old order that show that the head has not moved beyond them.
    fn run_rows(&self) -> usize {
        usize::try_from(self.paged.size / 2).unwrap_or(1).max(1)
    }
}

fn count(ids: &[u64]) -> u64 {
    u64::try_from(ids.len()).unwrap_or(u64::MAX)
}

fn short(number: u64) -> PageFault {
    let message = format!(
        "page {number} has fewer rows than were requested although more follow: rows may be missing"
    );
    PageFault::last("short_page", message)
}

fn repeated_page(number: u64) -> PageFault {
    let message =
        format!("page {number} repeats an earlier page: the platform returns it repeatedly");
    PageFault::last("repeated_page", message)
}

fn changed(how: &str) -> PageFault {
    let message = format!("the list changed too much while it was read: {how}");
    PageFault::last("list_changed", message)
}

#[cfg(test)]
mod tests;
