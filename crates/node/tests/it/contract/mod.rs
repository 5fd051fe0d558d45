//! The contract: the documents in the repository match what the service does.
//!
//! `just accept` (`UPDATE_CONTRACT=1`) regenerates the documents.
#![expect(
    clippy::unwrap_used,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod examples;
mod platform_documents;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_service::contract::{METHODS, document, followed, operations};
use test_service::schema;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file of the repository with its expected text, or writes it if `UPDATE_CONTRACT` is
/// set.
fn assert_written(path: &str, expected: &str) {
    let file = root().join(path);
    if std::env::var("UPDATE_CONTRACT").is_ok_and(|value| value == "1") {
        std::fs::write(&file, expected).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let first = written.lines().zip(expected.lines()).position(|(old, new)| old != new);
    assert!(
        written == expected,
        "{path} differs from what the service generates (first difference in line {:?}); run `just accept` and read the diff",
        first.map(|index| index + 1)
    );
}

#[test]
fn the_openapi_file_is_up_to_date() {
    let text = serde_json::to_string_pretty(&document()).unwrap();

    assert_written("openapi.json", &format!("{text}\n"));
}

#[test]
fn the_error_reference_is_up_to_date() {
    assert_written("docs/errors.md", &node::error_reference());
}

#[test]
fn the_document_is_openapi_3_1_and_names_its_version() {
    let document = document();

    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1.0");
}

#[test]
fn every_operation_has_an_id_of_its_own_a_summary_and_a_described_tag() {
    let document = document();
    let tags: BTreeSet<&str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut ids = BTreeSet::new();

    for (method, path, operation) in operations(&document) {
        let id = operation["operationId"]
            .as_str()
            .unwrap_or_else(|| panic!("{method} {path}: no operationId"));
        assert!(ids.insert(id.to_owned()), "{id} is used twice");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(!summary.is_empty(), "{method} {path} has no summary");
        let tagged =
            operation["tags"].as_array().unwrap_or_else(|| panic!("{method} {path}: no tag"));
        assert_eq!(tagged.len(), 1, "{method} {path}");
        assert!(
            tags.contains(tagged[0].as_str().unwrap()),
            "{method} {path}: {tagged:?} is not described"
        );
    }
    assert!(ids.len() >= 20, "{ids:?}");
}

#[test]
fn every_operation_that_needs_a_caller_declares_its_refusals() {
    for (method, path, operation) in operations(&document()) {
        let is_open = operation["security"] == serde_json::json!([]);
        for status in ["401", "403"] {
            let described = operation["responses"].get(status).is_some();
            assert!(described || is_open, "{method} {path}: {status}");
        }
    }
}

/// Operations that change something and take no `Idempotency-Key`; docs/api.md says what repeating
/// them does.
const WITHOUT_KEY: &[&str] = &[
    "log_in",
    "log_out",
    "change_password",
    "register_customer",
    "confirm_email",
    "resend_email_link",
    "forgot_password",
    "reset_password",
    "receive_event",
    "sign_up",
];

#[test]
fn every_operation_that_changes_something_takes_an_idempotency_key() {
    let document = document();
    let (mut with, mut without) = (0, BTreeSet::new());
    for (method, path, operation) in operations(&document) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let keys: Vec<_> = parameters.filter(|one| one["name"] == "Idempotency-Key").collect();
        let id = operation["operationId"].as_str().unwrap();
        assert!(keys.len() <= 1, "{method} {path}");
        match keys.first() {
            None if method == "get" => {}
            None => drop(without.insert(id.to_owned())),
            Some(key) => {
                assert_ne!(method, "get", "{path}");
                assert_eq!(
                    (&key["in"], key["required"].as_bool()),
                    (&Value::from("header"), Some(false))
                );
                for (status, code) in [
                    ("400", "invalid_idempotency_key"),
                    ("409", "idempotency_in_progress"),
                    ("409", "outcome_unknown"),
                    ("409", "answer_not_stored"),
                    ("422", "idempotency_mismatch"),
                ] {
                    let codes = codes(&document, &operation, status);
                    assert!(codes.contains(&code.to_owned()), "{method} {path}: {status} {code}");
                }
                with += 1;
            }
        }
    }
    let listed: BTreeSet<String> = WITHOUT_KEY.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(without, listed);
    assert!(with > 25, "{with}");
}

/// The schema of the service's own failures in a content; none where only the platform's are.
fn own_schema(content: &Value) -> Option<&Value> {
    let schema = content.get("schema")?;
    let own = schema.pointer("/anyOf/0").unwrap_or(schema);
    own.get("allOf").map(|_| own)
}

/// The codes of one failure status of an operation.
fn codes(document: &Value, operation: &Value, status: &str) -> Vec<String> {
    let response = operation.pointer(&format!("/responses/{status}")).unwrap();
    let content = followed(document, response).get("content").and_then(Value::as_object);
    let bodies = content.into_iter().flatten().map(|(_, body)| body);
    let own = bodies.filter_map(|body| own_schema(body));
    let enums = own.filter_map(|schema| schema.pointer("/allOf/1/properties/code/enum"));
    let codes = enums.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    codes.map(str::to_owned).collect()
}

#[test]
fn every_response_has_a_description_and_every_failure_its_codes() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let place = format!("{method} {path} {status}");
            let response = followed(&document, response);
            assert!(
                response["description"].as_str().is_some_and(|text| !text.is_empty()),
                "{place}"
            );
            if status.starts_with(['4', '5']) {
                let content = response["content"].as_object().unwrap();
                let own: Vec<_> = content
                    .iter()
                    .filter_map(|(name, body)| Some((name, own_schema(body)?)))
                    .collect();
                assert_eq!(own.len(), 1, "{place}");
                // The platform's own failures are passed through.
                let is_passed = path.contains("/native/") || path.ends_with("/media/upload");
                assert_eq!(
                    content.len(),
                    if is_passed && status != "422" { 2 } else { 1 },
                    "{place}"
                );
                let (media_type, schema) = own[0];
                let codes = &schema["allOf"][1]["properties"]["code"]["enum"];
                assert!(codes.as_array().is_some_and(|codes| !codes.is_empty()), "{place}");
                assert_eq!(media_type == "application/json", status == "422", "{place}");
            }
        }
    }
}

#[test]
fn every_422_has_one_schema_with_all_its_members() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let response = followed(&document, &operation["responses"]["422"]);
        let schema = own_schema(&response["content"]["application/json"]).unwrap();
        assert_eq!(
            schema["allOf"][0]["$ref"], "#/components/schemas/HTTPValidationError",
            "{method} {path}"
        );
    }
    let schemas = &document["components"]["schemas"];
    let required = schemas["HTTPValidationError"]["required"].as_array().unwrap();
    assert_eq!(required.len(), 7, "{required:?}");
    let fields = &schemas["ValidationError"]["properties"];
    assert!(["loc", "msg", "type"].iter().all(|name| fields.get(*name).is_some()), "{fields}");
    assert!(fields["type"]["enum"].as_array().unwrap().len() > 10, "{fields}");
}

#[test]
fn every_json_body_has_a_valid_example() {
    let document = document();
    let mut count = 0;
    let mut check = |place: String, content: Option<&Value>| {
        let Some(content) = content else { return };
        let example = content.get("example").unwrap_or_else(|| panic!("{place}: no example"));
        let problems = schema::problems(&document, &content["schema"], example);
        assert!(problems.is_empty(), "{place}: {problems:#?}\n{example:#}");
        count += 1;
    };
    for (method, path, operation) in operations(&document) {
        let body = operation.pointer("/requestBody/content/application~1json");
        check(format!("{method} {path}"), body);
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = followed(&document, response);
            for media_type in ["application~1json", "application~1problem+json"] {
                let content = response.pointer(&format!("/content/{media_type}"));
                check(format!("{method} {path} {status}"), content);
            }
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn every_field_and_every_parameter_is_described() {
    let document = document();
    let mut bare = BTreeSet::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        collect_bare(name, schema, &mut bare);
    }
    for (method, path, operation) in operations(&document) {
        let shared = document["paths"][&path]["parameters"].as_array().into_iter().flatten();
        for parameter in shared.chain(operation["parameters"].as_array().into_iter().flatten()) {
            if parameter["description"].as_str().unwrap_or_default().is_empty() {
                bare.insert(format!("{method} {path}: {}", parameter["name"]));
            }
        }
    }
    assert!(bare.is_empty(), "without a description (see openapi/glossary.json): {bare:#?}");
}

fn collect_bare(name: &str, schema: &Value, bare: &mut BTreeSet<String>) {
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        if property["description"].as_str().unwrap_or_default().is_empty() {
            bare.insert(format!("{name}.{field}"));
        }
    }
    for part in ["allOf", "oneOf", "anyOf"] {
        let branches = schema[part].as_array().into_iter().flatten();
        branches.for_each(|branch| collect_bare(name, branch, bare));
    }
}

#[test]
fn every_reference_has_a_target() {
    let document = document();
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);

    assert!(references.len() > 10, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} has no target");
    }
}

fn collect_references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                into.insert(reference.to_owned());
            }
            members.values().for_each(|member| collect_references(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

#[test]
fn every_path_parameter_is_declared() {
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
                let shared = item["parameters"].as_array().into_iter().flatten();
                let own = item[*method]["parameters"].as_array().into_iter().flatten();
                let found = shared.chain(own).any(|one| one["in"] == "path" && one["name"] == name);
                assert!(found, "{method} {path}: {name} is not declared");
            }
        }
    }
}
