//! What becomes of a request to the processor that brings no object: declined, refused, or not
//! known.

use std::fmt;

use http::StatusCode;
use outbound::ClientError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::objects::{PaymentIntent, PaymentMethod};

/// Why there is no answer to work with.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// The payment was not made. Certain.
    #[error("the payment was declined: {0}")]
    Declined(Box<PaymentDecline>),
    /// The request was understood and not carried out. Certain; the same request would be refused
    /// again.
    #[error("the payment processor refused the request: {0}")]
    Refused(Box<RequestRefusal>),
    /// The object that the path names does not exist. Certain.
    #[error("the payment processor knows no such object")]
    Missing,
    /// Another request works on the same object; nothing was done. The same request may succeed in
    /// a moment.
    #[error("another request works on the same object at the payment processor")]
    LockTimeout,
    /// The processor limits how many requests it takes. Nothing was done; the same request may
    /// succeed after a pause.
    #[error("the payment processor limits requests; nothing was done")]
    RateLimited(RateLimit),
    /// The processor was not reached, or a request without effect brought nothing. Nothing was done
    /// there.
    #[error("the payment processor cannot be reached; nothing was done")]
    Unreachable(#[source] TransportTrouble),
    /// The request may or may not have taken effect. The same request with the same key tells, and
    /// so does looking the object up; a request with another key may do the same a second time.
    #[error("the payment processor did not say whether the request took effect")]
    Unknown(#[source] TransportTrouble),
}

/// A request that was not taken because there were too many: status 429.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Seconds to wait, from `Retry-After`; none where the processor does not say.
    pub retry_after_s: Option<u64>,
    /// The processor's name for the request.
    pub request_id: Option<String>,
}

/// A payment that was declined: status 402.
#[derive(Debug, Clone, Default)]
pub struct PaymentDecline {
    /// Such as `card_declined` or `authentication_required`.
    pub code: Option<String>,
    /// The bank's reason, such as `insufficient_funds`.
    pub decline_code: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// The intent that was declined, as it is now.
    pub payment_intent: Option<Box<PaymentIntent>>,
    /// The card that was declined.
    pub payment_method: Option<Box<PaymentMethod>>,
    /// The processor's name for the request.
    pub request_id: Option<String>,
}

/// A request that was not carried out.
#[derive(Debug, Clone)]
pub struct RequestRefusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// The family, such as `invalid_request_error`.
    pub kind: Option<String>,
    /// Such as `resource_missing`.
    pub code: Option<String>,
    /// The parameter it is about.
    pub param: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// The processor's name for the request.
    pub request_id: Option<String>,
}

/// What went wrong on the way.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TransportTrouble {
    /// What happened, for logs.
    pub what: String,
    /// The processor's name for the request, if it answered.
    pub request_id: Option<String>,
    /// The error below.
    #[source]
    pub source: Option<ClientError>,
}

impl PaymentDecline {
    /// Whether the bank wants the customer to authenticate. The processor says so in either of two
    /// fields.
    pub fn wants_authentication(&self) -> bool {
        let codes = [self.code.as_deref(), self.decline_code.as_deref()];
        codes.into_iter().flatten().any(|code| {
            matches!(
                code,
                "authentication_required" | "subscription_payment_intent_requires_action"
            )
        })
    }

    /// The most telling of its codes.
    pub fn reason(&self) -> &str {
        self.decline_code.as_deref().or(self.code.as_deref()).unwrap_or("generic_decline")
    }
}

impl fmt::Display for PaymentDecline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl RequestRefusal {
    /// Whether the key was used before for a request with other parameters.
    pub fn is_key_reused(&self) -> bool {
        self.kind.as_deref() == Some("idempotency_error")
    }
}

impl fmt::Display for RequestRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        write!(
            formatter,
            "status {}, type {}, code {}, parameter {}",
            self.status.as_u16(),
            word(&self.kind),
            word(&self.code),
            word(&self.param)
        )
    }
}

impl ProcessorError {
    /// Whether it is certain that the request had no effect.
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// The body of a refusal: `{"error": …}`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) error: ErrorFields,
}

/// One field that cannot be read must not hide the others: the code decides what follows.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorFields {
    #[serde(rename = "type", default, deserialize_with = "if_readable")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(super) code: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    decline_code: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    message: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    param: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    payment_intent: Option<Box<PaymentIntent>>,
    #[serde(default, deserialize_with = "if_readable")]
    payment_method: Option<Box<PaymentMethod>>,
}

fn if_readable<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(T::deserialize(Value::deserialize(from)?).ok())
}

impl ErrorFields {
    pub(super) fn into_decline(self, request_id: Option<String>) -> PaymentDecline {
        PaymentDecline {
            code: self.code,
            decline_code: self.decline_code,
            message: self.message,
            payment_intent: self.payment_intent,
            payment_method: self.payment_method,
            request_id,
        }
    }

    pub(super) fn into_refusal(
        self,
        status: StatusCode,
        request_id: Option<String>,
    ) -> RequestRefusal {
        RequestRefusal {
            status,
            kind: self.kind,
            code: self.code,
            param: self.param,
            message: self.message,
            request_id,
        }
    }
}
