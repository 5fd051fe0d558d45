//! Where a read goes on: what is kept beside the rows of each page, so that another process can continue behind the last
//! whole one with every check as it was.

use serde::{Deserialize, Serialize};

use super::walk::WalkState;

/// What comes after a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// The top of the list.
    First,
    /// The page after so many rows.
    Offset(u64),
    /// A page by its number, where pages have so many rows.
    Page {
        /// From 1 on.
        number: u64,
        /// Rows of a page.
        size: u64,
    },
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
pub(super) struct ResumePoint {
    /// Where the walk through the list stands.
    pub(super) stand: WalkState,
    /// Pages read so far.
    pub(super) pages: u64,
    /// Rows taken so far.
    pub(super) rows: u64,
    /// The conversation that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) chat: Option<String>,
    /// The page by its rows; nothing for one without rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<u64>,
    /// The new rows of the page that were not taken: their places among the new ones, and their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<(usize, u64)>,
}

impl ResumePoint {
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
    use catalog::dataset::PagingStyle;

    use super::super::walk::{ListPaging, ListWalk};
    use super::*;

    #[test]
    fn a_point_is_kept_whole() {
        for next in [
            Next::First,
            Next::Offset(3),
            Next::Page { number: 5, size: 47 },
            Next::Cursor("a\"\u{e9}".to_owned()),
            Next::Before("6".to_owned()),
            Next::Last,
        ] {
            let mut stand = ListWalk::new(ListPaging::whole(PagingStyle::Offset, 100)).stand;
            (stand.next, stand.total) = (next, Some(u64::MAX));
            let point = ResumePoint {
                stand,
                pages: 1,
                rows: 2,
                chat: Some("c".to_owned()),
                page: Some(u64::MAX),
                left_out: vec![(0, 0), (3, u64::MAX)],
            };
            assert_eq!(ResumePoint::from_bytes(&point.to_bytes()), Some(point));
        }
        assert_eq!(ResumePoint::from_bytes(b"{}"), None);
        let earlier = br#"{"next":{"offset":100},"pages":1,"rows":100,"seen":100}"#;
        assert_eq!(
            ResumePoint::from_bytes(earlier),
            None,
            "a point of an earlier version is not read wrongly"
        );
    }
}
