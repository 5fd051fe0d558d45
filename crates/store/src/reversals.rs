//! Refunds, disputes and credit notes: what they take back, and return when they are reversed.
//!
//! After each change, everything that was sold is adjusted to the total money of the sale that has
//! gone back (`domain::sales`), never by more than the sale brought. Credits that were already
//! spent become debt. A refund whose credits are kept counts as money that did not go back.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, LotId, OrderId};
use domain::payment::{Mismatch, OrderState, PaymentSource, ReversalKind, ReversalState};
use domain::sales::{CreditWithdrawal, CustomerSales};
use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::lots::{self, CreditHoldings, EntryLabel, LotSelection};
use crate::money_back::{self, ReadNote};
use crate::sales::{self, SaleScope};
use crate::tx::Tx;
use crate::unmatched::{self, UnmatchedMoney};
use crate::{Store, StoreError, orders, top_up_settings};

/// A refund or a dispute, as the processor's object describes it.
#[derive(Debug, Clone, Copy)]
pub struct PaymentReversal<'a> {
    /// The id of the ledger entry, if there will be one.
    pub entry: EntryId,
    /// The processor's id of the refund or the dispute.
    pub id: &'a str,
    /// Whether it is a refund or a dispute.
    pub kind: ReversalKind,
    /// The payment intent it is about.
    pub intent: &'a str,
    /// The amount, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// Its state.
    pub state: ReversalState,
    /// Whether its credits are kept, which only refunds can be marked for.
    pub is_kept: bool,
    /// The credit notes of the payment's invoice.
    pub notes: &'a [ReadNote],
    /// The customer's credit at the processor, in cents: its balance and what waits for the next
    /// invoice.
    pub credit_cents: i64,
    /// When it was read, with the notes; what was read later counts.
    pub read_at: Timestamp,
    /// The current time.
    pub at: Timestamp,
}

/// The credit notes of a sale, as they were read from the processor.
#[derive(Debug, Clone, Copy)]
pub struct SaleNotes<'a> {
    /// The id of the ledger entry, if there will be one.
    pub entry: EntryId,
    /// The invoice, or the payment intent of a pack.
    pub sale: &'a str,
    /// The notes.
    pub notes: &'a [ReadNote],
    /// The customer's credit at the processor, in cents: its balance and what waits for the next
    /// invoice.
    pub credit_cents: i64,
    /// When they were read; what was read later counts.
    pub read_at: Timestamp,
    /// The current time.
    pub at: Timestamp,
}

/// What is recorded of a sale at once.
struct MoneyReading<'a> {
    entry: EntryId,
    reversal: Option<&'a PaymentReversal<'a>>,
    notes: &'a [ReadNote],
    credit_cents: i64,
    read_at: Timestamp,
    at: Timestamp,
}

/// What a refund, a dispute or credit notes changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReversalEffect {
    /// It is recorded.
    Booked(Box<ReversalChange>),
    /// It was already known.
    Unchanged,
    /// It is about a payment that was never recorded.
    Unmatched {
        /// Whether this was not recorded before.
        is_new: bool,
    },
}

/// What was taken or returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReversalChange {
    /// The customer.
    pub customer: CustomerId,
    /// Credits taken (positive) or returned (negative); may be zero.
    pub taken: Credits,
    /// The available credits afterwards.
    pub balance: Credits,
    /// The debt afterwards.
    pub debt: Credits,
    /// Whether a refund or dispute is new, or in another state than before.
    pub is_news: bool,
    /// Whether this turned automatic top-up off.
    pub stops_top_up: bool,
    /// The lots that changed, and by how many credits: negative where they were taken.
    pub lots: Vec<(LotId, i64)>,
    /// Changes to make to the customer's credit at the processor.
    pub withdrawals: Vec<CreditWithdrawal>,
    /// The order that was paid for, if it was a pack.
    pub order: Option<OrderId>,
}

/// The sale whose money goes back.
struct ReversibleSale {
    id: String,
    source: PaymentSource,
    customer: CustomerId,
    order: Option<OrderId>,
    amount_cents: i64,
}

/// The money of a sale that has gone back, whether or not its credits are kept.
#[derive(Default)]
struct ReversedSums {
    /// The total of standing refunds and disputes.
    gone_cents: i64,
    /// The total of standing refunds.
    refunded_cents: i64,
}

/// Records the state of a refund or dispute, and takes or returns the credits that follow from it.
/// The jobs that `follow` creates for the change are enqueued in the same transaction.
pub async fn apply(
    store: &Store,
    reversal: &PaymentReversal<'_>,
    follow: &(dyn Fn(&ReversalChange) -> Vec<NewJob> + Send + Sync),
) -> Result<ReversalEffect, StoreError> {
    let mut tx = store.write().await?;
    let Some(sale) = find(&mut tx, BY_INTENT, reversal.intent).await? else {
        return unknown(tx, reversal).await;
    };
    match reverse_in(&mut tx, &sale, &reversal.reading()).await? {
        Some(change) => booked(tx, change, follow).await,
        None => Ok(ReversalEffect::Unchanged),
    }
}

/// Records credit notes, and takes or returns the credits that follow from them. Unchanged too if
/// the sale is unknown.
pub async fn apply_notes(
    store: &Store,
    read: &SaleNotes<'_>,
    follow: &(dyn Fn(&ReversalChange) -> Vec<NewJob> + Send + Sync),
) -> Result<ReversalEffect, StoreError> {
    let mut tx = store.write().await?;
    let Some(sale) = find(&mut tx, BY_ID, read.sale).await? else {
        return Ok(ReversalEffect::Unchanged);
    };
    match reverse_in(&mut tx, &sale, &read.reading()).await? {
        Some(change) => booked(tx, change, follow).await,
        None => Ok(ReversalEffect::Unchanged),
    }
}

async fn booked(
    mut tx: Tx,
    change: ReversalChange,
    follow: &(dyn Fn(&ReversalChange) -> Vec<NewJob> + Send + Sync),
) -> Result<ReversalEffect, StoreError> {
    jobs::insert_all(&mut tx, &follow(&change)).await?;
    tx.commit().await?;
    Ok(ReversalEffect::Booked(Box::new(change)))
}

/// What recording the reversal would change; none if its payment is unknown, or if nothing would
/// change. Nothing is stored.
pub async fn preview(
    store: &Store,
    reversal: &PaymentReversal<'_>,
) -> Result<Option<ReversalChange>, StoreError> {
    let mut tx = store.write().await?;
    let Some(sale) = find(&mut tx, BY_INTENT, reversal.intent).await? else { return Ok(None) };
    reverse_in(&mut tx, &sale, &reversal.reading()).await
}

impl PaymentReversal<'_> {
    const fn reading(&self) -> MoneyReading<'_> {
        MoneyReading {
            entry: self.entry,
            reversal: Some(self),
            notes: self.notes,
            credit_cents: self.credit_cents,
            read_at: self.read_at,
            at: self.at,
        }
    }
}

impl SaleNotes<'_> {
    const fn reading(&self) -> MoneyReading<'_> {
        MoneyReading {
            entry: self.entry,
            reversal: None,
            notes: self.notes,
            credit_cents: self.credit_cents,
            read_at: self.read_at,
            at: self.at,
        }
    }
}

/// A sale whose money may go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundableSale {
    /// The customer.
    pub customer: CustomerId,
    /// The money that has not gone back.
    pub left_cents: i64,
    /// The state of the order that was paid for, if it was a pack; read together with the money.
    pub order: Option<OrderState>,
    /// The credits that it granted.
    pub granted: Credits,
    /// The credits that refunds and disputes have taken.
    pub taken: Credits,
}

/// The sale that a payment intent paid.
pub async fn find_sale(store: &Store, intent: &str) -> Result<Option<RefundableSale>, StoreError> {
    const SQL: &str = "
        select s.customer_id, s.amount_cents - s.reversed_cents as left_cents,
               (select o.state from orders o where o.id = s.order_id) as order_state,
               cast(coalesce((select sum(p.taken) from sale_parts p where p.sale_id = s.id), 0) as bigint) as taken,
               cast(coalesce((select sum(p.credits) from sale_parts p
                              where p.sale_id = s.id and p.credits > 0), 0) as bigint) as granted
        from sales s where s.intent_id = $1";
    let row = store.read().await?.row(SQL, &[intent.into()]).await?;
    row.map(|row| {
        Ok(RefundableSale {
            customer: row.parse("customer_id", "sales")?,
            left_cents: row.int("left_cents")?,
            order: row.parse_optional("order_state", "orders")?,
            granted: row.credits("granted")?,
            taken: row.credits("taken")?,
        })
    })
    .transpose()
}

/// Records what was read of a sale's money. None if it is known already.
async fn reverse_in(
    tx: &mut Tx,
    sale: &ReversibleSale,
    read: &MoneyReading<'_>,
) -> Result<Option<ReversalChange>, StoreError> {
    let (wanted, scope) = match sale.source {
        PaymentSource::Intent => (of_pack(tx, &sale.id).await?, SaleScope::Pack(&sale.id)),
        PaymentSource::Invoice => (LotSelection::Plans, SaleScope::Invoices(sale.customer)),
    };
    let opened = lots::open(tx, sale.customer, wanted, read.entry, read.at).await?;
    let mut holdings =
        opened.ok_or_else(|| StoreError::corrupt("customer_credits", sale.customer))?;
    let lots = std::mem::take(&mut holdings.lots);
    let sales = sales::read(tx, scope, lots, read.credit_cents, read.at).await?;
    let advance = match read.reversal {
        Some(reversal) => advance(tx, sale, reversal).await?,
        None => Advance::Nothing,
    };
    let of = (sale.id.as_str(), sale.customer);
    let noted = money_back::record(tx, of, read.notes, read.read_at).await?;
    if advance == Advance::Nothing && !noted {
        return Ok(None);
    }
    note_totals(tx, sale).await?;
    let mut change = bring_in_line(tx, (holdings, sales), sale, read).await?;
    change.is_news = advance == Advance::State;
    let stands = |reversal: &&PaymentReversal<'_>| reversal.state == ReversalState::Standing;
    if let Some(reversal) = read.reversal.filter(stands).filter(|_| change.is_news) {
        // Money that was taken back must not be charged again without the customer.
        let reason = Some(reversal.kind.as_str());
        change.stops_top_up = top_up_settings::stop_in(tx, sale.customer, reason, read.at).await?;
    }
    Ok(Some(change))
}

/// Writes how much of the charge has gone back, and whether that refunds an order.
async fn note_totals(tx: &mut Tx, sale: &ReversibleSale) -> Result<(), StoreError> {
    const SQL: &str = "update sales set reversed_cents = $2 where id = $1";
    let sums = sums(tx, &sale.id).await?;
    let reversed = sums.gone_cents.clamp(0, sale.amount_cents.max(0));
    tx.execute(SQL, &[sale.id.as_str().into(), reversed.into()]).await?;
    if let Some(order) = sale.order {
        let is_refunded = sums.refunded_cents >= sale.amount_cents;
        orders::mark_refunded(tx, order, is_refunded).await?;
    }
    Ok(())
}

/// Takes or returns credits according to all the money that has gone back.
async fn bring_in_line(
    tx: &mut Tx,
    (mut holdings, mut sales): (CreditHoldings, CustomerSales),
    sale: &ReversibleSale,
    read: &MoneyReading<'_>,
) -> Result<ReversalChange, StoreError> {
    let before = sales.all().to_vec();
    let mut back = money_back::read(tx, "s.id = $1", &[sale.id.as_str().into()]).await?;
    sales.reverse(&sale.id, back.remove(&sale.id).unwrap_or_default());
    sales::save(tx, sale.customer, &before, sales.all()).await?;
    let lots: Vec<(LotId, i64)> =
        sales.lots.movements().iter().map(|moved| (moved.lot, moved.amount)).collect();
    let taken: i64 = lots.iter().map(|(_, credits)| -credits).sum();
    let withdrawals = sales.withdrawals().iter().filter(|one| one.cents != 0).cloned().collect();
    let debt = Credits::from_whole(sales.lots.debt());
    holdings.lots = sales.lots;
    let reference = sale.order.map_or_else(|| sale.id.clone(), |order| order.to_string());
    let kind = read.reversal.map_or(ReversalKind::Refund, |reversal| reversal.kind);
    let label = EntryLabel { kind: kind.as_str(), source: None, reference: Some(&reference) };
    holdings.book(tx, label).await?;
    let balance = Credits::from_whole(holdings.available());
    holdings.save(tx).await?;
    Ok(ReversalChange {
        customer: sale.customer,
        taken: Credits::from_whole(taken),
        balance,
        debt,
        is_news: false,
        stops_top_up: false,
        lots,
        withdrawals,
        order: sale.order,
    })
}

/// How sales are found.
const BY_INTENT: &str = "
    select id, source, customer_id, order_id, amount_cents from sales where intent_id = $1";
const BY_ID: &str = "
    select id, source, customer_id, order_id, amount_cents from sales where id = $1";

async fn find(
    tx: &mut Tx,
    sql: &'static str,
    named: &str,
) -> Result<Option<ReversibleSale>, StoreError> {
    let Some(row) = tx.row(sql, &[named.into()]).await? else { return Ok(None) };
    Ok(Some(ReversibleSale {
        id: row.text("id")?,
        source: row.parse("source", "sales")?,
        customer: row.parse("customer_id", "sales")?,
        order: row.parse_optional("order_id", "sales")?,
        amount_cents: row.int("amount_cents")?,
    }))
}

/// The lot of a pack.
async fn of_pack(tx: &mut Tx, sale: &str) -> Result<LotSelection, StoreError> {
    const SQL: &str = "select lot_id from sale_parts where sale_id = $1 and lot_id is not null";
    let row = tx.row(SQL, &[sale.into()]).await?;
    row.map_or(Ok(LotSelection::None), |row| {
        row.parse("lot_id", "sale_parts").map(LotSelection::One)
    })
}

async fn unknown(mut tx: Tx, reversal: &PaymentReversal<'_>) -> Result<ReversalEffect, StoreError> {
    let details =
        format!("the {} belongs to {}, which was never recorded", reversal.kind, reversal.intent);
    let unmatched = UnmatchedMoney {
        object: reversal.id,
        reason: Mismatch::UnknownPayment,
        details: &details,
        at: reversal.at,
    };
    let is_new = unmatched::note(&mut tx, &unmatched).await?;
    tx.commit().await?;
    Ok(ReversalEffect::Unmatched { is_new })
}

/// What is new about a refund or dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advance {
    /// Nothing.
    Nothing,
    /// Whether its credits are kept.
    Mark,
    /// Its state.
    State,
}

/// Records the state. Nothing is new if it is known, or older than the known one: states only
/// advance, because the processor's events arrive in any order. Whether credits are kept may change
/// both ways, so that what was read last counts.
async fn advance(
    tx: &mut Tx,
    sale: &ReversibleSale,
    reversal: &PaymentReversal<'_>,
) -> Result<Advance, StoreError> {
    const KNOWN: &str = "select state, kept, changed_at from reversals where id = $1";
    const INSERT: &str = "
        insert into reversals
            (id, kind, payment_id, customer_id, amount_cents, state, kept, created_at, changed_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    const MOVE: &str = "
        update reversals set state = $2, amount_cents = $3, kept = $4, changed_at = $5 where id = $1";
    let known = tx.row(KNOWN, &[reversal.id.into()]).await?;
    let is_kept = i64::from(reversal.is_kept);
    let Some(known) = known else {
        let values = [
            reversal.id.into(),
            reversal.kind.as_str().into(),
            sale.id.as_str().into(),
            sale.customer.into(),
            reversal.amount_cents.into(),
            reversal.state.as_str().into(),
            is_kept.into(),
            reversal.at.into(),
            reversal.read_at.into(),
        ];
        tx.execute(INSERT, &values).await?;
        return Ok(Advance::State);
    };
    let (known_state, known_kept) =
        (known.parse::<ReversalState>("state", "reversals")?, known.int("kept")?);
    let changed_at = known.time("changed_at")?;
    let is_newer = reversal.read_at >= changed_at;
    let state = reversal.state.max(known_state);
    let is_kept = if is_newer { is_kept } else { known_kept };
    if state == known_state && is_kept == known_kept {
        return Ok(Advance::Nothing);
    }
    let values = [
        reversal.id.into(),
        state.as_str().into(),
        reversal.amount_cents.into(),
        is_kept.into(),
        reversal.read_at.max(changed_at).into(),
    ];
    tx.execute(MOVE, &values).await?;
    Ok(if state == known_state { Advance::Mark } else { Advance::State })
}

async fn sums(tx: &mut Tx, sale: &str) -> Result<ReversedSums, StoreError> {
    const SQL: &str = "
        select cast(coalesce(sum(case when state = 'standing' then amount_cents else 0 end), 0) as bigint) as gone_cents,
               cast(coalesce(sum(case when state = 'standing' and kind = 'refund' then amount_cents else 0 end), 0)
                    as bigint) as refunded_cents
        from reversals where payment_id = $1";
    let Some(row) = tx.row(SQL, &[sale.into()]).await? else { return Ok(ReversedSums::default()) };
    Ok(ReversedSums {
        gone_cents: row.int("gone_cents")?,
        refunded_cents: row.int("refunded_cents")?,
    })
}
