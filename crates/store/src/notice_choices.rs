//! Which notices customers want, where they decided.

use domain::credits::Credits;
use domain::id::CustomerId;
use domain::notice::NoticeKind;

use crate::audit::{self, AuditEntry};
use crate::sql::SqlRow;
use crate::{Store, StoreError};

/// What a customer decided about one kind of notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeChoice {
    /// The kind.
    pub kind: NoticeKind,
    /// Whether it is sent.
    pub is_on: bool,
    /// The balance below which a low balance is told; none: the default of the service.
    pub threshold: Option<Credits>,
}

/// The customer's decisions.
pub async fn list(store: &Store, customer: CustomerId) -> Result<Vec<NoticeChoice>, StoreError> {
    const SQL: &str = "
        select kind, is_on, threshold_credits from notice_choices where customer_id = $1 order by kind";
    let rows = store.read().await?.rows(SQL, &[customer.into()]).await?;
    rows.iter().map(choice).collect()
}

/// Stores decisions of the entry's customer, replacing earlier ones about the same kinds. A
/// threshold that is not given stays as it is.
pub async fn set(
    store: &Store,
    choices: &[NoticeChoice],
    entry: &AuditEntry,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into notice_choices (customer_id, kind, is_on, threshold_credits, changed_at)
        values ($1, $2, $3, $4, $5)
        on conflict (customer_id, kind) do update
            set is_on = excluded.is_on, changed_at = excluded.changed_at,
                threshold_credits = coalesce(excluded.threshold_credits, notice_choices.threshold_credits)";
    let mut tx = store.write().await?;
    for choice in choices {
        let values = [
            entry.customer.into(),
            choice.kind.as_str().into(),
            i64::from(choice.is_on).into(),
            choice.threshold.map(Credits::whole).into(),
            entry.at.into(),
        ];
        tx.execute(SQL, &values).await?;
    }
    audit::insert(&mut tx, entry).await?;
    tx.commit().await
}

fn choice(row: &SqlRow) -> Result<NoticeChoice, StoreError> {
    Ok(NoticeChoice {
        kind: row.parse("kind", "notice_choices")?,
        is_on: row.int("is_on")? != 0,
        threshold: row.optional_int("threshold_credits")?.map(Credits::from_whole),
    })
}
