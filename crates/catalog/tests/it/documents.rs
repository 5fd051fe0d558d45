//! OpenAPI documents become catalogue files that can be read, and keep them up to date.

use catalog::catalog_update::{RemovedRoutes, update};
use catalog::openapi_import::{self, import};
use domain::method::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::platform_file;

fn document(paths: &Value) -> Value {
    json!({"openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "paths": paths})
}

/// The names of the routes of a document, and the lines that say what is left out.
fn imported(paths: &Value, prefix: &str) -> (Vec<String>, Vec<String>) {
    let text = import(&document(paths), prefix).unwrap();
    let catalog = platform_file::read(&text);
    let names = catalog.routes().iter().map(|route| route.name.clone()).collect();
    let left_out = text.lines().filter_map(|line| line.strip_prefix("# Left out: "));
    (names, left_out.map(str::to_owned).collect())
}

#[test]
fn a_prefix_is_taken_off_with_or_without_its_slash_and_only_whole() {
    let paths =
        json!({"/api/v1": {"get": {}}, "/api/v1/me": {"get": {}}, "/api/v10/me": {"get": {}}});
    for prefix in ["/api/v1", "/api/v1/", "/api/v1//"] {
        let (names, left_out) = imported(&paths, prefix);

        assert_eq!(names, ["GET me"], "{prefix}");
        assert_eq!(
            left_out,
            [
                "GET /api/v1: it does not lie below the prefix",
                "GET /api/v10/me: it does not lie below the prefix"
            ]
        );
    }
    for prefix in ["api/v1", "/API/v1", "/v1"] {
        let told = import(&document(&paths), prefix).unwrap_err().to_string();
        assert_eq!(
            told,
            format!(
                "the OpenAPI document: no operation lies below the prefix {prefix:?} that a catalogue \
                 can list; its first path is \"/api/v1\""
            )
        );
    }
}

#[test]
fn what_a_catalogue_cannot_list_is_left_out_with_the_reason() {
    let deep = format!("/{}", ["a"; 25].join("/"));
    let paths = json!({
        "/": {"get": {}},
        "/a": {"get": {}, "head": {}, "options": {}, "x-own": {}},
        &deep: {"delete": {}},
        "/b//c": {"put": {}},
        "/d\n": null,
        "x-paths": {"get": {}},
    });

    let (names, left_out) = imported(&paths, "");

    assert_eq!(names, ["GET a"]);
    assert_eq!(
        left_out,
        [
            "GET /: a call to the root has no path",
            "HEAD /a: native calls are GET, POST, PUT, PATCH and DELETE",
            "OPTIONS /a: native calls are GET, POST, PUT, PATCH and DELETE",
            &format!("DELETE {deep}: a template has at most 24 segments"),
            "PUT /b//c: a segment is empty",
            "/d: it is not an object",
        ]
    );
}

#[test]
fn paths_and_parameters_are_found_through_references() {
    let mut referring =
        document(&json!({"/notes/{note}": {"$ref": "#/components/pathItems/Note"}}));
    referring["components"] = json!({
        "pathItems": {"Note": {
            "parameters": [{"$ref": "#/components/parameters/Note"}, {"$ref": "#/nowhere"}],
            "get": {"parameters": [{"name": "full", "in": "query"}]}, "delete": {},
        }},
        "parameters": {"Note": {"name": "note", "in": "path", "description": "Which."}},
    });

    let catalog = platform_file::read(&import(&referring, "").unwrap());

    for (method, query) in [(Method::Get, 1), (Method::Delete, 0)] {
        let route = catalog.find(method, "notes/7").unwrap().route;
        let docs = route.docs.as_ref().unwrap();
        assert_eq!(docs.path_parameters[0].description, "Which.", "{method}");
        assert_eq!(route.query_parameters.len(), query, "{method}");
    }
}

#[test]
fn a_parameter_without_a_name_is_passed_over() {
    let parameters = json!([
        {"name": " ", "in": "query"}, {"name": "\n", "in": "header"}, {"in": "query"},
        {"name": "a\u{0}b", "in": "query"}, {"name": "a\tb", "in": "query", "required": true},
        {"name": "q", "in": "query"},
    ]);
    let paths = json!({"/a": {"get": {"parameters": parameters}}});

    let catalog = platform_file::read(&import(&document(&paths), "").unwrap());

    let query = &catalog.routes()[0].query_parameters;
    let names: Vec<&str> = query.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, ["a b", "q"]);
}

#[test]
fn a_document_that_cannot_be_read_is_refused_with_what_to_do() {
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(openapi_import::DOCUMENT_BYTES_MAX));
    for (text, expected) in [
        (large.as_str(), "it is larger than 32 MiB: split it, or remove examples"),
        ("{\"openapi\": \"3.1.0\"", "it is not JSON: EOF"),
        ("openapi: [3.1.0", "it is neither JSON nor YAML that can be read: "),
        ("a: 1\n---\nb: 2\n", "it is neither JSON nor YAML that can be read: "),
    ] {
        let told = openapi_import::read(text).unwrap_err().to_string();

        assert!(told.starts_with(&format!("the OpenAPI document: {expected}")), "{told}");
    }
}

#[test]
fn an_update_names_what_differs_and_the_file_then_agrees_with_the_document() {
    let before = json!({"/a": {"get": {"summary": "Old."}}, "/b": {"get": {}}});
    let after = json!({"/a": {"get": {"summary": "New.", "deprecated": true}}, "/c": {"post": {}}});
    let file = import(&document(&before), "").unwrap();

    let dropped = update(&file, &document(&after), "", RemovedRoutes::Drop).unwrap();
    let kept = update(&file, &document(&after), "", RemovedRoutes::Keep).unwrap();

    assert_eq!(
        (dropped.added.as_slice(), dropped.removed.as_slice()),
        (&["POST c".to_owned()][..], &["GET b".to_owned()][..])
    );
    assert_eq!(dropped.changed[0].name, "GET a");
    assert_eq!(dropped.changed[0].details, ["description: \"Old.\" → \"New.\"", "deprecated"]);
    assert!(dropped.has_differences() && dropped.kept.is_empty());
    assert_eq!((kept.kept.as_slice(), kept.removed.len()), (&["GET b".to_owned()][..], 0));
    let again = update(&dropped.text, &document(&after), "", RemovedRoutes::Drop).unwrap();
    assert!(!again.has_differences());
    assert_eq!(again.text, dropped.text);
}

#[test]
fn an_update_says_whether_the_file_or_the_document_is_wrong() {
    let good = document(&json!({"/a": {"get": {}}}));
    let bad_file = platform_file::route("GET", "a//b", "");

    let file = update(&bad_file, &good, "", RemovedRoutes::Keep).unwrap_err().to_string();
    let newer =
        update("", &json!({"openapi": "2.0"}), "", RemovedRoutes::Keep).unwrap_err().to_string();

    assert_eq!(file, "the catalogue file: line 1: GET a//b: a segment is empty");
    assert_eq!(newer, "the OpenAPI document: its version is \"2.0\"; 3.0 and 3.1 are read");
}

/// Texts as documents of strangers have them: short, empty, with quotes, breaks and controls.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-c ~/{}*'\"\\\\\n\u{0}\u{7f}\u{85}é]{0,12}",
        "\\PC{0,8}",
        Just("x".repeat(5000)),
    ]
}

fn operations() -> impl Strategy<Value = Value> {
    let place = prop_oneof![Just("query"), Just("path"), Just("header"), Just("cookie")];
    let parameter =
        (texts(), place, texts(), any::<bool>()).prop_map(|(name, place, about, spans)| {
            json!({"name": name, "in": place, "description": about, "x-multi-segment": spans,
               "schema": {"type": "string", "default": about}})
        });
    let parameters = proptest::collection::vec(parameter, 0..6);
    (texts(), texts(), texts(), parameters).prop_map(|(summary, id, media, parameters)| {
        let content =
            json!({&media: {"schema": {"type": "array", "items": {"properties": {&summary: {}}}}}});
        json!({"summary": summary, "operationId": id, "tags": [id], "parameters": parameters,
               "requestBody": {"content": content}, "responses": {"200": {"content": content}}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_document_says_its_file_can_be_read_and_an_update_finds_no_difference(
        paths in proptest::collection::vec(("/[ab/{}*.]{0,6}|/a/\\PC{0,4}", operations()), 1..6),
        title in texts(),
    ) {
        let mut paths: serde_json::Map<String, Value> =
            paths.into_iter().map(|(path, operation)| (path, json!({"get": operation}))).collect();
        paths.insert("/always".to_owned(), json!({"post": {}}));
        let mut whole = document(&Value::Object(paths));
        whole["info"]["title"] = json!(title);

        let text = import(&whole, "").unwrap();

        let routes = platform_file::read(&text).routes().len();
        prop_assert_eq!(routes, text.matches("\n[[routes]]\n").count());
        let again = update(&text, &whole, "", RemovedRoutes::Drop).unwrap();
        prop_assert!(!again.has_differences(), "{again:?}");
        prop_assert_eq!(again.text, text);
    }
}
