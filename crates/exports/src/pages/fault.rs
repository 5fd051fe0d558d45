//! Why pages cannot be read: a stable code, a sentence, and what can be done about it.

use domain::platform::Platform;

/// What can be done about pages that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRemedy {
    /// None: the same pages would fail again, and the export has failed.
    None,
    /// Another attempt, of which there are a few.
    Attempt,
    /// To wait until the platform accepts credentials again. Attempts meanwhile do not count.
    Recovery,
}

/// Why a page is not there. What was read before it stays good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PageFault {
    /// What programs match. It never changes.
    pub code: &'static str,
    /// What happened and what can be done, for people. Holds no credentials.
    pub message: String,
    /// What can be done about it.
    pub remedy: PageRemedy,
}

impl PageFault {
    /// Another attempt would meet the same.
    pub(super) fn last(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: PageRemedy::None }
    }

    /// Another attempt may go better.
    pub(super) fn for_now(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: PageRemedy::Attempt }
    }

    /// The platform refuses the credentials of everybody.
    pub(super) fn refusing(platform: Platform) -> Self {
        let message = format!(
            "{platform} currently refuses the credentials of all accounts; the export goes on when it accepts them again"
        );
        Self { code: "platform_refusing_credentials", message, remedy: PageRemedy::Recovery }
    }

    /// Whether one page is wrong, which may be right when it is asked for again.
    pub(super) fn is_of_one_page(&self) -> bool {
        OF_ONE_PAGE.contains(&self.code)
    }

    /// The platform's page is not what its dataset says.
    pub(super) fn malformed(page: u64, problem: &str) -> Self {
        Self::last("malformed_page", format!("page {page} is not as it should be: {problem}"))
    }
}

/// What such a fault says of one page; the same page, asked for again, may be right.
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

/// After these codes the same export, started again, may succeed.
const RETRYABLE: [&str; 6] = [
    "list_changed",
    "platform_busy",
    "platform_unavailable",
    "platform_refusing_credentials",
    "storage_unavailable",
    "storage_full",
];

/// Whether the same export, started again, may succeed after it failed with this code.
pub fn is_retryable(code: &str) -> bool {
    RETRYABLE.contains(&code)
}

/// Every code that a fault can have, with what it means.
pub const CODES: &[(&str, &str)] = &[
    ("malformed_page", "A page is not JSON, or a field of it has another type than it should."),
    ("missing_rows", "A page has no list of rows."),
    ("missing_has_more", "A page does not say whether there is more."),
    ("missing_cursor", "A page has no field for the next cursor."),
    ("missing_total", "A page does not tell the length of the list."),
    ("missing_id", "A row has no id."),
    ("missing_time", "A row has no time that could be compared with the window."),
    ("repeated_page", "The platform gives the same page again and again."),
    ("repeated_cursor", "A cursor leads back to where it was before."),
    ("repeated_row", "A row stands on one page twice."),
    (
        "list_changed",
        "The list changed so much while it was read that it cannot be shown to be whole. Start the export again, at a quieter time if it happens twice.",
    ),
    ("incomplete_pages", "The pages ended before all the rows that the platform counted."),
    (
        "short_page",
        "A page in the middle has fewer rows than were asked for, and the rest would be lost.",
    ),
    ("empty_page", "A page without rows says that there is more."),
    ("row_too_large", "A row is longer than 1 MiB."),
    ("page_too_large", "A page is longer than 8 MiB."),
    (
        "too_many_rows",
        "The list has more rows than an export may hold: narrow the dates or set max_rows.",
    ),
    ("too_many_pages", "The list has more pages than an export may read."),
    ("took_too_long", "The conversation could not be read in its time."),
    (
        "chat_not_found",
        "There is no conversation with that account among those that are looked through.",
    ),
    (
        "credentials_refused",
        "The platform refused the account's credentials: connect the account again.",
    ),
    (
        "platform_refusing_credentials",
        "The platform refuses the credentials of all accounts: the export waits, for a day at most, and goes on by itself.",
    ),
    ("platform_refused", "The platform refused the request."),
    ("platform_busy", "The platform asked for pauses until this attempt gave up."),
    ("platform_unavailable", "The platform could not be reached, or failed, again and again."),
    (
        "account_unavailable",
        "The account was removed, is inactive, or its platform is not offered.",
    ),
    (
        "account_unknown_id",
        "The platform's own id of the account is not known: connect the account again.",
    ),
    ("unknown_dataset", "The platform does not have the dataset any more."),
    ("broken_resume_point", "What was kept of earlier pages cannot be read."),
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
    fn codes_are_told_once_and_explained() {
        let mut codes: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        let count = codes.len();
        codes.dedup();

        assert_eq!(codes.len(), count);
        assert!(CODES.iter().all(|(_, meaning)| meaning.ends_with('.')));
    }
}
