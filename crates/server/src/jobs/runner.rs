//! The runner: claims due jobs and carries them out, woken by a signal and by a timer, on every node that has
//! workers. A job that fails comes back after a growing pause; one that fails for days is set aside and told.

use std::time::Duration;

use domain::id::NodeId;
use domain::job::{GIVE_UP_AFTER_S, pause_s};
use runtime::metrics;
use store::StoreError;
use store::jobs::{self, Claimant, Job};
use tokio_util::sync::CancellationToken;

use super::JobError;
use crate::app::App;

/// For so long nobody else takes a job that was claimed.
const LEASE_S: i64 = 120;
/// So long one attempt may take: well within its lease.
const ATTEMPT_TIMEOUT: Duration = Duration::from_mins(1);
/// So long a running job may go on when the service stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Starts the workers of this node.
pub(crate) fn start(app: &App, node: NodeId, stop: &CancellationToken) {
    for _ in 0..app.config.jobs.workers {
        let (worker, stop) = (app.clone(), stop.clone());
        app.tasks.spawn_control(async move { work(worker, node, stop).await });
    }
}

/// Carries out everything that is due, one after the other; gives how many attempts that took.
pub(crate) async fn run_due(app: &App, node: NodeId) -> Result<usize, StoreError> {
    let mut attempts = 0;
    while run_next(app, node, &CancellationToken::new()).await? {
        attempts += 1;
    }
    Ok(attempts)
}

async fn work(app: App, node: NodeId, stop: CancellationToken) {
    let pause = Duration::from_millis(app.config.jobs.poll_ms);
    while !stop.is_cancelled() {
        match run_next(&app, node, &stop).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "jobs cannot be read or ended"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = app.job_signal.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Claims and carries out one job. False when none is due.
async fn run_next(app: &App, node: NodeId, stop: &CancellationToken) -> Result<bool, StoreError> {
    let now = app.clock.now();
    let claimant = Claimant { node, now, leased_until: now.plus_seconds(LEASE_S) };
    let Some(job) = jobs::claim(&app.store, &claimant).await? else { return Ok(false) };
    // There may be more: another worker looks while this one is busy.
    app.job_signal.notify_one();
    let (worker, own, stop) = (app.clone(), job.clone(), stop.clone());
    // A task of its own, so that a panic ends this attempt and not the worker.
    let ended = app.tasks.on_control(async move { attempt(&worker, &own, &stop).await }).await;
    let ended = ended.unwrap_or_else(|error| Err(JobError::Later(error.to_string())));
    end(app, &job, ended).await?;
    Ok(true)
}

async fn attempt(app: &App, job: &Job, stop: &CancellationToken) -> Result<(), JobError> {
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        ended = super::run(app, job) => ended,
        () = tokio::time::sleep(ATTEMPT_TIMEOUT) => {
            Err(JobError::Later("the attempt took too long".to_owned()))
        }
        () = stopped => Err(JobError::Later("the service stopped".to_owned())),
    }
}

/// Puts down how an attempt ended. Somebody else's claim since then is left alone.
async fn end(app: &App, job: &Job, ended: Result<(), JobError>) -> Result<(), StoreError> {
    let now = app.clock.now();
    let kind = job.kind.as_str();
    let is_old = now >= job.created_at.plus_seconds(GIVE_UP_AFTER_S);
    let (outcome, is_ours) = match ended {
        Ok(()) => ("done", jobs::finish(&app.store, job.id, job.attempt).await?),
        Err(JobError::Later(error)) if !is_old => {
            let run_at = now.plus_seconds(pause_s(job.attempt, app.random.below(100)));
            let id = job.id.to_string();
            tracing::warn!(job.id = id, kind, attempt = job.attempt, "a job is tried again later");
            let postponed = jobs::postpone(&app.store, job.id, job.attempt, run_at, &error).await?;
            ("postponed", postponed)
        }
        Err(JobError::Later(error) | JobError::Never(error)) => {
            let id = job.id.to_string();
            tracing::error!(job.id = id, kind, attempt = job.attempt, "a job was given up");
            ("given_up", jobs::give_up(&app.store, job.id, job.attempt, now, &error).await?)
        }
    };
    metrics::job_ended(job.kind, if is_ours { outcome } else { "overtaken" });
    Ok(())
}
