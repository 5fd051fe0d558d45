//! Everything that is stored about one customer, table by table and page by page. Secrets, hashes
//! of secrets and sealed values are not among the columns.

mod csv_tables;
mod tables;

use domain::id::CustomerId;
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::sql::{SqlRow, SqlValue};
use crate::{Store, StoreError, calls};

pub use csv_tables::{CALL_TOTALS, CALLS, LEDGER};
pub use tables::TABLES;

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
    order: DumpedOrder,
}

/// What orders a table's rows, so that a page finds where the last one ended.
#[derive(Debug, Clone, Copy)]
enum DumpedOrder {
    /// These columns, all of them texts, unique together.
    Texts(&'static [&'static str]),
    /// The number of the UTC day, then these texts, unique together.
    DayThen(&'static [&'static str]),
    /// When calls began. There may be millions of them, so a page is found by an index, and ends
    /// between two instants.
    Instants,
}

/// A page of a table's rows, and where the next one begins.
#[derive(Debug, Clone, Default)]
pub struct DumpedPage {
    /// The rows, in the order of the table.
    pub rows: Vec<Map<String, Value>>,
    /// What orders the last row; none on the last page.
    pub next: Option<Vec<String>>,
}

impl DumpedTable {
    /// The names of the columns.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.columns.iter().map(|(name, _)| *name)
    }
}

/// Reads the next page of a table, at most `limit` rows. A page of calls has more if several began
/// at its last instant.
pub async fn page(
    store: &Store,
    table: &DumpedTable,
    customer: CustomerId,
    after: Option<&[String]>,
    limit: usize,
) -> Result<DumpedPage, StoreError> {
    let (columns, is_by_day) = match table.order {
        DumpedOrder::Instants => return page_of_calls(store, table, customer, after, limit).await,
        DumpedOrder::Texts(texts) => (texts.to_vec(), false),
        DumpedOrder::DayThen(texts) => ([&["day"], texts].concat(), true),
    };
    let order = columns.join(", ");
    let mut values: Vec<SqlValue<'_>> = vec![customer.into()];
    let mut condition = String::new();
    if let Some(after) = after {
        let places: Vec<String> = (2..2 + after.len()).map(|place| format!("${place}")).collect();
        condition = format!("where ({order}) > ({})", places.join(", "));
        if is_by_day {
            values.push(number_in(table, after)?.into());
        }
        let texts = after.iter().skip(usize::from(is_by_day));
        values.extend(texts.map(|text| SqlValue::from(text.as_str())));
    }
    let sql = format!(
        "select {}, {order} from ({}) as dumped {condition} order by {order} limit {limit}",
        table.columns().collect::<Vec<_>>().join(", "),
        table.source
    );
    let found = store.inspect().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    let rows = found.iter().map(|row| written(table, row)).collect::<Result<Vec<_>, _>>()?;
    let last = found.last().filter(|_| found.len() >= limit);
    let place = |row: &SqlRow| -> Result<Vec<String>, StoreError> {
        let texts = columns.iter().skip(usize::from(is_by_day)).map(|column| row.text(column));
        let day = is_by_day.then(|| row.int("day").map(|day| day.to_string()));
        day.into_iter().chain(texts).collect()
    };
    Ok(DumpedPage { rows, next: last.map(place).transpose()? })
}

/// Reads the calls up to the instant at which the `limit`-th one after `after` began.
async fn page_of_calls(
    store: &Store,
    table: &DumpedTable,
    customer: CustomerId,
    after: Option<&[String]>,
    limit: usize,
) -> Result<DumpedPage, StoreError> {
    let after = after.map_or(Ok(i64::MIN), |after| number_in(table, after))?;
    let mut tx = store.inspect().await?;
    let last = calls::instant_of(&mut tx, customer, after, limit).await?;
    let sql = format!(
        "select {} from ({}) as dumped where held_at > $2 and held_at <= $3 order by held_at, id",
        table.columns().collect::<Vec<_>>().join(", "),
        table.source
    );
    let values = [customer.into(), after.into(), last.unwrap_or(i64::MAX).into()];
    let found = tx.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    let rows = found.iter().map(|row| written(table, row)).collect::<Result<Vec<_>, _>>()?;
    Ok(DumpedPage { rows, next: last.map(|last| vec![last.to_string()]) })
}

/// The number with which a page's place begins.
fn number_in(table: &DumpedTable, after: &[String]) -> Result<i64, StoreError> {
    let number = after.first().and_then(|text| text.parse().ok());
    number.ok_or_else(|| StoreError::corrupt(table.name, after.join(" ")))
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
