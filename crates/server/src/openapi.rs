//! The contract: the OpenAPI 3.1 document of every route, made from the handlers and the catalogue.
//!
//! `openapi.json` at the root of the repository is this document; a test keeps them equal.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

use catalog::{AuthField, AuthKind, Catalog, Route};
use domain::credits::Costs;
use domain::platform::Platform;
use serde_json::{Map, Value, json};

use crate::api;
use crate::auth::{KEY_OPERATIONS, KEY_PATHS, OPEN_ROUTES, SESSION_PATHS};

const NATIVE_PATH: &str = "/v1/{account}/native/{native_path}";
const UPLOAD_PATH: &str = "/v1/{account}/media/upload";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The whole document, as JSON with its keys in a fixed order.
pub fn document(catalog: &Catalog, costs: &Costs) -> Value {
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
            "description": "Begun by `POST /v1/auth/login`. On a service whose public address is http on \
                loopback the cookie is named `session`. Changes must come from a page of the service \
                (`Sec-Fetch-Site` or `Origin`), as JSON.",
        },
    });
    document["tags"] = tags();
    document["paths"][NATIVE_PATH] = native_path(catalog, costs);
    document["paths"][UPLOAD_PATH] = upload_path(costs);
    document["paths"]["/v1/signup"]["post"]["deprecated"] = json!(true);
    document["components"]["schemas"]["ImportIn"]["properties"]["auth"] = auth_schema(catalog);
    describe_answers(&mut document);
    add_problems(&mut document);
    document
}

fn info() -> Value {
    json!({
        "title": "creator-gateway",
        "version": "1.0",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": "One key and one path pattern for four creator platforms, metered in credits. \
            Each metered answer carries a receipt: what it cost and what is left. \
            Errors have a stable `code` (RFC 9457); wrong fields answer 422 with the way down to each.",
    })
}

/// The groups of operations, in the order of a reader's first day.
fn tags() -> Value {
    json!([
        { "name": "service", "description": "Whether the service runs." },
        { "name": "auth", "description": "Registration, logins, and the keys that calls are made with." },
        { "name": "platforms", "description": "The four platforms, and the routes that each one has." },
        { "name": "accounts", "description": "Creator accounts, connected with credentials that the platform confirmed." },
        { "name": "native", "description": "Calls to a platform through a connected account: the metered part." },
        { "name": "exports", "description": "Whole lists of an account as one file." },
        { "name": "billing", "description": "The balance, and what changed it." },
        { "name": "support", "description": "Letting staff look, and what staff look at." },
        { "name": "usage", "description": "What was called, when, and what it cost." },
    ])
}

/// The native route: one path for all platforms, with each platform's own routes listed beside it.
fn native_path(catalog: &Catalog, costs: &Costs) -> Value {
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
    let routes = Platform::ALL.iter().map(|platform| {
        let routes = catalog.platform(*platform).routes().iter().map(|route| listed(route, costs));
        (platform.as_str().to_owned(), Value::Array(routes.collect()))
    });
    item.insert("x-native-routes".to_owned(), Value::Object(routes.collect()));
    Value::Object(item)
}

fn native_operation(method: &str, costs: &Costs) -> Value {
    let is_read = method == "get";
    let cost = if is_read { costs.read } else { costs.write }.whole();
    let mut operation = json!({
        "tags": ["native"],
        "operationId": format!("{method}_native"),
        "summary": format!("Calls a platform ({} credit{})", cost, if cost == 1 { "" } else { "s" }),
        "description": native_description(is_read),
        "responses": metered_answers(
            "The platform's own status and body, as the platform gives them \
             (platform_beta: the inner object of its envelope).",
        ),
    });
    if !is_read {
        operation["responses"]["409"] = repeated_too_early();
        operation["requestBody"] = json!({ "content": { "*/*": {} }, "required": false });
        operation["parameters"] = json!([idempotency_key()]);
    }
    operation
}

/// What every metered call can answer.
fn metered_answers(description: &str) -> Value {
    json!({
        "default": {
            "description": description,
            "headers": receipt_headers(),
            "content": { "*/*": {} },
        },
        "402": problem("The balance does not cover the call; nothing was sent."),
        "404": problem("There is no such account (`account_not_found`), or the platform says so."),
        "429": problem("Too many calls, for this service or for the platform; see `Retry-After`. Not charged."),
        "502": problem("The platform could not be reached, or its answer was broken. Not charged."),
        "503": problem("The service or the account's platform takes no call for a moment. Not charged."),
        "504": problem("The platform did not answer in time. Not charged."),
    })
}

fn repeated_too_early() -> Value {
    problem("An earlier request with this `Idempotency-Key` stands in the way.")
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        "description": "The same key with the same request is sent and charged once within 24 hours; \
            repeats get the first answer with `Idempotent-Replayed: true`.",
    })
}

/// The upload: a form, whose file is not JSON (specification 4.3).
fn upload_path(costs: &Costs) -> Value {
    let mut answers = metered_answers("The platform's own status and body: the created post.");
    answers["400"] = problem("The account's platform takes no uploads (`unsupported_platform`).");
    answers["408"] = problem("The form came too slowly, or not whole within its time.");
    answers["409"] = repeated_too_early();
    answers["413"] = problem("The file or the rest of the form is too large.");
    answers["415"] = problem("The body is not `multipart/form-data`.");
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
                and never sent twice. The post is published at once, or at `to_be_posted_at`. A field that is \
                sent empty counts as not sent; unknown and repeated ones are refused.",
            "parameters": [idempotency_key()],
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
            "categories": text("words with commas between them; without it `media,image` or `media,video`, \
                by the type of the file"),
            "description": text("the text of the post"),
            "price": { "type": "integer", "minimum": 0,
                "description": "0, or at least 300, in minor units: what the post costs alone" },
            "is_subscription_item": { "type": "boolean",
                "description": "whether subscribers get it; the price stays 0 then" },
            "tag": text("words with commas between them"),
            "private": { "type": "boolean" },
            "to_be_posted_at": { "type": "string", "format": "date-time",
                "description": "publishes then and not now" },
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
        "{kind} Only what the platform answered is charged: 401, 429, 5xx, timeouts and broken answers are free. \
         `platform_alpha`: paths such as `users/me`. `platform_beta`: paths without `/api/v1`; requests are \
         signed and answers unwrapped. `platform_gamma`: full paths under `user/{{id}}/…`, or the shorthands \
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

fn listed(route: &Route, costs: &Costs) -> Value {
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

fn problem(description: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

/// What an account of each platform is connected with, from the catalogue.
fn auth_schema(catalog: &Catalog) -> Value {
    let of_platform = |platform: &Platform| {
        let fields = catalog.platform(*platform).auth_fields();
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
        "description": "The fields that `GET /v1/platforms` names for the platform.",
        "anyOf": Platform::ALL.iter().map(of_platform).collect::<Vec<_>>(),
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

/// Gives every answer the words that the document demands: those of its body, where the handler has none.
fn describe_answers(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    for operation in operations(document).map(|(_, _, operation)| operation) {
        let Some(answers) = operation["responses"].as_object_mut() else { continue };
        for (status, answer) in answers {
            if answer.get("content").is_none() && status.starts_with(['4', '5']) {
                let words = answer["description"].as_str().unwrap_or_default().to_owned();
                *answer = problem(&words);
            }
            if answer.get("description").is_none() {
                let body = answer.pointer("/content/application~1json/schema/$ref");
                let name = body.and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
                let words = name.and_then(|name| schemas[name]["description"].as_str());
                answer["description"] = json!(words.unwrap_or("Done."));
            }
        }
    }
}

/// Every operation with its path and method.
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

/// Adds what many operations can answer, and opens the routes that need no key.
fn add_problems(document: &mut Value) {
    document["components"]["schemas"]["Problem"] = problem_schema();
    document["components"]["schemas"]["HTTPValidationError"] = validation_schema();
    document["components"]["schemas"]["ValidationError"] = field_schema();
    for (path, method, operation) in operations(document) {
        let is_open = OPEN_ROUTES.iter().any(|(open, at, _)| *open == method && *at == path);
        let takes_body = operation.get("requestBody").is_some();
        let in_query =
            |parameter: &Value| parameter["in"] == "query" || parameter["in"] == "header";
        let parameters = operation.get("parameters").and_then(Value::as_array);
        let takes_fields = takes_body || parameters.is_some_and(|all| all.iter().any(in_query));
        let answers = &mut operation["responses"];
        let mut add = |status: &str, answer: Value| {
            if answers.get(status).is_none() {
                answers[status] = answer;
            }
        };
        if !is_open {
            let (missing, forbidden) = refusals(method, &path);
            add("401", problem(missing));
            add("403", problem(forbidden));
        }
        if takes_fields || path == NATIVE_PATH {
            add("422", invalid_fields());
        }
        if takes_body {
            add("413", problem("The body is too large."));
        }
        if takes_body && path != NATIVE_PATH {
            add("415", problem("The body is not `application/json`."));
        }
        add(
            "default",
            problem("Any other failure; `code` says which, and `/docs/errors` explains it."),
        );
        if is_open {
            operation["security"] = json!([]);
        } else if needs_key(method, &path) {
            operation["security"] = json!([{ "key": [] }, { "bearer": [] }]);
        } else if SESSION_PATHS.contains(&path.as_str()) {
            operation["security"] = json!([{ "session": [] }]);
        }
    }
}

/// Whether a session counts for nothing here.
fn needs_key(method: &str, path: &str) -> bool {
    KEY_PATHS.contains(&path) || KEY_OPERATIONS.contains(&(method, path))
}

/// Why a caller is refused: who is missing, and who may not.
fn refusals(method: &str, path: &str) -> (&'static str, &'static str) {
    if needs_key(method, path) {
        (
            "No key, or not a valid one.",
            "The key may not do this: it is read-only, or limited to other accounts.",
        )
    } else if SESSION_PATHS.contains(&path) {
        (
            "No session, or one that is over.",
            "The request does not come from a page of the service, or not over https.",
        )
    } else {
        (
            "No key and no session, or not a valid one.",
            "The key may only read; or, with a session, the request does not come from a page of the service.",
        )
    }
}

fn invalid_fields() -> Value {
    json!({
        "description": "Fields of the request are wrong; each is named.",
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/HTTPValidationError" } } },
    })
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "A failure (RFC 9457). Match `code`; words may change.",
        "required": ["type", "title", "status", "code", "detail", "request_id", "retryable"],
        "properties": {
            "type": { "type": "string", "description": "where the code is explained" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "code": { "type": "string", "example": "insufficient_credits" },
            "detail": { "type": "string" },
            "request_id": { "type": "string" },
            "retryable": { "type": "boolean", "description": "whether the same request may succeed later" },
        },
    })
}

fn validation_schema() -> Value {
    json!({
        "type": "object",
        "required": ["detail"],
        "properties": {
            "detail": { "type": "array", "items": { "$ref": "#/components/schemas/ValidationError" } },
            "code": { "type": "string", "example": "invalid_request" },
            "request_id": { "type": "string" },
        },
    })
}

fn field_schema() -> Value {
    json!({
        "type": "object",
        "required": ["loc", "msg", "type"],
        "properties": {
            "loc": { "type": "array", "items": { "type": "string" },
                     "description": "`body`, `query`, `path` or `header`, then the way down to the field" },
            "msg": { "type": "string" },
            "type": { "type": "string" },
        },
    })
}
