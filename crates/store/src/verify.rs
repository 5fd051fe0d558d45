//! Every invariant of the ledger as a query. Reads one snapshot of the database, even while a
//! server is running.

use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::options::DatabaseKind;
use crate::payment_rules::{LOTS, PAYMENTS};
use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError, dialect};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleViolation {
    /// The rule.
    pub rule: &'static str,
    /// The customer, call or row that violates it.
    pub subject: String,
    /// An explanation for people.
    pub details: String,
}

/// How long after its expiry a call may still be held: the sweeper runs every ten seconds.
const SWEEP_GRACE_SECONDS: i64 = 30;

/// A rule: its name, and a query that returns each subject whose two figures should be equal but
/// are not. In its text, `{call}` stands for the id of the call `e`.
pub(crate) struct LedgerRule {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) figures: [&'static str; 2],
}

/// Rules that stay cheap as calls accumulate: a running server checks them regularly.
const BALANCES: &[LedgerRule] = &[
    LedgerRule {
        name: "granted + debt = available + held + spent + removed, none of them negative",
        figures: ["granted + debt", "available + held + spent + removed"],
        sql: "
            select customer_id as subject, granted + debt as one, available + held + spent + removed as other
            from customer_credits
            where granted + debt <> available + held + spent + removed
               or granted < 0 or debt < 0 or available < 0 or held < 0 or spent < 0 or removed < 0",
    },
    LedgerRule {
        name: "a customer's held credits equal the cost of its open calls and exports",
        figures: ["held", "open calls and exports"],
        sql: "
            select c.customer_id as subject, c.held as one, coalesce(o.cost, 0) as other
            from customer_credits c
            left join (
                select customer_id, cast(sum(cost) as bigint) as cost
                from (
                    select w.word as customer_id, o.cost
                    from open_calls o join words w on w.number = o.customer
                    union all
                    select customer_id, cost from export_jobs where credit_state = 'held'
                ) as held group by customer_id
            ) o on o.customer_id = c.customer_id
            where c.held <> coalesce(o.cost, 0)",
    },
    LedgerRule {
        name: "a customer's credits granted and removed equal the sum of its ledger",
        figures: ["granted - removed", "ledger"],
        sql: "
            select c.customer_id as subject, c.granted - c.removed as one, coalesce(l.amount, 0) as other
            from customer_credits c
            left join (
                select customer_id, cast(sum(amount) as bigint) as amount
                from ledger group by customer_id
            ) l on l.customer_id = c.customer_id
            where c.granted - c.removed <> coalesce(l.amount, 0)",
    },
];

/// Rules that check every call.
const HISTORY: &[LedgerRule] = &[
    LedgerRule {
        name: "a customer's spent credits equal the charges of its settled calls and exports",
        figures: ["spent", "settled calls and exports"],
        sql: "
            select c.customer_id as subject, c.spent as one, coalesce(s.credits, 0) as other
            from customer_credits c
            left join (
                select customer_id, cast(sum(credits) as bigint) as credits
                from (
                    select w.word as customer_id, e.credits
                    from (
                        select customer, sum(cost) as credits from all_ended_calls
                        where charged = 1 group by customer
                    ) e join words w on w.number = e.customer
                    union all
                    select customer_id, credits from call_totals
                    union all
                    select customer_id, cost from export_jobs where credit_state = 'settled'
                ) as settled group by customer_id
            ) s on s.customer_id = c.customer_id
            where c.spent <> coalesce(s.credits, 0)",
    },
    LedgerRule {
        name: "every call belongs to a customer with a balance",
        figures: ["calls", "balances"],
        sql: "
            select c.customer_id as subject, count(*) as one, cast(0 as bigint) as other
            from (
                select w.word as customer_id
                from (select customer from open_calls union all select customer from all_ended_calls) u
                join words w on w.number = u.customer
                union all select customer_id from call_totals
            ) c
            left join customer_credits b on b.customer_id = c.customer_id
            where b.customer_id is null group by c.customer_id",
    },
    LedgerRule {
        name: "a call is charged exactly when the platform responded to it",
        figures: ["credits", "expected"],
        sql: "
            select {call} as subject, e.cost * e.charged as one,
                   case when outcome.word = 'answered' then e.cost else 0 end as other
            from all_ended_calls e left join words outcome on outcome.number = e.outcome
            where e.charged <> case when outcome.word = 'answered' then 1 else 0 end",
    },
    LedgerRule {
        name: "calls that were summed up are charged exactly when the platform responded to them",
        figures: ["credits", "expected"],
        sql: "
            select customer_id || ' ' || key_id || ' ' || outcome || ' day ' || cast(day as text) as subject,
                   credits as one, cast(0 as bigint) as other
            from call_totals where outcome <> 'answered' and (credits <> 0 or ok <> 0)",
    },
    LedgerRule {
        name: "an Idempotency-Key is running exactly while its call is open",
        figures: ["running", "held"],
        sql: "
            select i.call_id as subject,
                   cast(case when i.answer_state = 'running' then 1 else 0 end as bigint) as one,
                   cast(case when c.state = 'held' then 1 when c.id is null and e.id is null then -1
                        else 0 end as bigint) as other
            from idempotency i
            left join (
                select id, state from calls where idempotency_hash is not null
            ) c on c.id = i.call_id
            left join export_jobs e on e.id = i.call_id
            where case when i.answer_state = 'running' then 1 else 0 end
               <> case when c.state = 'held' then 1 when c.id is null and e.id is null then -1 else 0 end",
    },
    LedgerRule {
        name: "an export is charged when it has a file, and free when it failed",
        figures: ["charged", "expected"],
        sql: "
            select id as subject, cast(case when credit_state = 'settled' then 1 else 0 end as bigint) as one,
                   cast(case when state = 'failed' then 0 else 1 end as bigint) as other
            from export_jobs
            where (state = 'failed' and credit_state <> 'refunded')
               or (state in ('completed', 'expired') and credit_state <> 'settled')
               or (state in ('pending', 'running', 'cancelling') and credit_state <> 'held')
               or (state = 'cancelled' and credit_state
                       <> case when pages >= 1 then 'settled' else 'refunded' end)",
    },
    LedgerRule {
        name: "an export has a file exactly when it is completed",
        figures: ["completed", "file"],
        sql: "
            select id as subject, cast(case when state = 'completed' then 1 else 0 end as bigint) as one,
                   cast(case when output_key is not null and sha256 is not null and bytes is not null
                        and rows is not null then 1 else 0 end as bigint) as other
            from export_jobs
            where (state = 'completed' and (output_key is null or sha256 is null or bytes is null or rows is null))
               or (state <> 'completed' and output_key is not null)",
    },
    LedgerRule {
        name: "a response is stored exactly when its state says so",
        figures: ["stored", "responses"],
        sql: "
            select call_id as subject,
                   cast(case when answer_state = 'stored' then 1 else 0 end as bigint) as one,
                   cast(case when answer is null then 0 else 1 end as bigint) as other
            from idempotency
            where case when answer_state = 'stored' then 1 else 0 end
               <> case when answer is null then 0 else 1 end",
    },
];

/// The usage counts by day, less the same counts computed from the calls themselves, and from the
/// totals of those that were summed up.
const DAILY: &str = "
    select customer_id || ' ' || key_id || ' day ' || cast(day as text) as subject,
           cast(sum(calls) as bigint) as calls, cast(sum(credits) as bigint) as credits,
           cast(sum(ok) as bigint) as ok, cast(sum(errors) as bigint) as errors
    from (
        select customer_id, key_id, day, calls, credits, ok, errors from usage_by_day
        union all
        select customer.word, key.word, e.day, -e.calls, -e.credits, -e.ok, e.ok - e.calls
        from (
            select customer, key, held_at / 86400000000 as day, count(*) as calls, sum(cost * charged) as credits,
                   sum(case when charged = 1 and status < 400 then 1 else 0 end) as ok
            from all_ended_calls group by customer, key, held_at / 86400000000
        ) e
        join words customer on customer.number = e.customer
        join words key on key.number = e.key
        union all
        select customer_id, key_id, day, -calls, -credits, -ok, ok - calls from call_totals
    ) as difference
    group by customer_id, key_id, day
    having sum(calls) <> 0 or sum(credits) <> 0 or sum(ok) <> 0 or sum(errors) <> 0";

/// The same for the usage counts by endpoint.
const ROUTES: &str = "
    select key_id || ' ' || creator_id || ' ' || method || ' ' || route || ' day ' || cast(day as text)
               as subject,
           cast(sum(calls) as bigint) as calls, cast(sum(errors) as bigint) as errors
    from (
        select customer_id, key_id, day, creator_id, platform, method, route, calls, errors
        from usage_by_route
        union all
        select customer.word, key.word, e.day, account.word, platform.word, method.word, route.word, -e.calls,
               e.ok - e.calls
        from (
            select customer, key, held_at / 86400000000 as day, account, platform, method, route,
                   count(*) as calls, sum(case when charged = 1 and status < 400 then 1 else 0 end) as ok
            from all_ended_calls
            group by customer, key, held_at / 86400000000, account, platform, method, route
        ) e
        join words customer on customer.number = e.customer
        join words key on key.number = e.key
        join words account on account.number = e.account
        join words platform on platform.number = e.platform
        join words method on method.number = e.method
        join words route on route.number = e.route
        union all
        select customer_id, key_id, day, creator_id, platform, method, route, -calls, ok - calls
        from call_totals
    ) as difference
    group by customer_id, key_id, day, creator_id, platform, method, route
    having sum(calls) <> 0 or sum(errors) <> 0";

/// The number of calls held now.
pub async fn open_calls(store: &Store) -> Result<i64, StoreError> {
    const SQL: &str = "select count(*) as open_calls from open_calls";
    let row = store.read().await?.row(SQL, &[]).await?;
    row.map_or(Ok(0), |row| row.int("open_calls"))
}

/// Checks every rule and returns the violations. `now` decides which holds are overdue.
pub async fn check(store: &Store, now: Timestamp) -> Result<Vec<RuleViolation>, StoreError> {
    let mut tx = store.inspect().await?;
    let mut violations = broken(&mut tx, BALANCES).await?;
    violations.extend(broken(&mut tx, HISTORY).await?);
    violations.extend(broken(&mut tx, LOTS).await?);
    violations.extend(broken(&mut tx, PAYMENTS).await?);
    violations.extend(overdue(&mut tx, now).await?);
    violations.extend(damaged_calls(&mut tx).await?);
    if store.database() == DatabaseKind::Sqlite {
        violations.extend(set_aside(&mut tx).await?);
    }
    for row in tx.rows(DAILY, &[]).await? {
        violations.push(difference(
            "usage by day counts every settled call once",
            &row,
            &["calls", "credits", "ok", "errors"],
        )?);
    }
    for row in tx.rows(ROUTES, &[]).await? {
        violations.push(difference(
            "usage by endpoint counts every settled call once",
            &row,
            &["calls", "errors"],
        )?);
    }
    Ok(violations)
}

/// Checks the balances, the open calls and the ledger, at a cost that a running server can afford
/// regularly.
pub async fn check_balances(
    store: &Store,
    now: Timestamp,
) -> Result<Vec<RuleViolation>, StoreError> {
    let mut tx = store.inspect().await?;
    let mut violations = broken(&mut tx, BALANCES).await?;
    violations.extend(overdue(&mut tx, now).await?);
    Ok(violations)
}

async fn broken(tx: &mut Tx, rules: &[LedgerRule]) -> Result<Vec<RuleViolation>, StoreError> {
    let mut violations = Vec::new();
    for rule in rules {
        let [one, other] = rule.figures;
        let sql = rule.sql.replacen("{call}", &dialect::call_id(tx.database(), "e.id"), 1);
        for row in tx.rows(AssertSqlSafe(sql), &[]).await? {
            violations.push(RuleViolation {
                rule: rule.name,
                subject: row.text("subject")?,
                details: format!("{one} {}, {other} {}", row.int("one")?, row.int("other")?),
            });
        }
    }
    Ok(violations)
}

async fn overdue(tx: &mut Tx, now: Timestamp) -> Result<Vec<RuleViolation>, StoreError> {
    let id = dialect::call_id(tx.database(), "id");
    let sql = format!(
        "select {id} as id, expires_at from open_calls where expires_at < $1 order by expires_at"
    );
    let limit: SqlValue<'_> = now.plus_seconds(-SWEEP_GRACE_SECONDS).into();
    let rows = tx.rows(AssertSqlSafe(sql), &[limit]).await?;
    rows.iter()
        .map(|row| {
            Ok(RuleViolation {
                rule: "no call is held long after its expiry",
                subject: row.text("id")?,
                details: format!("expired at {}", row.time("expires_at")?),
            })
        })
        .collect()
}

/// Calls that are both open and ended, and calls with a word that is missing.
async fn damaged_calls(tx: &mut Tx) -> Result<Vec<RuleViolation>, StoreError> {
    const WORDS: [&str; 7] = ["customer", "key", "account", "platform", "method", "route", "node"];
    let missing = |word| format!("not exists (select 1 from words where number = e.{word})");
    let missing: Vec<String> = WORDS.map(missing).to_vec();
    let (call, missing) = (dialect::call_id(tx.database(), "e.id"), missing.join(" or "));
    let sql = format!(
        "select {call} as id, 'is in both tables' as details
         from open_calls e join all_ended_calls c on c.id = e.id
         union all
         select {call}, 'has a word that is missing' from open_calls e where {missing}
         union all
         select {call}, 'has a word that is missing' from all_ended_calls e
         where {missing} or not exists (select 1 from words where number = e.outcome)"
    );
    tx.rows(AssertSqlSafe(sql), &[])
        .await?
        .iter()
        .map(|row| {
            Ok(RuleViolation {
                rule: "a call is open or has ended, and all its words are known",
                subject: row.text("id")?,
                details: row.text("details")?,
            })
        })
        .collect()
}

/// Rows of usage counts that could not be read. Their counts also show up as differences below.
async fn set_aside(tx: &mut Tx) -> Result<Vec<RuleViolation>, StoreError> {
    const SQL: &str = "select id, source, reason from usage_notes_set_aside order by id";
    let rows = tx.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(RuleViolation {
                rule: "every row of usage counts can be read",
                subject: format!("usage_notes_set_aside {}", row.int("id")?),
                details: format!(
                    "was set aside from {}: {}",
                    row.text("source")?,
                    row.text("reason")?
                ),
            })
        })
        .collect()
}

fn difference(
    rule: &'static str,
    row: &SqlRow,
    columns: &[&str],
) -> Result<RuleViolation, StoreError> {
    let mut parts = Vec::new();
    for name in columns {
        parts.push(format!("{name} {:+}", row.int(name)?));
    }
    Ok(RuleViolation { rule, subject: row.text("subject")?, details: parts.join(", ") })
}
