//! The states of exports: cancelled, deleted, expired, continued by another node, viewed by staff.

use serde_json::json;

use super::files::stored;
use super::{created, id_of, made, money, record, ten};
use test_service::{TestApp, with_app};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_running_export_can_be_cancelled_and_only_a_finished_one_deleted() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let path = |id: &str, end: &str| format!("/v1/exports/{id}{end}");

        let waiting = created(&client, &account, &ten("csv")).await;
        assert_eq!(
            client.delete(&path(&waiting, "")).await.failure(),
            (409, "export_not_over".to_owned())
        );
        let download = client.get(&path(&waiting, "/download")).await;
        assert_eq!(download.failure(), (409, "export_not_ready".to_owned()));
        let cancelled = client.post(&path(&waiting, "/cancel"), &json!({})).await;
        assert_eq!(
            (cancelled.status, cancelled.json()["status"].as_str()),
            (200, Some("cancelled"))
        );
        assert_eq!(money(&client).await, (20, 0, 0));
        let again = client.post(&path(&waiting, "/cancel"), &json!({})).await;
        assert_eq!(again.failure(), (409, "export_over".to_owned()));

        let export = made(&app, &client, &account, &ten("csv")).await;
        let done = id_of(&export);
        let late = client.post(&path(done, "/cancel"), &json!({})).await;
        assert_eq!(late.failure(), (409, "export_over".to_owned()));
        assert_eq!(stored(&app).len(), 1, "there must be one file and no spool");
        assert_eq!(client.delete(&path(done, "")).await.status, 204);
        assert_eq!(client.delete(&path(done, "")).await.failure(), (404, "not_found".to_owned()));
        assert_eq!(client.get(&path(done, "")).await.status, 404);
        assert_eq!(client.get(&path(done, "/download")).await.status, 404);
        app.running().clean_up_exports().await;
        assert_eq!(stored(&app), [""; 0]);
        let listed = client.get(&format!("/v1/{account}/exports")).await.json();
        assert_eq!(listed["exports"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(money(&client).await, (10, 0, 10), "the ledger must not change");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_kept_until_its_expiry_and_then_gone() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_gamma", 20).await;
        let export = made(&app, &client, &account, &ten("csv")).await;
        assert_eq!(stored(&app).len(), 1);

        app.advance_seconds(7 * 86_400);
        app.running().clean_up_exports().await;

        let later = record(&client, id_of(&export)).await;
        assert_eq!(later["status"], "expired");
        let gone = client.get(&format!("/v1/exports/{}/download", id_of(&export))).await;
        assert_eq!(gone.failure(), (410, "export_expired".to_owned()));
        assert_eq!(stored(&app), [""; 0]);
        assert_eq!(money(&client).await.0, 10, "the export must stay charged");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exports_of_an_account_are_paged() {
    let app = TestApp::on_sqlite("").await;
    let (_, client, account) = app.ready("platform_alpha", 100).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(created(&client, &account, &ten("csv")).await);
        app.advance_seconds(1);
    }
    ids.reverse();
    let path = format!("/v1/{account}/exports");

    let mut listed = Vec::new();
    let mut next = String::new();
    loop {
        let page = client.get(&format!("{path}?limit=2{next}")).await.json();
        let exports = page["exports"].as_array().unwrap();
        listed.extend(exports.iter().map(|export| id_of(export).to_owned()));
        let Some(before) = page["next_before"].as_str() else { break };
        next = format!("&before={before}");
    }

    assert_eq!(listed, ids);
    for (query, field) in
        [("limit=0", "query.limit"), ("limit=201", "query.limit"), ("before=x", "query.before")]
    {
        let reply = client.get(&format!("{path}?{query}")).await;
        assert_eq!(reply.wrong_fields()[0].0, field);
    }
    assert_eq!(client.get("/v1/nobody/exports").await.failure().1, "account_not_found");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_view_exports_with_consent_and_delete_them_with_the_permission() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 20).await;
        let staff = app.customer(0).await;
        let desk = app.with_key(&staff.key);
        let permit = async |permission: &str| {
            let grant = json!({"command": "grant_permission", "customer": staff.id, "permission": permission});
            app.staff(grant).await;
        };
        let export = made(&app, &client, &account, &ten("csv")).await;
        let path = format!("/v1/exports/{}", id_of(&export));
        let list = format!("/v1/support/customers/{}/exports", customer.id);

        assert_eq!(desk.get(&path).await.failure(), (404, "not_found".to_owned()), "without a permission the export must not be found");
        permit("support.read").await;
        assert_eq!(desk.get(&path).await.failure().1, "support_access_closed");
        assert_eq!(desk.get(&list).await.failure().1, "support_access_closed");
        client.post("/v1/support-access", &json!({"enabled": true})).await;
        let seen = desk.get(&path).await.json();
        assert_eq!((seen["status"].as_str(), seen["download_url"].as_str()), (Some("completed"), None));
        assert_eq!(desk.get(&list).await.json()["exports"].as_array().unwrap().len(), 1);
        let file = desk.get(&format!("{path}/download")).await;
        assert_eq!(file.failure(), (404, "not_found".to_owned()), "staff must not get the data");
        assert_eq!(desk.delete(&path).await.failure(), (403, "missing_permission".to_owned()));
        permit("data-export.manage").await;
        app.advance_seconds(1);
        assert_eq!(desk.delete(&path).await.status, 204);
        assert_eq!(client.get(&path).await.status, 404);
        let removed = client.get("/v1/exports?status=deleted").await.json();
        assert_eq!(removed["exports"][0]["removal"]["reason"], "removed_by_support", "{removed}");
        let audit = client.get("/v1/audit?action=support.").await.json();
        let words: Vec<&str> = audit["entries"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
        assert_eq!(words, ["support.export_deleted", "support.exports_read", "support.exports_read"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_service_releases_its_exports_and_another_one_continues() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[exports]\nworkers = 1").await;
    let (_, client, account) = app.ready("platform_alpha", 20).await;
    let wish = json!({"dataset": "subscribers", "fmt": "jsonl"});
    let id = created(&client, &account, &wish).await;
    let whole = loop {
        let export = record(&client, &id).await;
        if export["status"] == "completed" {
            break export;
        }
    };
    let pages = |seen: &[serde_json::Value]| {
        seen.iter().filter(|one| one["path"].as_str().unwrap().contains("subscribers")).count()
    };
    let undisturbed = pages(&app.seen("platform_alpha").await);
    assert!(undisturbed > 2, "{undisturbed}");
    // The second page is slow, and the service stops in the meantime.
    app.fault(
            &json!({"kind": "delay", "ms": 60_000, "path": "subscriptions/subscribers", "after": 1, "times": 1}),
        )
        .await;
    let interrupted = created(&client, &account, &wish).await;
    while pages(&app.seen("platform_alpha").await) < undisturbed + 2 {
        tokio::task::yield_now().await;
    }

    let app = app.restart().await;
    app.no_faults().await;
    let client = client_again(&app, &client);

    let again = loop {
        let export = record(&client, &interrupted).await;
        if export["status"] == "completed" {
            break export;
        }
    };
    assert_eq!(again["sha256"], whole["sha256"]);
    let fetched = pages(&app.seen("platform_alpha").await) - undisturbed;
    assert_eq!(fetched, undisturbed + 1, "only the interrupted page must be fetched again");
    assert_eq!(money(&client).await, (0, 0, 20));
    app.end().await;
}

/// The same customer with the restarted service.
fn client_again(app: &TestApp, client: &test_service::Client) -> test_service::Client {
    client.at(app.running().address())
}

/// Publishing the file and cancelling exclude each other at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_cancelled_around_its_completion_is_either_completed_or_cancelled() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[exports]\nworkers = 2").await;
    let (_, client, account) = app.ready("platform_alpha", 1_000).await;
    for round in 0..20_u64 {
        let id = created(&client, &account, &ten("csv")).await;
        for _ in 0..round {
            record(&client, &id).await;
        }
        let cancelling = client.post(&format!("/v1/exports/{id}/cancel"), &json!({})).await;
        assert!([200, 202, 409].contains(&cancelling.status), "{}", cancelling.text());

        let ended = loop {
            let export = record(&client, &id).await;
            if export["status"] == "completed" || export["status"] == "cancelled" {
                break export;
            }
        };

        let download = client.get(&format!("/v1/exports/{id}/download")).await.status;
        let is_whole = ended["status"] == "completed";
        assert_eq!(is_whole, cancelling.status == 409, "{ended}");
        assert_eq!(download, if is_whole { 200 } else { 409 });
    }
    app.end().await;
}
