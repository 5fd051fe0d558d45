//! Workers: each claims an export, works on it under a lease that it renews, and records the
//! result.
//!
//! The database decides. Every write of a worker contains its fencing token and counts only while
//! the lease lasts. A worker that loses its lease stops, and deletes what it stored unless that was
//! published after all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::id::NodeId;
use domain::time::Timestamp;
use runtime::metrics;
use store::StoreError;
use store::exports::{
    self, ClaimedExport, Export, ExportClaimant, ExportFailure, ExportLease, ExportProgress,
    LeaseRenewal, WorkerReport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::failpoints::{self, Failpoint};
use super::job_progress::{JobProgress, WorkEnding};
use super::{cleanup, job};
use crate::ExportsState;

/// How often the progress of an export is recorded, if it has changed.
const PROGRESS_EACH: Duration = Duration::from_secs(2);
/// Seconds until an export that failed temporarily is retried, multiplied by the number of its
/// attempt.
const RETRY_S: i64 = 15;
/// Seconds until a retry while a platform refuses all credentials or the storage is full, and the
/// time after which the export fails.
const REFUSED_RETRY_S: i64 = 60;
const REFUSED_MAX_S: i64 = 86_400;

/// Starts the workers of this node.
pub fn start(exports: &ExportsState, node: NodeId, stop: &CancellationToken) {
    for _ in 0..exports.config.exports.workers {
        let (worker, stop) = (exports.clone(), stop.clone());
        exports.tasks.spawn_control(async move { work(worker, node, stop).await });
    }
}

/// Works on all waiting exports, one after another; returns the number of claims.
pub async fn run_all(exports: &ExportsState, node: NodeId) -> Result<usize, StoreError> {
    let mut claims = 0;
    while run_next(exports, node, &CancellationToken::new()).await? {
        claims += 1;
    }
    Ok(claims)
}

async fn work(exports: ExportsState, node: NodeId, stop: CancellationToken) {
    let pause = Duration::from_millis(exports.config.exports.poll_ms);
    while !stop.is_cancelled() {
        match run_next(&exports, node, &stop).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "exports could not be claimed or finished"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = exports.signal.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Claims an export and works on it. False if none is waiting.
async fn run_next(
    exports: &ExportsState,
    node: NodeId,
    stop: &CancellationToken,
) -> Result<bool, StoreError> {
    let (now, settings) = (exports.clock.now(), &exports.config.exports);
    let claimant = ExportClaimant {
        node,
        now,
        lease_until: now.plus_seconds(settings.lease_s),
        running_max: settings.running_max,
        attempts_max: settings.attempts_max,
    };
    let Some(ClaimedExport { lease, export }) = exports::claim(&exports.store, &claimant).await?
    else {
        return Ok(false);
    };
    // There may be more exports: another worker looks for them while this one is busy.
    exports.signal.notify_one();
    let (worker, stop) = (exports.clone(), stop.clone());
    let id = export.id;
    // A separate task, so that a panic ends this attempt and not the worker.
    let ended =
        exports.tasks.on_control(async move { attempt(&worker, lease, export, &stop).await }).await;
    exports.at_work.end(id);
    match ended {
        Ok(ended) => ended?,
        Err(error) => tracing::error!(export.id = %id, %error, "an export attempt was lost"),
    }
    Ok(true)
}

async fn attempt(
    exports: &ExportsState,
    lease: ExportLease,
    export: Export,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    let bell = exports.at_work.begin(lease.export);
    failpoints::reach(Failpoint::Claimed).await;
    let shared = Arc::new(JobProgress::beginning(&export));
    let begun = (export.attempt, waits_until(exports, &export));
    let ending = tokio::select! {
        ending = job::run(exports, lease, export, &shared) => ending,
        ending = keep(exports, lease, &shared, &bell, stop) => ending,
    };
    shared.is_halted.store(true, Ordering::SeqCst);
    let word = end(exports, lease, &ending, (shared.progress(), begun)).await?;
    metrics::export_ended(word, shared.progress(), shared.began.elapsed());
    let id = lease.export.to_string();
    tracing::info!(export.id = id, token = lease.token, ending = word, "work on an export ended");
    Ok(())
}

/// When an export that waits for its platform fails.
fn waits_until(exports: &ExportsState, export: &Export) -> Timestamp {
    export.started_at.unwrap_or_else(|| exports.clock.now()).plus_seconds(REFUSED_MAX_S)
}

/// Renews the lease until there is a reason to stop.
async fn keep(
    exports: &ExportsState,
    lease: ExportLease,
    shared: &JobProgress,
    bell: &Notify,
    stop: &CancellationToken,
) -> WorkEnding {
    let renew_every = Duration::from_secs(exports.config.exports.renew_s.unsigned_abs());
    let pause = renew_every.min(PROGRESS_EACH);
    let mut noted = None;
    let mut renewed_at = exports.clock.running_for();
    loop {
        let is_rung = tokio::select! {
            () = stop.cancelled() => return WorkEnding::Stopped,
            () = bell.notified() => true,
            () = shared.bell.notified() => true,
            () = tokio::time::sleep(pause) => false,
        };
        let (now, at) = (exports.clock.now(), exports.clock.running_for());
        let stands = (shared.pages(), shared.doing());
        let is_due = at.saturating_sub(renewed_at) >= renew_every;
        if !is_rung && !is_due && noted == Some(stands) {
            continue;
        }
        (noted, renewed_at) = (Some(stands), at);
        let until = now.plus_seconds(exports.config.exports.lease_s);
        let has_new_page = shared.has_new_page.load(Ordering::SeqCst);
        let (progress, doing) = (shared.progress(), shared.doing());
        let report = WorkerReport { progress, doing, has_new_page };
        match exports::renew(&exports.store, &lease, until, report).await {
            Ok(LeaseRenewal::Kept) => failpoints::reach(Failpoint::ProgressNoted).await,
            Ok(LeaseRenewal::Cancelling) => return WorkEnding::Cancelled,
            Ok(LeaseRenewal::Lost) => return WorkEnding::Lost,
            // If this continues, and the node is gone, it is taken over.
            Err(error) => tracing::warn!(%error, "the lease of an export could not be renewed"),
        }
        if is_due && gives_way(exports, lease, now).await {
            return WorkEnding::Stopped;
        }
    }
}

/// Whether another customer is waiting for a worker while this customer has several on this node.
async fn gives_way(exports: &ExportsState, lease: ExportLease, now: Timestamp) -> bool {
    let waiting_since = now.plus_seconds(-exports.config.exports.renew_s);
    match exports::gives_way(&exports.store, &lease, waiting_since).await {
        Ok(gives_way) => gives_way,
        Err(error) => {
            tracing::warn!(%error, "waiting exports could not be read");
            false
        }
    }
}

/// Records the result of an attempt, and returns the word for it. Besides the progress it takes the
/// number of the attempt, and when an export that waits for its platform fails.
async fn end(
    exports: &ExportsState,
    lease: ExportLease,
    ending: &WorkEnding,
    (progress, (attempt, waits_until)): (ExportProgress, (i64, Timestamp)),
) -> Result<&'static str, StoreError> {
    let (store, now) = (&exports.store, exports.clock.now());
    let (word, is_ours) = match ending {
        WorkEnding::Published => ("completed", true),
        WorkEnding::Failed(failure) => {
            ("failed", failed(exports, lease, now, failure, progress).await?)
        }
        WorkEnding::Later(failure) if attempt >= exports.config.exports.attempts_max => {
            ("failed", failed(exports, lease, now, failure, progress).await?)
        }
        WorkEnding::Later(failure) => {
            let (code, message) = (&failure.code, &failure.message);
            tracing::warn!(export.id = %lease.export, code, message, "an export failed and will be retried");
            let until = now.plus_seconds(RETRY_S.saturating_mul(attempt.max(1)));
            ("postponed", exports::postpone(store, &lease, until, progress).await?)
        }
        WorkEnding::Waiting(failure) if now >= waits_until => {
            ("failed", failed(exports, lease, now, failure, progress).await?)
        }
        WorkEnding::Waiting(failure) => {
            let (code, message) = (&failure.code, &failure.message);
            tracing::warn!(export.id = %lease.export, code, message, "an export is waiting");
            let until = now.plus_seconds(REFUSED_RETRY_S);
            ("postponed", exports::pause(store, &lease, until, failure, progress).await?)
        }
        WorkEnding::Cancelled => {
            ("cancelled", exports::end_cancelled(store, &lease, now, progress).await?)
        }
        WorkEnding::Stopped => {
            let is_given = exports::give_back(store, &lease, now, progress).await?;
            let is_ended = is_given || exports::end_cancelled(store, &lease, now, progress).await?;
            ("given_back", is_ended)
        }
        WorkEnding::Lost => ("lost", true),
    };
    let is_lost = !is_ours || matches!(ending, WorkEnding::Lost);
    if !is_lost {
        cleanup::remove_due(exports).await;
        return Ok(word);
    }
    // The export may have been cancelled in the meantime; then this ends it.
    let is_cancelled = exports::end_cancelled(store, &lease, now, progress).await?;
    cleanup::remove_own(exports, lease).await;
    cleanup::remove_due(exports).await;
    Ok(if is_cancelled { "cancelled" } else { "lost" })
}

async fn failed(
    exports: &ExportsState,
    lease: ExportLease,
    now: Timestamp,
    failure: &ExportFailure,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    let (code, message) = (&failure.code, &failure.message);
    tracing::warn!(export.id = %lease.export, code, message, "an export failed");
    exports::fail(&exports.store, &lease, now, failure, progress).await
}
