//! Writes a failure as the response: RFC 9457, or for every 422 the same members with a list of
//! wrong fields as `detail`.
//!
//! Failures on our side are logged here, once, with their whole chain; the caller gets a fixed
//! sentence.

use axum::response::{IntoResponse, Response};
use failures::{Failure, FieldProblem};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::ApiError;

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

/// Writes the failure as the response to the request `request_id`. `is_harmless`: the request
/// changes nothing or certainly changed nothing; otherwise it may have taken effect. Server errors
/// are logged here, once.
pub fn render(error: &ApiError, request_id: &str, is_harmless: bool) -> Response {
    let (status, headers, text) = written(error, request_id, is_harmless);
    (status, headers, text).into_response()
}

/// The same in parts: the status, the headers, and the text of the body.
pub fn written(
    error: &ApiError,
    request_id: &str,
    is_harmless: bool,
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let row = error.row_of(is_harmless);
    let is_ours = matches!(error, ApiError::Failure(Failure::Store(_) | Failure::Internal(_)));
    if is_ours || row.status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(request.id = request_id, error = %chain(error), "request failed on our side");
    }
    let fields = error.field_problems();
    // In RFC 9457 `detail` is a text, so a list must not use its media type.
    let media_type = if fields.is_some() { "application/json" } else { "application/problem+json" };
    let body = ProblemBody {
        r#type: format!("/docs/errors#{}", row.code),
        title: row.title,
        status: row.status.as_u16(),
        code: row.code,
        detail: if fields.is_some() { None } else { Some(error.to_string()) },
        fields,
        members: error.members(),
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

/// Writes the hint for clients that read no bodies: whether the same request may be sent again.
pub fn put_hint(headers: &mut HeaderMap, should_retry: bool) {
    let hint = HeaderValue::from_static(if should_retry { "true" } else { "false" });
    headers.insert("x-should-retry", hint);
}

/// The credential that the route accepts: a key, or a session cookie.
const fn challenge(error: &ApiError) -> &'static str {
    match error {
        ApiError::MissingSession
        | ApiError::Failure(Failure::InvalidSession | Failure::WrongCredentials) => "Cookie",
        _ => "Bearer",
    }
}

fn chain(error: &ApiError) -> String {
    let mut text = match error {
        ApiError::Failure(Failure::Internal(cause)) => cause.clone(),
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
