//! A hold, its outcome, and how its call ended.

use std::sync::Arc;

use domain::account::CreatorId;
use domain::call_tag::CallTag;
use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CallId, CustomerId, KeyId};
use domain::key::KeyHash;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::StoreError;
use crate::idempotency::{ExistingRequest, IdempotencyClaim, StoredAnswer};

/// A request to set credits aside for one call, and the data of its log entry.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The call.
    pub call_id: CallId,
    /// The customer who pays.
    pub customer: CustomerId,
    /// The key it came with.
    pub key: KeyId,
    /// The secret it came with. The hold is refused if the secret was rotated away or revoked
    /// meanwhile.
    pub key_hash: KeyHash,
    /// The version of the key when the call was authorized.
    pub key_version: i64,
    /// The account it is for.
    pub account: CreatorId,
    /// The version of the account when the call was prepared.
    pub account_version: i64,
    /// The account's platform.
    pub platform: Platform,
    /// The HTTP method.
    pub method: Method,
    /// The catalogue's name of the endpoint, the shape of the path, or `unlisted`.
    pub route: Arc<str>,
    /// The native path, without its query.
    pub path: String,
    /// The cost; zero or more.
    pub cost: Credits,
    /// When the call began.
    pub held_at: Timestamp,
    /// When the hold expires and is refunded, unless it is renewed.
    pub expires_at: Timestamp,
    /// The request id that the caller received.
    pub request_id: String,
    /// The `Idempotency-Key` it came with.
    pub idempotency: Option<IdempotencyClaim>,
    /// What the call is for, in the customer's words.
    pub tag: Option<CallTag>,
}

/// Why a hold was refused before it was queued.
#[derive(Debug, thiserror::Error)]
pub enum HoldRefusal {
    /// The balance does not cover the cost.
    #[error("the balance is too low")]
    Insufficient {
        /// The available credits.
        balance: Credits,
    },
    /// The writer cannot keep up; retry shortly.
    #[error("too many calls wait to be metered")]
    Overloaded,
    /// The database does not respond, or its disk is full; retry shortly.
    #[error("calls cannot be metered at the moment")]
    Unavailable,
    /// The balance could not be read.
    #[error("the balance could not be read")]
    Store(#[source] StoreError),
}

/// The outcome of a hold.
#[derive(Debug, Clone)]
pub enum HoldOutcome {
    /// The credits are set aside, durably.
    Held {
        /// The available credits after the hold.
        balance: Credits,
    },
    /// The balance does not cover the cost.
    Insufficient {
        /// The available credits.
        balance: Credits,
    },
    /// The key's budget of this month does not cover the cost.
    BudgetExhausted {
        /// What the key may spend in the UTC month in which the call began.
        budget: Credits,
        /// What that month's calls and exports have spent or hold.
        used: Credits,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// The key, its secret or its customer is no longer accepted.
    KeyRefused,
    /// The key's permissions have changed: authorize the call again.
    KeyChanged,
    /// The account is gone or has another version: prepare the call again.
    AccountChanged,
    /// The `Idempotency-Key` was used before.
    Idempotency(ExistingRequest),
    /// The database failed; nothing is held.
    Failed(Arc<StoreError>),
}

impl HoldOutcome {
    /// Whether the credits are set aside.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// How a call ended: a request to settle it.
#[derive(Debug, Clone)]
pub struct CallResolution {
    /// The call.
    pub call_id: CallId,
    /// The outcome, which decides whether the call is charged.
    pub outcome: Outcome,
    /// The platform's status code, if it responded.
    pub status: Option<u16>,
    /// When it ended.
    pub resolved_at: Timestamp,
    /// Total duration in milliseconds.
    pub duration_ms: i64,
    /// How long the platform took, in milliseconds.
    pub upstream_ms: Option<i64>,
    /// The response to keep for the call's `Idempotency-Key`; none if it is too large.
    pub answer: Option<StoredAnswer>,
    /// Whether the platform said that it did nothing and that the request may be retried. Then
    /// nothing is kept, and the next request with the same `Idempotency-Key` is carried out.
    pub frees_key: bool,
}
