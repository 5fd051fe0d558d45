//! What lowering slots credited: read from the processor once for each change, item by item, so
//! that nothing counts twice.

use std::collections::BTreeSet;

use domain::id::ChangeId;
use domain::time::Timestamp;

use crate::slot_changes::{self, SlotChange};
use crate::{Store, StoreError};

/// Lowerings that were credited for the rest of the period, whose credit was not read yet, oldest
/// first.
pub async fn list_unread(
    store: &Store,
    closed_before: Timestamp,
    limit: i64,
) -> Result<Vec<ChangeId>, StoreError> {
    const SQL: &str = "
        select id from slot_changes
        where state = 'applied' and kind = 'lower' and moves_no_money = 0 and credited_cents is null
            and closed_at < $1
        order by closed_at limit $2";
    let rows = store.read().await?.rows(SQL, &[closed_before.into(), limit.into()]).await?;
    rows.iter().map(|row| row.parse("id", "slot_changes")).collect()
}

/// One such lowering; none if its credit was read or there is none.
pub async fn find_unread(store: &Store, id: ChangeId) -> Result<Option<SlotChange>, StoreError> {
    const SQL: &str = "
        select 1 from slot_changes
        where id = $1 and state = 'applied' and kind = 'lower' and moves_no_money = 0
            and credited_cents is null";
    let is_unread = store.read().await?.row(SQL, &[id.into()]).await?.is_some();
    if is_unread { slot_changes::find(store, id).await } else { Ok(None) }
}

/// The processor's invoice items that were credits of other changes of the same subscription.
pub async fn list_counted(
    store: &Store,
    change: &SlotChange,
) -> Result<BTreeSet<String>, StoreError> {
    const SQL: &str = "
        select i.invoice_item_id
        from slot_credit_items i join slot_changes c on c.id = i.change_id
        where c.subscription_id = $1 and c.id <> $2";
    let values = [change.subscription_id.as_str().into(), change.id.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter().map(|row| row.text("invoice_item_id")).collect()
}

/// Records which items make up a change's credit, before it is counted. An item that counts for
/// another change is skipped.
pub async fn claim(store: &Store, id: ChangeId, items: &[String]) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into slot_credit_items (invoice_item_id, change_id) values ($1, $2)
        on conflict (invoice_item_id) do nothing";
    if items.is_empty() {
        return Ok(());
    }
    let mut tx = store.write().await?;
    for item in items {
        tx.execute(SQL, &[item.as_str().into(), id.into()]).await?;
    }
    tx.commit().await
}

/// Records what a change credited, in cents, once.
pub async fn note(store: &Store, id: ChangeId, credited_cents: i64) -> Result<(), StoreError> {
    const SQL: &str = "
        update slot_changes set credited_cents = $2 where id = $1 and credited_cents is null";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[id.into(), credited_cents.into()]).await?;
    tx.commit().await
}
