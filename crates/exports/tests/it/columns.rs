//! Columns: the declared columns of a dataset are those of its rows and files, and a customer can
//! choose among them.

use std::collections::BTreeMap;

use domain::dataset::DatasetName;
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::testing::TestStore;

use super::reading::{ALL, Reading};
use super::{created, id_of, made, money, record};
use test_service::{Client, TestApp};

/// The columns of a dataset as listed by `GET /v1/exports/datasets`.
async fn listed(client: &Client, platform: &str, dataset: &str) -> Vec<Value> {
    let path = format!("/v1/exports/datasets?platform={platform}");
    let datasets = client.get(&path).await.json();
    let all = datasets["datasets"].as_array().unwrap();
    let found = all.iter().find(|one| one["dataset"] == dataset).unwrap();
    found["columns"].as_array().unwrap().clone()
}

fn names(columns: &[Value]) -> Vec<&str> {
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

/// The file of a new export, as text.
async fn file(app: &TestApp, client: &Client, account: &str, wish: &Value) -> String {
    let export = made(app, client, account, wish).await;
    assert_eq!(export["status"], "completed", "{export}");
    let file = client.get(&format!("/v1/exports/{}/download", id_of(&export))).await;
    String::from_utf8(file.body.to_vec()).unwrap()
}

/// The values of a row by the names of their columns.
fn fields<'v>(row: &'v Value, parent: &str, found: &mut BTreeMap<String, Vec<&'v Value>>) {
    for (member, value) in row.as_object().unwrap() {
        assert!(!member.contains(['.', '\\']), "{member}");
        let name = format!("{parent}{member}");
        if value.is_object() {
            fields(value, &format!("{name}."), found);
        } else {
            found.entry(name).or_default().push(value);
        }
    }
}

fn fits(value: &Value, column: &Value) -> bool {
    let is_whole = value.is_i64() || value.is_u64();
    match (column["type"].as_str().unwrap(), column["unit"].as_str()) {
        _ if value.is_null() => true,
        ("text", None) => value.is_string(),
        ("integer", _) => is_whole,
        ("number", _) => value.is_number(),
        ("boolean", None) => value.is_boolean(),
        ("json", None) => value.is_array(),
        ("time", Some("rfc3339")) => {
            value.as_str().is_some_and(|text| Timestamp::from_rfc3339(text).is_some())
        }
        // A time in seconds would be far below this.
        ("time", Some("unix_millis")) => is_whole && value.as_i64() > Some(100_000_000_000),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_have_exactly_the_declared_columns() {
    let app = TestApp::on_sqlite("").await;
    for (platform, datasets) in ALL {
        let reading = Reading::of(&app, platform).await;
        for dataset in datasets {
            let columns = listed(&reading.client, platform, dataset.as_str()).await;
            let chat = match dataset {
                DatasetName::ChatMessages => reading.fan(0).await.1,
                _ => String::new(),
            };
            let rows = reading.list(*dataset, &chat).await;
            let mut found = BTreeMap::new();
            for row in &rows {
                fields(row, "", &mut found);
            }

            for (name, values) in &found {
                let column = columns.iter().find(|column| column["name"] == name.as_str());
                let Some(column) = column else {
                    // Some rows do not have this object.
                    let inner = format!("{name}.");
                    let is_object = names(&columns).iter().any(|one| one.starts_with(&inner));
                    let is_null = values.iter().all(|value| value.is_null());
                    assert!(is_object && is_null, "{platform} {dataset}: {name} is not declared");
                    continue;
                };
                let other = values.iter().find(|value| !fits(value, column));
                assert!(other.is_none(), "{platform} {dataset}: {other:?} is not {column}");
            }
            for name in names(&columns) {
                assert!(found.contains_key(name), "{platform} {dataset}: no row has {name}");
            }
        }
    }
    app.end().await;
}

#[tokio::test]
async fn the_columns_of_a_dataset_are_listed_with_their_types_and_units() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    let beta = listed(&client, "platform_beta", "subscribers").await;
    let alpha = listed(&client, "platform_alpha", "transactions").await;

    assert_eq!(beta[0], json!({"name": "id", "type": "text", "unit": null}));
    assert_eq!(beta[1], json!({"name": "createdAt", "type": "time", "unit": "unix_millis"}));
    assert!(beta.contains(&json!({"name": "price", "type": "integer", "unit": "mills"})));
    assert!(alpha.contains(&json!({"name": "amount", "type": "number", "unit": "dollars"})));
    assert!(alpha.contains(&json!({"name": "user.isVerified", "type": "boolean", "unit": null})));
    app.end().await;
}

/// Files with and without rows begin with the same names.
async fn the_declared_columns_begin_every_file(database: TestStore) {
    let app = TestApp::start(database, "").await;
    let (_, client, account) = app.ready("platform_beta", 100).await;
    let columns = listed(&client, "platform_beta", "subscribers").await;
    let head = names(&columns).join(",");
    let wish = |fmt: &str, more: Value| {
        let mut wish = json!({"dataset": "subscribers", "fmt": fmt});
        wish.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wish
    };
    let nothing = json!({"start_date": "2090-01-01"});

    let empty = file(&app, &client, &account, &wish("csv", nothing.clone())).await;
    let ten = file(&app, &client, &account, &wish("csv", json!({"max_rows": 10}))).await;
    let lines = file(&app, &client, &account, &wish("jsonl", nothing)).await;

    assert_eq!(empty, format!("{head}\r\n"));
    assert_eq!((ten.lines().next(), ten.lines().count()), (Some(&*head), 11));
    assert_eq!(lines, "");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_declared_columns_begin_every_file_on_sqlite() {
    let database = store::testing::sqlite().await;
    Box::pin(the_declared_columns_begin_every_file(database)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn the_declared_columns_begin_every_file_on_postgresql() {
    let database = store::testing::postgres().await;
    Box::pin(the_declared_columns_begin_every_file(database)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeclared_fields_are_columns_after_the_declared_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beta.toml");
    let catalog = r#"
        [[datasets]]
        name = "following"
        route = "account/{accountId}/following"
        path = [{ name = "accountId", value = "{id}" }]
        rows = "/following"
        id = "/id"
        time = { field = "/createdAt", unit = "unix_millis" }
        paging = { style = "before_id", parameter = "before", size_parameter = "limit", size = 50, more = "/hasMore" }
        columns = [
            { name = "createdAt", type = "time", unit = "unix_millis" },
            { name = "never", type = "text" },
            { name = "id", type = "text" },
        ]
    "#;
    std::fs::write(&path, catalog).unwrap();
    let own = format!("[platforms.platform_beta]\ncatalog = {:?}", path.display().to_string());
    let app = TestApp::on_sqlite(&own).await;
    let (_, client, account) = app.ready("platform_beta", 100).await;

    let wish = json!({"dataset": "following", "max_rows": 3});
    let table = file(&app, &client, &account, &wish).await;

    let head: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    assert_eq!(head[..3], ["createdAt", "never", "id"]);
    assert!(head.contains(&"account.username"), "{head:?}");
    assert!(table.lines().skip(1).all(|line| line.split(',').nth(1) == Some("")), "{table}");
    app.end().await;
}

/// Only the chosen columns, in their order, in every format; the record lists them.
async fn chosen_columns_are_all_that_a_file_has(database: TestStore) {
    let app = TestApp::start(database, "").await;
    let (_, client, account) = app.ready("platform_beta", 100).await;
    let chosen = json!(["price", "account.username", "no.such", "id"]);
    let wish =
        |fmt: &str| json!({"dataset": "subscribers", "fmt": fmt, "max_rows": 2, "columns": chosen});

    let table = file(&app, &client, &account, &wish("csv")).await;
    let lines = file(&app, &client, &account, &wish("jsonl")).await;
    let id = created(&client, &account, &wish("xlsx")).await;
    let plain = created(&client, &account, &json!({"dataset": "chats", "columns": null})).await;

    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["price", "account.username", "no.such", "id"]);
    assert_eq!((rows.len(), rows[1].len()), (3, 4));
    for (line, row) in lines.lines().zip(&rows[1..]) {
        let (price, username, fan) = (row[0], row[1], row[3]);
        let expected = format!(
            r#"{{"price":{price},"account.username":"{username}","no.such":null,"id":"{fan}"}}"#
        );
        assert_eq!((line, row[2]), (expected.as_str(), ""));
    }
    assert_eq!(lines.lines().count(), 2);
    assert_eq!(record(&client, &id).await["columns"], chosen);
    assert_eq!(record(&client, &plain).await["columns"], Value::Null);
    let shown = client.get("/v1/exports?dataset=subscribers").await.json();
    let shown = shown["exports"].as_array().unwrap().clone();
    assert!(shown.len() == 3 && shown.iter().all(|one| one["columns"] == chosen), "{shown:?}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chosen_columns_are_all_that_a_file_has_on_sqlite() {
    let database = store::testing::sqlite().await;
    Box::pin(chosen_columns_are_all_that_a_file_has(database)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn chosen_columns_are_all_that_a_file_has_on_postgresql() {
    let database = store::testing::postgres().await;
    Box::pin(chosen_columns_are_all_that_a_file_has(database)).await;
}

#[tokio::test]
async fn columns_that_cannot_be_chosen_are_reported_and_cost_nothing() {
    let app = TestApp::on_sqlite("").await;
    let (_, client, account) = app.ready("platform_alpha", 25).await;
    let path = format!("/v1/{account}/exports");
    let wish = |columns: Value| json!({"dataset": "subscribers", "columns": columns});
    let many = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>();
    for (columns, place, kind) in [
        (json!([]), "body.columns", "too_short"),
        (json!(many(201)), "body.columns", "too_long"),
        (json!("id"), "body.columns", "wrong_type"),
        (json!({"id": true}), "body.columns", "wrong_type"),
        (json!(["id", 7]), "body.columns.1", "wrong_type"),
        (json!(["id", null]), "body.columns.1", "wrong_type"),
        (json!(["id", ""]), "body.columns.1", "too_short"),
        (json!(["x".repeat(1025)]), "body.columns.0", "too_long"),
        (json!(["id", "é".repeat(513)]), "body.columns.1", "too_long"),
        (json!(["id", "name", "username", "name"]), "body.columns.3", "duplicate"),
    ] {
        let reply = client.post(&path, &wish(columns)).await;

        assert_eq!(reply.wrong_fields(), [(place.to_owned(), kind.to_owned())], "{}", reply.text());
        assert_eq!(reply.receipt(), (0, 25));
    }
    let repeated = client.post(&path, &wish(json!(["id", "id", "id"]))).await;
    assert_eq!(repeated.wrong_fields().len(), 2);
    assert_eq!(
        repeated.json()["detail"][0]["msg"],
        "is already in the list; name each column once"
    );
    assert_eq!(money(&client).await, (25, 0, 0));
    for columns in [json!(many(200)), json!(["x".repeat(1024)])] {
        assert_eq!(client.post(&path, &wish(columns)).await.status, 201);
    }
    app.end().await;
}

#[tokio::test]
async fn the_same_idempotency_key_with_other_columns_is_another_request() {
    let app = TestApp::on_sqlite("").await;
    let (_, client, account) = app.ready("platform_alpha", 25).await;
    let path = format!("/v1/{account}/exports");
    let keyed = client.with("idempotency-key", "monday");
    let wish = |columns: Value| json!({"dataset": "subscribers", "columns": columns});

    let first = keyed.post(&path, &wish(json!(["id", "name"]))).await;
    let again = keyed.post(&path, &wish(json!(["id", "name"]))).await;
    let other = keyed.post(&path, &wish(json!(["name", "id"]))).await;

    assert_eq!((first.status, again.status), (201, 201), "{}", again.text());
    assert_eq!(first.json()["job_id"], again.json()["job_id"]);
    assert_eq!(first.json()["columns"], json!(["id", "name"]));
    assert_eq!(other.status, 422, "{}", other.text());
    assert_eq!(money(&client).await, (15, 10, 0));
    app.end().await;
}
