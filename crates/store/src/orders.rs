//! Orders: purchases of credit packs. Each is committed before the processor hears of it, and its id is what the
//! processor's repeated requests are known by. Never deleted; what was agreed never changes.

use domain::credits::Credits;
use domain::id::{CustomerId, OrderId};
use domain::payment::{OrderChannel, OrderState};
use domain::time::Timestamp;

use crate::sql::{SqlRow, hex};
use crate::tx::Tx;
use crate::{Store, StoreError, dialect};

/// An order to be opened.
#[derive(Debug, Clone)]
pub struct NewOrder<'a> {
    /// Its id.
    pub id: OrderId,
    /// Who buys.
    pub customer: CustomerId,
    /// How it will be paid.
    pub channel: OrderChannel,
    /// Which pack.
    pub pack_id: &'a str,
    /// How many of it, from 1.
    pub packs: i64,
    /// The credits of all.
    pub credits: Credits,
    /// What all cost.
    pub amount_cents: i64,
    /// The price's currency, in small letters.
    pub currency: &'a str,
    /// Whether real money is meant.
    pub livemode: bool,
    /// Who the customer is at the processor.
    pub processor_customer: &'a str,
    /// The saved card that is charged; none on a hosted page. A repeated request must name the same one.
    pub payment_method: Option<&'a str>,
    /// SHA-256 of the `Idempotency-Key` that the caller chose.
    pub idempotency_hash: Option<[u8; 32]>,
    /// Now.
    pub at: Timestamp,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Who buys.
    pub customer: CustomerId,
    /// How it is paid.
    pub channel: OrderChannel,
    /// Which pack.
    pub pack_id: String,
    /// How many of it, from 1.
    pub packs: i64,
    /// The credits of all.
    pub credits: Credits,
    /// What all cost.
    pub amount_cents: i64,
    /// The price's currency, in small letters.
    pub currency: String,
    /// Whether real money is meant.
    pub livemode: bool,
    /// Who the customer is at the processor.
    pub processor_customer: String,
    /// The saved card that is charged.
    pub payment_method: Option<String>,
    /// Where it stands.
    pub state: OrderState,
    /// The hosted page it is paid on.
    pub session: Option<String>,
    /// The payment intent that pays it, as far as it is known.
    pub payment: Option<String>,
    /// Why it failed, in the processor's word.
    pub failure: Option<String>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was paid, failed or expired.
    pub closed_at: Option<Timestamp>,
}

/// How the opening of an order ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderOpening {
    /// It is open, committed.
    Opened(Order),
    /// The same caller's `Idempotency-Key` opened this order before; nothing was opened.
    Known(Order),
    /// The customer's one-click charge of this pack is under way; nothing was opened.
    UnderWay(Order),
    /// The same, and it was asked for with another `Idempotency-Key`.
    Busy(Order),
    /// A charge of this pack ended while this one was to be opened; nothing was opened.
    JustEnded,
}

/// A page of orders.
#[derive(Debug, Clone, Copy)]
pub struct OrderQuery {
    /// Whose.
    pub customer: CustomerId,
    /// Only orders older than this one of the same customer.
    pub before: Option<OrderId>,
    /// How many at most.
    pub limit: i64,
}

const COLUMNS: &str = "
    id, customer_id, channel, pack_id, credits, amount_cents, currency, livemode, processor_customer_id, state,
    session_id, payment_id, failure, payment_method_id, created_at, closed_at, packs";

/// Opens an order, unless the caller's `Idempotency-Key` or a charge under way stands for one already.
pub async fn open(store: &Store, new: &NewOrder<'_>) -> Result<OrderOpening, StoreError> {
    let mut tx = store.write().await?;
    if insert(&mut tx, new).await? {
        let order = find_in(&mut tx, new.id).await?;
        let order = order.ok_or_else(|| StoreError::corrupt("orders", new.id))?;
        tx.commit().await?;
        return Ok(OrderOpening::Opened(order));
    }
    if let Some(known) = by_idempotency_hash(&mut tx, new).await? {
        return Ok(OrderOpening::Known(known));
    }
    open_charge(&mut tx, new).await
}

/// An order of this customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    id: OrderId,
) -> Result<Option<Order>, StoreError> {
    let found = find_in(&mut store.read().await?, id).await?;
    Ok(found.filter(|order| order.customer == customer))
}

/// An order, whoever's it is: for what the processor says, never for what a customer asks.
pub async fn find_any(store: &Store, id: OrderId) -> Result<Option<Order>, StoreError> {
    find_in(&mut store.read().await?, id).await
}

/// The newest orders, newest first.
pub async fn list(store: &Store, query: &OrderQuery) -> Result<Vec<Order>, StoreError> {
    const WHERE: &str = "
        where customer_id = $1
          and (cast($2 as text) is null
               or (created_at, id) < (select created_at, id from orders where id = $2 and customer_id = $1))
        order by created_at desc, id desc limit $3";
    let before = query.before.map(|id| id.to_string());
    let values = [query.customer.into(), before.as_deref().into(), query.limit.into()];
    let rows = store.read().await?.rows(select(WHERE), &values).await?;
    rows.iter().map(order).collect()
}

/// Everybody's orders that are still pending and were opened before `before`, oldest first, without top-ups: what must
/// be asked about at the processor.
pub async fn list_pending(
    store: &Store,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    const WHERE: &str = "
        where state = 'pending' and created_at < $1 and channel <> 'top_up'
        order by created_at, id limit $2";
    let rows = store.read().await?.rows(select(WHERE), &[before.into(), limit.into()]).await?;
    rows.iter().map(order).collect()
}

/// Remembers the hosted page of a pending order, so that it can be found by it.
pub async fn set_session(store: &Store, id: OrderId, session: &str) -> Result<(), StoreError> {
    const SQL: &str = "
        update orders set session_id = $2 where id = $1 and session_id is null";
    change(store, SQL, id, session).await
}

/// Remembers the payment intent of a pending order. A failed one may be replaced, a paid one never.
pub async fn set_payment(store: &Store, id: OrderId, payment: &str) -> Result<(), StoreError> {
    const SQL: &str = "update orders set payment_id = $2 where id = $1 and state = 'pending'";
    change(store, SQL, id, payment).await
}

/// Closes a pending order without money. False when it was closed before, perhaps by its money. An order of automatic
/// top-up is left alone: it ends with its charge (`top_ups::fail`).
pub async fn close(
    store: &Store,
    id: OrderId,
    (state, failure): (OrderState, Option<&str>),
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update orders set state = $2, failure = $3, closed_at = $4
        where id = $1 and state = 'pending' and channel <> 'top_up'";
    if state.is_paid() || state == OrderState::Pending {
        return Ok(false);
    }
    let mut tx = store.write().await?;
    let values = [id.into(), state.as_str().into(), failure.into(), at.into()];
    let changed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// Writes an order in a transaction that has more to do. False when the caller's `Idempotency-Key` or an open charge
/// stands for one already.
pub(crate) async fn insert(tx: &mut Tx, new: &NewOrder<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into orders
            (id, customer_id, channel, pack_id, credits, amount_cents, currency, livemode, processor_customer_id,
             state, idempotency_hash, created_at, payment_method_id, packs)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'pending', $10, $11, $12, $13)
        on conflict do nothing";
    let hash = new.idempotency_hash.map(|hash| hex(&hash));
    let values = [
        new.id.into(),
        new.customer.into(),
        new.channel.as_str().into(),
        new.pack_id.into(),
        new.credits.into(),
        new.amount_cents.into(),
        new.currency.into(),
        i64::from(new.livemode).into(),
        new.processor_customer.into(),
        hash.as_deref().into(),
        new.at.into(),
        new.payment_method.into(),
        new.packs.into(),
    ];
    Ok(tx.execute(SQL, &values).await? == 1)
}

/// The order, locked.
pub(crate) async fn lock(tx: &mut Tx, id: OrderId) -> Result<Option<Order>, StoreError> {
    let text =
        format!("select {COLUMNS} from orders where id = $1{}", dialect::for_update(tx.database()));
    let row = tx.row(sqlx::AssertSqlSafe(text), &[id.into()]).await?;
    row.as_ref().map(order).transpose()
}

/// Notes that the money of an order arrived.
pub(crate) async fn mark_paid(
    tx: &mut Tx,
    id: OrderId,
    payment: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update orders set state = 'paid', payment_id = $2, failure = null, closed_at = $3 where id = $1";
    tx.execute(SQL, &[id.into(), payment.into(), at.into()]).await?;
    Ok(())
}

/// Notes whether all of a paid order's money was given back.
pub(crate) async fn mark_refunded(
    tx: &mut Tx,
    id: OrderId,
    is_refunded: bool,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update orders set state = $2 where id = $1 and state in ('paid', 'refunded') and state <> $2";
    let state = if is_refunded { OrderState::Refunded } else { OrderState::Paid };
    tx.execute(SQL, &[id.into(), state.as_str().into()]).await?;
    Ok(())
}

async fn find_in(tx: &mut Tx, id: OrderId) -> Result<Option<Order>, StoreError> {
    let row = tx.row(select("where id = $1"), &[id.into()]).await?;
    row.as_ref().map(order).transpose()
}

async fn by_idempotency_hash(tx: &mut Tx, new: &NewOrder<'_>) -> Result<Option<Order>, StoreError> {
    const WHERE: &str = "where customer_id = $1 and idempotency_hash = $2";
    let hash = new.idempotency_hash.map(|hash| hex(&hash));
    let values = [new.customer.into(), hash.as_deref().into()];
    let row = tx.row(select(WHERE), &values).await?;
    row.as_ref().map(order).transpose()
}

/// What stands in the way of a charge: the open one of the same pack.
async fn open_charge(tx: &mut Tx, new: &NewOrder<'_>) -> Result<OrderOpening, StoreError> {
    const WHERE: &str = "
        where customer_id = $1 and pack_id = $2 and channel = 'charge' and state = 'pending'";
    const OTHER_KEY: &str = "
        select 1 from orders where id = $1 and idempotency_hash is not null and idempotency_hash <> $2";
    let row = tx.row(select(WHERE), &[new.customer.into(), new.pack_id.into()]).await?;
    // It may have ended between the two statements.
    let Some(row) = row else { return Ok(OrderOpening::JustEnded) };
    let open = order(&row)?;
    let hash = new.idempotency_hash.map(|hash| hex(&hash));
    if tx.row(OTHER_KEY, &[open.id.into(), hash.as_deref().into()]).await?.is_some() {
        return Ok(OrderOpening::Busy(open));
    }
    Ok(OrderOpening::UnderWay(open))
}

async fn change(
    store: &Store,
    sql: &'static str,
    id: OrderId,
    object: &str,
) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    tx.execute(sql, &[id.into(), object.into()]).await?;
    tx.commit().await
}

fn select(tail: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("select {COLUMNS} from orders {tail}"))
}

fn order(row: &SqlRow) -> Result<Order, StoreError> {
    Ok(Order {
        id: row.parse(0, "orders")?,
        customer: row.parse(1, "orders")?,
        channel: row.parse(2, "orders")?,
        pack_id: row.text(3)?,
        credits: row.credits(4)?,
        amount_cents: row.int(5)?,
        currency: row.text(6)?,
        livemode: row.int(7)? != 0,
        processor_customer: row.text(8)?,
        state: row.parse(9, "orders")?,
        session: row.optional_text(10)?,
        payment: row.optional_text(11)?,
        failure: row.optional_text(12)?,
        payment_method: row.optional_text(13)?,
        created_at: row.time(14)?,
        closed_at: row.optional_time(15)?,
        packs: row.int(16)?,
    })
}
