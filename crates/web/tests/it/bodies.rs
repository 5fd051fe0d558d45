//! C9: invalid or ambiguous JSON, on every route that accepts JSON.

use serde_json::{Value, json};
use test_service::{TestApp, contract, with_app};

const ROUTES: [&str; 4] =
    ["/v1/auth/register", "/v1/auth/keys", "/v1/auth/keys/rotate", "/v1/connect/import"];

/// Bodies, each with what is wrong with it.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(10_000), close.repeat(10_000));
        format!("{{\"name\":{open}1{close}}}").into_bytes()
    };
    let plain = |text: &str| text.as_bytes().to_vec();
    vec![
        ("nothing", plain("")),
        ("no object", plain("null")),
        ("a list", plain("[]")),
        ("a name twice", plain(r#"{"name":"a","name":"a"}"#)),
        ("a name twice in another spelling", plain(r#"{"name":"a","n\u0061me":"a"}"#)),
        ("a name twice within", plain(r#"{"auth":{"token":"a","token":"b"}}"#)),
        ("a name twice in a list", plain(r#"{"auth":[{"x":{"a":1,"a":2}}]}"#)),
        ("not a number", plain(r#"{"name":NaN}"#)),
        ("infinity", plain(r#"{"name":Infinity}"#)),
        ("a number beyond all", plain(r#"{"name":1e400}"#)),
        ("lists too deep", deep("[", "]")),
        ("objects too deep", deep("{\"a\":", "}")),
        ("a comment", plain("{/**/}")),
        ("a comma too many", plain(r#"{"name":"a",}"#)),
        ("single quotes", plain("{'name':'a'}")),
        ("no UTF-8", b"{\"name\":\"\xff\"}".to_vec()),
        ("half a character", plain(r#"{"name":"\ud800"}"#)),
        ("a control character", b"{\"name\":\"a\x01\"}".to_vec()),
        ("UTF-16", [0xff, 0xfe].into_iter().chain(*b"{\0}\0").collect()),
        ("a second value", plain("{}{}")),
    ]
}

/// The keys and accounts of a customer, and the balance.
async fn view(app: &TestApp, key: &str) -> [Value; 3] {
    let client = app.with_key(key);
    let read = async |path: &str| client.get(path).await.json();
    [read("/v1/auth/keys").await, read("/v1/accounts").await, read("/v1/billing").await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_or_ambiguous_json_changes_nothing() {
    with_app(async |app| {
        let customer = app.customer(10).await;
        let client = app.with_key(&customer.key);
        let before = view(&app, &customer.key).await;

        for path in ROUTES {
            for (problem, body) in bodies() {
                if problem == "nothing" && path == "/v1/auth/keys/rotate" {
                    // It has no required field, so an absent body is one.
                    continue;
                }
                let json = client.with("content-type", "application/json");
                let reply = json.send("POST", path, Some(body)).await;
                assert_eq!(
                    reply.failure(),
                    (422, "invalid_request".to_owned()),
                    "{path}: {problem}"
                );
            }
        }

        assert_eq!(view(&app, &customer.key).await, before);
        assert_eq!(app.seen("platform_alpha").await.len(), 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_in_another_charset_or_under_another_type_is_415() {
    with_app(async |app| {
        let customer = app.customer(10).await;
        let client = app.with_key(&customer.key);
        let before = view(&app, &customer.key).await;
        let kinds = [
            "application/json; charset=utf-7",
            "application/json; charset=utf-16",
            "application/json; charset=\"iso-8859-1\"",
            "application/json;charset=UTF-8;charset=utf-7",
            "application/jsonp",
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=a",
        ];

        for path in ROUTES {
            let body = json!({"name": "a", "scope": "full"}).to_string().into_bytes();
            for kind in kinds {
                let typed = client.with("content-type", kind);
                let reply = typed.send("POST", path, Some(body.clone())).await;
                let expected = (415, "unsupported_media_type".to_owned());
                assert_eq!(reply.failure(), expected, "{path}: {kind}");
            }
            let untyped = client.send("POST", path, Some(body)).await;
            assert_eq!(untyped.status, 415, "{path}");
        }

        assert_eq!(view(&app, &customer.key).await, before);
        app
    })
    .await;
}

/// The operations with a JSON body none of whose fields is required, as the contract says. The
/// processor's event is signed, whatever it is.
fn with_optional_bodies() -> Vec<(String, String, Value)> {
    let document = contract::document();
    let mut operations = contract::operations(&document);
    operations.retain(|(_, path, operation)| {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let is_native = path.contains("/native/");
        !schema.is_null() && !is_native && path != "/v1/billing/webhook" && {
            let text = schema.to_string();
            let name =
                text.split("#/components/schemas/").nth(1).unwrap().split('"').next().unwrap();
            document["components"]["schemas"][name].get("required").is_none()
        }
    });
    operations
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_required_fields_may_be_absent() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let (mut declared, mut refused) = (Vec::new(), Vec::new());
        let operations = with_optional_bodies();

        for (method, path, operation) in &operations {
            let mut statuses = Vec::new();
            for body in [None, Some(b"{}".to_vec())] {
                // One for each request: some of them end a key.
                let customer = app.customer(0).await;
                let client = match path.as_str() {
                    "/v1/auth/me" => app.signed_in(&member).await,
                    _ => app.with_key(&customer.key),
                };
                let client = match &body {
                    Some(_) => client.with("content-type", "application/json"),
                    None => client,
                };
                let path = path.replace("{key_id}", &customer.key_id);
                statuses.push(client.send(&method.to_uppercase(), &path, body).await.status);
            }
            if statuses[0] == 415 || statuses[0] != statuses[1] {
                refused.push(format!("{method} {path}: {statuses:?}"));
            }
            if operation["requestBody"]["required"] == true {
                declared.push(format!("{method} {path}"));
            }
        }

        assert!(operations.len() >= 7, "{operations:?}");
        assert_eq!(refused, [""; 0]);
        assert_eq!(declared, [""; 0], "the contract says that these need a body");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_name_is_reported_at_any_depth() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key).with("content-type", "application/json");
    let body = r#"{"creator_id":"a","platform":"platform_alpha","auth":{"user_id":"7","session_token":"s","extra":{"x":"1","x":"2"}}}"#;

    let reply = client.send("POST", "/v1/connect/import", Some(body.into())).await;

    assert_eq!(reply.wrong_fields(), [("body.auth.extra.x".to_owned(), "duplicate".to_owned())]);
    app.end().await;
}
