//! Subscriptions: the last known state of each customer's subscription at the processor.
//!
//! A reader of the processor's subscription first reads the version here, and writes only if it is
//! unchanged. So a state that was read earlier never replaces one that was read later, in whatever
//! order events arrive.

use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::plan::PlanVersion;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::jobs::{self, NewJob};
use crate::slot_assignment::{self, SlotShift};
use crate::slot_changes::{self, SlotChange};
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, customers, plan_versions, slot_limits};

/// A subscription's state at the processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionView {
    /// Its id at the processor; none if there is no subscription.
    pub subscription_id: Option<String>,
    /// Its status.
    pub status: SubscriptionStatus,
    /// When the paid period began.
    pub period_start: Option<Timestamp>,
    /// When the paid period ends: the billing date.
    pub period_end: Option<Timestamp>,
    /// When the subscription ends permanently, if known.
    pub cancels_at: Option<Timestamp>,
    /// Its items: the slots, and the plan that the next period will be charged for.
    pub items: Vec<PaidItem>,
    /// The plan version that this period was paid with, or will be while the processor retries the
    /// payment.
    pub paid: Option<PlanVersion>,
    /// When the period of that version ends.
    pub paid_until: Option<Timestamp>,
    /// The subscription's latest invoice.
    pub latest_invoice_id: Option<String>,
}

/// One item of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidItem {
    /// Its id at the processor.
    pub id: String,
    /// Its price at the processor.
    pub price_id: String,
    /// What it provides.
    pub gives: ItemBenefit,
    /// The quantity.
    pub quantity: i64,
}

/// What an item provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemBenefit {
    /// The plan with this id.
    Plan(String),
    /// Extra slots on a platform.
    Slots(Platform),
    /// Nothing that this service knows.
    Other,
}

/// A subscription as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSubscription {
    /// Incremented with each write.
    pub version: i64,
    /// The state at the processor.
    pub view: SubscriptionView,
    /// When that was read.
    pub synced_at: Timestamp,
}

/// A state read from the processor, to be stored.
pub struct SubscriptionReading<'a> {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The version read before the processor was asked; 0 if there was none.
    pub version: i64,
    /// The state at the processor.
    pub view: &'a SubscriptionView,
    /// The slots of plans and customers.
    pub allowances: &'a AccountAllowances,
    /// The current time.
    pub at: Timestamp,
    /// Makes the audit entries and jobs that follow from the update.
    pub tell: &'a (dyn Fn(&SubscriptionUpdate) -> ChangeRecords + Send + Sync),
}

/// What a new state has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionUpdate {
    /// The customer whose subscription it is.
    pub customer: CustomerId,
    /// The previous state; none the first time.
    pub before: Option<SubscriptionView>,
    /// The new state.
    pub now: SubscriptionView,
    /// Accounts that got or lost a slot.
    pub shifts: Vec<SlotShift>,
    /// The change that this state shows to have been carried out.
    pub applied: Option<SlotChange>,
}

/// What is written together with a change.
#[derive(Debug, Clone, Default)]
pub struct ChangeRecords {
    /// Entries for the audit list.
    pub entries: Vec<AuditEntry>,
    /// The emails to send.
    pub jobs: Vec<NewJob>,
}

/// The outcome of storing a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionApplication {
    /// It is stored.
    Applied(Box<SubscriptionUpdate>),
    /// Another update was stored since the version was read: ask the processor again.
    Overtaken,
}

impl SubscriptionView {
    /// No subscription.
    pub const fn none() -> Self {
        Self {
            subscription_id: None,
            status: SubscriptionStatus::None,
            period_start: None,
            period_end: None,
            cancels_at: None,
            items: Vec::new(),
            paid: None,
            paid_until: None,
            latest_invoice_id: None,
        }
    }

    /// The plan's item, if there is one. Its price is what renews, which may be a pending plan.
    pub fn plan_item(&self) -> Option<&PaidItem> {
        self.items
            .iter()
            .find(|item| item.quantity > 0 && matches!(item.gives, ItemBenefit::Plan(_)))
    }

    /// The id of the plan that the period was paid with, or if its version is unknown, of the
    /// plan's item.
    pub fn plan_id(&self) -> Option<&str> {
        let of_item = || match &self.plan_item()?.gives {
            ItemBenefit::Plan(plan) => Some(plan.as_str()),
            ItemBenefit::Slots(_) | ItemBenefit::Other => None,
        };
        self.paid.as_ref().map(|version| version.plan_id.as_str()).or_else(of_item)
    }

    /// Whether it ends with its current period instead of renewing.
    pub fn ends_with_period(&self) -> bool {
        let end = self.period_end;
        self.cancels_at.is_some_and(|at| end.is_none_or(|end| at <= end))
    }

    /// The item with the slots of a platform.
    pub fn slot_item(&self, platform: Platform) -> Option<&PaidItem> {
        self.items.iter().find(|item| item.gives == ItemBenefit::Slots(platform))
    }

    /// The extra slots of a platform.
    pub fn slots(&self, platform: Platform) -> i64 {
        let own = self.items.iter().filter(|item| item.gives == ItemBenefit::Slots(platform));
        own.fold(0_i64, |sum, item| sum.saturating_add(item.quantity))
    }
}

/// The stored subscription of a customer; none if the processor was never asked.
pub async fn find(
    store: &Store,
    customer: CustomerId,
) -> Result<Option<StoredSubscription>, StoreError> {
    find_in(&mut store.snapshot().await?, customer).await
}

/// The version to pass to `apply`, read before the processor is asked; 0 if it never was.
pub async fn version(store: &Store, customer: CustomerId) -> Result<i64, StoreError> {
    version_in(&mut store.read().await?, customer).await
}

/// Stores a state of the processor, closes the change that it shows to have been carried out, and
/// assigns slots by the new limits, all in one transaction under the customer's lock.
pub async fn apply(
    store: &Store,
    reading: &SubscriptionReading<'_>,
) -> Result<SubscriptionApplication, StoreError> {
    let mut tx = store.write().await?;
    customers::lock(&mut tx, reading.customer).await?;
    let before = find_in(&mut tx, reading.customer).await?;
    if before.as_ref().map_or(0, |known| known.version) != reading.version {
        return Ok(SubscriptionApplication::Overtaken);
    }
    write(&mut tx, reading).await?;
    let open = slot_changes::find_open_in(&mut tx, reading.customer).await?;
    let first = open.as_ref().and_then(|change| change.creator.clone());
    let applied = open.filter(|change| change.is_shown_by(reading.view));
    if let Some(change) = &applied {
        slot_changes::close_applied(&mut tx, change.id, reading.at).await?;
    }
    let limits = slot_limits::of(&mut tx, reading.customer, reading.allowances).await?.limit;
    let shifts = slot_assignment::fit(&mut tx, reading.customer, &limits, first.as_ref()).await?;
    let happened = SubscriptionUpdate {
        customer: reading.customer,
        before: before.map(|known| known.view),
        now: reading.view.clone(),
        shifts,
        applied,
    };
    tell(&mut tx, &(reading.tell)(&happened)).await?;
    tx.commit().await?;
    Ok(SubscriptionApplication::Applied(Box::new(happened)))
}

/// The customers with a running subscription, ordered by id, one page at a time, for comparing all
/// of them with the processor.
pub async fn list_live(
    store: &Store,
    after: Option<CustomerId>,
    limit: i64,
) -> Result<Vec<CustomerId>, StoreError> {
    const SQL: &str = "
        select customer_id from subscriptions
        where status not in ('none', 'canceled') and customer_id > $1
        order by customer_id limit $2";
    let after = after.map(|customer| customer.to_string()).unwrap_or_default();
    let rows = store.read().await?.rows(SQL, &[after.into(), limit.into()]).await?;
    rows.iter().map(|row| row.parse("customer_id", "subscriptions")).collect()
}

/// Writes the audit entries and jobs that follow from a change.
pub(crate) async fn tell(tx: &mut Tx, told: &ChangeRecords) -> Result<(), StoreError> {
    for entry in &told.entries {
        audit::insert(tx, entry).await?;
    }
    jobs::insert_all(tx, &told.jobs).await
}

pub(crate) async fn version_in(tx: &mut Tx, customer: CustomerId) -> Result<i64, StoreError> {
    const SQL: &str = "select version from subscriptions where customer_id = $1";
    let row = tx.row(SQL, &[customer.into()]).await?;
    row.map_or(Ok(0), |row| row.int("version"))
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    customer: CustomerId,
) -> Result<Option<StoredSubscription>, StoreError> {
    const SQL: &str = "
        select version, subscription_id, status, period_start, period_end, cancels_at, synced_at,
            paid_price_id, paid_until, latest_invoice_id
        from subscriptions where customer_id = $1";
    const ITEMS: &str = "
        select item_id, price_id, kind, plan_id, platform, quantity
        from subscription_items where customer_id = $1 order by item_id";
    let Some(row) = tx.row(SQL, &[customer.into()]).await? else { return Ok(None) };
    let items = tx.rows(ITEMS, &[customer.into()]).await?;
    Ok(Some(StoredSubscription {
        version: row.int("version")?,
        view: SubscriptionView {
            subscription_id: row.optional_text("subscription_id")?,
            status: row.parse("status", "subscriptions")?,
            period_start: row.optional_time("period_start")?,
            period_end: row.optional_time("period_end")?,
            cancels_at: row.optional_time("cancels_at")?,
            items: items.iter().map(item).collect::<Result<_, _>>()?,
            paid: match row.optional_text("paid_price_id")? {
                Some(price) => plan_versions::find_in(tx, &price).await?,
                None => None,
            },
            paid_until: row.optional_time("paid_until")?,
            latest_invoice_id: row.optional_text("latest_invoice_id")?,
        },
        synced_at: row.time("synced_at")?,
    }))
}

async fn write(tx: &mut Tx, reading: &SubscriptionReading<'_>) -> Result<(), StoreError> {
    const ROW: &str = "
        insert into subscriptions
            (customer_id, version, subscription_id, status, period_start, period_end, cancels_at, synced_at,
             paid_price_id, paid_until, latest_invoice_id)
        values ($1, 1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        on conflict (customer_id) do update set
            version = subscriptions.version + 1, subscription_id = excluded.subscription_id,
            status = excluded.status, period_start = excluded.period_start,
            period_end = excluded.period_end, cancels_at = excluded.cancels_at,
            synced_at = excluded.synced_at, paid_price_id = excluded.paid_price_id,
            paid_until = excluded.paid_until, latest_invoice_id = excluded.latest_invoice_id";
    const FORGET: &str = "delete from subscription_items where customer_id = $1";
    let view = reading.view;
    let values = [
        reading.customer.into(),
        view.subscription_id.as_deref().into(),
        view.status.as_str().into(),
        view.period_start.into(),
        view.period_end.into(),
        view.cancels_at.into(),
        reading.at.into(),
        view.paid.as_ref().map(|version| version.price_id.as_str()).into(),
        view.paid_until.into(),
        view.latest_invoice_id.as_deref().into(),
    ];
    tx.execute(ROW, &values).await?;
    tx.execute(FORGET, &[reading.customer.into()]).await?;
    for item in &view.items {
        insert_item(tx, reading.customer, item).await?;
    }
    Ok(())
}

async fn insert_item(tx: &mut Tx, customer: CustomerId, item: &PaidItem) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into subscription_items
            (customer_id, item_id, price_id, kind, plan_id, platform, quantity)
        values ($1, $2, $3, $4, $5, $6, $7)";
    let (kind, plan, platform) = match &item.gives {
        ItemBenefit::Plan(plan) => ("plan", Some(plan.as_str()), None),
        ItemBenefit::Slots(platform) => ("slot", None, Some(platform.stored_name())),
        ItemBenefit::Other => ("other", None, None),
    };
    let values = [
        customer.into(),
        item.id.as_str().into(),
        item.price_id.as_str().into(),
        kind.into(),
        plan.into(),
        platform.into(),
        item.quantity.max(0).into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

fn item(row: &SqlRow) -> Result<PaidItem, StoreError> {
    let platform = row.optional_platform("platform", "subscription_items")?;
    let gives = match (row.text("kind")?.as_str(), row.optional_text("plan_id")?, platform) {
        ("plan", Some(plan), _) => ItemBenefit::Plan(plan),
        ("slot", _, Some(platform)) => ItemBenefit::Slots(platform),
        _ => ItemBenefit::Other,
    };
    Ok(PaidItem {
        id: row.text("item_id")?,
        price_id: row.text("price_id")?,
        gives,
        quantity: row.int("quantity")?,
    })
}

impl std::fmt::Debug for SubscriptionReading<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SubscriptionReading({} after {})", self.customer, self.version)
    }
}

/// An account that a change would leave without a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplacedAccount {
    /// The account.
    pub creator_id: CreatorId,
    /// Its platform.
    pub platform: Platform,
}
