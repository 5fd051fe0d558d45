//! Spending by what it was for: the ended calls and the charged exports of some days, grouped. The
//! sums are those of the ledger for the same days.

use domain::breakdown::{BreakdownBy, BreakdownCursor};
use domain::credits::Credits;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::UtcDay;
use sqlx::AssertSqlSafe;

use crate::sql::{SqlRow, SqlValue};
use crate::usage::UsageOf;
use crate::{Store, StoreError};

/// Which spending to show.
#[derive(Debug, Clone)]
pub struct BreakdownQuery {
    /// Whose.
    pub of: UsageOf,
    /// What it is grouped by.
    pub by: BreakdownBy,
    /// The first day.
    pub first: UtcDay,
    /// The last day.
    pub last: UtcDay,
    /// The entry after which the page begins.
    pub after: Option<BreakdownCursor>,
    /// The number of entries.
    pub limit: i64,
}

/// Counts of calls and exports, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpendCounts {
    /// Ended calls: `calls = ok + errors`.
    pub calls: i64,
    /// Charged exports.
    pub exports: i64,
    /// What both cost.
    pub credits: Credits,
    /// Calls that were charged and have a status below 400.
    pub ok: i64,
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakdownEntry {
    /// The account, the key, the route or the tag; empty for what has no tag.
    pub name: String,
    /// The platform of a route.
    pub platform: Option<Platform>,
    /// The method of a route.
    pub method: Option<Method>,
    /// Its counts.
    pub counts: SpendCounts,
}

/// Some entries, and the counts of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendBreakdown {
    /// The entries, those that cost the most first.
    pub entries: Vec<BreakdownEntry>,
    /// The counts of all entries, of every page.
    pub total: SpendCounts,
}

impl BreakdownEntry {
    /// Its place among the entries.
    pub fn cursor(&self) -> BreakdownCursor {
        BreakdownCursor {
            credits: self.counts.credits.whole(),
            platform: self.platform.map_or("", Platform::stored_name).to_owned(),
            method: self.method.map_or("", Method::as_str).to_owned(),
            name: self.name.clone(),
        }
    }
}

/// Reads spending, grouped. One statement, so that entries and total are of one snapshot.
pub async fn read(store: &Store, query: &BreakdownQuery) -> Result<SpendBreakdown, StoreError> {
    let key = query.of.key.map(|key| key.to_string());
    let (sql, values) = (sql(query.by), values(query, key.as_deref()));
    let rows = store.read().await?.rows(AssertSqlSafe(sql), &values).await?;
    let Some((total, page)) = rows.split_first() else {
        return Err(StoreError::corrupt("calls", query.of.customer));
    };
    let entries = page.iter().map(entry).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(SpendBreakdown { entries, total: counts(total)? })
}

/// The columns `name`, `platform` and `method` of calls, of totals and of exports.
const fn columns_of(by: BreakdownBy) -> [&'static str; 3] {
    match by {
        BreakdownBy::Account => ["creator_id as name, '' as platform, '' as method"; 3],
        BreakdownBy::Key => ["key_id as name, '' as platform, '' as method"; 3],
        BreakdownBy::Route => [
            "route as name, platform, method",
            "route as name, platform, method",
            "'export ' || dataset as name, platform, 'POST' as method",
        ],
        BreakdownBy::Tag => [
            "coalesce(tag, '') as name, '' as platform, '' as method",
            "tag as name, '' as platform, '' as method",
            "coalesce(tag, '') as name, '' as platform, '' as method",
        ],
    }
}

/// The condition that limits rows to a key, and to the accounts that it may use.
const SCOPE: &str = "
    (cast($2 as text) is null or key_id = $2)
    and ($7 = 0 or creator_id in (select creator_id from key_accounts where key_id = $2)
         or not exists (select 1 from key_accounts where key_id = $2))";

const SPENT: &str = "
    select {calls}, 1 as calls, 0 as exports, credits,
           case when state = 'settled' and status < 400 then 1 else 0 end as ok
    from calls
    where customer_id = $1 and held_at >= $5 and held_at < $6 and state <> 'held' and {scope}
    union all
    select {totals}, calls, 0, credits, ok
    from call_totals where customer_id = $1 and day >= $3 and day <= $4 and {scope}
    union all
    select {exports}, 0, 1, cost, 0
    from export_jobs
    where customer_id = $1 and created_at >= $5 and created_at < $6 and credit_state = 'settled' and {scope}";

/// The total comes first, then the page.
const PAGE: &str = "
    with entries as materialized (
        select name, platform, method, cast(sum(calls) as bigint) as calls,
               cast(sum(exports) as bigint) as exports, cast(sum(credits) as bigint) as credits,
               cast(sum(ok) as bigint) as ok
        from ({spent}) as spent group by name, platform, method
    )
    select 0 as place, '' as name, '' as platform, '' as method,
           cast(coalesce(sum(calls), 0) as bigint) as calls, cast(coalesce(sum(exports), 0) as bigint) as exports,
           cast(coalesce(sum(credits), 0) as bigint) as credits, cast(coalesce(sum(ok), 0) as bigint) as ok
    from entries
    union all
    select * from (
        select 1, name, platform, method, calls, exports, credits, ok
        from entries
        where cast($8 as bigint) is null or credits < $8
           or (credits = $8 and (name, platform, method) > ($9, $10, $11))
        order by credits desc, name, platform, method limit $12
    ) as page
    order by place, credits desc, name, platform, method";

fn sql(by: BreakdownBy) -> String {
    let [calls, totals, exports] = columns_of(by);
    let spent = SPENT.replacen("{calls}", calls, 1).replacen("{totals}", totals, 1).replacen(
        "{exports}",
        exports,
        1,
    );
    PAGE.replacen("{spent}", &spent, 1).replace("{scope}", SCOPE)
}

fn values<'q>(query: &'q BreakdownQuery, key: Option<&'q str>) -> [SqlValue<'q>; 12] {
    let after = query.after.as_ref();
    [
        query.of.customer.into(),
        key.into(),
        query.first.into(),
        query.last.into(),
        query.first.start().into(),
        query.last.plus_days(1).start().into(),
        i64::from(query.of.only_allowed).into(),
        after.map(|after| after.credits).into(),
        after.map(|after| after.name.as_str()).into(),
        after.map(|after| after.platform.as_str()).into(),
        after.map(|after| after.method.as_str()).into(),
        query.limit.max(1).into(),
    ]
}

fn entry(row: &SqlRow) -> Result<BreakdownEntry, StoreError> {
    let is_route = !row.text("platform")?.is_empty();
    Ok(BreakdownEntry {
        name: row.text("name")?,
        platform: is_route.then(|| row.platform("platform", "calls")).transpose()?,
        method: is_route.then(|| row.parse("method", "calls")).transpose()?,
        counts: counts(row)?,
    })
}

fn counts(row: &SqlRow) -> Result<SpendCounts, StoreError> {
    Ok(SpendCounts {
        calls: row.int("calls")?,
        exports: row.int("exports")?,
        credits: row.credits("credits")?,
        ok: row.int("ok")?,
    })
}
