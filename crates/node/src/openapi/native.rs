//! The data plane in the service's own document: native calls as one path for all platforms, and
//! the upload. The documents of platforms describe each route ([`super::platform`]).

use domain::credits::MeteringCosts;
use serde_json::{Map, Value, json};

use super::operations::METHODS;
use super::request_headers;

/// The native route: one path for all platforms.
pub(super) fn native_path(costs: &MeteringCosts) -> Value {
    let mut item = Map::new();
    item.insert("parameters".to_owned(), json!([
        { "name": "account", "in": "path", "required": true, "schema": { "type": "string" },
          "description": "the creator_id of a connected account" },
        { "name": "native_path", "in": "path", "required": true, "schema": { "type": "string" },
          "description": "the platform's own path, without its prefix; it may hold slashes and takes the \
              platform's own query parameters" },
    ]));
    for method in METHODS {
        item.insert(method.to_owned(), native_operation(method, costs));
    }
    Value::Object(item)
}

fn native_operation(method: &str, costs: &MeteringCosts) -> Value {
    let is_read = method == "get";
    let cost = if is_read { costs.read } else { costs.write }.whole();
    let mut operation = json!({
        "tags": ["native"],
        "operationId": format!("{method}_native"),
        "summary": format!("Calls a platform ({} credit{})", cost, if cost == 1 { "" } else { "s" }),
        "description": native_description(is_read),
        "responses": metered_answers(
            "The platform's own status and body, as the platform sends them \
             (platform_beta: the inner object of its envelope).",
        ),
    });
    operation["parameters"] = json!([request_headers::max_cost(), request_headers::tag()]);
    if !is_read {
        operation["requestBody"] = json!({
            "content": {
                "application/json": { "schema": {}, "example": { "name": "demo" } },
                "*/*": { "schema": {} },
            },
            "required": false,
        });
        operation["parameters"] = json!([
            request_headers::idempotency_key(),
            request_headers::max_cost(),
            request_headers::tag()
        ]);
    }
    operation
}

/// The response of the platform, passed through. Many generators know no default success, and none
/// `*/*`.
fn metered_answers(description: &str) -> Value {
    let passed = json!({
        "description": description,
        "headers": receipt_headers(),
        "content": {
            "application/json": { "schema": {}, "example": { "id": 7, "name": "demo" } },
            "*/*": { "schema": {} },
        },
    });
    json!({ "200": passed, "default": passed })
}

/// The upload: a multipart form, because a file is not JSON (specification 4.3).
pub(super) fn upload_path(costs: &MeteringCosts) -> Value {
    let answers = metered_answers("The platform's own status and body: the created post.");
    json!({
        "parameters": [{
            "name": "account", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "the creator_id of a connected account of platform_gamma",
        }],
        "post": {
            "tags": ["native"],
            "operationId": "upload_media",
            "summary": format!("Creates a post from a file ({} credits)", costs.write.whole()),
            "description": "A write of platform_gamma: it needs a key of full scope, is charged like any write \
                and never sent twice. The post is published immediately, or at `to_be_posted_at`. A field that is \
                sent empty counts as not sent; unknown and repeated ones are refused.",
            "parameters": [request_headers::idempotency_key(), request_headers::max_cost(), request_headers::tag()],
            "requestBody": {
                "required": true,
                "content": { "multipart/form-data": { "schema": upload_schema() } },
            },
            "responses": answers,
        },
    })
}

fn upload_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["file"],
        "properties": {
            "file": { "type": "string", "format": "binary",
                "description": "the picture or video, sent as a file with a name" },
            "categories": text("comma-separated words; by default `media,image` or `media,video`, \
                depending on the type of the file"),
            "description": text("the text of the post"),
            "price": { "type": "integer", "minimum": 0,
                "description": "the price of the single post in minor units: 0, or at least 300" },
            "is_subscription_item": { "type": "boolean",
                "description": "whether the post is part of the subscription; its price stays 0 then" },
            "tag": text("comma-separated words"),
            "private": { "type": "boolean" },
            "to_be_posted_at": { "type": "string", "format": "date-time",
                "description": "when to publish the post, instead of immediately" },
        },
    })
}

fn native_description(is_read: bool) -> String {
    let kind = if is_read {
        "A read. It may use a read-only key."
    } else {
        "A write. It needs a key of full scope and is never sent twice."
    };
    format!(
        "{kind} Only calls that the platform answered are charged: 401, 429, 5xx, timeouts and broken responses are free. \
         `platform_alpha`: paths such as `users/me`. `platform_beta`: paths without `/api/v1`; requests are \
         signed and responses unwrapped. `platform_gamma`: full paths under `user/{{id}}/…`, or the shorthands \
         (`me`, `subscribers`, `chats`, …), which fill in the creator's id and the paging the platform demands. \
         `platform_delta`: the official interface; the version header is added, the token's scopes are checked. \
         `/v1/platforms/{{platform}}/openapi.json` has an operation for each route of the catalogue; other \
         paths of a platform are forwarded as well."
    )
}

pub(super) fn receipt_headers() -> Value {
    let header = |description: &str, kind: &str| json!({ "description": description, "schema": { "type": kind } });
    json!({
        "X-Request-Id": header("the id of this request, also in the call log", "string"),
        "X-Credits-Cost": header("credits taken for this call", "integer"),
        "X-Credits-Balance": header("credits left after it", "integer"),
        "X-Route": header("the route of the catalogue, or `unlisted`", "string"),
        "X-Error-Source": header("`platform` or `gateway`, on errors", "string"),
        "X-Envelope": header("`kept` when a platform_beta response is passed as it came: with its envelope, or no JSON", "string"),
        "Server-Timing": header("milliseconds at the platform and in the gateway", "string"),
        "RateLimit": header("what is left of the key's rate, and for how long", "string"),
        "RateLimit-Policy": header("the key's rate", "string"),
    })
}
