//! The bodies of failures: problems, and lists of wrong fields.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

use domain::field_error::FieldErrorKind;
use serde_json::{Value, json};

/// Adds the schemas of all failures.
pub(super) fn add(schemas: &mut Value) {
    schemas["Problem"] = problem_schema();
    schemas["HTTPValidationError"] = validation_schema();
    schemas["ValidationError"] = field_schema();
}

/// The members of every failure.
fn problem_members(detail: &Value) -> Value {
    json!({
        "type": { "type": "string", "description": "Where the code is explained, relative to the service." },
        "title": { "type": "string", "description": "A short name for people." },
        "status": { "type": "integer", "description": "The HTTP status." },
        "code": { "type": "string", "description": "What programs match; it never changes.",
                  "example": "insufficient_credits" },
        "detail": detail,
        "request_id": { "type": "string", "description": "The id of the request, as in `X-Request-Id`." },
        "retryable": { "type": "boolean", "description": "Whether the same request may succeed later." },
    })
}

const PROBLEM_MEMBERS: [&str; 7] =
    ["type", "title", "status", "code", "detail", "request_id", "retryable"];

fn problem_schema() -> Value {
    let mut properties = problem_members(
        &json!({ "type": "string", "description": "What went wrong, for people." }),
    );
    for (name, kind, words) in [
        ("balance", "integer", "Credits that are left (`insufficient_credits`)."),
        (
            "cost",
            "integer",
            "Credits that the request costs (`insufficient_credits`, `key_budget_exhausted`, `cost_above_max`).",
        ),
        ("max_cost", "integer", "Credits that `X-Max-Cost` allows (`cost_above_max`)."),
        (
            "trial_credits",
            "integer",
            "Credits of the free trial, granted when the email address is confirmed (`insufficient_credits`).",
        ),
        (
            "debt",
            "integer",
            "Credits that are owed; the next purchase pays them first (`insufficient_credits`).",
        ),
        ("key_id", "string", "The key whose budget is used up (`key_budget_exhausted`)."),
        (
            "budget",
            "integer",
            "Credits that the key may spend in a UTC month (`key_budget_exhausted`).",
        ),
        ("used", "integer", "Credits that the key has spent and holds (`key_budget_exhausted`)."),
        ("resets_at", "string", "When the key may spend again (`key_budget_exhausted`)."),
        (
            "platform_status",
            "integer",
            "The status of the platform's response (`verification_failed`).",
        ),
        ("decline_code", "string", "The bank's reason (`payment_failed`)."),
        ("order_id", "string", "The order of the charge under way (`change_in_progress`)."),
        ("pi_id", "string", "Its payment, for `confirm-charge` (`change_in_progress`)."),
        ("expires_at", "string", "When the charge is cancelled (`change_in_progress`)."),
        ("platform", "string", "The platform of the slots (`slots_in_use`, `no_free_slot`)."),
        ("must_free", "integer", "Number of accounts that must free a slot (`slots_in_use`)."),
        ("limit", "integer", "The platform's limit of active accounts (`no_free_slot`)."),
        ("inactive_reason", "string", "`no_free_slot` or `switched_off` (`account_inactive`)."),
        ("call_id", "string", "The call in the call log (`outcome_unknown`, `answer_not_stored`)."),
    ] {
        properties[name] = json!({ "type": kind, "description": words });
    }
    for (name, words) in [
        ("missing_scopes", "OAuth scopes that the account's token lacks (`missing_scope`)."),
        ("accounts", "Active accounts that have the slots (`slots_in_use`, `no_free_slot`)."),
        ("waiting", "Accounts that would take a slot that becomes free (`slots_in_use`)."),
    ] {
        properties[name] =
            json!({ "type": "array", "items": { "type": "string" }, "description": words });
    }
    json!({
        "type": "object",
        "description": "A failure (RFC 9457). Match `code`; titles and details may change. Members beyond the \
            required ones occur with some codes only.",
        "required": PROBLEM_MEMBERS,
        "properties": properties,
    })
}

fn validation_schema() -> Value {
    json!({
        "type": "object",
        "description": "A request with wrong fields: every 422 has this body. It has the members of every failure, \
            with a list of the wrong fields as `detail`, and so it is `application/json`.",
        "required": PROBLEM_MEMBERS,
        "properties": problem_members(&json!({
            "type": "array", "minItems": 1, "maxItems": 50,
            "items": { "$ref": "#/components/schemas/ValidationError" },
            "description": "Every wrong field, up to 50.",
        })),
    })
}

fn field_schema() -> Value {
    let kinds: Vec<&str> = FieldErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let meanings: Vec<String> =
        FieldErrorKind::ALL.iter().map(|kind| format!("* `{kind}`: {}", kind.meaning())).collect();
    json!({
        "type": "object",
        "description": "A wrong field.",
        "required": ["loc", "msg", "type"],
        "additionalProperties": false,
        "properties": {
            "loc": { "type": "array", "minItems": 1, "items": { "type": "string" },
                     "description": "Where it is: `body`, `query`, `path` or `header`, then the names and indexes \
                        down to the field." },
            "msg": { "type": "string", "description": "What is wrong with the field, and what to send instead." },
            "type": { "type": "string", "enum": kinds,
                      "description": format!("The kind of mistake.\n{}", meanings.join("\n")) },
        },
    })
}
