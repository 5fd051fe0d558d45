//! `[platform_refusals]`: when the gateway blames the platform for refused credentials.

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
