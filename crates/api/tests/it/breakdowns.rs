//! The breakdown of spending: whose it is, where a day ends, and that its pages are the whole.

use serde_json::{Value, json};
use test_service::{Client, Reply, TestApp, with_app};

const BREAKDOWN: &str = "/v1/billing/usage/breakdown";

async fn asked(client: &Client, query: &str) -> Reply {
    client.get(&format!("{BREAKDOWN}?{query}")).await
}

async fn breakdown(client: &Client, query: &str) -> Value {
    let reply = asked(client, query).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply.json()
}

/// Name and credits of each entry.
fn entries(breakdown: &Value) -> Vec<(Option<&str>, i64)> {
    let entries = breakdown["entries"].as_array().unwrap().iter();
    entries.map(|entry| (entry["name"].as_str(), entry["credits"].as_i64().unwrap())).collect()
}

/// A key with these limits: its id, and a client with it.
async fn key_of(app: &TestApp, owner: &Client, limits: Value) -> (String, Client) {
    let mut body = json!({"name": "made", "scope": "full"});
    body.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    let made = owner.post("/v1/auth/keys", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("key_id"), app.with_key(&text("api_key")))
}

async fn read(app: &TestApp, client: &Client, account: &str) {
    let reply = client.get(&format!("/v1/{account}/native/users/me")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    app.settled(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_sees_its_own_spending_unless_it_asks_for_all() {
    with_app(async |app| {
        let (_customer, owner, account) = app.ready("platform_alpha", 100).await;
        let (_, second) = key_of(&app, &owner, json!({})).await;
        read(&app, &owner, &account).await;
        read(&app, &second, &account).await;
        read(&app, &second, &account).await;

        let own = breakdown(&second, "by=account").await;
        let all = breakdown(&second, "by=account&scope=customer").await;

        assert_eq!((&own["scope"], entries(&own)), (&json!("key"), vec![(Some(&*account), 2)]));
        assert_eq!(
            (&all["scope"], entries(&all)),
            (&json!("customer"), vec![(Some(&*account), 3)])
        );
        assert_eq!(all["key_id"], Value::Null);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_sees_nothing_of_other_keys_and_accounts() {
    with_app(async |app| {
        let (customer, owner, account) = app.ready("platform_alpha", 100).await;
        let other = app.connect(&customer, "platform_beta").await;
        let (id, limited) = key_of(&app, &owner, json!({"accounts": [account, other]})).await;
        read(&app, &owner, &account).await;
        read(&app, &limited, &account).await;
        let both = breakdown(&limited, "by=account").await;
        let narrower = json!({"accounts": [other]});
        let patched = owner.json("PATCH", &format!("/v1/auth/keys/{id}"), &narrower).await;
        assert_eq!(patched.status, 200, "{}", patched.text());

        let after = breakdown(&limited, "by=account").await;
        let all = asked(&limited, "by=account&scope=customer").await;
        let owners = asked(&limited, &format!("by=account&key_id={}", customer.key_id)).await;

        assert_eq!(entries(&both), [(Some(account.as_str()), 1)]);
        assert_eq!(entries(&after), [], "it may not use that account any more");
        assert_eq!((all.status, owners.status), (403, 403), "{} {}", all.text(), owners.text());
        let of_limited = breakdown(&owner, &format!("by=account&key_id={id}")).await;
        assert_eq!(entries(&of_limited), [(Some(account.as_str()), 1)], "its owner still sees it");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_keeps_its_spending_and_a_foreign_one_is_not_found() {
    with_app(async |app| {
        let (_customer, owner, account) = app.ready("platform_alpha", 100).await;
        let (id, second) = key_of(&app, &owner, json!({})).await;
        read(&app, &second, &account).await;
        assert_eq!(owner.delete(&format!("/v1/auth/keys/{id}")).await.status, 204);

        let by_key = breakdown(&owner, "by=key&scope=customer").await;
        let of_deleted = breakdown(&owner, &format!("by=account&key_id={id}")).await;
        let stranger = app.with_key(&app.customer(0).await.key);
        let foreign = asked(&stranger, &format!("by=account&key_id={id}")).await;
        let unknown = "by=account&key_id=key_019ab3c4d5e67f8091a2b3c4d5e6f708";

        assert_eq!(entries(&by_key), [(Some(id.as_str()), 1)]);
        assert_eq!(entries(&of_deleted), [(Some(account.as_str()), 1)]);
        assert_eq!(foreign.status, 404, "{}", foreign.text());
        assert_eq!(foreign.json()["detail"], asked(&stranger, unknown).await.json()["detail"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_is_one_of_utc_from_its_first_to_its_last_second() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        // From noon to the last second of the day, and to the first of the next one.
        app.advance_seconds(12 * 3_600 - 1);
        read(&app, &client, &account).await;
        app.advance_seconds(1);
        read(&app, &client, &account).await;
        read(&app, &client, &account).await;
        let day = async |day: &str| {
            let found = breakdown(&client, &format!("from={day}&to={day}")).await;
            assert_eq!((&found["from"], &found["to"]), (&json!(day), &json!(day)));
            found["total"]["calls"].as_i64().unwrap()
        };

        assert_eq!(day("2026-11-20").await, 0);
        assert_eq!(day("2026-11-21").await, 1);
        assert_eq!(day("2026-11-22").await, 2);
        assert_eq!(day("2026-11-23").await, 0, "a day to come is empty");
        let both = breakdown(&client, "from=2026-11-21&to=2026-11-22").await;
        assert_eq!(both["total"]["credits"], json!(3));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_entry_are_the_whole_in_its_order() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        for (tag, times) in [("b", 1), ("a", 1), ("c", 2), ("B", 1)] {
            for _ in 0..times {
                read(&app, &client.with("x-tag", tag), &account).await;
            }
        }
        read(&app, &client, &account).await;
        let whole = breakdown(&client, "by=tag").await;

        let (mut pages, mut next) = (Vec::new(), String::new());
        loop {
            let page = breakdown(&client, &format!("by=tag&limit=1{next}")).await;
            assert_eq!(page["total"], whole["total"], "the sums are those of every page");
            pages.extend(page["entries"].as_array().unwrap().clone());
            let Some(before) = page["next_before"].as_str() else { break };
            next = format!("&before={before}");
        }

        assert_eq!(json!(pages), whole["entries"]);
        assert_eq!((entries(&whole)[0], pages.len()), ((Some("c"), 2), 5));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradicting_parameters_are_refused_and_named() {
    let app = TestApp::on_sqlite("").await;
    let (customer, client, _account) = app.ready("platform_alpha", 1).await;
    let id = customer.key_id.as_str();
    for (query, field) in [
        (format!("scope=customer&key_id={id}"), "query.key_id"),
        ("key_id=nobody".to_owned(), "query.key_id"),
        ("scope=everyone".to_owned(), "query.scope"),
        ("by=day".to_owned(), "query.by"),
        ("limit=0".to_owned(), "query.limit"),
        ("days=7".to_owned(), "query.days"),
        ("by=tag&by=key".to_owned(), "query.by"),
    ] {
        let refused = asked(&client, &query).await;

        assert_eq!(refused.status, 422, "{query}: {}", refused.text());
        assert_eq!(refused.wrong_fields()[0].0, field, "{query}");
    }
    app.end().await;
}
