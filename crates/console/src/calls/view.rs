//! Calls as the service reports them, and as pages show them.

use serde::Deserialize;

use crate::keys::view::StateBadge;
use console_kit::address;
use console_kit::format;

/// The members of a page of the call log that pages show.
#[derive(Deserialize)]
pub(crate) struct CallList {
    pub(crate) calls: Vec<ShownCall>,
    /// The cursor of the next page, with all its decimals.
    pub(crate) next_before: Option<Box<serde_json::value::RawValue>>,
}

/// A call.
#[derive(Deserialize)]
pub(crate) struct ShownCall {
    pub(crate) call_id: String,
    pub(crate) key_id: String,
    pub(crate) at: String,
    pub(crate) account: String,
    pub(crate) platform: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) route: String,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: String,
    pub(crate) credits: i64,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) upstream_ms: Option<i64>,
    pub(crate) tag: Option<String>,
    pub(crate) request_id: String,
}

impl ShownCall {
    /// Whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.outcome == "held"
    }

    /// The class of its method's color.
    pub(crate) fn verb_class(&self) -> &'static str {
        verb_class(&self.method)
    }

    /// Its page.
    pub(crate) fn page(&self) -> String {
        format!("/console/calls/{}", address::segment(&self.call_id))
    }

    /// The status of the response.
    pub(crate) fn badge(&self) -> StateBadge {
        let (class, word) = match self.status {
            None if self.is_running() => ("run", "running".to_owned()),
            None => ("bad", "none".to_owned()),
            Some(status @ 500..) => ("bad", status.to_string()),
            Some(status @ 400..) => ("warn", status.to_string()),
            Some(status) => ("ok", status.to_string()),
        };
        StateBadge { class, word }
    }

    /// How it ended, in words.
    pub(crate) fn ending(&self) -> &str {
        outcome_word(&self.outcome)
    }

    /// What it cost.
    pub(crate) fn cost(&self) -> String {
        if self.is_running() {
            format!("{} held", format::credits(self.credits))
        } else {
            format::cost(self.credits)
        }
    }

    pub(crate) const fn is_free(&self) -> bool {
        self.credits == 0
    }

    pub(crate) fn time(&self) -> String {
        format::time(&self.at)
    }

    /// Without its year, for tables.
    pub(crate) fn short_moment(&self) -> String {
        format::short_moment(&self.at)
    }

    pub(crate) fn moment(&self) -> String {
        format::moment(&self.at)
    }

    /// Milliseconds, with commas; empty while it is running.
    pub(crate) fn duration(&self) -> String {
        self.duration_ms.map(format::number).unwrap_or_default()
    }

    /// Whether its path is not in the catalogue.
    pub(crate) fn is_unlisted(&self) -> bool {
        self.route == "unlisted" || self.route.contains("{}")
    }
}

/// The class of a method's color: `w` for writes, `d` for `DELETE`.
pub(crate) fn verb_class(method: &str) -> &'static str {
    match method {
        "GET" | "HEAD" => "",
        "DELETE" => " d",
        _ => " w",
    }
}

/// How a call ended, in words; what a newer version of the service wrote stays as it is.
pub(crate) fn outcome_word(outcome: &str) -> &str {
    match outcome {
        "held" => "Running",
        "answered" => "Answered",
        "upstream_401" => "Credentials refused",
        "upstream_429" => "Platform busy",
        "upstream_not_carried_out" => "Not carried out",
        "upstream_5xx" => "Platform failed",
        "upstream_timeout" => "Timed out",
        "connect_failed" => "Not reachable",
        "bad_response" => "Broken response",
        "client_gone_before_dispatch" => "Cancelled by you",
        "not_dispatched" => "Not sent",
        "outcome_unknown" => "Unknown, not charged",
        "expired" => "Expired",
        other => other,
    }
}

/// What an ending means for the reader.
pub(crate) fn outcome_meaning(outcome: &str) -> &'static str {
    match outcome {
        "held" => "The call is still running. Its credits are held until it ends.",
        "answered" => "The platform answered.",
        "upstream_401" => "The platform refused the account’s credentials. You weren’t charged.",
        "upstream_not_carried_out" => {
            "The platform said that it didn’t carry out the call. You weren’t charged."
        }
        "upstream_429" => "The platform was busy and asked us to wait. You weren’t charged.",
        "upstream_5xx" => "The platform failed. You weren’t charged.",
        "upstream_timeout" => "The platform didn’t answer in time. You weren’t charged.",
        "connect_failed" => "The platform couldn’t be reached. You weren’t charged.",
        "bad_response" => "The platform’s response broke off or was invalid. You weren’t charged.",
        "client_gone_before_dispatch" => {
            "You hung up before the call was sent to the platform. You weren’t charged."
        }
        "not_dispatched" => "The call wasn’t sent to the platform. You weren’t charged.",
        "outcome_unknown" => {
            "We stopped before the platform answered. It may have been carried out; you weren’t charged."
        }
        "expired" => "The call never ended, so its credits were returned.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_word_and_a_meaning() {
        for outcome in domain::charge::Outcome::ALL {
            let name = outcome.to_string();
            assert_ne!(outcome_word(&name), name, "{name}");
            assert!(!outcome_meaning(&name).is_empty(), "{name}");
        }
        assert_eq!(outcome_word("of_a_newer_version"), "of_a_newer_version");
    }

    fn call(status: Option<u16>, outcome: &str, credits: i64) -> ShownCall {
        let call = serde_json::json!({
            "call_id": "call_1", "key_id": "key_1", "at": "2026-11-22T11:27:49.216Z",
            "account": "ada", "platform": "platform_alpha", "method": "DELETE",
            "path": "posts/1", "route": "DELETE posts/{id}", "status": status,
            "outcome": outcome, "credits": credits, "duration_ms": 1_234, "upstream_ms": null,
            "tag": null, "request_id": "req_1",
        });
        serde_json::from_value(call).unwrap()
    }

    #[test]
    fn a_status_has_the_color_of_its_class() {
        for (status, outcome, class, word) in [
            (Some(200), "answered", "ok", "200"),
            (Some(302), "answered", "ok", "302"),
            (Some(404), "answered", "warn", "404"),
            (Some(503), "upstream_5xx", "bad", "503"),
            (None, "upstream_timeout", "bad", "none"),
            (None, "held", "run", "running"),
        ] {
            let badge = call(status, outcome, 0).badge();
            assert_eq!((badge.class, badge.word.as_str()), (class, word), "{outcome}");
        }
    }

    #[test]
    fn a_running_call_has_cost_nothing_yet() {
        let running = call(None, "held", 2);
        let ended = call(Some(200), "answered", 2);

        assert_eq!((running.cost(), ended.cost()), ("2 credits held".into(), "2 credits".into()));
        assert_eq!(call(Some(503), "upstream_5xx", 0).cost(), "Free");
        assert!(running.is_running() && !ended.is_running() && !running.is_free());
    }

    #[test]
    fn times_and_links_of_a_call_are_written_for_people() {
        let ended = call(Some(200), "answered", 2);

        assert_eq!((ended.time(), ended.duration()), ("11:27:49".into(), "1,234".into()));
        assert_eq!(ended.short_moment(), "22 Nov, 11:27:49");
        assert_eq!((ended.page(), ended.verb_class()), ("/console/calls/call_1".into(), " d"));
        assert_eq!((verb_class("GET"), verb_class("HEAD"), verb_class("PATCH")), ("", "", " w"));
        assert_eq!(ended.ending(), "Answered");
        assert!(!ended.is_unlisted());
        assert!(ShownCall { route: "unlisted".to_owned(), ..ended }.is_unlisted());
    }

    #[test]
    fn a_cursor_keeps_all_its_decimals() {
        let text = r#"{"calls": [], "next_before": 1790000000.000010}"#;

        let list: CallList = serde_json::from_str(text).unwrap();

        assert_eq!(list.next_before.unwrap().get(), "1790000000.000010");
    }
}
