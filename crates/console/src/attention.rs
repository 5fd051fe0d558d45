//! What needs attention: the few things that a person should act on.

use serde::Deserialize;

use crate::accounts::ShownAccount;
use console_kit::format;

/// The most that the overview lists.
const SHOWN_MAX: usize = 5;

/// One thing to act on.
pub(crate) struct AttentionItem {
    /// What it is about.
    pub(crate) thing: String,
    /// A badge beside it; empty for none.
    pub(crate) badge: &'static str,
    /// The color of the badge.
    pub(crate) class: &'static str,
    /// What is wrong, and what it means.
    pub(crate) text: String,
    pub(crate) path: String,
    /// What to do.
    pub(crate) button: &'static str,
}

/// The members of `GET /v1/billing/card` that the overview shows: this route, unlike that of
/// automatic top-up alone, never waits for the payment processor.
#[derive(Deserialize)]
pub(crate) struct CardInfo {
    pub(crate) autotopup: TopUp,
}

/// Automatic top-up, as far as the overview shows it.
#[derive(Deserialize)]
pub(crate) struct TopUp {
    stopped_reason: Option<String>,
    waiting_reason: Option<String>,
    pending: Option<PendingTopUp>,
}

#[derive(Deserialize)]
struct PendingTopUp {
    state: String,
}

/// An export that failed.
#[derive(Deserialize)]
pub(crate) struct RecentExport {
    job_id: String,
    dataset: String,
    account: String,
    finished_at: Option<String>,
}

/// The members of `GET /v1/exports` that the overview shows.
#[derive(Deserialize)]
pub(crate) struct RecentExports {
    pub(crate) exports: Vec<RecentExport>,
}

/// What the items are made of. What could not be read is empty.
pub(crate) struct AttentionInput<'a> {
    pub(crate) accounts: &'a [ShownAccount],
    pub(crate) top_up: Option<&'a TopUp>,
    pub(crate) exports: &'a [RecentExport],
    pub(crate) is_past_due: bool,
    /// The credits left if they last for less than a day.
    pub(crate) lasts_a_day: bool,
    /// When a failure is too old to be listed.
    pub(crate) since: String,
}

impl AttentionInput<'_> {
    /// The items, the most urgent first.
    pub(crate) fn items(&self) -> Vec<AttentionItem> {
        let mut items = self.payments();
        items.extend(self.accounts.iter().filter_map(of_account));
        let failed = self.exports.iter().filter(|export| export.failed_since(&self.since));
        items.extend(failed.map(of_export));
        items.truncate(SHOWN_MAX);
        items
    }

    fn payments(&self) -> Vec<AttentionItem> {
        let mut items = Vec::new();
        if self.lasts_a_day {
            items.push(billing_item(
                "Credits are running out",
                "At this pace your credits last about a day.".to_owned(),
                "Add credits",
            ));
        }
        if self.is_past_due {
            items.push(billing_item(
                "Your plan isn’t paid",
                "The last invoice is past due. Pay it to keep the plan.".to_owned(),
                "View billing",
            ));
        }
        let pending = self.top_up.and_then(|top_up| top_up.pending.as_ref());
        if pending.is_some_and(|pending| pending.state == "requires_action") {
            items.push(billing_item(
                "Your bank asks you to confirm a payment",
                "Nothing has been charged yet.".to_owned(),
                "Confirm",
            ));
        } else if let Some(reason) = self.top_up.and_then(|top_up| top_up.stopped_reason.as_deref())
        {
            let reason = reason.replace('_', " ");
            items.push(billing_item(
                "Automatic top-up has stopped",
                format!("The reason: {reason}. Turn it on again once that’s sorted out."),
                "View billing",
            ));
        } else if self.top_up.is_some_and(|top_up| top_up.waiting_reason.is_some()) {
            items.push(billing_item(
                "Automatic top-up is waiting",
                "Your balance is low, and nothing is bought at the moment.".to_owned(),
                "See why",
            ));
        }
        items
    }
}

impl RecentExport {
    /// Whether it failed at this time or later.
    fn failed_since(&self, since: &str) -> bool {
        self.finished_at.as_deref().is_some_and(|at| at >= since)
    }
}

fn billing_item(thing: &str, text: String, button: &'static str) -> AttentionItem {
    let thing = thing.to_owned();
    let path = "/console/billing".to_owned();
    AttentionItem { thing, badge: "", class: "", text, path, button }
}

fn of_account(account: &ShownAccount) -> Option<AttentionItem> {
    let (badge, class, text, button) = if account.needs_credentials() {
        let text = format!(
            "{} refused its credentials. Calls will fail until you reconnect.",
            account.platform
        );
        ("Reconnect", "warn", text, "Reconnect")
    } else if account.lacks_slot() {
        let text = format!("All {} slots are in use.", account.platform);
        ("Inactive", "", text, "Get a slot")
    } else {
        return None;
    };
    let path = "/console/accounts".to_owned();
    Some(AttentionItem { thing: account.creator_id.clone(), badge, class, text, path, button })
}

fn of_export(export: &RecentExport) -> AttentionItem {
    let at = export.finished_at.as_deref().map(format::minute).unwrap_or_default();
    AttentionItem {
        thing: format!("Export of {}", export.dataset),
        badge: "Failed",
        class: "bad",
        text: format!("The export of {} failed on {at} UTC.", export.account),
        path: format!("/console/exports/{}", export.job_id),
        button: "View export",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn account(state: &str, reason: Option<&str>) -> ShownAccount {
        let account = json!({
            "creator_id": "ada", "platform": "platform_beta", "platform_account_id": null,
            "state": state, "inactive_reason": reason, "connected_at": "2026-11-22T11:00:00Z",
            "verified_at": null,
        });
        serde_json::from_value(account).unwrap()
    }

    fn failed(at: Option<&str>) -> RecentExport {
        let export = json!({
            "job_id": "exp_1", "dataset": "chats", "account": "ada", "finished_at": at,
        });
        serde_json::from_value(export).unwrap()
    }

    fn top_up(stopped: Option<&str>, pending: &Value) -> TopUp {
        serde_json::from_value(json!({"stopped_reason": stopped, "pending": pending})).unwrap()
    }

    fn nothing<'a>() -> AttentionInput<'a> {
        AttentionInput {
            accounts: &[],
            top_up: None,
            exports: &[],
            is_past_due: false,
            lasts_a_day: false,
            since: "2026-11-20T00:00:00Z".to_owned(),
        }
    }

    fn things(input: &AttentionInput<'_>) -> Vec<String> {
        input.items().into_iter().map(|item| item.thing).collect()
    }

    #[test]
    fn nothing_is_listed_while_everything_is_well() {
        let accounts = [account("active", None), account("inactive", Some("switched_off"))];
        let top_up = top_up(None, &json!({"state": "processing"}));
        let input = AttentionInput { accounts: &accounts, top_up: Some(&top_up), ..nothing() };

        assert_eq!(things(&input), [""; 0]);
    }

    #[test]
    fn payments_come_before_accounts_and_accounts_before_exports() {
        let accounts = [account("reconnect_needed", None), account("inactive", None)];
        let exports = [failed(Some("2026-11-21T08:30:00Z"))];
        let input = AttentionInput {
            accounts: &accounts,
            exports: &exports,
            is_past_due: true,
            lasts_a_day: true,
            ..nothing()
        };

        let items = input.items();

        let found: Vec<&str> = items.iter().map(|item| item.thing.as_str()).collect();
        let expected =
            ["Credits are running out", "Your plan isn’t paid", "ada", "ada", "Export of chats"];
        assert_eq!(found, expected);
        assert_eq!((items[2].badge, items[3].badge), ("Reconnect", "Inactive"));
        assert_eq!(items[3].text, "All platform_beta slots are in use.");
        assert_eq!(items[4].text, "The export of ada failed on 21 Nov 2026, 08:30 UTC.");
        assert_eq!(items[4].path, "/console/exports/exp_1");
    }

    #[test]
    fn a_bank_that_asks_comes_before_the_reason_why_top_up_stopped() {
        let asked = top_up(Some("declined"), &json!({"state": "requires_action"}));
        let stopped = top_up(Some("card_removed"), &Value::Null);

        let of_asked = AttentionInput { top_up: Some(&asked), ..nothing() };
        assert_eq!(things(&of_asked), ["Your bank asks you to confirm a payment"]);
        let of_stopped = AttentionInput { top_up: Some(&stopped), ..nothing() }.items();
        assert_eq!(of_stopped.len(), 1);
        assert!(of_stopped[0].text.contains("The reason: card removed."), "{}", of_stopped[0].text);
    }

    #[test]
    fn old_failures_are_not_listed_and_no_more_than_five_things_are() {
        let exports = [failed(Some("2026-11-19T23:59:59Z")), failed(None)];
        let old = AttentionInput { exports: &exports, ..nothing() };
        assert_eq!(things(&old), [""; 0]);
        let at_the_edge = [failed(Some("2026-11-20T00:00:00Z"))];
        let edge = AttentionInput { exports: &at_the_edge, ..nothing() };
        assert_eq!(things(&edge).len(), 1);
        let many: Vec<_> = (0..9).map(|_| account("reconnect_needed", None)).collect();
        let many = AttentionInput { accounts: &many, lasts_a_day: true, ..nothing() };
        assert_eq!(things(&many).len(), SHOWN_MAX);
        assert_eq!(things(&many)[0], "Credits are running out");
    }
}
