//! What a response says about its request: whether it was carried out, and what a repetition gets.

use axum::response::Response;
use failures::Failure;
use http::header;

use crate::error::{ApiError, PendingFailure};

/// Marks a response that describes a momentary state, or contains what must not be stored. A
/// repetition runs the request again.
#[derive(Debug, Clone, Copy)]
pub struct NotKept;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptEnding {
    /// The request was carried out, and a repetition gets this response.
    Done,
    /// It was carried out, but its response must not be stored because it sets a cookie.
    Unstorable,
    /// A repetition runs the request again and continues what was begun.
    Open,
    /// Nothing was carried out.
    Refused,
    /// The outcome is unknown.
    Unknown,
}

impl AttemptEnding {
    /// Derives it from the response.
    pub(super) fn of(response: &Response) -> Self {
        let extensions = response.extensions();
        if let Some(PendingFailure(error)) = extensions.get::<PendingFailure>() {
            return Self::of_failure(error);
        }
        let status = response.status();
        if extensions.get::<NotKept>().is_some() {
            Self::Open
        } else if status.is_client_error() {
            Self::Refused
        } else if status.is_server_error() {
            Self::Unknown
        } else if response.headers().contains_key(header::SET_COOKIE) {
            Self::Unstorable
        } else {
            Self::Done
        }
    }

    /// A refusal did nothing. If this service failed or the payment processor did not respond, the
    /// outcome is unknown.
    fn of_failure(error: &ApiError) -> Self {
        match error {
            ApiError::Failure(Failure::Store(_) | Failure::Internal(_)) => Self::Unknown,
            ApiError::Failure(Failure::Payment(problem)) if problem.is_outcome_unknown() => {
                Self::Unknown
            }
            _ => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http::{HeaderValue, StatusCode};

    use super::*;
    use failures::PaymentProblem;

    #[test]
    fn refusals_did_nothing_and_our_failures_have_an_unknown_outcome() {
        for refusal in [
            ApiError::Failure(Failure::InvalidKey),
            ApiError::Failure(Failure::LimitedKey),
            ApiError::Failure(Failure::NotFound("nothing")),
            ApiError::Failure(Failure::Overloaded),
            ApiError::Failure(Failure::RateLimited { retry_after_ms: 1 }),
            ApiError::Failure(Failure::PlatformUnreachable),
            PaymentProblem::Failed { decline_code: "card_declined".to_owned() }.into(),
            PaymentProblem::ChangeInProgress.into(),
        ] {
            let name = refusal.to_string();
            assert_eq!(
                AttemptEnding::of(&refusal.into_response()),
                AttemptEnding::Refused,
                "{name}"
            );
        }
        for failure in [
            ApiError::Failure(Failure::Internal("a task ended early".to_owned())),
            PaymentProblem::ChangeUnknown("no response".to_owned()).into(),
        ] {
            let name = failure.to_string();
            assert_eq!(
                AttemptEnding::of(&failure.into_response()),
                AttemptEnding::Unknown,
                "{name}"
            );
        }
        assert_eq!(
            AttemptEnding::of(&StatusCode::BAD_GATEWAY.into_response()),
            AttemptEnding::Unknown
        );
        assert_eq!(
            AttemptEnding::of(&StatusCode::NOT_FOUND.into_response()),
            AttemptEnding::Refused
        );
    }

    #[test]
    fn a_success_is_stored_unless_it_is_marked_or_sets_a_cookie() {
        let mut response = StatusCode::NO_CONTENT.into_response();
        assert_eq!(AttemptEnding::of(&response), AttemptEnding::Done);
        response.headers_mut().insert(header::SET_COOKIE, HeaderValue::from_static("a=b"));
        assert_eq!(AttemptEnding::of(&response), AttemptEnding::Unstorable);
        response.extensions_mut().insert(NotKept);
        assert_eq!(AttemptEnding::of(&response), AttemptEnding::Open);
    }
}
