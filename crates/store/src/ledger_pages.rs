//! The ledger as customers read it: entries, and between them what was charged, summed by day.
//!
//! A customer's lines are in the order in which they happened, each with the balance after it. The
//! ledger of one key only has its charges, summed by UTC day: a key has no balance.

use domain::credits::Credits;
use domain::id::{CustomerId, LotId};
use domain::ledger::{self, BookedEntry, DayUsage, LedgerLine, SumKind, TimedLine};
use domain::time::{Timestamp, UtcDay};

use crate::tx::Tx;
use crate::usage::UsageOf;
use crate::{Store, StoreError};

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The line's identity.
    pub line: LedgerLine,
    /// When it happened; for a sum, when it ended.
    pub at: Timestamp,
    /// The kind: an entry's kind, `usage` or `export`.
    pub kind: String,
    /// Credits that came in (positive) or went out (negative).
    pub amount: Credits,
    /// The available credits after it; none in the ledger of a key.
    pub balance_after: Option<Credits>,
    /// The debt after it; none in the ledger of a key.
    pub debt_after: Option<Credits>,
    /// A reference for people; the date of a sum.
    pub reference: Option<String>,
    /// The lot of an entry; none for sums, and for entries older than lots.
    pub lot: Option<LotId>,
}

/// Which lines to list.
#[derive(Debug, Clone, Copy)]
pub struct LedgerQuery<'a> {
    /// The customer or key. A key has only sums of its charges, no incoming credits.
    pub of: UsageOf,
    /// Only lines of this kind.
    pub kind: Option<&'a str>,
    /// Only lines older than this one.
    pub before: Option<LedgerLine>,
    /// The page size.
    pub limit: i64,
    /// The current time, which charges since the last entry are listed under.
    pub now: Timestamp,
}

/// The newest lines, newest first. None if the cursor `before` is not in this ledger.
pub async fn page(
    store: &Store,
    query: &LedgerQuery<'_>,
) -> Result<Option<Vec<LedgerEntry>>, StoreError> {
    let mut tx = store.snapshot().await?;
    let mut entries = match query.of.key {
        None => of_customer(&mut tx, query).await?,
        Some(_) => of_key(&mut tx, query).await?,
    };
    entries.reverse();
    if let Some(before) = query.before {
        let Some(place) = entries.iter().position(|entry| entry.line == before) else {
            return Ok(None);
        };
        entries.drain(..=place);
    }
    entries.retain(|entry| query.kind.is_none_or(|kind| kind == entry.kind));
    entries.truncate(usize::try_from(query.limit).unwrap_or(0));
    Ok(Some(entries))
}

/// All lines of a customer, the oldest first.
async fn of_customer(tx: &mut Tx, query: &LedgerQuery<'_>) -> Result<Vec<LedgerEntry>, StoreError> {
    const NET: &str = "select available - debt as net from customer_credits where customer_id = $1";
    let customer = query.of.customer;
    let BookedLines { entries, details } = booked(tx, customer).await?;
    let days = days(tx, query).await?;
    let row = tx.row(NET, &[customer.into()]).await?;
    let net = row.map_or(Ok(0), |row| row.int("net"))?;
    let mut details = details.into_iter();
    let lines = ledger::lines(&entries, &days, net, query.now);
    Ok(lines.into_iter().map(|line| shown(&line, &mut details)).collect())
}

/// An entry's data besides its amount.
struct EntryDetails {
    kind: String,
    reference: Option<String>,
    lot: Option<LotId>,
}

/// A customer's entries, and the data of each.
struct BookedLines {
    entries: Vec<BookedEntry>,
    details: Vec<EntryDetails>,
}

fn shown(line: &TimedLine, details: &mut impl Iterator<Item = EntryDetails>) -> LedgerEntry {
    let sum = |kind: SumKind, day: UtcDay| EntryDetails {
        kind: kind.as_str().to_owned(),
        reference: Some(day.to_string()),
        lot: None,
    };
    let details = match line.line {
        LedgerLine::Entry(_) => details.next(),
        LedgerLine::Sum(kind, day) | LedgerLine::SumAfter(kind, day, _) => Some(sum(kind, day)),
    };
    let details =
        details.unwrap_or_else(|| EntryDetails { kind: String::new(), reference: None, lot: None });
    LedgerEntry {
        line: line.line,
        at: line.at,
        kind: details.kind,
        amount: Credits::from_whole(line.amount),
        balance_after: Some(Credits::from_whole(line.balance_after)),
        debt_after: Some(Credits::from_whole(line.debt_after)),
        reference: details.reference,
        lot: details.lot,
    }
}

/// The entries of a customer, the oldest first.
async fn booked(tx: &mut Tx, customer: CustomerId) -> Result<BookedLines, StoreError> {
    const SQL: &str = "
        select id, at, amount, balance_after, coalesce(debt_after, 0) as debt_after, kind, reference, lot_id
        from ledger where customer_id = $1 order by coalesce(place, 0), at, id";
    let (mut entries, mut details) = (Vec::new(), Vec::new());
    for row in tx.rows(SQL, &[customer.into()]).await? {
        entries.push(BookedEntry {
            id: row.parse("id", "ledger")?,
            at: row.time("at")?,
            amount: row.int("amount")?,
            balance_after: row.int("balance_after")?,
            debt_after: row.int("debt_after")?,
        });
        let lot = row.parse_optional("lot_id", "ledger")?;
        details.push(EntryDetails {
            kind: row.text("kind")?,
            reference: row.optional_text("reference")?,
            lot,
        });
    }
    Ok(BookedLines { entries, details })
}

/// The charges of each UTC day, oldest first.
async fn days(tx: &mut Tx, query: &LedgerQuery<'_>) -> Result<Vec<DayUsage>, StoreError> {
    const SQL: &str = "
        select day, cast(sum(exports) as bigint) as exports, cast(sum(credits) as bigint) as credits
        from (
            select day, 0 as exports, credits from usage_by_day
            where customer_id = $1 and (cast($2 as text) is null or key_id = $2)
            union all
            select created_at / 86400000000, cost, cost from export_jobs
            where customer_id = $1 and credit_state = 'settled' and (cast($2 as text) is null or key_id = $2)
        ) as charged
        group by day having sum(credits) > 0 order by day";
    let key = query.of.key.map(|key| key.to_string());
    let rows = tx.rows(SQL, &[query.of.customer.into(), key.as_deref().into()]).await?;
    rows.iter()
        .map(|row| {
            let day = UtcDay::from_number(row.int("day")?);
            Ok(DayUsage { day, exports: row.int("exports")?, all: row.int("credits")? })
        })
        .collect()
}

/// What a key was charged, the oldest day first.
async fn of_key(tx: &mut Tx, query: &LedgerQuery<'_>) -> Result<Vec<LedgerEntry>, StoreError> {
    let mut entries = Vec::new();
    for one in days(tx, query).await? {
        let usage = one.all.saturating_sub(one.exports);
        for (kind, amount) in [(SumKind::Export, one.exports), (SumKind::Usage, usage)] {
            if amount > 0 {
                entries.push(LedgerEntry {
                    line: LedgerLine::Sum(kind, one.day),
                    at: one.day.last_instant(),
                    kind: kind.as_str().to_owned(),
                    amount: Credits::from_whole(-amount),
                    balance_after: None,
                    debt_after: None,
                    reference: Some(one.day.to_string()),
                    lot: None,
                });
            }
        }
    }
    Ok(entries)
}
