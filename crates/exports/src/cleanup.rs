//! Cleanup: deletes expired files, the spools of ended exports, and what lost workers left behind.
//!
//! The transaction that makes objects obsolete records them as due. This module deletes them, and
//! retries until that is done. It checks immediately before that nothing published and nothing an
//! open export needs is deleted.

use std::collections::HashMap;

use domain::id::ExportId;
use failures::Failure;
use runtime::metrics;
use storage::{ObjectName, StoredObject};
use store::exports::{self, ExportCleanup, ExportLease, ReapedExports};

use super::failpoints::{self, Failpoint};
use super::place;
use crate::ExportsState;

/// The number of exports that one round cleans up after.
const AT_ONCE: i64 = 100;
/// The age in seconds after which a stored object must belong to an export that is open or
/// published.
const ORPHANED_AFTER_S: i64 = 24 * 3_600;

/// One round: ends expired files and abandoned exports, then deletes what is due.
pub async fn round(exports: &ExportsState) {
    let now = exports.clock.now();
    match exports::reap(&exports.store, now, exports.config.exports.attempts_max).await {
        Ok(ReapedExports { failed: 0, cancelled: 0 }) => {}
        Ok(ReapedExports { failed, cancelled }) => {
            tracing::warn!(failed, cancelled, "exports of lost workers were ended");
        }
        Err(error) => tracing::warn!(%error, "exports of lost workers could not be ended"),
    }
    if let Err(error) = exports::expire(&exports.store, now).await {
        tracing::warn!(%error, "expired files could not be marked");
    }
    remove_due(exports).await;
    match exports::count(&exports.store).await {
        Ok(counts) => metrics::exports_counted(counts, now),
        Err(error) => tracing::warn!(%error, "exports could not be counted"),
    }
}

/// Deletes what is recorded as due.
pub async fn remove_due(exports: &ExportsState) {
    let due = match exports::due_cleanups(&exports.store, exports.clock.now(), AT_ONCE).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "due cleanups could not be read");
            return;
        }
    };
    for cleanup in &due {
        failpoints::reach(Failpoint::Cleaning).await;
        if let Err(error) = clean(exports, cleanup).await {
            tracing::warn!(export.id = %cleanup.export, %error, "an export could not be cleaned up yet");
        }
    }
}

async fn clean(exports: &ExportsState, cleanup: &ExportCleanup) -> Result<(), Failure> {
    let folder = place::folder(cleanup.export)?;
    remove_below(exports, &folder, |name| cleanup.keep.as_deref() == Some(name)).await?;
    exports::cleaned(&exports.store, cleanup).await?;
    Ok(())
}

/// Deletes what a lost claim has stored, unless it was published after all. What cannot be deleted
/// now is found later as an orphan.
pub async fn remove_own(exports: &ExportsState, lease: ExportLease) {
    let removed = async {
        let in_use = exports::keeps(&exports.store, &[lease.export]).await?;
        let own = place::own(lease.export, lease.token)?;
        // Pages of an open export stay: the next claim may continue from them, and its end records
        // a cleanup.
        let is_open = in_use.open.contains(&lease.export);
        let keep = |name: &str| in_use.outputs.contains(name) || (is_open && place::is_page(name));
        remove_below(exports, &own, keep).await
    };
    if let Err(error) = removed.await {
        tracing::warn!(export.id = %lease.export, %error, "the objects of a lost claim could not be deleted yet");
    }
}

async fn remove_below(
    exports: &ExportsState,
    prefix: &ObjectName,
    keep: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let mut after = String::new();
    loop {
        let found = exports.storage.list(prefix, &after).await?;
        let Some(last) = found.last() else { return Ok(()) };
        last.name.as_str().clone_into(&mut after);
        for stored in found.iter().filter(|stored| !keep(stored.name.as_str())) {
            exports.storage.delete(&stored.name).await?;
        }
    }
}

/// Deletes objects older than a day that belong to no open export and no published file. Returns
/// their number.
pub async fn remove_orphans(exports: &ExportsState) -> Result<u64, Failure> {
    let before = exports.clock.now().plus_seconds(-ORPHANED_AFTER_S);
    let root = place::name(place::ROOT.to_owned())?;
    let (mut after, mut removed) = (String::new(), 0);
    loop {
        let found = exports.storage.list(&root, &after).await?;
        let Some(last) = found.last() else { break };
        last.name.as_str().clone_into(&mut after);
        let mut old: HashMap<ExportId, Vec<StoredObject>> = HashMap::new();
        for stored in found.into_iter().filter(|stored| stored.stored_at < before) {
            if let Some(owner) = place::owner(&stored.name) {
                old.entry(owner).or_default().push(stored);
            }
        }
        let owners: Vec<ExportId> = old.keys().copied().collect();
        let in_use = exports::keeps(&exports.store, &owners).await?;
        let orphans = old.into_iter().filter(|(owner, _)| !in_use.open.contains(owner));
        for stored in orphans.flat_map(|(_, stored)| stored) {
            if !in_use.outputs.contains(stored.name.as_str()) {
                exports.storage.delete(&stored.name).await?;
                removed += 1;
            }
        }
    }
    let storage = std::sync::Arc::clone(&exports.storage);
    let left = tokio::task::spawn_blocking(move || storage.remove_left_work(before)).await;
    let left = left.map_err(|error| Failure::Internal(error.to_string()))??;
    Ok(removed + u64::try_from(left).unwrap_or(0))
}
