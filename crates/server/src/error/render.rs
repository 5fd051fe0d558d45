//! Writes a failure as the response: RFC 9457, or for every 422 the same members with a list of wrong fields as `detail`.
//!
//! Failures of our own are logged here, once, with their whole chain, and answered with a fixed sentence.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::outcome::NotStored;
use super::{ApiError, FieldProblem};

#[derive(serde::Serialize)]
struct ProblemBody<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "detail")]
    fields: Option<Vec<FieldProblem>>,
    #[serde(flatten)]
    members: serde_json::Map<String, serde_json::Value>,
    request_id: &'a str,
    retryable: bool,
}

/// Writes the failure as the response to the request `request_id`, which changes nothing or certainly changed nothing
/// (`is_harmless`), or may have been carried out. Server errors are logged here, once.
pub(crate) fn render(error: &ApiError, request_id: &str, is_harmless: bool) -> Response {
    let (status, headers, text) = written(error, request_id, is_harmless);
    (status, headers, text).into_response()
}

/// The same in parts: the status, the headers, and the text of the body.
pub(crate) fn written(
    error: &ApiError,
    request_id: &str,
    is_harmless: bool,
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let row = error.row_of(is_harmless);
    let is_ours = matches!(error, ApiError::Store(_) | ApiError::Internal(_));
    if is_ours || row.status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(request.id = request_id, error = %chain(error), "request failed on our side");
    }
    let fields = error.field_problems();
    // RFC 9457 has a text as `detail`, so a list must not travel under its media type.
    let media_type = if fields.is_some() { "application/json" } else { "application/problem+json" };
    let body = ProblemBody {
        r#type: format!("/docs/errors#{}", row.code),
        title: row.title,
        status: row.status.as_u16(),
        code: row.code,
        detail: if fields.is_some() { None } else { Some(error.to_string()) },
        fields,
        members: members(error),
        request_id,
        retryable: row.retryable,
    };
    let text = serde_json::to_vec(&body).unwrap_or_default();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert("x-error-source", HeaderValue::from_static("gateway"));
    put_hint(&mut headers, row.retryable);
    if row.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge(error)));
    }
    if matches!(error, ApiError::NativeMethod) {
        let native = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
        headers.insert(header::ALLOW, native);
    }
    if let Some(retry_after_ms) = error.retry_after_ms() {
        let seconds = retry_after_ms.max(0).saturating_add(999) / 1_000;
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    (row.status, headers, text)
}

/// Writes the hint for loops that read no bodies: whether the same request may be sent again.
pub(crate) fn put_hint(headers: &mut HeaderMap, should_retry: bool) {
    let hint = HeaderValue::from_static(if should_retry { "true" } else { "false" });
    headers.insert("x-should-retry", hint);
}

/// What would have been accepted: a key, or a session's cookie.
const fn challenge(error: &ApiError) -> &'static str {
    match error {
        ApiError::MissingSession | ApiError::InvalidSession | ApiError::WrongCredentials => {
            "Cookie"
        }
        _ => "Bearer",
    }
}

/// What a program may want to read besides the code.
fn members(error: &ApiError) -> serde_json::Map<String, serde_json::Value> {
    let mut members = serde_json::Map::new();
    match error {
        ApiError::InsufficientCredits { balance, cost } => {
            members.insert("balance".to_owned(), balance.whole().into());
            members.insert("cost".to_owned(), cost.whole().into());
        }
        ApiError::TrialPending { balance, cost, trial } => {
            members.insert("balance".to_owned(), balance.whole().into());
            members.insert("cost".to_owned(), cost.whole().into());
            members.insert("trial_credits".to_owned(), trial.whole().into());
        }
        ApiError::InDebt { balance, cost, debt } => {
            members.insert("balance".to_owned(), balance.whole().into());
            members.insert("cost".to_owned(), cost.whole().into());
            members.insert("debt".to_owned(), debt.whole().into());
        }
        ApiError::KeyBudgetExhausted { key, budget, used, cost, resets_at } => {
            members.insert("key_id".to_owned(), key.to_string().into());
            members.insert("budget".to_owned(), budget.whole().into());
            members.insert("used".to_owned(), used.whole().into());
            members.insert("cost".to_owned(), cost.whole().into());
            members.insert("resets_at".to_owned(), resets_at.to_rfc3339().into());
        }
        ApiError::MissingScope(scopes) => {
            members.insert("missing_scopes".to_owned(), scopes.clone().into());
        }
        ApiError::VerificationFailed { status: Some(status) } => {
            members.insert("platform_status".to_owned(), (*status).into());
        }
        ApiError::Payment(problem) => {
            let own = problem.members().into_iter();
            members.extend(own.map(|(name, value)| (name.to_owned(), value)));
        }
        ApiError::Account(problem) => {
            let own = problem.members().into_iter();
            members.extend(own.map(|(name, value)| (name.to_owned(), value)));
        }
        ApiError::AnswerNotStored(NotStored(call)) => {
            members.extend(call.map(|call| ("call_id".to_owned(), call.to_string().into())));
        }
        ApiError::OutcomeUnknown(unknown) => {
            let call = unknown.call.map(|call| ("call_id".to_owned(), call.to_string().into()));
            members.extend(call);
            if let Some(status) = unknown.platform_status {
                members.insert("platform_status".to_owned(), status.into());
            }
        }
        _ => {}
    }
    members
}

fn chain(error: &ApiError) -> String {
    let mut text = match error {
        ApiError::Internal(cause) => cause.clone(),
        other => other.to_string(),
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
