//! The results of handlers.

use http::StatusCode;
use serde_json::Value;

/// A response: a status and, unless it is empty, JSON.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Option<Value>,
}

impl Answer {
    /// 200 with this JSON.
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: StatusCode::OK, body: Some(body) }
    }

    /// 201 with this JSON.
    pub(crate) fn created(body: Value) -> Self {
        Self { status: StatusCode::CREATED, body: Some(body) }
    }

    /// Adds a field to a response that is an object.
    pub(crate) fn add(&mut self, name: &str, value: Value) {
        if let Some(Value::Object(body)) = &mut self.body {
            body.insert(name.to_owned(), value);
        }
    }

    /// 204.
    pub(crate) fn empty() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: None }
    }
}

/// Why a request was refused. Each platform writes it in its own error format.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// A stable code, such as `not_found`.
    pub(crate) code: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}

/// What every handler returns.
pub(crate) type Outcome = Result<Answer, Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// 400: the request is invalid.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 401: the credentials are missing or wrong.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// 403: the account lacks the permission.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 404: the thing does not exist.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} not found"))
    }

    /// 405: the path exists, but not with this method.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed")
    }

    /// 409: the state of the thing does not allow this.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }
}
