//! Reading exports.

use domain::account::CreatorId;
use domain::dataset::DatasetName;
use domain::export::{ExportRemoval, ExportState};
use domain::id::{CustomerId, ExportId};
use domain::platform::Platform;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use super::{Export, ExportActivity, ExportFailure, ExportOutput, FileRemoval};
use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError};

const COLUMNS: &str = "id, customer_id, key_id, creator_id, platform, dataset, format, params, start_date,
    end_date, max_rows, cost, credit_state, state, pages, rows_read, output_key, sha256, bytes, rows,
    error_code, error_message, created_at, started_at, finished_at, expires_at, lease_token, attempt, worked_micros,
    csv_bom, removal, removed_at, columns, phase, list_rows, list_rows_read, waiting_until";

/// Which exports to list.
#[derive(Debug, Clone)]
pub struct ExportList {
    /// The customer whose exports to list.
    pub customer: CustomerId,
    /// Only those of this account.
    pub account: Option<CreatorId>,
    /// Only those of these accounts; empty for all.
    pub allowed_accounts: Vec<CreatorId>,
    /// Only those of this platform.
    pub platform: Option<Platform>,
    /// Only those of this dataset.
    pub dataset: Option<DatasetName>,
    /// Only those shown in this state; none for all but deleted ones.
    pub state: Option<ExportState>,
    /// Only those created before this one.
    pub before: Option<ExportId>,
    /// The page size.
    pub limit: i64,
}

/// The number of open exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportCounts {
    /// Waiting for a worker.
    pub pending: i64,
    /// Claimed by a worker.
    pub running: i64,
    /// When the oldest waiting export was requested.
    pub oldest_pending: Option<Timestamp>,
}

/// The customer's export with this id. Deleted exports are not found.
pub async fn find(
    store: &Store,
    id: ExportId,
    customer: CustomerId,
) -> Result<Option<Export>, StoreError> {
    find_in(&mut store.read().await?, id, customer).await
}

/// The export with this id, of any customer: for staff and workers.
pub async fn find_of_any(store: &Store, id: ExportId) -> Result<Option<Export>, StoreError> {
    find_where(&mut store.read().await?, "id = $1", &[id.into()]).await
}

/// The customer's exports, newest first.
pub async fn list(store: &Store, wanted: &ExportList) -> Result<Vec<Export>, StoreError> {
    const WHERE: &str = "
        from export_jobs
        where customer_id = $1 and (cast($2 as text) is null or creator_id = $2)
          and (cast($3 as text) is null or id < $3)
          and (cast($5 as text) is null or platform = $5)
          and (cast($6 as text) is null or dataset = $6)
          and ((cast($7 as text) is null and state <> 'deleted')
            or $7 = case when state = 'completed' and removal is not null then 'expired' else state end)";
    let before = wanted.before.map(|id| id.to_string());
    let mut values = vec![
        wanted.customer.into(),
        wanted.account.as_ref().map(CreatorId::as_str).into(),
        before.as_deref().into(),
        wanted.limit.into(),
        wanted.platform.map(Platform::stored_name).into(),
        wanted.dataset.map(DatasetName::as_str).into(),
        wanted.state.map(ExportState::as_str).into(),
    ];
    let first = values.len() + 1;
    let places: Vec<String> =
        (first..first + wanted.allowed_accounts.len()).map(|at| format!("${at}")).collect();
    let allowed = if places.is_empty() {
        String::new()
    } else {
        format!(" and creator_id in ({})", places.join(", "))
    };
    values.extend(wanted.allowed_accounts.iter().map(|account| account.as_str().into()));
    let sql = AssertSqlSafe(format!("select {COLUMNS} {WHERE}{allowed} order by id desc limit $4"));
    let rows = store.read().await?.rows(sql, &values).await?;
    rows.iter().map(export).collect()
}

/// The numbers of waiting and running exports.
pub async fn count(store: &Store) -> Result<ExportCounts, StoreError> {
    const SQL: &str = "
        select count(case when state = 'pending' then 1 end) as pending,
               count(case when state <> 'pending' then 1 end) as running,
               min(case when state = 'pending' then created_at end) as oldest_pending
        from export_jobs where credit_state = 'held'";
    let row = store.read().await?.row(SQL, &[]).await?;
    let Some(row) = row else { return Ok(ExportCounts::default()) };
    Ok(ExportCounts {
        pending: row.int("pending")?,
        running: row.int("running")?,
        oldest_pending: row.optional_time("oldest_pending")?,
    })
}

pub(super) async fn find_in(
    tx: &mut Tx,
    id: ExportId,
    customer: CustomerId,
) -> Result<Option<Export>, StoreError> {
    find_where(tx, "id = $1 and customer_id = $2", &[id.into(), customer.into()]).await
}

async fn find_where(
    tx: &mut Tx,
    condition: &str,
    values: &[SqlValue<'_>],
) -> Result<Option<Export>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "select {COLUMNS} from export_jobs where {condition} and state <> 'deleted'"
    ));
    tx.row(sql, values).await?.as_ref().map(export).transpose()
}

/// Completes a statement that ends with `returning `, so that it returns whole exports.
pub(super) fn with_columns(sql: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("{sql}{COLUMNS}"))
}

fn columns(stored: Option<String>) -> Result<Option<Vec<String>>, StoreError> {
    let Some(text) = stored else { return Ok(None) };
    let names = serde_json::from_str(&text);
    names.map(Some).map_err(|_| StoreError::corrupt("export_jobs", text))
}

pub(super) fn export(row: &SqlRow) -> Result<Export, StoreError> {
    const TABLE: &str = "export_jobs";
    let id: ExportId = row.parse("id", TABLE)?;
    let output = match row.optional_text("output_key")? {
        None => None,
        Some(key) => Some(ExportOutput {
            key,
            sha256: row.text("sha256")?,
            bytes: row.int("bytes")?,
            rows: row.int("rows")?,
        }),
    };
    let error = match row.optional_text("error_code")? {
        None => None,
        Some(code) => Some(ExportFailure {
            code,
            message: row.optional_text("error_message")?.unwrap_or_default(),
        }),
    };
    let state = row.parse("state", TABLE)?;
    let expires_at = row.optional_time("expires_at")?;
    let removal = match row.optional_text("removal")? {
        Some(_) => {
            Some(FileRemoval { reason: row.parse("removal", TABLE)?, at: row.time("removed_at")? })
        }
        // Files that expired before reasons were recorded were removed by retention.
        None => expires_at
            .filter(|_| state == ExportState::Expired)
            .map(|at| FileRemoval { reason: ExportRemoval::Retention, at }),
    };
    Ok(Export {
        id,
        customer: row.parse("customer_id", TABLE)?,
        key: row.parse("key_id", TABLE)?,
        account: row.parse("creator_id", TABLE)?,
        platform: row.platform("platform", TABLE)?,
        dataset: row.parse("dataset", TABLE)?,
        format: row.parse("format", TABLE)?,
        csv_bom: row.int("csv_bom")? == 1,
        columns: columns(row.optional_text("columns")?)?,
        params: row.text("params")?,
        start_date: row.optional_text("start_date")?,
        end_date: row.optional_text("end_date")?,
        max_rows: row.optional_int("max_rows")?,
        cost: row.credits("cost")?,
        credits: row.parse("credit_state", TABLE)?,
        state,
        pages: row.int("pages")?,
        rows_read: row.int("rows_read")?,
        output,
        error,
        created_at: row.time("created_at")?,
        started_at: row.optional_time("started_at")?,
        finished_at: row.optional_time("finished_at")?,
        expires_at,
        lease_token: row.int("lease_token")?,
        attempt: row.int("attempt")?,
        worked_micros: row.int("worked_micros")?,
        doing: ExportActivity {
            phase: row.parse_optional("phase", TABLE)?,
            list_rows: row.optional_int("list_rows")?,
            list_rows_read: row.int("list_rows_read")?,
            waiting_until: row.optional_time("waiting_until")?,
        },
        removal,
    })
}
