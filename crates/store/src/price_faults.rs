//! Prices at the processor that are not what the configuration sells. What has a fault is not for
//! sale, on every node, until its price is right again.

use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::{Store, StoreError};

/// A price that does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceFault {
    /// What is sold at it, such as `pack:pack_10`.
    pub subject: String,
    /// The price's id in the configuration, or the word that it is found by.
    pub price_ref: String,
    /// The price's id at the processor.
    pub price_id: String,
    /// What is wrong, for people.
    pub fault: String,
    /// When it was found.
    pub found_at: Timestamp,
}

/// All faults.
pub async fn list(store: &Store) -> Result<Vec<PriceFault>, StoreError> {
    const SQL: &str = "
        select subject, price_ref, price_id, fault, found_at from price_faults order by subject, price_ref";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(PriceFault {
                subject: row.text("subject")?,
                price_ref: row.text("price_ref")?,
                price_id: row.text("price_id")?,
                fault: row.text("fault")?,
                found_at: row.time("found_at")?,
            })
        })
        .collect()
}

/// The fault of one price, if it has one.
pub async fn find(
    store: &Store,
    subject: &str,
    price_ref: &str,
) -> Result<Option<PriceFault>, StoreError> {
    let all = list(store).await?;
    Ok(all.into_iter().find(|fault| fault.subject == subject && fault.price_ref == price_ref))
}

/// Records a fault. True if there was none; then the jobs are enqueued in the same transaction.
pub async fn note(store: &Store, new: &PriceFault, follow: &[NewJob]) -> Result<bool, StoreError> {
    const INSERT: &str = "
        insert into price_faults (subject, price_ref, price_id, fault, found_at) values ($1, $2, $3, $4, $5)
        on conflict (subject, price_ref) do nothing";
    const UPDATE: &str = "
        update price_faults set price_id = $3, fault = $4 where subject = $1 and price_ref = $2";
    let texts = [&new.subject, &new.price_ref, &new.price_id, &new.fault];
    let values = texts.map(|text| text.as_str().into());
    let [subject, price_ref, price_id, fault] = values.clone();
    let mut tx = store.write().await?;
    let all = [subject, price_ref, price_id, fault, new.found_at.into()];
    let is_new = tx.execute(INSERT, &all).await? == 1;
    if is_new {
        jobs::insert_all(&mut tx, follow).await?;
    } else {
        tx.execute(UPDATE, &values).await?;
    }
    tx.commit().await?;
    Ok(is_new)
}

/// Removes a fault: the price is right, or no longer sold at. True if there was one.
pub async fn remove(store: &Store, subject: &str, price_ref: &str) -> Result<bool, StoreError> {
    const SQL: &str = "delete from price_faults where subject = $1 and price_ref = $2";
    let mut tx = store.write().await?;
    let removed = tx.execute(SQL, &[subject.into(), price_ref.into()]).await?;
    tx.commit().await?;
    Ok(removed == 1)
}
