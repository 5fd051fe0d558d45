//! Failures of payments.

use domain::account::CreatorId;
use domain::id::OrderId;
use domain::platform::Platform;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use processor_client::{ProcessorError, RateLimit};
use store::slot_assignment::OccupiedSlots;

/// The `Retry-After` in seconds when the processor limits requests without saying for how long.
const RATE_LIMIT_WAIT_S: u64 = 5;
/// The longest `Retry-After` of such a response, in seconds.
const RATE_LIMIT_WAIT_S_MAX: u64 = 3_600;

/// Every way in which a payment, or a change of what is paid for, can fail.
#[derive(Debug, thiserror::Error)]
pub enum PaymentProblem {
    /// The operator has configured no processor.
    #[error("payments are not configured on this deployment")]
    NotConfigured,
    /// The price at the processor is not the one that is shown here.
    #[error(
        "{what} is not for sale at the moment, because its price at the payment processor is not the one shown here; the \
         operator has been told. Nothing was charged or changed"
    )]
    NotForSale {
        /// What was to be bought, such as `the pack pack_10`.
        what: String,
    },
    /// The card was declined, or the bank requires the customer to authenticate.
    #[error("the payment was declined ({decline_code}); nothing was changed")]
    Failed {
        /// The bank's reason, or the processor's.
        decline_code: String,
    },
    /// There is no card to charge.
    #[error("there is no saved card; buy a pack with `POST /v1/billing/checkout` to save one")]
    NoSavedCard,
    /// A subscription is paid with the card that should be removed.
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
    /// Accounts use the slots that should be given up.
    #[error("{}", occupied_slots(.0))]
    SlotsInUse(OccupiedSlots),
    /// Another change of the same object is in progress.
    #[error("another change is in progress; try again in a moment")]
    ChangeInProgress,
    /// Another plan was chosen at the same time.
    #[error(
        "another request to subscribe was made at the same moment, and its checkout page is the one that is open; repeat this \
         request only if it is to replace the other"
    )]
    OtherChoice,
    /// A charge of the same pack is in progress with another `Idempotency-Key`.
    #[error("{0}")]
    ChargeUnderWay(ChargeUnderWay),
    /// The status of the subscription does not allow this change.
    #[error("the subscription is {status}; it can be changed once it is paid (see the portal)")]
    SubscriptionNotPaid {
        /// Its status.
        status: SubscriptionStatus,
    },
    /// The last invoice is unpaid, so nothing more is sold.
    #[error(
        "the last payment of the subscription failed, so nothing more can be bought on it; save another card or pay the open \
         invoice first (`POST /v1/billing/portal`)"
    )]
    SubscriptionPastDue,
    /// The period's slots are not paid for, so they cannot be credited.
    #[error(
        "the payment for this period's slots is open or was reversed, so they cannot be switched before the period ends; \
         setting their numbers with `POST /v1/billing/slots` works"
    )]
    PaymentReversed,
    /// The platform has no extra slot that could be moved to another one.
    #[error(
        "there is no extra slot on {platform} that could be switched; `GET /v1/billing/slots` shows how many there are"
    )]
    NoSlot {
        /// The platform that would have one slot fewer.
        platform: Platform,
    },
    /// The processor did not say whether it changed the subscription.
    #[error(
        "the payment processor did not confirm whether the change was made; we keep asking with the same request, so \
         nothing is paid twice; `GET /v1/billing/slots` shows the change until it is confirmed"
    )]
    ChangeUnknown(String),
    /// The same for a request without an `Idempotency-Key` that names a difference rather than the
    /// result: if the change was made, repeating the request would make another one.
    #[error(
        "the payment processor did not confirm whether the change was made; we keep asking with the same request. Wait \
         until `GET /v1/billing/slots` shows no change, and repeat the request only if the slot was not moved; with an \
         `Idempotency-Key` it can be repeated safely"
    )]
    RelativeChangeUnknown(String),
    /// An event without a valid and recent signature of the processor.
    #[error("the event is not accepted: {0}")]
    UnsignedEvent(String),
    /// A thin event: signed, but without its object.
    #[error(
        "this is a thin event (`{0}`), which is not supported; add a webhook endpoint with the payload style \"snapshot\" \
         instead, whose events have `\"object\": \"event\"`"
    )]
    ThinEvent(String),
    /// The processor's rate limit is exceeded.
    #[error(
        "the payment processor limits requests; nothing was charged or changed; try again in {retry_after_s} s"
    )]
    RateLimited {
        /// Seconds to wait.
        retry_after_s: u64,
    },
    /// The processor could not be reached, or returned an unusable response.
    #[error("the payment processor cannot be reached; nothing was charged or changed")]
    Unavailable(#[source] ProcessorError),
    /// The processor did not say whether it charged.
    #[error(
        "the payment processor did not confirm whether the payment was made; we look it up until it is confirmed \
         and never charge twice; see `GET /v1/billing/orders`"
    )]
    Unknown(#[source] ProcessorError),
    /// The processor refused our request.
    #[error("something went wrong on our side; nothing was charged or changed")]
    Refused(#[source] ProcessorError),
}

/// A charge in progress that prevents another one of the same pack.
#[derive(Debug)]
pub struct ChargeUnderWay {
    /// Its order.
    pub order: OrderId,
    /// Its payment, once the processor has created one.
    pub intent: Option<String>,
    /// When it is cancelled.
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
        let begun = format!(
            "a charge of this pack is in progress with another `Idempotency-Key` ({order})"
        );
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

/// How many accounts must be switched off, and which ones could be.
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
    /// Whether the processor may have carried out the request.
    pub const fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::ChangeUnknown(_) | Self::RelativeChangeUnknown(_) | Self::Unknown(_))
    }
}
