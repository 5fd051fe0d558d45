//! The charges of automatic top-up.
//!
//! A charge is claimed in one transaction that locks the customer's balance. So no other claim is
//! made meanwhile, and what was counted (the day's cents, the failures of 24 hours, whether one is
//! open) still holds when the order and the charge are written. Its end is written with the end of
//! its order. Nothing here calls the processor.

use domain::credits::Credits;
use domain::id::{CustomerId, OrderId};
use domain::payment::OrderChannel;
use domain::time::{Timestamp, UtcDay};
use domain::top_up::{FAILURES_PER_DAY_MAX, TopUpState, packs};

use crate::orders::NewOrder;
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{
    Store, StoreError, balance, dialect, jobs, orders, processor_customers, top_up_settings,
    top_up_waits,
};

pub(crate) const DAY_S: i64 = 86_400;

/// A pack as currently sold.
#[derive(Debug, Clone, Copy)]
pub struct TopUpOffer<'a> {
    /// Its id.
    pub pack_id: &'a str,
    /// Its credits.
    pub credits: Credits,
    /// Its price.
    pub price_cents: i64,
}

/// A charge to be claimed.
#[derive(Debug, Clone, Copy)]
pub struct TopUpClaim<'a> {
    /// The customer whose balance may be low.
    pub customer: CustomerId,
    /// The id for the order, if there will be one.
    pub order: OrderId,
    /// The packs on sale.
    pub offers: &'a [TopUpOffer<'a>],
    /// The currency of all prices.
    pub currency: &'a str,
    /// Whether it is paid with real money.
    pub livemode: bool,
    /// The current time.
    pub at: Timestamp,
    /// When the claim expires.
    pub leased_until: Timestamp,
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopUpClaiming {
    /// It is claimed and committed: charge it.
    Claimed(Box<TopUp>),
    /// There is nothing to charge.
    Hindered(SkipReason),
}

/// Why there is nothing to charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// It is off or was never turned on, or the customer is closed.
    Off,
    /// The last charge failed recently.
    TooEarly,
    /// The balance is high enough.
    Enough,
    /// Another charge is open.
    Open,
    /// Too many charges failed within 24 hours.
    TooManyFailures,
    /// The pack is no longer sold.
    NoPack,
    /// The daily cap does not allow another pack.
    Capped,
    /// There is no saved card.
    NoCard,
}

/// An automatic charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopUp {
    /// Its order, which identifies repeated requests to the processor.
    pub order: OrderId,
    /// The customer.
    pub customer: CustomerId,
    /// The processor's id of the customer.
    pub processor_customer: String,
    /// The saved card to charge.
    pub payment_method: String,
    /// The price.
    pub cents: i64,
    /// The daily cap that it was claimed under, in cents.
    pub cap_cents: i64,
    /// The price's currency.
    pub currency: String,
    /// The pack.
    pub pack_id: String,
    /// Its state.
    pub state: TopUpState,
    /// The payment intent, if known.
    pub intent: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When its claim expires.
    pub leased_until: Timestamp,
}

/// How a charge failed.
#[derive(Debug, Clone, Copy)]
pub struct TopUpFailure<'a> {
    /// The processor's code.
    pub reason: &'a str,
    /// Whether the card was declined, which delays the next charge.
    pub is_decline: bool,
    /// The email to send if this turns automatic top-up off.
    pub letter: Option<&'a jobs::NewJob>,
    /// The current time.
    pub at: Timestamp,
}

/// The outcome of a failed charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopUpFailureOutcome {
    /// It had already ended.
    Ended,
    /// It failed; the next attempt is due at the time in the settings.
    Later,
    /// It failed, and automatic top-up is off.
    TurnedOff,
}

const COLUMNS: &str = "
    t.order_id, t.customer_id, o.processor_customer_id, o.payment_method_id, t.cents, t.cap_cents, o.currency,
    o.pack_id, t.state,
    coalesce(t.intent_id, o.payment_id) as intent_id, t.failure, t.claimed_at, t.leased_until";

/// Claims a charge for a customer whose balance is low, unless there is a reason to skip it.
pub async fn claim(store: &Store, claim: &TopUpClaim<'_>) -> Result<TopUpClaiming, StoreError> {
    let mut tx = store.write().await?;
    match claim_in(&mut tx, claim, store.holder()).await? {
        Ok(()) => {}
        Err(skip_reason) => {
            let wait = top_up_waits::of_skipped(&mut tx, claim, skip_reason).await?;
            if top_up_settings::note_wait_in(&mut tx, claim.customer, wait).await? {
                tx.commit().await?;
            }
            return Ok(TopUpClaiming::Hindered(skip_reason));
        }
    }
    top_up_settings::note_wait_in(&mut tx, claim.customer, None).await?;
    let claimed = find_in(&mut tx, claim.order).await?;
    let claimed = claimed.ok_or_else(|| StoreError::corrupt("top_ups", claim.order))?;
    tx.commit().await?;
    Ok(TopUpClaiming::Claimed(Box::new(claimed)))
}

/// Charges that no node has, whose outcome is to be looked up.
pub async fn list_left(
    store: &Store,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<TopUp>, StoreError> {
    const WHERE: &str = "
        where t.state = 'claimed' and t.leased_by is null and t.leased_until <= $1 order by t.leased_until limit $2";
    let rows = store.read().await?.rows(select(WHERE), &[now.into(), limit.into()]).await?;
    rows.iter().map(top_up).collect()
}

/// Charges that wait for the customer and were claimed before `claimed_before`.
pub async fn list_waiting(
    store: &Store,
    claimed_before: Timestamp,
    limit: i64,
) -> Result<Vec<TopUp>, StoreError> {
    const WHERE: &str = "
        where t.state = 'requires_action' and t.claimed_at < $1 order by t.claimed_at limit $2";
    let values = [claimed_before.into(), limit.into()];
    let rows = store.read().await?.rows(select(WHERE), &values).await?;
    rows.iter().map(top_up).collect()
}

/// Takes over a charge that no node has. False if another node did so first, or it has ended.
pub async fn take_over(
    store: &Store,
    left: &TopUp,
    leased_until: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update top_ups set leased_until = $3, leased_by = $4
        where order_id = $1 and state = 'claimed' and leased_by is null and leased_until = $2";
    let values =
        [left.order.into(), left.leased_until.into(), leased_until.into(), store.holder().into()];
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// Ends this process's work on a charge, if its outcome is still unknown: it is looked up again
/// when the time of its lease is over.
pub async fn release(store: &Store, order: OrderId) -> Result<(), StoreError> {
    const SQL: &str = "
        update top_ups set leased_by = null
        where order_id = $1 and state = 'claimed' and leased_by = $2";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[order.into(), store.holder().into()]).await?;
    tx.commit().await
}

/// The customer's open charge.
pub async fn find_open(store: &Store, customer: CustomerId) -> Result<Option<TopUp>, StoreError> {
    const WHERE: &str = "
        where t.customer_id = $1 and t.state in ('claimed', 'requires_action')";
    let row = store.read().await?.row(select(WHERE), &[customer.into()]).await?;
    row.as_ref().map(top_up).transpose()
}

/// The charge of this order.
pub async fn find(store: &Store, order: OrderId) -> Result<Option<TopUp>, StoreError> {
    find_in(&mut store.read().await?, order).await
}

/// The cents that the charges of this day have taken or may still take.
pub async fn spent_on(store: &Store, customer: CustomerId, day: UtcDay) -> Result<i64, StoreError> {
    spent_in(&mut store.read().await?, customer, day).await
}

/// Stores the payment intent of an open charge and of its order.
pub async fn note_intent(store: &Store, order: OrderId, intent: &str) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    note_intent_in(&mut tx, order, intent).await?;
    tx.commit().await
}

/// Records that the bank requires the customer's authentication. Until then no other charge is
/// made. Enqueues the email; false, without an email, if this was known or the charge has ended.
pub async fn wait_for_customer(
    store: &Store,
    order: OrderId,
    intent: &str,
    letter: &jobs::NewJob,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update top_ups set state = 'requires_action', intent_id = $2
        where order_id = $1 and state = 'claimed'";
    let mut tx = store.write().await?;
    note_intent_in(&mut tx, order, intent).await?;
    if tx.execute(SQL, &[order.into(), intent.into()]).await? == 0 {
        return Ok(false);
    }
    jobs::insert(&mut tx, letter).await?;
    tx.commit().await?;
    Ok(true)
}

/// Ends a failed charge together with its order.
pub async fn fail(
    store: &Store,
    order: OrderId,
    failure: &TopUpFailure<'_>,
) -> Result<TopUpFailureOutcome, StoreError> {
    const ORDER: &str = "
        update orders set state = 'failed', failure = $2, closed_at = $3
        where id = $1 and state = 'pending'";
    const TOP_UP: &str = "
        update top_ups set state = 'failed', failure = $2, closed_at = $3
        where order_id = $1 and state in ('claimed', 'requires_action') returning customer_id";
    let values = [order.into(), failure.reason.into(), failure.at.into()];
    let mut tx = store.write().await?;
    // The order first: granting credits also locks it before the charge.
    if tx.execute(ORDER, &values).await? == 0 {
        return Ok(TopUpFailureOutcome::Ended);
    }
    let Some(row) = tx.row(TOP_UP, &values).await? else { return Ok(TopUpFailureOutcome::Ended) };
    let customer: CustomerId = row.parse("customer_id", "top_ups")?;
    let is_off =
        failure.is_decline && top_up_settings::count_decline(&mut tx, customer, failure.at).await?;
    if let (true, Some(letter)) = (is_off, failure.letter) {
        jobs::insert(&mut tx, letter).await?;
    }
    tx.commit().await?;
    Ok(if is_off { TopUpFailureOutcome::TurnedOff } else { TopUpFailureOutcome::Later })
}

/// Ends a charge in the transaction that marks its order as paid. Does nothing for other orders.
pub(crate) async fn succeed_in(
    tx: &mut Tx,
    order: OrderId,
    intent: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    const TOP_UP: &str = "
        update top_ups set state = 'succeeded', intent_id = $2, failure = null, closed_at = $3
        where order_id = $1 returning customer_id";
    let values = [order.into(), intent.into(), at.into()];
    let Some(row) = tx.row(TOP_UP, &values).await? else { return Ok(()) };
    top_up_settings::forget_declines(tx, row.parse("customer_id", "top_ups")?, at).await
}

async fn claim_in(
    tx: &mut Tx,
    claim: &TopUpClaim<'_>,
    holder: &str,
) -> Result<Result<(), SkipReason>, StoreError> {
    // Blocks other claims for this customer until the transaction ends.
    let balances = balance::lock(tx, std::iter::once(claim.customer)).await?;
    let Some((_, balance)) = balances.current().next() else { return Ok(Err(SkipReason::Off)) };
    let lock = dialect::for_update(tx.database());
    let settings =
        top_up_settings::find_in(tx, claim.customer, lock).await?.filter(|found| found.enabled);
    let Some(settings) = settings else { return Ok(Err(SkipReason::Off)) };
    if settings.next_attempt_at > claim.at {
        return Ok(Err(SkipReason::TooEarly));
    }
    // What is held may come back.
    let own = balance.available + balance.held - balance.debt;
    let missing = settings.threshold.whole() - own;
    if missing <= 0 {
        return Ok(Err(SkipReason::Enough));
    }
    if let Some(skip_reason) = skip_reason(tx, claim).await? {
        return Ok(Err(skip_reason));
    }
    let offer = claim.offers.iter().find(|offer| offer.pack_id == settings.pack_id);
    let Some(offer) = offer else { return Ok(Err(SkipReason::NoPack)) };
    let spent = spent_in(tx, claim.customer, claim.at.day()).await?;
    let cents = settings.daily_cap_cents - spent;
    let packs = packs(missing, offer.credits.whole(), offer.price_cents, cents);
    if packs < 1 {
        return Ok(Err(SkipReason::Capped));
    }
    let card = card(tx, claim.customer).await?;
    let payer = processor_customers::find_in(tx, claim.customer).await?;
    let (Some(card), Some(payer)) = (card, payer) else { return Ok(Err(SkipReason::NoCard)) };
    let cap_cents = settings.daily_cap_cents;
    write(
        tx,
        claim,
        holder,
        &TopUpPurchase { offer, packs, card: &card, payer: &payer, cap_cents },
    )
    .await?;
    Ok(Ok(()))
}

/// What a charge will buy, and how.
struct TopUpPurchase<'a> {
    offer: &'a TopUpOffer<'a>,
    packs: i64,
    card: &'a str,
    payer: &'a str,
    cap_cents: i64,
}

async fn write(
    tx: &mut Tx,
    claim: &TopUpClaim<'_>,
    holder: &str,
    drawn: &TopUpPurchase<'_>,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into top_ups
            (order_id, customer_id, day, cents, cap_cents, state, claimed_at, leased_until, leased_by)
        values ($1, $2, $3, $4, $5, 'claimed', $6, $7, $8)";
    let amount_cents = drawn.offer.price_cents.saturating_mul(drawn.packs);
    let order = NewOrder {
        id: claim.order,
        customer: claim.customer,
        channel: OrderChannel::TopUp,
        pack_id: drawn.offer.pack_id,
        packs: drawn.packs,
        credits: Credits::from_whole(drawn.offer.credits.whole().saturating_mul(drawn.packs)),
        amount_cents,
        currency: claim.currency,
        livemode: claim.livemode,
        processor_customer: drawn.payer,
        payment_method: Some(drawn.card),
        idempotency_hash: None,
        at: claim.at,
    };
    if !orders::insert(tx, &order).await? {
        return Err(StoreError::corrupt("orders", claim.order));
    }
    let values = [
        claim.order.into(),
        claim.customer.into(),
        claim.at.day().into(),
        amount_cents.into(),
        drawn.cap_cents.into(),
        claim.at.into(),
        claim.leased_until.into(),
        holder.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

/// The reason to skip any charge of this customer, whatever its price.
async fn skip_reason(
    tx: &mut Tx,
    claim: &TopUpClaim<'_>,
) -> Result<Option<SkipReason>, StoreError> {
    const SQL: &str = "
        select
            (select count(*) from customers where id = $1 and disabled_at is not null) as closed,
            (select count(*) from top_ups
             where customer_id = $1 and state in ('claimed', 'requires_action')) as open,
            (select count(*) from top_ups
             where customer_id = $1 and state = 'failed' and claimed_at > $2) as failed";
    let since = claim.at.plus_seconds(-DAY_S);
    let Some(row) = tx.row(SQL, &[claim.customer.into(), since.into()]).await? else {
        return Ok(None);
    };
    let (closed, open, failed) = (row.int("closed")?, row.int("open")?, row.int("failed")?);
    Ok(match () {
        () if closed > 0 => Some(SkipReason::Off),
        () if open > 0 => Some(SkipReason::Open),
        () if failed >= FAILURES_PER_DAY_MAX => Some(SkipReason::TooManyFailures),
        () => None,
    })
}

async fn note_intent_in(tx: &mut Tx, order: OrderId, intent: &str) -> Result<(), StoreError> {
    const ORDER: &str = "update orders set payment_id = $2 where id = $1 and state = 'pending'";
    const TOP_UP: &str = "
        update top_ups set intent_id = $2
        where order_id = $1 and state in ('claimed', 'requires_action')";
    tx.execute(ORDER, &[order.into(), intent.into()]).await?;
    tx.execute(TOP_UP, &[order.into(), intent.into()]).await?;
    Ok(())
}

async fn spent_in(tx: &mut Tx, customer: CustomerId, day: UtcDay) -> Result<i64, StoreError> {
    const SQL: &str = "
        select cast(coalesce(sum(cents), 0) as bigint) as spent_cents from top_ups
        where customer_id = $1 and day = $2 and state <> 'failed'";
    let row = tx.row(SQL, &[customer.into(), day.into()]).await?;
    row.map_or(Ok(0), |row| row.int("spent_cents"))
}

async fn card(tx: &mut Tx, customer: CustomerId) -> Result<Option<String>, StoreError> {
    const SQL: &str = "select payment_method_id from cards where customer_id = $1";
    tx.row(SQL, &[customer.into()]).await?.map(|row| row.text("payment_method_id")).transpose()
}

async fn find_in(tx: &mut Tx, order: OrderId) -> Result<Option<TopUp>, StoreError> {
    let row = tx.row(select("where t.order_id = $1"), &[order.into()]).await?;
    row.as_ref().map(top_up).transpose()
}

fn select(tail: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!(
        "select {COLUMNS} from top_ups t join orders o on o.id = t.order_id {tail}"
    ))
}

fn top_up(row: &SqlRow) -> Result<TopUp, StoreError> {
    Ok(TopUp {
        order: row.parse("order_id", "top_ups")?,
        customer: row.parse("customer_id", "top_ups")?,
        processor_customer: row.text("processor_customer_id")?,
        payment_method: row.text("payment_method_id")?,
        cents: row.int("cents")?,
        cap_cents: row.int("cap_cents")?,
        currency: row.text("currency")?,
        pack_id: row.text("pack_id")?,
        state: row.parse("state", "top_ups")?,
        intent: row.optional_text("intent_id")?,
        failure: row.optional_text("failure")?,
        claimed_at: row.time("claimed_at")?,
        leased_until: row.time("leased_until")?,
    })
}
