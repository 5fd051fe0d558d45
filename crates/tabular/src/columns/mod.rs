//! Flattening: nested objects become dotted columns, arrays become JSON text.
//!
//! * `{"a": {"b": 1}}` is the column `a.b`. A dot or backslash inside a member's name is escaped
//!   with a backslash, so that two different fields never share a column.
//! * Numbers keep their digits: long ids are not rounded, `1.10` does not become `1.1`.
//! * `null` and a missing field are empty cells; an empty object has no cell.
//! * Objects nested deeper than [`DEPTH_MAX`] become JSON text, as arrays do.
//! * If a member occurs twice in an object, the last one counts, as for most JSON readers.
//! * Declared columns come first, whether or not a row has their fields. `null` in place of an
//!   object with declared columns is not a column of its own. If columns are chosen, other fields
//!   are left out.
//!
//! Rows of one platform are much alike, so the members seen are kept as a tree, and at each
//! position the member that came next in the previous row is tried first: a row like the previous
//! one costs one comparison per member.

mod cell;
mod flattener;

use std::collections::{HashMap, HashSet};

use crate::declared::{self, DeclaredColumn};
use crate::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, TabularError};

use cell::CellKinds;
pub use cell::CellValue;
pub use flattener::RowFlattener;

/// How deeply nested fields become columns of their own.
pub const DEPTH_MAX: usize = 16;
/// The columns of a file: the declared ones, then the others in the order in which their fields
/// first appeared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileColumns {
    names: Vec<String>,
    kinds: Vec<CellKinds>,
    positions: HashMap<String, usize>,
    /// The columns that always come first.
    declared: Vec<DeclaredColumn>,
    /// The names of the objects that contain the fields of declared columns.
    objects: HashSet<String>,
    /// Whether fields without a column are left out.
    is_closed: bool,
}

/// The kind of values in a column, over all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Only `null`.
    Empty,
    /// Texts.
    Text,
    /// Numbers.
    Number,
    /// `true` and `false`.
    Boolean,
    /// JSON text of arrays, or of objects nested too deeply.
    Json,
    /// Several of these.
    Mixed,
}

impl FileColumns {
    /// Creates it without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Columns that come first and in this order, also in a file without rows. Other fields become
    /// columns after them. If a name is given twice, the first counts.
    pub fn declared(
        columns: impl IntoIterator<Item = DeclaredColumn>,
    ) -> Result<Self, TabularError> {
        let mut all = Self::default();
        for column in columns {
            if column.name.len() > COLUMN_NAME_BYTES_MAX {
                return Err(TabularError::ColumnNameTooLong);
            }
            if all.position(&column.name).is_some() {
                continue;
            }
            all.push(&column.name)?;
            all.objects.extend(declared::parents(&column.name).map(str::to_owned));
            all.declared.push(column);
        }
        Ok(all)
    }

    /// These columns in this order, and no others: all other fields are left out. JSON lines
    /// contain only these columns too. If a name is given twice, the first counts.
    pub fn chosen(columns: impl IntoIterator<Item = DeclaredColumn>) -> Result<Self, TabularError> {
        Ok(Self { is_closed: true, ..Self::declared(columns)? })
    }

    /// Whether fields without a column are left out.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The declarations of the columns that come first, in order.
    pub fn declarations(&self) -> &[DeclaredColumn] {
        &self.declared
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The kind of each column, in the order of the names.
    pub fn kinds(&self) -> impl Iterator<Item = ColumnKind> {
        self.kinds.iter().map(|kinds| kinds.kind())
    }

    /// The position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Adds a column after the others and returns its position.
    fn push(&mut self, name: &str) -> Result<usize, TabularError> {
        if self.names.len() >= COLUMNS_MAX {
            return Err(TabularError::TooManyColumns);
        }
        let position = self.names.len();
        self.positions.insert(name.to_owned(), position);
        self.names.push(name.to_owned());
        self.kinds.push(CellKinds::default());
        Ok(position)
    }
}

impl ColumnKind {
    /// Its name in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Text => "text",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Json => "json",
            Self::Mixed => "mixed",
        }
    }
}

#[cfg(test)]
mod tests;
