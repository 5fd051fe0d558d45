//! Leases: rows that one process works on. Who has one keeps it until it ends it, or until it is
//! taken over (`takeover`). What nobody has may be claimed once its time has come.

use domain::time::Timestamp;

use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{DatabaseKind, Store, StoreError};

/// A leased row: its table, and the values of its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LeaseKey {
    table: usize,
    values: Vec<String>,
}

/// How a lease looks; it changes with each renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseStamp {
    /// Who has it.
    pub(crate) holder: String,
    /// Until when it may be held without a renewal.
    pub(crate) until: Timestamp,
}

/// A table whose rows are leased.
struct LeaseTable {
    name: &'static str,
    key: &'static [&'static str],
    holder: &'static str,
    until: &'static str,
    /// The condition of rows that somebody has.
    is_held: &'static str,
    /// The assignment after which nobody has the row.
    release: &'static str,
    /// The assignment after which its time has come, whatever the clock says.
    make_due: &'static str,
}

const TABLES: [LeaseTable; 7] = [
    LeaseTable {
        name: "own_requests",
        key: &["customer_id", "caller", "key_hash"],
        holder: "leased_by",
        until: "leased_until",
        is_held: "leased_by is not null and state = 'running'",
        release: "leased_by = null",
        make_due: "leased_until = 0",
    },
    LeaseTable {
        name: "slot_changes",
        key: &["id"],
        holder: "leased_by",
        until: "leased_until",
        is_held: "leased_by is not null and state = 'open'",
        release: "leased_by = null",
        make_due: "leased_until = 0",
    },
    LeaseTable {
        name: "top_ups",
        key: &["order_id"],
        holder: "leased_by",
        until: "leased_until",
        is_held: "leased_by is not null and state = 'claimed'",
        release: "leased_by = null",
        make_due: "leased_until = 0",
    },
    LeaseTable {
        name: "jobs",
        key: &["id"],
        holder: "leased_by",
        until: "leased_until",
        is_held: "leased_by is not null",
        release: "leased_by = null",
        make_due: "leased_until = null",
    },
    LeaseTable {
        name: "export_jobs",
        key: &["id"],
        holder: "leased_by",
        until: "lease_until",
        is_held: "leased_by <> '' and credit_state = 'held'",
        release: "leased_by = ''",
        make_due: "lease_until = 0",
    },
    LeaseTable {
        name: "reconciliations",
        key: &["leased_by"],
        holder: "leased_by",
        until: "leased_until",
        is_held: "leased_by is not null",
        release: "leased_by = null",
        make_due: "leased_until = 0",
    },
    LeaseTable {
        name: "accounts",
        key: &["customer_id", "creator_id"],
        holder: "refresh_claimed_by",
        until: "refresh_claimed_until",
        // Earlier versions end a claim without its name.
        is_held: "refresh_claimed_by is not null and refresh_claimed_until is not null",
        release: "refresh_claimed_by = null",
        make_due: "refresh_claimed_until = null",
    },
];

/// All leases that somebody has.
pub(crate) async fn held(tx: &mut Tx) -> Result<Vec<(LeaseKey, LeaseStamp)>, StoreError> {
    let mut held = Vec::new();
    for (number, table) in TABLES.iter().enumerate() {
        let LeaseTable { name, key, holder, until, is_held, .. } = table;
        let columns = key.join(", ");
        let sql = format!(
            "select {columns}, {holder} as holder, {until} as until_at from {name} where {is_held}"
        );
        for row in tx.rows(sqlx::AssertSqlSafe(sql), &[]).await? {
            let values: Result<_, _> = key.iter().map(|column| row.text(column)).collect();
            held.push((LeaseKey { table: number, values: values? }, stamp(&row)?));
        }
    }
    Ok(held)
}

fn stamp(row: &SqlRow) -> Result<LeaseStamp, StoreError> {
    Ok(LeaseStamp { holder: row.text("holder")?, until: row.time("until_at")? })
}

/// Releases leases, unless they have changed meanwhile, and returns how many.
pub(crate) async fn release(
    store: &Store,
    leases: &[(LeaseKey, LeaseStamp)],
) -> Result<u64, StoreError> {
    let mut released = 0;
    for (key, stamp) in leases {
        let Some(table) = TABLES.get(key.table) else { continue };
        let LeaseTable { name, holder, until, is_held, release, .. } = table;
        let mut values: Vec<SqlValue<'_>> = vec![stamp.holder.as_str().into(), stamp.until.into()];
        values.extend(key.values.iter().map(|value| value.as_str().into()));
        let is_row =
            table.key.iter().zip(3..).map(|(column, place)| format!("{column} = ${place}"));
        let is_row = is_row.collect::<Vec<_>>().join(" and ");
        let sql = format!(
            "update {name} set {release}
             where {is_held} and {holder} = $1 and {until} = $2 and {is_row}"
        );
        let mut tx = store.write().await?;
        released += tx.execute(sqlx::AssertSqlSafe(sql), &values).await?;
        tx.commit().await?;
    }
    Ok(released)
}

/// Releases what an earlier run of this node has left, and returns how many leases. On SQLite,
/// which has one node, these are all. Call it at start, before the first request.
pub async fn release_left(store: &Store) -> Result<u64, StoreError> {
    let mut tx = store.write().await?;
    let mut released = 0;
    for LeaseTable { name, holder, is_held, release, make_due, .. } in &TABLES {
        let all = format!("update {name} set {release}, {make_due} where {is_held}");
        released += match store.database() {
            DatabaseKind::Sqlite => tx.execute(sqlx::AssertSqlSafe(all), &[]).await?,
            DatabaseKind::Postgres => {
                let own = format!("{all} and {holder} = $1");
                tx.execute(sqlx::AssertSqlSafe(own), &[store.holder().into()]).await?
            }
        };
    }
    tx.commit().await?;
    Ok(released)
}
