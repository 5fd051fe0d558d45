//! Orders that are missing because the database was restored from an older copy: each is written
//! again as its payment at the processor describes it.

use domain::credits::Credits;
use domain::id::{CustomerId, OrderId};
use domain::payment::OrderChannel;
use domain::time::Timestamp;

use crate::sql::hex;
use crate::tx::Tx;
use crate::{Store, StoreError, processor_customers};

/// An order as its payment describes it.
#[derive(Debug, Clone)]
pub struct LostOrder<'a> {
    /// Its id.
    pub id: OrderId,
    /// The customer who bought.
    pub customer: CustomerId,
    /// How it was paid.
    pub channel: OrderChannel,
    /// The pack's id.
    pub pack_id: &'a str,
    /// The number of packs, from 1.
    pub packs: i64,
    /// The credits of all packs together, more than zero.
    pub credits: Credits,
    /// The price of all packs together, more than zero.
    pub amount_cents: i64,
    /// The price's currency, in lower case.
    pub currency: &'a str,
    /// Whether it was paid with real money.
    pub livemode: bool,
    /// The processor's id of the customer.
    pub processor_customer: &'a str,
    /// The card that paid, unless it was paid on a page.
    pub payment_method: Option<&'a str>,
    /// The checkout session in which it was paid.
    pub session: Option<&'a str>,
    /// SHA-256 of the caller's `Idempotency-Key`.
    pub idempotency_hash: Option<[u8; 32]>,
    /// The daily cap that a top-up was claimed under, in cents.
    pub cap_cents: Option<i64>,
    /// The payment: a payment intent, or a page on which there was nothing to pay.
    pub payment: &'a str,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The current time.
    pub at: Timestamp,
}

/// The outcome of writing a lost order again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderRebuilding {
    /// It is there now, or was there before.
    Rebuilt,
    /// Its customer is unknown, or was erased.
    NoCustomer,
    /// Its payer at the processor is not this customer's.
    OtherPayer,
    /// An operator has settled the payment.
    Settled,
}

/// Writes the order as one that ended unpaid, for its payment to pay. Nothing is granted here. An
/// `Idempotency-Key` that has opened another order since then stays with that one.
pub async fn rebuild(store: &Store, lost: &LostOrder<'_>) -> Result<OrderRebuilding, StoreError> {
    const CUSTOMER: &str = "select 1 from customers where id = $1 and erased_at is null";
    const SETTLED: &str = "
        select 1 from unmatched_payments where object_id = $1 and settled_at is not null limit 1";
    let mut tx = store.write().await?;
    if tx.row(CUSTOMER, &[lost.customer.into()]).await?.is_none() {
        return Ok(OrderRebuilding::NoCustomer);
    }
    let owner = processor_customers::owner_in(&mut tx, lost.processor_customer).await?;
    if owner != Some(lost.customer) {
        return Ok(OrderRebuilding::OtherPayer);
    }
    if tx.row(SETTLED, &[lost.payment.into()]).await?.is_some() {
        return Ok(OrderRebuilding::Settled);
    }
    if insert(&mut tx, lost).await? && lost.channel == OrderChannel::TopUp {
        insert_top_up(&mut tx, lost).await?;
    }
    tx.commit().await?;
    Ok(OrderRebuilding::Rebuilt)
}

/// False if there is an order with this id.
async fn insert(tx: &mut Tx, lost: &LostOrder<'_>) -> Result<bool, StoreError> {
    const USED: &str = "select 1 from orders where customer_id = $1 and idempotency_hash = $2";
    const SQL: &str = "
        insert into orders
            (id, customer_id, channel, pack_id, packs, credits, amount_cents, currency, livemode,
             processor_customer_id, payment_method_id, session_id, idempotency_hash, state, failure, created_at,
             closed_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'expired', 'lost', $14, $15)
        on conflict (id) do nothing";
    let mut hash = lost.idempotency_hash.map(|hash| hex(&hash));
    if tx.row(USED, &[lost.customer.into(), hash.as_deref().into()]).await?.is_some() {
        hash = None;
    }
    let values = [
        lost.id.into(),
        lost.customer.into(),
        lost.channel.as_str().into(),
        lost.pack_id.into(),
        lost.packs.into(),
        lost.credits.into(),
        lost.amount_cents.into(),
        lost.currency.into(),
        i64::from(lost.livemode).into(),
        lost.processor_customer.into(),
        lost.payment_method.into(),
        lost.session.into(),
        hash.as_deref().into(),
        lost.opened_at.into(),
        lost.at.into(),
    ];
    Ok(tx.execute(SQL, &values).await? == 1)
}

/// The charge of a top-up, which counts for its day. Without its cap or its card it is left out.
async fn insert_top_up(tx: &mut Tx, lost: &LostOrder<'_>) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into top_ups
            (order_id, customer_id, day, cents, cap_cents, state, failure, claimed_at, leased_until, closed_at)
        values ($1, $2, $3, $4, $5, 'failed', 'lost', $6, $6, $7)";
    let (Some(cap_cents), Some(_)) = (lost.cap_cents, lost.payment_method) else { return Ok(()) };
    let values = [
        lost.id.into(),
        lost.customer.into(),
        lost.opened_at.day().into(),
        lost.amount_cents.into(),
        cap_cents.into(),
        lost.opened_at.into(),
        lost.at.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}
