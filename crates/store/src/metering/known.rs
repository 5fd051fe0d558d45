//! What the writer remembers between its transactions, on SQLite: there nobody else can change the database
//! unnoticed, so what was read once holds until somebody else commits.

use std::collections::HashMap;
use std::sync::Arc;

use domain::account::CreatorId;
use domain::id::{CallId, CustomerId, KeyId};
use domain::key::KeyHash;
use domain::time::Timestamp;

use super::Hold;
use super::end::End;
use crate::balance::Balance;
use crate::tx::Tx;

/// Above so many entries all is forgotten, and read again as it is needed.
const ENTRIES_MAX: usize = 100_000;

/// Rows as they are in the database. On PostgreSQL, where other nodes write too, it is emptied each time.
#[derive(Default)]
pub(crate) struct Known {
    /// The number of commits by others after which this was read.
    other_commits: Option<u64>,
    pub(crate) balances: HashMap<CustomerId, Balance>,
    pub(crate) secrets: HashMap<KeyHash, Secret>,
    pub(crate) versions: HashMap<(CustomerId, CreatorId), i64>,
    /// The holds of this node's open calls, so that their ends need not read them. What they say never changes,
    /// on neither database, so they are never out of date.
    pub(crate) open: HashMap<CallId, Arc<Hold>>,
}

/// A secret and what must hold for it to open anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret {
    pub(crate) key: KeyId,
    pub(crate) customer: CustomerId,
    /// The ends of the secret itself and of its key.
    pub(crate) ends_at: [Option<Timestamp>; 2],
    /// Whether the key is revoked or the customer closed.
    pub(crate) is_refused: bool,
    /// The version of its key.
    pub(crate) version: i64,
    /// What its key may spend in a UTC month.
    pub(crate) monthly_budget: Option<i64>,
}

impl Known {
    /// Forgets what may be out of date in this transaction.
    pub(crate) fn refresh(&mut self, tx: &Tx) {
        let entries = self.balances.len() + self.secrets.len() + self.versions.len();
        let other_commits = tx.other_commits();
        if other_commits.is_none() || other_commits != self.other_commits || entries > ENTRIES_MAX {
            self.forget();
            self.other_commits = other_commits;
        }
    }

    /// Forgets everything that could have changed: a transaction failed, or nobody knows how it ended.
    pub(crate) fn forget(&mut self) {
        let open = std::mem::take(&mut self.open);
        *self = Self { open, ..Self::default() };
    }

    /// Ends of calls whose holds are at hand, and the others.
    pub(crate) fn tell_apart<'a>(
        &self,
        ends: Vec<End<'a>>,
    ) -> (Vec<(End<'a>, Arc<Hold>)>, Vec<End<'a>>) {
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

impl Secret {
    /// Whether it opens anything for this hold.
    pub(crate) fn opens(&self, hold: &Hold) -> bool {
        self.key == hold.key
            && self.customer == hold.customer
            && !self.is_refused
            && self.ends_at.iter().flatten().all(|end| hold.held_at < *end)
    }
}
