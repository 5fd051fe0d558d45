//! What can go wrong where money moves, and its rows of the table.

use clients::processor::{ProcessorError, RateLimit};
use domain::account::CreatorId;
use domain::id::OrderId;
use domain::platform::Platform;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use http::StatusCode;
use serde_json::json;
use store::places::OccupiedSlots;

use super::ApiError;
use super::table::Row;

/// The `Retry-After` of a response where the processor limits requests without saying for how long, in seconds.
const RATE_LIMIT_WAIT_S: u64 = 5;
/// The longest `Retry-After` of such a response, in seconds.
const RATE_LIMIT_WAIT_S_MAX: u64 = 3_600;

/// Every way a payment or a change of what is paid can fail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PaymentProblem {
    /// The operator has configured no processor.
    #[error("payments are not configured on this deployment")]
    NotConfigured,
    /// The card was declined, or the bank wants the customer to authenticate.
    #[error("the payment was declined ({decline_code}); nothing was changed")]
    Failed {
        /// The bank's reason, or the processor's.
        decline_code: String,
    },
    /// There is no card to charge.
    #[error("there is no saved card; buy a pack with `POST /v1/billing/checkout` to save one")]
    NoSavedCard,
    /// A subscription is paid with the card that is to go.
    #[error(
        "a subscription is paid with this card; cancel it in the portal first, or replace the card there"
    )]
    CardInUse,
    /// There is no subscription to change.
    #[error("there is no subscription; start one with `POST /v1/billing/subscribe`")]
    NoSubscription,
    /// There is a subscription already.
    #[error(
        "there is already a subscription; change its plan with `POST /v1/billing/subscription/plan`"
    )]
    AlreadySubscribed,
    /// Accounts occupy the slots that are to go.
    #[error("{}", occupied_slots(.0))]
    SlotsInUse(OccupiedSlots),
    /// Another change of the same thing is under way.
    #[error("another change is in progress; try again in a moment")]
    ChangeInProgress,
    /// Another choice of a plan was made while this one was.
    #[error(
        "another choice to subscribe was made at the same moment, and its page is the one that is open; ask again only if this \
         choice is to take its place"
    )]
    OtherChoice,
    /// A charge of the same pack is under way with another `Idempotency-Key`.
    #[error("{0}")]
    ChargeUnderWay(UnderWay),
    /// The subscription is not in a state in which this can be changed.
    #[error("the subscription is {status}; it can be changed once it is paid (see the portal)")]
    SubscriptionNotPaid {
        /// Where it stands.
        status: SubscriptionStatus,
    },
    /// The last invoice is not paid, so nothing more is sold.
    #[error(
        "the last payment of the subscription failed, so nothing more can be bought on it; save another card or pay the open \
         invoice first (`POST /v1/billing/portal`)"
    )]
    SubscriptionPastDue,
    /// The money for the period's slots is not here, so nothing is credited for them.
    #[error(
        "the payment for this period's slots is open or was reversed, so they cannot be switched before the period ends; \
         setting their numbers with `POST /v1/billing/slots` works"
    )]
    PaymentReversed,
    /// There is no extra slot of a platform that could be moved to another.
    #[error(
        "there is no extra slot on {platform} that could be switched; `GET /v1/billing/slots` shows how many there are"
    )]
    NoSlot {
        /// The platform that would have one less.
        platform: Platform,
    },
    /// The processor did not say whether it changed the subscription.
    #[error(
        "the payment processor did not confirm whether the change was made; we keep asking with the same request, so \
         nothing is paid twice; `GET /v1/billing/slots` shows the change until it is confirmed"
    )]
    ChangeUnknown(String),
    /// The same of a request without an `Idempotency-Key` that says what is different and not what is to be: repeated after
    /// the change was made, it would be another one.
    #[error(
        "the payment processor did not confirm whether the change was made; we keep asking with the same request. Wait \
         until `GET /v1/billing/slots` shows no change, and repeat the request only if the slot was not moved; with an \
         `Idempotency-Key` it can be repeated safely"
    )]
    RelativeChangeUnknown(String),
    /// An event that the processor did not sign, or not now.
    #[error("the event is not accepted: {0}")]
    UnsignedEvent(String),
    /// A thin event: signed, but without the object that it is about.
    #[error(
        "this is a thin event (`{0}`), which is not supported; add a webhook endpoint with the payload style \"snapshot\" \
         instead, whose events have `\"object\": \"event\"`"
    )]
    ThinEvent(String),
    /// The processor takes no more requests for now.
    #[error(
        "the payment processor limits requests; nothing was charged or changed; try again in {retry_after_s} s"
    )]
    RateLimited {
        /// Seconds to wait.
        retry_after_s: u64,
    },
    /// The processor was not reached, or answered nothing that can be used.
    #[error("the payment processor cannot be reached; nothing was charged or changed")]
    Unavailable(#[source] ProcessorError),
    /// The processor did not say whether it charged.
    #[error(
        "the payment processor did not confirm whether the payment was made; we look it up until it is confirmed \
         and never charge twice; see `GET /v1/billing/orders`"
    )]
    Unknown(#[source] ProcessorError),
    /// The processor does not take what it was sent.
    #[error("something went wrong on our side; nothing was charged or changed")]
    Refused(#[source] ProcessorError),
}

/// A charge that keeps another one of the same pack from beginning.
#[derive(Debug)]
pub(crate) struct UnderWay {
    /// Its order.
    pub(crate) order: OrderId,
    /// Its payment, once the processor has made one.
    pub(crate) intent: Option<String>,
    /// When it is given up.
    pub(crate) expires_at: Timestamp,
    /// What it waits for.
    pub(crate) phase: ChargePhase,
}

/// What a charge waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargePhase {
    /// The processor's response, in a moment.
    Running,
    /// The customer, or the bank.
    Waiting,
    /// The processor did not say whether it charged.
    Unknown,
}

impl std::fmt::Display for UnderWay {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { order, expires_at, phase, .. } = self;
        let begun =
            format!("a charge of this pack is under way with another `Idempotency-Key` ({order})");
        match phase {
            ChargePhase::Running => write!(formatter, "{begun}; try again in a moment"),
            ChargePhase::Waiting => write!(
                formatter,
                "{begun} and waits for the customer to authenticate or for the bank. `POST /v1/billing/charge` for the same \
                 pack without an `Idempotency-Key`, or with the one that it began with, returns what a browser needs to \
                 finish it, then `POST /v1/billing/confirm-charge`. Otherwise it is cancelled after {expires_at}"
            ),
            ChargePhase::Unknown => write!(
                formatter,
                "{begun}, and the payment processor did not confirm whether it was paid. `POST /v1/billing/charge` for the \
                 same pack without an `Idempotency-Key`, or with the one that it began with, asks again and never charges \
                 twice"
            ),
        }
    }
}

/// How many accounts have to go, and which could.
fn occupied_slots(occupied: &OccupiedSlots) -> String {
    let OccupiedSlots { platform, must_free, accounts, waiting } = occupied;
    let names =
        |names: &[CreatorId]| names.iter().map(CreatorId::as_str).collect::<Vec<_>>().join(", ");
    let must_go = format!(
        "{must_free} of the {} active accounts on {platform} must be switched off (`PATCH /v1/accounts/{{account}}` with \
         `{{\"state\": \"inactive\"}}`) or deleted first: {}",
        accounts.len(),
        names(accounts)
    );
    if waiting.is_empty() {
        return must_go;
    }
    format!(
        "{must_go}. Accounts that wait for a slot would take the ones that become free; switch these off before: {}",
        names(waiting)
    )
}

impl From<ProcessorError> for PaymentProblem {
    fn from(error: ProcessorError) -> Self {
        match error {
            ProcessorError::Declined(decline) => {
                Self::Failed { decline_code: decline.reason().to_owned() }
            }
            ProcessorError::LockTimeout => Self::ChangeInProgress,
            ProcessorError::Unreachable(_) => Self::Unavailable(error),
            ProcessorError::RateLimited(RateLimit { retry_after_s, .. }) => {
                let retry_after_s = retry_after_s.unwrap_or(RATE_LIMIT_WAIT_S);
                Self::RateLimited { retry_after_s: retry_after_s.clamp(1, RATE_LIMIT_WAIT_S_MAX) }
            }
            ProcessorError::Unknown(_) => Self::Unknown(error),
            ProcessorError::Refused(_) | ProcessorError::Missing => Self::Refused(error),
        }
    }
}

impl From<ProcessorError> for ApiError {
    fn from(error: ProcessorError) -> Self {
        Self::Payment(error.into())
    }
}

impl PaymentProblem {
    /// The row of the table that this failure has.
    pub(super) const fn row(&self) -> Row {
        match self {
            Self::NotConfigured => PAYMENTS_NOT_CONFIGURED,
            Self::Failed { .. } => PAYMENT_FAILED,
            Self::NoSavedCard => NO_SAVED_CARD,
            Self::CardInUse => CARD_IN_USE,
            Self::NoSubscription => NO_SUBSCRIPTION,
            Self::AlreadySubscribed => ALREADY_SUBSCRIBED,
            Self::SlotsInUse(_) => SLOTS_IN_USE,
            Self::ChangeInProgress => CHANGE_IN_PROGRESS,
            // Asking again would close the page that the other choice got.
            Self::OtherChoice => Row { retryable: false, ..CHANGE_IN_PROGRESS },
            // Only its customer ends it, so a loop need not wait for that.
            Self::ChargeUnderWay(UnderWay { phase, .. }) => {
                let may_end = matches!(phase, ChargePhase::Running);
                Row { retryable: may_end, ..CHANGE_IN_PROGRESS }
            }
            Self::SubscriptionNotPaid { .. } => SUBSCRIPTION_NOT_PAID,
            Self::SubscriptionPastDue => SUBSCRIPTION_PAST_DUE,
            Self::PaymentReversed => PAYMENT_REVERSED,
            Self::NoSlot { .. } => NO_SLOT,
            Self::ChangeUnknown(_) => CHANGE_OUTCOME_UNKNOWN,
            Self::RelativeChangeUnknown(_) => RELATIVE_CHANGE_OUTCOME_UNKNOWN,
            Self::UnsignedEvent(_) => UNSIGNED_EVENT,
            Self::ThinEvent(_) => THIN_EVENT,
            Self::RateLimited { .. } => PROCESSOR_RATE_LIMITED,
            Self::Unavailable(_) => PROCESSOR_UNAVAILABLE,
            Self::Unknown(_) => PAYMENT_OUTCOME_UNKNOWN,
            Self::Refused(_) => super::table::INTERNAL,
        }
    }

    /// Whether the processor may have carried out what it was asked for.
    pub(crate) const fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::ChangeUnknown(_) | Self::RelativeChangeUnknown(_) | Self::Unknown(_))
    }

    /// What a program may want to read besides the code.
    pub(super) fn members(&self) -> Vec<(&'static str, serde_json::Value)> {
        match self {
            Self::Failed { decline_code } => vec![("decline_code", json!(decline_code))],
            Self::SlotsInUse(occupied) => vec![
                ("platform", json!(occupied.platform)),
                ("must_free", json!(occupied.must_free)),
                ("accounts", json!(occupied.accounts)),
                ("waiting", json!(occupied.waiting)),
            ],
            Self::ChargeUnderWay(UnderWay { order, intent, expires_at, .. }) => {
                let mut members =
                    vec![("order_id", json!(order)), ("expires_at", json!(expires_at))];
                members.extend(intent.as_ref().map(|intent| ("pi_id", json!(intent))));
                members
            }
            _ => Vec::new(),
        }
    }

    /// Milliseconds after which the same request may succeed, where that is known.
    pub(super) fn retry_after_ms(&self) -> Option<i64> {
        match self {
            Self::RateLimited { retry_after_s } => {
                i64::try_from(retry_after_s.saturating_mul(1_000)).ok()
            }
            Self::ChangeInProgress
            | Self::ChargeUnderWay(UnderWay { phase: ChargePhase::Running, .. }) => Some(1_000),
            Self::Unavailable(_) => Some(5_000),
            _ => None,
        }
    }
}

/// `payments_not_configured`
pub(in crate::error) const PAYMENTS_NOT_CONFIGURED: Row = Row {
    code: "payments_not_configured",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Payments not configured",
    retryable: false,
    meaning: "The deployment has no payment processor, so nothing can be bought. Past purchases can still be read; `processor_configured` says whether there is one.",
};
/// `payment_failed`
pub(in crate::error) const PAYMENT_FAILED: Row = Row {
    code: "payment_failed",
    status: StatusCode::PAYMENT_REQUIRED,
    title: "Payment failed",
    retryable: false,
    meaning: "The card was declined, and nothing was charged or changed; `decline_code` is the bank's reason. With `authentication_required` the bank needs the cardholder to authenticate: pay through `POST /v1/billing/checkout`, or update the card in the portal.",
};
/// `no_saved_card`
pub(in crate::error) const NO_SAVED_CARD: Row = Row {
    code: "no_saved_card",
    status: StatusCode::CONFLICT,
    title: "No saved card",
    retryable: false,
    meaning: "The request charges a saved card and there is none. Buying a pack with `POST /v1/billing/checkout` saves the card.",
};
/// `card_in_use`
pub(in crate::error) const CARD_IN_USE: Row = Row {
    code: "card_in_use",
    status: StatusCode::CONFLICT,
    title: "Card in use",
    retryable: false,
    meaning: "A subscription is paid with the saved card, and its next invoice would fail without one. Cancel the subscription in the portal, or replace the card there. Nothing was changed.",
};
/// `no_subscription`
pub(in crate::error) const NO_SUBSCRIPTION: Row = Row {
    code: "no_subscription",
    status: StatusCode::CONFLICT,
    title: "No subscription",
    retryable: false,
    meaning: "The request changes a subscription, and there is no active one. Start one with `POST /v1/billing/subscribe`.",
};
/// `already_subscribed`
pub(in crate::error) const ALREADY_SUBSCRIBED: Row = Row {
    code: "already_subscribed",
    status: StatusCode::CONFLICT,
    title: "Already subscribed",
    retryable: false,
    meaning: "A customer has one subscription. Change its plan with `POST /v1/billing/subscription/plan`, or cancel it in the portal.",
};
/// `slots_in_use`
pub(in crate::error) const SLOTS_IN_USE: Row = Row {
    code: "slots_in_use",
    status: StatusCode::CONFLICT,
    title: "Slots in use",
    retryable: false,
    meaning: "Active accounts are using the slots to be removed. `must_free` of the active `accounts` on `platform` must be switched off with `PATCH /v1/accounts/{account}`, or deleted, first. `waiting` lists accounts that would take a slot that becomes free: switch them off before. Nothing was changed.",
};
/// `change_in_progress`
pub(in crate::error) const CHANGE_IN_PROGRESS: Row = Row {
    code: "change_in_progress",
    status: StatusCode::CONFLICT,
    title: "Change in progress",
    retryable: true,
    meaning: "Another change of the same subscription, card or payment is in progress. Nothing was changed; try again after `Retry-After`. A charge that waits for its customer is named (`order_id`, `pi_id`, `expires_at`): `retryable` is false then and there is no `Retry-After`, because only confirming it ends it. The same holds for `POST /v1/billing/subscribe` where another choice was made at the same moment: its page is open.",
};
/// `subscription_not_paid`
pub(in crate::error) const SUBSCRIPTION_NOT_PAID: Row = Row {
    code: "subscription_not_paid",
    status: StatusCode::CONFLICT,
    title: "Subscription not paid",
    retryable: false,
    meaning: "The subscription can be changed only while it is paid and active. Pay its open invoice, or update its card in the portal. Nothing was changed.",
};
/// `subscription_past_due`
pub(in crate::error) const SUBSCRIPTION_PAST_DUE: Row = Row {
    code: "subscription_past_due",
    status: StatusCode::CONFLICT,
    title: "Subscription past due",
    retryable: false,
    meaning: "The last invoice of the subscription is not paid. Until it is, nothing more is sold: no upgrade, no additional slots, no switch. A cheaper plan, fewer slots and canceling work. Save another card or pay the open invoice in the portal. Nothing was changed.",
};
/// `payment_reversed`
pub(in crate::error) const PAYMENT_REVERSED: Row = Row {
    code: "payment_reversed",
    status: StatusCode::CONFLICT,
    title: "Payment reversed",
    retryable: false,
    meaning: "Slots are switched with a credit for the rest of the period, and the payment for this period's slots is open or was refunded or disputed. Switch after the next period is paid, or set the numbers of slots. Nothing was changed.",
};
/// `no_slot`
pub(in crate::error) const NO_SLOT: Row = Row {
    code: "no_slot",
    status: StatusCode::CONFLICT,
    title: "No slot",
    retryable: false,
    meaning: "There is no extra slot on the platform from which one is to be switched. `GET /v1/billing/slots` shows how many there are, and `POST /v1/billing/slots` buys one. Nothing was changed.",
};
/// `change_outcome_unknown`
pub(in crate::error) const CHANGE_OUTCOME_UNKNOWN: Row = Row {
    code: "change_outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Change outcome unknown",
    retryable: true,
    meaning: "The payment processor was asked to change the subscription and did not respond. We repeat the same request until the outcome is known, so nothing is paid twice; then `change` in `GET /v1/billing/slots` becomes null. Repeating the request waits for that outcome.",
};
/// `change_outcome_unknown` of a change that must not be asked for twice
pub(in crate::error) const RELATIVE_CHANGE_OUTCOME_UNKNOWN: Row = Row {
    code: "change_outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Change outcome unknown",
    retryable: false,
    meaning: "The same for a switch of a slot that was sent without an `Idempotency-Key`: repeated once the first one is made, it would move another slot. Wait until `change` in `GET /v1/billing/slots` is null, and repeat the request only if the slot was not moved.",
};
/// `unsigned_event`
pub(in crate::error) const UNSIGNED_EVENT: Row = Row {
    code: "unsigned_event",
    status: StatusCode::BAD_REQUEST,
    title: "Unsigned event",
    retryable: false,
    meaning: "The body is not an event that the payment processor signed within the last 300 seconds with one of the configured secrets. It was ignored.",
};
/// `thin_event`
pub(in crate::error) const THIN_EVENT: Row = Row {
    code: "thin_event",
    status: StatusCode::BAD_REQUEST,
    title: "Thin event",
    retryable: false,
    meaning: "The payment processor signed the event, but it is a thin one, which names its object and does not contain it. Thin events are not supported: add a webhook endpoint with the payload style \"snapshot\". It was ignored.",
};
/// `processor_rate_limited`
pub(in crate::error) const PROCESSOR_RATE_LIMITED: Row = Row {
    code: "processor_rate_limited",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Payment processor limits requests",
    retryable: true,
    meaning: "The payment processor receives too many requests from this deployment and refused this one. Nothing was charged or changed; try again after `Retry-After`.",
};
/// `processor_unavailable`
pub(in crate::error) const PROCESSOR_UNAVAILABLE: Row = Row {
    code: "processor_unavailable",
    status: StatusCode::BAD_GATEWAY,
    title: "Payment processor unavailable",
    retryable: true,
    meaning: "The payment processor could not be reached, or sent no usable response. Nothing was charged or changed.",
};
/// `payment_outcome_unknown`
pub(in crate::error) const PAYMENT_OUTCOME_UNKNOWN: Row = Row {
    code: "payment_outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Payment outcome unknown",
    retryable: false,
    meaning: "The payment processor did not respond to the payment request. We look the payment up until its outcome is known and grant what was paid; it is never charged twice. `GET /v1/billing/orders` shows the order.",
};
