//! Columns: those that datasets declare, and those that an export is limited to.

use ::exports::COLUMN_NAME_BYTES_MAX;
use catalog::column::{ColumnUnit, DatasetColumn};
use serde_json::json;
use utoipa::openapi::schema::Schema;

/// The maximum number of columns in a request.
pub(crate) const CHOSEN_MAX: usize = 200;

/// The chosen columns of a file, or null for all.
pub(crate) fn chosen_columns() -> Schema {
    web::words::of(json!({
        "type": ["array", "null"], "minItems": 1, "maxItems": CHOSEN_MAX,
        "description": "The only columns of the file, in this order: 1 to 200 names, each once, of those that \
            `GET /v1/exports/datasets` lists or of other fields of the rows. A column that no row has is empty. In `jsonl`, \
            the members of each line. All columns when absent or null.",
        "items": { "type": "string", "minLength": 1, "maxLength": COLUMN_NAME_BYTES_MAX },
    }))
}

/// A column of a dataset's files.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct ColumnOut {
    /// The names of the members that lead to the field, separated by dots. A dot or backslash
    /// within a name is preceded by a backslash.
    name: String,
    #[serde(rename = "type")]
    #[schema(schema_with = web::words::column_type)]
    kind: &'static str,
    #[schema(schema_with = web::words::column_unit)]
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
