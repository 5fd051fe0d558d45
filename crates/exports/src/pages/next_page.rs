//! Where a read goes on after a page.

use serde::{Deserialize, Serialize};

/// What follows a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextPage {
    /// The top of the list.
    First,
    /// The page after this number of rows.
    Offset(u64),
    /// A page by its number and size.
    Page {
        /// Counted from 1.
        number: u64,
        /// Rows of a page.
        size: u64,
    },
    /// The page of this cursor.
    Cursor(String),
    /// The page before the row with this id.
    Before(String),
    /// Nothing: the list was read to its end, or as far as requested.
    Last,
}
