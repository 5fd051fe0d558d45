//! Runs automatic top-up: as soon as a balance becomes low, and every 30 seconds for all customers,
//! which also finds what a stopped node left unfinished.

use std::time::Duration;

use domain::id::CustomerId;
use store::top_ups::TopUp;
use tokio_util::sync::CancellationToken;

use super::top_ups::{self, DueTopUps};
use crate::BillingState;

const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Starts the worker, if a processor is configured.
pub fn start(billing: &BillingState, stop: &CancellationToken) {
    if !billing.config.processor.is_configured() {
        return;
    }
    let (worker, stopped) = (billing.clone(), stop.clone());
    billing.tasks.spawn_control(async move {
        let mut timer = tokio::time::interval(LOOK_EVERY);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                _ = timer.tick() => {
                    let due = look(&worker).await;
                    begin(&worker, due, &stopped);
                }
                () = worker.low_balances.some() => {
                    let due = DueTopUps { customers: worker.low_balances.take(), ..DueTopUps::default() };
                    begin(&worker, due, &stopped);
                }
            }
        }
    });
}

/// Checks all customers once and waits for the resulting charges; returns how many were started or
/// continued.
pub async fn look_once(billing: &BillingState) -> usize {
    billing.low_balances.idle().await;
    let mut due = look(billing).await;
    due.customers.extend(billing.low_balances.take());
    let mut charges = 0;
    for overdue in &due.overdue {
        top_ups::give_up(billing, overdue).await;
    }
    for left in &due.left {
        top_ups::resume(billing, left).await;
        charges += 1;
    }
    for customer in due.customers {
        charges += usize::from(top_ups::attempt(billing, customer).await);
    }
    billing.low_balances.idle().await;
    charges
}

async fn look(billing: &BillingState) -> DueTopUps {
    top_ups::look(billing).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "automatic top-up could not be checked");
        DueTopUps::default()
    })
}

/// Each charge is a separate task: one that the processor does not answer delays no other.
fn begin(billing: &BillingState, due: DueTopUps, stop: &CancellationToken) {
    for overdue in due.overdue {
        spawn(billing, stop, Work::GiveUp(overdue));
    }
    for left in due.left {
        spawn(billing, stop, Work::Resume(left));
    }
    for customer in due.customers {
        spawn(billing, stop, Work::Attempt(customer));
    }
}

enum Work {
    Resume(TopUp),
    GiveUp(TopUp),
    Attempt(CustomerId),
}

fn spawn(billing: &BillingState, stop: &CancellationToken, work: Work) {
    let (worker, stop) = (billing.clone(), stop.clone());
    billing.tasks.spawn_control(async move {
        let done = async {
            let Ok(_place) = worker.low_balances.places.acquire().await else { return };
            match work {
                Work::Resume(left) => top_ups::resume(&worker, &left).await,
                Work::GiveUp(overdue) => top_ups::give_up(&worker, &overdue).await,
                Work::Attempt(customer) => drop(top_ups::attempt(&worker, customer).await),
            }
        };
        // A charge that is interrupted here is continued after its lease, as after a crash.
        tokio::select! {
            () = stop.cancelled() => {}
            () = done => {}
        }
    });
}
