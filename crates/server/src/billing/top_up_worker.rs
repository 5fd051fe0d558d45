//! When automatic top-up is looked after: as soon as a balance becomes low, and every half a minute for everybody, which
//! also finds what a stopped node left.

use std::time::Duration;

use domain::id::CustomerId;
use store::top_ups::TopUp;
use tokio_util::sync::CancellationToken;

use super::top_ups::{self, Due};
use crate::app::App;

const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Starts it, where anything can be paid.
pub(crate) fn start(app: &App, stop: &CancellationToken) {
    if !app.config.processor.is_configured() {
        return;
    }
    let (worker, stopped) = (app.clone(), stop.clone());
    app.tasks.spawn_control(async move {
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
                    let due = Due { customers: worker.low_balances.take(), ..Due::default() };
                    begin(&worker, due, &stopped);
                }
            }
        }
    });
}

/// Looks at everybody once and waits for all that follows from it; gives how many charges were begun or taken up.
pub(crate) async fn look_once(app: &App) -> usize {
    app.low_balances.idle().await;
    let mut due = look(app).await;
    due.customers.extend(app.low_balances.take());
    let mut charges = 0;
    for overdue in &due.overdue {
        top_ups::give_up(app, overdue).await;
    }
    for left in &due.left {
        top_ups::resume(app, left).await;
        charges += 1;
    }
    for customer in due.customers {
        charges += usize::from(top_ups::attempt(app, customer).await);
    }
    app.low_balances.idle().await;
    charges
}

async fn look(app: &App) -> Due {
    top_ups::look(app).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "automatic top-up could not be looked after");
        Due::default()
    })
}

/// Each charge is a task of its own: one that the processor does not answer holds nobody else up.
fn begin(app: &App, due: Due, stop: &CancellationToken) {
    for overdue in due.overdue {
        spawn(app, stop, Work::GiveUp(overdue));
    }
    for left in due.left {
        spawn(app, stop, Work::Resume(left));
    }
    for customer in due.customers {
        spawn(app, stop, Work::Attempt(customer));
    }
}

enum Work {
    Resume(TopUp),
    GiveUp(TopUp),
    Attempt(CustomerId),
}

fn spawn(app: &App, stop: &CancellationToken, work: Work) {
    let (worker, stop) = (app.clone(), stop.clone());
    app.tasks.spawn_control(async move {
        let done = async {
            let Ok(_place) = worker.low_balances.places.acquire().await else { return };
            match work {
                Work::Resume(left) => top_ups::resume(&worker, &left).await,
                Work::GiveUp(overdue) => top_ups::give_up(&worker, &overdue).await,
                Work::Attempt(customer) => drop(top_ups::attempt(&worker, customer).await),
            }
        };
        // A charge that is cut off here is gone on with after its lease, as after a crash.
        tokio::select! {
            () = stop.cancelled() => {}
            () = done => {}
        }
    });
}
