//! Previews: for which instant a customer was told the cost of a change, so that the change costs what it was told.

use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// What a customer was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preview {
    /// The platform of the slots.
    pub platform: Platform,
    /// How many there would be.
    pub slots: i64,
    /// The instant from which the difference was counted, in seconds since 1970.
    pub proration_date_s: i64,
    /// When it was told.
    pub made_at: Timestamp,
}

/// Remembers what a customer was told of a platform, in the place of what it was told before.
pub async fn remember(
    store: &Store,
    customer: CustomerId,
    preview: &Preview,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into slot_previews (customer_id, platform, slots, proration_date, made_at)
        values ($1, $2, $3, $4, $5)
        on conflict (customer_id, platform) do update set
            slots = excluded.slots, proration_date = excluded.proration_date,
            made_at = excluded.made_at";
    let values = [
        customer.into(),
        preview.platform.as_str().into(),
        preview.slots.into(),
        preview.proration_date_s.into(),
        preview.made_at.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// What a customer was last told of a platform.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    platform: Platform,
) -> Result<Option<Preview>, StoreError> {
    const SQL: &str = "
        select slots, proration_date, made_at from slot_previews
        where customer_id = $1 and platform = $2";
    let values = [customer.into(), platform.as_str().into()];
    let Some(row) = store.read().await?.row(SQL, &values).await? else { return Ok(None) };
    Ok(Some(Preview {
        platform,
        slots: row.int(0)?,
        proration_date_s: row.int(1)?,
        made_at: row.time(2)?,
    }))
}
