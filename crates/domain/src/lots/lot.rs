//! One grant of credits, and what became of each of them.

use crate::id::LotId;
use crate::time::Timestamp;
use crate::wire::text_enum;

text_enum! {
    /// What a lot was granted for.
    LotSource, "one of trial, gift, pack, top_up, plan, balance" {
        /// The free trial.
        Trial = "trial",
        /// Granted by staff.
        Gift = "gift",
        /// A pack that the customer bought.
        Pack = "pack",
        /// A pack that automatic top-up bought.
        TopUp = "top_up",
        /// A month of a plan, or the rest of a month after an upgrade.
        Plan = "plan",
        /// The balance of the time before there were lots.
        Balance = "balance",
    }
}

/// Credits that were granted together. `granted = left + spent + expired + taken`, and none is negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lot {
    /// Its id.
    pub id: LotId,
    /// What it was granted for.
    pub source: LotSource,
    /// What a person would look for, such as the order, the invoice or staff's reason.
    pub reference: Option<String>,
    /// All that was granted.
    pub granted: i64,
    /// What can still be spent.
    pub left: i64,
    /// What calls and exports were charged, as far as it is attributed to lots.
    pub spent: i64,
    /// What nobody spent in time.
    pub expired: i64,
    /// What went back with its money, or was taken by staff.
    pub taken: i64,
    /// From when on it cannot be spent; none if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// How many entries of the ledger are about it.
    pub entries: i64,
}

impl Lot {
    /// A lot of which nothing is spent yet.
    pub const fn new(
        id: LotId,
        source: LotSource,
        granted: i64,
        expires_at: Option<Timestamp>,
        granted_at: Timestamp,
    ) -> Self {
        Self {
            id,
            source,
            reference: None,
            granted,
            left: granted,
            spent: 0,
            expired: 0,
            taken: 0,
            expires_at,
            granted_at,
            entries: 0,
        }
    }

    /// Where it stands in the order of spending: what expires soonest first, then the oldest; what does not expire last.
    pub(super) fn place(&self) -> (bool, Option<Timestamp>, Timestamp, LotId) {
        (self.expires_at.is_none(), self.expires_at, self.granted_at, self.id)
    }

    /// Whether it cannot be spent any more at `now`.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Puts the end off, so that credits that come late can still be used.
    pub(super) fn live_until(&mut self, end: Timestamp) {
        self.expires_at = self.expires_at.map(|own| own.max(end));
    }
}
