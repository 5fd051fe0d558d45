//! Columns in catalogue files: their shape in TOML, checked, read and written.

use std::collections::HashSet;

use serde::Deserialize;

use crate::column::{COLUMNS_MAX, ColumnType, ColumnUnit, DatasetColumn, NAME_BYTES_MAX};
use crate::dataset::{JsonPointer, TimeField};
use crate::toml_text::quoted;

/// One entry of `columns`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnText {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    unit: Option<String>,
}

/// Reads the columns of a dataset, whose rows have their id and their time there. A dataset may
/// declare none.
pub(crate) fn read(
    texts: Vec<ColumnText>,
    id: &JsonPointer,
    time: &TimeField,
) -> Result<Vec<DatasetColumn>, String> {
    if texts.len() > COLUMNS_MAX {
        return Err(format!("columns are at most {COLUMNS_MAX}"));
    }
    let columns: Vec<DatasetColumn> = texts.into_iter().map(one).collect::<Result<_, _>>()?;
    let mut names = HashSet::new();
    for DatasetColumn { name, .. } in &columns {
        if !names.insert(name) {
            return Err(format!("two columns are called {name}"));
        }
    }
    if !columns.is_empty() {
        check_id(&columns, id)?;
        check_time(&columns, time)?;
    }
    Ok(columns)
}

fn one(text: ColumnText) -> Result<DatasetColumn, String> {
    let ColumnText { name, kind, unit } = text;
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(format!("the name of a column has 1 to {NAME_BYTES_MAX} bytes"));
    }
    let kind =
        ColumnType::ALL.into_iter().find(|known| known.as_str() == kind).ok_or_else(|| {
            let words = ColumnType::ALL.map(ColumnType::as_str).join(", ");
            format!("column {name}: the type {kind} is not one of {words}")
        })?;
    let unit = unit.map(|unit| {
        ColumnUnit::ALL.into_iter().find(|known| known.as_str() == unit).ok_or_else(|| {
            let words = ColumnUnit::ALL.map(ColumnUnit::as_str).join(", ");
            format!("column {name}: the unit {unit} is not one of {words}")
        })
    });
    let unit = unit.transpose()?;
    match unit {
        None if kind == ColumnType::Time => {
            Err(format!("column {name}: a time needs a unit: rfc3339, unix_seconds or unix_millis"))
        }
        Some(unit) if !unit.fits(kind) => {
            let (unit, kind) = (unit.as_str(), kind.as_str());
            Err(format!("column {name}: the unit {unit} does not fit the type {kind}"))
        }
        _ => Ok(DatasetColumn { name, kind, unit }),
    }
}

fn check_id(columns: &[DatasetColumn], id: &JsonPointer) -> Result<(), String> {
    match of(columns, id, "id")?.kind {
        ColumnType::Text | ColumnType::Integer => Ok(()),
        _ => Err("the column of the id has the type text or integer".to_owned()),
    }
}

fn check_time(columns: &[DatasetColumn], time: &TimeField) -> Result<(), String> {
    let column = of(columns, &time.field, "time")?;
    let unit = time.unit.as_str();
    if column.unit.map(ColumnUnit::as_str) == Some(unit) {
        return Ok(());
    }
    Err(format!("the column of the time has the type time and the unit {unit}"))
}

/// The column of the field that has the row's id or time.
fn of<'c>(
    columns: &'c [DatasetColumn],
    field: &JsonPointer,
    what: &str,
) -> Result<&'c DatasetColumn, String> {
    let name = DatasetColumn::name_of(field.names());
    let found = columns.iter().find(|column| column.name == name);
    found.ok_or_else(|| format!("columns lack {name}, the {what} of a row"))
}

/// The entries as they stand in a file.
pub(crate) fn text(columns: &[DatasetColumn]) -> String {
    let entry = |column: &DatasetColumn| {
        let unit = column.unit.map(|unit| format!(", unit = \"{}\"", unit.as_str()));
        format!(
            "    {{ name = {}, type = \"{}\"{} }},\n",
            quoted(&column.name),
            column.kind.as_str(),
            unit.unwrap_or_default()
        )
    };
    format!("[\n{}]", columns.iter().map(entry).collect::<String>())
}
