//! Statement parameters and result rows, the same for both databases.

use std::borrow::Cow;
use std::sync::Arc;

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::customer::Email;
use domain::id::{
    CallId, ChangeId, CustomerId, DataKeyId, EntryId, ExportId, JobId, KeyId, LotId, NodeId,
    OfferId, OrderId, RunId, SessionId,
};
use domain::platform::Platform;
use domain::time::{Timestamp, UtcDay};
use domain::token::TokenHash;
use rusqlite::types::FromSql;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use crate::StoreError;

/// A value for one placeholder. Nulls keep their type, which PostgreSQL needs.
#[derive(Debug, Clone)]
pub(crate) enum SqlValue<'a> {
    Text(Option<Cow<'a, str>>),
    Int(Option<i64>),
    Bytes(Option<&'a [u8]>),
}

/// The type of a column in a statement over many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlKind {
    Text,
    Int,
}

impl SqlValue<'_> {
    /// The value, if it is a text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.as_deref(),
            Self::Int(_) | Self::Bytes(_) => None,
        }
    }

    /// The value, if it is a number.
    pub(crate) const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => *number,
            Self::Text(_) | Self::Bytes(_) => None,
        }
    }
}

macro_rules! written_values {
    ($($name:ty),+) => {$(
        impl From<$name> for SqlValue<'_> {
            fn from(value: $name) -> Self {
                Self::Text(Some(Cow::Owned(value.to_string())))
            }
        }
    )+};
}

written_values!(
    CallId, ChangeId, CustomerId, DataKeyId, EntryId, ExportId, JobId, KeyId, LotId, NodeId,
    OfferId, OrderId, RunId, SessionId
);

impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(Cow::Borrowed(text)))
    }
}

impl<'a> From<Option<&'a str>> for SqlValue<'a> {
    fn from(text: Option<&'a str>) -> Self {
        Self::Text(text.map(Cow::Borrowed))
    }
}

impl From<String> for SqlValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(Some(Cow::Owned(text)))
    }
}

impl<'a> From<&'a CreatorId> for SqlValue<'a> {
    fn from(id: &'a CreatorId) -> Self {
        id.as_str().into()
    }
}

impl<'a> From<&'a Email> for SqlValue<'a> {
    fn from(email: &'a Email) -> Self {
        email.as_str().into()
    }
}

impl<'a> From<&'a [u8]> for SqlValue<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl From<&TokenHash> for SqlValue<'_> {
    fn from(hash: &TokenHash) -> Self {
        hex(hash.as_bytes()).into()
    }
}

impl From<i64> for SqlValue<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<Option<i64>> for SqlValue<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Int(number)
    }
}

impl From<Timestamp> for SqlValue<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Int(Some(time.unix_micros()))
    }
}

impl From<Option<Timestamp>> for SqlValue<'_> {
    fn from(time: Option<Timestamp>) -> Self {
        Self::Int(time.map(Timestamp::unix_micros))
    }
}

impl From<Credits> for SqlValue<'_> {
    fn from(credits: Credits) -> Self {
        Self::Int(Some(credits.whole()))
    }
}

impl From<UtcDay> for SqlValue<'_> {
    fn from(day: UtcDay) -> Self {
        Self::Int(Some(day.number()))
    }
}

/// A row of either database. Columns are read by position.
pub(crate) enum SqlRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    /// From a statement batch on PostgreSQL, with the positions of the statement's own columns.
    Joined(PgRow, Arc<[usize]>),
    /// From the metering's connection to SQLite.
    Direct(Vec<rusqlite::types::Value>),
}

/// Reads one column of any kind of row.
macro_rules! column {
    ($row:expr, $place:expr) => {
        match $row {
            SqlRow::Sqlite(row) => row.try_get($place).map_err(StoreError::from),
            SqlRow::Postgres(row) => row.try_get($place).map_err(StoreError::from),
            SqlRow::Joined(row, places) => {
                // A column that the statement does not have maps to a position that no row has.
                let place = places.get($place).copied().unwrap_or(usize::MAX);
                row.try_get(place).map_err(StoreError::from)
            }
            SqlRow::Direct(values) => direct_column(values, $place),
        }
    };
}

fn direct_column<T: FromSql>(
    values: &[rusqlite::types::Value],
    place: usize,
) -> Result<T, StoreError> {
    let value = values.get(place).ok_or(rusqlite::Error::InvalidColumnIndex(place))?;
    T::column_result(value.into()).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(place, value.data_type(), error.into()).into()
    })
}

impl SqlRow {
    /// A row with one text column.
    pub(crate) fn of_text(text: String) -> Self {
        Self::Direct(vec![rusqlite::types::Value::Text(text)])
    }

    pub(crate) fn text(&self, place: usize) -> Result<String, StoreError> {
        column!(self, place)
    }

    pub(crate) fn optional_text(&self, place: usize) -> Result<Option<String>, StoreError> {
        column!(self, place)
    }

    pub(crate) fn int(&self, place: usize) -> Result<i64, StoreError> {
        column!(self, place)
    }

    pub(crate) fn optional_int(&self, place: usize) -> Result<Option<i64>, StoreError> {
        column!(self, place)
    }

    pub(crate) fn bytes(&self, place: usize) -> Result<Vec<u8>, StoreError> {
        column!(self, place)
    }

    pub(crate) fn optional_bytes(&self, place: usize) -> Result<Option<Vec<u8>>, StoreError> {
        column!(self, place)
    }

    pub(crate) fn credits(&self, place: usize) -> Result<Credits, StoreError> {
        self.int(place).map(Credits::from_whole)
    }

    pub(crate) fn time(&self, place: usize) -> Result<Timestamp, StoreError> {
        self.int(place).map(Timestamp::from_unix_micros)
    }

    pub(crate) fn optional_time(&self, place: usize) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.optional_int(place)?.map(Timestamp::from_unix_micros))
    }

    pub(crate) fn status(&self, place: usize) -> Result<Option<u16>, StoreError> {
        Ok(self.optional_int(place)?.and_then(|status| u16::try_from(status).ok()))
    }

    /// Parses a text column into a domain type. An unparsable value is an error that names `table`.
    pub(crate) fn parse<T: std::str::FromStr>(
        &self,
        place: usize,
        table: &'static str,
    ) -> Result<T, StoreError> {
        let text = self.text(place)?;
        text.parse().map_err(|_| StoreError::corrupt(table, text))
    }

    /// Reads the stored name of a platform.
    pub(crate) fn platform(
        &self,
        place: usize,
        table: &'static str,
    ) -> Result<Platform, StoreError> {
        let text = self.text(place)?;
        Platform::from_stored(&text).map_err(|_| StoreError::corrupt(table, text))
    }

    /// Like `platform`, for a column that may be null.
    pub(crate) fn optional_platform(
        &self,
        place: usize,
        table: &'static str,
    ) -> Result<Option<Platform>, StoreError> {
        self.optional_text(place)?
            .map(|text| Platform::from_stored(&text).map_err(|_| StoreError::corrupt(table, text)))
            .transpose()
    }

    /// Like `parse`, for a column that may be null.
    pub(crate) fn parse_optional<T: std::str::FromStr>(
        &self,
        place: usize,
        table: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.optional_text(place)?
            .map(|text| text.parse().map_err(|_| StoreError::corrupt(table, text)))
            .transpose()
    }
}

/// Lower-case hexadecimal, the form in which hashes are stored.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().map_or('0', char::from);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
