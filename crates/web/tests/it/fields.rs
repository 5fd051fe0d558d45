//! Wrong fields of requests: each one is reported, in one shape and one vocabulary, in words that a
//! customer understands.

use serde_json::{Map, Value, json};
use test_service::contract::{document, operations};
use test_service::{Client, Reply, TestApp};

/// Words of the implementation, which do not help customers.
const FORBIDDEN: [&str; 22] = [
    "serde",
    "invalid type",
    "invalid value",
    "invalid length",
    "invalid digit",
    "expected",
    "i64",
    "u64",
    "f64",
    "i32",
    "usize",
    "expected struct",
    "variant",
    "map key",
    "key must be",
    "deserialize",
    "unit value",
    "sequence",
    "Option",
    "NaN",
    "at line 1 column 0",
    "missing field",
];

/// One value for each kind of JSON value.
fn kinds() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("\u{0}\u{7f}"),
        json!("x".repeat(2_000)),
        json!([]),
        json!([null, 7, "x", {}]),
        json!({}),
        json!({"x": {"y": [1]}}),
    ]
}

/// The path of an operation with a value for each parameter.
fn filled(app_account: &str, path: &str) -> String {
    let id = "0".repeat(32);
    path.replace("{account}", app_account)
        .replace("{key_id}", &format!("key_{id}"))
        .replace("{job_id}", &format!("exp_{id}"))
        .replace("{session_id}", &format!("ses_{id}"))
        .replace("{customer_id}", &format!("cus_{id}"))
        .replace("{platform}", "platform_alpha")
}

/// The service's own operations, with their declarations.
fn own_operations(document: &Value) -> Vec<(String, String, Value)> {
    let is_own = |path: &str| !path.contains("/native/") && !path.ends_with("/media/upload");
    operations(document).into_iter().filter(|(_, path, _)| is_own(path)).collect()
}

/// Names and schemas of the fields of an operation's JSON body; `None` if it takes no body.
fn body_fields(document: &Value, operation: &Value) -> Option<Map<String, Value>> {
    let schema = operation.pointer("/requestBody/content/application~1json/schema")?;
    let reference = schema["$ref"].as_str().or_else(|| schema["oneOf"][0]["$ref"].as_str())?;
    document.pointer(reference.strip_prefix('#')?)?["properties"].as_object().cloned()
}

/// Asserts the shape of a 422, and that no message mentions the implementation.
fn assert_fields(reply: &Reply, place: &str) {
    assert_eq!(reply.status, 422, "{place}: {}", reply.text());
    assert_eq!(reply.header("content-type"), "application/json", "{place}");
    let body = reply.json();
    for member in ["type", "title", "status", "code", "detail", "request_id", "retryable"] {
        assert!(body.get(member).is_some(), "{place}: no {member} in {body}");
    }
    let detail = body["detail"].as_array().unwrap();
    assert!(!detail.is_empty(), "{place}");
    for problem in detail {
        let kind: Result<domain::field_error::FieldErrorKind, _> =
            problem["type"].as_str().unwrap().parse();
        assert!(kind.is_ok(), "{place}: {problem}");
        let text = problem["msg"].as_str().unwrap();
        let found = FORBIDDEN.iter().find(|word| text.contains(**word));
        assert_eq!(found, None, "{place}: {text}");
        let first = problem["loc"][0].as_str().unwrap();
        assert!(["body", "query", "header", "path"].contains(&first), "{place}: {problem}");
    }
}

async fn session(app: &TestApp) -> (Client, Client, String) {
    let (_, client, account) = app.ready("platform_alpha", 50).await;
    let browser = app.signed_in(&app.member("fields@example.com").await).await;
    (client, browser, account)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_field_of_a_body_is_reported() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    let body = json!({
        "scope": "all", "accounts": ["ok", "a/b"], "monthly_budget_credits": -1,
        "expires_at": "2020-01-01T00:00:00Z", "colour": "red",
    });

    let reply = client.post("/v1/auth/keys?page=2", &body).await;

    let named = |place: &str, kind: &str| (place.to_owned(), kind.to_owned());
    let mut fields = reply.wrong_fields();
    fields.sort();
    assert_eq!(
        fields,
        [
            named("body.accounts.1", "bad_format"),
            named("body.colour", "unknown_field"),
            named("body.expires_at", "out_of_range"),
            named("body.monthly_budget_credits", "out_of_range"),
            named("body.name", "missing"),
            named("body.scope", "not_allowed"),
            named("query.page", "unknown_field"),
        ]
    );
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_query_parameter_is_reported_with_the_known_ones() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    let path =
        "/v1/billing/usage/recent?limit=0&account=a/b&before=soon&page=2&key_id=key_1&limit=7";
    let reply = client.get(path).await;

    let named = |place: &str, kind: &str| (format!("query.{place}"), kind.to_owned());
    let mut fields = reply.wrong_fields();
    fields.sort();
    assert_eq!(
        fields,
        [
            named("account", "bad_format"),
            named("before", "wrong_type"),
            named("key_id", "bad_format"),
            named("limit", "duplicate"),
            named("limit", "out_of_range"),
            named("page", "unknown_field"),
        ]
    );
    let unknown = &reply.json()["detail"][5];
    assert_eq!(
        unknown["msg"],
        "this route has no such query parameter; it takes limit, status_class, scope, key_id, account, route, tag, before"
    );
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_ignores_an_unknown_query_parameter() {
    let app = TestApp::on_sqlite("").await;
    let (client, browser, account) = session(&app).await;
    let document = document();
    let mut tried = 0;

    for (method, path, operation) in own_operations(&document) {
        // It is retired and responds the same to any request.
        if path == "/v1/signup" {
            continue;
        }
        let place = format!("{method} {path}");
        let target = format!("{}?surprise=1", filled(&account, &path));
        let takes_session = operation["security"].to_string().contains("session");
        let caller = if takes_session { &browser } else { &client };
        let reply = match body_fields(&document, &operation) {
            Some(_) => caller.json(&method.to_uppercase(), &target, &json!({})).await,
            None if method == "post" => caller.json("POST", &target, &json!({})).await,
            None => caller.send(&method.to_uppercase(), &target, None).await,
        };
        let is_named = |problem: &(String, String)| {
            *problem == ("query.surprise".to_owned(), "unknown_field".to_owned())
        };
        assert!(
            reply.status == 422 && reply.wrong_fields().iter().any(is_named),
            "{place}: {}",
            reply.text()
        );
        assert_fields(&reply, &place);
        tried += 1;
    }
    assert!(tried > 40, "{tried}");
    // The document for tools is strict, too.
    let reply = app.anonymous().get("/openapi.json?surprise=1").await;
    assert_eq!(reply.failure(), (422, "invalid_request".to_owned()));
    assert_eq!(app.anonymous().get("/openapi.json").await.status, 200);
    // Links to pages may get additional parameters when they are shared.
    for path in [
        "/console/billing/return",
        "/console/confirm",
        "/console/pay",
        "/console/reset",
        "/docs/errors",
    ] {
        let plain = app.anonymous().get(path).await;
        let longer = app.anonymous().get(&format!("{path}?utm_source=mail")).await;
        assert!(plain.status < 500, "{path}: {}", plain.status);
        assert_eq!((longer.status, longer.text()), (plain.status, plain.text()), "{path}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_message_mentions_the_implementation() {
    let app = TestApp::on_sqlite("").await;
    let (client, browser, account) = session(&app).await;
    let document = document();
    let mut refused = 0;

    for (method, path, operation) in own_operations(&document) {
        let target = filled(&account, &path);
        let takes_session = operation["security"].to_string().contains("session");
        let caller = if takes_session { &browser } else { &client };
        for field in body_fields(&document, &operation).into_iter().flatten().map(|(name, _)| name)
        {
            for value in kinds() {
                // With an unknown field beside it, so that nothing is ever done.
                let body = json!({ field.as_str(): value, "surprise": 1 });
                let reply = caller.json(&method.to_uppercase(), &target, &body).await;
                assert_fields(&reply, &format!("{method} {path} {body}"));
                refused += 1;
            }
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] != "query" || path.ends_with("/download") {
                continue;
            }
            for text in ["", "x", "-1", "1.5", "1e300", "true", "null", "%00", "a%2Fb", "[]", "%FF"]
            {
                let name = parameter["name"].as_str().unwrap();
                let target = format!("{target}?{name}={text}&surprise=1");
                let reply = caller.get(&target).await;
                assert_fields(&reply, &format!("{method} {target}"));
                refused += 1;
            }
        }
    }
    assert!(refused > 500, "{refused}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_number_is_accepted_however_it_is_written() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    let json = client.with("content-type", "application/json");

    for budget in ["548", "548.0", "5.48e2"] {
        let body = format!(r#"{{"name":"k","scope":"full","monthly_budget_credits":{budget}}}"#);
        let made = json.send("POST", "/v1/auth/keys", Some(body.into_bytes())).await;
        assert_eq!(
            (made.status, &made.json()["monthly_budget_credits"]),
            (201, &json!(548)),
            "{budget}"
        );
    }
    for days in ["10", "10.0", "1e1"] {
        let shown = client.get(&format!("/v1/billing/usage/daily?days={days}")).await.json();
        assert_eq!(shown["days"].as_array().unwrap().len(), 10, "{days}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_422_has_the_same_shape() {
    let app = TestApp::on_sqlite("").await;
    let (_, client, account) = app.ready("platform_alpha", 50).await;
    let exports = format!("/v1/{account}/exports");
    let again = client.with("idempotency-key", "one");
    assert_eq!(again.post(&exports, &json!({"dataset": "subscribers"})).await.status, 201);

    let other = again.post(&exports, &json!({"dataset": "chats"})).await;
    let archive = client.post(&exports, &json!({"dataset": "media_archive"})).await;
    let fields = client.post(&exports, &json!({})).await;
    let native = format!("/v1/{account}/native/users/me");
    let native = client.with("idempotency-key", "one").post(&native, &json!({})).await;

    for (reply, code, field, kind) in [
        (&other, "idempotency_mismatch", "header.Idempotency-Key", "already_used"),
        (&archive, "media_archive_unavailable", "body.dataset", "not_allowed"),
        (&fields, "invalid_request", "body.dataset", "missing"),
        (&native, "idempotency_mismatch", "header.Idempotency-Key", "already_used"),
    ] {
        assert_fields(reply, code);
        assert_eq!(reply.code(), code);
        assert_eq!(reply.wrong_fields(), [(field.to_owned(), kind.to_owned())]);
    }
    app.end().await;
}

/// A required parameter that is missing is the caller's mistake, whichever route it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_fails_because_its_parameters_are_missing() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(100).await.key);
    let document = app.anonymous().get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let readable: Vec<&String> = paths
        .iter()
        .filter(|(path, operations)| !path.contains('{') && operations.get("get").is_some())
        .map(|(path, _)| path)
        .collect();
    assert!(readable.len() > 20, "{readable:?}");

    for path in readable {
        let reply = client.get(path).await;
        assert_ne!(reply.status, 500, "{path}: {}", reply.text());
    }
    for path in [
        "/v1/billing/slots/preview?count=1",
        "/v1/billing/slots/switch/preview?from=platform_alpha",
        "/v1/billing/slots/switch/preview?to=platform_alpha",
    ] {
        let reply = client.get(path).await;
        assert_eq!(reply.status, 422, "{path}: {}", reply.text());
        assert_eq!(reply.json()["detail"][0]["type"], "missing", "{}", reply.text());
    }
    app.end().await;
}
