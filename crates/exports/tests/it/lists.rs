//! The list of all exports: its contents, who sees them, and why files are gone.

use serde_json::{Value, json};

use super::files::{link, stored};
use super::{created, id_of, made, record, ten};
use test_service::{Client, TestApp, with_app};

const ALL: &str = "/v1/exports";

/// The ids in a list, newest first.
async fn ids(client: &Client, query: &str) -> Vec<String> {
    let reply = client.get(&format!("{ALL}{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    let listed = reply.json();
    listed["exports"].as_array().unwrap().iter().map(|export| id_of(export).to_owned()).collect()
}

/// The credits of an export: charged, held, refunded.
fn credits(export: &Value) -> (i64, i64, i64) {
    let part = |name: &str| export["credits"][name].as_i64().unwrap();
    (part("charged"), part("held"), part("refunded"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_of_exports_can_be_filtered_and_a_limited_key_sees_only_its_own() {
    with_app(async |app| {
        let (customer, client, alpha) = app.ready("platform_alpha", 100).await;
        let beta = app.connect(&customer, "platform_beta").await;
        let done = made(&app, &client, &alpha, &ten("csv")).await;
        app.advance_seconds(1);
        let chats = json!({"dataset": "chats", "max_rows": 5});
        let cancelled = created(&client, &beta, &chats).await;
        client.post(&format!("{ALL}/{cancelled}/cancel"), &json!({})).await;
        app.advance_seconds(1);
        let waiting = created(&client, &beta, &ten("csv")).await;
        let done = id_of(&done).to_owned();
        let all = [waiting.clone(), cancelled.clone(), done.clone()];

        assert_eq!(ids(&client, "").await, all);
        assert_eq!(ids(&client, &format!("?account={beta}")).await, all[..2]);
        assert_eq!(ids(&client, "?platform=platform_alpha").await, all[2..]);
        assert_eq!(ids(&client, "?dataset=chats").await, all[1..2]);
        assert_eq!(ids(&client, "?status=pending").await, all[..1]);
        assert_eq!(ids(&client, "?status=completed&platform=platform_beta").await, [""; 0]);
        assert_eq!(credits(&record(&client, &done).await), (10, 0, 0));
        assert_eq!(credits(&record(&client, &waiting).await), (0, 10, 0));
        assert_eq!(credits(&record(&client, &cancelled).await), (0, 0, 10));

        let new = json!({"name": "limited", "scope": "read_only", "accounts": [beta]});
        let key = client.post("/v1/auth/keys", &new).await.json();
        let limited = app.with_key(key["api_key"].as_str().unwrap());
        assert_eq!(ids(&limited, "").await, all[..2]);
        assert_eq!(ids(&limited, &format!("?account={alpha}")).await, [""; 0]);
        let deleted = limited.get("/v1/exports?status=deleted").await;
        assert_eq!(deleted.failure(), (403, "limited_key".to_owned()));
        let stranger = app.customer(0).await;
        assert_eq!(ids(&app.with_key(&stranger.key), "").await, [""; 0]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_of_exports_is_paged_and_wrong_parameters_are_reported() {
    let app = TestApp::on_sqlite("").await;
    let (customer, client, alpha) = app.ready("platform_alpha", 100).await;
    let beta = app.connect(&customer, "platform_beta").await;
    let mut made = Vec::new();
    for account in [&alpha, &beta, &alpha, &beta, &alpha] {
        made.push(created(&client, account, &ten("csv")).await);
        app.advance_seconds(1);
    }
    made.reverse();

    let (mut listed, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{ALL}?limit=2{next}")).await.json();
        let exports = page["exports"].as_array().unwrap();
        listed.extend(exports.iter().map(|export| id_of(export).to_owned()));
        let Some(before) = page["next_before"].as_str() else { break };
        next = format!("&before={before}");
    }

    assert_eq!(listed, made);
    let wrong = ["limit=0", "before=x", "status=done", "platform=x", "dataset=x", "account=%20"];
    for query in wrong.into_iter().chain(["colour=red"]) {
        let reply = client.get(&format!("{ALL}?{query}")).await;
        let (name, _) = query.split_once('=').unwrap();
        assert_eq!(reply.wrong_fields()[0].0, format!("query.{name}"), "{query}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_lost_by_the_storage_is_reported_until_it_is_back() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let export = made(&app, &client, &account, &ten("csv")).await;
        let (id, shared) = (id_of(&export).to_owned(), link(&export));
        let path = format!("{ALL}/{id}/download");
        let file = app.exports_folder().join(&stored(&app)[0]);
        let content = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();

        let missing = (410, "export_file_missing".to_owned());
        assert_eq!(client.get(&path).await.failure(), missing);
        assert_eq!(client.get(&path).await.failure(), missing, "the second request must fail too");
        assert_eq!(app.anonymous().get(&shared).await.failure(), missing);
        let gone = record(&client, &id).await;
        assert_eq!(gone["status"], "expired", "{gone}");
        assert_eq!(gone["removal"]["reason"], "file_missing", "{gone}");
        for absent in ["download_url", "rows", "bytes", "sha256"] {
            assert_eq!(gone[absent], Value::Null, "{absent}");
        }
        assert_eq!(credits(&gone), (10, 0, 0));
        assert_eq!(ids(&client, "?status=expired").await, [id.as_str()]);
        assert_eq!(ids(&client, "?status=completed").await, [""; 0]);

        std::fs::write(&file, content).unwrap();
        assert_eq!(client.get(&path).await.status, 200);
        let back = record(&client, &id).await;
        assert_eq!((&back["status"], &back["removal"]), (&json!("completed"), &Value::Null));
        assert_eq!(back["sha256"], export["sha256"]);

        std::fs::remove_file(&file).unwrap();
        assert_eq!(client.get(&path).await.failure(), missing);
        app.advance_seconds(7 * 86_400);
        app.running().clean_up_exports().await;
        assert_eq!(
            client.get(&path).await.failure(),
            missing,
            "the file must count as missing, not expired"
        );
        assert_eq!(record(&client, &id).await["removal"]["reason"], "file_missing");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_exports_are_listed_on_request_with_their_cost_and_reason() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 30).await;
        let kept = made(&app, &client, &account, &ten("csv")).await;
        let removed = made(&app, &client, &account, &ten("csv")).await;
        assert_eq!(client.delete(&format!("{ALL}/{}", id_of(&removed))).await.status, 204);

        assert_eq!(ids(&client, "").await, [id_of(&kept)]);
        let listed = client.get(&format!("{ALL}?status=deleted")).await.json();
        let [entry] = &listed["exports"].as_array().unwrap()[..] else { panic!("{listed}") };
        assert_eq!(id_of(entry), id_of(&removed));
        assert_eq!(entry["removal"]["reason"], "removed_by_customer");
        assert_eq!((credits(entry), &entry["download_url"]), ((10, 0, 0), &Value::Null));
        assert_eq!(client.get(&format!("{ALL}/{}", id_of(&removed))).await.status, 404);

        app.advance_seconds(7 * 86_400);
        app.running().clean_up_exports().await;
        let expired = record(&client, id_of(&kept)).await;
        assert_eq!(
            (&expired["status"], &expired["removal"]["reason"]),
            (&json!("expired"), &json!("retention"))
        );
        app
    })
    .await;
}
