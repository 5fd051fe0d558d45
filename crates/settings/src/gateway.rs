//! `[platform_refusals]` and `[platform_drift]`: when the gateway blames the platform for calls
//! that fail.

use super::problem::ConfigProblem;

/// `[platform_refusals]`: when refused credentials are blamed on the platform and not on the
/// accounts.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformRefusalsSection {
    /// The number of accounts that must be refused.
    pub accounts_min: i64,
    /// The number of customers that those accounts must belong to. If fewer have active accounts on
    /// the platform: all of them.
    pub customers_min: i64,
    /// Seconds within which the accounts must be refused.
    pub window_s: i64,
}

impl PlatformRefusalsSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(2..=1_000).contains(&self.accounts_min) {
            problems
                .push(ConfigProblem::new("platform_refusals.accounts_min", "must be 2 to 1,000"));
        }
        if !(2..=1_000).contains(&self.customers_min) {
            problems
                .push(ConfigProblem::new("platform_refusals.customers_min", "must be 2 to 1,000"));
        }
        if !(1..=3_600).contains(&self.window_s) {
            problems.push(ConfigProblem::new("platform_refusals.window_s", "must be 1 to 3,600"));
        }
    }
}

/// `[platform_drift]`: when a platform counts as degraded because far more calls fail than usual.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformDriftSection {
    /// Seconds of the moving window.
    pub window_s: i64,
    /// The number of calls that a route must have in the window, and before it. 0: nothing is ever
    /// degraded.
    pub calls_min: u64,
    /// The number of accounts whose calls must fail.
    pub accounts_min: u32,
    /// The number of customers that those accounts must belong to.
    pub customers_min: u32,
    /// How far the share of failed calls must be above the long-term one, in percentage points.
    pub rise_percent: u64,
    /// How far above it the share may be to end, in percentage points.
    pub end_percent: u64,
    /// Seconds that the long-term share covers.
    pub baseline_s: i64,
}

impl PlatformDriftSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let mut refuse = |name: &str, message: &str| {
            problems.push(ConfigProblem::new(format!("platform_drift.{name}"), message));
        };
        if !(6..=3_600).contains(&self.window_s) {
            refuse("window_s", "must be 6 to 3,600");
        }
        if self.calls_min > 1_000_000 {
            refuse("calls_min", "must be at most 1,000,000");
        }
        if !(2..=32).contains(&self.accounts_min) {
            refuse("accounts_min", "must be 2 to 32");
        }
        if !(2..=8).contains(&self.customers_min) {
            refuse("customers_min", "must be 2 to 8");
        }
        if !(5..=100).contains(&self.rise_percent) {
            refuse("rise_percent", "must be 5 to 100");
        }
        if self.end_percent >= self.rise_percent {
            refuse("end_percent", "must be below rise_percent");
        }
        if !(self.window_s.max(600)..=2_592_000).contains(&self.baseline_s) {
            refuse("baseline_s", "must be 600 to 2,592,000, and at least window_s");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn thresholds_of_drift_have_limits() {
        let keys = |text: &str| -> Vec<String> {
            let config = Config::from_toml(&format!("[platform_drift]\n{text}")).unwrap();
            config.problems().into_iter().map(|problem| problem.key).collect()
        };

        assert_eq!(keys("calls_min = 0"), [""; 0]);
        let wrong = "window_s = 5\naccounts_min = 1\ncustomers_min = 9\nrise_percent = 4\nend_percent = 4\nbaseline_s = 5";
        let names = [
            "window_s",
            "accounts_min",
            "customers_min",
            "rise_percent",
            "end_percent",
            "baseline_s",
        ];
        assert_eq!(keys(wrong), names.map(|name| format!("platform_drift.{name}")));
    }
}
