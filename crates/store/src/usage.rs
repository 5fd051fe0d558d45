//! Usage: what customers have, have spent, and which calls keep failing. Read from the counts that
//! the metering keeps.

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::{CustomerId, KeyId};
use domain::method::Method;
use domain::platform::Platform;
use domain::time::{Timestamp, UtcDay};

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A customer's credits. `granted + debt = available + held + spent + removed`, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditBalance {
    /// Total credits granted.
    pub granted: Credits,
    /// Total credits taken away.
    pub removed: Credits,
    /// Total credits charged.
    pub spent: Credits,
    /// Credits held for open calls and exports.
    pub held: Credits,
    /// Credits that can be spent now.
    pub available: Credits,
    /// Credits taken away after they had been spent.
    pub debt: Credits,
}

/// Charged credits by UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditSpend {
    /// Today.
    pub today: Credits,
    /// Today and the six days before.
    pub last_7_days: Credits,
    /// Today and the 29 days before.
    pub last_30_days: Credits,
}

/// The subject of usage: a customer, or one of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageOf {
    /// The customer.
    pub customer: CustomerId,
    /// One of its keys; none for all.
    pub key: Option<KeyId>,
    /// Count only endpoints of the accounts that the key is limited to, if any. For a key that
    /// reads its own usage.
    pub only_allowed: bool,
}

/// The settled calls that began on one UTC day, and the charged exports created on it:
/// `calls = ok + errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayUsage {
    /// The day.
    pub day: UtcDay,
    /// The number of calls.
    pub calls: i64,
    /// The number of charged exports, which are not calls.
    pub exports: i64,
    /// What calls and exports cost.
    pub credits: Credits,
    /// Charged, with a status below 400.
    pub ok: i64,
    /// All others.
    pub errors: i64,
}

/// The endpoint with the most errors in the last seven days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotFailure {
    /// The account it was called for.
    pub account: CreatorId,
    /// The account's platform.
    pub platform: Platform,
    /// The HTTP method.
    pub method: Method,
    /// The catalogue's name of the endpoint.
    pub route: String,
    /// How often it was called.
    pub calls: i64,
    /// How often it failed.
    pub errors: i64,
    /// The status of the newest call, if the platform responded.
    pub last_status: Option<u16>,
    /// When the newest of these calls began.
    pub last_at: Timestamp,
}

/// A customer's credits; none if there is no such customer.
pub async fn balance(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<CreditBalance>, StoreError> {
    balance_in(&mut store.read().await?, customer).await
}

/// A customer's credits, and what was spent of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditOverview {
    /// The customer's credits.
    pub balance: CreditBalance,
    /// What the customer or one of its keys spent.
    pub spend: CreditSpend,
}

/// A customer's credits, and what it or one of its keys spent until the end of `today`, in one
/// snapshot: a call that ends meanwhile is in both or in neither. None if there is no such
/// customer.
pub async fn overview(
    store: &Store,
    of: UsageOf,
    today: UtcDay,
) -> Result<Option<CreditOverview>, StoreError> {
    let mut tx = store.snapshot().await?;
    let Some(balance) = balance_in(&mut tx, of.customer).await? else { return Ok(None) };
    let spend = spend_in(&mut tx, of, today).await?;
    Ok(Some(CreditOverview { balance, spend }))
}

async fn balance_in(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<Option<CreditBalance>, StoreError> {
    const SQL: &str = "
        select granted, removed, spent, held, available, debt
        from customer_credits where customer_id = $1";
    let row = tx.row(SQL, &[customer.into()]).await?;
    row.map(|row| {
        Ok(CreditBalance {
            granted: row.credits("granted")?,
            removed: row.credits("removed")?,
            spent: row.credits("spent")?,
            held: row.credits("held")?,
            available: row.credits("available")?,
            debt: row.credits("debt")?,
        })
    })
    .transpose()
}

/// What a customer spent until the end of `today`.
pub async fn spend(
    store: &Store,
    customer: CustomerId,
    today: UtcDay,
) -> Result<CreditSpend, StoreError> {
    spend_in(&mut store.read().await?, UsageOf { customer, key: None, only_allowed: false }, today)
        .await
}

async fn spend_in(tx: &mut Tx, of: UsageOf, today: UtcDay) -> Result<CreditSpend, StoreError> {
    const SQL: &str = "
        select cast(coalesce(sum(case when day = $2 then credits else 0 end), 0) as bigint) as today,
               cast(coalesce(sum(case when day > $2 - 7 then credits else 0 end), 0) as bigint) as last_7_days,
               cast(coalesce(sum(credits), 0) as bigint) as last_30_days
        from (
            select day, key_id, credits from usage_by_day
            where customer_id = $1 and day > $2 - 30 and day <= $2
            union all
            select created_at / 86400000000, key_id, cost from export_jobs
            where customer_id = $1 and created_at >= $3 and created_at < $4 and credit_state = 'settled'
        ) as charged
        where cast($5 as text) is null or key_id = $5";
    let (first, next) = (today.plus_days(-29).start(), today.plus_days(1).start());
    let key = of.key.map(|key| key.to_string());
    let customer = of.customer.into();
    let values = [customer, today.into(), first.into(), next.into(), key.as_deref().into()];
    let row = tx.row(SQL, &values).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("usage_by_day", of.customer))?;
    Ok(CreditSpend {
        today: row.credits("today")?,
        last_7_days: row.credits("last_7_days")?,
        last_30_days: row.credits("last_30_days")?,
    })
}

/// The `days` UTC days up to and including `today`, oldest first; days without calls are zero.
pub async fn daily(
    store: &Store,
    of: UsageOf,
    today: UtcDay,
    days: i64,
) -> Result<Vec<DayUsage>, StoreError> {
    const SQL: &str = "
        select day, cast(sum(calls) as bigint) as calls, cast(sum(exports) as bigint) as exports,
               cast(sum(credits) as bigint) as credits, cast(sum(ok) as bigint) as ok, cast(sum(errors) as bigint) as errors
        from (
            select key_id, day, calls, 0 as exports, credits, ok, errors
            from usage_by_day where customer_id = $1 and day >= $3 and day <= $4
            union all
            select key_id, created_at / 86400000000, 0, 1, cost, 0, 0
            from export_jobs
            where customer_id = $1 and created_at >= $5 and created_at < $6 and credit_state = 'settled'
        ) as charged
        where cast($2 as text) is null or key_id = $2
        group by day";
    let first = today.plus_days(1 - days.max(1));
    let key = of.key.map(|key| key.to_string());
    let values = [
        of.customer.into(),
        key.as_deref().into(),
        first.into(),
        today.into(),
        first.start().into(),
        today.plus_days(1).start().into(),
    ];
    let rows = store.read().await?.rows(SQL, &values).await?;
    let counted = rows.iter().map(day_usage).collect::<Result<Vec<DayUsage>, StoreError>>()?;
    Ok((first.number()..=today.number())
        .map(|number| {
            let day = UtcDay::from_number(number);
            counted.iter().find(|usage| usage.day == day).copied().unwrap_or(DayUsage {
                day,
                calls: 0,
                exports: 0,
                credits: Credits::ZERO,
                ok: 0,
                errors: 0,
            })
        })
        .collect())
}

/// The endpoint (method, route and account) with the most errors in the seven days up to `today`,
/// if it was called at least five times and at least 80 % of the calls failed.
pub async fn hot_failure(
    store: &Store,
    of: UsageOf,
    today: UtcDay,
) -> Result<Option<HotFailure>, StoreError> {
    const WORST: &str = "
        select creator_id, platform, method, route, cast(sum(calls) as bigint) as calls,
               cast(sum(errors) as bigint) as errors, max(last_at) as last_at
        from usage_by_route
        where customer_id = $1 and (cast($2 as text) is null or key_id = $2)
          and day > $3 - 7 and day <= $3
          and ($4 = 0 or creator_id in (select creator_id from key_accounts where key_id = $2)
               or not exists (select 1 from key_accounts where key_id = $2))
        group by creator_id, platform, method, route
        having sum(calls) >= 5 and sum(errors) * 10 >= sum(calls) * 8
        order by sum(errors) desc, max(last_at) desc limit 1";
    const LAST_STATUS: &str = "
        select last_status from usage_by_route
        where customer_id = $1 and (cast($2 as text) is null or key_id = $2)
          and day > $3 - 7 and day <= $3
          and creator_id = $4 and platform = $5 and method = $6 and route = $7
        order by last_at desc limit 1";
    let key = of.key.map(|key| key.to_string());
    let only_allowed = i64::from(of.only_allowed);
    let values = [of.customer.into(), key.as_deref().into(), today.into(), only_allowed.into()];
    let mut tx = store.read().await?;
    let Some(row) = tx.row(WORST, &values).await? else {
        return Ok(None);
    };
    let failure = HotFailure {
        account: row.parse("creator_id", "usage_by_route")?,
        platform: row.platform("platform", "usage_by_route")?,
        method: row.parse("method", "usage_by_route")?,
        route: row.text("route")?,
        calls: row.int("calls")?,
        errors: row.int("errors")?,
        last_status: None,
        last_at: row.time("last_at")?,
    };
    let [owner, owner_key, last_day, _] = values;
    let endpoint = [
        owner,
        owner_key,
        last_day,
        (&failure.account).into(),
        failure.platform.stored_name().into(),
        failure.method.as_str().into(),
        failure.route.as_str().into(),
    ];
    let last_status = match tx.row(LAST_STATUS, &endpoint).await? {
        Some(last) => last.status("last_status")?,
        None => None,
    };
    Ok(Some(HotFailure { last_status, ..failure }))
}

fn day_usage(row: &SqlRow) -> Result<DayUsage, StoreError> {
    Ok(DayUsage {
        day: UtcDay::from_number(row.int("day")?),
        calls: row.int("calls")?,
        exports: row.int("exports")?,
        credits: row.credits("credits")?,
        ok: row.int("ok")?,
        errors: row.int("errors")?,
    })
}
