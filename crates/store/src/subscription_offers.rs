//! Offers to subscribe on the processor's page. A customer has at most one open, so that no two are
//! paid.

use domain::id::{CustomerId, OfferId};
use domain::time::Timestamp;

use crate::{Store, StoreError, customers};

/// An offer, stored before the processor hears of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionOffer {
    /// Its id.
    pub id: OfferId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The plan's id.
    pub plan_id: String,
    /// The extra slots in a canonical form: the same choice is the same text.
    pub slots: String,
    /// The processor's checkout session, once known.
    pub session_id: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// Stores an offer, unless one is open already, which is returned instead.
pub async fn open(
    store: &Store,
    new: &SubscriptionOffer,
) -> Result<Option<SubscriptionOffer>, StoreError> {
    const INSERT: &str = "
        insert into subscription_offers (id, customer_id, plan_id, slots, created_at)
        values ($1, $2, $3, $4, $5)";
    const OPEN: &str = "
        select id, plan_id, slots, session_id, created_at from subscription_offers
        where customer_id = $1 and closed_at is null";
    let mut tx = store.write().await?;
    customers::lock(&mut tx, new.customer).await?;
    if let Some(row) = tx.row(OPEN, &[new.customer.into()]).await? {
        return Ok(Some(SubscriptionOffer {
            id: row.parse("id", "subscription_offers")?,
            customer: new.customer,
            plan_id: row.text("plan_id")?,
            slots: row.text("slots")?,
            session_id: row.optional_text("session_id")?,
            created_at: row.time("created_at")?,
        }));
    }
    let values = [
        new.id.into(),
        new.customer.into(),
        new.plan_id.as_str().into(),
        new.slots.as_str().into(),
        new.created_at.into(),
    ];
    tx.execute(INSERT, &values).await?;
    tx.commit().await?;
    Ok(None)
}

/// The id of the open offer.
pub async fn find_open(store: &Store, customer: CustomerId) -> Result<Option<OfferId>, StoreError> {
    const SQL: &str =
        "select id from subscription_offers where customer_id = $1 and closed_at is null";
    let row = store.read().await?.row(SQL, &[customer.into()]).await?;
    row.map(|row| row.parse("id", "subscription_offers")).transpose()
}

/// Stores the checkout session of an offer.
pub async fn set_session(store: &Store, id: OfferId, session_id: &str) -> Result<(), StoreError> {
    const SQL: &str = "update subscription_offers set session_id = $2 where id = $1";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[id.into(), session_id.into()]).await?;
    tx.commit().await
}

/// Closes an offer because it was paid, has expired or is replaced by another one.
pub async fn close(store: &Store, id: OfferId, at: Timestamp) -> Result<(), StoreError> {
    const SQL: &str = "
        update subscription_offers set closed_at = $2 where id = $1 and closed_at is null";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[id.into(), at.into()]).await?;
    tx.commit().await
}
