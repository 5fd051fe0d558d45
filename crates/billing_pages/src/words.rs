//! What pages say about money: states, kinds and refusals in words.

use console_kit::service::ServiceProblem;
use pages::plain::sentence;

/// The payment's outcome is not known yet.
const UNKNOWN_PAYMENT: &str =
    "We don't know yet whether your card was charged. We're checking, and won't charge it twice.";
const UNKNOWN_CHANGE: &str =
    "We don't know yet whether the change was made. We're checking, and nothing is paid twice.";

/// Why credits were granted.
pub(crate) fn lot_source(source: &str) -> &str {
    match source {
        "trial" => "Free trial",
        "gift" => "From support",
        "pack" => "Pack",
        "top_up" => "Automatic top-up",
        "plan" => "Plan",
        "balance" => "Earlier balance",
        other => other,
    }
}

/// What changed the balance.
pub(crate) fn ledger_kind(kind: &str) -> &str {
    match kind {
        "trial" => "Free trial",
        "pack" => "Credits bought",
        "plan" => "Monthly credits",
        "usage" => "Calls",
        "export" => "Exports",
        "refund" => "Refund",
        "dispute" => "Dispute",
        "expiry" => "Expired",
        "adjustment" => "Adjusted",
        other => other,
    }
}

/// How an order is paid.
pub(crate) fn order_channel(channel: &str) -> &'static str {
    match channel {
        "checkout" => "Payment page",
        "top_up" => "Automatic top-up",
        _ => "One click",
    }
}

/// An order's state in a word, and the class of its badge.
pub(crate) fn order_status(status: &str) -> (&'static str, &'static str) {
    match status {
        "paid" => ("Paid", "ok"),
        "failed" => ("Declined", "bad"),
        "expired" => ("Not paid", ""),
        "refunded" => ("Refunded", ""),
        _ => ("Waiting for payment", "warn"),
    }
}

/// An invoice's state in a word, and the class of its badge.
pub(crate) fn invoice_status(status: &str) -> (&'static str, &'static str) {
    match status {
        "paid" => ("Paid", "ok"),
        "open" => ("To be paid", "warn"),
        "void" => ("Voided", ""),
        _ => ("Not collected", "bad"),
    }
}

/// Why an invoice was made.
pub(crate) fn invoice_reason(reason: &str) -> &str {
    match reason {
        "subscription_create" => "New plan",
        "subscription_cycle" => "Renewal",
        "subscription_update" => "Change of plan or slots",
        "manual" => "Credits",
        other => other,
    }
}

/// A subscription's state in a word, and the class of its badge.
pub(crate) fn subscription_status(status: &str) -> (&'static str, &'static str) {
    match status {
        "active" => ("Active", "ok"),
        "trialing" => ("Trial", "ok"),
        "past_due" => ("Payment failed", "bad"),
        "unpaid" => ("Unpaid", "bad"),
        "incomplete" => ("First payment due", "warn"),
        "paused" => ("Paused", "warn"),
        "canceled" => ("Ended", ""),
        _ => ("No plan", ""),
    }
}

/// What is wrong with a subscription, and what to do; empty if nothing is.
pub(crate) fn subscription_trouble(status: &str) -> &'static str {
    match status {
        "past_due" => {
            "The last payment for your plan failed. The plan and its slots still work while the payment is tried again, \
             but nothing more can be bought on it. Replace the card, or pay the open invoice."
        }
        "unpaid" => {
            "The payment for your plan failed and won't be tried again. The plan's credits and slots no longer count. \
             Pay the open invoice, or end the plan and start a new one."
        }
        "incomplete" => {
            "The first payment for your plan is due. Pay the open invoice, and the plan starts."
        }
        "paused" => "Your trial ended without a card. Save a card to continue.",
        _ => "",
    }
}

/// Why automatic top-up was turned off.
pub(crate) fn stopped(reason: &str) -> &'static str {
    match reason {
        "declined" => {
            "Automatic top-up is off because your card was declined. Replace the card, then turn it on again."
        }
        "card_removed" => {
            "Automatic top-up is off because the saved card was removed. Save a card, then turn it on again."
        }
        "refund" => {
            "Automatic top-up is off because a payment was refunded. You can turn it on again."
        }
        "dispute" => {
            "Automatic top-up is off because a payment was disputed with your bank. You can turn it on again."
        }
        _ => "Automatic top-up was turned off. You can turn it on again.",
    }
}

/// Why automatic top-up buys nothing although the balance is low.
pub(crate) fn top_up_wait(reason: &str) -> &'static str {
    match reason {
        "daily_cap" => "Automatic top-up waits: another pack doesn’t fit under today’s cap.",
        "pack_not_sold" => {
            "Automatic top-up waits: the chosen pack is no longer sold. Choose another one."
        }
        "declined" => "Automatic top-up waits: the last charge was declined.",
        "failed_often" => "Automatic top-up waits: too many charges failed within a day.",
        _ => "Automatic top-up waits.",
    }
}

/// A bank's reason in words: `insufficient funds`.
pub(crate) fn decline(code: &str) -> String {
    match code {
        "generic_decline" | "card_declined" | "do_not_honor" | "" => {
            "no reason was given".to_owned()
        }
        "authentication_required" | "payment_intent_authentication_failure" => {
            "the payment was not confirmed with the bank".to_owned()
        }
        "expired_card" => "the card has expired".to_owned(),
        "incorrect_cvc" => "the security code is wrong".to_owned(),
        other => other.replace('_', " "),
    }
}

/// A refusal in a few words.
pub(crate) fn title_of(problem: &ServiceProblem) -> &'static str {
    match problem.code.as_str() {
        "payment_failed" => "Your bank declined the card",
        "payment_outcome_unknown" | "change_outcome_unknown" => "We're checking your payment",
        "processor_unavailable" | "processor_rate_limited" => {
            "We can't reach the payment processor"
        }
        "payments_not_configured" => "Payments aren't set up here",
        "not_for_sale" => "This isn't for sale right now",
        "not_found" => "There's nothing here",
        _ => "This isn't possible right now",
    }
}

/// What a refusal means, and what to do.
pub(crate) fn of_problem(problem: &ServiceProblem) -> String {
    let member = |name: &str| problem.members.get(name);
    let text = |name: &str| member(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    match problem.code.as_str() {
        "payment_failed" => {
            let reason = decline(text("decline_code"));
            format!("Your bank declined the card: {reason}. Nothing was charged. Try another card.")
        }
        "payment_outcome_unknown" => UNKNOWN_PAYMENT.to_owned(),
        "change_outcome_unknown" => UNKNOWN_CHANGE.to_owned(),
        "processor_unavailable" => {
            "We can't reach the payment processor. Nothing was charged and your settings haven't changed. Try again in a few minutes."
                .to_owned()
        }
        "processor_rate_limited" => {
            "The payment processor is busy. Nothing was charged. Try again in a few seconds."
                .to_owned()
        }
        "payments_not_configured" => "Payments aren't set up here. Ask the operator.".to_owned(),
        "not_for_sale" => {
            "This isn't for sale right now. Nothing was charged. Try again later, or choose something else."
                .to_owned()
        }
        "no_saved_card" => {
            "There's no saved card. Pay on the payment page; the card is saved there.".to_owned()
        }
        "card_in_use" => {
            "Your plan is paid with this card. Replace the card, or end the plan first.".to_owned()
        }
        "slots_in_use" => slots_in_use(&names(member("accounts"))),
        "subscription_past_due" => subscription_trouble("past_due").to_owned(),
        "payment_reversed" => {
            "The payment for this period's slots is open, or was refunded or disputed. So slots can't be moved before the \
             period ends. You can still change how many there are."
                .to_owned()
        }
        "no_slot" => "There is no extra slot to move on that platform.".to_owned(),
        "no_subscription" => "You have no plan. Subscribe to one first.".to_owned(),
        "already_subscribed" => "You already have a plan. Change it instead.".to_owned(),
        "change_in_progress" => {
            "Another payment or change is in progress. Try again in a moment.".to_owned()
        }
        "not_found" => "There's nothing here, or it isn't yours.".to_owned(),
        _ => sentence(&problem.detail),
    }
}

fn names(value: Option<&serde_json::Value>) -> Vec<String> {
    let list = value.and_then(serde_json::Value::as_array).into_iter().flatten();
    list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// `Disconnect an account first: demo_alpha and north_light use these slots.`
fn slots_in_use(accounts: &[String]) -> String {
    let verb = if accounts.len() == 1 { "uses this slot" } else { "use these slots" };
    let list = match accounts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => accounts.concat(),
    };
    format!("Disconnect an account first: {list} {verb}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: &str, members: &serde_json::Value) -> ServiceProblem {
        let members = Box::new(members.as_object().cloned().unwrap_or_default());
        let detail = "the pack is not for sale".to_owned();
        ServiceProblem { code: code.to_owned(), members, detail, ..ServiceProblem::missing("", "") }
    }

    #[test]
    fn refusals_say_what_happened_to_the_money() {
        let declined =
            problem("payment_failed", &serde_json::json!({"decline_code": "insufficient_funds"}));
        assert_eq!(
            of_problem(&declined),
            "Your bank declined the card: insufficient funds. Nothing was charged. Try another card."
        );
        let used = problem("slots_in_use", &serde_json::json!({"accounts": ["ada", "bob", "eve"]}));
        assert_eq!(
            of_problem(&used),
            "Disconnect an account first: ada, bob and eve use these slots."
        );
        let one = problem("slots_in_use", &serde_json::json!({"accounts": ["ada"]}));
        assert_eq!(of_problem(&one), "Disconnect an account first: ada uses this slot.");
        let other = problem("surprise", &serde_json::json!({}));
        assert_eq!(of_problem(&other), "The pack is not for sale.");
    }

    #[test]
    fn every_status_of_a_live_subscription_that_is_not_paid_says_what_to_do() {
        for status in domain::subscription::SubscriptionStatus::ALL {
            let is_fine = status.takes_raises()
                || !status.is_live()
                || *status == domain::subscription::SubscriptionStatus::Trialing;
            assert_eq!(subscription_trouble(status.as_str()).is_empty(), is_fine, "{status}");
        }
    }

    #[test]
    fn a_banks_reason_is_said_in_words() {
        for (code, words) in [
            ("insufficient_funds", "insufficient funds"),
            ("lost_card", "lost card"),
            ("do_not_honor", "no reason was given"),
            ("", "no reason was given"),
            ("authentication_required", "the payment was not confirmed with the bank"),
            ("expired_card", "the card has expired"),
        ] {
            assert_eq!(decline(code), words, "{code}");
        }
    }

    #[test]
    fn a_state_has_its_own_word_and_color() {
        assert_eq!(order_status("paid"), ("Paid", "ok"));
        assert_eq!(order_status("failed"), ("Declined", "bad"));
        assert_eq!(order_status("pending"), ("Waiting for payment", "warn"));
        assert_eq!(invoice_status("open"), ("To be paid", "warn"));
        assert_eq!(invoice_status("uncollectible"), ("Not collected", "bad"));
        assert_eq!(subscription_status("past_due"), ("Payment failed", "bad"));
        assert_eq!(subscription_status("none"), ("No plan", ""));
        assert_eq!(order_channel("top_up"), "Automatic top-up");
        assert_eq!(invoice_reason("subscription_cycle"), "Renewal");
    }

    #[test]
    fn why_top_up_stopped_says_what_to_do_next() {
        for reason in ["declined", "card_removed", "refund", "dispute", "something new"] {
            let text = stopped(reason);
            assert!(text.starts_with("Automatic top-up"), "{text}");
            assert!(text.contains("turn it on again"), "{text}");
        }
        assert_ne!(stopped("refund"), stopped("dispute"));
    }

    #[test]
    fn a_title_says_whether_money_may_have_moved() {
        let title = |code: &str| title_of(&problem(code, &serde_json::json!({})));

        assert_eq!(title("payment_failed"), "Your bank declined the card");
        assert_eq!(title("change_outcome_unknown"), "We're checking your payment");
        assert_eq!(title("processor_rate_limited"), "We can't reach the payment processor");
        assert_eq!(title("surprise"), "This isn't possible right now");
    }

    #[test]
    fn every_kind_of_the_service_has_a_word() {
        for kind in domain::ledger::KINDS {
            assert_ne!(ledger_kind(kind), kind);
        }
        for source in domain::lots::LotSource::ALL {
            assert_ne!(lot_source(source.as_str()), source.as_str());
        }
    }
}
