//! The documents of platforms and the whole document: every route has an operation that generators
//! can use, in both versions of OpenAPI.

use std::collections::BTreeSet;
use std::io::Read as _;

use catalog::{Catalog, Route};
use domain::platform::Platform;
use node::openapi::{DocumentScope, OpenapiVersion};
use serde_json::{Value, json};
use test_service::TestApp;
use test_service::contract::{followed, operations, written};

const VERSIONS: [OpenapiVersion; 2] = [OpenapiVersion::Current, OpenapiVersion::Older];

fn routes(platform: Platform) -> Vec<Route> {
    Catalog::built_in().unwrap().platform(platform).routes().to_vec()
}

#[test]
fn every_route_has_one_operation_in_the_document_of_its_platform() {
    for platform in Platform::BUILT_IN {
        for version in VERSIONS {
            let document = written(DocumentScope::Platform(platform), version);
            let operations = operations(&document);
            let named: BTreeSet<String> = operations
                .iter()
                .filter_map(|(_, _, operation)| operation["x-route"].as_str())
                .map(str::to_owned)
                .collect();
            let native: Vec<Route> =
                routes(platform).into_iter().filter(Route::is_native).collect();
            let expected: BTreeSet<String> =
                native.iter().map(|route| route.name.clone()).collect();
            assert_eq!(named, expected);
            let uploads = routes(platform).len() - native.len();
            assert_eq!(operations.len(), native.len() + uploads);
        }
    }
}

#[test]
fn every_operation_says_what_generators_and_callers_need() {
    for platform in Platform::BUILT_IN {
        let document = written(DocumentScope::Platform(platform), OpenapiVersion::Current);
        let mut ids = BTreeSet::new();
        for (method, path, operation) in operations(&document) {
            let place = format!("{method} {path}");
            let id = operation["operationId"].as_str().unwrap();
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            assert!(id.chars().all(is_word) && ids.insert(id.to_lowercase()), "{place}: {id}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place}");
            let cost = if method == "get" { 1 } else { 2 };
            assert_eq!(operation["x-credits"], cost, "{place}");
            let success =
                ["200", "201"].iter().any(|status| operation["responses"].get(status).is_some());
            assert!(success, "{place}");
            for range in ["4XX", "5XX"] {
                let failed = followed(&document, &operation["responses"][range]);
                let types: Vec<&String> = failed["content"].as_object().unwrap().keys().collect();
                assert_eq!(types, ["application/json", "application/problem+json"], "{place}");
            }
            assert_eq!(operation.get("requestBody").is_some(), method != "get", "{place}");
        }
    }
}

#[test]
fn parameters_are_those_of_the_path_and_of_the_catalogue() {
    for scope in [DocumentScope::Platform(Platform::DELTA), DocumentScope::Whole] {
        let document = written(scope, OpenapiVersion::Current);
        for (path, item) in document["paths"].as_object().unwrap() {
            let shared = item["parameters"].as_array().cloned().unwrap_or_default();
            let in_template: BTreeSet<&str> =
                path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            for method in ["get", "post", "put", "patch", "delete"] {
                let Some(operation) = item.get(method) else { continue };
                let own = operation["parameters"].as_array().into_iter().flatten();
                let all: Vec<&Value> =
                    own.chain(&shared).map(|each| followed(&document, each)).collect();
                let of_path: Vec<&str> = all
                    .iter()
                    .filter(|each| each["in"] == "path")
                    .map(|each| each["name"].as_str().unwrap())
                    .collect();
                let known: BTreeSet<&str> = of_path.iter().copied().collect();
                assert_eq!(known, in_template, "{method} {path}");
                assert_eq!(known.len(), of_path.len(), "{method} {path}: one is there twice");
            }
        }
    }
}

/// A pointer of the list of routes leads to the operation of the route.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_listed_route_leads_to_its_operation() {
    let app = TestApp::on_sqlite("").await;
    let client = app.anonymous();
    for platform in ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"] {
        let path = format!("/v1/platforms/{platform}/routes?limit=500");
        let listed = client.get(&path).await.json();
        let document = client.get(&format!("/v1/platforms/{platform}/openapi.json")).await.json();
        for route in listed["routes"].as_array().unwrap() {
            let link = route["operation"].as_str().unwrap();
            let (of, pointer) = link.split_once('#').unwrap();
            assert_eq!(of, format!("/v1/platforms/{platform}/openapi.json"));
            let pointer = pointer.replace("%7B", "{").replace("%7D", "}");
            let operation = document.pointer(&pointer).unwrap_or_else(|| panic!("{link}"));
            assert_eq!(operation["operationId"], route["operation_id"], "{link}");
        }
    }
    app.end().await;
}

/// Platforms share paths; the whole document has each path and each id once.
#[test]
fn the_whole_document_has_everything_once() {
    let document = written(DocumentScope::Whole, OpenapiVersion::Current);
    let (mut ids, mut routes_named) = (BTreeSet::new(), 0);
    for (method, path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap().to_owned();
        assert!(ids.insert(id.to_lowercase()), "{method} {path}: {id}");
        routes_named += usize::from(operation.get("x-route").is_some());
        routes_named += operation["x-also"].as_array().map_or(0, Vec::len);
    }
    let native = Platform::BUILT_IN.iter().flat_map(|platform| routes(*platform));
    assert_eq!(routes_named, native.filter(Route::is_native).count());
    let shapes: BTreeSet<String> =
        document["paths"].as_object().unwrap().keys().map(|path| shape(path)).collect();
    assert_eq!(shapes.len(), document["paths"].as_object().unwrap().len());
    assert!(ids.contains("get_daily_usage") && ids.contains("platform_gamma_get_me"), "{ids:?}");
    // A list of two platforms is one operation for both.
    let lists = &document["paths"]["/v1/{account}/native/lists"]["get"];
    assert_eq!(lists["x-platforms"], json!(["platform_alpha", "platform_gamma"]));
}

fn shape(path: &str) -> String {
    let segments =
        path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// Calls a function with every schema of a document.
fn each_schema(value: &Value, is_schema: bool, see: &mut dyn FnMut(&Value)) {
    if is_schema {
        see(value);
    }
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                if matches!(name.as_str(), "example" | "examples" | "default" | "enum")
                    || name.starts_with("x-")
                {
                    continue;
                }
                let opens = name == "schema"
                    || is_schema
                        && ["items", "additionalProperties", "not"].contains(&name.as_str());
                let is_map = is_schema && name == "properties" || name == "schemas";
                if is_map {
                    let named = inner.as_object().into_iter().flatten();
                    named.for_each(|(_, schema)| each_schema(schema, true, see));
                } else {
                    each_schema(inner, opens, see);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|inner| each_schema(inner, is_schema, see)),
        _ => {}
    }
}

#[test]
fn the_older_version_uses_only_words_that_it_knows() {
    let platforms = Platform::BUILT_IN.map(DocumentScope::Platform);
    for scope in platforms.into_iter().chain([DocumentScope::Own, DocumentScope::Whole]) {
        let document = written(scope, OpenapiVersion::Older);
        assert_eq!(document["openapi"], "3.0.3");
        let mut seen = 0;
        each_schema(&document, false, &mut |schema| {
            seen += 1;
            assert!(!schema["type"].is_array() && schema["type"] != "null", "{schema}");
            for word in ["const", "$defs", "prefixItems", "patternProperties", "$comment"] {
                assert!(schema.get(word).is_none(), "{schema}");
            }
            assert!(!schema["exclusiveMinimum"].is_number(), "{schema}");
            if schema["type"] == "array" {
                assert!(schema.get("items").is_some(), "{schema}");
            }
            if schema.get("$ref").is_some() {
                assert_eq!(schema.as_object().unwrap().len(), 1, "{schema}");
            }
        });
        assert!(seen > 50, "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_served_with_a_tag_and_under_the_aliases_of_platforms() {
    let app = TestApp::on_sqlite("").await;
    let client = app.anonymous();
    for (path, version) in [
        ("/v1/platforms/platform_gamma/openapi.json", "3.1.0"),
        ("/v1/platforms/platform_gamma/openapi.json?version=3.1", "3.1.0"),
        ("/v1/platforms/platform_gamma/openapi.json?version=3.0", "3.0.3"),
        ("/openapi.json?version=3.0", "3.0.3"),
        ("/openapi.json?platforms=all", "3.1.0"),
        ("/openapi.json?platforms=all&version=3.0", "3.0.3"),
    ] {
        let first = client.get(path).await;
        let again = client.with("if-none-match", first.header("etag")).get(path).await;

        assert_eq!(
            (first.status, first.header("content-type")),
            (200, "application/json"),
            "{path}"
        );
        assert_eq!(first.json()["openapi"], version, "{path}");
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        let compressed = client.with("accept-encoding", "gzip").get(path).await;
        assert_eq!(compressed.header("content-encoding"), "gzip", "{path}");
        let mut text = String::new();
        let mut decoder = flate2::read::GzDecoder::new(&compressed.body[..]);
        decoder.read_to_string(&mut text).unwrap();
        assert_eq!(text.as_bytes(), &first.body[..], "{path}");
        assert!(compressed.body.len() * 4 < first.body.len(), "{path}");
    }
    let unknown = client.get("/v1/platforms/platform_omega/openapi.json").await;
    assert_eq!(unknown.failure(), (404, "not_found".to_owned()));
    for wrong in [
        "/openapi.json?version=2.0",
        "/openapi.json?platforms=some",
        "/v1/platforms/platform_gamma/openapi.json?platforms=all",
    ] {
        assert_eq!(client.get(wrong).await.status, 422, "{wrong}");
    }
    app.end().await;
}

/// What the service adds by itself cannot be given, so it is not a parameter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_follows_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    let entry = "[[routes]]\nmethod = \"GET\"\ntemplate = \"boards/{board}\"\ngroup = \"boards\"\n\
        operation_id = \"boards/get\"\ndeprecated = true\n\
        query = [{ name = \"limit\", schema = '{\"type\":\"integer\",\"nullable\":true}' }, { name = \"app_key\", required = true }]\n\
        parameters = [{ name = \"board\", schema = '{\"type\":\"integer\"}' }]\n\
        response = { status = 203, content_type = \"application/json\", schema = '{\"type\":\"object\"}' }\n\
        paging = { style = \"page\", parameter = \"page\", guessed = true }\n";
    std::fs::write(&file, entry).unwrap();
    let app = TestApp::on_sqlite(&format!(
        "[credits]\nread = 3\n[platforms.platform_alpha]\ncatalog = {file:?}\n\
         query = [{{ name = \"app_key\", value = \"k\" }}]"
    ))
    .await;
    let client = app.anonymous();

    let current = client.get("/v1/platforms/platform_alpha/openapi.json").await.json();
    let older = client.get("/v1/platforms/platform_alpha/openapi.json?version=3.0").await.json();

    let of =
        |document: &Value| document["paths"]["/v1/{account}/native/boards/{board}"]["get"].clone();
    let operation = of(&current);
    assert_eq!(operation["operationId"], "boards_get");
    assert_eq!((&operation["x-credits"], &operation["deprecated"]), (&json!(3), &json!(true)));
    assert_eq!(operation["tags"], json!(["boards"]));
    assert_eq!(
        operation["x-paging"],
        json!({"style": "page", "parameter": "page", "guessed": true})
    );
    let parameters = operation["parameters"].as_array().unwrap();
    let named: Vec<&str> = parameters.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(named, ["board", "limit"]);
    assert_eq!(parameters[0]["schema"], json!({"type": "integer"}));
    assert_eq!(parameters[1]["schema"], json!({"type": ["integer", "null"]}));
    assert_eq!(of(&older)["parameters"][1]["schema"], json!({"type": "integer", "nullable": true}));
    assert_eq!(
        operation["responses"]["203"]["content"]["application/json"]["schema"],
        json!({"type": "object"})
    );
    app.end().await;
}
