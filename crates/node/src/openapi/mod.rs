//! The contract: OpenAPI documents, generated from the handlers and the catalogue.
//!
//! One has the service's own routes, one per platform its routes, and one has everything; each is
//! written in OpenAPI 3.1 and 3.0. `openapi.json` at the root of the repository is a copy of the
//! first; a test keeps it equal.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

mod failures;
mod fields;
mod native;
mod operations;
mod platform;
mod problems;
mod request_headers;
mod version_3_0;
mod whole;

use catalog::{AuthField, AuthKind, Catalog};
use domain::credits::MeteringCosts;
use domain::export::ExportFormat;
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use serde_json::{Map, Value, json};
use settings::Config;
use web::auth::{KEY_OPERATIONS, KEY_PATHS, OPEN_ROUTES, SESSION_PATHS};
use web::own_requests::routes::takes_part;

use self::operations::operations;

const NATIVE_PATH: &str = "/v1/{account}/native/{native_path}";
const UPLOAD_PATH: &str = "/v1/{account}/media/upload";

/// What the documents are made from: the catalogue and the prices in force.
pub struct DocumentSources<'a> {
    /// The routes of each platform.
    pub catalog: &'a Catalog,
    /// What calls cost.
    pub costs: MeteringCosts,
    /// Query parameters that the service adds itself, so that callers cannot give them.
    pub reserved: PerPlatform<Vec<String>>,
}

/// Which routes a document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentScope {
    /// The service's own.
    Own,
    /// Those of one platform.
    Platform(Platform),
    /// All of them.
    Whole,
}

/// The version of OpenAPI that a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenapiVersion {
    /// 3.1.0
    Current,
    /// 3.0.3, for tools that do not read 3.1.
    Older,
}

impl<'a> DocumentSources<'a> {
    /// The sources of a configuration.
    pub fn new(catalog: &'a Catalog, config: &Config) -> Self {
        let mut reserved = PerPlatform::default();
        for (platform, section) in config.platforms.iter() {
            let names = section.query.iter().map(|parameter| parameter.name.clone());
            reserved.insert(platform, names.collect());
        }
        Self { catalog, costs: config.credits.costs(), reserved }
    }

    fn is_reserved(&self, platform: Platform, name: &str) -> bool {
        self.reserved.get(platform).is_some_and(|names| names.iter().any(|known| known == name))
    }
}

impl std::str::FromStr for OpenapiVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "3.1" => Ok(Self::Current),
            "3.0" => Ok(Self::Older),
            _ => Err("the versions are 3.1 and 3.0".to_owned()),
        }
    }
}

/// A document in the version that is asked for.
pub fn written(
    sources: &DocumentSources<'_>,
    scope: DocumentScope,
    version: OpenapiVersion,
) -> Value {
    let document = match scope {
        DocumentScope::Own => document(sources),
        DocumentScope::Platform(platform) => platform::document(sources, platform),
        DocumentScope::Whole => whole::document(sources),
    };
    match version {
        OpenapiVersion::Current => document,
        OpenapiVersion::Older => version_3_0::converted(document),
    }
}

/// The document of the service's own routes, for pages.
pub(crate) fn own_document(catalog: &Catalog, config: &Config) -> Value {
    document(&DocumentSources::new(catalog, config))
}

/// The document of the service's own routes, with its keys in a fixed order.
fn document(sources: &DocumentSources<'_>) -> Value {
    let (catalog, costs) = (sources.catalog, &sources.costs);
    let (_, described) = api::router().split_for_parts();
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["openapi"] = json!("3.1.0");
    document["info"] = info();
    document["servers"] = json!([{ "url": "/" }]);
    document["security"] = json!([{ "key": [] }, { "bearer": [] }, { "session": [] }]);
    document["components"]["securitySchemes"] = key_schemes();
    document["components"]["securitySchemes"]["session"] = json!({
        "type": "apiKey", "in": "cookie", "name": "__Host-session",
        "description": "Created by `POST /v1/auth/login`. On a service whose public address is http on \
            loopback the cookie is named `session`. Changes must come from a page of the service \
            (`Sec-Fetch-Site` or `Origin`), as JSON.",
    });
    document["tags"] = tags();
    document["paths"][NATIVE_PATH] = native::native_path(costs);
    document["paths"][UPLOAD_PATH] = native::upload_path(costs);
    document["paths"]["/v1/signup"]["post"]["deprecated"] = json!(true);
    document["components"]["schemas"]["ImportIn"]["properties"]["auth"] = auth_schema(catalog);
    problems::add(&mut document["components"]["schemas"]);
    document["components"]["schemas"]["PlatformError"] = platform::platform_error();
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

/// How a key is sent.
fn key_schemes() -> Value {
    json!({
        "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
        "bearer": { "type": "http", "scheme": "bearer" },
    })
}

fn info() -> Value {
    json!({
        "title": "creator-gateway",
        "version": "1.0",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": "One key and one path pattern for four creator platforms, metered in credits. \
            Each metered response carries a receipt: what it cost and what is left. \
            The routes of a platform are in `/v1/platforms/{platform}/openapi.json`, and everything is in \
            `/openapi.json?platforms=all`; `?version=3.0` writes any of them in OpenAPI 3.0.3. \
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

/// Sets the media types of export files. Generators read `text/*` as text, whatever its format.
fn describe_downloads(document: &mut Value) {
    let content_of = |media_type: &str| {
        let mut schema = json!({ "type": "string" });
        if !media_type.starts_with("text/") {
            schema["format"] = json!("binary");
        }
        json!({ "schema": schema })
    };
    let types = ExportFormat::ALL.iter().map(|format| format.media_type());
    let content: Map<String, Value> =
        types.map(|media_type| (media_type.to_owned(), content_of(media_type))).collect();
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
