//! What customers can still spend, as a metric.

use std::time::Duration;

use runtime::metrics;
use tokio_util::sync::CancellationToken;

use crate::BillingState;

/// Every customer is read, so not often.
const EVERY_HOUR: Duration = Duration::from_hours(1);

/// Measures now and every hour until the service stops.
pub fn start(billing: &BillingState, stop: &CancellationToken) {
    let (billing, stop) = (billing.clone(), stop.clone());
    billing.tasks.clone().spawn_control(async move {
        let mut timer = tokio::time::interval(EVERY_HOUR);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timer.tick() => measure(&billing).await,
            }
        }
    });
}

/// Reads the outstanding credits of all customers and shows them in the metrics.
pub async fn measure(billing: &BillingState) {
    match store::liability::read(&billing.store, billing.clock.now()).await {
        Ok(liability) => metrics::liability_read(&liability),
        Err(error) => tracing::warn!(%error, "the outstanding credits could not be read"),
    }
}
