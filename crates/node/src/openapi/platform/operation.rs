//! One route of a catalogue as an operation.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

use catalog::{Route, RouteBody, RouteOperation, RoutePaging, RouteParameter, RouteResponse};
use domain::platform::Platform;
use platform_client::headers::FROM_CALLER;
use serde_json::{Map, Value, json};

use super::examples::{self, RouteExample};
use super::{group, object, schema};
use crate::openapi::DocumentSources;

const JSON_TYPE: &str = "application/json";

/// Headers of every response, as references.
const RECEIPT: [&str; 4] = ["X-Request-Id", "X-Credits-Cost", "X-Credits-Balance", "X-Route"];

/// The operation of a route.
pub(crate) fn of(
    sources: &DocumentSources<'_>,
    platform: Platform,
    route: &Route,
    named: &RouteOperation,
) -> Value {
    let mut operation = json!({
        "operationId": named.id,
        "tags": [group(route)],
        "summary": summary(route),
        "parameters": parameters(sources, platform, route, named),
        "responses": responses(platform, route),
        "x-credits": route.cost(&sources.costs).whole(),
        "x-route": route.name,
    });
    let words = description(route, named);
    if !words.is_empty() {
        operation["description"] = json!(words);
    }
    if let Some(body) = request_body(route) {
        operation["requestBody"] = body;
    }
    if !route.scopes.is_empty() {
        operation["x-scopes"] = json!(route.scopes);
    }
    if let Some(shorthand) = route.shorthand() {
        operation["x-rewrites-to"] = json!(format!("/{}", shorthand.target));
    }
    let Some(docs) = &route.docs else { return operation };
    if docs.deprecated {
        operation["deprecated"] = json!(true);
    }
    if let Some(paging) = &docs.paging {
        operation["x-paging"] = self::paging(paging);
    }
    operation
}

fn summary(route: &Route) -> &str {
    if route.description.is_empty() { &route.name } else { &route.description }
}

fn description(route: &Route, named: &RouteOperation) -> String {
    let mut words: Vec<String> = Vec::new();
    if !route.notes.is_empty() {
        words.push(route.notes.clone());
    }
    if !route.scopes.is_empty() {
        words.push(format!("The account's token needs the scopes {}.", route.scopes.join(", ")));
    }
    if route.spanning_parameter().is_some()
        && let Some(name) = named.parameters.last()
    {
        words.push(format!("`{name}` may have slashes."));
    }
    words.join("\n\n")
}

fn paging(paging: &RoutePaging) -> Value {
    let mut described = json!({ "style": paging.style.as_str(), "guessed": paging.guessed });
    let pointer = |pointer: &catalog::dataset::JsonPointer| {
        json!(pointer.names().iter().flat_map(|name| ["/", name.as_str()]).collect::<String>())
    };
    let members = [
        ("parameter", paging.parameter.as_ref().map(|name| json!(name))),
        ("size_parameter", paging.size_parameter.as_ref().map(|name| json!(name))),
        ("rows", paging.rows.as_ref().map(pointer)),
        ("next", paging.next.as_ref().map(pointer)),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            described[name] = value;
        }
    }
    described
}

/// The parameters besides the account, which all operations of a path share.
fn parameters(
    sources: &DocumentSources<'_>,
    platform: Platform,
    route: &Route,
    named: &RouteOperation,
) -> Value {
    let docs = route.docs.as_deref();
    let known_path = docs.map(|docs| docs.path_parameters.as_slice()).unwrap_or_default();
    let mut all: Vec<Value> = route
        .parameter_names()
        .zip(&named.parameters)
        .map(|(name, shown)| {
            let known = known_path.iter().find(|known| known.name == name);
            path_parameter(route, name, shown, known)
        })
        .collect();
    let query = route.query_parameters.iter();
    let query = query.filter(|known| !sources.is_reserved(platform, &known.name));
    all.extend(query.map(|known| query_parameter(route, known)));
    all.extend(undocumented_defaults(route));
    let headers = docs.map(|docs| docs.headers.as_slice()).unwrap_or_default();
    let passed = headers.iter().filter(|known| passes(&known.name));
    all.extend(passed.map(|known| parameter("header", &known.name, known, known.required)));
    if !route.method.is_read() {
        all.push(json!({ "$ref": "#/components/parameters/idempotency_key" }));
    }
    for of_service in ["max_cost", "tag"] {
        all.push(json!({ "$ref": format!("#/components/parameters/{of_service}") }));
    }
    Value::Array(all)
}

/// Whether a header reaches the platform and OpenAPI does not name it otherwise.
fn passes(name: &str) -> bool {
    let is_named_elsewhere =
        ["accept", "content-type"].iter().any(|own| own.eq_ignore_ascii_case(name));
    !is_named_elsewhere && FROM_CALLER.iter().any(|known| known.as_str().eq_ignore_ascii_case(name))
}

fn path_parameter(route: &Route, name: &str, shown: &str, known: Option<&RouteParameter>) -> Value {
    let mut described = match known {
        Some(known) => parameter("path", shown, known, true),
        None => {
            json!({ "name": shown, "in": "path", "required": true, "schema": { "type": "string" } })
        }
    };
    if route.free_text.iter().any(|free| free == name) {
        described["x-free-text"] = json!(true);
    }
    described
}

fn query_parameter(route: &Route, known: &RouteParameter) -> Value {
    let default = route.default_query.iter().find(|(name, _)| *name == known.name);
    let mut described = parameter("query", &known.name, known, known.required && default.is_none());
    if let Some((_, value)) = default {
        described["description"] = json!(with_default(&known.description, value));
    }
    described
}

/// Parameters that the service adds when they are absent, and that nothing else documents.
fn undocumented_defaults(route: &Route) -> impl Iterator<Item = Value> {
    let unknown = route
        .default_query
        .iter()
        .filter(|(name, _)| route.query_parameters.iter().all(|known| known.name != *name));
    unknown.map(|(name, value)| {
        json!({
            "name": name, "in": "query", "required": false, "schema": { "type": "string" },
            "description": with_default("", value),
        })
    })
}

fn with_default(description: &str, value: &str) -> String {
    let added = format!("`{value}` is sent when it is absent.");
    if description.is_empty() { added } else { format!("{description} {added}") }
}

fn parameter(place: &str, name: &str, known: &RouteParameter, required: bool) -> Value {
    let schema = known.schema.as_ref().map(|text| schema::current(text.value()));
    let mut described = json!({
        "name": name, "in": place, "required": required,
        "schema": schema.unwrap_or_else(|| json!({ "type": "string" })),
    });
    if !known.description.is_empty() {
        described["description"] = json!(known.description);
    }
    described
}

/// The body: as documented, or any JSON for a write of which nothing is documented.
fn request_body(route: &Route) -> Option<Value> {
    if route.method.is_read() {
        return None;
    }
    match route.docs.as_deref() {
        Some(docs) => docs.body.as_ref().map(documented_body),
        None => Some(json!({ "required": false, "content": { JSON_TYPE: { "schema": {} } } })),
    }
}

fn documented_body(body: &RouteBody) -> Value {
    let mut content = Map::new();
    for other in &body.other_content_types {
        content.insert(other.clone(), json!({ "schema": of_media_type(other) }));
    }
    let schema = body.schema.as_ref().map(|text| schema::current(text.value()));
    let schema = schema.unwrap_or_else(|| of_media_type(&body.content_type));
    content.insert(body.content_type.clone(), json!({ "schema": schema }));
    json!({ "required": body.required, "content": content })
}

/// The schema of a content of which only the type is known.
fn of_media_type(media_type: &str) -> Value {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    match essence {
        json if json == JSON_TYPE || json.ends_with("+json") => json!({}),
        "multipart/form-data" | "application/x-www-form-urlencoded" => {
            json!({ "type": "object", "additionalProperties": true })
        }
        text if text.starts_with("text/") => json!({ "type": "string" }),
        "*/*" => json!({}),
        _ => json!({ "type": "string", "format": "binary" }),
    }
}

fn responses(platform: Platform, route: &Route) -> Value {
    let documented = route.docs.as_ref().and_then(|docs| docs.response.as_ref());
    let mut responses = shared();
    match documented {
        Some(response) => {
            let example = examples::of(platform, route);
            responses[response.status.to_string()] = success(documented_content(response, example));
        }
        None => {
            let example = examples::of(platform, route);
            let status = example.map_or(200, |example| example.status);
            responses[status.to_string()] = success(Some(undocumented_content(example)));
            if !route.method.is_read() {
                // Which of the successes a write has is not known.
                responses["204"] = success(None);
                responses["2XX"] = success(Some(undocumented_content(None)));
            }
        }
    }
    responses
}

/// The responses of the upload.
pub(crate) fn responses_of_upload() -> Value {
    let mut responses = shared();
    responses["200"] = success(Some(undocumented_content(None)));
    responses["204"] = success(None);
    responses["2XX"] = success(Some(undocumented_content(None)));
    responses
}

/// The responses that all native calls share.
fn shared() -> Value {
    let shared = [("3XX", "Redirect"), ("4XX", "Refused"), ("5XX", "Failed")];
    object(shared.map(|(status, name)| {
        (status.to_owned(), json!({ "$ref": format!("#/components/responses/{name}") }))
    }))
}

/// The receipt's headers, as references.
pub(crate) fn receipt() -> Value {
    object(
        RECEIPT.map(|name| {
            (name.to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }))
        }),
    )
}

fn success(content: Option<Value>) -> Value {
    let mut response = json!({ "description": "The platform's response.", "headers": receipt() });
    if let Some(content) = content {
        response["content"] = content;
    }
    response
}

fn documented_content(response: &RouteResponse, example: Option<&RouteExample>) -> Option<Value> {
    if response.content_type.is_empty() {
        return None;
    }
    let schema = response.schema.as_ref().map(|text| schema::current(text.value()));
    let mut content =
        json!({ "schema": schema.unwrap_or_else(|| of_media_type(&response.content_type)) });
    if let Some(example) = example {
        content["example"] = example.body.clone();
    }
    Some(json!({ response.content_type.as_str(): content }))
}

/// Any JSON; an object or a list where an example shows which.
fn undocumented_content(example: Option<&RouteExample>) -> Value {
    let schema = match example.map(|example| &example.body) {
        Some(Value::Object(_)) => json!({ "type": "object", "additionalProperties": true }),
        Some(Value::Array(_)) => json!({ "type": "array", "items": {} }),
        _ => json!({}),
    };
    let mut content = json!({ "schema": schema });
    if let Some(example) = example {
        content["example"] = example.body.clone();
    }
    json!({ JSON_TYPE: content })
}
