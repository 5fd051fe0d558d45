//! Keys as the service lists them, and as pages show them.

use domain::time::Timestamp;
use serde::Deserialize;

use console_kit::format;

/// The members of `GET /v1/auth/keys` that pages show.
#[derive(Deserialize)]
pub(crate) struct KeyList {
    pub(crate) keys: Vec<ShownKey>,
    pub(crate) budgets_reset_at: String,
}

/// A key, without its secret.
#[derive(Deserialize)]
pub(crate) struct ShownKey {
    #[serde(rename = "key_id")]
    pub(crate) id: String,
    pub(crate) name: String,
    prefix: String,
    last_four: String,
    pub(crate) scope: String,
    pub(crate) accounts: Option<Vec<String>>,
    pub(crate) monthly_budget_credits: Option<i64>,
    pub(crate) used_this_month: i64,
    last_used_at: Option<String>,
    pub(crate) expires_at: Option<String>,
    revoked_at: Option<String>,
    old_secret_expires_at: Option<String>,
}

/// A state in a word, with the class of its badge.
pub(crate) struct StateBadge {
    pub(crate) class: &'static str,
    pub(crate) word: String,
}

impl ShownKey {
    /// What is shown of its secret: `cgw_live_LqrN…1g0w`.
    pub(crate) fn hint(&self) -> String {
        format!("{}…{}", self.prefix, self.last_four)
    }

    /// Its name with the end of its secret, for lists to choose from.
    pub(crate) fn label(&self) -> String {
        format!("{} …{}", self.name, self.last_four)
    }

    /// Whether it is not accepted any more.
    pub(crate) fn has_ended(&self, now: Timestamp) -> bool {
        self.revoked_at.is_some() || self.is_expired(now)
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked_at.is_some()
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        let at = self.expires_at.as_deref().and_then(Timestamp::from_rfc3339);
        at.is_some_and(|at| at <= now)
    }

    pub(crate) fn access(&self) -> &'static str {
        if self.scope == "full" { "Full" } else { "Read-only" }
    }

    /// The accounts in words.
    pub(crate) fn reach(&self) -> String {
        let Some(accounts) = &self.accounts else { return "All accounts".to_owned() };
        let shown: Vec<&str> = accounts.iter().take(5).map(String::as_str).collect();
        let rest = accounts.len().saturating_sub(shown.len());
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("{}{more}", shown.join(", "))
    }

    pub(crate) fn used(&self) -> String {
        format::number(self.used_this_month)
    }

    pub(crate) fn budget(&self) -> String {
        self.monthly_budget_credits.map(format::number).unwrap_or_default()
    }

    pub(crate) fn last_used(&self) -> String {
        self.last_used_at.as_deref().map_or_else(|| "–".to_owned(), format::minute)
    }

    pub(crate) fn last_used_at(&self) -> &str {
        self.last_used_at.as_deref().unwrap_or_default()
    }

    /// What happened to it, or what stands in its way.
    pub(crate) fn state(&self, now: Timestamp) -> StateBadge {
        let badge = |class, word: String| StateBadge { class, word };
        if let Some(at) = &self.revoked_at {
            return badge("", format!("Revoked {}", format::day(at)));
        }
        if let Some(at) = self.expires_at.as_ref().filter(|_| self.is_expired(now)) {
            return badge("", format!("Expired {}", format::day(at)));
        }
        match self.monthly_budget_credits {
            Some(budget) if self.used_this_month >= budget => {
                badge("bad", "Budget used up".to_owned())
            }
            Some(budget) if self.used_this_month.saturating_mul(10) >= budget.saturating_mul(9) => {
                badge("warn", "Budget nearly used".to_owned())
            }
            _ => badge("ok", "Active".to_owned()),
        }
    }

    /// What else to know about its end, in a few words; empty if nothing.
    pub(crate) fn note(&self, now: Timestamp) -> String {
        if self.has_ended(now) {
            return String::new();
        }
        let old = self
            .old_secret_expires_at
            .as_deref()
            .map(|at| format!("The old secret works until {} UTC", format::minute(at)));
        let end =
            self.expires_at.as_deref().map(|at| format!("Expires {} UTC", format::minute(at)));
        [old, end].into_iter().flatten().collect::<Vec<_>>().join(". ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(budget: Option<i64>, used: i64) -> ShownKey {
        ShownKey {
            id: "key_1".to_owned(),
            name: "reporting".to_owned(),
            prefix: "cgw_live_h4Ty".to_owned(),
            last_four: "Qx2m".to_owned(),
            scope: "read_only".to_owned(),
            accounts: None,
            monthly_budget_credits: budget,
            used_this_month: used,
            last_used_at: None,
            expires_at: None,
            revoked_at: None,
            old_secret_expires_at: None,
        }
    }

    #[test]
    fn a_budget_warns_from_ninety_percent_on() {
        let now = Timestamp::from_rfc3339("2026-11-25T12:00:00Z").unwrap();
        for (budget, used, word) in [
            (None, 9_000, "Active"),
            (Some(2_000), 1_799, "Active"),
            (Some(2_000), 1_800, "Budget nearly used"),
            (Some(2_000), 2_000, "Budget used up"),
            (Some(0), 0, "Budget used up"),
        ] {
            assert_eq!(key(budget, used).state(now).word, word, "{used} of {budget:?}");
        }
    }

    #[test]
    fn a_key_ends_when_it_expires_or_is_revoked() {
        let now = Timestamp::from_rfc3339("2026-11-25T12:00:00Z").unwrap();
        let until = |at: &str| ShownKey { expires_at: Some(at.to_owned()), ..key(None, 0) };
        let revoked =
            ShownKey { revoked_at: Some("2026-11-03T00:00:00Z".to_owned()), ..key(None, 0) };

        assert!(!until("2026-11-25T12:00:01Z").has_ended(now));
        assert!(until("2026-11-25T12:00:00Z").has_ended(now));
        assert_eq!(until("2026-11-25T12:00:00Z").state(now).word, "Expired 25 Nov 2026");
        assert_eq!(revoked.state(now).word, "Revoked 3 Nov 2026");
    }

    #[test]
    fn long_lists_of_accounts_are_cut() {
        let names = (1..=7).map(|number| format!("a{number}")).collect();
        let many = ShownKey { accounts: Some(names), ..key(None, 0) };

        assert_eq!(many.reach(), "a1, a2, a3, a4, a5 and 2 more");
        assert_eq!(key(None, 0).reach(), "All accounts");
    }
}
