//! Verified routes: a catalogue entry is verified by a platform's first 2xx response to it.

use domain::platform::Platform;
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// A route with a 2xx response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRoute {
    /// The platform.
    pub platform: Platform,
    /// The catalogue's name of the route.
    pub route: String,
    /// When the first one arrived.
    pub verified_at: Timestamp,
}

/// Records the first 2xx of a route. False if it was recorded before.
pub async fn mark_verified(
    store: &Store,
    platform: Platform,
    route: &str,
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into verified_routes (platform, route, verified_at) values ($1, $2, $3)
        on conflict (platform, route) do nothing";
    let mut tx = store.write().await?;
    let inserted =
        tx.execute(SQL, &[platform.stored_name().into(), route.into(), at.into()]).await?;
    tx.commit().await?;
    Ok(inserted == 1)
}

/// All verified routes, by platform and name.
pub async fn list_verified(store: &Store) -> Result<Vec<VerifiedRoute>, StoreError> {
    const SQL: &str = "
        select platform, route, verified_at from verified_routes order by platform, route";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(VerifiedRoute {
                platform: row.platform("platform", "verified_routes")?,
                route: row.text("route")?,
                verified_at: row.time("verified_at")?,
            })
        })
        .collect()
}
