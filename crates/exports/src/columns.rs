//! The columns of an export's file: those that its dataset declares, plus any others that appear,
//! or those that were chosen.

use catalog::column::{ColumnType, ColumnUnit, DatasetColumn};
use store::exports::Export;
use tabular::{DeclaredColumn, FileColumns, TabularError};

use crate::ExportsState;

/// The columns known before the first row.
pub(super) fn of(exports: &ExportsState, export: &Export) -> Result<FileColumns, TabularError> {
    let dataset = exports.catalog.platform(export.platform).dataset(export.dataset);
    let declared = dataset.map(|dataset| dataset.columns.as_slice()).unwrap_or_default();
    columns(declared, export.columns.as_deref())
}

/// A chosen name that is not declared has no type; the manifest describes its cells.
fn columns(
    declared: &[DatasetColumn],
    chosen: Option<&[String]>,
) -> Result<FileColumns, TabularError> {
    let Some(chosen) = chosen else {
        return FileColumns::declared(
            declared.iter().map(|column| described(&column.name, Some(column))),
        );
    };
    FileColumns::chosen(chosen.iter().map(|name| {
        let known = declared.iter().find(|column| column.name == *name);
        described(name, known)
    }))
}

fn described(name: &str, column: Option<&DatasetColumn>) -> DeclaredColumn {
    DeclaredColumn {
        name: name.to_owned(),
        kind: column.map(|column| column.kind).map(ColumnType::as_str),
        unit: column.and_then(|column| column.unit).map(ColumnUnit::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> [DatasetColumn; 2] {
        let column = |name: &str, kind, unit| DatasetColumn { name: name.to_owned(), kind, unit };
        [
            column("id", ColumnType::Text, None),
            column("price", ColumnType::Integer, Some(ColumnUnit::Mills)),
        ]
    }

    fn of_all(columns: &FileColumns) -> Vec<(&str, Option<&str>, Option<&str>)> {
        let all = columns.declarations().iter();
        all.map(|column| (column.name.as_str(), column.kind, column.unit)).collect()
    }

    #[test]
    fn declared_columns_come_first_by_default() {
        let all = columns(&declared(), None).unwrap();

        assert!(!all.is_closed());
        assert_eq!(
            of_all(&all),
            [("id", Some("text"), None), ("price", Some("integer"), Some("mills"))]
        );
    }

    #[test]
    fn chosen_columns_keep_their_declared_type() {
        let chosen = ["more", "price"].map(str::to_owned);

        let all = columns(&declared(), Some(&chosen)).unwrap();

        assert!(all.is_closed());
        assert_eq!(of_all(&all), [("more", None, None), ("price", Some("integer"), Some("mills"))]);
    }
}
