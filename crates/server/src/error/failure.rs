//! The failures of the table as the OpenAPI document lists them.

use super::{Row, frame_row, reference, table};

/// A failure as the contract lists it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// What clients match.
    pub(crate) code: &'static str,
    /// The HTTP status.
    pub(crate) status: u16,
    /// A short name for people.
    pub(crate) title: &'static str,
    /// Whether the same request may succeed later.
    pub(crate) retryable: bool,
}

impl From<&Row> for Failure {
    fn from(row: &Row) -> Self {
        let Row { code, title, retryable, .. } = *row;
        Self { code, status: row.status.as_u16(), title, retryable }
    }
}

/// Every failure of the table.
pub(crate) fn failures() -> Vec<Failure> {
    table::ALL.iter().map(Failure::from).collect()
}

/// What the head of any request can be refused for.
pub(crate) fn head_failures() -> impl Iterator<Item = Failure> {
    reference::HEAD_PROBLEMS.iter().map(|problem| Failure::from(&frame_row(*problem)))
}
