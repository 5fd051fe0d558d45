//! Why a field of a call is refused.

use domain::field_error::FieldErrorKind;

/// Why a field that a caller sent is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// Where it is: `body`, `query` or `path`, then names and indexes inwards.
    pub location: Vec<String>,
    /// What is wrong with it, for people. Never holds the value.
    pub message: String,
    /// What kind of mistake it is.
    pub kind: FieldErrorKind,
}
