//! Accounts, platforms and slots as the service reports them, and as pages show them.

use serde::Deserialize;

use crate::keys::view::StateBadge;
use console_kit::format;

/// The members of `GET /v1/accounts` that pages show.
#[derive(Deserialize)]
pub(crate) struct AccountList {
    pub(crate) accounts: Vec<ShownAccount>,
    pub(crate) next_before: Option<String>,
}

/// A connected account.
#[derive(Deserialize, Clone)]
pub(crate) struct ShownAccount {
    pub(crate) creator_id: String,
    pub(crate) platform: String,
    platform_account_id: Option<String>,
    state: String,
    inactive_reason: Option<String>,
    connected_at: String,
    verified_at: Option<String>,
}

impl AccountList {
    /// Their names, in order.
    pub(crate) fn names(self) -> Vec<String> {
        self.accounts.into_iter().map(|account| account.creator_id).collect()
    }
}

impl ShownAccount {
    pub(crate) fn is_active(&self) -> bool {
        self.state == "active"
    }

    /// Whether the platform refused its credentials.
    pub(crate) fn needs_credentials(&self) -> bool {
        self.state == "reconnect_needed"
    }

    pub(crate) fn is_switched_off(&self) -> bool {
        self.inactive_reason.as_deref() == Some("switched_off")
    }

    /// Whether it waits for a slot.
    pub(crate) fn lacks_slot(&self) -> bool {
        self.state == "inactive" && !self.is_switched_off()
    }

    pub(crate) fn platform_id(&self) -> &str {
        self.platform_account_id.as_deref().unwrap_or("–")
    }

    pub(crate) fn connected(&self) -> String {
        format::day(&self.connected_at)
    }

    /// When the platform last confirmed its credentials.
    pub(crate) fn verified(&self) -> String {
        self.verified_at.as_deref().map_or_else(|| "–".to_owned(), format::day)
    }

    pub(crate) fn badge(&self) -> StateBadge {
        let (class, word) = if self.is_active() {
            ("ok", "Active")
        } else if self.needs_credentials() {
            ("warn", "Reconnect")
        } else if self.is_switched_off() {
            ("", "Switched off")
        } else {
            ("", "Inactive")
        };
        StateBadge { class, word: word.to_owned() }
    }
}

/// The members of `GET /v1/platforms` that pages show.
#[derive(Deserialize)]
pub(crate) struct PlatformList {
    pub(crate) platforms: Vec<PlatformInfo>,
}

/// A platform and how accounts are connected there.
#[derive(Deserialize)]
pub(crate) struct PlatformInfo {
    pub(crate) platform: String,
    pub(crate) offered: bool,
    state: String,
    since: Option<String>,
    degradations: Vec<FailingCalls>,
    pub(crate) auth: Vec<AuthField>,
}

/// Calls that fail more often than usual.
#[derive(Deserialize)]
struct FailingCalls {
    kind: String,
    route: Option<String>,
    share_percent: u64,
}

/// A field of the credentials.
#[derive(Deserialize)]
pub(crate) struct AuthField {
    pub(crate) name: String,
    pub(crate) r#type: String,
    pub(crate) required: bool,
    pub(crate) secret: bool,
    pub(crate) description: String,
}

impl PlatformInfo {
    /// What is wrong with the platform for everybody, as a title and a sentence; none if it works.
    pub(crate) fn trouble(&self) -> Option<(String, String)> {
        let since = self.since.as_deref().map(format::minute).unwrap_or_default();
        match self.state.as_str() {
            "refusing_credentials" => Some((
                format!("{} refuses the credentials of all accounts", self.platform),
                format!(
                    "Since {since} UTC. Don't reconnect: your credentials aren't the problem. Calls that get a 401 cost nothing."
                ),
            )),
            "degraded" => {
                let failing: Vec<String> =
                    self.degradations.iter().take(3).map(FailingCalls::words).collect();
                Some((
                    format!("Calls to {} fail more often than usual", self.platform),
                    format!(
                        "Since {since} UTC: {}. The platform may have changed. No account needs to be connected again.",
                        failing.join("; ")
                    ),
                ))
            }
            _ => None,
        }
    }
}

impl FailingCalls {
    fn words(&self) -> String {
        let kind = match self.kind.as_str() {
            "unauthorized" => "401",
            "forbidden" => "403",
            "not_found" => "404",
            other => other,
        };
        let route = self.route.as_deref().unwrap_or("all routes");
        format!("{}% of the calls to {route} ({kind})", self.share_percent)
    }
}

impl AuthField {
    /// The name of its field in the form, which is also its place in the request.
    pub(crate) fn form_name(&self) -> String {
        format!("auth.{}", self.name)
    }

    /// `account_id` as people read it: `Account ID`.
    pub(crate) fn label(&self) -> String {
        let words: Vec<String> = self.name.split('_').map(word).collect();
        let text = words.join(" ");
        let mut letters = text.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        let end = if self.required { "" } else { " (optional)" };
        format!("{}{}{end}", first.unwrap_or_default(), letters.as_str())
    }

    /// Whether it is written in several lines.
    pub(crate) fn has_lines(&self) -> bool {
        matches!(self.r#type.as_str(), "string_list" | "string_map")
    }

    /// The type of its input.
    pub(crate) fn input(&self) -> &'static str {
        match (self.r#type.as_str(), self.secret) {
            ("timestamp", _) => "datetime-local",
            (_, true) => "password",
            _ => "text",
        }
    }

    /// What it is, and how it is written.
    pub(crate) fn help(&self) -> String {
        let how = match self.r#type.as_str() {
            "timestamp" => " In UTC.",
            "string_list" => " One per line.",
            "string_map" => " One per line, as name: value.",
            _ => "",
        };
        format!("{}{how}", pages::plain::sentence(&self.description))
    }
}

fn word(word: &str) -> String {
    if matches!(word, "id" | "url" | "ip") { word.to_uppercase() } else { word.to_owned() }
}

/// The members of `GET /v1/billing/slots` that pages show.
#[derive(Deserialize)]
pub(crate) struct SlotList {
    pub(crate) slots: Vec<PlatformSlots>,
}

/// The slots of a platform.
#[derive(Deserialize)]
pub(crate) struct PlatformSlots {
    pub(crate) platform: String,
    pub(crate) limit: i64,
    pub(crate) active: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, kind: &str) -> AuthField {
        AuthField {
            name: name.to_owned(),
            r#type: kind.to_owned(),
            required: true,
            secret: true,
            description: "the token of a session".to_owned(),
        }
    }

    #[test]
    fn fields_of_credentials_have_labels_and_help() {
        assert_eq!(field("account_id", "string").label(), "Account ID");
        let optional = AuthField { required: false, ..field("user_agent", "string") };
        assert_eq!(optional.label(), "User agent (optional)");
        assert_eq!(field("scopes", "string_list").help(), "The token of a session. One per line.");
        assert_eq!(field("token", "string").input(), "password");
        assert!(field("cookies", "string_map").has_lines());
    }

    #[test]
    fn a_platform_that_fails_for_everybody_says_so() {
        let platform = |state: &str| PlatformInfo {
            platform: "platform_beta".to_owned(),
            offered: true,
            state: state.to_owned(),
            since: Some("2026-11-25T10:00:00Z".to_owned()),
            degradations: vec![FailingCalls {
                kind: "not_found".to_owned(),
                route: Some("GET chats".to_owned()),
                share_percent: 60,
            }],
            auth: Vec::new(),
        };

        assert!(platform("ok").trouble().is_none());
        let (_, degraded) = platform("degraded").trouble().unwrap();
        assert!(degraded.contains("60% of the calls to GET chats (404)"), "{degraded}");
        let (_, refusing) = platform("refusing_credentials").trouble().unwrap();
        assert!(refusing.contains("25 Nov 2026, 10:00"), "{refusing}");
    }
}
