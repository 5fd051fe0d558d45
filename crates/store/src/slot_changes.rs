//! Changes of slots and of the plan. Each is committed before the processor hears of it, a customer
//! has at most one open, and the holder of its lease carries it out. Its id is the processor's
//! idempotency key, so carrying it out twice has the effect of once.

use domain::account::CreatorId;
use domain::id::{ChangeId, CustomerId};
use domain::platform::Platform;
use domain::slot::{
    AccountAllowances, ChangeProration, ChangeStep, SlotChangeKind, SlotChangeState,
};
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::slot_assignment::{OccupiedSlots, SlotShift};
use crate::sql::SqlRow;
use crate::subscriptions::{self, SubscriptionView};
use crate::tx::Tx;
use crate::{Store, StoreError, customers, slot_assignment, slot_limits};

/// A change to be stored.
#[derive(Debug, Clone)]
pub struct NewSlotChange {
    /// Its id.
    pub id: ChangeId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The version of the subscription that it is based on.
    pub version: i64,
    /// The kind of change.
    pub kind: SlotChangeKind,
    /// The subscription to change.
    pub subscription_id: String,
    /// The account that gets a slot first.
    pub creator: Option<CreatorId>,
    /// How it affects the payment for the current period.
    pub proration: ChangeProration,
    /// The first of its requests to the processor.
    pub step: ChangeStep,
    /// The end of the period in which it is made.
    pub period_end: Option<Timestamp>,
    /// The instant from which proration is computed, in Unix seconds.
    pub proration_date_s: i64,
    /// Who requested it, for the audit list.
    pub actor: String,
    /// The changes of the items, in this order.
    pub items: Vec<SlotChangeItem>,
    /// The current time.
    pub at: Timestamp,
    /// When the lease expires.
    pub leased_until: Timestamp,
}

/// The change of one item of the subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotChangeItem {
    /// The platform of the slots; none for the plan.
    pub platform: Option<Platform>,
    /// The new plan; none for slots.
    pub plan_id: Option<String>,
    /// The item's id at the processor; none if it is new.
    pub item_id: Option<String>,
    /// The new price.
    pub price_id: String,
    /// For a plan: the item's previous price.
    pub price_before: Option<String>,
    /// For a plan: the price of the version that the current period was paid with.
    pub paid_price_id: Option<String>,
    /// The quantity before.
    pub count_before: i64,
    /// The quantity afterwards.
    pub count_after: i64,
}

/// A change as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotChange {
    /// Its id.
    pub id: ChangeId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The kind of change.
    pub kind: SlotChangeKind,
    /// The subscription to change.
    pub subscription_id: String,
    /// The account that gets a slot first.
    pub creator: Option<CreatorId>,
    /// How it affects the payment for the current period.
    pub proration: ChangeProration,
    /// Which of its requests it has reached.
    pub step: ChangeStep,
    /// The end of the period in which it was made.
    pub period_end: Option<Timestamp>,
    /// The invoice paid for it, if known.
    pub invoice_id: Option<String>,
    /// What was charged for it, in cents, if known.
    pub charged_cents: Option<i64>,
    /// The instant from which proration is computed, in Unix seconds.
    pub proration_date_s: i64,
    /// Who requested it.
    pub actor: String,
    /// Its state.
    pub state: SlotChangeState,
    /// The processor's code for why it failed.
    pub failure: Option<String>,
    /// The bank's decline code.
    pub decline_code: Option<String>,
    /// The number of attempts to carry it out: the fencing number of the lease.
    pub attempts: i64,
    /// When the lease expires.
    pub leased_until: Timestamp,
    /// When it was requested.
    pub created_at: Timestamp,
    /// The changes of the items.
    pub items: Vec<SlotChangeItem>,
}

/// The outcome of starting a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChangeStart {
    /// It is open, and the caller holds its lease.
    Started(Box<SlotChange>),
    /// Another change is open.
    Busy(Box<SlotChange>),
    /// Accounts occupy the slots that it would remove; nothing was stored.
    InUse(OccupiedSlots),
    /// The subscription was updated since the version was read: decide again.
    Overtaken,
}

/// Why a change failed.
#[derive(Debug, Clone, Copy)]
pub struct SlotChangeFailure<'a> {
    /// The processor's or our own code.
    pub code: &'a str,
    /// The bank's decline code.
    pub decline_code: Option<&'a str>,
    /// The current time.
    pub at: Timestamp,
}

impl SlotChange {
    /// Whether the processor's subscription shows that it was carried out.
    pub fn is_shown_by(&self, view: &SubscriptionView) -> bool {
        let shows = |item: &SlotChangeItem| match item.platform {
            Some(platform) => view.slots(platform) == item.count_after,
            None => view.plan_item().is_some_and(|shown| shown.price_id == item.price_id),
        };
        self.step == ChangeStep::Change
            && view.subscription_id.as_deref() == Some(self.subscription_id.as_str())
            && self.items.iter().all(shows)
    }

    /// The change of the plan's item, if the plan changes.
    pub fn plan_item(&self) -> Option<&SlotChangeItem> {
        self.items.iter().find(|item| item.platform.is_none())
    }

    /// The price to restore on the plan's item if an upgrade fails: the one that was pending.
    pub fn pending_before(&self) -> Option<&str> {
        let item = self.plan_item().filter(|_| self.proration == ChangeProration::PayNow)?;
        let before = item.price_before.as_deref()?;
        (item.paid_price_id.as_deref() != Some(before)).then_some(before)
    }
}

/// Stores a change, unless another one is open or it would remove slots in use. From then on the
/// slots that it gives up cannot be used.
pub async fn start(
    store: &Store,
    new: &NewSlotChange,
    allowances: &AccountAllowances,
) -> Result<SlotChangeStart, StoreError> {
    let mut tx = store.write().await?;
    customers::lock(&mut tx, new.customer).await?;
    if let Some(open) = find_open_in(&mut tx, new.customer).await? {
        return Ok(SlotChangeStart::Busy(Box::new(open)));
    }
    if subscriptions::version_in(&mut tx, new.customer).await? != new.version {
        return Ok(SlotChangeStart::Overtaken);
    }
    let before = slot_limits::of(&mut tx, new.customer, allowances).await?.limit;
    insert(&mut tx, new, store.holder()).await?;
    let after = slot_limits::of(&mut tx, new.customer, allowances).await?.limit;
    if let Some(occupied) =
        slot_assignment::occupied(&mut tx, new.customer, &before, &after).await?
    {
        return Ok(SlotChangeStart::InUse(occupied));
    }
    let open = find_open_in(&mut tx, new.customer).await?;
    tx.commit().await?;
    open.map(|change| SlotChangeStart::Started(Box::new(change)))
        .ok_or_else(|| StoreError::corrupt("slot_changes", new.id.to_string()))
}

/// Takes over an open change that no node has, identified by the attempt number that was read. None
/// if another node was faster or it is no longer open.
pub async fn take_over(
    store: &Store,
    change: &SlotChange,
    now: Timestamp,
    leased_until: Timestamp,
) -> Result<Option<SlotChange>, StoreError> {
    const SQL: &str = "
        update slot_changes set attempts = attempts + 1, leased_until = $4, leased_by = $5
        where id = $1 and state = 'open' and attempts = $2
          and leased_by is null and leased_until <= $3";
    let values = [
        change.id.into(),
        change.attempts.into(),
        now.into(),
        leased_until.into(),
        store.holder().into(),
    ];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 0 {
        return Ok(None);
    }
    tx.commit().await?;
    let attempts = change.attempts.saturating_add(1);
    Ok(Some(SlotChange { attempts, leased_until, ..change.clone() }))
}

/// Lets other nodes take over an open change from `free_from` on, unless one already has.
pub async fn release(
    store: &Store,
    change: &SlotChange,
    free_from: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update slot_changes set leased_until = $3, leased_by = null
        where id = $1 and attempts = $2 and state = 'open'";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[change.id.into(), change.attempts.into(), free_from.into()]).await?;
    tx.commit().await
}

/// Advances a change to another request, with the lease extended to `leased_until`. None if it is
/// no longer open or was taken over.
pub async fn set_step(
    store: &Store,
    change: &SlotChange,
    step: ChangeStep,
    leased_until: Timestamp,
) -> Result<Option<SlotChange>, StoreError> {
    const SQL: &str = "
        update slot_changes set step = $3, leased_until = $4
        where id = $1 and attempts = $2 and state = 'open'";
    let values =
        [change.id.into(), change.attempts.into(), step.as_str().into(), leased_until.into()];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 0 {
        return Ok(None);
    }
    tx.commit().await?;
    Ok(Some(SlotChange { step, leased_until, ..change.clone() }))
}

/// Records why an upgrade failed, and that the previously pending plan has to be restored. None if
/// the change is no longer open or was taken over.
pub async fn begin_restore(
    store: &Store,
    change: &SlotChange,
    failure: SlotChangeFailure<'_>,
    leased_until: Timestamp,
) -> Result<Option<SlotChange>, StoreError> {
    const SQL: &str = "
        update slot_changes set step = 'restore', failure = $3, decline_code = $4, leased_until = $5
        where id = $1 and attempts = $2 and state = 'open'";
    let values = [
        change.id.into(),
        change.attempts.into(),
        failure.code.into(),
        failure.decline_code.into(),
        leased_until.into(),
    ];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 0 {
        return Ok(None);
    }
    tx.commit().await?;
    Ok(Some(SlotChange {
        step: ChangeStep::Restore,
        leased_until,
        failure: Some(failure.code.to_owned()),
        decline_code: failure.decline_code.map(str::to_owned),
        ..change.clone()
    }))
}

/// Records the invoice paid for a change, and how much was charged.
pub async fn note_charge(
    store: &Store,
    id: ChangeId,
    invoice_id: &str,
    charged_cents: i64,
) -> Result<(), StoreError> {
    const SQL: &str = "update slot_changes set invoice_id = $2, charged_cents = $3 where id = $1";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[id.into(), invoice_id.into(), charged_cents.into()]).await?;
    tx.commit().await
}

/// Closes a change that the processor refused, and gives the slots that it would have removed to
/// accounts that wait for one. `note` makes the audit entry about them. None if it was already
/// closed or taken over.
pub async fn fail(
    store: &Store,
    change: &SlotChange,
    failure: SlotChangeFailure<'_>,
    allowances: &AccountAllowances,
    note: &(dyn Fn(&[SlotShift]) -> Option<AuditEntry> + Send + Sync),
) -> Result<Option<Vec<SlotShift>>, StoreError> {
    const SQL: &str = "
        update slot_changes set state = 'failed', failure = $3, decline_code = $4, closed_at = $5
        where id = $1 and attempts = $2 and state = 'open'";
    let values = [
        change.id.into(),
        change.attempts.into(),
        failure.code.into(),
        failure.decline_code.into(),
        failure.at.into(),
    ];
    let mut tx = store.write().await?;
    customers::lock(&mut tx, change.customer).await?;
    if tx.execute(SQL, &values).await? == 0 {
        return Ok(None);
    }
    let limits = slot_limits::of(&mut tx, change.customer, allowances).await?.limit;
    let shifts = slot_assignment::fill(&mut tx, change.customer, &limits, None).await?;
    if let Some(entry) = note(&shifts) {
        audit::insert(&mut tx, &entry).await?;
    }
    tx.commit().await?;
    Ok(Some(shifts))
}

/// A change by its id.
pub async fn find(store: &Store, id: ChangeId) -> Result<Option<SlotChange>, StoreError> {
    let mut tx = store.snapshot().await?;
    let row = tx.row(select("id = $1"), &[id.into()]).await?;
    with_items(&mut tx, row).await
}

/// The open change of a customer.
pub async fn find_open(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<SlotChange>, StoreError> {
    find_open_in(&mut store.snapshot().await?, customer).await
}

/// Open changes that no node is carrying out and that are due.
pub async fn list_left(
    store: &Store,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<SlotChange>, StoreError> {
    const SQL: &str = "
        select customer_id from slot_changes
        where state = 'open' and leased_by is null and leased_until <= $1 order by leased_until limit $2";
    let mut tx = store.snapshot().await?;
    let rows = tx.rows(SQL, &[now.into(), limit.into()]).await?;
    let mut left = Vec::new();
    for row in rows {
        left.extend(find_open_in(&mut tx, row.parse("customer_id", "slot_changes")?).await?);
    }
    Ok(left)
}

pub(crate) async fn find_open_in(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<Option<SlotChange>, StoreError> {
    let row = tx.row(select("customer_id = $1 and state = 'open'"), &[customer.into()]).await?;
    with_items(tx, row).await
}

/// Closes a change that the processor's subscription shows.
pub(crate) async fn close_applied(
    tx: &mut Tx,
    id: ChangeId,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update slot_changes set state = 'applied', closed_at = $2
        where id = $1 and state = 'open'";
    tx.execute(SQL, &[id.into(), at.into()]).await?;
    Ok(())
}

async fn insert(tx: &mut Tx, new: &NewSlotChange, holder: &str) -> Result<(), StoreError> {
    const CHANGE: &str = "
        insert into slot_changes
            (id, customer_id, kind, subscription_id, creator_id, charged_at_once, proration_date,
             actor, state, attempts, leased_until, created_at, moves_no_money, step, period_end,
             leased_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, 'open', 1, $9, $10, $11, $12, $13, $14)";
    const ITEM: &str = "
        insert into slot_change_items
            (change_id, place, platform, plan_id, item_id, price_id, count_before, count_after,
             price_before, paid_price_id)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let values = [
        new.id.into(),
        new.customer.into(),
        new.kind.as_str().into(),
        new.subscription_id.as_str().into(),
        new.creator.as_ref().map(CreatorId::as_str).into(),
        i64::from(new.proration == ChangeProration::PayNow).into(),
        new.proration_date_s.into(),
        new.actor.as_str().into(),
        new.leased_until.into(),
        new.at.into(),
        i64::from(new.proration == ChangeProration::None).into(),
        new.step.as_str().into(),
        new.period_end.into(),
        holder.into(),
    ];
    tx.execute(CHANGE, &values).await?;
    for (place, item) in (0_i64..).zip(&new.items) {
        let of_item = [
            new.id.into(),
            place.into(),
            item.platform.map(Platform::stored_name).into(),
            item.plan_id.as_deref().into(),
            item.item_id.as_deref().into(),
            item.price_id.as_str().into(),
            item.count_before.into(),
            item.count_after.into(),
            item.price_before.as_deref().into(),
            item.paid_price_id.as_deref().into(),
        ];
        tx.execute(ITEM, &of_item).await?;
    }
    Ok(())
}

fn select(condition: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!(
        "select id, customer_id, kind, subscription_id, creator_id, charged_at_once, proration_date,
                actor, state, failure, decline_code, attempts, leased_until, created_at,
                moves_no_money, step, period_end, invoice_id, charged_cents
         from slot_changes where {condition}"
    ))
}

async fn with_items(tx: &mut Tx, row: Option<SqlRow>) -> Result<Option<SlotChange>, StoreError> {
    const ITEMS: &str = "
        select platform, plan_id, item_id, price_id, count_before, count_after,
            price_before, paid_price_id
        from slot_change_items where change_id = $1 order by place";
    let Some(row) = row else { return Ok(None) };
    let mut change = change(&row)?;
    for item in tx.rows(ITEMS, &[change.id.into()]).await? {
        change.items.push(SlotChangeItem {
            platform: item.optional_platform("platform", "slot_change_items")?,
            plan_id: item.optional_text("plan_id")?,
            item_id: item.optional_text("item_id")?,
            price_id: item.text("price_id")?,
            count_before: item.int("count_before")?,
            count_after: item.int("count_after")?,
            price_before: item.optional_text("price_before")?,
            paid_price_id: item.optional_text("paid_price_id")?,
        });
    }
    Ok(Some(change))
}

fn change(row: &SqlRow) -> Result<SlotChange, StoreError> {
    Ok(SlotChange {
        id: row.parse("id", "slot_changes")?,
        customer: row.parse("customer_id", "slot_changes")?,
        kind: row.parse("kind", "slot_changes")?,
        subscription_id: row.text("subscription_id")?,
        creator: row.parse_optional("creator_id", "slot_changes")?,
        proration: proration(row)?,
        proration_date_s: row.int("proration_date")?,
        actor: row.text("actor")?,
        state: row.parse("state", "slot_changes")?,
        failure: row.optional_text("failure")?,
        decline_code: row.optional_text("decline_code")?,
        attempts: row.int("attempts")?,
        leased_until: row.time("leased_until")?,
        created_at: row.time("created_at")?,
        step: row.parse("step", "slot_changes")?,
        period_end: row.optional_time("period_end")?,
        invoice_id: row.optional_text("invoice_id")?,
        charged_cents: row.optional_int("charged_cents")?,
        items: Vec::new(),
    })
}

fn proration(row: &SqlRow) -> Result<ChangeProration, StoreError> {
    Ok(match (row.int("charged_at_once")?, row.int("moves_no_money")?) {
        (0, 0) => ChangeProration::NextInvoice,
        (0, _) => ChangeProration::None,
        _ => ChangeProration::PayNow,
    })
}
