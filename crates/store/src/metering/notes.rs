//! What SQLite's writer has counted and not yet added to the tables of usage.
//!
//! The calls of one transaction have many keys and endpoints, and each of them would be a row to be changed in two
//! tables, in pages that lie anywhere. So a transaction notes what it counted as one row, and every so many
//! transactions add up what was noted. Whoever reads usage reads `usage_by_day` and `usage_by_route`, which have both.

use super::count::Counted;
use crate::StoreError;
use crate::tx::Tx;

/// So many notes are added up at once. Whoever reads usage reads so many at most.
const NOTES_MAX: usize = 32;

/// And so many counts at once, or as many as one transaction has: the commit that adds them up must not be much longer than
/// others.
const COUNTS_MAX: usize = 512;

/// The notes in the database, in sum. Nobody but the writer makes or removes any.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    counted: Counted<'static>,
    count: usize,
}

impl Notes {
    /// Reads them.
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let rows = tx.rows("select counts from usage_notes", &[]).await?;
        let mut notes = Self { count: rows.len(), ..Self::default() };
        for row in rows {
            notes.counted.add(Counted::from_note(&row.text(0)?)?);
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
        let note = counted.note()?;
        tx.execute("insert into usage_notes (counts) values ($1)", &[note.into()]).await?;
        self.counted.add(counted);
        self.count += 1;
        Ok(())
    }

    async fn add_up(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        tx.together(self.counted.parts()).await?;
        tx.execute("delete from usage_notes", &[]).await?;
        *self = Self::default();
        Ok(())
    }
}
