//! Where a read goes on: what is kept beside the rows of each page, so that another process can continue behind the last
//! whole one with every check as it was.

use serde::{Deserialize, Serialize};

/// What comes after a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// The first page.
    First,
    /// The page after so many rows.
    Offset(u64),
    /// The same, only to see that nothing is there: the page before was short, which is how this list ends.
    Confirm(u64),
    /// The page of this number.
    Page(u64),
    /// The page of this cursor.
    Cursor(String),
    /// The page before the row of this id.
    Before(String),
    /// Nothing: the list was read to its end, or as far as was asked for.
    Last,
}

/// The state of a read behind a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Point {
    pub(super) next: Next,
    /// Pages read so far.
    pub(super) pages: u64,
    /// Rows taken so far.
    pub(super) rows: u64,
    /// Rows on the platform's pages so far, also those outside the window.
    pub(super) seen: u64,
    /// What the first page said of the length of the list, and the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) totals: Option<(u64, u64)>,
    /// The conversation that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) chat: Option<String>,
    /// The page by its rows; nothing for one without rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<u64>,
    /// The rows of the page that were not taken, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<u64>,
}

impl Point {
    /// Before the first page.
    pub(super) const fn start() -> Self {
        Self {
            next: Next::First,
            pages: 0,
            rows: 0,
            seen: 0,
            totals: None,
            chat: None,
            page: None,
            left_out: Vec::new(),
        }
    }

    /// As bytes, for the frame of the page.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Numbers, texts and lists: nothing of it can fail to be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what was kept; nothing when it cannot be read.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_kept_whole() {
        for next in [
            Next::First,
            Next::Offset(3),
            Next::Confirm(4),
            Next::Page(5),
            Next::Cursor("a\"\u{e9}".to_owned()),
            Next::Before("6".to_owned()),
            Next::Last,
        ] {
            let point = Point {
                next,
                pages: 1,
                rows: 2,
                seen: u64::MAX,
                totals: Some((9, 10)),
                chat: Some("c".to_owned()),
                page: Some(u64::MAX),
                left_out: vec![0, u64::MAX],
            };
            assert_eq!(Point::from_bytes(&point.to_bytes()), Some(point));
        }
        assert_eq!(Point::from_bytes(&Point::start().to_bytes()), Some(Point::start()));
        assert_eq!(Point::from_bytes(b"{}"), None);
    }
}
