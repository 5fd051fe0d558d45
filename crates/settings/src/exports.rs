//! `[exports]`: who works on exports, how many, how long, and what one may be.

use tabular::{OUTPUT_BYTES_MAX, ROWS_MAX};

use super::ConfigProblem;

/// The longest lease, and the longest that a finished file is kept, in seconds.
const LEASE_S_MAX: i64 = 3_600;
const RETENTION_S_MAX: i64 = 366 * 86_400;

/// Exports of whole lists.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExportsSection {
    /// Exports that this node works on at once; 0: none.
    pub workers: usize,
    /// Exports of one customer that are worked on at once, on all nodes.
    pub running_max: i64,
    /// Exports of one customer that may wait.
    pub pending_max: i64,
    /// Milliseconds between two looks for exports that this node was not told of.
    pub poll_ms: u64,
    /// Seconds after which others take over from a worker that gives no sign of life.
    pub lease_s: i64,
    /// Seconds between two signs of life.
    pub renew_s: i64,
    /// Attempts in a row without a new page, after which an export fails.
    pub attempts_max: i64,
    /// Seconds that a finished file is kept.
    pub retention_s: i64,
    /// Rows of one export.
    pub rows_max: u64,
    /// Bytes of one file, and of the rows in it.
    pub bytes_max: u64,
    /// Pages of one export.
    pub pages_max: u64,
    /// Seconds that reading one conversation may take, over all attempts.
    pub conversation_s: i64,
}

impl ExportsSection {
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
