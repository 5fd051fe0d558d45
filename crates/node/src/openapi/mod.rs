//! The contract: the OpenAPI 3.1 document of all routes, generated from the handlers and the
//! catalogue.
//!
//! `openapi.json` at the root of the repository is a copy; a test keeps it equal.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

mod failures;
mod fields;
mod request_headers;

use catalog::{AuthField, AuthKind, Catalog, Route};
use domain::credits::MeteringCosts;
use domain::export::ExportFormat;
use domain::field_error::FieldErrorKind;
use domain::platform::Platform;
use serde_json::{Map, Value, json};
use web::auth::{KEY_OPERATIONS, KEY_PATHS, OPEN_ROUTES, SESSION_PATHS};
use web::own_requests::routes::takes_part;

const NATIVE_PATH: &str = "/v1/{account}/native/{native_path}";
const UPLOAD_PATH: &str = "/v1/{account}/media/upload";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The whole document as JSON, with its keys in a fixed order.
pub fn document(catalog: &Catalog, costs: &MeteringCosts) -> Value {
    let (_, described) = api::router().split_for_parts();
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["openapi"] = json!("3.1.0");
    document["info"] = info();
    document["servers"] = json!([{ "url": "/" }]);
    document["security"] = json!([{ "key": [] }, { "bearer": [] }, { "session": [] }]);
    document["components"]["securitySchemes"] = json!({
        "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
        "bearer": { "type": "http", "scheme": "bearer" },
        "session": {
            "type": "apiKey", "in": "cookie", "name": "__Host-session",
            "description": "Created by `POST /v1/auth/login`. On a service whose public address is http on \
                loopback the cookie is named `session`. Changes must come from a page of the service \
                (`Sec-Fetch-Site` or `Origin`), as JSON.",
        },
    });
    document["tags"] = tags();
    document["paths"][NATIVE_PATH] = native_path(catalog, costs);
    document["paths"][UPLOAD_PATH] = upload_path(costs);
    document["paths"]["/v1/signup"]["post"]["deprecated"] = json!(true);
    document["components"]["schemas"]["ImportIn"]["properties"]["auth"] = auth_schema(catalog);
    document["components"]["schemas"]["Problem"] = problem_schema();
    document["components"]["schemas"]["HTTPValidationError"] = validation_schema();
    document["components"]["schemas"]["ValidationError"] = field_schema();
    describe_downloads(&mut document);
    add_idempotency_keys(&mut document);
    describe_parameters(&mut document);
    describe_successes(&mut document);
    add_security(&mut document);
    add_failures(&mut document);
    fields::describe(&mut document);
    fields::add_examples(&mut document);
    failures::share(&mut document);
    document
}

fn info() -> Value {
    json!({
        "title": "creator-gateway",
        "version": "1.0",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": "One key and one path pattern for four creator platforms, metered in credits. \
            Each metered response carries a receipt: what it cost and what is left. \
            Errors have a stable `code` (RFC 9457); a 422 names every wrong field.",
    })
}

/// The groups of operations, in the order in which a new customer needs them.
fn tags() -> Value {
    json!([
        { "name": "service", "description": "Whether the service runs." },
        { "name": "auth", "description": "Registration, logins, and the keys that calls are made with." },
        { "name": "platforms", "description": "The four platforms, and the routes that each one has." },
        { "name": "accounts", "description": "Creator accounts, connected with credentials that the platform confirmed." },
        { "name": "native", "description": "Calls to a platform through a connected account: the metered part." },
        { "name": "exports", "description": "Whole lists of an account as one file." },
        { "name": "billing", "description": "The balance, and what changed it." },
        { "name": "notices", "description": "Emails that a customer gets without asking." },
        { "name": "support", "description": "Allowing staff to help, and what staff can then view." },
        { "name": "usage", "description": "What was called, when, and what it cost." },
    ])
}

/// The native route: one path for all platforms, with a list of each platform's own routes.
fn native_path(catalog: &Catalog, costs: &MeteringCosts) -> Value {
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
    let routes = Platform::all().into_iter().map(|platform| {
        let routes = catalog.platform(platform).routes().iter().map(|route| listed(route, costs));
        (platform.as_str().to_owned(), Value::Array(routes.collect()))
    });
    item.insert("x-native-routes".to_owned(), Value::Object(routes.collect()));
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
        operation["requestBody"] = json!({ "content": { "*/*": {} }, "required": false });
        operation["parameters"] = json!([
            request_headers::idempotency_key(),
            request_headers::max_cost(),
            request_headers::tag()
        ]);
    }
    operation
}

/// The response of the platform, passed through.
fn metered_answers(description: &str) -> Value {
    json!({
        "default": {
            "description": description,
            "headers": receipt_headers(),
            "content": { "*/*": {} },
        },
    })
}

/// The upload: a multipart form, because a file is not JSON (specification 4.3).
fn upload_path(costs: &MeteringCosts) -> Value {
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
         `x-native-routes` lists the catalogue; other paths of a platform are forwarded as well."
    )
}

fn receipt_headers() -> Value {
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

fn listed(route: &Route, costs: &MeteringCosts) -> Value {
    let mut listed = json!({
        "method": route.method.as_str(),
        "path": route.template,
        "group": route.group,
        "cost": route.cost(costs).whole(),
    });
    if !route.scopes.is_empty() {
        listed["scopes"] = json!(route.scopes);
    }
    if !route.description.is_empty() {
        listed["description"] = json!(route.description);
    }
    if let Some(shorthand) = route.shorthand() {
        listed["rewrites_to"] = json!(format!("/{}", shorthand.target));
    }
    listed
}

/// The credentials that connect an account of each platform, from the catalogue.
fn auth_schema(catalog: &Catalog) -> Value {
    let of_platform = |platform: Platform| {
        let fields = catalog.platform(platform).auth_fields();
        let required: Vec<&str> =
            fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        let properties: Map<String, Value> =
            fields.iter().map(|field| (field.name.clone(), auth_field(field))).collect();
        json!({
            "title": platform.as_str(), "type": "object", "additionalProperties": false,
            "required": required, "properties": properties,
        })
    };
    json!({
        "description": "The fields that `GET /v1/platforms` lists for the platform.",
        "anyOf": Platform::all().into_iter().map(of_platform).collect::<Vec<_>>(),
    })
}

fn auth_field(field: &AuthField) -> Value {
    let mut schema = match field.kind {
        AuthKind::String => json!({ "type": "string", "minLength": 1 }),
        AuthKind::Timestamp => json!({ "type": ["string", "integer"] }),
        AuthKind::StringList => json!({ "type": "array", "items": { "type": "string" } }),
        AuthKind::StringMap => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
    };
    schema["description"] = json!(field.description);
    if field.secret {
        schema["writeOnly"] = json!(true);
    }
    schema
}

/// Sets the media types of export files.
fn describe_downloads(document: &mut Value) {
    let file = json!({ "schema": { "type": "string", "format": "binary" } });
    let types =
        ExportFormat::ALL.iter().map(|format| (format.media_type().to_owned(), file.clone()));
    let content: Map<String, Value> = types.collect();
    let responses = &mut document["paths"]["/v1/exports/{job_id}/download"]["get"]["responses"];
    for status in ["200", "206"] {
        responses[status]["content"] = json!(content);
    }
}

/// Adds the header to every operation whose repetitions it identifies, besides those whose handlers
/// declare it.
fn add_idempotency_keys(document: &mut Value) {
    for (path, method, operation) in operations(document) {
        if takes_part(method, &path) {
            match operation["parameters"].as_array_mut() {
                Some(parameters) => parameters.push(request_headers::idempotency_key()),
                None => operation["parameters"] = json!([request_headers::idempotency_key()]),
            }
        }
    }
}

/// Adds the description and form of every parameter.
fn describe_parameters(document: &mut Value) {
    for (_, _, operation) in operations(document) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            if parameter["name"] == "Idempotency-Key" {
                *parameter = request_headers::idempotency_key();
            }
            fields::describe_parameter(parameter);
        }
    }
}

/// Gives every success the description that OpenAPI requires: that of its body, if the handler has
/// none.
fn describe_successes(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    for (_, _, operation) in operations(document) {
        let Some(answers) = operation["responses"].as_object_mut() else { continue };
        for (_, answer) in
            answers.iter_mut().filter(|(_, answer)| answer.get("description").is_none())
        {
            let body = answer.pointer("/content/application~1json/schema/$ref");
            let name = body.and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
            let words = name.and_then(|name| schemas[name]["description"].as_str());
            answer["description"] = json!(words.unwrap_or("Done."));
        }
    }
}

/// All operations with path and method.
fn operations(document: &mut Value) -> impl Iterator<Item = (String, &'static str, &mut Value)> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let members = item.as_object_mut().into_iter().flatten();
        members.filter_map(move |(member, operation)| {
            let method = METHODS.iter().find(|method| **method == member)?;
            Some((path.clone(), *method, operation))
        })
    })
}

/// Sets which credentials each operation accepts: none on open routes, a key or a session
/// elsewhere.
fn add_security(document: &mut Value) {
    for (path, method, operation) in operations(document) {
        if is_open(method, &path) {
            operation["security"] = json!([]);
        } else if needs_key(method, &path) {
            operation["security"] = json!([{ "key": [] }, { "bearer": [] }]);
        } else if SESSION_PATHS.contains(&path.as_str()) {
            operation["security"] = json!([{ "session": [] }]);
        }
    }
}

/// Adds all failures of each operation.
fn add_failures(document: &mut Value) {
    for (path, method, operation) in operations(document) {
        let failures = failures::of(method, &path, operation, is_open(method, &path));
        if let Some(answers) = operation["responses"].as_object_mut() {
            answers.retain(|status, _| !status.starts_with(['4', '5']));
            answers.extend(failures);
        }
    }
}

/// Whether the operation needs no caller.
fn is_open(method: &str, path: &str) -> bool {
    OPEN_ROUTES.iter().any(|(open, at, _)| *open == method && *at == path)
}

/// Whether the operation accepts a key only.
fn needs_key(method: &str, path: &str) -> bool {
    KEY_PATHS.contains(&path) || KEY_OPERATIONS.contains(&(method, path))
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
