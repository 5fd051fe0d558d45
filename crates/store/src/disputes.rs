//! Disputes and warnings of fraud as the processor last showed them, for the operator. What they
//! took of credits is in `reversals`.

use domain::dispute::{DisputeFacts, DisputeStage, DisputedGoods};
use domain::id::{CustomerId, OrderId};
use domain::payment::PaymentSource;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A dispute or a warning, as it was read from the processor.
#[derive(Debug, Clone, Copy)]
pub struct DisputeReading<'a> {
    /// Its id at the processor.
    pub id: &'a str,
    /// Where it stands.
    pub stage: DisputeStage,
    /// The processor's own word for it.
    pub status: &'a str,
    /// The charge.
    pub charge: Option<&'a str>,
    /// The payment intent.
    pub intent: &'a str,
    /// The disputed amount, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// The currency, in lower case.
    pub currency: &'a str,
    /// The bank's reason, or the kind of fraud that it warns of.
    pub reason: &'a str,
    /// Until when evidence is taken.
    pub due_by: Option<Timestamp>,
    /// When it began at the processor.
    pub opened_at: Timestamp,
    /// The current time.
    pub at: Timestamp,
}

/// A dispute or a warning, with what was bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispute {
    /// Its id at the processor.
    pub id: String,
    /// Where it stands.
    pub stage: DisputeStage,
    /// The processor's own word for it.
    pub status: String,
    /// Who paid, if that is known.
    pub customer: Option<CustomerId>,
    /// The charge.
    pub charge: Option<String>,
    /// The payment intent.
    pub intent: Option<String>,
    /// The order, if a pack was bought.
    pub order: Option<OrderId>,
    /// The invoice, if a plan or slots were bought.
    pub invoice: Option<String>,
    /// Whether the customer's subscription has not ended.
    pub subscription_is_live: bool,
    /// The disputed amount, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// The currency, in lower case.
    pub currency: String,
    /// The bank's reason, or the kind of fraud that it warns of.
    pub reason: String,
    /// Until when evidence is taken.
    pub due_by: Option<Timestamp>,
    /// When it began at the processor.
    pub opened_at: Timestamp,
    /// When it was last seen to change.
    pub changed_at: Timestamp,
}

impl Dispute {
    /// What the operator does next depends on this.
    pub fn facts(&self) -> DisputeFacts {
        let goods = match (self.order, &self.invoice) {
            (Some(order), _) => DisputedGoods::Pack(order),
            (None, Some(_)) => DisputedGoods::Subscription { is_live: self.subscription_is_live },
            (None, None) => DisputedGoods::Unknown,
        };
        let (stage, customer, due_by) = (self.stage, self.customer, self.due_by);
        DisputeFacts { stage, goods, customer, due_by }
    }
}

/// The columns of a dispute, and what belongs to it. A subscription that the sale does not name is
/// the customer's only one.
const SELECT: &str = "
    select d.id, d.stage, d.status, d.customer_id, d.charge_id, d.intent_id, d.amount_cents, d.currency, d.reason,
           d.due_by, d.opened_at, d.changed_at, s.id as sale_id, s.source, s.order_id,
           case when s.subscription_id is null or s.subscription_id = u.subscription_id then u.status end
               as subscription_status
    from disputes d
    left join sales s on s.intent_id = d.intent_id
    left join subscriptions u on u.customer_id = d.customer_id";

/// Records what was read. If it is new or has moved on, the jobs that `follow` makes of it are
/// enqueued in the same transaction, and it is returned; otherwise `None`. A reading that is older
/// than the recorded one changes nothing.
pub async fn note(
    store: &Store,
    reading: &DisputeReading<'_>,
    follow: &(dyn Fn(&Dispute) -> Vec<NewJob> + Send + Sync),
) -> Result<Option<Dispute>, StoreError> {
    let mut tx = store.write().await?;
    let has_moved = insert(&mut tx, reading).await? || advance(&mut tx, reading).await?;
    if !has_moved {
        // Its date or its amount may be new all the same.
        tx.commit().await?;
        return Ok(None);
    }
    let sql = format!("{SELECT} where d.id = $1");
    let row = tx.row(sqlx::AssertSqlSafe(sql), &[reading.id.into()]).await?;
    let noted = row.as_ref().map(dispute).transpose()?;
    let noted = noted.ok_or_else(|| StoreError::corrupt("disputes", reading.id))?;
    jobs::insert_all(&mut tx, &follow(&noted)).await?;
    tx.commit().await?;
    Ok(Some(noted))
}

/// The newest disputes and warnings: those that the bank has not decided, and lost ones whose
/// subscription goes on; with `with_ended` all of them.
pub async fn list(store: &Store, with_ended: bool, limit: i64) -> Result<Vec<Dispute>, StoreError> {
    let open = words(DisputeStage::is_open);
    let live = SubscriptionStatus::ALL.iter().filter(|status| status.is_live());
    let live = quoted(live.map(|status| status.as_str()));
    let sql = format!(
        "{SELECT}
         where $1 = 1 or d.stage in ({open})
            or (d.stage = 'lost' and s.source = 'invoice' and u.status in ({live})
                and (s.subscription_id is null or s.subscription_id = u.subscription_id))
         order by d.opened_at desc, d.id desc limit $2"
    );
    let values = [i64::from(with_ended).into(), limit.into()];
    let rows = store.read().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    rows.iter().map(dispute).collect()
}

/// The newest disputes and warnings of a customer.
pub async fn of_customer(
    store: &Store,
    customer: CustomerId,
    limit: i64,
) -> Result<Vec<Dispute>, StoreError> {
    let sql = format!("{SELECT} where d.customer_id = $1 order by d.opened_at desc, d.id limit $2");
    let values = [customer.into(), limit.into()];
    let rows = store.read().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    rows.iter().map(dispute).collect()
}

/// How many wait for the operator: for evidence, an answer or a refund.
pub async fn count_waiting(store: &Store) -> Result<i64, StoreError> {
    let waiting = words(DisputeStage::waits_for_operator);
    let sql = format!("select count(*) as waiting from disputes where stage in ({waiting})");
    let row = store.read().await?.row(sqlx::AssertSqlSafe(sql), &[]).await?;
    row.map_or(Ok(0), |row| row.int("waiting"))
}

/// Whether it is new.
async fn insert(tx: &mut Tx, reading: &DisputeReading<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into disputes
            (id, stage, status, customer_id, charge_id, intent_id, amount_cents, currency, reason, due_by, opened_at,
             changed_at)
        values ($1, $2, $3, (select customer_id from sales where intent_id = $5), $4, $5, $6, $7, $8, $9, $10, $11)
        on conflict (id) do nothing";
    let values = [
        reading.id.into(),
        reading.stage.as_str().into(),
        reading.status.into(),
        reading.charge.into(),
        reading.intent.into(),
        reading.amount_cents.into(),
        reading.currency.into(),
        reading.reason.into(),
        reading.due_by.into(),
        reading.opened_at.into(),
        reading.at.into(),
    ];
    Ok(tx.execute(SQL, &values).await? == 1)
}

/// Brings the row up to date. Whether it stands elsewhere than before; it never goes back.
async fn advance(tx: &mut Tx, reading: &DisputeReading<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "
        update disputes set stage = $2, status = $3, amount_cents = $4, reason = $5, due_by = $6, changed_at = $7,
            customer_id = coalesce(customer_id, (select customer_id from sales where intent_id = $8))
        where id = $1 and stage = $9";
    let known = tx.row("select stage from disputes where id = $1", &[reading.id.into()]).await?;
    let Some(known) = known else { return Ok(false) };
    let known: DisputeStage = known.parse("stage", "disputes")?;
    if reading.stage < known {
        return Ok(false);
    }
    let values = [
        reading.id.into(),
        reading.stage.as_str().into(),
        reading.status.into(),
        reading.amount_cents.into(),
        reading.reason.into(),
        reading.due_by.into(),
        reading.at.into(),
        reading.intent.into(),
        known.as_str().into(),
    ];
    // Of two that read the same at once, one finds the row moved on.
    Ok(tx.execute(SQL, &values).await? == 1 && reading.stage != known)
}

fn words(is_wanted: impl Fn(DisputeStage) -> bool) -> String {
    let wanted = DisputeStage::ALL.iter().filter(|stage| is_wanted(**stage));
    quoted(wanted.map(|stage| stage.as_str()))
}

fn quoted(words: impl Iterator<Item = &'static str>) -> String {
    words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
}

fn dispute(row: &SqlRow) -> Result<Dispute, StoreError> {
    let source: Option<PaymentSource> = row.parse_optional("source", "sales")?;
    let sale = row.optional_text("sale_id")?;
    let status: Option<SubscriptionStatus> =
        row.parse_optional("subscription_status", "subscriptions")?;
    Ok(Dispute {
        id: row.text("id")?,
        stage: row.parse("stage", "disputes")?,
        status: row.text("status")?,
        customer: row.parse_optional("customer_id", "disputes")?,
        charge: row.optional_text("charge_id")?,
        intent: row.optional_text("intent_id")?,
        order: row.parse_optional("order_id", "sales")?,
        invoice: sale.filter(|_| source == Some(PaymentSource::Invoice)),
        subscription_is_live: status.is_some_and(SubscriptionStatus::is_live),
        amount_cents: row.int("amount_cents")?,
        currency: row.text("currency")?,
        reason: row.text("reason")?,
        due_by: row.optional_time("due_by")?,
        opened_at: row.time("opened_at")?,
        changed_at: row.time("changed_at")?,
    })
}
