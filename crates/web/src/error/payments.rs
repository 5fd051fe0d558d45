//! Failures of payments, and their rows of the table.

use failures::{ChargePhase, ChargeUnderWay, PaymentProblem};
use http::StatusCode;
use serde_json::json;

use super::table::FailureRow;

/// The row of the table for this failure.
pub(super) const fn row(problem: &PaymentProblem) -> FailureRow {
    match problem {
        PaymentProblem::NotConfigured => PAYMENTS_NOT_CONFIGURED,
        PaymentProblem::NotForSale { .. } => NOT_FOR_SALE,
        PaymentProblem::Failed { .. } => PAYMENT_FAILED,
        PaymentProblem::NoSavedCard => NO_SAVED_CARD,
        PaymentProblem::CardInUse => CARD_IN_USE,
        PaymentProblem::NoSubscription => NO_SUBSCRIPTION,
        PaymentProblem::AlreadySubscribed => ALREADY_SUBSCRIBED,
        PaymentProblem::SlotsInUse(_) => SLOTS_IN_USE,
        PaymentProblem::ChangeInProgress => CHANGE_IN_PROGRESS,
        // A retry would close the page that was opened for the other choice.
        PaymentProblem::OtherChoice => FailureRow { retryable: false, ..CHANGE_IN_PROGRESS },
        // Only the customer can end it, so a retry loop would wait in vain.
        PaymentProblem::ChargeUnderWay(ChargeUnderWay { phase, .. }) => {
            let may_end = matches!(phase, ChargePhase::Running);
            FailureRow { retryable: may_end, ..CHANGE_IN_PROGRESS }
        }
        PaymentProblem::SubscriptionNotPaid { .. } => SUBSCRIPTION_NOT_PAID,
        PaymentProblem::SubscriptionPastDue => SUBSCRIPTION_PAST_DUE,
        PaymentProblem::PaymentReversed => PAYMENT_REVERSED,
        PaymentProblem::NoSlot { .. } => NO_SLOT,
        PaymentProblem::ChangeUnknown(_) => CHANGE_OUTCOME_UNKNOWN,
        PaymentProblem::RelativeChangeUnknown(_) => RELATIVE_CHANGE_OUTCOME_UNKNOWN,
        PaymentProblem::UnsignedEvent(_) => UNSIGNED_EVENT,
        PaymentProblem::ThinEvent(_) => THIN_EVENT,
        PaymentProblem::RateLimited { .. } => PROCESSOR_RATE_LIMITED,
        PaymentProblem::Unavailable(_) => PROCESSOR_UNAVAILABLE,
        PaymentProblem::Unknown(_) => PAYMENT_OUTCOME_UNKNOWN,
        PaymentProblem::Refused(_) => super::table::INTERNAL,
    }
}

/// Members of the problem besides the code, for programs.
pub(super) fn members(problem: &PaymentProblem) -> Vec<(&'static str, serde_json::Value)> {
    match problem {
        PaymentProblem::Failed { decline_code } => vec![("decline_code", json!(decline_code))],
        PaymentProblem::SlotsInUse(occupied) => vec![
            ("platform", json!(occupied.platform)),
            ("must_free", json!(occupied.must_free)),
            ("accounts", json!(occupied.accounts)),
            ("waiting", json!(occupied.waiting)),
        ],
        PaymentProblem::ChargeUnderWay(ChargeUnderWay { order, intent, expires_at, .. }) => {
            let mut members = vec![("order_id", json!(order)), ("expires_at", json!(expires_at))];
            members.extend(intent.as_ref().map(|intent| ("pi_id", json!(intent))));
            members
        }
        _ => Vec::new(),
    }
}

/// Milliseconds after which the same request may succeed, if known.
pub(super) fn retry_after_ms(problem: &PaymentProblem) -> Option<i64> {
    match problem {
        PaymentProblem::RateLimited { retry_after_s } => {
            i64::try_from(retry_after_s.saturating_mul(1_000)).ok()
        }
        PaymentProblem::ChangeInProgress
        | PaymentProblem::ChargeUnderWay(ChargeUnderWay { phase: ChargePhase::Running, .. }) => {
            Some(1_000)
        }
        PaymentProblem::Unavailable(_) => Some(5_000),
        _ => None,
    }
}
/// `payments_not_configured`
pub(in crate::error) const PAYMENTS_NOT_CONFIGURED: FailureRow = FailureRow {
    code: "payments_not_configured",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Payments not configured",
    retryable: false,
    meaning: "The deployment has no payment processor, so nothing can be bought. Past purchases can still be read; `processor_configured` says whether there is one.",
};
/// `not_for_sale`
pub(in crate::error) const NOT_FOR_SALE: FailureRow = FailureRow {
    code: "not_for_sale",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Not for sale",
    retryable: false,
    meaning: "What was to be bought has another price at the payment processor than the one shown here, so it is not sold until the operator has corrected it; the lists of packs, plans and slots show it as `available: false`. Nothing was charged or changed. What was bought before is served as before, and one-click charges and automatic top-up go on at the price shown.",
};
/// `payment_failed`
pub(in crate::error) const PAYMENT_FAILED: FailureRow = FailureRow {
    code: "payment_failed",
    status: StatusCode::PAYMENT_REQUIRED,
    title: "Payment failed",
    retryable: false,
    meaning: "The card was declined, and nothing was charged or changed; `decline_code` is the bank's reason. With `authentication_required` the bank needs the cardholder to authenticate: pay through `POST /v1/billing/checkout`, or update the card in the portal.",
};
/// `no_saved_card`
pub(in crate::error) const NO_SAVED_CARD: FailureRow = FailureRow {
    code: "no_saved_card",
    status: StatusCode::CONFLICT,
    title: "No saved card",
    retryable: false,
    meaning: "The request charges a saved card and there is none. Buying a pack with `POST /v1/billing/checkout` saves the card.",
};
/// `card_in_use`
pub(in crate::error) const CARD_IN_USE: FailureRow = FailureRow {
    code: "card_in_use",
    status: StatusCode::CONFLICT,
    title: "Card in use",
    retryable: false,
    meaning: "A subscription is paid with the saved card, and its next invoice would fail without one. Cancel the subscription in the portal, or replace the card there. Nothing was changed.",
};
/// `no_subscription`
pub(in crate::error) const NO_SUBSCRIPTION: FailureRow = FailureRow {
    code: "no_subscription",
    status: StatusCode::CONFLICT,
    title: "No subscription",
    retryable: false,
    meaning: "The request changes a subscription, and there is no active one. Start one with `POST /v1/billing/subscribe`.",
};
/// `already_subscribed`
pub(in crate::error) const ALREADY_SUBSCRIBED: FailureRow = FailureRow {
    code: "already_subscribed",
    status: StatusCode::CONFLICT,
    title: "Already subscribed",
    retryable: false,
    meaning: "A customer has one subscription. Change its plan with `POST /v1/billing/subscription/plan`, or cancel it in the portal.",
};
/// `slots_in_use`
pub(in crate::error) const SLOTS_IN_USE: FailureRow = FailureRow {
    code: "slots_in_use",
    status: StatusCode::CONFLICT,
    title: "Slots in use",
    retryable: false,
    meaning: "Active accounts are using the slots to be removed. First, switch off `must_free` of the active `accounts` on `platform` with `PATCH /v1/accounts/{account}`, or delete them. `waiting` lists accounts that would take a slot that becomes free: switch those off before the others. Nothing was changed.",
};
/// `change_in_progress`
pub(in crate::error) const CHANGE_IN_PROGRESS: FailureRow = FailureRow {
    code: "change_in_progress",
    status: StatusCode::CONFLICT,
    title: "Change in progress",
    retryable: true,
    meaning: "Another change of the same subscription, card or payment is in progress. Nothing was changed; try again after `Retry-After`. A charge that waits for its customer is named (`order_id`, `pi_id`, `expires_at`): `retryable` is false then and there is no `Retry-After`, because only confirming it ends it. The same holds for `POST /v1/billing/subscribe` where another choice was made at the same moment: its page is open.",
};
/// `subscription_not_paid`
pub(in crate::error) const SUBSCRIPTION_NOT_PAID: FailureRow = FailureRow {
    code: "subscription_not_paid",
    status: StatusCode::CONFLICT,
    title: "Subscription not paid",
    retryable: false,
    meaning: "The subscription can be changed only while it is paid and active. Pay its open invoice, or update its card in the portal. Nothing was changed.",
};
/// `subscription_past_due`
pub(in crate::error) const SUBSCRIPTION_PAST_DUE: FailureRow = FailureRow {
    code: "subscription_past_due",
    status: StatusCode::CONFLICT,
    title: "Subscription past due",
    retryable: false,
    meaning: "The last invoice of the subscription is not paid. Until it is, nothing more is sold: no upgrade, no additional slots, no switch. A cheaper plan, fewer slots and cancelling work. Save another card or pay the open invoice in the portal. Nothing was changed.",
};
/// `payment_reversed`
pub(in crate::error) const PAYMENT_REVERSED: FailureRow = FailureRow {
    code: "payment_reversed",
    status: StatusCode::CONFLICT,
    title: "Payment reversed",
    retryable: false,
    meaning: "Slots are switched with a credit for the rest of the period, and the payment for this period's slots is open or was refunded or disputed. Switch after the next period is paid, or set the number of slots on each platform. Nothing was changed.",
};
/// `no_slot`
pub(in crate::error) const NO_SLOT: FailureRow = FailureRow {
    code: "no_slot",
    status: StatusCode::CONFLICT,
    title: "No slot",
    retryable: false,
    meaning: "There is no extra slot on the platform from which one is to be switched. `GET /v1/billing/slots` shows how many there are, and `POST /v1/billing/slots` buys one. Nothing was changed.",
};
/// `change_outcome_unknown`
pub(in crate::error) const CHANGE_OUTCOME_UNKNOWN: FailureRow = FailureRow {
    code: "change_outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Change outcome unknown",
    retryable: true,
    meaning: "The payment processor was asked to change the subscription and did not respond. We repeat the same request until the outcome is known, so nothing is paid twice; then `change` in `GET /v1/billing/slots` becomes null. Repeating the request waits for that outcome.",
};
/// `change_outcome_unknown` of a change that must not be requested twice
pub(in crate::error) const RELATIVE_CHANGE_OUTCOME_UNKNOWN: FailureRow = FailureRow {
    code: "change_outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Change outcome unknown",
    retryable: false,
    meaning: "The same for a switch of a slot that was sent without an `Idempotency-Key`: repeated once the first one is made, it would move another slot. Wait until `change` in `GET /v1/billing/slots` is null, and repeat the request only if the slot was not moved.",
};
/// `unsigned_event`
pub(in crate::error) const UNSIGNED_EVENT: FailureRow = FailureRow {
    code: "unsigned_event",
    status: StatusCode::BAD_REQUEST,
    title: "Unsigned event",
    retryable: false,
    meaning: "The body is not an event that the payment processor signed within the last 300 seconds with one of the configured secrets. The event was ignored.",
};
/// `thin_event`
pub(in crate::error) const THIN_EVENT: FailureRow = FailureRow {
    code: "thin_event",
    status: StatusCode::BAD_REQUEST,
    title: "Thin event",
    retryable: false,
    meaning: "The payment processor signed the event, but it is a thin one, which names its object and does not contain it. Thin events are not supported: add a webhook endpoint with the payload style \"snapshot\". The event was ignored.",
};
/// `processor_rate_limited`
pub(in crate::error) const PROCESSOR_RATE_LIMITED: FailureRow = FailureRow {
    code: "processor_rate_limited",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Payment processor limits requests",
    retryable: true,
    meaning: "The payment processor receives too many requests from this deployment and refused this one. Nothing was charged or changed; try again after `Retry-After`.",
};
/// `processor_unavailable`
pub(in crate::error) const PROCESSOR_UNAVAILABLE: FailureRow = FailureRow {
    code: "processor_unavailable",
    status: StatusCode::BAD_GATEWAY,
    title: "Payment processor unavailable",
    retryable: true,
    meaning: "The payment processor could not be reached, or sent no usable response. Nothing was charged or changed.",
};
/// `payment_outcome_unknown`
pub(in crate::error) const PAYMENT_OUTCOME_UNKNOWN: FailureRow = FailureRow {
    code: "payment_outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Payment outcome unknown",
    retryable: false,
    meaning: "The payment processor did not respond to the payment request. We look the payment up until its outcome is known and grant what was paid; it is never charged twice. `GET /v1/billing/orders` shows the order.",
};
