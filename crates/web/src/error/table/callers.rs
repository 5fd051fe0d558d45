//! The rows for callers: keys, sessions, emailed links, permissions, and the limits on each.

use http::StatusCode;

use super::FailureRow;

/// `account_paced`
pub(in crate::error) const ACCOUNT_PACED: FailureRow = FailureRow {
    code: "account_paced",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Account paced",
    retryable: true,
    meaning: "This account sends more requests than the operator lets it send to its platform, and the call would have waited for too long; `Retry-After` says when its turn comes. Nothing was sent.",
};
/// `missing_key`
pub(in crate::error) const MISSING_KEY: FailureRow = FailureRow {
    code: "missing_key",
    status: StatusCode::UNAUTHORIZED,
    title: "No key",
    retryable: false,
    meaning: "No key came with the request. Send `X-API-Key: …` or `Authorization: Bearer …`.",
};
/// `invalid_key`
pub(in crate::error) const INVALID_KEY: FailureRow = FailureRow {
    code: "invalid_key",
    status: StatusCode::UNAUTHORIZED,
    title: "Invalid key",
    retryable: false,
    meaning: "The key is malformed, unknown, revoked or expired. Check that it is complete and has not been rotated.",
};
/// `customer_suspended`
pub(in crate::error) const CUSTOMER_SUSPENDED: FailureRow = FailureRow {
    code: "customer_suspended",
    status: StatusCode::FORBIDDEN,
    title: "Customer suspended",
    retryable: false,
    meaning: "The operator of this service suspended the customer: its keys and sessions are refused until the operator resumes it. Credits, accounts and finished exports are kept. Nothing was sent or charged. Contact the operator.",
};
/// `operator_refused`
pub(in crate::error) const OPERATOR_REFUSED: FailureRow = FailureRow {
    code: "operator_refused",
    status: StatusCode::CONFLICT,
    title: "Not possible now",
    retryable: false,
    meaning: "Only on the admin listener: the customer, the order or the payment is in a state that does not allow the command; `error` says what to do.",
};
/// `ambiguous_key`
pub(in crate::error) const AMBIGUOUS_KEY: FailureRow = FailureRow {
    code: "ambiguous_key",
    status: StatusCode::UNAUTHORIZED,
    title: "Two different keys",
    retryable: false,
    meaning: "`X-API-Key` and `Authorization` carry different keys. Send one of them.",
};
/// `conflicting_customers`
pub(in crate::error) const CONFLICTING_CUSTOMERS: FailureRow = FailureRow {
    code: "conflicting_customers",
    status: StatusCode::BAD_REQUEST,
    title: "Two customers",
    retryable: false,
    meaning: "The session's cookie and the key belong to different customers. Send one of them.",
};
/// `missing_session`
pub(in crate::error) const MISSING_SESSION: FailureRow = FailureRow {
    code: "missing_session",
    status: StatusCode::UNAUTHORIZED,
    title: "Not logged in",
    retryable: false,
    meaning: "The route needs a session. Log in with `POST /v1/auth/login`.",
};
/// `invalid_session`
pub(in crate::error) const INVALID_SESSION: FailureRow = FailureRow {
    code: "invalid_session",
    status: StatusCode::UNAUTHORIZED,
    title: "Session ended",
    retryable: false,
    meaning: "The session has ended, or the cookie is not valid. Log in again.",
};
/// `wrong_credentials`
pub(in crate::error) const WRONG_CREDENTIALS: FailureRow = FailureRow {
    code: "wrong_credentials",
    status: StatusCode::UNAUTHORIZED,
    title: "Wrong email address or password",
    retryable: false,
    meaning: "The email address or the password is wrong; we do not say which.",
};
/// `wrong_password`
pub(in crate::error) const WRONG_PASSWORD: FailureRow = FailureRow {
    code: "wrong_password",
    status: StatusCode::FORBIDDEN,
    title: "Wrong password",
    retryable: false,
    meaning: "The current password is wrong. Nothing was changed.",
};
/// `cross_site_request`
pub(in crate::error) const CROSS_SITE: FailureRow = FailureRow {
    code: "cross_site_request",
    status: StatusCode::FORBIDDEN,
    title: "Cross-site request",
    retryable: false,
    meaning: "With a session, changes are accepted only from a page of this service: `Sec-Fetch-Site` must be `same-origin` or `none`, or `Origin` (or `Referer`) the public address.",
};
/// `https_required`
pub(in crate::error) const HTTPS_REQUIRED: FailureRow = FailureRow {
    code: "https_required",
    status: StatusCode::FORBIDDEN,
    title: "HTTPS required",
    retryable: false,
    meaning: "Sessions travel over https only, or over plain HTTP on the service's own machine. Where the public address is https, a request with a key, and one that changes something, is refused if it comes unencrypted from another machine, or through a trusted proxy that does not say with `X-Forwarded-Proto: https` that its caller's connection is encrypted. A key or a password that was sent unencrypted should be replaced.",
};
/// `read_only_key`
pub(in crate::error) const READ_ONLY_KEY: FailureRow = FailureRow {
    code: "read_only_key",
    status: StatusCode::FORBIDDEN,
    title: "Read-only key",
    retryable: false,
    meaning: "The key is read-only. Use a key with scope `full` for writes.",
};
/// `key_budget_exhausted`
pub(in crate::error) const KEY_BUDGET_EXHAUSTED: FailureRow = FailureRow {
    code: "key_budget_exhausted",
    status: StatusCode::PAYMENT_REQUIRED,
    title: "Key budget exhausted",
    retryable: false,
    meaning: "The key has a monthly budget, and the request costs more than what is left of it; see `key_id`, `budget`, `used`, `cost` and `resets_at`. Nothing was sent. Raise the budget with `PATCH /v1/auth/keys/{key_id}`, or wait for `resets_at`.",
};
/// `cost_above_max`
pub(in crate::error) const COST_ABOVE_MAX: FailureRow = FailureRow {
    code: "cost_above_max",
    status: StatusCode::PRECONDITION_FAILED,
    title: "Cost above the maximum",
    retryable: false,
    meaning: "The request costs more than its `X-Max-Cost` allows; see `cost` and `max_cost`. Nothing was sent or charged. `POST /v1/billing/estimate` says what a request costs before it is made.",
};
/// `invalid_max_cost`
pub(in crate::error) const INVALID_MAX_COST: FailureRow = FailureRow {
    code: "invalid_max_cost",
    status: StatusCode::BAD_REQUEST,
    title: "Invalid X-Max-Cost",
    retryable: false,
    meaning: "`X-Max-Cost` must be given once, as a whole number of credits such as 2. Nothing was sent or charged.",
};
/// `invalid_tag`
pub(in crate::error) const INVALID_TAG: FailureRow = FailureRow {
    code: "invalid_tag",
    status: StatusCode::BAD_REQUEST,
    title: "Invalid X-Tag",
    retryable: false,
    meaning: "`X-Tag` must be given once, with 1 to 64 letters, digits, `.`, `_`, `:`, `/` or `-`, starting with a letter or a digit. Nothing was sent or charged.",
};
/// `too_many_tags`
pub(in crate::error) const TOO_MANY_TAGS: FailureRow = FailureRow {
    code: "too_many_tags",
    status: StatusCode::CONFLICT,
    title: "Too many tags",
    retryable: false,
    meaning: "The customer has used the maximum number of different `X-Tag`s of this UTC day; tags that were used today are still accepted. Put what differs for each call, such as an id, elsewhere. Nothing was sent or charged.",
};
/// `too_many_keys`
pub(in crate::error) const TOO_MANY_KEYS: FailureRow = FailureRow {
    code: "too_many_keys",
    status: StatusCode::CONFLICT,
    title: "Too many keys",
    retryable: false,
    meaning: "The customer has the maximum number of keys. Delete one that is no longer used.",
};
/// `limited_key`
pub(in crate::error) const LIMITED_KEY: FailureRow = FailureRow {
    code: "limited_key",
    status: StatusCode::FORBIDDEN,
    title: "Limited key",
    retryable: false,
    meaning: "A key with limits (accounts, monthly budget or expiry) cannot read or change anything that could lift them or that belongs to the whole customer: other keys, payments, support access, the audit log. Use a session or a key without limits.",
};
/// `missing_permission`
pub(in crate::error) const MISSING_PERMISSION: FailureRow = FailureRow {
    code: "missing_permission",
    status: StatusCode::FORBIDDEN,
    title: "Missing permission",
    retryable: false,
    meaning: "The operation is for staff who have the permission that `detail` names.",
};
/// `support_access_closed`
pub(in crate::error) const SUPPORT_ACCESS_CLOSED: FailureRow = FailureRow {
    code: "support_access_closed",
    status: StatusCode::NOT_FOUND,
    title: "No support access",
    retryable: false,
    meaning: "There is no such customer, or the customer does not currently allow support access; we do not say which. The customer allows it with `POST /v1/support-access`.",
};
/// `email_taken`
pub(in crate::error) const EMAIL_TAKEN: FailureRow = FailureRow {
    code: "email_taken",
    status: StatusCode::CONFLICT,
    title: "Email address taken",
    retryable: false,
    meaning: "A customer with this email address already exists.",
};
/// `unknown_link`
pub(in crate::error) const UNKNOWN_LINK: FailureRow = FailureRow {
    code: "unknown_link",
    status: StatusCode::NOT_FOUND,
    title: "Unknown link",
    retryable: false,
    meaning: "No emailed link has this token, or the link has another purpose. Copy the whole link, or request a new one.",
};
/// `link_used`
pub(in crate::error) const LINK_USED: FailureRow = FailureRow {
    code: "link_used",
    status: StatusCode::CONFLICT,
    title: "Link used",
    retryable: false,
    meaning: "An emailed link works once, and this one or a newer one for the same purpose has been used.",
};
/// `link_expired`
pub(in crate::error) const LINK_EXPIRED: FailureRow = FailureRow {
    code: "link_expired",
    status: StatusCode::GONE,
    title: "Link expired",
    retryable: false,
    meaning: "The emailed link has expired. Request a new one.",
};
/// `link_outdated`
pub(in crate::error) const LINK_OUTDATED: FailureRow = FailureRow {
    code: "link_outdated",
    status: StatusCode::GONE,
    title: "Link outdated",
    retryable: false,
    meaning: "The emailed link belongs to an email address that is no longer the customer's, or to a closed customer.",
};
/// `too_many_registrations`
pub(in crate::error) const TOO_MANY_REGISTRATIONS: FailureRow = FailureRow {
    code: "too_many_registrations",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many registrations",
    retryable: true,
    meaning: "Too many registrations came from this network (an IPv4 address, an IPv6 /64, and more loosely an IPv6 /48) within an hour.",
};
/// `too_many_logins`
pub(in crate::error) const TOO_MANY_LOGINS: FailureRow = FailureRow {
    code: "too_many_logins",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many wrong passwords",
    retryable: true,
    meaning: "Too many logins failed: for this address from this network, from this network whatever the address, or for this address whatever the network. A browser in which the customer has logged in within the last 90 days is recognized by its device cookie: only the wrong passwords sent from it for this customer count there.",
};
/// `too_many_mails`
pub(in crate::error) const TOO_MANY_MAILS: FailureRow = FailureRow {
    code: "too_many_mails",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many emails",
    retryable: true,
    meaning: "Too many emails of this kind were requested recently from this network (or, for a change of address, by this customer). Try again after `Retry-After`. This does not reveal whether the address has an account.",
};
