//! The ledger page by page, and which spending each caller sees.

use serde_json::{Value, json};
use test_service::app::Customer;
use test_service::{Client, TestApp, with_app};

const LEDGER: &str = "/v1/billing/ledger";
const DAY_S: i64 = 86_400;

fn lines(page: &Value) -> Vec<(String, i64, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let line = |entry: &Value| {
        (text(&entry["kind"]), entry["amount"].as_i64().unwrap(), text(&entry["at"]))
    };
    page["entries"].as_array().unwrap().iter().map(line).collect()
}

async fn page(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("{LEDGER}{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply.json()
}

/// Reads all pages of this size.
async fn walked(client: &Client, limit: usize, kind: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut next = String::new();
    loop {
        let page = page(client, &format!("?limit={limit}{kind}{next}")).await;
        all.extend(page["entries"].as_array().unwrap().iter().cloned());
        match page["next_before"].as_str() {
            Some(before) => next = format!("&before={before}"),
            None => return all,
        }
    }
}

/// A customer with grants on three days, two of them on the second, and calls on the first two
/// days.
async fn history(app: &TestApp) -> Client {
    let (customer, client, account) = app.ready("platform_alpha", 100).await;
    let call = async |times: usize| {
        for _ in 0..times {
            client.get(&format!("/v1/{account}/native/users/me")).await;
        }
        app.settled(&client).await;
    };
    call(2).await;
    app.advance_seconds(DAY_S);
    call(3).await;
    granted(app, &customer, 10).await;
    app.advance_seconds(60);
    granted(app, &customer, 20).await;
    app.advance_seconds(DAY_S);
    granted(app, &customer, 30).await;
    client
}

/// Grants credits to a customer; each amount works once.
async fn granted(app: &TestApp, customer: &Customer, credits: i64) {
    let grant = json!({
        "command": "grant_credits", "customer": customer.id, "credits": credits,
        "reference": format!("{credits} for a test"),
    });
    app.staff(grant).await;
}

/// A day's usage is listed at the end of the day, after the day's grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_ledger_can_be_paged_with_usage_in_its_place() {
    with_app(async |app| {
        let client = history(&app).await;

        let whole = page(&client, "").await;

        let line = |kind: &str, amount: i64, at: &str| (kind.to_owned(), amount, at.to_owned());
        assert_eq!(
            lines(&whole),
            [
                line("adjustment", 30, "2026-11-23T12:01:00.000000Z"),
                line("adjustment", 20, "2026-11-22T12:01:00.000000Z"),
                line("adjustment", 10, "2026-11-22T12:00:00.000000Z"),
                line("usage", -3, "2026-11-22T12:00:00.000000Z"),
                line("usage", -2, "2026-11-21T23:59:59.999999Z"),
                line("adjustment", 100, "2026-11-21T12:00:00.000000Z"),
            ]
        );
        assert_eq!(whole["next_before"], Value::Null);
        let entries = whole["entries"].as_array().unwrap().clone();
        for entry in &entries {
            let is_sum = entry["kind"] == "usage";
            assert_eq!(entry["entry_id"].is_null(), is_sum, "{entry}");
        }
        let balances: Vec<i64> =
            entries.iter().map(|entry| entry["balance_after"].as_i64().unwrap()).collect();
        assert_eq!(balances, [155, 125, 105, 95, 98, 100]);
        for limit in 1..=7 {
            assert_eq!(walked(&client, limit, "").await, entries, "limit {limit}");
        }
        assert_eq!(client.get("/v1/billing").await.json()["ledger"], json!(entries));
        app
    })
    .await;
}

/// The current day's usage is listed above the grant it was paid from, and never with a time in the
/// future.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn todays_usage_is_listed_above_the_grant_it_was_paid_from() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 100).await;
        granted(&app, &customer, 5).await;
        client.get(&format!("/v1/{account}/native/users/me")).await;
        app.settled(&client).await;
        app.clock.advance_seconds(30);

        let kinds: Vec<(String, String)> =
            lines(&page(&client, "").await).into_iter().map(|(kind, _, at)| (kind, at)).collect();

        assert_eq!(kinds[0], ("usage".to_owned(), "2026-11-21T12:00:30.000000Z".to_owned()));
        assert!(kinds[1..].iter().all(|(kind, _)| kind == "adjustment"), "{kinds:?}");
        assert_eq!(walked(&client, 1, "").await.len(), 3);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_filtered_by_kind_and_wrong_parameters_are_reported() {
    with_app(async |app| {
        let client = history(&app).await;

        for (kind, count) in [("usage", 2), ("adjustment", 4), ("pack", 0), ("export", 0)] {
            for limit in [1, 2, 50] {
                let found = walked(&client, limit, &format!("&kind={kind}")).await;
                assert_eq!(found.len(), count, "{kind} by {limit}");
                assert!(found.iter().all(|entry| entry["kind"] == kind), "{found:?}");
            }
        }
        for (query, field) in [
            ("?kind=gift", "kind"),
            ("?limit=0", "limit"),
            ("?limit=501", "limit"),
            ("?before=ent_1", "before"),
            ("?before=ent_01890000000070008000000000000000", "before"),
            ("?before=usage_2026-13-01", "before"),
        ] {
            let reply = client.get(&format!("{LEDGER}{query}")).await;
            let fields = reply.wrong_fields();
            assert_eq!(fields[0].0, format!("query.{field}"), "{query}: {}", reply.text());
        }
        app
    })
    .await;
}

struct Keys {
    owner: Client,
    owner_id: String,
    limited: Client,
    limited_id: String,
    session: Client,
}

/// A customer that called twice with a key without limits, and three times with a key limited to
/// one account.
async fn two_keys(app: &TestApp) -> Keys {
    let member = app.member("ada@example.com").await;
    app.grant(&member.customer, 100).await;
    let account = app.connect(&member.customer, "platform_alpha").await;
    let owner = app.with_key(&member.customer.key);
    let wish = json!({"name": "limited", "scope": "full", "accounts": [account]});
    let made = owner.post("/v1/auth/keys", &wish).await.json();
    let limited = app.with_key(made["api_key"].as_str().unwrap());
    for (client, times) in [(&owner, 2), (&limited, 3)] {
        for _ in 0..times {
            client.get(&format!("/v1/{account}/native/users/me")).await;
        }
    }
    app.settled(&owner).await;
    Keys {
        owner,
        owner_id: member.customer.key_id.clone(),
        limited,
        limited_id: made["key_id"].as_str().unwrap().to_owned(),
        session: app.signed_in(&member).await,
    }
}

/// Whose spending a response shows: (scope, key, today's credits).
fn told(billing: &Value) -> (Value, Value, Value) {
    let today = if billing.get("spend").is_some() {
        billing["spend"]["today"].clone()
    } else {
        billing["days"][0]["credits"].clone()
    };
    (billing["scope"].clone(), billing["key_id"].clone(), today)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_response_says_whose_spending_it_shows_and_unlimited_callers_can_choose() {
    with_app(async |app| {
        let keys = two_keys(&app).await;
        let all = (json!("customer"), Value::Null, json!(5));
        let owners = (json!("key"), json!(keys.owner_id), json!(2));
        let limiteds = (json!("key"), json!(keys.limited_id), json!(3));
        let shown = async |client: &Client, path: &str| {
            let reply = client.get(path).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            told(&reply.json())
        };
        let daily = |query: &str| format!("/v1/billing/usage/daily?days=1{query}");
        let billing = |query: &str| format!("/v1/billing?{query}");
        let other = format!("&key_id={}", keys.limited_id);

        // By default the balance is the customer's and usage is the key's.
        assert_eq!(shown(&keys.owner, "/v1/billing").await, all);
        assert_eq!(shown(&keys.session, "/v1/billing").await, all);
        assert_eq!(shown(&keys.owner, &daily("")).await, owners);
        assert_eq!(shown(&keys.session, &daily("")).await, all);
        // With parameters.
        assert_eq!(shown(&keys.owner, &billing("scope=key")).await, owners);
        assert_eq!(shown(&keys.owner, &daily("&scope=customer")).await, all);
        assert_eq!(shown(&keys.session, &daily(&other)).await, limiteds);
        assert_eq!(shown(&keys.owner, &daily(&other)).await, limiteds);
        assert_eq!(shown(&keys.session, &billing(&other[1..])).await, limiteds);
        let unnamed = keys.session.get(&billing("scope=key")).await;
        assert_eq!(unnamed.wrong_fields()[0].0, "query.key_id", "{}", unnamed.text());
        let both = keys.owner.get(&daily(&format!("&scope=customer{other}"))).await;
        assert_eq!(both.wrong_fields()[0].0, "query.key_id", "{}", both.text());
        let unknown = keys.owner.get(&daily("&scope=all")).await;
        assert_eq!(unknown.wrong_fields()[0].0, "query.scope", "{}", unknown.text());
        app
    })
    .await;
}

/// A key of another customer looks like one that does not exist; a deleted key keeps its usage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_customer_and_an_unknown_one_are_not_found() {
    with_app(async |app| {
        let keys = two_keys(&app).await;
        let stranger = app.customer(9).await.key_id;
        let unknown = "key_019ab3c4d5e67f8091a2b3c4d5e6f708".to_owned();
        let paths = [
            "/v1/billing",
            "/v1/billing/ledger",
            "/v1/billing/usage/daily",
            "/v1/billing/usage/recent",
        ];

        for client in [&keys.owner, &keys.session] {
            for path in paths {
                for key in [&stranger, &unknown] {
                    let reply = client.get(&format!("{path}?key_id={key}")).await;
                    assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{path}");
                }
                for key in [&keys.owner_id, &keys.limited_id] {
                    let reply = client.get(&format!("{path}?key_id={key}")).await;
                    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
                    assert_eq!(reply.json()["key_id"], json!(key), "{path}");
                }
            }
        }
        let deleted = keys.session.delete(&format!("/v1/auth/keys/{}", keys.limited_id)).await;
        assert_eq!(deleted.status, 204, "{}", deleted.text());
        let daily = format!("/v1/billing/usage/daily?days=1&key_id={}", keys.limited_id);
        let limiteds = (json!("key"), json!(keys.limited_id), json!(3));
        assert_eq!(told(&keys.session.get(&daily).await.json()), limiteds);
        app
    })
    .await;
}

/// A key limited to one account sees its own spending and nothing else, whatever it asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_sees_only_its_own_spending() {
    with_app(async |app| {
        let keys = two_keys(&app).await;
        let own = (json!("key"), json!(keys.limited_id), json!(3));

        for path in ["/v1/billing", "/v1/billing?scope=key", "/v1/billing/usage/daily?days=1"] {
            let reply = keys.limited.get(path).await;
            assert_eq!(told(&reply.json()), own, "{path}: {}", reply.text());
        }
        let ledger = page(&keys.limited, "").await;
        assert_eq!((&ledger["scope"], &ledger["key_id"]), (&own.0, &own.1));
        assert_eq!(lines(&ledger).len(), 1, "{ledger}");
        assert_eq!(
            (&ledger["entries"][0]["kind"], &ledger["entries"][0]["amount"]),
            (&json!("usage"), &json!(-3))
        );
        let billing = keys.limited.get("/v1/billing").await.json();
        assert_eq!(billing["ledger"], ledger["entries"]);
        let recent = keys.limited.get("/v1/billing/usage/recent").await.json();
        assert_eq!((&recent["scope"], &recent["key_id"]), (&own.0, &own.1));
        assert_eq!(recent["calls"].as_array().unwrap().len(), 3);

        for path in ["/v1/billing", LEDGER, "/v1/billing/usage/daily", "/v1/billing/usage/recent"] {
            for query in ["scope=customer", &format!("key_id={}", keys.owner_id)] {
                let reply = keys.limited.get(&format!("{path}?{query}")).await;
                let refused = (403, "limited_key".to_owned());
                assert_eq!(reply.failure(), refused, "{path}?{query}: {}", reply.text());
            }
        }
        app
    })
    .await;
}
