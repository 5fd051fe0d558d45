//! The words of the call log: what calls repeat, such as the ids of customers and the names of
//! routes, is stored once and has a number, which the rows of calls have in its place.
//!
//! Words are only added, so a number stays valid. A transaction that adds words may be rolled back,
//! so the numbers of these are remembered only when it is committed.

use std::collections::{BTreeSet, HashMap};

use foldhash::quality::RandomState;

use crate::StoreError;
use crate::sql::SqlKind;
use crate::tx::{RowTable, Tx};

/// Numbers by word.
pub(crate) type WordNumbers = HashMap<Box<str>, i64, RandomState>;

/// Above this number of words the cache is emptied, and filled again as needed.
const WORDS_MAX: usize = 200_000;

/// The numbers of these words. Those that have none get one.
///
/// Nodes may add the same words at once: they add them in order, after all other locks, so that
/// they wait for each other at most once.
pub(crate) async fn numbers(
    tx: &mut Tx,
    wanted: &BTreeSet<String>,
) -> Result<WordNumbers, StoreError> {
    const ADD: &str = "
        with v (word) as ({rows})
        insert into words (word) select word from v where true on conflict (word) do nothing";
    let mut known = find(tx, wanted.iter()).await?;
    let missing: Vec<&String> =
        wanted.iter().filter(|word| !known.contains_key(&***word)).collect();
    if missing.is_empty() {
        return Ok(known);
    }
    tx.rows_over(ADD, table(missing.iter().copied())).await?;
    // A statement of its own, which also sees what another node has just committed.
    known.extend(find(tx, missing.into_iter()).await?);
    match wanted.iter().find(|word| !known.contains_key(&***word)) {
        Some(word) => Err(StoreError::corrupt("words", word)),
        None => Ok(known),
    }
}

async fn find(
    tx: &mut Tx,
    wanted: impl Iterator<Item = &String>,
) -> Result<WordNumbers, StoreError> {
    const FIND: &str = "
        with v (word) as ({rows})
        select cast(number as bigint) as number, word from words where word in (select word from v)";
    let rows = tx.rows_over(FIND, table(wanted)).await?;
    rows.iter().map(|row| Ok((row.text("word")?.into(), row.int("number")?))).collect()
}

fn table<'w>(words: impl Iterator<Item = &'w String>) -> RowTable<'w> {
    let mut table = RowTable::new(&[SqlKind::Text]);
    for word in words {
        table.push([word.as_str().into()]);
    }
    table
}

/// The words with these numbers.
pub(crate) async fn texts(
    tx: &mut Tx,
    numbers: &BTreeSet<i64>,
) -> Result<HashMap<i64, String>, StoreError> {
    const FIND: &str = "
        with v (number) as ({rows})
        select cast(number as bigint) as number, word from words
        where number in (select number from v)";
    let mut table = RowTable::new(&[SqlKind::Int]);
    for number in numbers {
        table.push([(*number).into()]);
    }
    let rows = tx.rows_over(FIND, table).await?;
    rows.iter().map(|row| Ok((row.int("number")?, row.text("word")?))).collect()
}

/// The words that the writer knows, on either database.
#[derive(Debug, Default)]
pub(crate) struct WordCache {
    known: WordNumbers,
    /// Those that this transaction has read or added.
    fresh: WordNumbers,
}

impl WordCache {
    /// Begins a transaction: what an earlier one added is dropped, unless it was kept.
    pub(crate) fn begin(&mut self) {
        self.fresh.clear();
        if self.known.len() > WORDS_MAX {
            self.known.clear();
        }
    }

    /// Keeps what the transaction has added. It is committed.
    pub(crate) fn keep(&mut self) {
        self.known.extend(self.fresh.drain());
    }

    /// Reads or adds these words.
    pub(crate) async fn learn(
        &mut self,
        tx: &mut Tx,
        wanted: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        self.fresh.extend(numbers(tx, wanted).await?);
        Ok(())
    }

    /// The number of a word, if it is known.
    pub(crate) fn get(&self, word: &str) -> Option<i64> {
        self.known.get(word).or_else(|| self.fresh.get(word)).copied()
    }
}
