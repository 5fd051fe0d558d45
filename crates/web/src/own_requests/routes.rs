//! Which operations take an `Idempotency-Key` here, and which of them may run again if their
//! outcome is unknown.

use axum::extract::{MatchedPath, Request};

use crate::auth::{KEY_PATHS, OPEN_ROUTES, SESSION_PATHS};

/// Operations with a caller that this layer leaves out: (method, path template, why).
pub const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("post", "/v1/auth/logout", "it ends the session and its cookie, which are never stored"),
    ("post", "/v1/auth/password", "it begins a session, whose cookie is never stored"),
    ("post", "/v1/{account}/exports", "it is kept in the transaction that holds its credits"),
];

/// Operations that may run again after an attempt whose outcome is unknown: (method, path template,
/// why running twice is harmless). For every other operation a repetition gets `outcome_unknown`.
pub const RUN_AGAIN: &[(&str, &str, &str)] = &[
    ("patch", "/v1/auth/me", "it sets what it names"),
    ("patch", "/v1/auth/keys/{key_id}", "it sets what it names"),
    ("delete", "/v1/auth/keys/{key_id}", "an id is used once"),
    ("delete", "/v1/auth/sessions/{session_id}", "an id is used once"),
    ("post", "/v1/connect/import", "it sets the credentials of one account"),
    ("patch", "/v1/accounts/{account}", "it sets what it names"),
    ("delete", "/v1/accounts/{account}", "it leaves no account with that id"),
    ("post", "/v1/billing/subscribe", "a customer has one open offer"),
    ("post", "/v1/billing/subscription/plan", "its change is found by its id"),
    ("post", "/v1/billing/slots", "its change is found by its id"),
    ("post", "/v1/billing/slots/switch", "its change is found by its id"),
    ("post", "/v1/billing/portal", "it changes nothing"),
    ("post", "/v1/billing/estimate", "it changes nothing"),
    ("post", "/v1/billing/autotopup", "it sets what it names"),
    ("post", "/v1/billing/checkout", "the order is found by the same Idempotency-Key"),
    ("post", "/v1/billing/charge", "the order is found by the same Idempotency-Key"),
    ("post", "/v1/billing/confirm-charge", "a payment is granted once"),
    ("post", "/v1/billing/sync-card", "a payment is granted once, and there is one card"),
    ("delete", "/v1/billing/card", "it leaves no card"),
    ("post", "/v1/support-access", "it sets what it names"),
    ("patch", "/v1/notices", "it sets what it names"),
    ("delete", "/v1/exports/{job_id}", "an id is used once"),
    ("post", "/v1/exports/{job_id}/cancel", "an export ends once"),
];

/// An operation that takes an `Idempotency-Key`.
#[derive(Debug, Clone)]
pub(super) struct RepeatableOperation {
    method: String,
    path: MatchedPath,
}

impl RepeatableOperation {
    /// The operation of a request, if it takes a key here.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let path = request.extensions().get::<MatchedPath>()?;
        let method = request.method().as_str().to_ascii_lowercase();
        takes_part(&method, path.as_str()).then(|| Self { method, path: path.clone() })
    }

    /// Its method and the template of its path.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path.as_str())
    }

    /// Whether it accepts a session and no key.
    pub(super) fn is_for_sessions(&self) -> bool {
        SESSION_PATHS.contains(&self.path.as_str())
    }

    /// Whether it may run again if its outcome is unknown.
    pub(super) fn may_run_again(&self) -> bool {
        is_listed(RUN_AGAIN, &self.method, self.path.as_str())
    }
}

/// Whether an operation of the contract takes an `Idempotency-Key` here. `method` is in lower case.
pub fn takes_part(method: &str, path: &str) -> bool {
    ["post", "put", "patch", "delete"].contains(&method)
        && !KEY_PATHS.contains(&path)
        && !is_listed(OPEN_ROUTES, method, path)
        && !is_listed(LEFT_OUT, method, path)
}

fn is_listed(list: &[(&str, &str, &str)], method: &str, path: &str) -> bool {
    list.iter().any(|(listed, template, _)| (*listed, *template) == (method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_create_something_never_run_twice() {
        for (method, path) in [("post", "/v1/auth/keys"), ("post", "/v1/auth/keys/rotate")] {
            assert!(takes_part(method, path) && !is_listed(RUN_AGAIN, method, path), "{path}");
        }
    }

    #[test]
    fn reads_open_routes_and_native_calls_take_no_key_here() {
        for (method, path) in [
            ("get", "/v1/auth/keys"),
            ("post", "/v1/auth/login"),
            ("post", "/v1/billing/webhook"),
            ("post", "/v1/{account}/exports"),
            ("post", "/v1/{account}/media/upload"),
            ("delete", "/v1/{account}/native/{native_path}"),
        ] {
            assert!(!takes_part(method, path), "{method} {path}");
        }
        assert!(takes_part("delete", "/v1/auth/keys/{key_id}"));
    }
}
