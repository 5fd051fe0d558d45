//! Headers of requests that several operations take.

use serde_json::{Value, json};

/// `Idempotency-Key`.
pub(super) fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        "example": "order-2026-11-21-0001",
        "description": "A value of your choice that identifies this request: 1 to 255 visible ASCII characters. For \
            24 hours the same request with the same key takes effect and is charged once; a repetition gets the \
            first response with `Idempotent-Replayed: true`. Another request under the key is 422.",
    })
}

/// `X-Max-Cost`.
pub(super) fn max_cost() -> Value {
    json!({
        "name": "X-Max-Cost", "in": "header", "required": false,
        "schema": { "type": "string", "pattern": "^[0-9]{1,9}$" },
        "example": "2",
        "description": "The most credits that the request may cost. One that costs more is refused with 412 \
            `cost_above_max`: nothing is sent or charged.",
    })
}

/// `X-Tag`.
pub(super) fn tag() -> Value {
    json!({
        "name": "X-Tag", "in": "header", "required": false,
        "schema": { "type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z._:/-]{0,63}$" },
        "example": "team-a",
        "description": "What the request is for, in your own words, for `GET /v1/billing/usage/breakdown?by=tag`. It \
            is not sent to the platform.",
    })
}
