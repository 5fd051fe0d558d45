//! Why pages cannot be read: a stable code, a message, and the remedy.

use domain::platform::Platform;

/// What can be done about pages that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRemedy {
    /// Nothing: the same pages would fail again, so the export has failed.
    None,
    /// Another attempt; their number is limited.
    Attempt,
    /// Waiting until the platform accepts credentials again. Attempts until then are not counted.
    Recovery,
}

/// Why a page could not be read. Earlier pages stay valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PageFault {
    /// The code for programs. It never changes.
    pub code: &'static str,
    /// What happened and what can be done, for people. Contains no credentials.
    pub message: String,
    /// What can be done about it.
    pub remedy: PageRemedy,
}

impl PageFault {
    /// A fault that another attempt would meet again.
    pub(super) fn last(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: PageRemedy::None }
    }

    /// A fault that another attempt may not meet.
    pub(super) fn for_now(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: PageRemedy::Attempt }
    }

    /// The platform refuses the credentials of all accounts.
    pub(super) fn refusing(platform: Platform) -> Self {
        let message = format!(
            "{platform} currently refuses the credentials of all accounts; the export continues when it accepts them again"
        );
        Self { code: "platform_refusing_credentials", message, remedy: PageRemedy::Recovery }
    }

    /// Whether the fault concerns only this page, which may be right when it is requested again.
    pub(super) fn is_of_one_page(&self) -> bool {
        OF_ONE_PAGE.contains(&self.code)
    }

    /// The platform's page does not match its dataset.
    pub(super) fn malformed(page: u64, problem: &str) -> Self {
        Self::last("malformed_page", format!("page {page} is malformed: {problem}"))
    }
}

/// Faults of a single page, which may be right when it is requested again.
const OF_ONE_PAGE: [&str; 10] = [
    "malformed_page",
    "missing_rows",
    "missing_has_more",
    "missing_cursor",
    "missing_total",
    "missing_id",
    "missing_time",
    "repeated_row",
    "short_page",
    "empty_page",
];

/// Codes after which a new export of the same data may succeed.
const RETRYABLE: [&str; 6] = [
    "list_changed",
    "platform_busy",
    "platform_unavailable",
    "platform_refusing_credentials",
    "storage_unavailable",
    "storage_full",
];

/// Whether a new export of the same data may succeed after a failure with this code.
pub fn is_retryable(code: &str) -> bool {
    RETRYABLE.contains(&code)
}

/// Every code of a fault, with its meaning.
pub const CODES: &[(&str, &str)] = &[
    ("malformed_page", "A page is not JSON, or one of its fields has the wrong type."),
    ("missing_rows", "A page has no list of rows."),
    ("missing_has_more", "A page does not say whether more pages follow."),
    ("missing_cursor", "A page has no field for the next cursor."),
    ("missing_total", "A page does not give the length of the list."),
    ("missing_id", "A row has no id."),
    ("missing_time", "A row has no time that could be compared with the window."),
    ("repeated_page", "The platform returns the same page repeatedly."),
    ("repeated_cursor", "A cursor points back to an earlier page."),
    ("repeated_row", "A row appears twice on one page."),
    (
        "list_changed",
        "The list changed so much while it was read that it cannot be shown to be complete. Start the export again, at a quieter time if it happens twice.",
    ),
    ("incomplete_pages", "The pages ended before all the rows that the platform counted."),
    (
        "short_page",
        "A page in the middle has fewer rows than were requested, and the rest would be lost.",
    ),
    ("empty_page", "A page without rows says that more pages follow."),
    ("row_too_large", "A row is longer than 1 MiB."),
    ("page_too_large", "A page is longer than 8 MiB."),
    (
        "too_many_rows",
        "The list has more rows than an export may hold: narrow the dates or set max_rows.",
    ),
    ("too_many_pages", "The list has more pages than an export may read."),
    ("took_too_long", "The conversation could not be read within its time limit."),
    ("chat_not_found", "There is no conversation with that account among those that are searched."),
    (
        "credentials_refused",
        "The platform refused the account's credentials: connect the account again.",
    ),
    (
        "platform_refusing_credentials",
        "The platform refuses the credentials of all accounts: the export waits for up to a day and continues automatically.",
    ),
    ("platform_refused", "The platform refused the request."),
    ("platform_busy", "The platform kept asking for pauses until this attempt gave up."),
    ("platform_unavailable", "The platform could not be reached, or failed repeatedly."),
    (
        "account_unavailable",
        "The account was removed, is inactive, or its platform is not offered.",
    ),
    (
        "account_unknown_id",
        "The platform's own id of the account is unknown: connect the account again.",
    ),
    ("unknown_dataset", "The platform no longer has the dataset."),
    ("broken_resume_point", "The stored state of earlier pages cannot be read."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_explains_every_code() {
        let documented = include_str!("../../../../docs/api.md");
        for (code, meaning) in CODES {
            assert!(documented.contains(&format!("| `{code}` | {meaning} |")), "{code}");
        }
    }

    #[test]
    fn codes_are_unique_and_explained() {
        let mut codes: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        let count = codes.len();
        codes.dedup();

        assert_eq!(codes.len(), count);
        assert!(CODES.iter().all(|(_, meaning)| meaning.ends_with('.')));
    }
}
