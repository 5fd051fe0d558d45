//! Reversals: what follows from money that went back, also from money that had been credited
//! before.

use super::division::MoneyBack;
use super::{CreditWithdrawal, CustomerSales, PartKind};

impl CustomerSales {
    /// Applies what is now known of a sale's money that went back. Does nothing if the sale is
    /// unknown.
    pub fn reverse(&mut self, id: &str, back: MoneyBack) {
        let Some(sale) = self.all.iter_mut().find(|sale| sale.id == id) else { return };
        let before = sale.divided();
        sale.back = back;
        let sale = sale.clone();
        let now = sale.divided();
        if before == now {
            return;
        }
        let mut excess = now.carried - before.carried;
        for (part, (earlier, later)) in
            sale.parts.iter().zip(before.parts.into_iter().zip(now.parts))
        {
            if part.kind == PartKind::Slot {
                // Money that was credited before would go back twice.
                let kept = part.money - part.credited;
                excess += (later - kept).max(0) - (earlier - kept).max(0);
            } else if part.is_purchase() && part.money > 0 {
                self.move_on(&part.pot);
                self.rebalance(&part.pot);
            }
        }
        self.return_once(id, excess);
    }

    /// Moves money of other sales that was taken from a pot, and no longer fits there, to other
    /// pots.
    fn move_on(&mut self, pot: &str) {
        let ids: Vec<String> = self.all.iter().map(|sale| sale.id.clone()).collect();
        for id in ids {
            let over = (self.gone(pot) - self.paid(pot)).max(0);
            let Some(sale) = self.all.iter_mut().find(|sale| sale.id == id) else { continue };
            let over = over.min(sale.transferred_to(pot));
            if over > 0 {
                sale.transfer(pot, -over);
                self.return_once(&id, over);
            }
        }
    }

    /// Handles money that would go back a second time: it is withdrawn from the customer's credit
    /// at the processor, then taken from the plan months that the credit paid for, the latest
    /// first; the remainder is owed on the next invoice. If `excess` is negative, the money has
    /// come in again and this is reversed.
    fn return_once(&mut self, id: &str, excess: i64) {
        if excess > 0 {
            let of_credit = excess.min(self.credit);
            self.withdraw(id, of_credit);
            let rest = self.take_from_months(id, excess - of_credit);
            self.withdraw(id, rest);
            return;
        }
        let mut missing = -excess;
        let pots = self.all.iter().find(|sale| sale.id == id).map(|sale| sale.transfers.clone());
        for transfer in pots.unwrap_or_default() {
            let cents = missing.min(transfer.cents);
            if cents > 0 {
                self.transfer(id, &transfer.pot, -cents);
                missing -= cents;
            }
        }
        let withdrawn = self.all.iter().find(|sale| sale.id == id).map_or(0, |sale| sale.withdrawn);
        self.withdraw(id, -missing.min(withdrawn));
    }

    /// Takes cents from the latest plan months that have room; returns what did not fit.
    fn take_from_months(&mut self, id: &str, cents: i64) -> i64 {
        let mut rest = cents;
        let parts = self.all.iter().rev().flat_map(|sale| &sale.parts);
        let months = parts.filter(|part| part.kind == PartKind::Plan && part.is_purchase());
        let pots: Vec<String> = months.map(|part| part.pot.clone()).collect();
        for pot in pots {
            let taken = rest.min(self.paid(&pot) - self.gone(&pot));
            if taken > 0 {
                rest -= taken;
                self.transfer(id, &pot, taken);
            }
        }
        rest
    }

    fn transfer(&mut self, id: &str, pot: &str, cents: i64) {
        if let Some(sale) = self.all.iter_mut().find(|sale| sale.id == id) {
            sale.transfer(pot, cents);
            self.rebalance(pot);
        }
    }

    /// Withdraws cents from the customer's credit, or returns them if negative.
    fn withdraw(&mut self, id: &str, cents: i64) {
        let Some(sale) = self.all.iter_mut().find(|sale| sale.id == id).filter(|_| cents != 0)
        else {
            return;
        };
        sale.withdrawn += cents;
        self.credit = (self.credit - cents).max(0);
        match self.withdrawals.iter_mut().find(|known| known.sale == id) {
            Some(known) => known.cents += cents,
            None => self.withdrawals.push(CreditWithdrawal { sale: id.to_owned(), cents }),
        }
    }
}
