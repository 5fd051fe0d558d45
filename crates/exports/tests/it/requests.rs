//! Creating exports: refused requests cost nothing, and a repeated request creates one export.

use serde_json::{Value, json};

use super::reading::while_time_passes;
use super::{created, id_of, made, money, record, ten};
use test_service::{TestApp, with_app};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_holds_its_credits_and_is_charged_with_its_file() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 25).await;
        let wish = json!({"dataset": "subscribers", "max_rows": 10, "start_date": "2020-01-01"});

        let reply = client.post(&format!("/v1/{account}/exports"), &wish).await;

        assert_eq!((reply.status, reply.receipt()), (201, (10, 15)), "{}", reply.text());
        let made = reply.json();
        assert_eq!((made["status"].as_str(), made["fmt"].as_str()), (Some("pending"), Some("csv")));
        assert_eq!(made["start_date"], "2020-01-01");
        assert_eq!(made["download_url"], Value::Null);
        assert_eq!(money(&client).await, (15, 10, 0));
        app.run_exports().await;
        let export = record(&client, id_of(&made)).await;
        assert_eq!(export["status"], "completed", "{export}");
        assert_eq!(
            (export["rows"].as_i64(), export["progress"]["rows"].as_i64()),
            (Some(10), Some(10))
        );
        assert_eq!(money(&client).await, (15, 0, 10));
        let billing = client.get("/v1/billing").await.json();
        let entry =
            billing["ledger"].as_array().unwrap().iter().find(|one| one["kind"] == "export");
        assert_eq!(entry.unwrap()["amount"], -10);
        let days = client.get("/v1/billing/usage/daily?days=1").await.json();
        assert_eq!(
            (days["days"][0]["exports"].as_i64(), days["days"][0]["calls"].as_i64()),
            (Some(1), Some(0))
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_fields_are_reported_and_cost_nothing() {
    let app = TestApp::on_sqlite("").await;
    let (customer, client, account) = app.ready("platform_alpha", 25).await;
    app.connect(&customer, "platform_delta").await;
    let path = format!("/v1/{account}/exports");
    let with = |field: &str, value: Value| {
        let mut wish = json!({"dataset": "subscribers"});
        wish[field] = value;
        wish
    };
    let with_mark = |fmt: &str| json!({"dataset": "subscribers", "fmt": fmt, "csv_bom": true});
    let chat = |params: Value| json!({"dataset": "chat_messages", "params": params});
    for (wish, field) in [
        (json!({}), "body.dataset"),
        (json!({"dataset": "nothing"}), "body.dataset"),
        (json!({"dataset": "subscriptions"}), "body.dataset"),
        (with("fmt", json!("xml")), "body.fmt"),
        (with("csv_bom", json!("true")), "body.csv_bom"),
        (with("csv_bom", json!(1)), "body.csv_bom"),
        (with_mark("jsonl"), "body.csv_bom"),
        (with_mark("xlsx"), "body.csv_bom"),
        (with_mark("zip"), "body.csv_bom"),
        (with("max_rows", json!(0)), "body.max_rows"),
        (with("max_rows", json!(-1)), "body.max_rows"),
        (with("max_rows", json!(9_223_372_036_854_775_808_u64)), "body.max_rows"),
        (with("max_rows", json!(1.5)), "body.max_rows"),
        (with("max_rows", json!("1")), "body.max_rows"),
        (with("params", json!({"chat_id": "1"})), "body.params.chat_id"),
        (with("params", json!([])), "body.params"),
        (with("start_date", json!("2024-02-30")), "body.start_date"),
        (with("start_date", json!("2024-01-01T00:00:00")), "body.start_date"),
        (with("end_date", json!("2024-01-01T23:59:60Z")), "body.end_date"),
        (with("end_date", json!("9999-01-01")), "body.end_date"),
        (with("end_date", json!("+00:00")), "body.end_date"),
        (with("rows", json!(1)), "body.rows"),
        (chat(json!({})), "body.params.chat_id"),
        (chat(json!({"chat_id": "ada"})), "body.params.chat_id"),
        (chat(json!({"chat_id": "../me"})), "body.params.chat_id"),
        (chat(json!({"chat_id": -7})), "body.params.chat_id"),
    ] {
        let reply = client.post(&path, &wish).await;
        assert_eq!(
            reply.wrong_fields().first().map(|(place, _)| place.as_str()),
            Some(field),
            "{wish}"
        );
    }
    let turned =
        json!({"dataset": "subscribers", "start_date": "2024-02-02", "end_date": "2024-02-01"});
    assert_eq!(client.post(&path, &turned).await.status, 422);
    for wish in
        [json!({"dataset": "media_archive"}), json!({"dataset": "subscribers", "fmt": "media_zip"})]
    {
        let failure = client.post(&path, &wish).await.failure();
        assert_eq!(failure, (422, "media_archive_unavailable".to_owned()));
    }
    assert_eq!(money(&client).await, (25, 0, 0));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_requests_are_refused_as_for_native_calls() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 15).await;
        let path = format!("/v1/{account}/exports");
        let read_only = json!({"name": "reader", "scope": "read_only"});
        let reader = client.post("/v1/auth/keys", &read_only).await.json();
        let reader = app.with_key(reader["api_key"].as_str().unwrap());
        let limited = json!({"name": "small", "scope": "full", "monthly_budget_credits": 9});
        let limited = client.post("/v1/auth/keys", &limited).await.json();
        let limited = app.with_key(limited["api_key"].as_str().unwrap());

        let failure = |reply: test_service::Reply| reply.failure();
        assert_eq!(
            failure(reader.post(&path, &ten("csv")).await),
            (403, "read_only_key".to_owned())
        );
        let over = failure(limited.post(&path, &ten("csv")).await);
        assert_eq!(over, (402, "key_budget_exhausted".to_owned()));
        let unknown = failure(client.post("/v1/nobody/exports", &ten("csv")).await);
        assert_eq!(unknown, (404, "account_not_found".to_owned()));
        created(&client, &account, &ten("csv")).await;
        let keys = client.get("/v1/auth/keys").await.json();
        let mut keys = keys["keys"].as_array().unwrap().iter();
        assert!(keys.any(|key| key["used_this_month"] == 10), "an export counts as calls do");
        let broke = client.post(&path, &ten("csv")).await;
        assert_eq!(broke.failure(), (402, "insufficient_credits".to_owned()));
        assert_eq!(
            (broke.json()["balance"].as_i64(), broke.json()["cost"].as_i64()),
            (Some(5), Some(10))
        );
        app.staff(json!({"command": "disable_key", "key": customer.key_id})).await;
        assert_eq!(failure(client.post(&path, &ten("csv")).await), (401, "invalid_key".to_owned()));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_creates_one_export_and_one_charge() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 10).await;
        let path = format!("/v1/{account}/exports");
        let keyed = client.with("idempotency-key", "monday");

        let first = keyed.post(&path, &ten("csv")).await;
        let again = keyed.post(&path, &ten("csv")).await;

        assert_eq!((first.status, again.status), (201, 201), "{}", again.text());
        assert_eq!(first.json(), again.json());
        assert_eq!(
            (again.header("idempotent-replayed"), again.header("x-credits-cost")),
            ("true", "0")
        );
        let other = keyed.post(&path, &ten("jsonl")).await;
        assert_eq!(other.failure(), (422, "idempotency_mismatch".to_owned()));
        let unkeyed = client.post(&path, &ten("csv")).await;
        assert_eq!(unkeyed.failure(), (402, "insufficient_credits".to_owned()));
        assert_eq!(money(&client).await, (0, 10, 0));
        let bad = client.with("idempotency-key", "a b").post(&path, &ten("csv")).await;
        assert_eq!(bad.failure(), (400, "invalid_idempotency_key".to_owned()));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_concurrent_requests_twenty_are_accepted() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 5_000).await;
        let path = format!("/v1/{account}/exports");
        let requests = (0..100).map(|_| {
            let (client, path) = (client.clone(), path.clone());
            async move { client.post(&path, &ten("csv")).await }
        });

        let replies = test_service::at_once(requests).await;

        let (taken, refused): (Vec<_>, Vec<_>) =
            replies.into_iter().partition(|reply| reply.status == 201);
        assert_eq!((taken.len(), refused.len()), (20, 80));
        for reply in refused {
            assert_eq!(reply.failure(), (429, "too_many_exports".to_owned()));
            assert_eq!(reply.header("retry-after"), "30");
        }
        assert_eq!(money(&client).await, (4_800, 200, 0));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_read_leaves_no_file_and_costs_nothing() {
    with_app(async |app| {
        for (platform, fault, code) in [
            (
                "platform_alpha",
                json!({"kind": "missing_field", "field": "hasMore"}),
                "missing_has_more",
            ),
            ("platform_alpha", json!({"kind": "repeat_pages", "pages": 1}), "repeated_page"),
            ("platform_gamma", json!({"kind": "status", "status": 403}), "platform_refused"),
        ] {
            let (_, client, account) = app.ready(platform, 10).await;
            let mut fault = fault;
            fault["platform"] = json!(platform);
            app.fault(&fault).await;

            let wish = json!({"dataset": "subscribers"});
            let export =
                while_time_passes(&app, Box::pin(made(&app, &client, &account, &wish))).await;

            app.no_faults().await;
            assert_eq!(export["status"], "failed", "{export}");
            let error = &export["error"];
            assert_eq!((&error["code"], &error["retryable"]), (&json!(code), &json!(false)));
            assert_eq!(money(&client).await, (10, 0, 0));
            let id = id_of(&export);
            let download = client.get(&format!("/v1/exports/{id}/download")).await;
            assert_eq!(download.failure(), (409, "export_not_ready".to_owned()));
            assert_eq!(export["download_url"], Value::Null);
            let left = super::files::stored(&app);
            assert_eq!(left, [""; 0], "spools of finished exports must be removed");
        }
        app
    })
    .await;
}
