//! Reasons for notices, found by reading what is stored anyway. Nothing here is part of a call.
//!
//! Every query leaves out customers who are closed, who switched the kind off, or who were told.

use domain::credits::Credits;
use domain::export::ExportState;
use domain::id::{AuditId, CustomerId, ExportId, KeyId};
use domain::time::{Timestamp, UtcDay};
use domain::top_up::TopUpWait;

use crate::sql::SqlRow;
use crate::{Store, StoreError, audit};

/// How many reasons one query returns. The next look finds the rest.
const ROWS_MAX: i64 = 1_000;

/// Whether a query may have left out reasons that it found.
pub fn is_cut_off(reasons: usize) -> bool {
    i64::try_from(reasons).is_ok_and(|read| read >= ROWS_MAX)
}

/// A customer whose balance is below its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowBalance {
    /// The customer.
    pub customer: CustomerId,
    /// The threshold: its own, or the service's.
    pub threshold: Credits,
}

/// A key that has used 80 percent of its monthly budget or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedBudget {
    /// The key.
    pub key: KeyId,
    /// Its customer.
    pub customer: CustomerId,
    /// Its name.
    pub name: String,
    /// What it may spend in the month.
    pub budget: i64,
    /// What it has spent.
    pub used: i64,
}

/// A card that expires soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringCard {
    /// The customer.
    pub customer: CustomerId,
    /// What it is told about: this card with this expiry.
    pub subject: String,
    /// The brand, such as `visa`.
    pub brand: String,
    /// The last four digits of its number.
    pub last4: String,
    /// The month in which it expires, 1 to 12.
    pub exp_month: i64,
    /// The year in which it expires.
    pub exp_year: i64,
}

/// An entry of the audit list that its customer is told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// The entry's id.
    pub id: String,
    /// The customer.
    pub customer: CustomerId,
    /// What was done, such as `key.created`.
    pub action: String,
    /// The details, as stored.
    pub details: String,
    /// When.
    pub at: Timestamp,
}

/// A charge that was made without the customer at a page: a top-up, or an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutomaticPayment {
    /// The sale.
    pub sale: String,
    /// The customer.
    pub customer: CustomerId,
    /// What was paid, in cents.
    pub amount_cents: i64,
    /// The currency.
    pub currency: String,
    /// The credits that it brought.
    pub credits: i64,
    /// Whether automatic top-up made it; otherwise it is an invoice of a plan or of slots.
    pub is_top_up: bool,
}

/// An export that has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedExport {
    /// The export.
    pub export: ExportId,
    /// The customer.
    pub customer: CustomerId,
    /// The dataset.
    pub dataset: String,
    /// The account.
    pub account: String,
    /// How it ended.
    pub state: ExportState,
}

/// Customers who spent credits and whose balance is below their threshold, or below `threshold`
/// without one. Those with automatic top-up are told only about a threshold of their own.
pub async fn low_balances(
    store: &Store,
    threshold: Credits,
    now: Timestamp,
) -> Result<Vec<LowBalance>, StoreError> {
    const SQL: &str = "
        select c.customer_id, coalesce(n.threshold_credits, $1) as threshold
        from customer_credits c
        join customers u on u.id = c.customer_id
        left join notice_choices n on n.customer_id = c.customer_id and n.kind = 'low_balance'
        where c.available < coalesce(n.threshold_credits, $1) and c.spent > 0 and coalesce(n.is_on, 1) = 1
          and u.disabled_at is null
          and (n.threshold_credits is not null or not exists (
              select 1 from top_up_settings t
              where t.customer_id = c.customer_id and t.enabled = 1
                and (t.waiting_reason is null or coalesce(t.waiting_until, $3 + 1) <= $3)))
          and not exists (
              select 1 from sent_notices s
              where s.kind = 'low_balance' and s.customer_id = c.customer_id and s.subject = '')
        order by c.customer_id limit $2";
    let values = [threshold.into(), ROWS_MAX.into(), now.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    let low = |row: &SqlRow| {
        Ok(LowBalance {
            customer: row.parse("customer_id", "customer_credits")?,
            threshold: row.credits("threshold")?,
        })
    };
    rows.iter().map(low).collect()
}

/// An automatic top-up that buys nothing although the balance is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingTopUp {
    /// The customer.
    pub customer: CustomerId,
    /// Why, and until when.
    pub wait: TopUpWait,
}

/// Automatic top-ups that buy nothing although the balance is low, of customers who were not told
/// under this subject.
pub async fn waiting_top_ups(
    store: &Store,
    subject: &str,
    now: Timestamp,
) -> Result<Vec<WaitingTopUp>, StoreError> {
    const SQL: &str = "
        select t.customer_id, t.waiting_reason, t.waiting_until
        from top_up_settings t
        join customer_credits c on c.customer_id = t.customer_id
        join customers u on u.id = t.customer_id
        left join notice_choices n on n.customer_id = t.customer_id and n.kind = 'low_balance'
        where t.enabled = 1 and t.waiting_reason is not null and coalesce(t.waiting_until, $2 + 1) > $2
          and c.available + c.held < t.threshold_credits and coalesce(n.is_on, 1) = 1 and u.disabled_at is null
          and not exists (
              select 1 from sent_notices s
              where s.kind = 'low_balance' and s.customer_id = t.customer_id and s.subject = $1)
        order by t.customer_id limit $3";
    let values = [subject.into(), now.into(), ROWS_MAX.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    let waiting = |row: &SqlRow| {
        let reason = row.parse("waiting_reason", "top_up_settings")?;
        let wait = TopUpWait { reason, until: row.optional_time("waiting_until")? };
        Ok(WaitingTopUp { customer: row.parse("customer_id", "top_up_settings")?, wait })
    };
    rows.iter().map(waiting).collect()
}

/// The customer's balance if it is below its threshold, or below `threshold` without one.
pub async fn low_balance_of(
    store: &Store,
    customer: CustomerId,
    threshold: Credits,
) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "
        select c.available from customer_credits c
        left join notice_choices n on n.customer_id = c.customer_id and n.kind = 'low_balance'
        where c.customer_id = $1 and c.available < coalesce(n.threshold_credits, $2)";
    let row = store.read().await?.row(SQL, &[customer.into(), threshold.into()]).await?;
    row.map(|row| row.int("available")).transpose()
}

/// Keys after `after` that have used 80 percent or more of their budget for the month of `day`, in
/// the order of their ids, and the last key that was looked at; none when all were.
pub async fn used_budgets(
    store: &Store,
    now: Timestamp,
    after: Option<KeyId>,
) -> Result<(Vec<UsedBudget>, Option<KeyId>), StoreError> {
    const SQL: &str = "
        select k.id, k.customer_id, k.name, k.monthly_budget, cast(
            coalesce((select sum(credits) from usage_by_day d
                      where d.customer_id = k.customer_id and d.key_id = k.id and d.day >= $2 and d.day < $3), 0)
          + coalesce((select sum(cost) from export_jobs e
                      where e.customer_id = k.customer_id and e.key_id = k.id and e.credit_state <> 'refunded'
                        and e.created_at >= $4 and e.created_at < $5), 0) as bigint) as used
        from keys k join customers u on u.id = k.customer_id
        where k.monthly_budget is not null and k.id > $1 and k.revoked_at is null and u.disabled_at is null
          and not exists (
              select 1 from notice_choices n
              where n.customer_id = k.customer_id and n.kind = 'key_budgets' and n.is_on = 0)
        order by k.id limit $6";
    let (first, next): (UtcDay, UtcDay) = (now.day().month_start(), now.day().next_month_start());
    let values = [
        after.map_or_else(String::new, |key| key.to_string()).into(),
        first.into(),
        next.into(),
        first.start().into(),
        next.start().into(),
        ROWS_MAX.into(),
    ];
    let rows = store.read().await?.rows(SQL, &values).await?;
    let keys = rows.iter().map(used_budget).collect::<Result<Vec<UsedBudget>, StoreError>>()?;
    let last = keys.last().filter(|_| is_cut_off(keys.len())).map(|key| key.key);
    let is_high =
        |key: &UsedBudget| !domain::notice::reached_steps(key.used, key.budget).is_empty();
    Ok((keys.into_iter().filter(is_high).collect(), last))
}

fn used_budget(row: &SqlRow) -> Result<UsedBudget, StoreError> {
    Ok(UsedBudget {
        key: row.parse("id", "keys")?,
        customer: row.parse("customer_id", "keys")?,
        name: row.text("name")?,
        budget: row.int("monthly_budget")?,
        used: row.int("used")?,
    })
}

/// Customers with credits that expire after `now` and until `until`, of which they were not told.
pub async fn with_expiring_lots(
    store: &Store,
    now: Timestamp,
    until: Timestamp,
) -> Result<Vec<CustomerId>, StoreError> {
    const SQL: &str = "
        select distinct l.customer_id from lots l join customers u on u.id = l.customer_id
        where l.credits_left > 0 and l.expires_at is not null and l.expires_at > $1 and l.expires_at <= $2
          and u.disabled_at is null
          and not exists (
              select 1 from notice_choices n
              where n.customer_id = l.customer_id and n.kind = 'expiring_credits' and n.is_on = 0)
          and not exists (
              select 1 from sent_notices s
              where s.kind = 'expiring_credits' and s.customer_id = l.customer_id and s.subject = l.id)
        order by l.customer_id limit $3";
    let values = [now.into(), until.into(), ROWS_MAX.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter().map(|row| row.parse("customer_id", "lots")).collect()
}

/// Cards that expire in this month or the next one. Months are counted as 12 × year + month.
pub async fn expiring_cards(store: &Store, month: i64) -> Result<Vec<ExpiringCard>, StoreError> {
    const SQL: &str = "
        select c.customer_id, c.brand, c.last4, c.exp_month, c.exp_year,
               c.payment_method_id || ':' || cast(c.exp_year * 12 + c.exp_month as text) as subject
        from cards c join customers u on u.id = c.customer_id
        where c.exp_year * 12 + c.exp_month >= $1 and c.exp_year * 12 + c.exp_month <= $2
          and u.disabled_at is null
          and not exists (
              select 1 from notice_choices n
              where n.customer_id = c.customer_id and n.kind = 'expiring_card' and n.is_on = 0)
          and not exists (
              select 1 from sent_notices s
              where s.kind = 'expiring_card' and s.customer_id = c.customer_id
                and s.subject = c.payment_method_id || ':' || cast(c.exp_year * 12 + c.exp_month as text))
        order by c.customer_id limit $3";
    let values = [month.into(), month.saturating_add(1).into(), ROWS_MAX.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    let card = |row: &SqlRow| {
        Ok(ExpiringCard {
            customer: row.parse("customer_id", "cards")?,
            subject: row.text("subject")?,
            brand: row.text("brand")?,
            last4: row.text("last4")?,
            exp_month: row.int("exp_month")?,
            exp_year: row.int("exp_year")?,
        })
    };
    rows.iter().map(card).collect()
}

/// Entries of the audit list since this time whose customers are told: keys, passwords and ended
/// subscriptions.
pub async fn audit_events(store: &Store, since: Timestamp) -> Result<Vec<AuditEvent>, StoreError> {
    const SQL: &str = r#"
        select e.id, e.customer_id, e.action, e.details, e.at
        from (select id, customer_id, action, details, at,
                  case action when 'password.changed' then 'password'
                              when 'subscription.changed' then 'subscription_end' else 'key_changes' end as kind
              from audit
              where id >= $1 and at >= $2
                and (action in ('key.created', 'key.rotated', 'password.changed')
                     or (action = 'subscription.changed' and details like '%"status":"canceled"%'))) e
        join customers u on u.id = e.customer_id
        where u.disabled_at is null
          and not exists (
              select 1 from notice_choices n
              where n.customer_id = e.customer_id and n.kind = e.kind and n.is_on = 0)
          and not exists (
              select 1 from sent_notices s
              where s.kind = e.kind and s.customer_id = e.customer_id and s.subject = e.id)
        order by e.id limit $3"#;
    // Ids begin with their time, so that the entries are found without an index by time.
    let first = audit::stored(AuditId::new(since.plus_seconds(-1), [0; 10]));
    let values = [first.into(), since.into(), ROWS_MAX.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    let event = |row: &SqlRow| {
        Ok(AuditEvent {
            id: row.text("id")?,
            customer: row.parse("customer_id", "audit")?,
            action: row.text("action")?,
            details: row.text("details")?,
            at: row.time("at")?,
        })
    };
    rows.iter().map(event).collect()
}

/// Top-ups and invoices that were paid since this time.
pub async fn automatic_payments(
    store: &Store,
    since: Timestamp,
) -> Result<Vec<AutomaticPayment>, StoreError> {
    const SQL: &str = "
        select s.id, s.customer_id, s.amount_cents, s.currency,
               cast(coalesce((select sum(p.credits) from sale_parts p where p.sale_id = s.id), 0) as bigint) as credits,
               cast(case when o.channel = 'top_up' then 1 else 0 end as bigint) as is_top_up
        from sales s
        join customers u on u.id = s.customer_id
        left join orders o on o.id = s.order_id
        where s.at >= $1 and s.amount_cents > 0 and u.disabled_at is null
          and (o.channel = 'top_up' or (s.source = 'invoice' and s.order_id is null))
          and not exists (
              select 1 from notice_choices n
              where n.customer_id = s.customer_id and n.kind = 'payments' and n.is_on = 0)
          and not exists (
              select 1 from sent_notices t
              where t.kind = 'payments' and t.customer_id = s.customer_id and t.subject = s.id)
        order by s.at, s.id limit $2";
    let rows = store.read().await?.rows(SQL, &[since.into(), ROWS_MAX.into()]).await?;
    let payment = |row: &SqlRow| {
        Ok(AutomaticPayment {
            sale: row.text("id")?,
            customer: row.parse("customer_id", "sales")?,
            amount_cents: row.int("amount_cents")?,
            currency: row.text("currency")?,
            credits: row.int("credits")?,
            is_top_up: row.int("is_top_up")? != 0,
        })
    };
    rows.iter().map(payment).collect()
}

/// Exports that finished since this time, of customers who want to hear of it.
pub async fn finished_exports(
    store: &Store,
    since: Timestamp,
) -> Result<Vec<FinishedExport>, StoreError> {
    const SQL: &str = "
        select e.id, e.customer_id, e.dataset, e.creator_id, e.state
        from notice_choices n
        join export_jobs e on e.customer_id = n.customer_id
        join customers u on u.id = n.customer_id
        where n.kind = 'exports' and n.is_on = 1 and u.disabled_at is null
          and e.finished_at is not null and e.finished_at >= $1 and e.state in ('completed', 'failed')
          and not exists (
              select 1 from sent_notices s
              where s.kind = 'exports' and s.customer_id = e.customer_id and s.subject = e.id)
        order by e.finished_at, e.id limit $2";
    let rows = store.read().await?.rows(SQL, &[since.into(), ROWS_MAX.into()]).await?;
    let export = |row: &SqlRow| {
        Ok(FinishedExport {
            export: row.parse("id", "export_jobs")?,
            customer: row.parse("customer_id", "export_jobs")?,
            dataset: row.text("dataset")?,
            account: row.text("creator_id")?,
            state: row.parse("state", "export_jobs")?,
        })
    };
    rows.iter().map(export).collect()
}
