//! What SQLite's writer has counted and not yet added to the tables of usage.
//!
//! The calls of one transaction have many keys and endpoints, and each of them would be a row to be changed in two
//! tables, in pages that lie anywhere. So a transaction notes what it counted as one row, and every so many
//! transactions add up what was noted. Usage is read from `usage_by_day` and `usage_by_route`, which have both.
//!
//! Rows are JSON with named members. Versions before wrote them by position, into a table of their own, and still find
//! it after a downgrade. A row that cannot be read is set aside and reported, and no call waits for it.

use super::count::Counted;
use super::usage_json;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// So many notes are added up at once. Whoever reads usage reads so many at most.
const NOTES_MAX: usize = 32;

/// And so many counts at once, or as many as one transaction has: the commit that adds them up must not be much longer than
/// others.
const COUNTS_MAX: usize = 512;

/// Where this version notes, and where the ones before did.
const TABLES: [&str; 2] = ["usage_deltas", "usage_notes"];

/// The notes in the database, in sum. Nobody but the writer makes or removes any.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    counted: Counted<'static>,
    count: usize,
}

impl Notes {
    /// Reads them. What cannot be read is set aside.
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let mut notes = Self::default();
        for table in TABLES {
            let sql = format!("select id, counts from {table} order by id");
            for row in tx.rows(sqlx::AssertSqlSafe(sql), &[]).await? {
                let (id, text) = (row.int(0)?, row.text(1)?);
                match usage_json::read(&text) {
                    Ok(counted) => {
                        notes.counted.add(counted);
                        notes.count += 1;
                    }
                    Err(reason) => set_aside(tx, (table, id), &text, &reason).await?,
                }
            }
        }
        Ok(notes)
    }

    /// Notes what a transaction counted; adds up what was noted, if that is due or somebody looks at usage all the time.
    pub(crate) async fn take(
        &mut self,
        tx: &mut Tx,
        counted: Counted<'_>,
        is_read: bool,
    ) -> Result<(), StoreError> {
        if counted.is_empty() {
            return Ok(());
        }
        let is_due =
            self.count + 1 >= NOTES_MAX || self.counted.len() + counted.len() >= COUNTS_MAX;
        if is_read || is_due {
            self.counted.add(counted);
            return self.add_up(tx).await;
        }
        let note = usage_json::written(&counted)?;
        tx.execute("insert into usage_deltas (counts) values ($1)", &[note.into()]).await?;
        self.counted.add(counted);
        self.count += 1;
        Ok(())
    }

    async fn add_up(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        tx.together(self.counted.parts()).await?;
        tx.execute("delete from usage_deltas", &[]).await?;
        tx.execute("delete from usage_notes", &[]).await?;
        *self = Self::default();
        Ok(())
    }
}

/// Keeps a row that cannot be read where nothing trips over it.
async fn set_aside(
    tx: &mut Tx,
    (table, id): (&str, i64),
    counts: &str,
    reason: &str,
) -> Result<(), StoreError> {
    const KEEP: &str = "
        insert into usage_notes_set_aside (source, counts, reason) values ($1, $2, $3)";
    tx.execute(KEEP, &[table.into(), counts.into(), reason.into()]).await?;
    let sql = format!("delete from {table} where id = $1");
    tx.execute(sqlx::AssertSqlSafe(sql), &[id.into()]).await?;
    tracing::error!(
        table,
        id,
        reason,
        "a row of counted usage cannot be read and was set aside; `verify` shows what is missing"
    );
    Ok(())
}

/// Reads the notes at start, so that what cannot be read is out of the way before the first call; returns how many rows
/// are set aside, now and before.
pub(crate) async fn check_in(tx: &mut Tx) -> Result<i64, StoreError> {
    Notes::read(tx).await?;
    count_in(tx).await
}

/// How many rows of counted usage are set aside, because they could not be read. None on PostgreSQL, which counts at
/// once.
pub async fn count_set_aside(store: &Store) -> Result<i64, StoreError> {
    if store.database() == crate::store::DatabaseKind::Postgres {
        return Ok(0);
    }
    count_in(&mut store.read().await?).await
}

async fn count_in(tx: &mut Tx) -> Result<i64, StoreError> {
    let row = tx.row("select count(*) from usage_notes_set_aside", &[]).await?;
    row.map_or(Ok(0), |row| row.int(0))
}
