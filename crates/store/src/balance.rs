//! A customer's credits inside a transaction. Everything that changes credits goes through here, so
//! that debts are paid first and the balance cache sees every change.

use std::collections::BTreeMap;

use domain::id::CustomerId;

use crate::StoreError;
use crate::metering::LockedSight;
use crate::sql::{SqlKind, SqlRow, SqlValue};
use crate::statement_batch::BatchedStatement;
use crate::tx::{RowTable, Tx};

/// How many rows one statement reads or writes: SQLite takes at most 32,766 parameters.
const ROWS_MAX: usize = 2048;

/// The row of `customer_credits`, and what this transaction changes in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BalanceRow {
    pub(crate) granted: i64,
    pub(crate) removed: i64,
    pub(crate) spent: i64,
    pub(crate) held: i64,
    pub(crate) available: i64,
    pub(crate) debt: i64,
}

/// The balances that a transaction has locked, ordered by customer.
#[derive(Default)]
pub(crate) struct LockedBalances {
    rows: BTreeMap<CustomerId, (BalanceRow, BalanceRow)>,
}

impl BalanceRow {
    /// Sets credits aside for a call. False, with nothing changed, if the balance is too low.
    pub(crate) fn hold(&mut self, cost: i64) -> bool {
        if cost < 0 || self.available < cost {
            return false;
        }
        self.available -= cost;
        self.held = self.held.saturating_add(cost);
        true
    }

    /// Charges what was held.
    pub(crate) fn settle(&mut self, cost: i64) {
        self.held = self.held.saturating_sub(cost);
        self.spent = self.spent.saturating_add(cost);
    }

    /// Refunds what was held, paying debt first.
    pub(crate) fn refund(&mut self, cost: i64) {
        self.held = self.held.saturating_sub(cost);
        self.receive(cost);
    }

    /// Adds granted credits, paying debt first.
    pub(crate) fn grant(&mut self, amount: i64) {
        self.granted = self.granted.saturating_add(amount);
        self.receive(amount);
    }

    /// Takes credits away. What exceeds the balance becomes debt.
    pub(crate) fn remove(&mut self, amount: i64) {
        let taken = amount.min(self.available);
        self.removed = self.removed.saturating_add(amount);
        self.available -= taken;
        self.debt = self.debt.saturating_add(amount - taken);
    }

    fn receive(&mut self, amount: i64) {
        let paid = amount.min(self.debt);
        self.debt -= paid;
        self.available = self.available.saturating_add(amount - paid);
    }
}

/// A customer, and its balance before and after the transaction's changes.
pub(crate) type BalanceChange<'b> = (CustomerId, &'b BalanceRow, &'b BalanceRow);

impl LockedBalances {
    /// Adds balances read and locked by `locking`.
    pub(crate) fn read(&mut self, rows: &[SqlRow]) -> Result<(), StoreError> {
        for row in rows {
            let balance = read(row)?;
            self.rows.insert(row.parse("customer_id", "customer_credits")?, (balance, balance));
        }
        Ok(())
    }

    /// The balances that this transaction has changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = BalanceChange<'_>> {
        let changed = self.rows.iter().filter(|(_, (before, after))| before != after);
        changed.map(|(customer, (before, after))| (*customer, before, after))
    }

    /// Records the new balances for the balance cache. The rows are locked, so the computed
    /// balances will be the committed ones.
    pub(crate) fn note(&self, tx: &mut Tx) {
        for (customer, _, after) in self.changed() {
            tx.note_balance(customer, after.available);
        }
    }

    /// Adds balances that are known and locked already.
    pub(crate) fn add(&mut self, known: impl Iterator<Item = (CustomerId, BalanceRow)>) {
        self.rows.extend(known.map(|(customer, balance)| (customer, (balance, balance))));
    }

    /// The balances as changed by this transaction.
    pub(crate) fn current(&self) -> impl Iterator<Item = (CustomerId, BalanceRow)> + '_ {
        self.rows.iter().map(|(customer, (_, now))| (*customer, *now))
    }

    /// What this transaction saw of each balance, and leaves of it.
    pub(crate) fn sights(&self) -> impl Iterator<Item = LockedSight> + '_ {
        self.rows.iter().map(|(customer, (before, after))| LockedSight {
            customer: *customer,
            before: before.available,
            after: after.available,
            held: after.held,
        })
    }

    pub(crate) fn get_mut(&mut self, customer: CustomerId) -> Option<&mut BalanceRow> {
        self.rows.get_mut(&customer).map(|(_, now)| now)
    }
}

/// What a customer can spend, without a lock; nothing if there is no such customer.
pub(crate) async fn available(tx: &mut Tx, customer: CustomerId) -> Result<i64, StoreError> {
    const SQL: &str = "select available from customer_credits where customer_id = $1";
    let row = tx.row(SQL, &[customer.into()]).await?;
    row.map_or(Ok(0), |row| row.int("available"))
}

/// Reads and locks the balances of these customers, always in the same order, so that two
/// transactions never deadlock.
pub(crate) async fn lock(
    tx: &mut Tx,
    customers: impl Iterator<Item = CustomerId>,
) -> Result<LockedBalances, StoreError> {
    let mut wanted: Vec<CustomerId> = customers.collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut balances = LockedBalances::default();
    for chunk in wanted.chunks(ROWS_MAX) {
        let [rows] = tx.together([locking(chunk.iter().copied())]).await?;
        balances.read(&rows)?;
    }
    Ok(balances)
}

/// The statement that locks these balances, after the statement before it in its batch.
/// `LockedBalances::read` takes its rows.
pub(crate) fn locking(customers: impl Iterator<Item = CustomerId>) -> BatchedStatement<'static> {
    const SQL: &str = "
        with v (customer_id) as ({rows})
        select c.customer_id, c.granted, c.removed, c.spent, c.held, c.available, c.debt
        from customer_credits c
        where {after} and c.customer_id in (select customer_id from v)
        order by c.customer_id{lock}";
    const RETURNS: &[(&str, SqlKind)] = &[
        ("customer_id", SqlKind::Text),
        ("granted", SqlKind::Int),
        ("removed", SqlKind::Int),
        ("spent", SqlKind::Int),
        ("held", SqlKind::Int),
        ("available", SqlKind::Int),
        ("debt", SqlKind::Int),
    ];
    let mut table = RowTable::new(&[SqlKind::Text]);
    for customer in customers {
        table.push([customer.into()]);
    }
    BatchedStatement::over(SQL, table, RETURNS)
}

/// Writes the changed balances.
pub(crate) async fn save(tx: &mut Tx, balances: &LockedBalances) -> Result<(), StoreError> {
    let changed: Vec<_> = balances.changed().collect();
    for chunk in changed.chunks(ROWS_MAX) {
        tx.together([saving(chunk.iter().copied())]).await?;
    }
    balances.note(tx);
    Ok(())
}

/// The statement that writes these changes, as differences, so that the table's constraints check
/// the sums. The balance cache receives them through `LockedBalances::note`.
pub(crate) fn saving<'b>(
    changed: impl Iterator<Item = BalanceChange<'b>>,
) -> BatchedStatement<'static> {
    const SQL: &str = "
        update customer_credits set
            granted = customer_credits.granted + {granted},
            removed = customer_credits.removed + {removed},
            spent = customer_credits.spent + {spent}, held = customer_credits.held + {held},
            available = customer_credits.available + {available},
            debt = customer_credits.debt + {debt}
        {from} where customer_credits.customer_id = {customer_id} {returning}";
    const COLUMNS: &[(&str, SqlKind)] = &[
        ("customer_id", SqlKind::Text),
        ("granted", SqlKind::Int),
        ("removed", SqlKind::Int),
        ("spent", SqlKind::Int),
        ("held", SqlKind::Int),
        ("available", SqlKind::Int),
        ("debt", SqlKind::Int),
    ];
    let values = changed.flat_map(|(customer, before, after)| {
        [
            SqlValue::from(customer),
            (after.granted - before.granted).into(),
            (after.removed - before.removed).into(),
            (after.spent - before.spent).into(),
            (after.held - before.held).into(),
            (after.available - before.available).into(),
            (after.debt - before.debt).into(),
        ]
    });
    BatchedStatement::update(SQL, COLUMNS, values.collect())
}

/// Reads a balance from six columns, starting at `first`.
pub(crate) fn read(row: &SqlRow) -> Result<BalanceRow, StoreError> {
    Ok(BalanceRow {
        granted: row.int("granted")?,
        removed: row.int("removed")?,
        spent: row.int("spent")?,
        held: row.int("held")?,
        available: row.int("available")?,
        debt: row.int("debt")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMPTY: BalanceRow =
        BalanceRow { granted: 0, removed: 0, spent: 0, held: 0, available: 0, debt: 0 };

    #[test]
    fn credits_beyond_the_balance_cannot_be_held() {
        let mut balance = BalanceRow { granted: 2, available: 2, ..EMPTY };

        assert!(!balance.hold(3));
        assert!(balance.hold(2));
        assert!(!balance.hold(1));
        assert_eq!((balance.available, balance.held), (0, 2));
    }

    #[test]
    fn new_credits_pay_the_debt_first() {
        let mut balance = BalanceRow { granted: 5, spent: 5, ..EMPTY };
        balance.remove(3);
        assert_eq!((balance.available, balance.debt), (0, 3));

        balance.grant(10);

        assert_eq!((balance.available, balance.debt), (7, 0));
    }

    #[derive(Debug, Clone, Copy)]
    enum BalanceStep {
        Hold(i64),
        Settle,
        Refund,
        Grant(i64),
        Remove(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<BalanceStep>> {
        let step = prop_oneof![
            (0_i64..20).prop_map(BalanceStep::Hold),
            Just(BalanceStep::Settle),
            Just(BalanceStep::Refund),
            (1_i64..50).prop_map(BalanceStep::Grant),
            (1_i64..50).prop_map(BalanceStep::Remove),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn balances_add_up_after_any_sequence_of_changes(steps in steps()) {
            let mut balance = EMPTY;
            let mut open = Vec::new();
            for step in steps {
                match step {
                    BalanceStep::Hold(cost) => if balance.hold(cost) { open.push(cost) },
                    BalanceStep::Settle => if let Some(cost) = open.pop() { balance.settle(cost) },
                    BalanceStep::Refund => if let Some(cost) = open.pop() { balance.refund(cost) },
                    BalanceStep::Grant(amount) => balance.grant(amount),
                    BalanceStep::Remove(amount) => balance.remove(amount),
                }
                let BalanceRow { granted, removed, spent, held, available, debt } = balance;
                prop_assert_eq!(granted + debt, available + held + spent + removed);
                prop_assert_eq!(held, open.iter().sum::<i64>());
                prop_assert!([granted, removed, spent, available, debt].iter().all(|part| *part >= 0));
                prop_assert!(available == 0 || debt == 0);
            }
        }
    }
}
