//! Lots: grants of credits. Each has its own expiry and counts what is left, spent, expired and
//! taken (economics 2 and 6).
//!
//! Calls do not touch lots. Before a lot is added, taken or expired, the spending since the last
//! such change is attributed to lots, those that expire soonest first. From then on the balance is
//! the sum of what is left.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "credits that were granted: far from the limits, and the database checks each row's sum"
)]

mod lot;

pub use lot::{Lot, LotSource};

use crate::id::LotId;
use crate::time::Timestamp;

/// The minimum time, in seconds, for which credits can be spent if they are granted after their
/// period has ended or are given back.
pub const LATE_LIFE_S: i64 = 30 * 86_400;

/// A change of the balance by one lot: one entry of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LotMovement {
    /// The lot.
    pub lot: LotId,
    /// The number of the entry among the lot's entries, from 1.
    pub number: i64,
    /// Credits that came in (positive) or went out (negative); never 0.
    pub amount: i64,
    /// What is available afterwards.
    pub balance_after: i64,
    /// What is owed afterwards.
    pub debt_after: i64,
}

/// The lots of a customer that a change concerns, and all lots that have something left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomerLots {
    all: Vec<Lot>,
    /// Credits that were taken back after they had been spent. The next credits pay them.
    debt: i64,
    movements: Vec<LotMovement>,
}

impl CustomerLots {
    /// Creates it from stored lots, including all that have something left, and the debt.
    pub const fn new(all: Vec<Lot>, debt: i64) -> Self {
        Self { all, debt, movements: Vec::new() }
    }

    /// All of them, in no order.
    pub fn all(&self) -> &[Lot] {
        &self.all
    }

    /// One of them.
    pub fn get(&self, id: LotId) -> Option<&Lot> {
        self.all.iter().find(|lot| lot.id == id)
    }

    /// The lots that have something left, in the order of spending.
    pub fn in_spending_order(&self) -> Vec<Lot> {
        let ids = self.in_order(|lot| lot.left > 0);
        ids.into_iter().filter_map(|id| self.get(id).cloned()).collect()
    }

    /// What can still be spent, over all lots.
    pub fn left(&self) -> i64 {
        self.all.iter().map(|lot| lot.left).sum()
    }

    /// Credits owed.
    pub const fn debt(&self) -> i64 {
        self.debt
    }

    /// The changes of the balance so far, in order. Attributing makes no change: the credits were
    /// spent before.
    pub fn movements(&self) -> &[LotMovement] {
        &self.movements
    }

    /// Returns the changes and clears them.
    pub fn take_movements(&mut self) -> Vec<LotMovement> {
        std::mem::take(&mut self.movements)
    }

    /// Adds stored lots that are not present yet.
    pub fn know(&mut self, lots: Vec<Lot>) {
        let is_new = |lot: &Lot| self.get(lot.id).is_none();
        let new: Vec<Lot> = lots.into_iter().filter(is_new).collect();
        self.all.extend(new);
    }

    /// Attributes the spending since the last attribution: the difference between what lots have
    /// left and what is available. If a hold that had been attributed was released, its credits
    /// return to their lots.
    pub fn attribute(&mut self, available: i64, now: Timestamp) {
        let unattributed = self.left() - available;
        if unattributed > 0 {
            self.spend(unattributed);
        } else {
            self.release(-unattributed, now);
        }
    }

    /// Expires the lots whose time has passed.
    pub fn expire(&mut self, now: Timestamp) {
        let over = |lot: &&Lot| lot.left > 0 && lot.is_over(now);
        let ids: Vec<LotId> = self.in_order(over);
        for id in ids {
            let Some(lot) = self.get_mut(id) else { continue };
            let amount = lot.left;
            lot.expired += amount;
            lot.left = 0;
            self.note(id, -amount);
        }
    }

    /// Adds a lot, which pays the debt first.
    pub fn add(&mut self, lot: Lot) {
        let (id, amount) = (lot.id, lot.granted);
        self.all.push(lot);
        self.settle_debt(id);
        self.note(id, amount);
    }

    /// Takes back credits of a lot: first what is left of it, then what expired, then what was
    /// spent. Other lots pay for what was spent; what they lack becomes debt. Returns the number
    /// taken, never more than the lot still had.
    pub fn take(&mut self, id: LotId, wanted: i64) -> i64 {
        let Some(lot) = self.get_mut(id) else { return 0 };
        let taken = wanted.clamp(0, lot.left + lot.expired + lot.spent);
        let of_left = taken.min(lot.left);
        let of_expired = (taken - of_left).min(lot.expired);
        let of_spent = taken - of_left - of_expired;
        lot.left -= of_left;
        lot.expired -= of_expired;
        lot.spent -= of_spent;
        lot.taken += taken;
        let paid = self.spend(of_spent);
        self.debt += of_spent - paid;
        // Expired credits have already left the balance.
        self.note(id, of_expired - taken);
        taken
    }

    /// Gives back credits that were taken from a lot, paying the debt first. They can be spent for
    /// at least [`LATE_LIFE_S`].
    pub fn give(&mut self, id: LotId, wanted: i64, now: Timestamp) -> i64 {
        let Some(lot) = self.get_mut(id) else { return 0 };
        let given = wanted.clamp(0, lot.taken);
        if given == 0 {
            return 0;
        }
        lot.taken -= given;
        lot.left += given;
        lot.live_until(now.plus_seconds(LATE_LIFE_S));
        self.settle_debt(id);
        self.note(id, given);
        given
    }

    /// Takes credits of any lots, as staff do: first what is left, in the order of spending, then
    /// what was spent, as debt. Returns the number taken, never more than was granted.
    pub fn take_any(&mut self, wanted: i64) -> i64 {
        let mut rest = wanted;
        for id in self.in_order(|lot| lot.left > 0) {
            let left = self.get(id).map_or(0, |lot| lot.left);
            rest -= self.take(id, rest.min(left));
        }
        let mut spent = self.in_order(|lot| lot.spent > 0);
        spent.reverse();
        for id in spent {
            let of_spent = self.get(id).map_or(0, |lot| lot.spent);
            rest -= self.take(id, rest.min(of_spent));
        }
        wanted - rest
    }

    /// Spends up to `wanted` credits in the order of spending; returns the number spent.
    fn spend(&mut self, wanted: i64) -> i64 {
        let mut rest = wanted;
        for id in self.in_order(|lot| lot.left > 0) {
            let Some(lot) = self.get_mut(id) else { continue };
            let amount = rest.min(lot.left);
            lot.left -= amount;
            lot.spent += amount;
            rest -= amount;
        }
        wanted - rest
    }

    /// Reverses spending that did not happen after all, the latest first.
    fn release(&mut self, wanted: i64, now: Timestamp) {
        let mut rest = wanted;
        let mut spent = self.in_order(|lot| lot.spent > 0);
        spent.reverse();
        for id in spent {
            let Some(lot) = self.get_mut(id) else { continue };
            let amount = rest.min(lot.spent);
            if amount > 0 {
                lot.spent -= amount;
                lot.left += amount;
                if lot.is_over(now) {
                    lot.live_until(now.plus_seconds(LATE_LIFE_S));
                }
            }
            rest -= amount;
        }
    }

    fn settle_debt(&mut self, id: LotId) {
        let debt = self.debt;
        let Some(lot) = self.get_mut(id) else { return };
        let paid = debt.min(lot.left);
        lot.left -= paid;
        lot.spent += paid;
        self.debt -= paid;
    }

    fn note(&mut self, id: LotId, amount: i64) {
        if amount == 0 {
            return;
        }
        let Some(lot) = self.get_mut(id) else { return };
        lot.entries += 1;
        let number = lot.entries;
        let (balance_after, debt_after) = (self.left(), self.debt);
        self.movements.push(LotMovement { lot: id, number, amount, balance_after, debt_after });
    }

    fn get_mut(&mut self, id: LotId) -> Option<&mut Lot> {
        self.all.iter_mut().find(|lot| lot.id == id)
    }

    /// The ids of the lots that pass the filter, in the order of spending.
    fn in_order(&self, fits: impl Fn(&&Lot) -> bool) -> Vec<LotId> {
        let mut found: Vec<&Lot> = self.all.iter().filter(fits).collect();
        found.sort_by_key(|lot| lot.place());
        found.into_iter().map(|lot| lot.id).collect()
    }
}

#[cfg(test)]
mod tests;
