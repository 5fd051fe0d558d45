//! Orders: purchases of credit packs. Each is committed before the processor hears of it, and its
//! id identifies repeated requests to the processor. Orders are never deleted; what was agreed
//! never changes.

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
    /// The customer who buys.
    pub customer: CustomerId,
    /// How it will be paid.
    pub channel: OrderChannel,
    /// The pack's id.
    pub pack_id: &'a str,
    /// The number of packs, from 1.
    pub packs: i64,
    /// The credits of all packs together.
    pub credits: Credits,
    /// The price of all packs together.
    pub amount_cents: i64,
    /// The price's currency, in lower case.
    pub currency: &'a str,
    /// Whether it is paid with real money.
    pub livemode: bool,
    /// The processor's id of the customer.
    pub processor_customer: &'a str,
    /// The saved card to charge; none for a hosted page. A repeated request must use the same card.
    pub payment_method: Option<&'a str>,
    /// SHA-256 of the caller's `Idempotency-Key`.
    pub idempotency_hash: Option<[u8; 32]>,
    /// The current time.
    pub at: Timestamp,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// The customer who buys.
    pub customer: CustomerId,
    /// How it is paid.
    pub channel: OrderChannel,
    /// The pack's id.
    pub pack_id: String,
    /// The number of packs, from 1.
    pub packs: i64,
    /// The credits of all packs together.
    pub credits: Credits,
    /// The price of all packs together.
    pub amount_cents: i64,
    /// The price's currency, in lower case.
    pub currency: String,
    /// Whether it is paid with real money.
    pub livemode: bool,
    /// The processor's id of the customer.
    pub processor_customer: String,
    /// The saved card that is charged.
    pub payment_method: Option<String>,
    /// SHA-256 of the caller's `Idempotency-Key`, in hexadecimal digits.
    pub request_hash: Option<String>,
    /// Its state.
    pub state: OrderState,
    /// The checkout session in which it is paid.
    pub session: Option<String>,
    /// The payment intent that pays it, if known.
    pub payment: Option<String>,
    /// The processor's code for why it failed.
    pub failure: Option<String>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was paid, failed or expired.
    pub closed_at: Option<Timestamp>,
}

/// The outcome of opening an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderOpening {
    /// It is opened and committed.
    Opened(Order),
    /// The caller's `Idempotency-Key` opened this order before; nothing was opened.
    Known(Order),
    /// A one-click charge of this pack is in progress for the customer; nothing was opened.
    UnderWay(Order),
    /// Like `UnderWay`, with another `Idempotency-Key`.
    Busy(Order),
    /// A concurrent charge of this pack has just ended; nothing was opened.
    JustEnded,
}

/// A page of orders.
#[derive(Debug, Clone, Copy)]
pub struct OrderQuery {
    /// The customer whose orders to list.
    pub customer: CustomerId,
    /// Only orders older than this one of the same customer.
    pub before: Option<OrderId>,
    /// The page size.
    pub limit: i64,
}

const COLUMNS: &str = "
    id, customer_id, channel, pack_id, credits, amount_cents, currency, livemode, processor_customer_id, state,
    session_id, payment_id, failure, payment_method_id, created_at, closed_at, packs, idempotency_hash";

/// Opens an order, unless the caller's `Idempotency-Key` or a charge in progress already stands for
/// one.
pub async fn open(store: &Store, new: &NewOrder<'_>) -> Result<OrderOpening, StoreError> {
    let mut tx = store.write().await?;
    if insert(&mut tx, new).await? {
        let order = find_in(&mut tx, new.id).await?;
        let order = order.ok_or_else(|| StoreError::corrupt("orders", new.id))?;
        tx.commit().await?;
        return Ok(OrderOpening::Opened(order));
    }
    let hash = new.idempotency_hash.as_ref();
    if let Some(known) = by_request(&mut tx, new.customer, hash).await? {
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

/// An order of any customer: for what the processor reports, never for a customer's request.
pub async fn find_any(store: &Store, id: OrderId) -> Result<Option<Order>, StoreError> {
    find_in(&mut store.read().await?, id).await
}

/// The order that this `Idempotency-Key` of the customer opened; `hash` is its SHA-256.
pub async fn find_by_request(
    store: &Store,
    customer: CustomerId,
    hash: &[u8; 32],
) -> Result<Option<Order>, StoreError> {
    by_request(&mut store.read().await?, customer, Some(hash)).await
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

/// Pending orders of all customers opened before `before`, oldest first, without top-ups: those to
/// look up at the processor.
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

/// Stores the checkout session of a pending order, so that the order can be found by it.
pub async fn set_session(store: &Store, id: OrderId, session: &str) -> Result<(), StoreError> {
    const SQL: &str = "
        update orders set session_id = $2 where id = $1 and session_id is null";
    change(store, SQL, id, session).await
}

/// Stores the payment intent of a pending order. A failed one may be replaced, a paid one never.
pub async fn set_payment(store: &Store, id: OrderId, payment: &str) -> Result<(), StoreError> {
    const SQL: &str = "update orders set payment_id = $2 where id = $1 and state = 'pending'";
    change(store, SQL, id, payment).await
}

/// Closes a pending order without a payment. False if it was already closed, perhaps by its
/// payment. Skips orders of automatic top-up, which end with their charge (`top_ups::fail`).
pub async fn close(
    store: &Store,
    id: OrderId,
    state: OrderState,
    failure: Option<&str>,
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

/// Inserts an order within a transaction. False if the caller's `Idempotency-Key` or an open charge
/// already stands for one.
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

/// Records that an order was paid.
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

/// Records whether a paid order was refunded in full.
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

async fn by_request(
    tx: &mut Tx,
    customer: CustomerId,
    hash: Option<&[u8; 32]>,
) -> Result<Option<Order>, StoreError> {
    const WHERE: &str = "where customer_id = $1 and idempotency_hash = $2";
    let hash = hash.map(|hash| hex(hash));
    let values = [customer.into(), hash.as_deref().into()];
    let row = tx.row(select(WHERE), &values).await?;
    row.as_ref().map(order).transpose()
}

/// The open charge of the same pack that prevents another one.
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
        id: row.parse("id", "orders")?,
        customer: row.parse("customer_id", "orders")?,
        channel: row.parse("channel", "orders")?,
        pack_id: row.text("pack_id")?,
        credits: row.credits("credits")?,
        amount_cents: row.int("amount_cents")?,
        currency: row.text("currency")?,
        livemode: row.int("livemode")? != 0,
        processor_customer: row.text("processor_customer_id")?,
        state: row.parse("state", "orders")?,
        session: row.optional_text("session_id")?,
        payment: row.optional_text("payment_id")?,
        failure: row.optional_text("failure")?,
        payment_method: row.optional_text("payment_method_id")?,
        request_hash: row.optional_text("idempotency_hash")?,
        created_at: row.time("created_at")?,
        closed_at: row.optional_time("closed_at")?,
        packs: row.int("packs")?,
    })
}
