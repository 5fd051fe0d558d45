//! Refunds and disputes: what they take back, and return when they are reversed.
//!
//! After each change, everything that was sold is adjusted to the total money of the sale that has
//! gone back (`domain::sales`), never by more than the sale brought. Credits that were already
//! spent become debt.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, OrderId};
use domain::payment::{Mismatch, OrderState, PaymentSource, ReversalKind, ReversalState};
use domain::sales::CreditWithdrawal;
use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::lots::{self, CreditHoldings, EntryLabel, LotSelection};
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
    /// The customer's credit at the processor, in cents: its balance and what waits for the next
    /// invoice.
    pub credit_cents: i64,
    /// The current time.
    pub at: Timestamp,
}

/// What a refund or dispute changed.
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
    /// Whether this turned automatic top-up off.
    pub stops_top_up: bool,
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

/// The money of a sale that has gone back.
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
    let Some(sale) = find(&mut tx, reversal.intent).await? else {
        return unknown(tx, reversal).await;
    };
    let Some(change) = reverse_in(&mut tx, &sale, reversal).await? else {
        return Ok(ReversalEffect::Unchanged);
    };
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
    let Some(sale) = find(&mut tx, reversal.intent).await? else { return Ok(None) };
    reverse_in(&mut tx, &sale, reversal).await
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
    /// The credits that refunds and disputes have taken.
    pub taken: Credits,
    /// When the credits expire.
    pub expires_at: Option<Timestamp>,
}

/// The sale that a payment intent paid.
pub async fn find_sale(store: &Store, intent: &str) -> Result<Option<RefundableSale>, StoreError> {
    const SQL: &str = "
        select s.customer_id, s.amount_cents - s.reversed_cents as left_cents,
               (select o.state from orders o where o.id = s.order_id) as order_state,
               cast(coalesce((select sum(p.taken) from sale_parts p where p.sale_id = s.id), 0) as bigint) as taken,
               (select max(l.expires_at) from sale_parts p join lots l on l.id = p.lot_id
                where p.sale_id = s.id) as expires_at
        from sales s where s.intent_id = $1";
    let row = store.read().await?.row(SQL, &[intent.into()]).await?;
    row.map(|row| {
        Ok(RefundableSale {
            customer: row.parse("customer_id", "sales")?,
            left_cents: row.int("left_cents")?,
            order: row.parse_optional("order_state", "orders")?,
            taken: row.credits("taken")?,
            expires_at: row.optional_time("expires_at")?,
        })
    })
    .transpose()
}

/// Records the reversal of a sale. None if it is known already.
async fn reverse_in(
    tx: &mut Tx,
    sale: &ReversibleSale,
    reversal: &PaymentReversal<'_>,
) -> Result<Option<ReversalChange>, StoreError> {
    let wanted = match sale.source {
        PaymentSource::Intent => of_pack(tx, &sale.id).await?,
        PaymentSource::Invoice => LotSelection::Plans,
    };
    let opened = lots::open(tx, sale.customer, wanted, reversal.entry, reversal.at).await?;
    let holdings = opened.ok_or_else(|| StoreError::corrupt("customer_credits", sale.customer))?;
    if !advance(tx, sale, reversal).await? {
        return Ok(None);
    }
    let sums = sums(tx, &sale.id).await?;
    if let Some(order) = sale.order {
        let is_refunded = sums.refunded_cents >= sale.amount_cents;
        orders::mark_refunded(tx, order, is_refunded).await?;
    }
    let mut change = bring_in_line(tx, holdings, sale, sums.gone_cents, reversal).await?;
    if reversal.state == ReversalState::Standing {
        // Money that was taken back must not be charged again without the customer.
        let reason = Some(reversal.kind.as_str());
        change.stops_top_up =
            top_up_settings::stop_in(tx, sale.customer, reason, reversal.at).await?;
    }
    Ok(Some(change))
}

/// Takes or returns credits according to the total money that has gone back.
async fn bring_in_line(
    tx: &mut Tx,
    mut holdings: CreditHoldings,
    sale: &ReversibleSale,
    gone_cents: i64,
    reversal: &PaymentReversal<'_>,
) -> Result<ReversalChange, StoreError> {
    let scope = match sale.source {
        PaymentSource::Intent => SaleScope::Pack(&sale.id),
        PaymentSource::Invoice => SaleScope::Invoices(sale.customer),
    };
    let lots = std::mem::take(&mut holdings.lots);
    let mut sales = sales::read(tx, scope, lots, reversal.credit_cents, reversal.at).await?;
    let before = sales.all().to_vec();
    sales.reverse(&sale.id, gone_cents);
    sales::save(tx, sale.customer, &before, sales.all()).await?;
    let taken: i64 = sales.lots.movements().iter().map(|movement| -movement.amount).sum();
    let withdrawals = sales.withdrawals().iter().filter(|one| one.cents != 0).cloned().collect();
    let debt = Credits::from_whole(sales.lots.debt());
    holdings.lots = sales.lots;
    let reference = sale.order.map_or_else(|| sale.id.clone(), |order| order.to_string());
    let label =
        EntryLabel { kind: reversal.kind.as_str(), source: None, reference: Some(&reference) };
    holdings.book(tx, label).await?;
    let balance = Credits::from_whole(holdings.available());
    holdings.save(tx).await?;
    let taken = Credits::from_whole(taken);
    Ok(ReversalChange {
        customer: sale.customer,
        taken,
        balance,
        debt,
        stops_top_up: false,
        withdrawals,
        order: sale.order,
    })
}

async fn find(tx: &mut Tx, intent: &str) -> Result<Option<ReversibleSale>, StoreError> {
    const SQL: &str = "
        select id, source, customer_id, order_id, amount_cents from sales where intent_id = $1";
    let Some(row) = tx.row(SQL, &[intent.into()]).await? else { return Ok(None) };
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

/// Records the state. False if it is known, or older than the known one: states only advance,
/// because the processor's events arrive in any order.
async fn advance(
    tx: &mut Tx,
    sale: &ReversibleSale,
    reversal: &PaymentReversal<'_>,
) -> Result<bool, StoreError> {
    const KNOWN: &str = "select state from reversals where id = $1";
    const INSERT: &str = "
        insert into reversals
            (id, kind, payment_id, customer_id, amount_cents, state, created_at, changed_at)
        values ($1, $2, $3, $4, $5, $6, $7, $7)";
    const MOVE: &str = "
        update reversals set state = $2, amount_cents = $3, changed_at = $4 where id = $1";
    let known = tx.row(KNOWN, &[reversal.id.into()]).await?;
    let state = reversal.state.as_str();
    let Some(known) = known else {
        let values = [
            reversal.id.into(),
            reversal.kind.as_str().into(),
            sale.id.as_str().into(),
            sale.customer.into(),
            reversal.amount_cents.into(),
            state.into(),
            reversal.at.into(),
        ];
        tx.execute(INSERT, &values).await?;
        return Ok(true);
    };
    if known.parse::<ReversalState>("state", "reversals")? >= reversal.state {
        return Ok(false);
    }
    let values =
        [reversal.id.into(), state.into(), reversal.amount_cents.into(), reversal.at.into()];
    tx.execute(MOVE, &values).await?;
    Ok(true)
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
