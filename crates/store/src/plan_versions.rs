//! Plan versions: what each of the processor's prices sells, recorded when it is first seen and
//! never changed.

use domain::plan::PlanVersion;
use domain::slot::AccountCounts;
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A price in a running subscription, and the plan that its item was read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVersion {
    /// The price at the processor.
    pub price_id: String,
    /// The plan's id, if known.
    pub plan_id: Option<String>,
}

/// What the price sells; none if it was never seen.
pub async fn find(store: &Store, price_id: &str) -> Result<Option<PlanVersion>, StoreError> {
    find_in(&mut store.read().await?, price_id).await
}

/// Records a version unless its price is known. Returns the recorded version, which differs if the
/// price was first seen with another one.
pub async fn write_down(
    store: &Store,
    version: &PlanVersion,
    at: Timestamp,
) -> Result<PlanVersion, StoreError> {
    const SQL: &str = "
        insert into plan_versions
            (price_id, plan_id, price_cents, monthly_credits, accounts, seen_at)
        values ($1, $2, $3, $4, $5, $6) on conflict (price_id) do nothing";
    if let Some(known) = find(store, &version.price_id).await? {
        return Ok(known);
    }
    let values = [
        version.price_id.as_str().into(),
        version.plan_id.as_str().into(),
        version.price_cents.into(),
        version.monthly_credits.into(),
        version.accounts.to_string().into(),
        at.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    let known = find_in(&mut tx, &version.price_id).await?;
    tx.commit().await?;
    known.ok_or_else(|| StoreError::corrupt("plan_versions", &version.price_id))
}

/// The plan prices in running subscriptions that have no recorded version.
pub async fn list_unknown(store: &Store) -> Result<Vec<UnknownVersion>, StoreError> {
    const SQL: &str = "
        select distinct i.price_id, i.plan_id
        from subscriptions s join subscription_items i on i.customer_id = s.customer_id
        where s.status not in ('none', 'canceled') and i.kind = 'plan'
            and not exists (select 1 from plan_versions v where v.price_id = i.price_id)
        order by i.price_id";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(UnknownVersion {
                price_id: row.text("price_id")?,
                plan_id: row.optional_text("plan_id")?,
            })
        })
        .collect()
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    price_id: &str,
) -> Result<Option<PlanVersion>, StoreError> {
    const SQL: &str = "
        select price_id, plan_id, price_cents, monthly_credits, accounts
        from plan_versions where price_id = $1";
    tx.row(SQL, &[price_id.into()]).await?.as_ref().map(version).transpose()
}

fn version(row: &SqlRow) -> Result<PlanVersion, StoreError> {
    Ok(PlanVersion {
        price_id: row.text("price_id")?,
        plan_id: row.text("plan_id")?,
        price_cents: row.int("price_cents")?,
        monthly_credits: row.int("monthly_credits")?,
        accounts: row.parse::<AccountCounts>("accounts", "plan_versions")?,
    })
}
