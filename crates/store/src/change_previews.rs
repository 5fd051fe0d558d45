//! Previews: the instant for which a customer was shown the cost of a change, so that the change
//! costs exactly that.

use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// A cost shown to a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPreview {
    /// What would change: a platform's slots, a switch, or the plan. One preview of each is kept.
    pub subject: String,
    /// The requested new value.
    pub wanted: String,
    /// The instant from which proration was computed, in Unix seconds.
    pub proration_date_s: i64,
    /// When it was shown.
    pub made_at: Timestamp,
}

/// Stores a preview, replacing an earlier one of the same subject.
pub async fn remember(
    store: &Store,
    customer: CustomerId,
    preview: &StoredPreview,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into change_previews (customer_id, subject, wanted, proration_date, made_at)
        values ($1, $2, $3, $4, $5)
        on conflict (customer_id, subject) do update set
            wanted = excluded.wanted, proration_date = excluded.proration_date,
            made_at = excluded.made_at";
    let values = [
        customer.into(),
        preview.subject.as_str().into(),
        preview.wanted.as_str().into(),
        preview.proration_date_s.into(),
        preview.made_at.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// The last preview of a subject.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    subject: &str,
) -> Result<Option<StoredPreview>, StoreError> {
    const SQL: &str = "
        select wanted, proration_date, made_at from change_previews
        where customer_id = $1 and subject = $2";
    let values = [customer.into(), subject.into()];
    let Some(row) = store.read().await?.row(SQL, &values).await? else { return Ok(None) };
    Ok(Some(StoredPreview {
        subject: subject.to_owned(),
        wanted: row.text("wanted")?,
        proration_date_s: row.int("proration_date")?,
        made_at: row.time("made_at")?,
    }))
}
