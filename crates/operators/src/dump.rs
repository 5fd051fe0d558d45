//! Everything that is stored about a customer as one archive: JSON files, and csv files of the
//! calls and the ledger. Written while it is read: no more than one page is in memory.

use std::borrow::Cow;

use bytes::Bytes;
use domain::customer::CustomerRef;
use domain::id::CustomerId;
use failures::Failure;
use runtime::audit;
use serde_json::{Map, Value, json};
use store::customer_dump::{self, CALL_TOTALS, CALLS, DumpedTable, LEDGER, TABLES};
use tabular::bundle::BundleWriter;
use tabular::{CellValue, TabularError};
use tokio::sync::mpsc;

use crate::{OperatorIdentity, OperatorsState};

/// The rows of a page.
const PAGE_ROWS: usize = 500;

/// An archive that is being made.
pub struct CustomerArchive {
    /// Its pieces in order; an error instead of a piece means that it stays incomplete.
    pub pieces: mpsc::Receiver<Result<Bytes, IncompleteArchive>>,
}

/// The archive ends here, because the rest could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompleteArchive;

impl std::fmt::Display for IncompleteArchive {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the archive is incomplete; the log says why")
    }
}

impl std::error::Error for IncompleteArchive {}

type ArchiveSender = mpsc::Sender<Result<Bytes, IncompleteArchive>>;

/// Begins the export of a customer, which is then in its audit list. `spawn` runs the
/// work.
pub async fn export(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: &CustomerRef,
    spawn: impl FnOnce(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>),
) -> Result<CustomerArchive, Failure> {
    let customer = operators.find(named).await?.id;
    operators.record(who, customer, audit::OPERATOR_EXPORTED, json!({})).await?;
    let (sender, pieces) = mpsc::channel(4);
    let operators = operators.clone();
    spawn(Box::pin(async move {
        if let Err(error) = write(&operators, customer, &sender).await {
            tracing::error!(%error, customer.id = %customer, "a customer could not be exported");
            drop(sender.send(Err(IncompleteArchive)).await);
        }
    }));
    Ok(CustomerArchive { pieces })
}

async fn write(
    operators: &OperatorsState,
    customer: CustomerId,
    out: &ArchiveSender,
) -> Result<(), Failure> {
    let mut bundle = BundleWriter::new();
    for table in TABLES {
        write_json(operators, customer, table, &mut bundle, out).await?;
    }
    for table in [&CALLS, &CALL_TOTALS, &LEDGER] {
        write_csv(operators, customer, table, &mut bundle, out).await?;
    }
    let rest = bundle.finish().map_err(failed)?;
    drop(out.send(Ok(Bytes::from(rest))).await);
    Ok(())
}

/// Sends what was made since the last time. False if nobody reads it any more.
async fn send(bundle: &mut BundleWriter, out: &ArchiveSender) -> bool {
    let made = bundle.take();
    made.is_empty() || out.send(Ok(Bytes::from(made))).await.is_ok()
}

/// A list of objects, one on each line.
async fn write_json(
    operators: &OperatorsState,
    customer: CustomerId,
    table: &DumpedTable,
    bundle: &mut BundleWriter,
    out: &ArchiveSender,
) -> Result<(), Failure> {
    bundle.begin(&format!("{}.json", table.name)).map_err(failed)?;
    bundle.text("[").map_err(failed)?;
    let (mut after, mut between) = (None::<Vec<String>>, "\n");
    loop {
        let page =
            customer_dump::page(&operators.store, table, customer, after.as_deref(), PAGE_ROWS)
                .await?;
        for row in page.rows {
            bundle.text(&format!("{between}{}", Value::Object(row))).map_err(failed)?;
            between = ",\n";
        }
        if !send(bundle, out).await {
            return Err(gone());
        }
        after = page.next;
        if after.is_none() {
            return bundle.text("\n]\n").map_err(failed);
        }
    }
}

async fn write_csv(
    operators: &OperatorsState,
    customer: CustomerId,
    table: &DumpedTable,
    bundle: &mut BundleWriter,
    out: &ArchiveSender,
) -> Result<(), Failure> {
    bundle.begin(&format!("{}.csv", table.name)).map_err(failed)?;
    let names = table.columns().map(|name| CellValue::Text(Cow::Borrowed(name)));
    bundle.csv_line(names.collect()).map_err(failed)?;
    let mut after = None::<Vec<String>>;
    loop {
        let page =
            customer_dump::page(&operators.store, table, customer, after.as_deref(), PAGE_ROWS)
                .await?;
        for row in &page.rows {
            write_line(bundle, table, row).map_err(failed)?;
        }
        if !send(bundle, out).await {
            return Err(gone());
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn write_line(
    bundle: &mut BundleWriter,
    table: &DumpedTable,
    row: &Map<String, Value>,
) -> Result<(), TabularError> {
    let values: Vec<(Option<&Value>, String)> = table
        .columns()
        .map(|name| (row.get(name), row.get(name).map_or_else(String::new, Value::to_string)))
        .collect();
    let cells = values.iter().map(|(value, written)| match value {
        None | Some(Value::Null) => CellValue::Empty,
        Some(Value::String(text)) => CellValue::Text(Cow::Borrowed(text)),
        Some(_) => CellValue::Number(written),
    });
    bundle.csv_line(cells.collect())
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Internal(format!("the archive could not be written: {error}"))
}

fn gone() -> Failure {
    Failure::Internal("the reader of the archive is gone".to_owned())
}
