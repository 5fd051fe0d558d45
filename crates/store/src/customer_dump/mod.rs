//! Everything that is stored about one customer, table by table and page by page. Secrets, hashes
//! of secrets and sealed values are not among the columns.

mod tables;

use domain::id::CustomerId;
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::sql::{SqlRow, SqlValue};
use crate::{Store, StoreError};

pub use tables::{CALL_TOTALS, CALLS, LEDGER, TABLES};

/// How a column's values are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DumpedKind {
    /// A text, which may be null.
    Text,
    /// A number, which may be null.
    Int,
    /// Microseconds since 1970, written as RFC 3339.
    Time,
    /// A text that contains JSON.
    Json,
}

/// A table with the columns that are handed out.
#[derive(Debug, Clone, Copy)]
pub struct DumpedTable {
    /// The name of its file, without the ending.
    pub name: &'static str,
    /// What it is read from; `$1` is the customer.
    source: &'static str,
    /// The columns, in the order of the file.
    columns: &'static [(&'static str, DumpedKind)],
    /// The columns that order the rows, all of them texts. They are unique together.
    key: &'static [&'static str],
}

/// A page of a table's rows, and where the next one begins.
#[derive(Debug, Clone, Default)]
pub struct DumpedPage {
    /// The rows, in the order of the key.
    pub rows: Vec<Map<String, Value>>,
    /// The key of the last row; none on the last page.
    pub next: Option<Vec<String>>,
}

impl DumpedTable {
    /// The names of the columns.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.columns.iter().map(|(name, _)| *name)
    }
}

/// Reads the next page of a table.
pub async fn page(
    store: &Store,
    table: &DumpedTable,
    customer: CustomerId,
    after: Option<&[String]>,
    limit: usize,
) -> Result<DumpedPage, StoreError> {
    let names: Vec<&str> = table.columns().collect();
    let keys = table.key.join(", ");
    let mut values: Vec<SqlValue<'_>> = vec![customer.into()];
    let mut condition = String::new();
    if let Some(after) = after {
        let places: Vec<String> = (2..2 + after.len()).map(|place| format!("${place}")).collect();
        condition = format!("where ({keys}) > ({})", places.join(", "));
        values.extend(after.iter().map(|text| SqlValue::from(text.as_str())));
    }
    let sql = format!(
        "select {}, {keys} from ({}) as dumped {condition} order by {keys} limit {limit}",
        names.join(", "),
        table.source
    );
    let found = store.inspect().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    let rows = found.iter().map(|row| written(table, row)).collect::<Result<Vec<_>, _>>()?;
    let last = found.last().filter(|_| found.len() >= limit);
    let next = last
        .map(|row| table.key.iter().map(|column| row.text(column)).collect::<Result<Vec<_>, _>>());
    Ok(DumpedPage { rows, next: next.transpose()? })
}

fn written(table: &DumpedTable, row: &SqlRow) -> Result<Map<String, Value>, StoreError> {
    let mut object = Map::new();
    for (name, kind) in table.columns {
        let value = match kind {
            DumpedKind::Text => row.optional_text(name)?.map_or(Value::Null, Value::from),
            DumpedKind::Int => row.optional_int(name)?.map_or(Value::Null, Value::from),
            DumpedKind::Time => row
                .optional_time(name)?
                .map_or(Value::Null, |time: Timestamp| Value::from(time.to_rfc3339())),
            DumpedKind::Json => row.optional_text(name)?.map_or(Value::Null, |text| {
                serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
            }),
        };
        object.insert((*name).to_owned(), value);
    }
    Ok(object)
}
