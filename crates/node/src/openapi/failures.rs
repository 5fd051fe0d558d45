//! How each operation can fail: every status with its codes, from one table for each kind of route.
//!
//! What follows from the document itself (a caller, a body, a path parameter) is derived from it.
//! The table lists, by operation id, only what a handler adds.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use web::auth::{KEY_PATHS, SESSION_PATHS};
use web::error::documented::{self, DocumentedFailure};
use web::own_requests::routes::takes_part;

/// Failures of any request.
const ANY: &[&str] =
    &["invalid_request", "internal", "database_unavailable", "overloaded", "rate_limited"];
/// A key is needed or accepted.
const KEY: &[&str] = &[
    "missing_key",
    "invalid_key",
    "customer_suspended",
    "ambiguous_key",
    "conflicting_customers",
    "https_required",
];
/// A session is needed or accepted.
const SESSION: &[&str] = &[
    "invalid_session",
    "customer_suspended",
    "https_required",
    "conflicting_customers",
    "invalid_key",
    "ambiguous_key",
];
/// A session changes something.
const SESSION_CHANGE: &[&str] = &["cross_site_request", "unsupported_media_type"];
/// A body is sent.
const BODY: &[&str] = &[
    "unsupported_media_type",
    "body_too_large",
    "body_timeout",
    "broken_body",
    "overloaded",
    "too_many_in_flight",
];
/// The current password is asked for.
const PASSWORD: &[&str] = &["wrong_password", "too_many_logins", "overloaded"];
/// The payment processor is called.
const PROCESSOR: &[&str] =
    &["payments_not_configured", "processor_unavailable", "processor_rate_limited", "internal"];
/// A payment may be made.
const PAYMENT: &[&str] = &["payment_failed", "change_in_progress", "payment_outcome_unknown"];
/// A subscription changes.
const CHANGE: &[&str] = &[
    "not_for_sale",
    "payment_failed",
    "no_subscription",
    "subscription_not_paid",
    "subscription_past_due",
    "change_in_progress",
    "change_outcome_unknown",
    "no_saved_card",
];
/// A change of a subscription is previewed.
const PREVIEW: &[&str] = &[
    "not_for_sale",
    "limited_key",
    "no_subscription",
    "subscription_not_paid",
    "subscription_past_due",
    "change_in_progress",
];
/// An emailed link is used.
const LINK: &[&str] = &["unknown_link", "link_used", "link_expired", "link_outdated"];
/// Staff look at a customer.
const STAFF: &[&str] = &["missing_permission", "support_access_closed"];
/// A metered request has an `Idempotency-Key`.
const REPEATED: &[&str] = &[
    "idempotency_in_progress",
    "idempotency_mismatch",
    "outcome_unknown",
    "answer_not_stored",
    "invalid_idempotency_key",
];
/// Another operation has an `Idempotency-Key`: code and status.
const REPEATED_HERE: &[(&str, u16)] = &[
    ("invalid_idempotency_key", 400),
    ("idempotency_in_progress", 409),
    ("outcome_unknown", 409),
    ("answer_not_stored", 409),
    ("idempotency_mismatch", 422),
];
/// The same, for operations without a body: a body sent with the key is read.
const BODY_BESIDE_KEY: &[&str] =
    &["body_too_large", "body_timeout", "broken_body", "too_many_in_flight"];
/// A metered request is accepted.
const METERED: &[&str] = &[
    "account_not_found",
    "account_inactive",
    "insufficient_credits",
    "key_budget_exhausted",
    "cost_above_max",
    "invalid_max_cost",
    "invalid_tag",
    "too_many_tags",
    "platform_not_offered",
];
/// A platform is called.
const PLATFORM: &[&str] = &[
    "credential_error",
    "platform_unreachable",
    "bad_platform_answer",
    "platform_timeout",
    "platform_unavailable",
    "platform_refusing_credentials",
    "account_paused",
    "account_paced",
    "too_many_in_flight",
    "missing_scope",
    "outcome_unknown",
];

/// The failures of single operations beyond those that follow from the document.
const OPERATIONS: &[(&str, &[&[&str]])] = &[
    ("register_customer", &[&["email_taken", "too_many_registrations"]]),
    (
        "log_in",
        &[&[
            "wrong_credentials",
            "customer_suspended",
            "too_many_logins",
            "https_required",
            "cross_site_request",
        ]],
    ),
    ("change_password", &[PASSWORD]),
    ("update_me", &[PASSWORD, &["email_taken", "too_many_mails"]]),
    (
        "confirm_email",
        &[LINK, PASSWORD, &["email_taken", "cross_site_request", "conflicting_customers"]],
    ),
    ("resend_email_link", &[&["too_many_mails"]]),
    ("forgot_password", &[&["too_many_mails"]]),
    ("reset_password", &[LINK]),
    ("sign_up", &[&["gone"]]),
    ("list_audit", &[&["limited_key"]]),
    ("create_key", &[PASSWORD, &["limited_key", "too_many_keys"]]),
    ("get_key", &[&["limited_key"]]),
    ("get_billing", &[&["limited_key", "not_found"]]),
    ("list_ledger", &[&["limited_key", "not_found"]]),
    ("get_daily_usage", &[&["limited_key", "not_found"]]),
    ("list_recent_calls", &[&["limited_key", "not_found"]]),
    ("get_breakdown", &[&["limited_key", "not_found"]]),
    ("estimate_cost", &[&["account_not_found", "route_not_listed", "platform_not_offered"]]),
    ("update_key", &[&["limited_key"]]),
    ("delete_key", &[&["limited_key"]]),
    ("rotate_key", &[PASSWORD, &["limited_key", "not_found"]]),
    ("get_support_access", &[&["limited_key"]]),
    ("set_support_access", &[&["limited_key"]]),
    ("list_customer_calls", &[STAFF, &["limited_key"]]),
    ("get_customer_usage", &[STAFF, &["limited_key"]]),
    ("list_customer_exports", &[STAFF, &["limited_key"]]),
    ("list_all_exports", &[&["limited_key"]]),
    ("get_export", &[STAFF]),
    ("delete_export", &[STAFF, &["export_not_over"]]),
    ("cancel_export", &[&["export_over"]]),
    (
        "download_export",
        &[&[
            "invalid_link",
            "export_not_ready",
            "export_expired",
            "export_file_missing",
            "several_ranges",
            "range_not_satisfiable",
            "storage_unavailable",
        ]],
    ),
    (
        "create_export",
        &[
            METERED,
            REPEATED,
            &["missing_scope", "too_many_exports", "media_archive_unavailable", "credential_error"],
        ],
    ),
    (
        "import_account",
        &[&[
            "verification_failed",
            "other_identity",
            "creator_exists",
            "platform_refusing_credentials",
            "platform_unreachable",
            "platform_timeout",
            "bad_platform_answer",
            "platform_not_offered",
            "account_not_found",
        ]],
    ),
    ("update_account", &[&["no_free_slot"]]),
    ("list_orders", &[&["limited_key"]]),
    ("list_invoices", &[&["limited_key"]]),
    ("get_invoice", &[&["limited_key"]]),
    ("get_slots", &[&["limited_key"]]),
    ("get_subscription", &[&["limited_key"]]),
    ("get_card", &[&["limited_key"]]),
    ("delete_card", &[PASSWORD, PROCESSOR, &["limited_key", "card_in_use", "change_in_progress"]]),
    (
        "sync_card",
        &[
            PROCESSOR,
            &["limited_key", "not_found", "change_in_progress", "payment_outcome_unknown"],
        ],
    ),
    ("get_notices", &[&["limited_key"]]),
    ("update_notices", &[&["limited_key"]]),
    ("get_autotopup", &[&["limited_key"]]),
    ("set_autotopup", &[&["limited_key", "not_found", "no_saved_card", "payments_not_configured"]]),
    (
        "begin_checkout",
        &[PROCESSOR, PAYMENT, &["limited_key", "not_found", "gone", "not_for_sale"]],
    ),
    ("charge_card", &[PROCESSOR, PAYMENT, &["limited_key", "not_found", "no_saved_card"]]),
    ("get_order", &[PROCESSOR, &["limited_key", "not_found"]]),
    ("confirm_charge", &[PROCESSOR, PAYMENT, &["limited_key", "not_found"]]),
    (
        "subscribe",
        &[
            PROCESSOR,
            &[
                "limited_key",
                "not_found",
                "already_subscribed",
                "not_for_sale",
                "change_in_progress",
                "payment_outcome_unknown",
            ],
        ],
    ),
    ("change_plan", &[PROCESSOR, CHANGE, &["limited_key", "not_found"]]),
    ("set_slots", &[PROCESSOR, CHANGE, &["limited_key", "account_not_found", "slots_in_use"]]),
    (
        "switch_slot",
        &[
            PROCESSOR,
            CHANGE,
            &["limited_key", "account_not_found", "slots_in_use", "payment_reversed", "no_slot"],
        ],
    ),
    ("preview_slots", &[PROCESSOR, PREVIEW]),
    ("preview_switch", &[PROCESSOR, PREVIEW, &["payment_reversed", "no_slot"]]),
    ("preview_plan", &[PROCESSOR, PREVIEW, &["not_found"]]),
    (
        "open_portal",
        &[PROCESSOR, &["limited_key", "change_in_progress", "payment_outcome_unknown"]],
    ),
    ("receive_event", &[PROCESSOR, &["unsigned_event", "thin_event", "change_in_progress"]]),
    ("upload_media", &[METERED, PLATFORM, REPEATED, &["unsupported_platform"]]),
];

/// The codes of one operation.
fn codes(method: &str, path: &str, operation: &Value, is_open: bool) -> Vec<&'static str> {
    let mut codes: Vec<&str> = ANY.to_vec();
    let changes = method != "get";
    codes.extend(changes.then_some("https_required"));
    let takes = |scheme: &str| {
        operation["security"]
            .as_array()
            .is_none_or(|all| all.iter().any(|one| one.get(scheme).is_some()))
    };
    if !is_open && takes("key") {
        codes.extend(KEY);
        codes.extend(changes.then_some("read_only_key"));
    }
    if !is_open && takes("session") {
        codes.extend(SESSION);
        codes.extend(SESSION_PATHS.contains(&path).then_some("missing_session"));
        codes.extend(if changes { SESSION_CHANGE } else { &[] });
    }
    if operation.get("requestBody").is_some() {
        codes.extend(BODY);
    } else if takes_part(method, path) {
        codes.extend(BODY_BESIDE_KEY);
    }
    if path.contains('{') && !path.contains("{account}") {
        codes.push("not_found");
    }
    if path.contains("{account}") {
        codes.push("account_not_found");
    }
    let id = operation["operationId"].as_str().unwrap_or_default();
    if path.contains("/native/") {
        let native = [
            METERED,
            PLATFORM,
            &["route_not_listed", "invalid_path", "not_found", "several_ranges"],
        ];
        codes.extend(native.concat());
        codes.extend(if changes { REPEATED } else { &[] });
    }
    let own = OPERATIONS.iter().find(|(known, _)| *known == id);
    codes.extend(own.map(|(_, kinds)| kinds.concat()).unwrap_or_default());
    codes
}

/// The failures of one operation: its responses by status.
pub(super) fn of(method: &str, path: &str, operation: &Value, is_open: bool) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<DocumentedFailure>> = BTreeMap::new();
    let heads = documented::head_failures();
    let known = documented::failures();
    let wanted = codes(method, path, operation, is_open);
    let is_repeated = takes_part(method, path);
    let own = known.into_iter().filter(|failure| {
        let of_key = is_repeated && REPEATED_HERE.contains(&(failure.code, failure.status));
        of_key || wanted.contains(&failure.code)
    });
    for failure in own.chain(heads) {
        by_status.entry(failure.status).or_default().push(failure);
    }
    by_status
        .into_iter()
        .map(|(status, failures)| {
            let mut response = response(status, &failures);
            if KEY_PATHS.contains(&path) {
                add_platform_error(&mut response);
            }
            (status.to_string(), response)
        })
        .collect()
}

fn response(status: u16, failures: &[DocumentedFailure]) -> Value {
    let words: Vec<String> =
        failures.iter().map(|failure| format!("* `{}`: {}", failure.code, failure.title)).collect();
    let mut codes: Vec<&str> = Vec::with_capacity(failures.len());
    for failure in failures {
        // A code may have several titles.
        if !codes.contains(&failure.code) {
            codes.push(failure.code);
        }
    }
    let (media_type, schema) = if status == 422 {
        ("application/json", "HTTPValidationError")
    } else {
        ("application/problem+json", "Problem")
    };
    let base = json!({ "$ref": format!("#/components/schemas/{schema}") });
    let narrowed = json!({ "allOf": [base, { "type": "object", "properties": { "code": { "type": "string", "enum": codes } } }] });
    let mut response = json!({
        "description": words.join("\n"),
        "headers": {
            "X-Request-Id": { "description": "The id of the request.", "schema": { "type": "string" } },
            "X-Error-Source": { "description": "`gateway`: this service refused the request.", "schema": { "type": "string" } },
        },
        "content": { media_type: { "schema": narrowed, "example": example(failures.first()) } },
    });
    if failures.iter().any(|failure| failure.retryable) {
        response["headers"]["Retry-After"] = json!({ "description": "Seconds to wait before the next attempt, where that is known.", "schema": { "type": "integer" } });
    }
    response
}

/// Adds what a platform may send with the same status.
fn add_platform_error(response: &mut Value) {
    let error = json!({ "$ref": "#/components/schemas/PlatformError" });
    let content = &mut response["content"];
    match content.get_mut("application/json") {
        Some(own) => own["schema"] = json!({ "anyOf": [own["schema"].take(), error] }),
        None => {
            let example =
                json!({ "error": { "code": "not_found", "message": "There is no such chat." } });
            content["application/json"] = json!({ "schema": error, "example": example });
        }
    }
}

fn example(failure: Option<&DocumentedFailure>) -> Value {
    let Some(failure) = failure else { return Value::Null };
    let detail = if failure.status == 422 {
        json!([{ "loc": ["body", "name"], "msg": "is required: a string of 1 to 100 characters", "type": "missing" }])
    } else {
        json!(failure.title)
    };
    json!({
        "type": format!("/docs/errors#{}", failure.code), "title": failure.title, "status": failure.status,
        "code": failure.code, "detail": detail, "request_id": "req_0190a6c2f5e27b3c9d4e5f60718293a4",
        "retryable": failure.retryable,
    })
}

/// Moves equal failures of several operations into shared components, which the operations refer
/// to.
pub(super) fn share(document: &mut Value) {
    let mut shared: BTreeMap<String, Value> = BTreeMap::new();
    for (_, _, operation) in super::operations::operations(document) {
        let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else {
            continue;
        };
        for (status, response) in
            responses.iter_mut().filter(|(status, _)| status.starts_with(['4', '5']))
        {
            let name = name_of(&shared, status, response);
            shared.insert(name.clone(), response.take());
            *response = json!({ "$ref": format!("#/components/responses/{name}") });
        }
    }
    document["components"]["responses"] = json!(shared);
}

/// The name of the component that equals this response, or an unused name.
fn name_of(shared: &BTreeMap<String, Value>, status: &str, response: &Value) -> String {
    let code = response.pointer("/content").and_then(|content| {
        let schemas = content.as_object()?.values().map(|body| &body["schema"]);
        let own = schemas.map(|schema| schema.pointer("/anyOf/0").unwrap_or(schema));
        let mut codes =
            own.filter_map(|schema| schema.pointer("/allOf/1/properties/code/enum/0")?.as_str());
        codes.next()
    });
    let first = format!("{status}-{}", code.unwrap_or("failure"));
    let names =
        std::iter::once(first.clone()).chain((2_u16..).map(|number| format!("{first}-{number}")));
    let free = |name: &String| shared.get(name).is_none_or(|known| known == response);
    names.into_iter().find(free).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use web::own_requests::routes;

    use super::*;

    #[test]
    fn the_tables_contain_only_existing_codes() {
        let known: Vec<&str> = documented::failures().iter().map(|failure| failure.code).collect();
        let all = OPERATIONS.iter().flat_map(|(_, kinds)| kinds.concat());
        let always =
            [ANY, KEY, SESSION, SESSION_CHANGE, BODY, BODY_BESIDE_KEY, METERED, PLATFORM, REPEATED]
                .concat();
        let here = REPEATED_HERE.iter().map(|(code, _)| *code);

        for code in all.chain(always).chain(here) {
            assert!(known.contains(&code), "{code}");
        }
    }

    /// Renaming a route must not silently change how it is repeated.
    #[test]
    fn every_listed_operation_exists() {
        let (_, described) = api::router().split_for_parts();
        let document = serde_json::to_value(described).unwrap();
        for (method, path, _) in routes::LEFT_OUT.iter().chain(routes::RUN_AGAIN) {
            assert!(document["paths"][*path].get(*method).is_some(), "{method} {path}");
        }
    }
}
