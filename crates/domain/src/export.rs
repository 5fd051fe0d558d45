//! Exports: their states, what happens to their credits, and the formats of their files.

use crate::wire::text_enum;

text_enum! {
    /// The state of an export.
    ExportState, "one of pending, running, cancelling, completed, failed, cancelled, expired, deleted" {
        /// Recorded; no worker has claimed it yet.
        Pending = "pending",
        /// A worker has claimed it, even if that worker has since stopped.
        Running = "running",
        /// Cancellation was requested while a worker had it.
        Cancelling = "cancelling",
        /// Its file is complete.
        Completed = "completed",
        /// It ended without a file.
        Failed = "failed",
        /// It was cancelled on request and has no file.
        Cancelled = "cancelled",
        /// Its file was deleted after the retention time.
        Expired = "expired",
        /// The customer or support removed it; only the ledger still refers to it.
        Deleted = "deleted",
    }
}

text_enum! {
    /// What happened to the credits that were held for an export.
    ExportCredits, "one of held, settled, refunded" {
        /// Set aside.
        Held = "held",
        /// Charged.
        Settled = "settled",
        /// Refunded.
        Refunded = "refunded",
    }
}

text_enum! {
    /// Why a file no longer exists, or why the export itself was removed.
    ExportRemoval, "one of retention, file_missing, removed_by_customer, removed_by_support" {
        /// The retention time has passed.
        Retention = "retention",
        /// The storage does not have the file, although its retention time has not passed.
        FileMissing = "file_missing",
        /// The customer removed the export.
        ByCustomer = "removed_by_customer",
        /// Support removed the export.
        BySupport = "removed_by_support",
    }
}

text_enum! {
    /// What a worker is doing for an export.
    ExportPhase, "one of reading, checking, writing" {
        /// Reading the platform's list.
        Reading = "reading",
        /// Reading the head of the list again, because the list may have changed in the meantime.
        Checking = "checking",
        /// Finishing the file and storing it.
        Writing = "writing",
    }
}

text_enum! {
    /// The format of an export's file.
    ExportFormat, "one of csv, jsonl, xlsx, zip" {
        /// One line per row, RFC 4180.
        Csv = "csv",
        /// One JSON object per line, as the platform returned it.
        Jsonl = "jsonl",
        /// A workbook with one sheet.
        Xlsx = "xlsx",
        /// `data.csv` and `manifest.json`.
        Zip = "zip",
    }
}

impl ExportState {
    /// Whether it has ended: no worker acts on it any more.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Cancelling => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Deleted => {
                true
            }
        }
    }

    /// Whether its credits are held.
    pub const fn is_held(self) -> bool {
        !self.is_terminal()
    }
}

impl ExportFormat {
    /// The media type of a file of this format (RFC 6838).
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Jsonl => "application/x-ndjson",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Zip => "application/zip",
        }
    }
}

/// What happens to the credits of a cancelled export: all are charged once it has read a page of
/// the platform, otherwise they are refunded.
pub const fn credits_when_cancelled(pages: i64) -> ExportCredits {
    if pages >= 1 { ExportCredits::Settled } else { ExportCredits::Refunded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_held_until_the_export_ends() {
        let open: Vec<&str> = ExportState::ALL
            .iter()
            .filter(|state| state.is_held())
            .map(|state| state.as_str())
            .collect();

        assert_eq!(open, ["pending", "running", "cancelling"]);
    }

    #[test]
    fn a_cancelled_export_is_charged_once_it_has_read_a_page() {
        assert_eq!(credits_when_cancelled(0), ExportCredits::Refunded);
        assert_eq!(credits_when_cancelled(1), ExportCredits::Settled);
    }
}
