//! Lots of credits: listed for customers, and ended when they expire.

use domain::id::{CustomerId, EntryId};
use domain::lots::Lot;
use failures::Failure;

use crate::BillingState;

/// The maximum number of rounds in one pass.
const ROUNDS_MAX: usize = 1_000;

/// A customer's available lots, in the order of spending. Expired ones are ended first.
pub async fn list(billing: &BillingState, customer: CustomerId) -> Result<Vec<Lot>, Failure> {
    let now = billing.clock.now();
    if store::lots::is_due(&billing.store, customer, now).await? {
        let entry = EntryId::new(now, billing.random.bytes());
        store::lots::settle(&billing.store, customer, entry, now).await?;
    }
    Ok(store::lots::list(&billing.store, customer, now).await?)
}

/// Ends all expired lots of all customers.
pub async fn expire_due(billing: &BillingState) {
    for _ in 0..ROUNDS_MAX {
        let now = billing.clock.now();
        let entry = || EntryId::new(now, billing.random.bytes());
        match store::lots::expire_due(&billing.store, now, entry).await {
            Ok(0) => return,
            Ok(customers) => tracing::info!(customers, "credits expired"),
            Err(error) => return tracing::error!(%error, "credits could not be expired"),
        }
    }
}
