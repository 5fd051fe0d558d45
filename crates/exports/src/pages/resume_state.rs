//! The state stored with the rows of each page, so that another process can continue after the last
//! complete one with the same checks.

use serde::{Deserialize, Serialize};

use super::walk::WalkState;

/// The state of a read after a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumePoint {
    /// The state of the walk through the list.
    pub(super) stand: WalkState,
    /// The number of pages read so far.
    pub(super) pages: u64,
    /// The number of rows taken so far.
    pub(super) rows: u64,
    /// The conversation that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) chat: Option<String>,
    /// The fingerprint of the page's rows; `None` for a page without rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<u64>,
    /// The new rows of the page that were not taken: their positions among the new ones, and their
    /// ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<(usize, u64)>,
}

impl ResumePoint {
    /// Its serialized form, for the frame of the page.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Numbers, strings and lists can always be serialized.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses the serialized form; `None` if it is invalid.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use catalog::dataset::PagingStyle;

    use super::super::next_page::NextPage;
    use super::super::walk::{ListPaging, ListWalk};
    use super::*;

    #[test]
    fn resume_points_survive_serialization() {
        for next in [
            NextPage::First,
            NextPage::Offset(3),
            NextPage::Page { number: 5, size: 47 },
            NextPage::Cursor("a\"\u{e9}".to_owned()),
            NextPage::Before("6".to_owned()),
            NextPage::Last,
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
            "a point of an earlier version must not be misread"
        );
    }
}
