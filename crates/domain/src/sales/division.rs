//! How money that went back divides among what a sale sold: a function of totals (economics 6).
//!
//! A credit note says what its money is for. What no note speaks of is divided in proportion, tax
//! among the parts. A refund whose credits are kept counts as money that did not go back, so it is
//! not here at all.

use super::Sale;
use crate::split::split;

/// The money of a sale that went back, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoneyBack {
    /// The refunds and disputes that stand, without refunds whose credits are kept.
    pub reversals: Vec<RefundedMoney>,
    /// The credit notes that were issued and not voided.
    pub notes: Vec<CreditNote>,
}

/// Cents of one refund or dispute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundedMoney {
    /// The processor's id.
    pub id: String,
    /// Cents.
    pub cents: i64,
}

/// What a credit note says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreditNote {
    /// What it credits of the sale's parts.
    pub parts: Vec<NotedPart>,
    /// The tax that it credits, in cents.
    pub tax: i64,
    /// Cents of which it does not say what they are for.
    pub other: i64,
    /// Cents by which the invoice asked for less before it was paid.
    pub unasked: i64,
    /// Cents that went back other than by refunds: as the customer's credit, or outside of the
    /// processor.
    pub credited: i64,
    /// The refunds by which its money went back, and how much of each.
    pub refunds: Vec<RefundedMoney>,
}

/// What a credit note credits of one part of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedPart {
    /// The pot of the part.
    pub pot: String,
    /// Cents after discounts and without tax.
    pub cents: i64,
}

/// Money that went back, divided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DividedMoney {
    /// The cents of each part; 0 if it cost nothing.
    pub(super) parts: Vec<i64>,
    /// The cents of what was carried over from an earlier invoice.
    pub(super) carried: i64,
}

impl CreditNote {
    /// Its money that is no refund's, in cents.
    const fn own(&self) -> i64 {
        self.unasked + self.credited
    }

    /// Its money that went back, in cents: that of its refunds as far as they stand.
    fn gone(&self, reversals: &[RefundedMoney]) -> i64 {
        let stands = |of: &&RefundedMoney| reversals.iter().any(|known| known.id == of.id);
        let refunded: i64 = self.refunds.iter().filter(stands).map(|of| of.cents).sum();
        self.own() + refunded
    }
}

impl Sale {
    /// Divides the money that went back among the parts that cost something, the tax, and what was
    /// carried over from an earlier invoice.
    pub(super) fn divided(&self) -> DividedMoney {
        let weights = self.weights();
        let MoneyBack { reversals, notes } = &self.back;
        let refunded: i64 = reversals.iter().map(|one| one.cents).sum();
        let own: i64 = notes.iter().map(CreditNote::own).sum();
        let gone = refunded.clamp(0, self.charged.max(0)) + own;
        let gone = gone.clamp(0, weights.iter().sum());
        let mut decided = vec![0; weights.len()];
        for note in notes {
            for (sum, cents) in decided.iter_mut().zip(self.decided_by(note)) {
                *sum += cents;
            }
        }
        for (sum, weight) in decided.iter_mut().zip(&weights) {
            *sum = (*sum).min(*weight);
        }
        if decided.iter().sum::<i64>() > gone {
            decided = split(gone, &decided);
        }
        let left: Vec<i64> =
            weights.iter().zip(&decided).map(|(weight, done)| weight - done).collect();
        let rest = split(gone - decided.iter().sum::<i64>(), &left);
        let mut parts: Vec<i64> =
            decided.iter().zip(rest).map(|(done, more)| done + more).collect();
        let carried = parts.pop().unwrap_or(0);
        parts.pop();
        DividedMoney { parts, carried }
    }

    /// The cents of a note's money that went back, in the order of the weights. Of what the note
    /// does not name it decides nothing.
    fn decided_by(&self, note: &CreditNote) -> Vec<i64> {
        let cents_of = |part: &super::SalePart| {
            let of_part = note.parts.iter().filter(|named| named.pot == part.pot);
            if part.money > 0 { of_part.map(|named| named.cents).sum() } else { 0 }
        };
        let mut weights: Vec<i64> = self.parts.iter().map(cents_of).collect();
        weights.extend([note.tax, 0, note.other]);
        let money = note.gone(&self.back.reversals).min(weights.iter().sum());
        split(money, &weights)
    }

    /// What was asked for: for each part, for tax, and for what was carried over from an earlier
    /// invoice.
    fn weights(&self) -> Vec<i64> {
        let mut weights: Vec<i64> = self.parts.iter().map(|part| part.money.max(0)).collect();
        weights.push(self.tax);
        let sold: i64 = weights.iter().sum();
        let unasked: i64 = self.back.notes.iter().map(|note| note.unasked).sum();
        weights.push((self.charged + unasked - sold).max(0));
        weights
    }

    /// The cents of a pot that went back.
    pub(super) fn returned_of(&self, pot: &str) -> i64 {
        if self.back == MoneyBack::default() {
            return 0;
        }
        let divided = self.divided().parts;
        let of_pot = |(part, cents): (&super::SalePart, i64)| (part.pot == pot).then_some(cents);
        self.parts.iter().zip(divided).filter_map(of_pot).sum()
    }
}
