//! Invalid fields of requests.

use domain::field_error::FieldErrorKind;

/// One invalid field, in a shape that API tools understand.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FieldProblem {
    /// Where it is: `body`, `query`, `path` or `header`, then the path to the field.
    pub loc: Vec<String>,
    /// What is wrong, and what to send instead.
    pub msg: String,
    /// The kind of mistake.
    #[serde(rename = "type")]
    pub kind: FieldErrorKind,
}

impl FieldProblem {
    /// A problem with one field. `place` is `body`, `query`, `path` or `header`.
    pub fn new(place: &str, field: &str, kind: FieldErrorKind, msg: impl Into<String>) -> Self {
        Self { loc: vec![place.to_owned(), field.to_owned()], msg: msg.into(), kind }
    }
}

impl From<catalog::FieldProblem> for FieldProblem {
    fn from(problem: catalog::FieldProblem) -> Self {
        Self { loc: problem.location, msg: problem.message, kind: problem.kind }
    }
}
