//! `[exports]`: the workers, and the limits of exports and of one export.

use tabular::{OUTPUT_BYTES_MAX, ROWS_MAX};

use super::problem::ConfigProblem;

/// The longest lease in seconds.
const LEASE_S_MAX: i64 = 3_600;
const RETENTION_S_MAX: i64 = 366 * 86_400;

/// Exports of whole datasets.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExportsSection {
    /// Exports that this node runs concurrently; 0: none.
    pub workers: usize,
    /// Exports of one customer that run concurrently, over all nodes.
    pub running_max: i64,
    /// Exports of one customer that may be pending.
    pub pending_max: i64,
    /// Milliseconds between two polls for exports that this node was not notified of.
    pub poll_ms: u64,
    /// Seconds after which other workers take over from one that no longer renews its lease.
    pub lease_s: i64,
    /// Seconds between two renewals of the lease.
    pub renew_s: i64,
    /// Consecutive attempts without a new page after which an export fails.
    pub attempts_max: i64,
    /// Seconds for which a finished file is kept.
    pub retention_s: i64,
    /// The most rows of one export.
    pub rows_max: u64,
    /// The most bytes of one file, and of the rows in it.
    pub bytes_max: u64,
    /// The most pages of one export.
    pub pages_max: u64,
    /// Seconds that reading one conversation may take, over all attempts.
    pub conversation_s: i64,
}

impl ExportsSection {
    /// How long a finished file is kept, as pages and emails say it: `7 days`, `36 hours`.
    pub fn kept_for(&self) -> String {
        let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
        let whole = units.into_iter().find(|(seconds, _)| self.retention_s % seconds == 0);
        let (seconds, word) = whole.unwrap_or((1, "second"));
        let count = self.retention_s / seconds;
        format!("{count} {word}{}", if count == 1 { "" } else { "s" })
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let mut need = |is_right: bool, key: &str, message: &str| {
            if !is_right {
                problems.push(ConfigProblem::new(format!("exports.{key}"), message));
            }
        };
        need(self.workers <= 64, "workers", "must be 0 to 64");
        need((1..=1_000).contains(&self.running_max), "running_max", "must be 1 to 1,000");
        need((1..=10_000).contains(&self.pending_max), "pending_max", "must be 1 to 10,000");
        let poll = (100..=3_600_000).contains(&self.poll_ms);
        need(poll, "poll_ms", "must be 100 to 3,600,000");
        need((2..=LEASE_S_MAX).contains(&self.lease_s), "lease_s", "must be 2 to 3,600");
        let renew = self.renew_s >= 1 && self.renew_s <= self.lease_s / 2;
        need(renew, "renew_s", "must be 1 to half of lease_s");
        need((1..=100).contains(&self.attempts_max), "attempts_max", "must be 1 to 100");
        let retention = (60..=RETENTION_S_MAX).contains(&self.retention_s);
        need(retention, "retention_s", "must be 60 to 31,622,400");
        need((1..=ROWS_MAX).contains(&self.rows_max), "rows_max", "must be 1 to 1,048,575");
        let bytes = (1..=OUTPUT_BYTES_MAX).contains(&self.bytes_max);
        need(bytes, "bytes_max", "must be 1 to 2,147,483,648");
        need((1..=1_000_000).contains(&self.pages_max), "pages_max", "must be 1 to 1,000,000");
        let conversation = (1..=86_400).contains(&self.conversation_s);
        need(conversation, "conversation_s", "must be 1 to 86,400");
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn how_long_files_are_kept_is_said_in_the_largest_unit_that_is_whole() {
        let said = |retention_s: i64| {
            let mut config = Config::from_toml("").unwrap();
            config.exports.retention_s = retention_s;
            config.exports.kept_for()
        };

        assert_eq!(Config::from_toml("").unwrap().exports.kept_for(), "7 days");
        assert_eq!(said(86_400), "1 day");
        assert_eq!(said(36 * 3_600), "36 hours");
        assert_eq!(said(90 * 60), "90 minutes");
        assert_eq!(said(61), "61 seconds");
    }
}
