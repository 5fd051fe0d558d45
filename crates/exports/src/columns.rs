//! The columns of an export's file: those that its dataset declares and whatever comes besides, or those that were chosen.

use catalog::column::{ColumnType, ColumnUnit, DatasetColumn};
use store::exports::Export;
use tabular::{DeclaredColumn, FileColumns, TabularError};

use crate::ExportsState;

/// The columns before the first row.
pub(super) fn of(exports: &ExportsState, export: &Export) -> Result<FileColumns, TabularError> {
    let dataset = exports.catalog.platform(export.platform).dataset(export.dataset);
    let declared = dataset.map(|dataset| dataset.columns.as_slice()).unwrap_or_default();
    columns(declared, export.columns.as_deref())
}

/// A chosen name that is not declared has no type; the manifest says what its cells hold.
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
    fn without_a_choice_all_declared_columns_stand_before_others() {
        let all = columns(&declared(), None).unwrap();

        assert!(!all.is_closed());
        assert_eq!(
            of_all(&all),
            [("id", Some("text"), None), ("price", Some("integer"), Some("mills"))]
        );
    }

    #[test]
    fn a_choice_has_what_is_declared_of_its_columns_and_no_others() {
        let chosen = ["more", "price"].map(str::to_owned);

        let all = columns(&declared(), Some(&chosen)).unwrap();

        assert!(all.is_closed());
        assert_eq!(of_all(&all), [("more", None, None), ("price", Some("integer"), Some("mills"))]);
    }
}
