//! Lots in the database. They are read together with the balance they make up, changed by the rules
//! of `domain::lots`, and written with one ledger entry for each change of the balance.

use std::collections::HashMap;

use domain::id::{CustomerId, EntryId, LotId};
use domain::lots::{CustomerLots, Lot, LotMovement};
use domain::time::Timestamp;

use crate::balance::{self, LockedBalances};
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// How many customers one round of expiry covers.
const CUSTOMERS_MAX: i64 = 100;

const COLUMNS: &str = "
    id, source, reference, granted, credits_left, spent, expired, taken, expires_at, granted_at, entries";

/// A customer's balance and lots, locked and changed by a transaction.
pub(crate) struct CreditHoldings {
    pub(crate) customer: CustomerId,
    pub(crate) lots: CustomerLots,
    before: Vec<Lot>,
    balances: LockedBalances,
    at: Timestamp,
    entry: EntryId,
    written: u64,
    /// The number of the newest ledger entry.
    place: i64,
}

/// The labels of ledger entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryLabel<'a> {
    /// The kind of entry.
    pub(crate) kind: &'a str,
    /// The source and the source's id, unique together: the label of the first entry. Further ones,
    /// and entries that no source can repeat (none), are identified by their lot and number.
    pub(crate) source: Option<(&'a str, &'a str)>,
    /// A reference for people.
    pub(crate) reference: Option<&'a str>,
}

/// Which lots to read besides those with credits left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LotSelection {
    /// No others.
    None,
    /// This one.
    One(LotId),
    /// The lots of plans.
    Plans,
    /// All lots of which credits were spent.
    Spent,
}

/// Locks a customer's balance and reads its lots: those with credits left and those that are
/// `wanted`. Attributes credits spent since the last time to lots, and expires lots. `entry` is the
/// id of the first ledger entry to be written. None if there is no such customer.
pub(crate) async fn open(
    tx: &mut Tx,
    customer: CustomerId,
    wanted: LotSelection,
    entry: EntryId,
    at: Timestamp,
) -> Result<Option<CreditHoldings>, StoreError> {
    let balances = balance::lock(tx, std::iter::once(customer)).await?;
    let Some((_, balance)) = balances.current().next() else { return Ok(None) };
    let mut lots = CustomerLots::new(read_left(tx, customer).await?, balance.debt);
    lots.know(read_wanted(tx, customer, wanted).await?);
    if lots.left() < balance.available {
        // A hold was refunded that had been attributed to lots.
        lots.know(read_spent(tx, customer).await?);
    }
    let before = lots.all().to_vec();
    lots.attribute(balance.available, at);
    lots.expire(at);
    let place = newest_place(tx, customer).await?;
    let mut holdings =
        CreditHoldings { customer, lots, before, balances, at, entry, written: 0, place };
    holdings.book(tx, EntryLabel { kind: "expiry", source: None, reference: None }).await?;
    Ok(Some(holdings))
}

impl CreditHoldings {
    /// The available credits now.
    pub(crate) fn available(&self) -> i64 {
        self.balances.current().next().map_or(0, |(_, balance)| balance.available)
    }

    /// Writes the changes since the last call to the ledger and the balance. False, with nothing
    /// written, if this source was recorded before.
    pub(crate) async fn book(
        &mut self,
        tx: &mut Tx,
        label: EntryLabel<'_>,
    ) -> Result<bool, StoreError> {
        let movements = self.lots.take_movements();
        for (place, movement) in (0_u64..).zip(&movements) {
            let Some(balance) = self.balances.get_mut(self.customer) else { return Ok(false) };
            if movement.amount > 0 {
                balance.granted.checked_add(movement.amount).ok_or(StoreError::TooLarge)?;
                balance.grant(movement.amount);
            } else {
                balance.removed.checked_sub(movement.amount).ok_or(StoreError::TooLarge)?;
                balance.remove(-movement.amount);
            }
            if !self.write_entry(tx, place, movement, label).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn write_entry(
        &mut self,
        tx: &mut Tx,
        place: u64,
        movement: &LotMovement,
        label: EntryLabel<'_>,
    ) -> Result<bool, StoreError> {
        const INSERT: &str = "
            insert into ledger
                (id, customer_id, at, kind, amount, balance_after, source, source_id, reference, lot_id, debt_after, place)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            on conflict (source, source_id) do nothing";
        let own = format!("{}:{}", movement.lot, movement.number);
        let (source, source_id) = match label.source {
            None => ("lot", own),
            Some((source, id)) if place == 0 => (source, id.to_owned()),
            // The id with a suffix could be the id of another object of the source.
            Some((source, _)) => (source, own),
        };
        let lot = self.lots.get(movement.lot);
        let reference = label.reference.or_else(|| lot.and_then(|lot| lot.reference.as_deref()));
        let values = [
            self.entry.nth(self.written).into(),
            self.customer.into(),
            self.at.into(),
            label.kind.into(),
            movement.amount.into(),
            movement.balance_after.into(),
            source.into(),
            source_id.as_str().into(),
            reference.into(),
            movement.lot.into(),
            movement.debt_after.into(),
            self.place.saturating_add(1).into(),
        ];
        let inserted = tx.execute(INSERT, &values).await? == 1;
        self.written = self.written.saturating_add(1);
        self.place = self.place.saturating_add(1);
        Ok(inserted)
    }

    /// Inserts new lots, so that other rows can refer to them.
    pub(crate) async fn save_new_lots(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        for lot in self.lots.all() {
            if self.before.iter().all(|known| known.id != lot.id) {
                insert(tx, self.customer, lot).await?;
                self.before.push(lot.clone());
            }
        }
        Ok(())
    }

    /// Writes the lots and the balance.
    pub(crate) async fn save(mut self, tx: &mut Tx) -> Result<(), StoreError> {
        let balance = self.balances.current().next().map(|(_, balance)| balance);
        let agrees = |row: &balance::BalanceRow| {
            (row.available, row.debt) == (self.lots.left(), self.lots.debt())
        };
        if !balance.as_ref().is_some_and(agrees) {
            return Err(StoreError::corrupt("lots", self.customer));
        }
        self.save_new_lots(tx).await?;
        for lot in self.lots.all() {
            if self.before.iter().any(|known| known.id == lot.id && known != lot) {
                update(tx, lot).await?;
            }
        }
        balance::save(tx, &self.balances).await
    }
}

/// The customer's lots with credits left, in the order of spending, with spent credits attributed
/// as of now.
pub async fn list(
    store: &Store,
    customer: CustomerId,
    now: Timestamp,
) -> Result<Vec<Lot>, StoreError> {
    let mut tx = store.snapshot().await?;
    let available = balance::available(&mut tx, customer).await?;
    let mut lots = CustomerLots::new(read_left(&mut tx, customer).await?, 0);
    if lots.left() < available {
        lots.know(read_spent(&mut tx, customer).await?);
    }
    lots.attribute(available, now);
    Ok(lots.in_spending_order())
}

async fn newest_place(tx: &mut Tx, customer: CustomerId) -> Result<i64, StoreError> {
    const SQL: &str =
        "select coalesce(max(place), 0) as newest_place from ledger where customer_id = $1";
    let row = tx.row(SQL, &[customer.into()]).await?;
    row.map_or(Ok(0), |row| row.int("newest_place"))
}

/// Whether the customer has lots that are past their expiry but not yet expired.
pub async fn is_due(
    store: &Store,
    customer: CustomerId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        select 1 from lots
        where customer_id = $1 and credits_left > 0 and expires_at is not null and expires_at <= $2 limit 1";
    Ok(store.read().await?.row(SQL, &[customer.into(), now.into()]).await?.is_some())
}

/// Expires due lots, for as many customers as one round covers, and returns the number of
/// customers. `entry` creates ids for ledger entries.
pub async fn expire_due(
    store: &Store,
    now: Timestamp,
    entry: impl Fn() -> EntryId,
) -> Result<usize, StoreError> {
    const DUE: &str = "
        select distinct customer_id from lots
        where credits_left > 0 and expires_at is not null and expires_at <= $1 limit $2";
    let due = store.read().await?.rows(DUE, &[now.into(), CUSTOMERS_MAX.into()]).await?;
    for row in &due {
        settle(store, row.parse("customer_id", "lots")?, entry(), now).await?;
    }
    Ok(due.len())
}

/// Attributes a customer's spent credits to lots and expires due lots.
pub async fn settle(
    store: &Store,
    customer: CustomerId,
    entry: EntryId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    if let Some(holdings) = open(&mut tx, customer, LotSelection::None, entry, now).await? {
        holdings.save(&mut tx).await?;
        tx.commit().await?;
    }
    Ok(())
}

async fn insert(tx: &mut Tx, customer: CustomerId, lot: &Lot) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into lots
            (id, customer_id, source, reference, granted, credits_left, spent, expired, taken, expires_at, granted_at,
             entries)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let values = [
        lot.id.into(),
        customer.into(),
        lot.source.as_str().into(),
        lot.reference.as_deref().into(),
        lot.granted.into(),
        lot.left.into(),
        lot.spent.into(),
        lot.expired.into(),
        lot.taken.into(),
        lot.expires_at.into(),
        lot.granted_at.into(),
        lot.entries.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

async fn update(tx: &mut Tx, lot: &Lot) -> Result<(), StoreError> {
    const SQL: &str = "
        update lots set credits_left = $2, spent = $3, expired = $4, taken = $5, expires_at = $6, entries = $7
        where id = $1";
    let values = [
        lot.id.into(),
        lot.left.into(),
        lot.spent.into(),
        lot.expired.into(),
        lot.taken.into(),
        lot.expires_at.into(),
        lot.entries.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

async fn read_left(tx: &mut Tx, customer: CustomerId) -> Result<Vec<Lot>, StoreError> {
    read(tx, "customer_id = $1 and credits_left > 0", customer).await
}

async fn read_wanted(
    tx: &mut Tx,
    customer: CustomerId,
    wanted: LotSelection,
) -> Result<Vec<Lot>, StoreError> {
    const OF_PLANS: &str = "
        id in (select lot_id from sale_parts where customer_id = $1 and kind = 'plan' and lot_id is not null)";
    match wanted {
        LotSelection::None => Ok(Vec::new()),
        LotSelection::One(lot) => read(tx, "id = $1", lot).await,
        LotSelection::Plans => read(tx, OF_PLANS, customer).await,
        LotSelection::Spent => read_spent(tx, customer).await,
    }
}

/// The lots with credits left of the customers after `after` up to `last`.
pub(crate) async fn read_left_between(
    tx: &mut Tx,
    after: &str,
    last: &str,
) -> Result<HashMap<CustomerId, Vec<Lot>>, StoreError> {
    let text = format!(
        "select customer_id, {COLUMNS} from lots
         where credits_left > 0 and customer_id > $1 and customer_id <= $2"
    );
    let rows = tx.rows(sqlx::AssertSqlSafe(text), &[after.into(), last.into()]).await?;
    let mut found: HashMap<CustomerId, Vec<Lot>> = HashMap::new();
    for row in &rows {
        found.entry(row.parse("customer_id", "lots")?).or_default().push(lot(row)?);
    }
    Ok(found)
}

pub(crate) async fn read_spent(tx: &mut Tx, customer: CustomerId) -> Result<Vec<Lot>, StoreError> {
    read(tx, "customer_id = $1 and spent > 0", customer).await
}

async fn read(
    tx: &mut Tx,
    condition: &'static str,
    value: impl Into<crate::sql::SqlValue<'static>>,
) -> Result<Vec<Lot>, StoreError> {
    let text = format!("select {COLUMNS} from lots where {condition}");
    let rows = tx.rows(sqlx::AssertSqlSafe(text), &[value.into()]).await?;
    rows.iter().map(lot).collect()
}

fn lot(row: &SqlRow) -> Result<Lot, StoreError> {
    Ok(Lot {
        id: row.parse("id", "lots")?,
        source: row.parse("source", "lots")?,
        reference: row.optional_text("reference")?,
        granted: row.int("granted")?,
        left: row.int("credits_left")?,
        spent: row.int("spent")?,
        expired: row.int("expired")?,
        taken: row.int("taken")?,
        expires_at: row.optional_time("expires_at")?,
        granted_at: row.time("granted_at")?,
        entries: row.int("entries")?,
    })
}
