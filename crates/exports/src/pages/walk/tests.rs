//! The guarantee of [`ListWalk`] for lists that change between any two pages, tested on ten
//! thousand lists in every style.
//!
//! A row moves at most once in a read, to the front or down. A cursor stands for the row after
//! which it continues: platforms promise that this row does not move down, and here it never does.

use std::collections::{HashMap, HashSet};

use catalog::dataset::PagingStyle;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

/// The number of lists in all.
const LISTS: u64 = 10_000;

/// What a platform reports about its list, besides the rows.
#[derive(Debug, Clone, Copy)]
struct Kind {
    style: PagingStyle,
    says_more: bool,
    says_total: bool,
}

const KINDS: [Kind; 8] = [
    Kind { style: PagingStyle::Offset, says_more: true, says_total: false },
    Kind { style: PagingStyle::Offset, says_more: false, says_total: false },
    Kind { style: PagingStyle::Offset, says_more: false, says_total: true },
    Kind { style: PagingStyle::BeforeId, says_more: true, says_total: true },
    Kind { style: PagingStyle::BeforeId, says_more: true, says_total: false },
    Kind { style: PagingStyle::Page, says_more: true, says_total: false },
    Kind { style: PagingStyle::Page, says_more: false, says_total: false },
    Kind { style: PagingStyle::Cursor, says_more: true, says_total: false },
];

/// A list that changes.
#[derive(Debug, Default)]
struct List {
    rows: Vec<u64>,
    /// All ids that were ever in it, and those that were removed.
    ever: HashSet<u64>,
    gone: HashSet<u64>,
    moved: HashSet<u64>,
}

impl List {
    fn of(rows: u64) -> Self {
        let mut list = Self::default();
        (1..=rows).for_each(|row| list.insert(list.rows.len(), row));
        list
    }

    fn insert(&mut self, place: usize, id: u64) {
        self.rows.insert(place, id);
        self.ever.insert(id);
    }

    /// A position at the front, at the end or anywhere in between.
    fn place(&self, random: &mut StdRng) -> usize {
        let last = self.rows.len();
        [0, random.random_range(0..=last), last][random.random_range(0..3)]
    }

    /// Inserts or removes a row, or moves one to the front or down. Rows that cursors stand for do
    /// not move down.
    fn change(&mut self, random: &mut StdRng, may_move_down: bool) {
        let place = self.place(random);
        let what = random.random_range(0..if may_move_down { 4 } else { 3 });
        if what == 0 {
            return self.insert(place, 1_000_000 + self.ever.len() as u64);
        }
        let Some(id) = self.rows.get(place).copied() else { return };
        let to = match what {
            1 => {
                self.gone.insert(id);
                self.rows.remove(place);
                return;
            }
            2 => 0,
            _ => random.random_range(place..self.rows.len()),
        };
        if self.moved.insert(id) {
            self.rows.remove(place);
            self.rows.insert(to, id);
        }
    }

    /// Makes some changes, sometimes many.
    fn change_much(&mut self, random: &mut StdRng, may_move_down: bool) {
        let most = [0, 2, 2, 12][random.random_range(0..4)];
        for _ in 0..random.random_range(0..=most) {
            self.change(random, may_move_down);
        }
    }

    /// The requested page; `None` if the row after which it begins was removed.
    fn page(&self, next: &NextPage, size: u64) -> Option<(Vec<u64>, bool)> {
        let start = match next {
            NextPage::First | NextPage::Last => 0,
            NextPage::Offset(rows) => usize::try_from(*rows).unwrap(),
            NextPage::Page { number, size: each } => usize::try_from((number - 1) * each).unwrap(),
            NextPage::Cursor(id) | NextPage::Before(id) => {
                let id: u64 = id.parse().unwrap();
                self.rows.iter().position(|row| *row == id)? + 1
            }
        };
        let rows = self.rows.iter().skip(start).take(usize::try_from(size).unwrap());
        let rows: Vec<u64> = rows.copied().collect();
        let has_more = start + rows.len() < self.rows.len();
        Some((rows, has_more))
    }
}

/// Reads a list to its end, calling `change` between any two pages; returns the rows and the number
/// of pages.
fn read(
    kind: Kind,
    size: u64,
    list: &mut List,
    mut change: impl FnMut(&mut List),
) -> Result<(Vec<u64>, u64), PageFault> {
    let Kind { style, says_more, says_total } = kind;
    let list_kind = ListPaging::whole(style, size);
    let mut walk = ListWalk::new(list_kind);
    let (mut rows, mut pages, mut seen) = (Vec::new(), 0, HashMap::new());
    while walk.stand.next != NextPage::Last {
        pages += 1;
        match list.page(&walk.stand.next, walk.asked_rows()) {
            None => walk.is_lost()?,
            Some((ids, has_more)) => {
                let places = anchors(ids.len(), list_kind);
                let cursor = ids.last().filter(|_| has_more).map(u64::to_string);
                let prints: Vec<u64> =
                    ids.iter().map(|id| seen::fingerprint(&id.to_string())).collect();
                let sheet = PageSheet {
                    ids: &prints,
                    more: says_more.then_some(has_more).filter(|_| style != PagingStyle::Cursor),
                    cursor: cursor.as_deref().filter(|_| style == PagingStyle::Cursor),
                    total: says_total.then_some(list.rows.len() as u64),
                    anchors: places.into_iter().map(|place| ids[place].to_string()).collect(),
                    ..PageSheet::default()
                };
                let was_there = seen.insert(ids.clone(), pages).is_some();
                walk.check(&sheet, pages, was_there)?;
                let fresh = walk.take(&sheet, pages, was_there)?;
                rows.extend(
                    ids.iter().zip(&fresh).filter(|(_, is_fresh)| **is_fresh).map(|it| *it.0),
                );
            }
        }
        change(list);
    }
    Ok((rows, pages))
}

#[test]
fn complete_read_has_every_lasting_row_exactly_once() {
    let mut faults = 0;
    for number in 0..LISTS {
        let mut random = StdRng::seed_from_u64(number);
        let kind = KINDS[usize::try_from(number).unwrap() % KINDS.len()];
        let size = [20, 50, 100][random.random_range(0..3)];
        let before = random.random_range(0..size * 8);
        let mut list = List::of(before);
        let is_cursor = kind.style == PagingStyle::Cursor;

        let told = read(kind, size, &mut list, |list| list.change_much(&mut random, !is_cursor));

        let Ok((rows, _)) = told else {
            faults += 1;
            continue;
        };
        let unique: HashSet<u64> = rows.iter().copied().collect();
        assert_eq!(unique.len(), rows.len(), "list {number}, {kind:?}: a row appears twice");
        assert!(
            unique.is_subset(&list.ever),
            "list {number}, {kind:?}: a row was never in the list"
        );
        let missing: Vec<u64> =
            (1..=before).filter(|id| !list.gone.contains(id) && !unique.contains(id)).collect();
        assert!(missing.is_empty(), "list {number}, {kind:?}, pages of {size}: {missing:?}");
    }
    assert!(faults * 200 < LISTS, "{faults} of {LISTS} lists could not be read");
}

#[test]
fn unchanged_list_takes_few_extra_pages() {
    for kind in KINDS {
        for (rows, size) in
            [(0, 50), (1, 50), (49, 50), (50, 50), (51, 50), (1_000, 50), (10_000, 100)]
        {
            let (read, pages) = read(kind, size, &mut List::of(rows), |_| ()).unwrap();

            assert_eq!(read, (1..=rows).collect::<Vec<_>>(), "{kind:?} {rows}");
            // The extra pages: the head again, the end again, and the overlap. Pages of numbers
            // that do not say whether more follow need one more to confirm the end.
            let confirming = u64::from(kind.style == PagingStyle::Page && !kind.says_more);
            let most = rows.div_ceil(size) * 4 / 3 + 3 + confirming;
            assert!(pages <= most, "{kind:?}: {pages} pages for {rows} rows, at most {most}");
        }
    }
}

#[test]
fn list_that_grows_at_its_front_is_read() {
    for kind in KINDS {
        let mut list = List::of(2_000);

        let (read, _) = read(kind, 100, &mut list, |list| {
            (0..3).for_each(|_| list.insert(0, 1_000_000 + list.ever.len() as u64));
        })
        .unwrap();

        let read: HashSet<u64> = read.into_iter().collect();
        assert!((1..=2_000).all(|id| read.contains(&id)), "{kind:?}");
    }
}

#[test]
fn row_that_jumps_to_the_front_is_found() {
    for kind in KINDS {
        let (mut list, mut pages) = (List::of(500), 0);

        let (read, _) = read(kind, 100, &mut list, |list| {
            pages += 1;
            if pages == 2 {
                let jumping = list.rows.pop().unwrap();
                list.rows.insert(0, jumping);
            }
        })
        .unwrap();

        assert!(read.contains(&500), "{kind:?}");
    }
}

#[test]
fn list_that_changes_completely_is_refused() {
    for kind in KINDS {
        let mut made = 0;
        let mut list = List::of(600);

        let told = read(kind, 100, &mut list, |list| {
            made += 1;
            list.rows = (1..=600).map(|row| made * 1_000 + row).collect();
        });

        let fault = told.unwrap_err();
        assert_eq!(fault.code, "list_changed", "{kind:?}: {fault}");
    }
}

#[test]
fn page_windows_overlap_and_make_progress() {
    for size in [50, 100] {
        for place in size..5_000 {
            let paged = ListPaging::whole(PagingStyle::Page, size);
            let NextPage::Page { number, size: rows } = window(place, paged) else {
                unreachable!()
            };

            let (start, end) = ((number - 1) * rows, number * rows);
            assert!(start + paged.overlap <= place, "{place} of {size}");
            assert!(end >= place + size / 4 && rows <= size, "{place} of {size}: to {end}");
        }
    }
}
