//! A table of refusals: each has its status and its code in the platform's own error format, and
//! changes nothing.

use http::Method;
use serde_json::{Value, json};

use crate::kit::{Kit, Reply, none};

/// A request, and its expected refusal.
pub(crate) struct Refused {
    method: Method,
    path: String,
    body: Value,
    status: u16,
    code: &'static str,
}

/// A request that is refused with this status.
pub(crate) fn refused(
    method: Method,
    path: impl Into<String>,
    body: Value,
    status: u16,
) -> Refused {
    let code = match status {
        400 => "bad_request",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not_found",
        405 => "method_not_allowed",
        409 => "conflict",
        other => panic!("no code is known for {other}"),
    };
    Refused { method, path: path.into(), body, status, code }
}

/// A POST that is refused with this status.
pub(crate) fn post(path: impl Into<String>, body: Value, status: u16) -> Refused {
    refused(Method::POST, path, body, status)
}

/// A GET that is refused with this status.
pub(crate) fn get(path: impl Into<String>, status: u16) -> Refused {
    refused(Method::GET, path, none(), status)
}

impl Refused {
    /// Sets the refusal's code.
    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }
}

/// Sends all of them as this creator; `shape` writes an error with a status, a code and a message
/// in the platform's format, and `reads` must not change.
pub(crate) async fn are_refused(
    kit: &Kit,
    creator: &str,
    rows: &[Refused],
    shape: fn(u16, &str, &Value) -> Value,
    reads: &[String],
) {
    let before = state(kit, creator, reads).await;
    for row in rows {
        let reply = kit.send(creator, row.method.clone(), &row.path, row.body.clone()).await;
        let name = format!("{} {} {}", row.method, row.path, row.body);
        is_refusal(&reply, row.status, row.code, shape, &name);
    }
    assert_eq!(state(kit, creator, reads).await, before, "a refused write left a trace");
}

/// Checks that the reply is exactly this refusal, with a message for people.
pub(crate) fn is_refusal(
    reply: &Reply,
    status: u16,
    code: &str,
    shape: fn(u16, &str, &Value) -> Value,
    name: &str,
) {
    assert_eq!(reply.status.as_u16(), status, "{name}: {}", reply.body);
    let message = ["/message", "/error/details", "/error/message"]
        .iter()
        .find_map(|it| reply.body.pointer(it));
    let message = message.filter(|text| text.as_str().is_some_and(|text| text.len() > 5));
    let message = message.unwrap_or_else(|| panic!("{name} has no message: {}", reply.body));
    assert_eq!(reply.body, shape(status, code, message), "{name}");
}

async fn state(kit: &Kit, creator: &str, reads: &[String]) -> Vec<Value> {
    let mut all = Vec::new();
    for path in reads {
        all.push(kit.get(creator, path).await);
    }
    all
}

/// The error format of `platform_gamma`.
pub(crate) fn of_gamma(status: u16, code: &str, message: &Value) -> Value {
    json!({"statusCode": status, "error": code, "message": message})
}

/// The error format of `platform_beta`.
pub(crate) fn of_beta(_: u16, code: &str, message: &Value) -> Value {
    json!({"success": false, "error": {"code": code, "details": message}})
}

/// The error format of `platform_alpha`.
pub(crate) fn of_alpha(status: u16, _: &str, message: &Value) -> Value {
    json!({"error": {"code": status, "message": message}})
}

/// The error format of `platform_delta`.
pub(crate) fn of_delta(_: u16, code: &str, message: &Value) -> Value {
    json!({"error": {"code": code, "message": message}})
}
