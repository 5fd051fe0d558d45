//! `[retention]`: how long what has ended is kept.

use super::problem::ConfigProblem;

/// `[retention]`: how long what has ended is kept in the database.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
    /// Days for which calls are kept one by one; 0: permanently.
    pub calls_days: i64,
    /// Days after which a customer that never confirmed its address is deleted; 0: never.
    pub unconfirmed_customers_days: i64,
    /// Days for which jobs that were given up are kept; 0: permanently.
    pub given_up_jobs_days: i64,
    /// Days for which entries of the audit lists are kept; 0: permanently.
    pub audit_days: i64,
    /// The most calls that one transaction sums up.
    pub batch_calls: i64,
    /// The most of a node's time that summing up calls may take, in percent.
    pub load_percent: u32,
}

impl RetentionSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let mut need = |is_right: bool, key: &str, message: &str| {
            if !is_right {
                problems.push(ConfigProblem::new(format!("retention.{key}"), message));
            }
        };
        let is_kept = |days: i64, least: i64| days == 0 || (least..=36_500).contains(&days);
        // Budgets and overviews read the calls of the last 31 days.
        need(is_kept(self.calls_days, 35), "calls_days", "must be 0, or 35 to 36,500");
        let unconfirmed = is_kept(self.unconfirmed_customers_days, 7);
        need(unconfirmed, "unconfirmed_customers_days", "must be 0, or 7 to 36,500");
        let given_up = is_kept(self.given_up_jobs_days, 7);
        need(given_up, "given_up_jobs_days", "must be 0, or 7 to 36,500");
        let audit = is_kept(self.audit_days, 365);
        need(audit, "audit_days", "must be 0, or 365 to 36,500");
        need((1..=5_000).contains(&self.batch_calls), "batch_calls", "must be 1 to 5,000");
        need((1..=100).contains(&self.load_percent), "load_percent", "must be 1 to 100");
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn every_setting_of_retention_has_limits() {
        let keys = |text: &str| -> Vec<String> {
            let config = Config::from_toml(&format!("[retention]\n{text}")).unwrap();
            config.problems().into_iter().map(|problem| problem.key).collect()
        };
        let off = "calls_days = 0\nunconfirmed_customers_days = 0\ngiven_up_jobs_days = 0\naudit_days = 0";
        let wrong = "calls_days = 34\nunconfirmed_customers_days = 6\ngiven_up_jobs_days = -1\naudit_days = 364\nbatch_calls = 0\nload_percent = 0";

        assert_eq!(keys(off), [""; 0]);
        let names = [
            "calls_days",
            "unconfirmed_customers_days",
            "given_up_jobs_days",
            "audit_days",
            "batch_calls",
            "load_percent",
        ];
        assert_eq!(keys(wrong), names.map(|name| format!("retention.{name}")));
    }
}
