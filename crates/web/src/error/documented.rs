//! The failures of request heads and bodies, and all failures as the OpenAPI document lists them.

use failures::Failure;

use super::{ApiError, FailureRow, reference, table};
use crate::middleware::body::BodyProblem;
use crate::middleware::framing::FrameProblem;

/// A failure as the contract lists it.
#[derive(Debug, Clone, Copy)]
pub struct DocumentedFailure {
    /// The code that clients match.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// A short name for people.
    pub title: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl From<&FailureRow> for DocumentedFailure {
    fn from(row: &FailureRow) -> Self {
        let FailureRow { code, title, retryable, .. } = *row;
        Self { code, status: row.status.as_u16(), title, retryable }
    }
}

/// Every failure of the table.
pub fn failures() -> Vec<DocumentedFailure> {
    table::ALL.iter().map(DocumentedFailure::from).collect()
}

/// The failures for which the head of any request can be refused.
pub fn head_failures() -> impl Iterator<Item = DocumentedFailure> {
    reference::HEAD_PROBLEMS.iter().map(|problem| DocumentedFailure::from(&frame_row(*problem)))
}

/// Problems of a request's head have codes of their own.
pub(super) fn frame_row(problem: FrameProblem) -> FailureRow {
    FailureRow {
        code: problem.code(),
        status: problem.status(),
        title: problem.title(),
        retryable: false,
        meaning: "",
    }
}

impl From<BodyProblem> for ApiError {
    fn from(problem: BodyProblem) -> Self {
        match problem {
            BodyProblem::TooLarge(bytes_max) => Self::BodyTooLarge(bytes_max),
            BodyProblem::TooSlow => Self::BodyTimeout,
            BodyProblem::Broken => Self::BrokenBody,
            BodyProblem::NoRoom => Self::Failure(Failure::Overloaded),
            BodyProblem::ShareFull => Self::Failure(Failure::TooManyInFlight("caller")),
        }
    }
}
