//! The ledger as customers read it: entries, and for each UTC day one line that sums up what it charged.
//!
//! A day's line stands where the day ends, above everything that came in on it. Its charges lie between the other
//! entries of that day, and so no single balance belongs to it.

use std::cmp::Reverse;

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId};
use domain::ledger::{LedgerLine, SumKind};
use domain::time::{Day, Timestamp};

use crate::sql::Row;
use crate::tx::Tx;
use crate::usage::UsageOf;
use crate::{Store, StoreError};

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which line it is.
    pub line: LedgerLine,
    /// When; for the sum of a day the day's last microsecond.
    pub at: Timestamp,
    /// What it is: an entry's kind, `usage` or `export`.
    pub kind: String,
    /// Credits that came in (positive) or went out (negative).
    pub amount: Credits,
    /// What was available after an entry; nothing for the sum of a day.
    pub balance_after: Option<Credits>,
    /// What a person would look for; the date of a day's sum.
    pub reference: Option<String>,
}

/// Which lines to list.
#[derive(Debug, Clone, Copy)]
pub struct LedgerQuery<'a> {
    /// Whose. Of one key there are the sums of what it was charged, and nothing that came in.
    pub of: UsageOf,
    /// Only lines of this kind.
    pub kind: Option<&'a str>,
    /// Only lines older than this one.
    pub before: Option<LedgerLine>,
    /// How many at most.
    pub limit: i64,
}

/// Where a page begins: what is older than its bounds.
struct Bounds {
    /// Entries before this time, or at it with a smaller id.
    entries: (Timestamp, Option<EntryId>),
    /// Usage of days before this one.
    usage: Day,
    /// Exports of days before this one.
    exports: Day,
}

/// The newest lines, newest first. Nothing when the line to go on from is not in this ledger.
pub async fn page(
    store: &Store,
    query: &LedgerQuery<'_>,
) -> Result<Option<Vec<Entry>>, StoreError> {
    let mut tx = store.snapshot().await?;
    let Some(bounds) = bounds(&mut tx, query).await? else { return Ok(None) };
    let is_wanted = |kind: SumKind| query.kind.is_none_or(|wanted| wanted == kind.as_str());
    let mut entries = Vec::new();
    if query.of.key.is_none() {
        entries.extend(bookings(&mut tx, query, &bounds).await?);
    }
    if is_wanted(SumKind::Usage) {
        entries.extend(usage(&mut tx, query, bounds.usage).await?);
    }
    if is_wanted(SumKind::Export) {
        entries.extend(exports(&mut tx, query, bounds.exports).await?);
    }
    entries.sort_by_key(|entry| Reverse(place(entry)));
    entries.truncate(usize::try_from(query.limit).unwrap_or(0));
    Ok(Some(entries))
}

/// What the order of lines is: by time, then sums above entries, then by id.
fn place(entry: &Entry) -> (Timestamp, Option<SumKind>, Option<EntryId>) {
    match entry.line {
        LedgerLine::Entry(id) => (entry.at, None, Some(id)),
        LedgerLine::Sum(kind, _) => (entry.at, Some(kind), None),
    }
}

async fn bounds(tx: &mut Tx, query: &LedgerQuery<'_>) -> Result<Option<Bounds>, StoreError> {
    /// Later than any day there will be.
    const NEVER: Day = Day::from_number(3_000_000);
    Ok(match query.before {
        None => Some(Bounds { entries: (NEVER.start(), None), usage: NEVER, exports: NEVER }),
        Some(LedgerLine::Sum(kind, day)) => Some(Bounds {
            entries: (day.plus_days(1).start(), None),
            usage: day,
            exports: if kind == SumKind::Usage { day.plus_days(1) } else { day },
        }),
        Some(LedgerLine::Entry(id)) => time_of(tx, query.of.customer, id).await?.map(|at| Bounds {
            entries: (at, Some(id)),
            usage: at.day(),
            exports: at.day(),
        }),
    })
}

async fn time_of(
    tx: &mut Tx,
    customer: CustomerId,
    id: EntryId,
) -> Result<Option<Timestamp>, StoreError> {
    const SQL: &str = "select at from ledger where id = $1 and customer_id = $2";
    let row = tx.row(SQL, &[id.into(), customer.into()]).await?;
    row.map(|row| row.time(0)).transpose()
}

async fn bookings(
    tx: &mut Tx,
    query: &LedgerQuery<'_>,
    bounds: &Bounds,
) -> Result<Vec<Entry>, StoreError> {
    const SQL: &str = "
        select id, at, kind, amount, balance_after, reference
        from ledger
        where customer_id = $1 and at <= $2 and (at < $2 or id < $3)
          and (cast($4 as text) is null or kind = $4)
        order by at desc, id desc limit $5";
    let (at, id) = bounds.entries;
    // No id is smaller than the empty text: without one, only what is earlier.
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    let customer = query.of.customer.into();
    let values = [customer, at.into(), id.as_str().into(), query.kind.into(), query.limit.into()];
    let rows = tx.rows(SQL, &values).await?;
    rows.iter().map(booking).collect()
}

async fn usage(
    tx: &mut Tx,
    query: &LedgerQuery<'_>,
    before: Day,
) -> Result<Vec<Entry>, StoreError> {
    const SQL: &str = "
        select day, cast(sum(credits) as bigint)
        from usage_by_day
        where customer_id = $1 and day < $2 and (cast($3 as text) is null or key_id = $3)
        group by day having sum(credits) > 0 order by day desc limit $4";
    let key = query.of.key.map(|key| key.to_string());
    let customer = query.of.customer.into();
    let values = [customer, before.into(), key.as_deref().into(), query.limit.into()];
    let rows = tx.rows(SQL, &values).await?;
    rows.iter().map(|row| sum_of_day(SumKind::Usage, row)).collect()
}

async fn exports(
    tx: &mut Tx,
    query: &LedgerQuery<'_>,
    before: Day,
) -> Result<Vec<Entry>, StoreError> {
    const SQL: &str = "
        select created_at / 86400000000, cast(sum(cost) as bigint)
        from export_jobs
        where customer_id = $1 and created_at < $2 and credit_state = 'settled' and cost > 0
          and (cast($3 as text) is null or key_id = $3)
        group by created_at / 86400000000 order by created_at / 86400000000 desc limit $4";
    let key = query.of.key.map(|key| key.to_string());
    let customer = query.of.customer.into();
    let values = [customer, before.start().into(), key.as_deref().into(), query.limit.into()];
    let rows = tx.rows(SQL, &values).await?;
    rows.iter().map(|row| sum_of_day(SumKind::Export, row)).collect()
}

fn booking(row: &Row) -> Result<Entry, StoreError> {
    Ok(Entry {
        line: LedgerLine::Entry(row.parse(0, "ledger")?),
        at: row.time(1)?,
        kind: row.text(2)?,
        amount: row.credits(3)?,
        balance_after: Some(row.credits(4)?),
        reference: row.optional_text(5)?,
    })
}

fn sum_of_day(kind: SumKind, row: &Row) -> Result<Entry, StoreError> {
    let day = Day::from_number(row.int(0)?);
    Ok(Entry {
        line: LedgerLine::Sum(kind, day),
        at: day.last_instant(),
        kind: kind.as_str().to_owned(),
        amount: Credits::from_whole(-row.int(1)?),
        balance_after: None,
        reference: Some(day.to_string()),
    })
}
