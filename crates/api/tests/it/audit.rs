//! The audit list: entries with ids of their own, and structured details.

use serde_json::{Value, json};
use test_service::{Client, TestApp, with_app};

async fn entries(client: &Client, query: &str) -> Vec<Value> {
    let reply = client.get(&format!("/v1/audit{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["entries"].as_array().unwrap().clone()
}

/// An entry in the format of earlier versions.
async fn written_before(app: &TestApp, customer: &str, number: u8) -> String {
    let id = format!("ent_0199{number:028}");
    let entry = store::audit::AuditEntry {
        id: id.parse().unwrap(),
        customer: customer.parse().unwrap(),
        at: app.clock.now(),
        actor: "operator".to_owned(),
        action: "key.created".to_owned(),
        details: "key_1 (first), full".to_owned(),
    };
    store::audit::record(app.store(), &entry).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_have_structured_details() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 0).await;
        app.advance_seconds(1);
        let limits = json!({
            "name": "robot", "scope": "full", "accounts": [account], "monthly_budget_credits": 3,
        });
        let key = client.post("/v1/auth/keys", &limits).await.json()["key_id"].clone();
        app.advance_seconds(1);
        let path = format!("/v1/auth/keys/{}", key.as_str().unwrap());
        client.json("PATCH", &path, &json!({"accounts": null, "name": "human"})).await;

        let all = entries(&client, "").await;

        let told: Vec<(&str, &Value)> = all
            .iter()
            .map(|entry| (entry["action"].as_str().unwrap(), &entry["details"]))
            .collect();
        assert_eq!(
            told,
            [
                ("key.changed", &json!({"key_id": key, "name": "human", "accounts": null})),
                (
                    "key.created",
                    &json!({
                        "key_id": key, "name": "robot", "scope": "full", "accounts": [account],
                        "monthly_budget_credits": 3,
                    })
                ),
                (
                    "account.connected",
                    &json!({"creator_id": account, "platform": "platform_alpha"})
                ),
            ]
        );
        assert!(all.iter().all(|entry| entry["actor"] == customer.key_id.as_str()), "{all:?}");
        app
    })
    .await;
}

/// Ids of the audit list differ from those of the ledger, and paging accepts both spellings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_ids_have_their_own_prefix_and_old_entries_stay_readable() {
    with_app(async |app| {
        let (customer, client, _) = app.ready("platform_alpha", 5).await;
        let mut old = Vec::new();
        for number in 1..=2 {
            app.advance_seconds(1);
            old.push(written_before(&app, &customer.id, number).await);
        }

        let all = entries(&client, "").await;

        let ids: Vec<&str> = all.iter().map(|entry| entry["entry_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 4, "{all:?}");
        assert!(ids.iter().all(|id| id.starts_with("aud_")), "{ids:?}");
        assert_eq!(ids[0], old[1].replace("ent_", "aud_"));
        assert_eq!(all[0]["details"], json!({"text": "key_1 (first), full"}));
        for before in [old[1].clone(), old[1].replace("ent_", "aud_")] {
            let rest = entries(&client, &format!("?before={before}")).await;
            assert_eq!(rest, all[1..], "{before}");
        }
        let ledger = client.get("/v1/billing").await.json()["ledger"].clone();
        assert!(ledger[0]["entry_id"].as_str().unwrap().starts_with("ent_"), "{ledger}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_of_actions_is_text_and_no_pattern() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        for name in ["one", "two"] {
            let body = json!({"name": name, "scope": "full"});
            assert_eq!(client.post("/v1/auth/keys", &body).await.status, 201);
        }
        let found = async |action: &str| {
            let list = entries(&client, &format!("?action={action}")).await;
            list.iter()
                .map(|entry| entry["action"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let all = found("key.").await;

        assert!(all.len() >= 2 && all.iter().all(|action| action.starts_with("key.")), "{all:?}");
        assert_eq!(found("key.created").await, found("key.creat").await);
        for none in ["%25", "_ey.", "key%25", "KEY.", "key.created.", "%5C"] {
            assert_eq!(found(none).await, Vec::<String>::new(), "{none}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_filtered_list_are_the_whole_and_a_foreign_entry_opens_nothing() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        for number in 0..5 {
            let body = json!({"name": format!("key {number}"), "scope": "full"});
            assert_eq!(client.post("/v1/auth/keys", &body).await.status, 201);
            app.advance_seconds(1);
        }
        let whole = entries(&client, "?action=key.created").await;

        let (mut pages, mut next) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/audit?action=key.created&limit=2{next}");
            let page = client.get(&path).await.json();
            pages.extend(page["entries"].as_array().unwrap().clone());
            let Some(before) = page["next_before"].as_str() else { break };
            next = format!("&before={before}");
        }
        let other = app.with_key(&app.customer(0).await.key);
        let last = whole[0]["entry_id"].as_str().unwrap();
        let foreign = entries(&other, &format!("?before={last}")).await;

        assert_eq!(pages, whole);
        assert!(whole.len() >= 5, "{whole:?}");
        let own: Vec<_> = foreign.iter().map(|entry| &entry["entry_id"]).collect();
        assert!(whole.iter().all(|entry| !own.contains(&&entry["entry_id"])), "{own:?}");
        app
    })
    .await;
}
