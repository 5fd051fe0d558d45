//! Budgets: what a key may spend in a UTC month, decided in the transaction of the hold.
//!
//! There is no separate counter. A key's use is the sum of what its settled calls and exports of
//! the month were charged and what its open ones hold, read under the lock on the customer's
//! balance, which every hold and settlement of that customer needs. So a refund also returns
//! credits to the budget, and a key without a budget costs nothing extra.

use std::collections::HashMap;

use domain::credits::Credits;
use domain::id::{CustomerId, KeyId};
use domain::time::UtcDay;

use super::end::SettledCall;
use super::{Hold, HoldOutcome};
use crate::StoreError;
use crate::tx::Tx;

/// The use of keys with a budget, as seen by a transaction that has locked their customers'
/// balances.
pub(crate) struct KeyBudgets<'b> {
    /// By key and the first day of the month.
    used: HashMap<(KeyId, UtcDay), i64>,
    /// Calls that this transaction has settled but not yet counted as usage: they are neither open
    /// nor in the sums.
    unbooked: &'b [SettledCall<'b>],
}

impl<'b> KeyBudgets<'b> {
    /// For a transaction that has settled these calls and counts them later.
    pub(crate) fn beside(unbooked: &'b [SettledCall<'b>]) -> Self {
        Self { used: HashMap::new(), unbooked }
    }

    /// The refusal if this budget does not cover the hold.
    pub(crate) async fn refuse(
        &mut self,
        tx: &mut Tx,
        hold: &Hold,
        budget: i64,
    ) -> Result<Option<HoldOutcome>, StoreError> {
        let day = hold.held_at.day();
        let place = (hold.key, day.month_start());
        let used = match self.used.get(&place) {
            Some(used) => *used,
            None => {
                let booked = used_in(tx, hold.customer, hold.key, day).await?;
                let used = booked.saturating_add(self.unbooked_of(hold.key, day.month_start()));
                self.used.insert(place, used);
                used
            }
        };
        if used.saturating_add(hold.cost.whole()) <= budget {
            return Ok(None);
        }
        Ok(Some(HoldOutcome::BudgetExhausted {
            budget: Credits::from_whole(budget),
            used: Credits::from_whole(used),
            resets_at: day.next_month_start().start(),
        }))
    }

    /// Whether any budget was looked up.
    pub(crate) fn are_asked(&self) -> bool {
        !self.used.is_empty()
    }

    /// Adds a hold that was just granted. Does nothing for a key without a budget.
    pub(crate) fn note(&mut self, hold: &Hold, outcome: &HoldOutcome) {
        if self.used.is_empty() || !outcome.is_held() {
            return;
        }
        if let Some(used) = self.used.get_mut(&(hold.key, hold.held_at.day().month_start())) {
            *used = used.saturating_add(hold.cost.whole());
        }
    }

    fn unbooked_of(&self, key: KeyId, month: UtcDay) -> i64 {
        let calls = self.unbooked.iter();
        let same =
            calls.filter(|call| call.key == key && call.held_at.day().month_start() == month);
        same.map(|call| call.end.credits(call.cost)).fold(0, i64::saturating_add)
    }
}

/// What a key has spent and holds in the UTC month of `day`.
pub(crate) async fn used_in(
    tx: &mut Tx,
    customer: CustomerId,
    key: KeyId,
    day: UtcDay,
) -> Result<i64, StoreError> {
    // Few calls are open at any moment, so their table has no index for this.
    const SQL: &str = "
        select cast(
            coalesce((select sum(credits) from usage_by_day
                      where customer_id = $1 and key_id = $2 and day >= $3 and day < $4), 0)
          + coalesce((select sum(cost) from open_calls
                      where customer = (select number from words where word = $1)
                        and key = (select number from words where word = $2)
                        and held_at >= $5 and held_at < $6), 0)
          + coalesce((select sum(cost) from export_jobs
                      where customer_id = $1 and key_id = $2 and credit_state <> 'refunded'
                        and created_at >= $5 and created_at < $6), 0)
            as bigint) as used";
    let (first, next) = (day.month_start(), day.next_month_start());
    let values = [
        customer.into(),
        key.into(),
        first.into(),
        next.into(),
        first.start().into(),
        next.start().into(),
    ];
    let row = tx.row(SQL, &values).await?;
    row.map_or(Ok(0), |row| row.int("used"))
}
