//! What the writer caches between its transactions on SQLite. There no other process can change the
//! database, so what was read stays valid until another writer of this process commits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::account::CreatorId;
use domain::id::{CallId, CustomerId, KeyId};
use domain::key::KeyHash;
use domain::time::Timestamp;
use foldhash::{fast, quality};

use super::Hold;
use super::end::CallEnd;
use super::new_calls::NewCalls;
use super::queue::RequestBatch;
use crate::StoreError;
use crate::balance::BalanceRow;
use crate::sql::{SqlRow, hex};
use crate::tx::Tx;
use crate::words::WordCache;

/// Above this number of entries the cache is emptied, and filled again as needed.
const ENTRIES_MAX: usize = 100_000;

/// Rows as they are in the database. On PostgreSQL, where other nodes also write, it is emptied for
/// each transaction.
#[derive(Default)]
pub(crate) struct WriterCache {
    /// The number of other writers' commits when this was read.
    other_commits: Option<u64>,
    pub(crate) balances: HashMap<CustomerId, BalanceRow, fast::RandomState>,
    pub(crate) secrets: HashMap<KeyHash, CachedSecret, fast::RandomState>,
    versions: HashMap<CustomerId, HashMap<CreatorId, i64, quality::RandomState>, fast::RandomState>,
    /// The pending usage counts, once read. Only on SQLite.
    new_calls: Option<NewCalls>,
    /// The number of entries in `versions`.
    version_count: usize,
    /// The holds of this node's open calls, so that settling them need not read them. They never
    /// change, on either database, so they are never out of date.
    pub(crate) open: HashMap<CallId, Arc<Hold>, fast::RandomState>,
    /// The words of the call log, which never change either.
    pub(crate) words: WordCache,
}

/// A secret and what decides whether it is accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedSecret {
    pub(crate) key: KeyId,
    pub(crate) customer: CustomerId,
    /// When the secret and its key expire.
    pub(crate) ends_at: [Option<Timestamp>; 2],
    /// Whether the key is revoked or the customer is closed.
    pub(crate) is_refused: bool,
    /// The version of its key.
    pub(crate) version: i64,
    /// The key's budget for a UTC month.
    pub(crate) monthly_budget: Option<i64>,
}

impl WriterCache {
    /// Drops what may be out of date in this transaction.
    pub(crate) fn refresh(&mut self, tx: &Tx) {
        self.words.begin();
        let entries = self.balances.len() + self.secrets.len() + self.version_count;
        let other_commits = tx.other_commits();
        if other_commits.is_none() || other_commits != self.other_commits || entries > ENTRIES_MAX {
            self.forget_read();
            self.other_commits = other_commits;
        }
    }

    /// Whether cached rows stay valid after this transaction.
    pub(crate) fn remembers(&self) -> bool {
        self.other_commits.is_some()
    }

    /// Drops everything that could have changed, after a transaction failed or its outcome is
    /// unknown.
    pub(crate) fn forget(&mut self) {
        self.forget_read();
        self.words.begin();
        self.new_calls = None;
    }

    /// Drops what another writer could have changed.
    fn forget_read(&mut self) {
        let (new_calls, open) = (self.new_calls.take(), std::mem::take(&mut self.open));
        let words = std::mem::take(&mut self.words);
        *self = Self { new_calls, open, words, ..Self::default() };
    }

    /// What is not sorted and counted yet, read on first use.
    pub(crate) async fn new_calls(&mut self, tx: &mut Tx) -> Result<&mut NewCalls, StoreError> {
        if self.new_calls.is_none() {
            self.new_calls = Some(NewCalls::read(tx).await?);
        }
        Ok(self.new_calls.get_or_insert_default())
    }

    /// The version of a customer's account.
    pub(crate) fn version(&self, customer: CustomerId, account: &CreatorId) -> Option<i64> {
        self.versions.get(&customer)?.get(account).copied()
    }

    /// The secrets of a batch's holds that are not cached, keyed by their stored hash.
    pub(crate) fn unknown_secrets(&self, batch: &RequestBatch) -> HashMap<String, KeyHash> {
        let hashes = batch.holds.iter().map(|request| request.hold.key_hash);
        let unknown = hashes.filter(|hash| !self.secrets.contains_key(hash));
        let unknown: HashSet<KeyHash> = unknown.collect();
        unknown.into_iter().map(|hash| (hex(hash.as_bytes()), hash)).collect()
    }

    /// Caches these secrets.
    pub(crate) fn learn_secrets(
        &mut self,
        wanted: &HashMap<String, KeyHash>,
        rows: &[SqlRow],
    ) -> Result<(), StoreError> {
        for row in rows {
            let secret = CachedSecret {
                key: row.parse("key_id", "keys")?,
                customer: row.parse("customer_id", "keys")?,
                ends_at: [row.optional_time("valid_until")?, row.optional_time("expires_at")?],
                is_refused: row.optional_time("revoked_at")?.is_some()
                    || row.optional_time("disabled_at")?.is_some(),
                version: row.int("version")?,
                monthly_budget: row.optional_int("monthly_budget")?,
            };
            if let Some(hash) = wanted.get(&row.text("hash")?) {
                self.secrets.insert(*hash, secret);
            }
        }
        Ok(())
    }

    /// Caches the versions of accounts.
    pub(crate) fn learn_versions(&mut self, rows: &[SqlRow]) -> Result<(), StoreError> {
        for row in rows {
            let versions = self.versions.entry(row.parse("customer_id", "accounts")?).or_default();
            let is_new = versions
                .insert(row.parse("creator_id", "accounts")?, row.int("version")?)
                .is_none();
            self.version_count += usize::from(is_new);
        }
        Ok(())
    }

    /// Splits settlements into those of calls whose holds are in memory, and the others.
    pub(crate) fn tell_apart<'a>(
        &self,
        ends: Vec<CallEnd<'a>>,
    ) -> (Vec<(CallEnd<'a>, Arc<Hold>)>, Vec<CallEnd<'a>>) {
        let mut own = Vec::with_capacity(ends.len());
        let mut others = Vec::new();
        for end in ends {
            match self.open.get(&end.call_id) {
                Some(hold) => own.push((end, Arc::clone(hold))),
                None => others.push(end),
            }
        }
        (own, others)
    }
}

impl CachedSecret {
    /// Whether it is accepted for this hold.
    pub(crate) fn opens(&self, hold: &Hold) -> bool {
        self.key == hold.key
            && self.customer == hold.customer
            && !self.is_refused
            && self.ends_at.iter().flatten().all(|end| hold.held_at < *end)
    }
}
