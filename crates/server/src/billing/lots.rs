//! Lots of credits: shown to customers, and ended when their time is over.

use domain::id::{CustomerId, EntryId};
use domain::lots::Lot;

use crate::app::App;
use crate::error::ApiError;

/// Rounds of expiry at most, at a time.
const ROUNDS_MAX: usize = 1_000;

/// What a customer can spend, lot by lot, in the order of spending. What is over by now is ended first.
pub(crate) async fn list(app: &App, customer: CustomerId) -> Result<Vec<Lot>, ApiError> {
    let now = app.clock.now();
    if store::lots::is_due(&app.store, customer, now).await? {
        let entry = EntryId::new(now, app.random.bytes());
        store::lots::settle(&app.store, customer, entry, now).await?;
    }
    Ok(store::lots::list(&app.store, customer, now).await?)
}

/// Ends the lots of everybody whose time is over.
pub(crate) async fn expire_due(app: &App) {
    for _ in 0..ROUNDS_MAX {
        let now = app.clock.now();
        let entry = || EntryId::new(now, app.random.bytes());
        match store::lots::expire_due(&app.store, now, entry).await {
            Ok(0) => return,
            Ok(customers) => tracing::info!(customers, "credits expired"),
            Err(error) => return tracing::error!(%error, "credits could not be expired"),
        }
    }
}
