//! One grant of credits, and what happened to them.

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
        /// The balance from before lots existed.
        Balance = "balance",
    }
}

/// Credits that were granted together. `granted = left + spent + expired + taken`, and none is
/// negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lot {
    /// Its id.
    pub id: LotId,
    /// What it was granted for.
    pub source: LotSource,
    /// Something that a person can look up, such as the order, the invoice or staff's reason.
    pub reference: Option<String>,
    /// The credits that were granted.
    pub granted: i64,
    /// The credits that can still be spent.
    pub left: i64,
    /// The credits that calls and exports spent, as far as spending is attributed to lots.
    pub spent: i64,
    /// The credits that were not spent in time.
    pub expired: i64,
    /// The credits that a refund or dispute took back, or that staff took.
    pub taken: i64,
    /// The time from which it cannot be spent; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The number of ledger entries about it.
    pub entries: i64,
}

impl Lot {
    /// A lot of which nothing has been spent.
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

    /// Its sort key in the order of spending: the soonest to expire first, then the oldest; lots
    /// that do not expire come last.
    pub(super) fn place(&self) -> (bool, Option<Timestamp>, Timestamp, LotId) {
        (self.expires_at.is_none(), self.expires_at, self.granted_at, self.id)
    }

    /// Whether it has expired at `now`.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Extends its expiry, so that credits that arrive late can still be used.
    pub(super) fn live_until(&mut self, end: Timestamp) {
        self.expires_at = self.expires_at.map(|own| own.max(end));
    }
}
