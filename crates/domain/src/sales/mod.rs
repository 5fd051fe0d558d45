//! Sales: what paid invoices and packs sold, and what happens to it when money goes back (economics
//! 6).
//!
//! What is undone is a function of totals: of all the money of a purchase that has gone back so
//! far. So refunds that arrive in another order or twice, failed refunds, won disputes, refunds
//! whose credits are kept, and credit notes that come later need no rules of their own.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "cents of invoices and credits of plans: far from the limits, and the database checks each row's sum"
)]

mod division;
mod reverse;
#[cfg(test)]
mod tests;

use crate::id::LotId;
use crate::lots::CustomerLots;
use crate::time::Timestamp;
use crate::wire::text_enum;

pub use division::{CreditNote, MoneyBack, NotedPart, RefundedMoney};

text_enum! {
    /// The kind of thing that a part of a sale sold.
    PartKind, "one of plan, slot, pack, other" {
        /// A period of a plan, or the rest of one after an upgrade.
        Plan = "plan",
        /// Extra slots for a period, or for the rest of one.
        Slot = "slot",
        /// A pack.
        Pack = "pack",
        /// Something else that the operator sold, which brings no credits.
        Other = "other",
    }
}

/// A paid invoice, or the payment of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sale {
    /// The id of the invoice, or of the payment intent for a pack.
    pub id: String,
    /// When the processor created it: the latest sale is undone first.
    pub sold_at: Timestamp,
    /// The invoice's number, which orders sales of the same second.
    pub number: String,
    /// What was charged, in cents, without what the customer's credit paid.
    pub charged: i64,
    /// The tax included, in cents.
    pub tax: i64,
    /// The money of it that went back.
    pub back: MoneyBack,
    /// Cents that were withdrawn from the customer's credit at the processor because their money
    /// went back.
    pub withdrawn: i64,
    /// What was sold, in the order of the invoice's lines.
    pub parts: Vec<SalePart>,
    /// Money of this sale that went back after it had been credited, and that was therefore taken
    /// from plan months that the credit had paid for.
    pub transfers: Vec<PotTransfer>,
}

/// What a sale sold of one thing; prorations of the same thing are one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalePart {
    /// What was sold.
    pub kind: PartKind,
    /// Parts in the same pot are undone together: one pack, or everything sold for one period of a
    /// plan.
    pub pot: String,
    /// The price after discounts and without tax, in cents.
    pub money: i64,
    /// The credits that it granted.
    pub credits: i64,
    /// How many of those credits were taken because money went back.
    pub taken: i64,
    /// Cents that were credited for slots given up.
    pub credited: i64,
    /// The lot of its credits.
    pub lot: Option<LotId>,
}

/// Money that was taken from another pot because it would otherwise go back twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PotTransfer {
    /// The pot.
    pub pot: String,
    /// Cents.
    pub cents: i64,
}

/// The pot of something that is undone by itself, such as a pack: named after the sale.
pub fn pot_of_sale(sale: &str) -> String {
    format!("sale:{sale}")
}

/// The pot of a plan's period, or of its slots: named after the subscription and the end of the
/// period.
pub fn pot_of_period(kind: PartKind, subscription: &str, period_end: Timestamp) -> String {
    format!("{kind}:{subscription}:{}", period_end.unix_seconds())
}

/// A change of the customer's credit at the processor. Above zero, the customer owes the amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditWithdrawal {
    /// The sale whose money it is.
    pub sale: String,
    /// Cents.
    pub cents: i64,
}

/// The sales that a change concerns, with the lots of their credits.
#[derive(Debug)]
pub struct CustomerSales {
    all: Vec<Sale>,
    /// The lots.
    pub lots: CustomerLots,
    /// The customer's credit at the processor, in cents.
    credit: i64,
    withdrawals: Vec<CreditWithdrawal>,
    now: Timestamp,
}

impl SalePart {
    /// Whether it is a purchase of credits. Slots are not, nor are other things that the operator
    /// sells or parts that cost nothing and granted nothing.
    pub const fn is_purchase(&self) -> bool {
        matches!(self.kind, PartKind::Plan | PartKind::Pack) && (self.credits > 0 || self.money > 0)
    }
}

impl Sale {
    /// Its sort key among sales: when it was created, its number, its id.
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
    /// Creates it from stored data: the sales of the pots concerned and all sales of plans, their
    /// lots, and the customer's credit at the processor, in cents.
    pub fn new(mut sales: Vec<Sale>, lots: CustomerLots, credit: i64, now: Timestamp) -> Self {
        sales.sort_by(|one, other| one.place().cmp(&other.place()));
        Self { all: sales, lots, credit: credit.max(0), withdrawals: Vec::new(), now }
    }

    /// All of them, oldest first.
    pub fn all(&self) -> &[Sale] {
        &self.all
    }

    /// The pending changes of the customer's credit at the processor.
    pub fn withdrawals(&self) -> &[CreditWithdrawal] {
        &self.withdrawals
    }

    /// Applies reversals that arrived before the sale itself. The sale is in `all`, and its lots
    /// have been added.
    pub fn arrived(&mut self, id: &str) {
        let sale = self.all.iter().find(|sale| sale.id == id);
        let parts = sale.map(|sale| sale.parts.clone()).unwrap_or_default();
        for part in parts {
            self.take_latest(&part.pot, -part.credits);
            self.rebalance(&part.pot);
        }
    }

    /// Takes credits of a pot that a line of an invoice gave up, those of the latest purchase
    /// first.
    fn take_latest(&mut self, pot: &str, credits: i64) {
        let mut rest = credits.max(0);
        let Self { all, lots, .. } = self;
        let parts = all.iter().rev().flat_map(|sale| &sale.parts);
        for lot in parts.filter(|part| part.pot == pot).filter_map(|part| part.lot) {
            rest -= lots.take(lot, rest);
        }
    }

    /// Undoes as much of a pot as its money has gone back: the latest purchase first, each purchase
    /// in proportion, rounded down. A purchase that cost nothing is undone with the first cent.
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
        let returned: i64 = self.all.iter().map(|sale| sale.returned_of(pot)).sum();
        transferred + returned
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
