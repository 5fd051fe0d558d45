//! The value of one field in one row: found in its text, and handed out.

use std::borrow::Cow;

use super::ColumnKind;
use crate::scan::{StringSpan, TextSpan};

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellValue<'a> {
    /// `null`, or the field is missing.
    Empty,
    /// A text.
    Text(Cow<'a, str>),
    /// A number, as written.
    Number(&'a str),
    /// `true` or `false`.
    Boolean(bool),
    /// JSON text, as written.
    Json(&'a str),
}

/// The value of a column in the current row.
#[derive(Debug, Clone, Copy)]
pub(super) enum FoundCell {
    Nothing,
    Text(StringSpan),
    Number(TextSpan),
    Boolean(bool),
    Json(TextSpan),
}

/// The set of kinds of a column's cells, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CellKinds(pub(super) u8);

impl CellKinds {
    const TEXT: u8 = 1;
    const NUMBER: u8 = 2;
    const BOOLEAN: u8 = 4;
    const JSON: u8 = 8;

    pub(super) const fn kind(self) -> ColumnKind {
        match self.0 {
            0 => ColumnKind::Empty,
            Self::TEXT => ColumnKind::Text,
            Self::NUMBER => ColumnKind::Number,
            Self::BOOLEAN => ColumnKind::Boolean,
            Self::JSON => ColumnKind::Json,
            _ => ColumnKind::Mixed,
        }
    }
}

impl FoundCell {
    pub(super) fn cell(self, row: &str) -> CellValue<'_> {
        match self {
            Self::Nothing => CellValue::Empty,
            Self::Text(string) => CellValue::Text(string.text(row)),
            Self::Number(span) => CellValue::Number(span.of(row)),
            Self::Boolean(value) => CellValue::Boolean(value),
            Self::Json(span) => CellValue::Json(span.of(row)),
        }
    }

    pub(super) fn value(self, row: &str) -> &str {
        match self {
            Self::Nothing => "null",
            Self::Text(StringSpan { span: TextSpan { start, end }, .. }) => {
                TextSpan { start: start.saturating_sub(1), end: end.saturating_add(1) }.of(row)
            }
            Self::Number(span) | Self::Json(span) => span.of(row),
            Self::Boolean(true) => "true",
            Self::Boolean(false) => "false",
        }
    }

    pub(super) const fn kind(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Text(_) => CellKinds::TEXT,
            Self::Number(_) => CellKinds::NUMBER,
            Self::Boolean(_) => CellKinds::BOOLEAN,
            Self::Json(_) => CellKinds::JSON,
        }
    }
}
