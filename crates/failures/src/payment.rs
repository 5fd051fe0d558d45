//! What can go wrong where money moves.

use clients::processor::{ProcessorError, RateLimit};
use domain::account::CreatorId;
use domain::id::OrderId;
use domain::platform::Platform;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use store::slot_assignment::OccupiedSlots;

/// The `Retry-After` of a response where the processor limits requests without saying for how long, in seconds.
const RATE_LIMIT_WAIT_S: u64 = 5;
/// The longest `Retry-After` of such a response, in seconds.
const RATE_LIMIT_WAIT_S_MAX: u64 = 3_600;

/// Every way a payment or a change of what is paid can fail.
#[derive(Debug, thiserror::Error)]
pub enum PaymentProblem {
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
        "another request to subscribe was made at the same moment, and its checkout page is the one that is open; repeat this \
         request only if it is to replace the other"
    )]
    OtherChoice,
    /// A charge of the same pack is under way with another `Idempotency-Key`.
    #[error("{0}")]
    ChargeUnderWay(ChargeUnderWay),
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
pub struct ChargeUnderWay {
    /// Its order.
    pub order: OrderId,
    /// Its payment, once the processor has made one.
    pub intent: Option<String>,
    /// When it is given up.
    pub expires_at: Timestamp,
    /// What it waits for.
    pub phase: ChargePhase,
}

/// What a charge waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargePhase {
    /// The processor's response, in a moment.
    Running,
    /// The customer, or the bank.
    Waiting,
    /// The processor did not say whether it charged.
    Unknown,
}

impl std::fmt::Display for ChargeUnderWay {
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

impl PaymentProblem {
    /// Whether the processor may have carried out what it was asked for.
    pub const fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::ChangeUnknown(_) | Self::RelativeChangeUnknown(_) | Self::Unknown(_))
    }
}
