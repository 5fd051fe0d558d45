//! Which list to read, and within which limits.

use std::sync::Arc;

use catalog::Dataset;
use catalog::dataset::PagingRules;
use domain::account::CreatorId;
use domain::dataset::DatasetName;
use domain::id::CustomerId;
use domain::time::Timestamp;
use domain::window::DateWindow;

use super::walk::ListPaging;

/// What to read.
#[derive(Debug, Clone)]
pub struct WantedList {
    /// The customer who owns the account.
    pub customer: CustomerId,
    /// The account.
    pub account: CreatorId,
    /// The list.
    pub dataset: DatasetName,
    /// The fan's account id, for a list of one conversation.
    pub chat_id: Option<String>,
    /// Rows outside this window are skipped.
    pub window: DateWindow,
    /// Reading ends after this number of rows.
    pub max_rows: Option<u64>,
    /// What may not be exceeded.
    pub limits: ReadLimits,
    /// Used in place of a call id in requests to the platform.
    pub label: String,
    /// Where the read reports until when it waits.
    pub waits: PageWaits,
}

/// Until when a read sends nothing to the platform.
#[derive(Debug, Clone, Default)]
pub struct PageWaits(Arc<parking_lot::Mutex<Option<Timestamp>>>);

impl PageWaits {
    /// Until when it waits; `None` while it does not.
    pub fn until(&self) -> Option<Timestamp> {
        *self.0.lock()
    }

    pub(super) fn set(&self, until: Option<Timestamp>) {
        *self.0.lock() = until;
    }
}

/// The limits of a read, over all its attempts.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// More rows are a fault.
    pub rows_max: u64,
    /// More pages of a conversation are a fault. Other lists may have the pages that the allowed
    /// rows fill, if that is more.
    pub pages_max: u64,
    /// After this time no page is requested or accepted.
    pub ends_at: Option<Timestamp>,
}

/// The paging of a dataset's list.
pub(super) fn paged(dataset: &Dataset) -> ListPaging {
    let PagingRules { style, size, .. } = dataset.paging;
    ListPaging::whole(style, u64::from(size))
}
