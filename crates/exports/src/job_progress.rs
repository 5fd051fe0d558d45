//! How far the work on an export has come, and how it ended.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use domain::export::ExportPhase;
use store::exports::{Export, ExportActivity, ExportFailure, ExportProgress};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pages::PageWaits;

/// The progress of an export, shared by the work and by the renewal of its lease.
#[derive(Debug)]
pub(super) struct JobProgress {
    pages: AtomicI64,
    rows: AtomicI64,
    /// The current activity, besides the pages.
    doing: parking_lot::Mutex<ExportActivity>,
    /// Until when no request is sent to the platform.
    pub(super) waits: PageWaits,
    /// The time that earlier attempts took.
    worked_micros: i64,
    /// When this attempt began.
    pub(super) began: Instant,
    /// Whether this claim has read a page that no attempt had read before.
    pub(super) has_new_page: AtomicBool,
    /// Whether computations still running for the export should stop.
    pub(super) is_halted: AtomicBool,
    /// Signalled when progress should be recorded immediately.
    pub(super) bell: Notify,
}

impl JobProgress {
    /// An attempt that starts now, from the progress of earlier ones.
    pub(super) fn beginning(export: &Export) -> Self {
        let shared = Self {
            pages: AtomicI64::default(),
            rows: AtomicI64::default(),
            doing: parking_lot::Mutex::new(export.doing),
            waits: PageWaits::default(),
            worked_micros: export.worked_micros,
            began: Instant::now(),
            has_new_page: AtomicBool::default(),
            is_halted: AtomicBool::default(),
            bell: Notify::new(),
        };
        shared.set(export.pages, export.rows_read);
        shared
    }

    /// Sets the number of pages, and of rows taken from them.
    pub(super) fn set(&self, pages: i64, rows: i64) {
        self.pages.store(pages, Ordering::SeqCst);
        self.rows.store(rows, Ordering::SeqCst);
    }

    /// Sets the current activity.
    pub(super) fn does(&self, phase: ExportPhase, list: Option<(Option<u64>, u64)>) {
        let mut doing = self.doing.lock();
        doing.phase = Some(phase);
        if let Some((rows, read)) = list {
            doing.list_rows = rows.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX));
            doing.list_rows_read = i64::try_from(read).unwrap_or(i64::MAX);
        }
    }

    pub(super) fn doing(&self) -> ExportActivity {
        ExportActivity { waiting_until: self.waits.until(), ..*self.doing.lock() }
    }

    /// Reports a page that no attempt had read before. The first one of an attempt is recorded
    /// immediately: from then on the attempt counts as progress, and the export is charged if it is
    /// cancelled.
    pub(super) fn new_page(&self) {
        if !self.has_new_page.swap(true, Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    pub(super) fn pages(&self) -> i64 {
        self.pages.load(Ordering::SeqCst)
    }

    pub(super) fn progress(&self) -> ExportProgress {
        let micros = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        ExportProgress {
            pages: self.pages.load(Ordering::SeqCst),
            rows: self.rows.load(Ordering::SeqCst),
            worked_micros: self.worked_micros.saturating_add(micros),
        }
    }
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) enum WorkEnding {
    /// Its file is published.
    Published,
    /// The export cannot be completed.
    Failed(ExportFailure),
    /// A failure that may be temporary.
    Later(ExportFailure),
    /// The platform refuses all credentials, or the storage is full; both are temporary.
    Waiting(ExportFailure),
    /// The export was cancelled.
    Cancelled,
    /// The lease was lost to another worker.
    Lost,
    /// The service is stopping.
    Stopped,
}
