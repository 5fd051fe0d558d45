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
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::types::Uuid;
use sqlx::{Postgres, Row as _, Sqlite};

use crate::StoreError;

/// A value for one placeholder. Nulls keep their type, which PostgreSQL needs.
#[derive(Debug, Clone)]
pub(crate) enum SqlValue<'a> {
    Text(Option<Cow<'a, str>>),
    Int(Option<i64>),
    Bytes(Option<&'a [u8]>),
    /// The UUID in an id, as the tables of calls have it.
    Uuid(Option<Uuid>),
}

/// The type of a column in a statement over many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlKind {
    Text,
    Int,
    Bytes,
    Uuid,
}

impl SqlValue<'_> {
    /// The value, if it is a text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.as_deref(),
            Self::Int(_) | Self::Bytes(_) | Self::Uuid(_) => None,
        }
    }

    /// The value, if it is a number.
    pub(crate) const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => *number,
            Self::Text(_) | Self::Bytes(_) | Self::Uuid(_) => None,
        }
    }

    /// The value, if it is bytes.
    pub(crate) const fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => *bytes,
            Self::Text(_) | Self::Int(_) | Self::Uuid(_) => None,
        }
    }

    /// The value, if it is a UUID.
    pub(crate) const fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Self::Uuid(uuid) => *uuid,
            Self::Text(_) | Self::Int(_) | Self::Bytes(_) => None,
        }
    }

    /// The id of a call as the tables of calls have it.
    pub(crate) const fn row_id(call: CallId) -> Self {
        Self::Uuid(Some(Uuid::from_bytes(call.bytes())))
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

/// A row of either database. Columns are read by name.
pub(crate) enum SqlRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    /// From a statement batch on PostgreSQL, with the columns that the row has for its statement.
    Batched(PgRow, Arc<[BatchColumn]>),
    /// From the metering's connection to SQLite: the names of the columns, and their values.
    Direct(Arc<[String]>, Vec<rusqlite::types::Value>),
}

/// A column of a statement, and its position in the rows of the batch.
pub(crate) struct BatchColumn {
    pub(crate) name: &'static str,
    pub(crate) position: usize,
}

/// A type that both drivers can read from a column.
trait ColumnValue:
    FromSql
    + sqlx::Type<Sqlite>
    + sqlx::Type<Postgres>
    + for<'r> sqlx::Decode<'r, Sqlite>
    + for<'r> sqlx::Decode<'r, Postgres>
{
}

impl<T> ColumnValue for T where
    T: FromSql
        + sqlx::Type<Sqlite>
        + sqlx::Type<Postgres>
        + for<'r> sqlx::Decode<'r, Sqlite>
        + for<'r> sqlx::Decode<'r, Postgres>
{
}

const NO_COLUMN: &str = "the statement does not return it";

impl SqlRow {
    fn get<T: ColumnValue>(&self, column: &str) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(row) => row.try_get(column).map_err(|error| failed(column, error)),
            Self::Postgres(row) => row.try_get(column).map_err(|error| failed(column, error)),
            Self::Batched(row, columns) => {
                let found = columns.iter().find(|known| known.name == column);
                let found = found.ok_or_else(|| StoreError::column(column, NO_COLUMN))?;
                row.try_get(found.position).map_err(|error| failed(column, error))
            }
            Self::Direct(columns, values) => {
                let found = columns.iter().zip(values).find(|(name, _)| *name == column);
                let (_, value) = found.ok_or_else(|| StoreError::column(column, NO_COLUMN))?;
                T::column_result(value.into()).map_err(|error| StoreError::column(column, error))
            }
        }
    }

    /// A value that cannot be null. SQLite's driver would read null as zero or as an empty text.
    fn required<T>(&self, column: &str) -> Result<T, StoreError>
    where
        Option<T>: ColumnValue,
    {
        self.get::<Option<T>>(column)?.ok_or_else(|| StoreError::column(column, "it is null"))
    }

    pub(crate) fn text(&self, column: &str) -> Result<String, StoreError> {
        self.required(column)
    }

    pub(crate) fn optional_text(&self, column: &str) -> Result<Option<String>, StoreError> {
        self.get(column)
    }

    pub(crate) fn int(&self, column: &str) -> Result<i64, StoreError> {
        self.required(column)
    }

    pub(crate) fn optional_int(&self, column: &str) -> Result<Option<i64>, StoreError> {
        self.get(column)
    }

    pub(crate) fn bytes(&self, column: &str) -> Result<Vec<u8>, StoreError> {
        self.required(column)
    }

    pub(crate) fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(column)
    }

    /// The id of a call, from a column of the tables of calls.
    pub(crate) fn row_id(&self, column: &str) -> Result<CallId, StoreError> {
        let uuid = self.optional_uuid(column)?;
        let uuid = uuid.ok_or_else(|| StoreError::column(column, "it is null"))?;
        Ok(CallId::from_bytes(uuid.into_bytes()))
    }

    /// A UUID, which SQLite has as its bytes.
    pub(crate) fn optional_uuid(&self, column: &str) -> Result<Option<Uuid>, StoreError> {
        let read = match self {
            Self::Postgres(row) => row.try_get(column),
            Self::Batched(row, columns) => {
                let found = columns.iter().find(|known| known.name == column);
                let found = found.ok_or_else(|| StoreError::column(column, NO_COLUMN))?;
                row.try_get(found.position)
            }
            Self::Sqlite(_) | Self::Direct(..) => {
                let bytes = self.optional_bytes(column)?;
                let uuid = bytes.map(|bytes| Uuid::from_slice(&bytes)).transpose();
                return uuid.map_err(|error| StoreError::column(column, error));
            }
        };
        read.map_err(|error| failed(column, error))
    }

    pub(crate) fn credits(&self, column: &str) -> Result<Credits, StoreError> {
        self.int(column).map(Credits::from_whole)
    }

    pub(crate) fn time(&self, column: &str) -> Result<Timestamp, StoreError> {
        self.int(column).map(Timestamp::from_unix_micros)
    }

    pub(crate) fn optional_time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.optional_int(column)?.map(Timestamp::from_unix_micros))
    }

    pub(crate) fn status(&self, column: &str) -> Result<Option<u16>, StoreError> {
        Ok(self.optional_int(column)?.and_then(|status| u16::try_from(status).ok()))
    }

    /// Parses a text column into a domain type. An unparsable value is an error that names
    /// `table` and the column.
    pub(crate) fn parse<T: std::str::FromStr>(
        &self,
        column: &str,
        table: &'static str,
    ) -> Result<T, StoreError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| unreadable(table, column, &text))
    }

    /// Reads the stored name of a platform.
    pub(crate) fn platform(
        &self,
        column: &str,
        table: &'static str,
    ) -> Result<Platform, StoreError> {
        let text = self.text(column)?;
        Platform::from_stored(&text).map_err(|_| unreadable(table, column, &text))
    }

    /// Like `platform`, for a column that may be null.
    pub(crate) fn optional_platform(
        &self,
        column: &str,
        table: &'static str,
    ) -> Result<Option<Platform>, StoreError> {
        self.optional_text(column)?
            .map(|text| Platform::from_stored(&text).map_err(|_| unreadable(table, column, &text)))
            .transpose()
    }

    /// Like `parse`, for a column that may be null.
    pub(crate) fn parse_optional<T: std::str::FromStr>(
        &self,
        column: &str,
        table: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.optional_text(column)?
            .map(|text| text.parse().map_err(|_| unreadable(table, column, &text)))
            .transpose()
    }
}

/// A failure to read a column, by either driver.
fn failed(column: &str, error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::ColumnNotFound(_) => StoreError::column(column, NO_COLUMN),
        sqlx::Error::ColumnDecode { source, .. } => StoreError::column(column, source),
        other => StoreError::column(column, other),
    }
}

/// A stored text that this version cannot parse.
fn unreadable(table: &str, column: &str, text: &str) -> StoreError {
    StoreError::column(format_args!("{table}.{column}"), format_args!("{text:?} is unknown"))
}

/// Lower-case hexadecimal, the form in which hashes are stored.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().map_or('0', char::from);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of a stored hash; none if it is not hexadecimal.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use domain::key::KeyScope;

    use super::*;
    use crate::Store;
    use crate::statement_batch::BatchedStatement;
    use crate::testing;
    use crate::tx::RowTable;

    const SQL: &str = "select 'soft' as scope, cast(null as bigint) as cost";
    const BATCHED: &str = "
        with v (scope) as ({rows}) select scope, cast(null as bigint) as cost from v";
    const RETURNS: &[(&str, SqlKind)] = &[("cost", SqlKind::Int), ("scope", SqlKind::Text)];

    fn problem<T: std::fmt::Debug>(read: Result<T, StoreError>) -> String {
        read.unwrap_err().to_string()
    }

    fn check(row: &SqlRow) {
        assert_eq!(row.text("scope").unwrap(), "soft");
        assert_eq!(row.optional_int("cost").unwrap(), None);
        let unknown = "the column keys.scope cannot be read: \"soft\" is unknown";
        assert_eq!(problem(row.parse::<KeyScope>("scope", "keys")), unknown);
        let missing = "the column price cannot be read: the statement does not return it";
        assert_eq!(problem(row.int("price")), missing);
        assert_eq!(problem(row.int("cost")), "the column cost cannot be read: it is null");
    }

    #[tokio::test]
    async fn columns_are_read_by_name_and_errors_name_them_on_sqlite() {
        let store = testing::sqlite().await;
        reads_columns_by_name(&store).await;
    }

    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn columns_are_read_by_name_and_errors_name_them_on_postgresql() {
        let store = testing::postgres().await;
        reads_columns_by_name(&store).await;
    }

    async fn reads_columns_by_name(store: &Store) {
        check(&store.read().await.unwrap().row(SQL, &[]).await.unwrap().unwrap());
        let mut tx = store.write_metering().await.unwrap();
        check(&tx.row(SQL, &[]).await.unwrap().unwrap());
        let mut table = RowTable::new(&[SqlKind::Text]);
        table.push(["soft".into()]);
        let [rows] = tx.together([BatchedStatement::over(BATCHED, table, RETURNS)]).await.unwrap();
        check(&rows[0]);
    }
}
