//! `[sessions]` and `[passwords]`: how long logins last, and how passwords are hashed.

use store::sessions::SessionLifetime;

use super::problem::ConfigProblem;

const DAY_S: i64 = 86_400;

/// `[sessions]`: logins of customers in browsers.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionsSection {
    /// Seconds without use after which a session ends.
    pub idle_s: i64,
    /// Seconds after its start at which a session ends in any case.
    pub age_s: i64,
    /// The most sessions that one customer may have.
    pub per_customer_max: i64,
}

/// `[passwords]`: hashing is slow on purpose, so only a few passwords are hashed concurrently.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PasswordsSection {
    /// Hashes computed concurrently; each takes 19 MiB.
    pub at_once: usize,
    /// Passwords that may wait to be hashed.
    pub waiting_max: usize,
}

impl SessionsSection {
    /// How long sessions live.
    pub const fn lifetime(&self) -> SessionLifetime {
        SessionLifetime { idle_s: self.idle_s, age_s: self.age_s }
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(60..=30 * DAY_S).contains(&self.idle_s) {
            problems
                .push(ConfigProblem::new("sessions.idle_s", "must be 60 to 2,592,000 (30 days)"));
        }
        if !(self.idle_s..=90 * DAY_S).contains(&self.age_s) {
            let message = "must be at least idle_s and at most 7,776,000 (90 days)";
            problems.push(ConfigProblem::new("sessions.age_s", message));
        }
        if !(1..=1_000).contains(&self.per_customer_max) {
            problems.push(ConfigProblem::new("sessions.per_customer_max", "must be 1 to 1,000"));
        }
    }
}

impl PasswordsSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(1..=256).contains(&self.at_once) {
            problems.push(ConfigProblem::new("passwords.at_once", "must be 1 to 256"));
        }
        if self.waiting_max > 10_000 {
            problems.push(ConfigProblem::new("passwords.waiting_max", "must be at most 10,000"));
        }
    }
}
