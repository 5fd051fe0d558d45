//! Pages that never end or are inconsistent.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};

use super::input::FaultField;
use super::kind::{FaultEffect, FaultKind};
use crate::script::{SocketReply, WireReply};

const PAGES: FaultField = FaultField::number(
    "pages",
    "how many pages are given in turn, over and over; with 1 it is always the same, with more \
     their cursors lead in a circle",
    1,
    1,
    10,
);
const FIELD: FaultField =
    FaultField::text("field", "the name that is left out, at any depth", "hasMore");
const EMPTIED: FaultField =
    FaultField::text("field", "the name whose value becomes a text", "hasMore");
const ROWS: FaultField =
    FaultField::number("rows", "how many rows are missing at its end", 1, 1, 10_000);
const BY: FaultField =
    FaultField::number("by", "how much smaller it is on each page", 1, 1, 1_000_000);
const TOTAL: FaultField = FaultField::text("field", "the name of the total", "total");
const MORE: FaultField =
    FaultField::number("by", "how many rows too many it reports", 1, 1, 1_000_000);

/// The number of paths that are remembered separately; further ones share one entry.
const PATHS_MAX: usize = 64;

/// What is wrong with the pages of a list.
#[derive(Clone, Debug)]
pub(crate) enum PageFault {
    Repeat { pages: usize },
    MissingField { field: String },
    WrongType { field: String },
    ShrinkingTotal { by: u64 },
    LongTotal { field: String, by: u64 },
    DuplicateRows,
    ShortPage { rows: usize },
    EmptyPage,
    RepeatCursor,
}

/// Earlier pages, by path.
#[derive(Debug, Default)]
pub(crate) struct PageMemory(Mutex<HashMap<String, SeenPages>>);

#[derive(Debug, Default)]
struct SeenPages {
    /// The number of pages so far.
    pages: u64,
    bodies: Vec<Value>,
}

pub(super) const KINDS: [FaultKind; 9] = [
    FaultKind::plain("repeat_pages", "the first pages are returned again and again", |fields| {
        Ok(Box::new(ListFault::new(PageFault::Repeat { pages: fields.size(&PAGES)? })))
    })
    .with(&[PAGES]),
    FaultKind::plain("missing_field", "a field is missing, such as `hasMore`", |fields| {
        Ok(Box::new(ListFault::new(PageFault::MissingField { field: fields.words(&FIELD)? })))
    })
    .with(&[FIELD]),
    FaultKind::plain(
        "shrinking_total",
        "each page has a smaller `total` than the one before",
        |fields| {
            Ok(Box::new(ListFault::new(PageFault::ShrinkingTotal { by: fields.number(&BY)? })))
        },
    )
    .with(&[BY]),
    FaultKind::plain(
        "long_total",
        "a page says that the list has more rows than it has",
        |fields| {
            let (field, by) = (fields.words(&TOTAL)?, fields.number(&MORE)?);
            Ok(Box::new(ListFault::new(PageFault::LongTotal { field, by })))
        },
    )
    .with(&[TOTAL, MORE]),
    FaultKind::plain("duplicate_rows", "a page begins with the last row of the one before", |_| {
        Ok(Box::new(ListFault::new(PageFault::DuplicateRows)))
    }),
    FaultKind::plain("wrong_type", "a field is a text, whatever it should be", |fields| {
        Ok(Box::new(ListFault::new(PageFault::WrongType { field: fields.words(&EMPTIED)? })))
    })
    .with(&[EMPTIED]),
    FaultKind::plain(
        "short_page",
        "the last rows of a page are missing, and the next page begins after them",
        |fields| Ok(Box::new(ListFault::new(PageFault::ShortPage { rows: fields.size(&ROWS)? }))),
    )
    .with(&[ROWS]),
    FaultKind::plain("empty_page", "a page has no rows, but is otherwise unchanged", |_| {
        Ok(Box::new(ListFault::new(PageFault::EmptyPage)))
    }),
    FaultKind::plain("repeat_cursor", "each page returns the first page's cursor", |_| {
        Ok(Box::new(ListFault::new(PageFault::RepeatCursor)))
    }),
];

/// A fault of pages, and the pages that it has seen.
#[derive(Debug)]
struct ListFault {
    fault: PageFault,
    memory: PageMemory,
}

impl ListFault {
    fn new(fault: PageFault) -> Self {
        Self { fault, memory: PageMemory::default() }
    }
}

impl FaultEffect for ListFault {
    fn spoil(&self, reply: WireReply, path: &str) -> SocketReply {
        let body = self.fault.spoil(&reply.body, path, &self.memory).map(Bytes::from);
        SocketReply::Whole(WireReply { body: body.unwrap_or(reply.body), ..reply })
    }
}

impl PageFault {
    /// The page that replaces `body`; `None` leaves it unchanged.
    fn spoil(&self, body: &Bytes, path: &str, memory: &PageMemory) -> Option<Vec<u8>> {
        let mut page: Value = serde_json::from_slice(body).ok()?;
        let mut paths = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.len() >= PATHS_MAX && !paths.contains_key(path) {
            paths.clear();
        }
        let seen = paths.entry(path.to_owned()).or_default();
        let earlier = seen.pages;
        seen.pages += 1;
        match self {
            Self::Repeat { pages } => {
                if seen.bodies.len() < *pages {
                    change(&mut page, "hasMore", &|more| *more = json!(true));
                    seen.bodies.push(page.clone());
                } else {
                    let turn = usize::try_from(earlier).unwrap_or(0) % pages;
                    page = seen.bodies.get(turn)?.clone();
                }
            }
            Self::MissingField { field } => remove(&mut page, field),
            Self::WrongType { field } => change(&mut page, field, &|value| *value = json!("so")),
            Self::ShortPage { rows: missing } => {
                let rows = rows(&mut page)?;
                rows.truncate(rows.len().saturating_sub(*missing));
            }
            Self::EmptyPage => rows(&mut page)?.clear(),
            Self::RepeatCursor => {
                if seen.bodies.is_empty() {
                    seen.bodies.push(find(&page, CURSOR)?.clone());
                }
                let first = seen.bodies.first()?.clone();
                change(&mut page, CURSOR, &|cursor| cursor.clone_from(&first));
            }
            Self::ShrinkingTotal { by } => {
                change(&mut page, "total", &|total| {
                    if let Some(number) = total.as_u64() {
                        *total = json!(number.saturating_sub(by.saturating_mul(earlier)));
                    }
                });
            }
            Self::LongTotal { field, by } => {
                change(&mut page, field, &|total| {
                    if let Some(number) = total.as_u64() {
                        *total = json!(number.saturating_add(*by));
                    }
                });
            }
            Self::DuplicateRows => {
                let rows = rows(&mut page)?;
                let last = rows.last()?.clone();
                if let (Some(first), Some(row)) = (rows.first_mut(), seen.bodies.pop()) {
                    *first = row;
                }
                seen.bodies.push(last);
            }
        }
        serde_json::to_vec(&page).ok()
    }
}

/// The field with the cursor of the next page.
const CURSOR: &str = "nextCursor";

/// The first value of this name, at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|inner| find(inner, name)))
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            None
        }
    }
}

/// Changes the values of this name, at any depth.
fn change(value: &mut Value, name: &str, how: &dyn Fn(&mut Value)) {
    match value {
        Value::Object(fields) => {
            for (field, inner) in fields {
                if field == name {
                    how(inner);
                } else {
                    change(inner, name, how);
                }
            }
        }
        Value::Array(rows) => rows.iter_mut().for_each(|row| change(row, name, how)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes the values of this name, at any depth.
fn remove(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove(name);
            fields.values_mut().for_each(|inner| remove(inner, name));
        }
        Value::Array(rows) => rows.iter_mut().for_each(|row| remove(row, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The rows of a page: the page itself, or the first array of objects in it.
fn rows(page: &mut Value) -> Option<&mut Vec<Value>> {
    match page {
        Value::Array(rows) => rows.iter().any(Value::is_object).then_some(rows),
        Value::Object(fields) => fields.values_mut().find_map(rows),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(fault: &PageFault, pages: &[Value]) -> Vec<Value> {
        let memory = PageMemory::default();
        let give = |page: &Value| {
            let body = Bytes::from(page.to_string());
            let spoiled = fault.spoil(&body, "/x", &memory);
            spoiled.map_or_else(|| page.clone(), |it| serde_json::from_slice(&it).unwrap())
        };
        pages.iter().map(give).collect()
    }

    #[test]
    fn one_page_repeats_or_several_form_a_circle() {
        let page = |n: u32, more: bool| json!({"list": [{"id": n}], "hasMore": more});
        let honest = [page(1, true), page(2, true), page(3, false), page(4, false)];

        let one = given(&PageFault::Repeat { pages: 1 }, &honest);
        let circle = given(&PageFault::Repeat { pages: 2 }, &honest);

        assert_eq!(one, [1, 1, 1, 1].map(|n| page(n, true)));
        assert_eq!(circle, [1, 2, 1, 2].map(|n| page(n, true)));
    }

    #[test]
    fn fields_can_be_missing_and_totals_shrink() {
        let page = json!({"response": {"total": 9, "hasMore": true, "rows": [{"hasMore": 1}]}});
        let pages = [page.clone(), page];

        let missing = given(&PageFault::MissingField { field: "hasMore".to_owned() }, &pages);
        let shrinking = given(&PageFault::ShrinkingTotal { by: 4 }, &pages);

        assert_eq!(missing[1], json!({"response": {"total": 9, "rows": [{}]}}));
        let long = given(&PageFault::LongTotal { field: "total".to_owned(), by: 2 }, &pages);
        assert_eq!(long[0]["response"]["total"], 11);
        let totals = shrinking.iter().map(|it| it["response"]["total"].as_u64().unwrap());
        assert_eq!(totals.collect::<Vec<_>>(), [9, 5]);
    }

    #[test]
    fn rows_can_be_missing_types_wrong_and_cursors_repeated() {
        let page =
            |n: u32| json!({"data": [{"id": n}, {"id": n + 1}], "nextCursor": n, "more": true});
        let pages = [page(1), page(3)];

        let short = given(&PageFault::ShortPage { rows: 1 }, &pages);
        let empty = given(&PageFault::EmptyPage, &pages);
        let wrong = given(&PageFault::WrongType { field: "more".to_owned() }, &pages);
        let cursors = given(&PageFault::RepeatCursor, &pages);

        assert_eq!(short[1], json!({"data": [{"id": 3}], "nextCursor": 3, "more": true}));
        assert_eq!(empty[0], json!({"data": [], "nextCursor": 1, "more": true}));
        assert_eq!(
            wrong[0],
            json!({"data": [{"id": 1}, {"id": 2}], "nextCursor": 1, "more": "so"})
        );
        assert_eq!(cursors[0], page(1));
        assert_eq!(
            cursors[1],
            json!({"data": [{"id": 3}, {"id": 4}], "nextCursor": 1, "more": true})
        );
    }

    #[test]
    fn a_page_can_start_with_the_last_row_of_the_one_before() {
        let pages =
            [json!([{"id": 1}, {"id": 2}]), json!([{"id": 3}, {"id": 4}]), json!([{"id": 5}])];

        let spoiled = given(&PageFault::DuplicateRows, &pages);

        let expected =
            [json!([{"id": 1}, {"id": 2}]), json!([{"id": 2}, {"id": 4}]), json!([{"id": 4}])];
        assert_eq!(spoiled, expected);
    }
}
