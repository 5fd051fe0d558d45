//! The credits that customers can still spend, by where they came from and by age: what the
//! operator owes.
//!
//! Calls do not touch lots, so what was spent since the last change of a customer's lots is
//! attributed here as it would be there, without writing. All customers are read in one snapshot,
//! without those that were erased: nobody can spend what they had.

use std::collections::BTreeMap;

use domain::credits::Credits;
use domain::id::CustomerId;
use domain::lots::{CustomerLots, Lot, LotSource};
use domain::time::Timestamp;

use crate::lots;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// How many customers one query covers.
const CUSTOMERS_MAX: i64 = 2_000;
const DAY_MICROS: i64 = 86_400 * 1_000_000;
/// The upper ends of the ages, in days.
const AGE_ENDS: [i64; 4] = [30, 90, 180, 365];

/// Credits of one source and one age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiabilityLine {
    /// What they were granted for.
    pub source: LotSource,
    /// The youngest of them, in days since the grant.
    pub days_from: i64,
    /// The days at which they count as older; none for the oldest.
    pub days_until: Option<i64>,
    /// The credits that can still be spent.
    pub credits: Credits,
    /// Those of them that never expire.
    pub without_expiry: Credits,
    /// The number of lots.
    pub lots: i64,
}

/// What customers can still spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditLiability {
    /// By source and age; without lines that are empty.
    pub lines: Vec<LiabilityLine>,
    /// The sum of the lines: the balances of all customers that were not erased.
    pub outstanding: Credits,
    /// Held for running calls and exports, which may come back.
    pub held: Credits,
    /// What customers owe.
    pub debt: Credits,
    /// Customers who can spend something.
    pub customers: i64,
}

/// The lines while they are summed up, by source and the index of the age.
#[derive(Default)]
struct LiabilitySums {
    lines: BTreeMap<(LotSource, usize), LiabilityLine>,
    customers: i64,
}

/// Sums up what all customers can still spend.
pub async fn read(store: &Store, now: Timestamp) -> Result<CreditLiability, StoreError> {
    const TOTALS: &str = "
        select cast(coalesce(sum(held), 0) as bigint) as held, cast(coalesce(sum(debt), 0) as bigint) as debt
        from customer_credits
        where customer_id not in (select id from customers where erased_at is not null)";
    let mut tx = store.inspect().await?;
    let mut sums = LiabilitySums::default();
    let mut after = String::new();
    while let Some(last) = add_customers(&mut tx, &mut sums, &after, now).await? {
        after = last;
    }
    let totals = tx.row(TOTALS, &[]).await?;
    let total = |column| totals.as_ref().map_or(Ok(Credits::ZERO), |row| row.credits(column));
    let lines: Vec<LiabilityLine> = sums.lines.into_values().collect();
    let outstanding = lines.iter().map(|line| line.credits.whole()).fold(0, i64::saturating_add);
    Ok(CreditLiability {
        lines,
        outstanding: Credits::from_whole(outstanding),
        held: total("held")?,
        debt: total("debt")?,
        customers: sums.customers,
    })
}

/// Adds the customers after `after`, as many as one query covers, and returns the last of them;
/// none if there was none.
async fn add_customers(
    tx: &mut Tx,
    sums: &mut LiabilitySums,
    after: &str,
    now: Timestamp,
) -> Result<Option<String>, StoreError> {
    const SQL: &str = "
        select customer_id, available from customer_credits
        where customer_id > $1 and available > 0
          and not exists (
              select 1 from customers c where c.id = customer_credits.customer_id and c.erased_at is not null)
        order by customer_id limit $2";
    let rows = tx.rows(SQL, &[after.into(), CUSTOMERS_MAX.into()]).await?;
    let Some(last) = rows.last() else { return Ok(None) };
    let last = last.text("customer_id")?;
    let mut of_customers = lots::read_left_between(tx, after, &last).await?;
    for row in &rows {
        let customer: CustomerId = row.parse("customer_id", "customer_credits")?;
        let available = row.int("available")?;
        let mut lots = CustomerLots::new(of_customers.remove(&customer).unwrap_or_default(), 0);
        if lots.left() < available {
            lots.know(lots::read_spent(tx, customer).await?);
        }
        lots.attribute(available, now);
        sums.add(lots.all(), now);
    }
    Ok(Some(last))
}

impl LiabilitySums {
    fn add(&mut self, lots: &[Lot], now: Timestamp) {
        self.customers = self.customers.saturating_add(1);
        for lot in lots.iter().filter(|lot| lot.left > 0) {
            let age = now.micros_since(lot.granted_at).max(0) / DAY_MICROS;
            let place = AGE_ENDS.iter().filter(|end| age >= **end).count();
            let line = self.lines.entry((lot.source, place)).or_insert_with(|| LiabilityLine {
                source: lot.source,
                days_from: place
                    .checked_sub(1)
                    .and_then(|at| AGE_ENDS.get(at).copied())
                    .unwrap_or(0),
                days_until: AGE_ENDS.get(place).copied(),
                credits: Credits::ZERO,
                without_expiry: Credits::ZERO,
                lots: 0,
            });
            line.credits = plus(line.credits, lot.left);
            if lot.expires_at.is_none() {
                line.without_expiry = plus(line.without_expiry, lot.left);
            }
            line.lots = line.lots.saturating_add(1);
        }
    }
}

fn plus(credits: Credits, more: i64) -> Credits {
    Credits::from_whole(credits.whole().saturating_add(more))
}
