//! Customers' settings for automatic top-up, and why it was turned off.

use domain::credits::Credits;
use domain::id::CustomerId;
use domain::time::Timestamp;
use domain::top_up::{DECLINES_MAX, TopUpWait, TopUpWaitReason, pause_s};

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, dialect};

/// A customer's settings for automatic top-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopUpSettings {
    /// Whether it is on.
    pub enabled: bool,
    /// A charge is made when the available and the held credits together are less than this.
    pub threshold: Credits,
    /// The pack to buy.
    pub pack_id: String,
    /// The maximum total of one UTC day's charges, in cents.
    pub daily_cap_cents: i64,
    /// The number of declined charges since the last successful one.
    pub declines_in_row: i64,
    /// No charge is made before this time.
    pub next_attempt_at: Timestamp,
    /// Why the service turned it off, if it did.
    pub stopped_reason: Option<String>,
    /// Why it bought nothing when it was due last, although the balance was low.
    pub wait: Option<TopUpWait>,
}

/// A customer's request to turn it on.
#[derive(Debug, Clone, Copy)]
pub struct TopUpRequest<'a> {
    /// The customer.
    pub customer: CustomerId,
    /// A charge is made when the available and the held credits together are less than this; more
    /// than zero.
    pub threshold: Credits,
    /// The pack to buy.
    pub pack_id: &'a str,
    /// The maximum total of one UTC day's charges, in cents; more than zero.
    pub daily_cap_cents: i64,
    /// The current time.
    pub at: Timestamp,
}

/// The customer's settings; none if it never turned it on.
pub async fn find(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<TopUpSettings>, StoreError> {
    find_in(&mut store.read().await?, customer, "").await
}

/// Turns it on, or changes it. Resets the count of declines, which still count among the day's
/// failures. False if there is no saved card to charge.
pub async fn turn_on(store: &Store, wish: &TopUpRequest<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into top_up_settings
            (customer_id, enabled, threshold_credits, pack_id, daily_cap_cents, declines_in_row, next_attempt_at,
             stopped_reason, changed_at, waiting_reason, waiting_until)
        select customer_id, 1, $2, $3, $4, 0, $5, null, $5, null, null from cards where customer_id = $1
        on conflict (customer_id) do update set
            enabled = 1, threshold_credits = excluded.threshold_credits, pack_id = excluded.pack_id,
            daily_cap_cents = excluded.daily_cap_cents, declines_in_row = 0,
            next_attempt_at = excluded.next_attempt_at, stopped_reason = null, changed_at = excluded.changed_at,
            waiting_reason = null, waiting_until = null";
    let values = [
        wish.customer.into(),
        wish.threshold.into(),
        wish.pack_id.into(),
        wish.daily_cap_cents.into(),
        wish.at.into(),
    ];
    let mut tx = store.write().await?;
    // The removal of the card waits for this, or this sees that the card is gone.
    lock_card(&mut tx, wish.customer).await?;
    let changed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// Turns it off at the customer's request.
pub async fn turn_off(
    store: &Store,
    customer: CustomerId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    stop_in(&mut tx, customer, None, at).await?;
    tx.commit().await
}

/// The balance below which credits are bought for a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopUpThreshold {
    /// The customer.
    pub customer: CustomerId,
    /// The threshold.
    pub threshold: Credits,
}

/// The thresholds of all customers who have it on.
pub async fn list_thresholds(store: &Store) -> Result<Vec<TopUpThreshold>, StoreError> {
    const SQL: &str = "
        select customer_id, threshold_credits from top_up_settings where enabled = 1";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(TopUpThreshold {
                customer: row.parse("customer_id", "top_up_settings")?,
                threshold: row.credits("threshold_credits")?,
            })
        })
        .collect()
}

/// Customers with a low balance and no open charge, longest waiting first.
pub async fn list_due(
    store: &Store,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<CustomerId>, StoreError> {
    const SQL: &str = "
        select s.customer_id
        from top_up_settings s
        join customer_credits c on c.customer_id = s.customer_id
        where s.enabled = 1 and s.next_attempt_at <= $1 and c.available + c.held < s.threshold_credits
          and not exists (
              select 1 from top_ups t
              where t.customer_id = s.customer_id and t.state in ('claimed', 'requires_action'))
        order by s.next_attempt_at, s.customer_id limit $2";
    let rows = store.read().await?.rows(SQL, &[now.into(), limit.into()]).await?;
    rows.iter().map(|row| row.parse("customer_id", "top_up_settings")).collect()
}

/// Turns it off in the transaction that makes that necessary: the card was removed, or money went
/// back. An open charge is not affected. True if this turned it off, false if it was off.
pub(crate) async fn stop_in(
    tx: &mut Tx,
    customer: CustomerId,
    reason: Option<&str>,
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update top_up_settings
        set enabled = 0, stopped_reason = $2, changed_at = $3, waiting_reason = null, waiting_until = null
        where customer_id = $1 and enabled = 1";
    Ok(tx.execute(SQL, &[customer.into(), reason.into(), at.into()]).await? == 1)
}

/// Counts a declined charge: the next one is delayed, and too many in a row turn it off. True if
/// this turned it off.
pub(crate) async fn count_decline(
    tx: &mut Tx,
    customer: CustomerId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update top_up_settings
        set declines_in_row = $2, next_attempt_at = $3, waiting_reason = $4, waiting_until = $3
        where customer_id = $1";
    let lock = dialect::for_update(tx.database());
    let Some(settings) = find_in(tx, customer, lock).await? else { return Ok(false) };
    let declines = settings.declines_in_row.saturating_add(1);
    let next = at.plus_seconds(pause_s(declines));
    let reason = TopUpWaitReason::Declined.as_str();
    tx.execute(SQL, &[customer.into(), declines.into(), next.into(), reason.into()]).await?;
    if declines < DECLINES_MAX || !settings.enabled {
        return Ok(false);
    }
    stop_in(tx, customer, Some("declined"), at).await?;
    Ok(true)
}

/// Resets the count of declines after a successful charge.
pub(crate) async fn forget_declines(
    tx: &mut Tx,
    customer: CustomerId,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update top_up_settings
        set declines_in_row = 0, next_attempt_at = $2, waiting_reason = null, waiting_until = null
        where customer_id = $1";
    tx.execute(SQL, &[customer.into(), at.into()]).await?;
    Ok(())
}

/// Records why nothing is bought, or that something is. False if that was known.
pub(crate) async fn note_wait_in(
    tx: &mut Tx,
    customer: CustomerId,
    wait: Option<TopUpWait>,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update top_up_settings set waiting_reason = $2, waiting_until = $3
        where customer_id = $1
          and (coalesce(waiting_reason, '') <> coalesce($2, '') or coalesce(waiting_until, 0) <> coalesce($3, 0))";
    let reason = wait.map(|wait| wait.reason.as_str());
    let until = wait.and_then(|wait| wait.until);
    Ok(tx.execute(SQL, &[customer.into(), reason.into(), until.into()]).await? == 1)
}

/// Forgets why nothing was bought where the balance has risen since, in another way.
pub async fn forget_ended_waits(store: &Store) -> Result<u64, StoreError> {
    const SQL: &str = "
        update top_up_settings set waiting_reason = null, waiting_until = null
        where waiting_reason is not null and exists (
            select 1 from customer_credits c
            where c.customer_id = top_up_settings.customer_id
              and c.available + c.held >= top_up_settings.threshold_credits)";
    let mut tx = store.write().await?;
    let forgotten = tx.execute(SQL, &[]).await?;
    if forgotten > 0 {
        tx.commit().await?;
    }
    Ok(forgotten)
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
    lock: &str,
) -> Result<Option<TopUpSettings>, StoreError> {
    let text = format!(
        "select enabled, threshold_credits, pack_id, daily_cap_cents, declines_in_row, next_attempt_at, stopped_reason,
                waiting_reason, waiting_until
         from top_up_settings where customer_id = $1{lock}"
    );
    let row = tx.row(sqlx::AssertSqlSafe(text), &[customer.into()]).await?;
    row.map(|row| {
        Ok(TopUpSettings {
            enabled: row.int("enabled")? != 0,
            threshold: row.credits("threshold_credits")?,
            pack_id: row.text("pack_id")?,
            daily_cap_cents: row.int("daily_cap_cents")?,
            declines_in_row: row.int("declines_in_row")?,
            next_attempt_at: row.time("next_attempt_at")?,
            stopped_reason: row.optional_text("stopped_reason")?,
            wait: wait(&row)?,
        })
    })
    .transpose()
}

fn wait(row: &SqlRow) -> Result<Option<TopUpWait>, StoreError> {
    let Some(text) = row.optional_text("waiting_reason")? else { return Ok(None) };
    // A newer node may know more reasons.
    let until = row.optional_time("waiting_until")?;
    Ok(text.parse().ok().map(|reason| TopUpWait { reason, until }))
}

async fn lock_card(tx: &mut Tx, customer: CustomerId) -> Result<(), StoreError> {
    let text = format!(
        "select customer_id from cards where customer_id = $1{}",
        dialect::for_update(tx.database())
    );
    tx.row(sqlx::AssertSqlSafe(text), &[customer.into()]).await?;
    Ok(())
}
