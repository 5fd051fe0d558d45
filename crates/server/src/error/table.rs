//! The table of failures: one row for each, and nothing else decides a code or a status.

use http::StatusCode;

/// What the table says of one failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// What clients match. It never changes.
    pub(crate) code: &'static str,
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// A short name for people.
    pub(crate) title: &'static str,
    /// Whether the same request may succeed later.
    pub(crate) retryable: bool,
    /// What happened and what to do, for the reference.
    pub(crate) meaning: &'static str,
}

/// `missing_key`
pub(super) const MISSING_KEY: Row = Row {
    code: "missing_key",
    status: StatusCode::UNAUTHORIZED,
    title: "No key",
    retryable: false,
    meaning: "No key came with the request. Send `X-API-Key: …` or `Authorization: Bearer …`.",
};
/// `invalid_key`
pub(super) const INVALID_KEY: Row = Row {
    code: "invalid_key",
    status: StatusCode::UNAUTHORIZED,
    title: "Invalid key",
    retryable: false,
    meaning: "The key is malformed, unknown, revoked or expired. Check that it is complete and has not been rotated.",
};
/// `ambiguous_key`
pub(super) const AMBIGUOUS_KEY: Row = Row {
    code: "ambiguous_key",
    status: StatusCode::UNAUTHORIZED,
    title: "Two different keys",
    retryable: false,
    meaning: "`X-API-Key` and `Authorization` carry different keys. Send one of them.",
};
/// `conflicting_customers`
pub(super) const CONFLICTING_CUSTOMERS: Row = Row {
    code: "conflicting_customers",
    status: StatusCode::BAD_REQUEST,
    title: "Two customers",
    retryable: false,
    meaning: "The session's cookie and the key belong to different customers. Send one of them.",
};
/// `missing_session`
pub(super) const MISSING_SESSION: Row = Row {
    code: "missing_session",
    status: StatusCode::UNAUTHORIZED,
    title: "Not logged in",
    retryable: false,
    meaning: "The route takes a session alone. `POST /v1/auth/login` begins one.",
};
/// `invalid_session`
pub(super) const INVALID_SESSION: Row = Row {
    code: "invalid_session",
    status: StatusCode::UNAUTHORIZED,
    title: "Session over",
    retryable: false,
    meaning: "The session is over, unknown or malformed. Log in again.",
};
/// `wrong_credentials`
pub(super) const WRONG_CREDENTIALS: Row = Row {
    code: "wrong_credentials",
    status: StatusCode::UNAUTHORIZED,
    title: "Wrong address or password",
    retryable: false,
    meaning: "The mail address or the password is wrong; which of them is not told.",
};
/// `wrong_password`
pub(super) const WRONG_PASSWORD: Row = Row {
    code: "wrong_password",
    status: StatusCode::FORBIDDEN,
    title: "Wrong password",
    retryable: false,
    meaning: "The current password, asked for again, is wrong. Nothing was changed.",
};
/// `cross_site_request`
pub(super) const CROSS_SITE: Row = Row {
    code: "cross_site_request",
    status: StatusCode::FORBIDDEN,
    title: "Cross-site request",
    retryable: false,
    meaning: "A session changes things only from a page of this service: `Sec-Fetch-Site` must be `same-origin` or `none`, or `Origin` (or `Referer`) the public address.",
};
/// `https_required`
pub(super) const HTTPS_REQUIRED: Row = Row {
    code: "https_required",
    status: StatusCode::FORBIDDEN,
    title: "Https required",
    retryable: false,
    meaning: "Sessions travel over https only, or over plain HTTP on the service's own machine. Keys are not affected.",
};
/// `read_only_key`
pub(super) const READ_ONLY_KEY: Row = Row {
    code: "read_only_key",
    status: StatusCode::FORBIDDEN,
    title: "Read-only key",
    retryable: false,
    meaning: "The key may only read. Use a key of full scope for writes.",
};
/// `missing_scope`
pub(super) const MISSING_SCOPE: Row = Row {
    code: "missing_scope",
    status: StatusCode::FORBIDDEN,
    title: "Missing scope",
    retryable: false,
    meaning: "The account's access token lacks OAuth scopes that the route needs; `missing_scopes` lists them. Connect the account with a token that has them.",
};
/// `account_inactive`
pub(super) const ACCOUNT_INACTIVE: Row = Row {
    code: "account_inactive",
    status: StatusCode::FORBIDDEN,
    title: "Account inactive",
    retryable: false,
    meaning: "The account is connected but the plan has no free slot for it. Free a slot or buy one.",
};
/// `account_not_found`
pub(super) const ACCOUNT_NOT_FOUND: Row = Row {
    code: "account_not_found",
    status: StatusCode::NOT_FOUND,
    title: "No such account",
    retryable: false,
    meaning: "The customer has no account of that id. `GET /v1/accounts` lists them.",
};
/// `not_found`
pub(super) const NOT_FOUND: Row = Row {
    code: "not_found",
    status: StatusCode::NOT_FOUND,
    title: "Not found",
    retryable: false,
    meaning: "Nothing is at this path, or nothing of this customer has that id.",
};
/// `route_not_listed`
pub(super) const ROUTE_NOT_LISTED: Row = Row {
    code: "route_not_listed",
    status: StatusCode::NOT_FOUND,
    title: "Route not listed",
    retryable: false,
    meaning: "The platform's catalogue does not list the route, and this deployment refuses unlisted ones.",
};
/// `method_not_allowed`
pub(super) const METHOD_NOT_ALLOWED: Row = Row {
    code: "method_not_allowed",
    status: StatusCode::METHOD_NOT_ALLOWED,
    title: "Method not allowed",
    retryable: false,
    meaning: "The path exists but does not offer the method.",
};
/// `insufficient_credits`
pub(super) const INSUFFICIENT_CREDITS: Row = Row {
    code: "insufficient_credits",
    status: StatusCode::PAYMENT_REQUIRED,
    title: "Insufficient credits",
    retryable: false,
    meaning: "The balance does not cover the request; `balance` and `cost` say by how much. Nothing was sent.",
};
/// `key_budget_exhausted`
pub(super) const KEY_BUDGET_EXHAUSTED: Row = Row {
    code: "key_budget_exhausted",
    status: StatusCode::PAYMENT_REQUIRED,
    title: "Key budget exhausted",
    retryable: false,
    meaning: "The key may spend only so many credits in a UTC month, and the request does not fit in what is left; `key_id`, `budget`, `used`, `cost` and `resets_at` say what is. Nothing was sent. Raise the budget with `PATCH /v1/auth/keys/{key_id}`, or wait for `resets_at`.",
};
/// `too_many_keys`
pub(super) const TOO_MANY_KEYS: Row = Row {
    code: "too_many_keys",
    status: StatusCode::CONFLICT,
    title: "Too many keys",
    retryable: false,
    meaning: "The customer has as many keys as it may have. Delete one that is no longer used.",
};
/// `unsupported_platform`
pub(super) const UNSUPPORTED_PLATFORM: Row = Row {
    code: "unsupported_platform",
    status: StatusCode::BAD_REQUEST,
    title: "Unsupported platform",
    retryable: false,
    meaning: "The route is not offered for the account's platform: files are uploaded to platform_gamma alone. Nothing was read.",
};
/// `limited_key`
pub(super) const LIMITED_KEY: Row = Row {
    code: "limited_key",
    status: StatusCode::FORBIDDEN,
    title: "Limited key",
    retryable: false,
    meaning: "A key that is limited to some accounts, to a monthly budget or in time cannot look at or change what would widen it: other keys, support access, the audit list. Use a session or a key without limits.",
};
/// `missing_permission`
pub(super) const MISSING_PERMISSION: Row = Row {
    code: "missing_permission",
    status: StatusCode::FORBIDDEN,
    title: "Missing permission",
    retryable: false,
    meaning: "The operation is for staff who have the permission that `detail` names.",
};
/// `support_access_closed`
pub(super) const SUPPORT_ACCESS_CLOSED: Row = Row {
    code: "support_access_closed",
    status: StatusCode::NOT_FOUND,
    title: "No support access",
    retryable: false,
    meaning: "There is no such customer, or it does not allow staff to look at its things at this moment; which of the two is not told. The customer allows it with `POST /v1/support-access`.",
};
/// `gone`
pub(super) const GONE: Row = Row {
    code: "gone",
    status: StatusCode::GONE,
    title: "Gone",
    retryable: false,
    meaning: "The operation is retired. `Link` names its successor.",
};
/// `invalid_request`
pub(super) const INVALID: Row = Row {
    code: "invalid_request",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "Invalid request",
    retryable: false,
    meaning: "Fields of the request are wrong. `detail` lists each with the way down to it (`loc`), what is wrong (`msg`) and a stable word (`type`).",
};
/// `email_taken`
pub(super) const EMAIL_TAKEN: Row = Row {
    code: "email_taken",
    status: StatusCode::CONFLICT,
    title: "Address taken",
    retryable: false,
    meaning: "A customer with this mail address exists already.",
};
/// `unknown_link`
pub(super) const UNKNOWN_LINK: Row = Row {
    code: "unknown_link",
    status: StatusCode::NOT_FOUND,
    title: "Unknown link",
    retryable: false,
    meaning: "No mailed link has this token, or the link is for something else. Copy the whole link, or ask for a new one.",
};
/// `link_used`
pub(super) const LINK_USED: Row = Row {
    code: "link_used",
    status: StatusCode::CONFLICT,
    title: "Link used",
    retryable: false,
    meaning: "The mailed link works once, and it or another one for the same was used.",
};
/// `link_expired`
pub(super) const LINK_EXPIRED: Row = Row {
    code: "link_expired",
    status: StatusCode::GONE,
    title: "Link expired",
    retryable: false,
    meaning: "The mailed link's time is over. Ask for a new one.",
};
/// `link_outdated`
pub(super) const LINK_OUTDATED: Row = Row {
    code: "link_outdated",
    status: StatusCode::GONE,
    title: "Link outdated",
    retryable: false,
    meaning: "The mailed link belongs to an address that is no longer its customer's, or to a customer that was closed.",
};
/// `creator_exists`
pub(super) const CREATOR_EXISTS: Row = Row {
    code: "creator_exists",
    status: StatusCode::CONFLICT,
    title: "Creator exists",
    retryable: false,
    meaning: "The creator_id is connected on another platform. Delete that account first, or choose another id.",
};
/// `verification_failed`
pub(super) const VERIFICATION_FAILED: Row = Row {
    code: "verification_failed",
    status: StatusCode::BAD_REQUEST,
    title: "Verification failed",
    retryable: false,
    meaning: "The platform did not confirm the credentials; `platform_status` is what it answered. Take fresh ones from a logged-in session.",
};
/// `platform_not_offered`
pub(super) const PLATFORM_NOT_OFFERED: Row = Row {
    code: "platform_not_offered",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Platform not offered",
    retryable: false,
    meaning: "The operator has not configured this platform.",
};
/// `credential_error`
pub(super) const CREDENTIAL_ERROR: Row = Row {
    code: "credential_error",
    status: StatusCode::CONFLICT,
    title: "Credentials unreadable",
    retryable: false,
    meaning: "The stored credentials of the account cannot be opened. Connect it again.",
};
/// `platform_unreachable`
pub(super) const PLATFORM_UNREACHABLE: Row = Row {
    code: "platform_unreachable",
    status: StatusCode::BAD_GATEWAY,
    title: "Platform unreachable",
    retryable: true,
    meaning: "No connection to the platform, or it broke before an answer. Nothing was charged.",
};
/// `bad_platform_answer`
pub(super) const BAD_PLATFORM_ANSWER: Row = Row {
    code: "bad_platform_answer",
    status: StatusCode::BAD_GATEWAY,
    title: "Bad platform answer",
    retryable: true,
    meaning: "The platform's answer broke the rules of HTTP or was cut. Nothing was charged; a write may have taken effect.",
};
/// `platform_timeout`
pub(super) const PLATFORM_TIMEOUT: Row = Row {
    code: "platform_timeout",
    status: StatusCode::GATEWAY_TIMEOUT,
    title: "Platform timeout",
    retryable: true,
    meaning: "The platform did not answer in time. Nothing was charged; a write may have taken effect.",
};
/// `platform_unavailable`
pub(super) const PLATFORM_UNAVAILABLE: Row = Row {
    code: "platform_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Platform unavailable",
    retryable: true,
    meaning: "Recent calls of this account to the platform failed, so none is tried until `Retry-After`. Nothing was sent.",
};
/// `account_paused`
pub(super) const ACCOUNT_PAUSED: Row = Row {
    code: "account_paused",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Account paused",
    retryable: true,
    meaning: "The platform asked this account to slow down; calls wait until `Retry-After`. Nothing was sent.",
};
/// `rate_limited`
pub(super) const RATE_LIMITED: Row = Row {
    code: "rate_limited",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Rate limited",
    retryable: true,
    meaning: "The key sends more requests than its limit allows; see `RateLimit` and `Retry-After`.",
};
/// `too_many_registrations`
pub(super) const TOO_MANY_REGISTRATIONS: Row = Row {
    code: "too_many_registrations",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many registrations",
    retryable: true,
    meaning: "Too many registrations came from this network within an hour.",
};
/// `too_many_logins`
pub(super) const TOO_MANY_LOGINS: Row = Row {
    code: "too_many_logins",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many wrong passwords",
    retryable: true,
    meaning: "Too many wrong passwords for this mail address came from this network. Other networks are not affected.",
};
/// `too_many_mails`
pub(super) const TOO_MANY_MAILS: Row = Row {
    code: "too_many_mails",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many mails",
    retryable: true,
    meaning: "So many mails were asked for lately, to this address or from this network, that the next one must wait; see `Retry-After`.",
};
/// `too_many_in_flight`
pub(super) const TOO_MANY_IN_FLIGHT: Row = Row {
    code: "too_many_in_flight",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many calls in flight",
    retryable: true,
    meaning: "Too many calls of this customer or account are running. Wait for some to end.",
};
/// `overloaded`
pub(super) const OVERLOADED: Row = Row {
    code: "overloaded",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Overloaded",
    retryable: true,
    meaning: "The service takes no more work for a moment. Nothing was sent or charged.",
};
/// `idempotency_in_progress`
pub(super) const IDEMPOTENCY_IN_PROGRESS: Row = Row {
    code: "idempotency_in_progress",
    status: StatusCode::CONFLICT,
    title: "Still running",
    retryable: true,
    meaning: "The first request with this `Idempotency-Key` is still running.",
};
/// `idempotency_mismatch`
pub(super) const IDEMPOTENCY_MISMATCH: Row = Row {
    code: "idempotency_mismatch",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "Idempotency-Key reused",
    retryable: false,
    meaning: "The `Idempotency-Key` was used for another request within 24 hours. Use a new one.",
};
/// `invalid_idempotency_key`
pub(super) const INVALID_IDEMPOTENCY_KEY: Row = Row {
    code: "invalid_idempotency_key",
    status: StatusCode::BAD_REQUEST,
    title: "Invalid Idempotency-Key",
    retryable: false,
    meaning: "`Idempotency-Key` must be given once, with 1 to 255 visible ASCII characters.",
};
/// `answer_not_stored`
pub(super) const ANSWER_NOT_STORED: Row = Row {
    code: "answer_not_stored",
    status: StatusCode::CONFLICT,
    title: "Answer not stored",
    retryable: false,
    meaning: "The request with this `Idempotency-Key` was sent and answered, but its answer was too large to keep. `call_id` names its entry in the call log.",
};
/// `outcome_unknown`
pub(super) const OUTCOME_UNKNOWN: Row = Row {
    code: "outcome_unknown",
    status: StatusCode::CONFLICT,
    title: "Outcome unknown",
    retryable: false,
    meaning: "Nobody knows whether the first request with this `Idempotency-Key` took effect. Look at the platform before repeating it with a new key. `call_id` names its entry in the call log.",
};
/// `body_too_large`
pub(super) const BODY_TOO_LARGE: Row = Row {
    code: "body_too_large",
    status: StatusCode::PAYLOAD_TOO_LARGE,
    title: "Body too large",
    retryable: false,
    meaning: "The body is larger than this route takes.",
};
/// `body_timeout`
pub(super) const BODY_TIMEOUT: Row = Row {
    code: "body_timeout",
    status: StatusCode::REQUEST_TIMEOUT,
    title: "Body too slow",
    retryable: true,
    meaning: "The body did not arrive in time.",
};
/// `broken_body`
pub(super) const BROKEN_BODY: Row = Row {
    code: "broken_body",
    status: StatusCode::BAD_REQUEST,
    title: "Broken body",
    retryable: false,
    meaning: "The body's framing is broken, or it ended early.",
};
/// `invalid_path`
pub(super) const INVALID_PATH: Row = Row {
    code: "invalid_path",
    status: StatusCode::BAD_REQUEST,
    title: "Invalid path",
    retryable: false,
    meaning: "The native path or query has a form that is never forwarded: dot segments, encoded slashes, control characters and the like.",
};
/// `several_ranges`
pub(super) const SEVERAL_RANGES: Row = Row {
    code: "several_ranges",
    status: StatusCode::RANGE_NOT_SATISFIABLE,
    title: "Several ranges",
    retryable: false,
    meaning: "`Range` asks for more than one range. Nothing was sent; ask for one at a time.",
};
/// `unsupported_media_type`
pub(super) const UNSUPPORTED_MEDIA_TYPE: Row = Row {
    code: "unsupported_media_type",
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    title: "Unsupported media type",
    retryable: false,
    meaning: "The service's own routes take `Content-Type: application/json` in UTF-8, the upload takes `multipart/form-data`.",
};
/// `database_unavailable`
pub(super) const DATABASE_UNAVAILABLE: Row = Row {
    code: "database_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Database unavailable",
    retryable: true,
    meaning: "The service's database does not answer for a moment. No call was sent or charged; what another request \
              was to change may or may not have changed.",
};
/// `internal`
pub(super) const INTERNAL: Row = Row {
    code: "internal",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    title: "Internal error",
    retryable: true,
    meaning: "Something went wrong on our side. It is logged under `request_id`; nothing was charged.",
};

/// Every row, in the order of the reference.
pub(super) const ALL: &[Row] = &[
    MISSING_KEY,
    INVALID_KEY,
    AMBIGUOUS_KEY,
    CONFLICTING_CUSTOMERS,
    MISSING_SESSION,
    INVALID_SESSION,
    WRONG_CREDENTIALS,
    WRONG_PASSWORD,
    CROSS_SITE,
    HTTPS_REQUIRED,
    READ_ONLY_KEY,
    MISSING_SCOPE,
    ACCOUNT_INACTIVE,
    ACCOUNT_NOT_FOUND,
    NOT_FOUND,
    ROUTE_NOT_LISTED,
    METHOD_NOT_ALLOWED,
    INSUFFICIENT_CREDITS,
    KEY_BUDGET_EXHAUSTED,
    TOO_MANY_KEYS,
    UNSUPPORTED_PLATFORM,
    LIMITED_KEY,
    MISSING_PERMISSION,
    SUPPORT_ACCESS_CLOSED,
    GONE,
    INVALID,
    EMAIL_TAKEN,
    UNKNOWN_LINK,
    LINK_USED,
    LINK_EXPIRED,
    LINK_OUTDATED,
    CREATOR_EXISTS,
    VERIFICATION_FAILED,
    PLATFORM_NOT_OFFERED,
    CREDENTIAL_ERROR,
    PLATFORM_UNREACHABLE,
    BAD_PLATFORM_ANSWER,
    PLATFORM_TIMEOUT,
    PLATFORM_UNAVAILABLE,
    ACCOUNT_PAUSED,
    RATE_LIMITED,
    TOO_MANY_REGISTRATIONS,
    TOO_MANY_LOGINS,
    TOO_MANY_MAILS,
    TOO_MANY_IN_FLIGHT,
    OVERLOADED,
    IDEMPOTENCY_IN_PROGRESS,
    IDEMPOTENCY_MISMATCH,
    INVALID_IDEMPOTENCY_KEY,
    ANSWER_NOT_STORED,
    OUTCOME_UNKNOWN,
    BODY_TOO_LARGE,
    BODY_TIMEOUT,
    BROKEN_BODY,
    INVALID_PATH,
    SEVERAL_RANGES,
    UNSUPPORTED_MEDIA_TYPE,
    DATABASE_UNAVAILABLE,
    INTERNAL,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_this_file_is_listed_once() {
        let rows = include_str!("table.rs").matches(": Row = Row {").count();
        let mut codes: Vec<&str> = ALL.iter().map(|row| row.code).collect();
        codes.sort_unstable();
        codes.dedup();

        // The pattern itself stands once in this test.
        assert_eq!((ALL.len(), codes.len()), (rows - 1, rows - 1));
    }
}
