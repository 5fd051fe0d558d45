//! What native calls teach about platforms: `[platform_refusals]`.

use super::ConfigProblem;

/// `[platform_refusals]`: when refused credentials are the platform's fault and not the accounts'.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformRefusalsSection {
    /// The number of accounts that are refused.
    pub accounts_min: i64,
    /// The number of customers that these accounts belong to. Where fewer have active accounts of the platform: all.
    pub customers_min: i64,
    /// The seconds within which they are.
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
