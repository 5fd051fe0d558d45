//! Columns: those that datasets declare, and those that an export is limited to.

use std::collections::HashSet;

use ::exports::COLUMN_NAME_BYTES_MAX;
use catalog::column::{ColumnUnit, DatasetColumn};
use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use serde_json::Value;
use web::fields::{FieldProblems, GoodFields};

/// The maximum number of columns in a request.
pub(crate) const CHOSEN_MAX: usize = 200;

/// A column of a dataset's files.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct ColumnOut {
    /// The names of the members that lead to the field, separated by dots. A dot or backslash
    /// within a name is preceded by a backslash.
    name: String,
    #[serde(rename = "type")]
    #[schema(schema_with = crate::words::column_type)]
    kind: &'static str,
    #[schema(schema_with = crate::words::column_unit)]
    unit: Option<&'static str>,
}

impl From<&DatasetColumn> for ColumnOut {
    fn from(column: &DatasetColumn) -> Self {
        Self {
            name: column.name.clone(),
            kind: column.kind.as_str(),
            unit: column.unit.map(ColumnUnit::as_str),
        }
    }
}

/// What the schema of `columns` cannot check: that each name appears once, and its length in bytes.
pub(super) fn check(fields: &GoodFields<'_>, problems: &mut FieldProblems) {
    let given = fields.value("columns").and_then(Value::as_array).into_iter().flatten();
    let mut names = HashSet::new();
    for (index, name) in given.enumerate() {
        let name = name.as_str().unwrap_or_default();
        let (kind, message) = if name.len() > COLUMN_NAME_BYTES_MAX {
            let message = format!("must have at most {COLUMN_NAME_BYTES_MAX} bytes");
            (FieldErrorKind::TooLong, message)
        } else if names.insert(name) {
            continue;
        } else {
            let message = "is already in the list; name each column once".to_owned();
            (FieldErrorKind::Duplicate, message)
        };
        let mut problem = FieldProblem::new("body", "columns", kind, message);
        problem.loc.push(index.to_string());
        problems.add(problem);
    }
}
