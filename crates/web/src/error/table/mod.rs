//! The table of failures: one row for each code and status. Nothing else decides a code, a status
//! or whether a request may be repeated.

pub(in crate::error) mod callers;

use http::StatusCode;

use super::{accounts, exports, payments};

/// One failure. A code with several statuses has a row for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRow {
    /// The code that clients match. It never changes.
    pub code: &'static str,
    /// The HTTP status.
    pub status: StatusCode,
    /// A short name for people.
    pub title: &'static str,
    /// Whether the same request may succeed later, and is certain not to take effect twice.
    pub retryable: bool,
    /// What happened and what to do about it, for the reference.
    pub meaning: &'static str,
}

/// `missing_scope`
pub(in crate::error) const MISSING_SCOPE: FailureRow = FailureRow {
    code: "missing_scope",
    status: StatusCode::FORBIDDEN,
    title: "Missing scope",
    retryable: false,
    meaning: "The account's access token lacks OAuth scopes that the route needs; `missing_scopes` lists them. Connect the account with a token that has them.",
};
/// `account_not_found`
pub(in crate::error) const ACCOUNT_NOT_FOUND: FailureRow = FailureRow {
    code: "account_not_found",
    status: StatusCode::NOT_FOUND,
    title: "No such account",
    retryable: false,
    meaning: "The customer has no account with that id. `GET /v1/accounts` lists them.",
};
/// `not_found`
pub(in crate::error) const NOT_FOUND: FailureRow = FailureRow {
    code: "not_found",
    status: StatusCode::NOT_FOUND,
    title: "Not found",
    retryable: false,
    meaning: "Nothing is at this path, or nothing of this customer has that id.",
};
/// `route_not_listed`
pub(in crate::error) const ROUTE_NOT_LISTED: FailureRow = FailureRow {
    code: "route_not_listed",
    status: StatusCode::NOT_FOUND,
    title: "Route not listed",
    retryable: false,
    meaning: "The route is not in the platform's catalogue, and this deployment refuses unlisted routes.",
};
/// `method_not_allowed`
pub(in crate::error) const METHOD_NOT_ALLOWED: FailureRow = FailureRow {
    code: "method_not_allowed",
    status: StatusCode::METHOD_NOT_ALLOWED,
    title: "Method not allowed",
    retryable: false,
    meaning: "The path exists but does not support the method; see `Allow`.",
};
/// `insufficient_credits`
pub(in crate::error) const INSUFFICIENT_CREDITS: FailureRow = FailureRow {
    code: "insufficient_credits",
    status: StatusCode::PAYMENT_REQUIRED,
    title: "Insufficient credits",
    retryable: false,
    meaning: "The balance does not cover the request; `balance` and `cost` say by how much. If a free trial waits for a confirmed email address, `trial_credits` is what the confirmation grants. Nothing was sent.",
};
/// `unsupported_platform`
pub(in crate::error) const UNSUPPORTED_PLATFORM: FailureRow = FailureRow {
    code: "unsupported_platform",
    status: StatusCode::BAD_REQUEST,
    title: "Unsupported platform",
    retryable: false,
    meaning: "The route is not available on the account's platform: uploads are available on platform_gamma only. Nothing was read.",
};
/// `gone`
pub(in crate::error) const GONE: FailureRow = FailureRow {
    code: "gone",
    status: StatusCode::GONE,
    title: "Gone",
    retryable: false,
    meaning: "The operation is retired. `Link` names its successor.",
};
/// `invalid_request`
pub(in crate::error) const INVALID: FailureRow = FailureRow {
    code: "invalid_request",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "Invalid request",
    retryable: false,
    meaning: "Fields of the request are wrong. `detail` lists every one with its location (`loc`), what to send instead (`msg`) and the kind of mistake (`type`).",
};
/// `creator_exists`
pub(in crate::error) const CREATOR_EXISTS: FailureRow = FailureRow {
    code: "creator_exists",
    status: StatusCode::CONFLICT,
    title: "Creator exists",
    retryable: false,
    meaning: "The creator_id is already connected on another platform. Delete that account first, or choose another id.",
};
/// `other_identity`
pub(in crate::error) const OTHER_IDENTITY: FailureRow = FailureRow {
    code: "other_identity",
    status: StatusCode::CONFLICT,
    title: "Another account",
    retryable: false,
    meaning: "The credentials belong to another account of the platform than the one that is connected under this creator_id. Nothing changed. Choose another creator_id, or send `replace_identity: true` to replace the account.",
};
/// `verification_failed`
pub(in crate::error) const VERIFICATION_FAILED: FailureRow = FailureRow {
    code: "verification_failed",
    status: StatusCode::BAD_REQUEST,
    title: "Verification failed",
    retryable: false,
    meaning: "The platform did not confirm the credentials; `platform_status` is the status of its response. Take fresh ones from a logged-in session.",
};
/// `platform_not_offered`
pub(in crate::error) const PLATFORM_NOT_OFFERED: FailureRow = FailureRow {
    code: "platform_not_offered",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Platform not offered",
    retryable: false,
    meaning: "The operator has not configured this platform.",
};
/// `credential_error`
pub(in crate::error) const CREDENTIAL_ERROR: FailureRow = FailureRow {
    code: "credential_error",
    status: StatusCode::CONFLICT,
    title: "Credentials unusable",
    retryable: false,
    meaning: "The stored credentials of the account cannot be decrypted, or cannot be sent as the platform is configured now: `detail` says why, such as a proxy in a private network. Nothing was charged. Connect the account again, with credentials that can be used.",
};
/// `platform_unreachable`
pub(in crate::error) const PLATFORM_UNREACHABLE: FailureRow = FailureRow {
    code: "platform_unreachable",
    status: StatusCode::BAD_GATEWAY,
    title: "Platform unreachable",
    retryable: true,
    meaning: "The request did not reach the platform: its name is unknown, no connection or no TLS \
              session could be made, the connection ended before a byte was sent, or the platform said by the \
              rules of HTTP/2 that it did not process the request. Nothing was charged.",
};
/// `bad_platform_answer`
pub(in crate::error) const BAD_PLATFORM_ANSWER: FailureRow = FailureRow {
    code: "bad_platform_answer",
    status: StatusCode::BAD_GATEWAY,
    title: "Bad platform response",
    retryable: true,
    meaning: "The response to a read was lost, was cut or broke the rules of HTTP. Nothing was charged. For a write \
              whose response is lost, see `outcome_unknown`.",
};
/// `platform_timeout`
pub(in crate::error) const PLATFORM_TIMEOUT: FailureRow = FailureRow {
    code: "platform_timeout",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Platform timeout",
    retryable: true,
    meaning: "The platform did not respond to a read in time. Nothing was charged. For a write whose response \
              does not arrive, see `outcome_unknown`.",
};
/// `platform_unavailable`
pub(in crate::error) const PLATFORM_UNAVAILABLE: FailureRow = FailureRow {
    code: "platform_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Platform unavailable",
    retryable: true,
    meaning: "Recent calls of this account to the platform failed, so none is tried until `Retry-After`; or its access \
              token is being refreshed, and the platform's token endpoint takes long. Nothing was carried out or charged.",
};
/// `platform_refusing_credentials`
pub(in crate::error) const PLATFORM_REFUSING: FailureRow = FailureRow {
    code: "platform_refusing_credentials",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Platform refuses credentials",
    retryable: true,
    meaning: "The platform currently refuses the credentials of all accounts, so it is not known whether these are valid. \
              No account needs to be connected again. Nothing was stored, sent or charged; try again after \
              `Retry-After`. `GET /v1/platforms` shows the state of each platform.",
};
/// `account_paused`
pub(in crate::error) const ACCOUNT_PAUSED: FailureRow = FailureRow {
    code: "account_paused",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Account paused",
    retryable: true,
    meaning: "The platform asked this account to slow down; calls wait until `Retry-After`. Nothing was sent.",
};
/// `rate_limited`
pub(in crate::error) const RATE_LIMITED: FailureRow = FailureRow {
    code: "rate_limited",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Rate limited",
    retryable: true,
    meaning: "The key sends more requests than its limit allows; see `RateLimit`, `RateLimit-Policy` and `Retry-After`. On the service's own routes the limit that is reached may also be one of the session, of the network (`network`), or of the customer's imports (`imports`), changes of keys (`key-changes`) or requests that reach the payment processor (`payments`).",
};
/// `too_many_in_flight`
pub(in crate::error) const TOO_MANY_IN_FLIGHT: FailureRow = FailureRow {
    code: "too_many_in_flight",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many calls in flight",
    retryable: true,
    meaning: "Too many calls of this customer or account are running, or the bodies that this customer (on routes without a caller: this network) is sending use all the memory they may. Wait for some to end.",
};
/// `overloaded`
pub(in crate::error) const OVERLOADED: FailureRow = FailureRow {
    code: "overloaded",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Overloaded",
    retryable: true,
    meaning: "The service is temporarily at capacity. Nothing was sent or charged.",
};
/// `idempotency_in_progress`
pub(in crate::error) const IDEMPOTENCY_IN_PROGRESS: FailureRow = FailureRow {
    code: "idempotency_in_progress",
    status: StatusCode::CONFLICT,
    title: "Still running",
    retryable: true,
    meaning: "The first request with this `Idempotency-Key` is still running. Repeat it after `Retry-After`.",
};
/// `idempotency_mismatch`
pub(in crate::error) const IDEMPOTENCY_MISMATCH: FailureRow = FailureRow {
    code: "idempotency_mismatch",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "Idempotency-Key reused",
    retryable: false,
    meaning: "The `Idempotency-Key` was used for another request within 24 hours: another method, path, query, content type or body, or, on the service's own routes, before what your key may do was changed. Use a new one.",
};
/// `invalid_idempotency_key`
pub(in crate::error) const INVALID_IDEMPOTENCY_KEY: FailureRow = FailureRow {
    code: "invalid_idempotency_key",
    status: StatusCode::BAD_REQUEST,
    title: "Invalid Idempotency-Key",
    retryable: false,
    meaning: "`Idempotency-Key` must be given once, with 1 to 255 visible ASCII characters.",
};
/// `answer_not_stored`
pub(in crate::error) const ANSWER_NOT_STORED: FailureRow = FailureRow {
    code: "answer_not_stored",
    status: StatusCode::CONFLICT,
    title: "Response not stored",
    retryable: false,
    meaning: "The first request with this `Idempotency-Key` was carried out, but its response was too large to store. `call_id` names its entry in the call log if it was a native call.",
};
/// `outcome_unknown` of a write whose response was lost
pub(in crate::error) const OUTCOME_UNKNOWN_UNUSABLE: FailureRow = FailureRow {
    code: "outcome_unknown",
    status: StatusCode::BAD_GATEWAY,
    title: "Outcome unknown",
    retryable: false,
    meaning: "A write, or part of it, was sent, and the platform's response was lost, was cut or broke the rules of \
              HTTP; `platform_status` is its status if that arrived. The write may have taken effect; nothing was \
              charged. Check on the platform whether it took effect, and repeat it only if it did not. Send an \
              `Idempotency-Key` with writes: a repetition under the same key is never sent twice. `call_id` names \
              the entry in the call log.",
};
/// `outcome_unknown` of a write whose response did not arrive in time
pub(in crate::error) const OUTCOME_UNKNOWN_LATE: FailureRow = FailureRow {
    code: "outcome_unknown",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Outcome unknown",
    retryable: false,
    meaning: "The same, where the response or the rest of it did not arrive in time.",
};
/// `outcome_unknown` of a repetition
pub(in crate::error) const OUTCOME_UNKNOWN_REPEATED: FailureRow = FailureRow {
    code: "outcome_unknown",
    status: StatusCode::CONFLICT,
    title: "Outcome unknown",
    retryable: false,
    meaning: "A repeated request: it is not known whether the first request with this `Idempotency-Key` took effect, and this \
              one was not carried out. Check whether the first one did (a native call: at the platform; `call_id` names \
              its entry in the call log), and repeat the request with a new key only if it did nothing.",
};
/// `body_too_large`
pub(in crate::error) const BODY_TOO_LARGE: FailureRow = FailureRow {
    code: "body_too_large",
    status: StatusCode::PAYLOAD_TOO_LARGE,
    title: "Body too large",
    retryable: false,
    meaning: "The body is larger than this route accepts.",
};
/// `body_timeout`
pub(in crate::error) const BODY_TIMEOUT: FailureRow = FailureRow {
    code: "body_timeout",
    status: StatusCode::REQUEST_TIMEOUT,
    title: "Body too slow",
    retryable: true,
    meaning: "The body did not arrive in time.",
};
/// `broken_body`
pub(in crate::error) const BROKEN_BODY: FailureRow = FailureRow {
    code: "broken_body",
    status: StatusCode::BAD_REQUEST,
    title: "Broken body",
    retryable: false,
    meaning: "The body's framing is broken, or it ended early.",
};
/// `invalid_path`
pub(in crate::error) const INVALID_PATH: FailureRow = FailureRow {
    code: "invalid_path",
    status: StatusCode::BAD_REQUEST,
    title: "Invalid path",
    retryable: false,
    meaning: "The native path or query has a form that is never forwarded: dot segments, encoded slashes, control characters and the like.",
};
/// `several_ranges`
pub(in crate::error) const SEVERAL_RANGES: FailureRow = FailureRow {
    code: "several_ranges",
    status: StatusCode::RANGE_NOT_SATISFIABLE,
    title: "Several ranges",
    retryable: false,
    meaning: "`Range` names more than one range. Nothing was sent; request one at a time.",
};
/// `unsupported_media_type`
pub(in crate::error) const UNSUPPORTED_MEDIA_TYPE: FailureRow = FailureRow {
    code: "unsupported_media_type",
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    title: "Unsupported media type",
    retryable: false,
    meaning: "The service's own routes take `Content-Type: application/json` in UTF-8, the upload takes `multipart/form-data`.",
};
/// `database_unavailable`
pub(in crate::error) const DATABASE_UNAVAILABLE: FailureRow = FailureRow {
    code: "database_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Database unavailable",
    retryable: true,
    meaning: "The service's database is temporarily not responding. The request changes nothing, or nothing was \
              changed, sent or charged, or its `Idempotency-Key` keeps it from taking effect twice.",
};
/// `database_unavailable` of a request that changes something
pub(in crate::error) const DATABASE_UNAVAILABLE_IN_CHANGE: FailureRow = FailureRow {
    code: "database_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Database unavailable",
    retryable: false,
    meaning: "The same for a request that changes something on this service: the change may or may not have \
              been made. Check before you repeat it.",
};
/// `internal`
pub(in crate::error) const INTERNAL: FailureRow = FailureRow {
    code: "internal",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    title: "Internal error",
    retryable: true,
    meaning: "Something went wrong on our side. It is logged under `request_id`; nothing was charged. The request \
              changes nothing, or nothing was done, or its `Idempotency-Key` keeps it from taking effect twice.",
};
/// `internal` of a request that changes something
pub(in crate::error) const INTERNAL_IN_CHANGE: FailureRow = FailureRow {
    code: "internal",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    title: "Internal error",
    retryable: false,
    meaning: "The same for a request that may have taken effect before that. Check before you repeat it.",
};

/// Every row, in the order of the reference.
pub(in crate::error) const ALL: &[FailureRow] = &[
    callers::MISSING_KEY,
    callers::INVALID_KEY,
    callers::CUSTOMER_SUSPENDED,
    callers::OPERATOR_REFUSED,
    callers::AMBIGUOUS_KEY,
    callers::CONFLICTING_CUSTOMERS,
    callers::MISSING_SESSION,
    callers::INVALID_SESSION,
    callers::WRONG_CREDENTIALS,
    callers::WRONG_PASSWORD,
    callers::CROSS_SITE,
    callers::HTTPS_REQUIRED,
    callers::READ_ONLY_KEY,
    MISSING_SCOPE,
    accounts::ACCOUNT_INACTIVE,
    ACCOUNT_NOT_FOUND,
    NOT_FOUND,
    ROUTE_NOT_LISTED,
    METHOD_NOT_ALLOWED,
    INSUFFICIENT_CREDITS,
    callers::KEY_BUDGET_EXHAUSTED,
    callers::COST_ABOVE_MAX,
    callers::INVALID_MAX_COST,
    callers::INVALID_TAG,
    callers::TOO_MANY_TAGS,
    callers::TOO_MANY_KEYS,
    UNSUPPORTED_PLATFORM,
    callers::LIMITED_KEY,
    callers::MISSING_PERMISSION,
    callers::SUPPORT_ACCESS_CLOSED,
    GONE,
    INVALID,
    callers::EMAIL_TAKEN,
    callers::UNKNOWN_LINK,
    callers::LINK_USED,
    callers::LINK_EXPIRED,
    callers::LINK_OUTDATED,
    CREATOR_EXISTS,
    accounts::NO_FREE_SLOT,
    OTHER_IDENTITY,
    VERIFICATION_FAILED,
    PLATFORM_NOT_OFFERED,
    CREDENTIAL_ERROR,
    PLATFORM_UNREACHABLE,
    BAD_PLATFORM_ANSWER,
    PLATFORM_TIMEOUT,
    PLATFORM_UNAVAILABLE,
    PLATFORM_REFUSING,
    ACCOUNT_PAUSED,
    callers::ACCOUNT_PACED,
    RATE_LIMITED,
    callers::TOO_MANY_REGISTRATIONS,
    callers::TOO_MANY_LOGINS,
    callers::TOO_MANY_MAILS,
    TOO_MANY_IN_FLIGHT,
    OVERLOADED,
    IDEMPOTENCY_IN_PROGRESS,
    IDEMPOTENCY_MISMATCH,
    INVALID_IDEMPOTENCY_KEY,
    ANSWER_NOT_STORED,
    OUTCOME_UNKNOWN_UNUSABLE,
    OUTCOME_UNKNOWN_LATE,
    OUTCOME_UNKNOWN_REPEATED,
    BODY_TOO_LARGE,
    BODY_TIMEOUT,
    BROKEN_BODY,
    INVALID_PATH,
    SEVERAL_RANGES,
    UNSUPPORTED_MEDIA_TYPE,
    payments::PAYMENTS_NOT_CONFIGURED,
    payments::NOT_FOR_SALE,
    payments::PAYMENT_FAILED,
    payments::NO_SAVED_CARD,
    payments::CARD_IN_USE,
    payments::NO_SUBSCRIPTION,
    payments::ALREADY_SUBSCRIBED,
    payments::SLOTS_IN_USE,
    payments::CHANGE_IN_PROGRESS,
    payments::SUBSCRIPTION_NOT_PAID,
    payments::SUBSCRIPTION_PAST_DUE,
    payments::PAYMENT_REVERSED,
    payments::NO_SLOT,
    payments::CHANGE_OUTCOME_UNKNOWN,
    payments::RELATIVE_CHANGE_OUTCOME_UNKNOWN,
    payments::UNSIGNED_EVENT,
    payments::THIN_EVENT,
    payments::PROCESSOR_RATE_LIMITED,
    payments::PROCESSOR_UNAVAILABLE,
    payments::PAYMENT_OUTCOME_UNKNOWN,
    exports::MEDIA_ARCHIVE_UNAVAILABLE,
    exports::TOO_MANY_EXPORTS,
    exports::EXPORT_OVER,
    exports::EXPORT_NOT_OVER,
    exports::EXPORT_NOT_READY,
    exports::EXPORT_EXPIRED,
    exports::EXPORT_FILE_MISSING,
    exports::INVALID_LINK,
    exports::RANGE_NOT_SATISFIABLE,
    exports::STORAGE_UNAVAILABLE,
    DATABASE_UNAVAILABLE,
    DATABASE_UNAVAILABLE_IN_CHANGE,
    INTERNAL,
    INTERNAL_IN_CHANGE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_list_once() {
        let rows = [
            include_str!("mod.rs"),
            include_str!("callers.rs"),
            include_str!("../accounts.rs"),
            include_str!("../payments.rs"),
            include_str!("../exports.rs"),
        ]
        .map(|file| file.matches(": FailureRow = FailureRow {").count())
        .iter()
        .sum::<usize>();
        let mut told_apart: Vec<_> =
            ALL.iter().map(|row| (row.code, row.status.as_u16(), row.retryable)).collect();
        told_apart.sort_unstable();
        told_apart.dedup();

        // This test contains the pattern once itself.
        assert_eq!((ALL.len(), told_apart.len()), (rows - 1, rows - 1));
    }

    #[test]
    fn rows_of_one_code_are_adjacent() {
        let mut codes: Vec<&str> = ALL.iter().map(|row| row.code).collect();
        codes.dedup();
        let in_order = codes.len();
        codes.sort_unstable();
        codes.dedup();

        assert_eq!(codes.len(), in_order);
    }
}
