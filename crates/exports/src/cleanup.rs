//! What is removed: files whose time is over, spools of exports that are over, what workers left that are gone.
//!
//! What must go is written in the database by whoever makes it useless, and done here, again and again until it is
//! done. Nothing that an export needs, or that is published, is ever removed: that is asked in the same breath.

use std::collections::HashMap;

use clients::storage::{ObjectName, StoredObject};
use domain::id::ExportId;
use failures::Failure;
use runtime::metrics;
use store::exports::{self, ExportCleanup, ExportLease, ReapedExports};

use super::failpoints::{self, Failpoint};
use super::place;
use crate::ExportsState;

/// Exports that one round cleans up after.
const AT_ONCE: i64 = 100;
/// So long nobody is asked about something that is stored; after that it must belong to somebody. Seconds.
const ORPHANED_AFTER_S: i64 = 24 * 3_600;

/// One round: ends what has had its time and what nobody works on, then removes what is due.
pub async fn round(exports: &ExportsState) {
    let now = exports.clock.now();
    match exports::reap(&exports.store, now, exports.config.exports.attempts_max).await {
        Ok(ReapedExports { failed: 0, cancelled: 0 }) => {}
        Ok(ReapedExports { failed, cancelled }) => {
            tracing::warn!(failed, cancelled, "exports of workers that are gone were ended");
        }
        Err(error) => tracing::warn!(%error, "exports of lost workers could not be ended"),
    }
    if let Err(error) = exports::expire(&exports.store, now).await {
        tracing::warn!(%error, "files could not be let expire");
    }
    remove_due(exports).await;
    match exports::count(&exports.store).await {
        Ok(counts) => metrics::exports_counted(counts, now),
        Err(error) => tracing::warn!(%error, "exports could not be counted"),
    }
}

/// Removes what is written down as due.
pub async fn remove_due(exports: &ExportsState) {
    let due = match exports::due_cleanups(&exports.store, exports.clock.now(), AT_ONCE).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "what is to be removed could not be read");
            return;
        }
    };
    for cleanup in &due {
        failpoints::reach(Failpoint::Cleaning).await;
        if let Err(error) = clean(exports, cleanup).await {
            tracing::warn!(export.id = %cleanup.export, %error, "an export's remains stay for now");
        }
    }
}

async fn clean(exports: &ExportsState, cleanup: &ExportCleanup) -> Result<(), Failure> {
    let folder = place::folder(cleanup.export)?;
    remove_below(exports, &folder, |name| cleanup.keep.as_deref() == Some(name)).await?;
    exports::cleaned(&exports.store, cleanup).await?;
    Ok(())
}

/// Removes what a claim that was lost has stored, unless it was published after all. What cannot be removed now is an
/// orphan later.
pub async fn remove_own(exports: &ExportsState, lease: ExportLease) {
    let removed = async {
        let in_use = exports::keeps(&exports.store, &[lease.export]).await?;
        let own = place::own(lease.export, lease.token)?;
        // Pages of an open export stay: whoever took over may go on from them, and ends with a cleanup.
        let is_open = in_use.open.contains(&lease.export);
        let keep = |name: &str| in_use.outputs.contains(name) || (is_open && place::is_page(name));
        remove_below(exports, &own, keep).await
    };
    if let Err(error) = removed.await {
        tracing::warn!(export.id = %lease.export, %error, "what a lost claim stored stays for now");
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

/// Removes what has been in the storage for a day and belongs to no open export and to no published file. Gives how
/// many.
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
