//! Sales: what paid invoices and packs sold, and what becomes of it when money goes back (economics 6).
//!
//! What is undone is a function of totals: of all the money of a purchase that has gone back so far. So the order in
//! which refunds are heard, copies of them, failed refunds and won disputes need no rules of their own.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "cents of invoices and credits of plans: far from the limits, and the database checks each row's sum"
)]

mod reverse;
#[cfg(test)]
mod tests;

use crate::id::LotId;
use crate::lots::CustomerLots;
use crate::time::Timestamp;
use crate::wire::text_enum;

text_enum! {
    /// What a part of a sale is.
    PartKind, "one of plan, slot, pack, other" {
        /// A period of a plan, or the rest of one after an upgrade.
        Plan = "plan",
        /// Extra slots for a period, or for the rest of one.
        Slot = "slot",
        /// A pack.
        Pack = "pack",
        /// Something of the operator's, which brings nothing.
        Other = "other",
    }
}

/// A paid invoice, or the payment of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sale {
    /// The invoice's id, or the payment intent's of a pack.
    pub id: String,
    /// When the processor made it: what is latest is undone first.
    pub sold_at: Timestamp,
    /// The invoice's number, which orders what was made in the same second.
    pub number: String,
    /// What was charged, in cents; what the customer's credit paid is not in it.
    pub charged: i64,
    /// The tax in it, in cents.
    pub tax: i64,
    /// How much of what was charged has gone back, in cents.
    pub reversed: i64,
    /// Cents of the customer's credit at the processor that were withdrawn because their money went back.
    pub withdrawn: i64,
    /// What was sold, in the order of the invoice's lines.
    pub parts: Vec<SalePart>,
    /// Money of this sale that went back after it had been credited, and was taken from plan months that the credit paid.
    pub transfers: Vec<PotTransfer>,
}

/// What a sale sold of one thing: prorations of the same thing are one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalePart {
    /// What it is.
    pub kind: PartKind,
    /// What shares the fate of its money: one pack, or everything sold for one period of a plan.
    pub pot: String,
    /// What it cost after discounts and without tax, in cents.
    pub money: i64,
    /// The credits that it brought.
    pub credits: i64,
    /// How many of them were taken because money went back.
    pub taken: i64,
    /// Cents that were credited again, for slots that were given up.
    pub credited: i64,
    /// Where its credits are.
    pub lot: Option<LotId>,
}

/// Money that went back a second time and was taken from another pot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PotTransfer {
    /// The pot.
    pub pot: String,
    /// Cents.
    pub cents: i64,
}

/// The pot of something that is undone alone, such as a pack: by the sale's id.
pub fn pot_of_sale(sale: &str) -> String {
    format!("sale:{sale}")
}

/// The pot of a plan's period, or of its slots: by the subscription and the end of the period.
pub fn pot_of_period(kind: PartKind, subscription: &str, period_end: Timestamp) -> String {
    format!("{kind}:{subscription}:{}", period_end.unix_seconds())
}

/// A change of what the processor holds for the customer: above zero the customer owes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditWithdrawal {
    /// The sale whose money it is.
    pub sale: String,
    /// Cents.
    pub cents: i64,
}

/// The sales that a change is about, with the lots of their credits.
#[derive(Debug)]
pub struct CustomerSales {
    all: Vec<Sale>,
    /// The lots.
    pub lots: CustomerLots,
    /// What the processor holds for the customer as credit, in cents.
    credit: i64,
    withdrawals: Vec<CreditWithdrawal>,
    now: Timestamp,
}

impl SalePart {
    /// Whether it is a purchase of credits: slots are none, and neither is something of the operator's or what cost nothing and brought nothing.
    pub const fn is_purchase(&self) -> bool {
        matches!(self.kind, PartKind::Plan | PartKind::Pack) && (self.credits > 0 || self.money > 0)
    }
}

impl Sale {
    /// Where it stands among the others: by when it was made, by its number, by its id.
    fn place(&self) -> (Timestamp, usize, &str, &str) {
        (self.sold_at, self.number.len(), &self.number, &self.id)
    }

    /// Cents that were taken from a pot because of this sale.
    fn transferred_to(&self, pot: &str) -> i64 {
        self.transfers.iter().filter(|one| one.pot == pot).map(|one| one.cents).sum()
    }

    fn transfer(&mut self, pot: &str, cents: i64) {
        match self.transfers.iter_mut().find(|one| one.pot == pot) {
            Some(known) => known.cents += cents,
            None => self.transfers.push(PotTransfer { pot: pot.to_owned(), cents }),
        }
    }
}

impl CustomerSales {
    /// What was read of a customer: the sales of the pots that are concerned and all of plans, their lots, and what the
    /// processor holds as credit, in cents.
    pub fn new(mut sales: Vec<Sale>, lots: CustomerLots, credit: i64, now: Timestamp) -> Self {
        sales.sort_by(|one, other| one.place().cmp(&other.place()));
        Self { all: sales, lots, credit: credit.max(0), withdrawals: Vec::new(), now }
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> &[Sale] {
        &self.all
    }

    /// What is to be changed of the customer's credit at the processor.
    pub fn withdrawals(&self) -> &[CreditWithdrawal] {
        &self.withdrawals
    }

    /// Brings what a new sale sold in line with money that went back before it was heard of. Its lots were added, and it is
    /// among these.
    pub fn arrived(&mut self, id: &str) {
        let sale = self.all.iter().find(|sale| sale.id == id);
        let parts = sale.map(|sale| sale.parts.clone()).unwrap_or_default();
        for part in parts {
            self.take_latest(&part.pot, -part.credits);
            self.rebalance(&part.pot);
        }
    }

    /// Takes credits of a pot back that a line of an invoice gave up: those of the latest purchase first.
    fn take_latest(&mut self, pot: &str, credits: i64) {
        let mut rest = credits.max(0);
        let Self { all, lots, .. } = self;
        let parts = all.iter().rev().flat_map(|sale| &sale.parts);
        for lot in parts.filter(|part| part.pot == pot).filter_map(|part| part.lot) {
            rest -= lots.take(lot, rest);
        }
    }

    /// Undoes as much of a pot as its money has gone back: the latest purchase first, within a purchase in proportion,
    /// rounded down. A purchase that cost nothing goes with the first cent.
    fn rebalance(&mut self, pot: &str) {
        let mut gone = self.gone(pot);
        let now = self.now;
        let Self { all, lots, .. } = self;
        for sale in all.iter_mut().rev() {
            for part in sale.parts.iter_mut().filter(|part| part.pot == pot && part.is_purchase()) {
                let money = part.money.max(0);
                let undone = gone.min(money);
                gone -= undone;
                let target = match money {
                    0 if gone > 0 => part.credits,
                    0 => 0,
                    money => share(part.credits, undone, money),
                };
                let Some(lot) = part.lot else { continue };
                if target > part.taken {
                    part.taken += lots.take(lot, target - part.taken);
                } else {
                    part.taken -= lots.give(lot, part.taken - target, now);
                }
            }
        }
    }

    /// The money of a pot that has gone back, in cents.
    fn gone(&self, pot: &str) -> i64 {
        let transferred: i64 = self.all.iter().map(|sale| sale.transferred_to(pot)).sum();
        let reversed: i64 = self.all.iter().map(|sale| sale.reversed_of(pot, sale.reversed)).sum();
        transferred + reversed
    }

    /// What was paid for a pot, in cents.
    fn paid(&self, pot: &str) -> i64 {
        let parts = self.all.iter().flat_map(|sale| &sale.parts);
        parts.filter(|part| part.pot == pot && part.is_purchase()).map(|part| part.money).sum()
    }
}

/// `credits × undone ÷ money`, rounded down.
fn share(credits: i64, undone: i64, money: i64) -> i64 {
    let product = i128::from(credits) * i128::from(undone);
    i64::try_from(product / i128::from(money.max(1))).unwrap_or(credits)
}
