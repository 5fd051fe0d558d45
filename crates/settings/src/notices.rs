//! `[notices]`: emails that customers get without asking.

use domain::credits::Credits;

use super::problem::ConfigProblem;

/// When customers are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct NoticesSection {
    /// Seconds between two looks for reasons; 0: this node makes none.
    pub every_s: u64,
    /// The balance below which customers without a threshold of their own are told; 0: they are
    /// not.
    pub low_balance_credits: i64,
    /// Days before credits expire that customers are told; 0: they are not.
    pub expiring_days: i64,
}

impl NoticesSection {
    /// The balance below which customers without a threshold of their own are told.
    pub const fn low_balance(&self) -> Credits {
        Credits::from_whole(self.low_balance_credits)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if self.every_s != 0 && !(10..=86_400).contains(&self.every_s) {
            problems.push(ConfigProblem::new("notices.every_s", "must be 0, or 10 to 86,400"));
        }
        if !(0..=1_000_000_000).contains(&self.low_balance_credits) {
            let key = "notices.low_balance_credits";
            problems.push(ConfigProblem::new(key, "must be 0 to 1,000,000,000"));
        }
        if !(0..=60).contains(&self.expiring_days) {
            problems.push(ConfigProblem::new("notices.expiring_days", "must be 0 to 60"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn wrong_values_are_problems() {
        let config = Config::from_toml(
            "[notices]\nevery_s = 9\nlow_balance_credits = -1\nexpiring_days = 61",
        );
        let problems = config.unwrap().problems();

        let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
        let wrong = ["notices.every_s", "notices.low_balance_credits", "notices.expiring_days"];
        assert_eq!(keys, wrong);
    }
}
