//! The document of one platform: an operation for each route of its catalogue.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

pub(super) mod examples;
pub(super) mod operation;
pub(super) mod path_items;
pub(super) mod schema;

use std::collections::BTreeSet;

use catalog::{Route, RouteKind};
use domain::platform::Platform;
use serde_json::{Map, Value, json};

use self::path_items::PathItems;
use super::{DocumentSources, UPLOAD_PATH, native, problems, request_headers};

/// The group of routes that name none.
const OTHER_GROUP: &str = "other";
/// The tag of the upload, which is an operation of the service.
const UPLOAD_TAG: &str = "native";

/// The OpenAPI 3.1 document of a platform's routes.
pub(super) fn document(sources: &DocumentSources<'_>, platform: Platform) -> Value {
    let routes = sources.catalog.platform(platform).routes();
    let mut paths = path_items(sources, platform).into_json();
    let has_upload = routes.iter().any(|route| route.kind == RouteKind::Upload);
    if has_upload {
        paths[UPLOAD_PATH] = upload(sources);
    }
    let mut tags = tags(routes);
    if has_upload && groups(routes).iter().all(|name| *name != UPLOAD_TAG) {
        tags.as_array_mut().into_iter().for_each(|tags| tags.push(json!({ "name": UPLOAD_TAG })));
    }
    json!({
        "openapi": "3.1.0",
        "info": info(platform),
        "externalDocs": { "url": "/openapi.json", "description": "The service's own routes." },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }, { "bearer": [] }],
        "tags": tags,
        "paths": paths,
        "components": components(),
    })
}

/// The operations of a platform's native routes.
pub(super) fn path_items(sources: &DocumentSources<'_>, platform: Platform) -> PathItems {
    let mut items = PathItems::default();
    for (route, named) in sources.catalog.platform(platform).operations() {
        if route.is_native() {
            items.add(route, named, operation::of(sources, platform, route, named));
        }
    }
    items
}

/// The tag of a route.
pub(super) fn group(route: &Route) -> &str {
    if route.group.is_empty() { OTHER_GROUP } else { &route.group }
}

/// The groups in the order of the catalogue.
pub(super) fn groups(routes: &[Route]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    routes.iter().map(group).filter(|name| seen.insert(*name)).collect()
}

fn info(platform: Platform) -> Value {
    json!({
        "title": format!("creator-gateway: {platform}"),
        "version": "1.0",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": format!(
            "The routes of {platform}, called through a connected account. Credentials, version headers and signatures \
             are added by the service. A response is the platform's own; each has a receipt in its headers: what the \
             call cost and what is left. Errors of the service are `application/problem+json` (a 422 is \
             `application/json`), with `X-Error-Source: gateway`. Routes that are not listed can be called too, unless \
             the operator turned that off."
        ),
    })
}

fn tags(routes: &[Route]) -> Value {
    let tags = groups(routes).into_iter().map(|name| json!({ "name": name }));
    Value::Array(tags.collect())
}

fn upload(sources: &DocumentSources<'_>) -> Value {
    let mut item = native::upload_path(&sources.costs);
    let operation = &mut item["post"];
    operation["x-credits"] = json!(sources.costs.write.whole());
    operation["responses"] = operation::responses_of_upload();
    item
}

/// What the operations refer to.
pub(super) fn components() -> Value {
    let mut schemas = json!({ "PlatformError": platform_error(), "NativeError": native_error() });
    problems::add(&mut schemas);
    json!({
        "securitySchemes": super::key_schemes(),
        "parameters": {
            "account": {
                "name": "account", "in": "path", "required": true, "example": "my_account",
                "schema": { "type": "string", "pattern": "^[0-9A-Za-z_.-]{1,64}$" },
                "description": "The `creator_id` of a connected account.",
            },
            "idempotency_key": request_headers::idempotency_key(),
            "max_cost": request_headers::max_cost(),
            "tag": request_headers::tag(),
        },
        "headers": native::receipt_headers(),
        "responses": shared_responses(),
        "schemas": schemas,
    })
}

pub(super) fn platform_error() -> Value {
    json!({
        "description": "The platform's own error, as the platform sent it.",
        "type": ["object", "array", "string", "number", "boolean", "null"],
        "additionalProperties": true,
        "items": {},
    })
}

fn native_error() -> Value {
    let branches = ["HTTPValidationError", "Problem", "PlatformError"]
        .map(|name| json!({ "$ref": format!("#/components/schemas/{name}") }));
    json!({
        "description": "An error of this service (`X-Error-Source: gateway`): match its `code`; or one of the platform \
            (`X-Error-Source: platform`), unchanged.",
        "anyOf": branches,
    })
}

fn shared_responses() -> Value {
    let error = json!({ "schema": { "$ref": "#/components/schemas/NativeError" } });
    let failed = |description: &str| {
        let mut headers = operation::receipt();
        headers["X-Error-Source"] = json!({ "$ref": "#/components/headers/X-Error-Source" });
        json!({
            "description": description,
            "headers": headers,
            "content": { "application/json": error, "application/problem+json": error },
        })
    };
    json!({
        "Redirect": {
            "description": "A redirect or `304` of the platform. `Location` leads to a native call where one reaches it; \
                nothing is followed.",
            "headers": operation::receipt(),
        },
        "Refused": failed("The platform or this service refused the call; `X-Error-Source` says which."),
        "Failed": failed("The platform or this service failed; `X-Error-Source` says which."),
    })
}

/// A JSON object of these members.
pub(super) fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect::<Map<String, Value>>())
}
