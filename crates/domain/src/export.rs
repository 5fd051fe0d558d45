//! Exports: the states of one, what becomes of its credits, and the formats of its file.

use crate::wire::text_enum;

text_enum! {
    /// Where an export stands.
    ExportState, "one of pending, running, cancelling, completed, failed, cancelled, expired, deleted" {
        /// Written down; no worker has it yet.
        Pending = "pending",
        /// A worker has it, or had it and is gone.
        Running = "running",
        /// Somebody asked for its end while a worker had it.
        Cancelling = "cancelling",
        /// Its file is there, whole.
        Completed = "completed",
        /// It ended without a file.
        Failed = "failed",
        /// It was ended on request, without a file.
        Cancelled = "cancelled",
        /// Its file was there for its time, and is gone.
        Expired = "expired",
        /// It was removed by its customer; only the books know of it.
        Deleted = "deleted",
    }
}

text_enum! {
    /// What became of the credits that were set aside for an export.
    ExportCredits, "one of held, settled, refunded" {
        /// Set aside.
        Held = "held",
        /// Charged.
        Settled = "settled",
        /// Given back.
        Refunded = "refunded",
    }
}

text_enum! {
    /// Why a file that was there is not there any more, or why the export itself was removed.
    ExportRemoval, "one of retention, file_missing, removed_by_customer, removed_by_support" {
        /// The file was kept for its time.
        Retention = "retention",
        /// The storage does not have the file, though its time is not over.
        FileMissing = "file_missing",
        /// The customer removed the export.
        ByCustomer = "removed_by_customer",
        /// Support removed the export.
        BySupport = "removed_by_support",
    }
}

text_enum! {
    /// What a worker does for an export.
    ExportPhase, "one of reading, checking, writing" {
        /// It reads the platform's list.
        Reading = "reading",
        /// It reads the head of the list again, since the list may have changed meanwhile.
        Checking = "checking",
        /// It ends the file and stores it.
        Writing = "writing",
    }
}

text_enum! {
    /// The form of an export's file.
    ExportFormat, "one of csv, jsonl, xlsx, zip" {
        /// One line a row, RFC 4180.
        Csv = "csv",
        /// One JSON object a line, as the platform gave it.
        Jsonl = "jsonl",
        /// A workbook with one sheet.
        Xlsx = "xlsx",
        /// `data.csv` and `manifest.json`.
        Zip = "zip",
    }
}

impl ExportState {
    /// Whether nothing works on it any more, and nothing will.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Cancelling => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Deleted => {
                true
            }
        }
    }

    /// Whether credits are set aside for it.
    pub const fn is_held(self) -> bool {
        !self.is_terminal()
    }
}

impl ExportFormat {
    /// What a file of this form is (RFC 6838).
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Jsonl => "application/x-ndjson",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Zip => "application/zip",
        }
    }
}

/// What a cancelled export is charged: all once a page of the platform was read for it, else nothing.
pub const fn credits_when_cancelled(pages: i64) -> ExportCredits {
    if pages >= 1 { ExportCredits::Settled } else { ExportCredits::Refunded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_that_is_not_over_has_its_credits_set_aside() {
        let open: Vec<&str> = ExportState::ALL
            .iter()
            .filter(|state| state.is_held())
            .map(|state| state.as_str())
            .collect();

        assert_eq!(open, ["pending", "running", "cancelling"]);
    }

    #[test]
    fn a_cancelled_export_is_charged_from_its_first_page_on() {
        assert_eq!(credits_when_cancelled(0), ExportCredits::Refunded);
        assert_eq!(credits_when_cancelled(1), ExportCredits::Settled);
    }
}
