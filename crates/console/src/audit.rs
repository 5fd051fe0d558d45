//! `/console/audit`: who did what.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Map, Value};

use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::format;
use console_kit::page_query::PageFilters;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

const PATH: &str = "/console/audit";
/// The entries of a page.
const LIMIT: &str = "50";
/// What can be chosen: the start of the actions, and its words.
const GROUPS: &[(&str, &str)] = &[
    ("", "All"),
    ("key.", "Keys"),
    ("account", "Accounts"),
    ("password.", "Password"),
    ("email.", "Email"),
    ("support", "Support"),
    ("operator.", "Operator"),
];

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show))
}

/// The members of `GET /v1/audit` that the page shows.
#[derive(Deserialize)]
struct AuditList {
    entries: Vec<AuditLine>,
    next_before: Option<String>,
}

/// Something that was done.
#[derive(Deserialize)]
struct AuditLine {
    at: String,
    actor: String,
    action: String,
    details: Map<String, Value>,
}

/// A link to some of the entries.
struct GroupLink {
    path: String,
    word: &'static str,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    frame: PageShell,
    form: FormView,
    groups: Vec<GroupLink>,
    entries: Vec<AuditLine>,
    is_filtered: bool,
    newest: String,
    older: String,
}

async fn show(
    visitor: ConsoleVisitor,
    PageFilters(filters): PageFilters,
) -> Result<Response, PageFailure> {
    let (action, before) = (filters.text("action"), filters.text("before"));
    let (list, form) = match visitor.try_get::<AuditList>(&route(action, before)).await {
        Ok(list) => (list, FormView::default()),
        Err(problem) if problem.fields.is_empty() => return Err(visitor.fail(problem)),
        Err(problem) => {
            let form = FormView::refused(FormData::default(), &problem, &[]);
            (visitor.get(&route("", "")).await?, form)
        }
    };
    let page = AuditPage {
        frame: visitor.shell(ConsoleSection::Audit),
        groups: GROUPS.iter().map(|group| link_to(group, action)).collect(),
        is_filtered: !action.is_empty() || !before.is_empty(),
        newest: if before.is_empty() { String::new() } else { link(action, "") },
        older: list.next_before.as_deref().map(|next| link(action, next)).unwrap_or_default(),
        entries: list.entries,
        form,
    };
    Ok(visitor.show(page.form.status(), &page))
}

/// The route of the API for some of the entries.
fn route(action: &str, before: &str) -> String {
    let pairs = [("limit", LIMIT), ("action", action), ("before", before)];
    format!("/v1/audit{}", address::query(&pairs))
}

fn link(action: &str, before: &str) -> String {
    format!("{PATH}{}", address::query(&[("action", action), ("before", before)]))
}

fn link_to((action, word): &(&'static str, &'static str), chosen: &str) -> GroupLink {
    GroupLink { path: link(action, ""), word, is_current: chosen == *action }
}

impl AuditLine {
    fn moment(&self) -> String {
        format::moment(&self.at)
    }

    fn words(&self) -> &str {
        action_words(&self.action)
    }

    /// Who did it, in words.
    fn who(&self) -> &'static str {
        match self.actor.split('_').next().unwrap_or_default() {
            "key" => "A key",
            "ses" | "session" => "You, in the console",
            "cus" => "Staff",
            "operator" => "The operator",
            "processor" => "The payment processor",
            "mailed link" => "A link that was emailed",
            _ => "",
        }
    }

    /// The details, one after the other: `name: reporting, scope: full`.
    fn details(&self) -> String {
        let shown = self.details.iter().map(|(name, value)| {
            let name = name.replace('_', " ");
            match value {
                Value::String(text) => format!("{name}: {text}"),
                Value::Array(values) => {
                    let all: Vec<String> = values.iter().map(written).collect();
                    format!("{name}: {}", all.join(" "))
                }
                other => format!("{name}: {other}"),
            }
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What was done, in words; what has none stays as it is.
pub(crate) fn action_words(action: &str) -> &str {
    match action {
        "key.created" => "Key created",
        "key.changed" => "Key changed",
        "key.rotated" => "Key rotated",
        "key.deleted" => "Key revoked",
        "account.connected" => "Account connected",
        "account.switched_off" => "Account switched off",
        "account.switched_on" => "Account switched on",
        "account.deleted" => "Account disconnected",
        "accounts.activated" => "Accounts became active",
        "accounts.deactivated" => "Accounts became inactive",
        "password.changed" => "Password changed",
        "password.reset" => "Password set with an emailed link",
        "email.changed" => "Email address changed",
        "notices.changed" => "Email settings changed",
        "support_access.enabled" => "Support access allowed",
        "support_access.disabled" => "Support access ended",
        "support.calls_read" => "Staff looked at calls",
        "support.usage_read" => "Staff looked at usage",
        "support.exports_read" => "Staff looked at exports",
        "support.export_deleted" => "Staff deleted an export",
        "permission.granted" => "Permission granted",
        "permission.revoked" => "Permission revoked",
        "credits.adjusted" => "Credits adjusted",
        "plan.changed" => "Plan changed",
        "plan.change_pending" => "Plan change scheduled",
        "plan.change_taken_back" => "Scheduled plan change cancelled",
        "slots.changed" => "Slots changed",
        "subscription.changed" => "Plan or its state changed",
        "subscription.cancelled_by_operator" => "Subscription ended",
        "operator.customer_viewed" => "Customer looked at",
        "operator.customer_found" => "Customer found in a search",
        "operator.call_viewed" => "Call looked at",
        "operator.customer_exported" => "All data exported",
        "operator.previewed" => "Change previewed",
        "customer.suspended" => "Suspended",
        "sessions.ended_by_operator" => "Signed out of every browser by the operator",
        "customer.resumed" => "Suspension ended",
        "customer.erased" => "Customer erased",
        "order.refunded_by_operator" => "Order refunded",
        "payment.settled_by_operator" => "Payment settled",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(actor: &str, details: &Value) -> AuditLine {
        AuditLine {
            at: "2026-11-22T11:27:49Z".to_owned(),
            actor: actor.to_owned(),
            action: "key.created".to_owned(),
            details: details.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn every_action_of_the_service_has_words() {
        for action in runtime::audit::ACTIONS {
            let words = action_words(action);
            assert_ne!(words, action);
            assert!(
                words.starts_with(char::is_uppercase) && !words.contains(['_', '.']),
                "{words}"
            );
        }
        assert_eq!(action_words("something.new"), "something.new");
    }

    #[test]
    fn whoever_did_it_has_a_word() {
        for (actor, words) in [
            ("key_019ab3c4d5e67f8091a2b3c4d5e6f708", "A key"),
            ("ses_019ab3c4d5e67f8091a2b3c4d5e6f708", "You, in the console"),
            ("cus_019ab3c4d5e67f8091a2b3c4d5e6f708", "Staff"),
            ("operator", "The operator"),
            ("processor", "The payment processor"),
            ("mailed link", "A link that was emailed"),
            ("somebody", ""),
        ] {
            assert_eq!(line(actor, &json!({})).who(), words, "{actor}");
        }
    }

    #[test]
    fn details_are_written_one_after_the_other() {
        let details = json!({
            "key_id": "key_1", "accounts": ["ada", "eve"], "expires_at": null, "hours": 24,
            "grace": {"seconds": 5},
        });

        let text = line("operator", &details).details();

        for part in ["key id: key_1", "accounts: ada eve", "expires at: null", "hours: 24"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches(", ").count(), 4, "{text}");
        assert_eq!(line("operator", &json!({})).details(), "");
    }

    #[test]
    fn links_keep_the_group_and_leave_out_what_is_empty() {
        assert_eq!(link("", ""), "/console/audit");
        assert_eq!(link("key.", "aud_1"), "/console/audit?action=key.&before=aud_1");
        assert!(link_to(&GROUPS[1], "key.").is_current && !link_to(&GROUPS[0], "key.").is_current);
    }
}
