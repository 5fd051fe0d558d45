//! Billing and usage: spending agrees with the calls, and pages neither skip nor repeat an entry.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_service::{Client, TestApp, with_app};

const DAILY: &str = "/v1/billing/usage/daily";
const RECENT: &str = "/v1/billing/usage/recent";
const DAY_S: i64 = 86_400;

async fn call(client: &Client, account: &str, native: &str, times: usize) {
    for _ in 0..times {
        client.get(&format!("/v1/{account}/native/{native}")).await;
    }
}

async fn write(client: &Client, account: &str) {
    let path = format!("/v1/{account}/native/chats/mark-as-read");
    assert_eq!(client.post(&path, &json!({})).await.status, 200);
}

async fn daily(client: &Client, days: &str) -> Value {
    let reply = client.get(&format!("{DAILY}{days}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn ids(page: &Value) -> Vec<String> {
    let calls = page["calls"].as_array().unwrap();
    calls.iter().map(|call| call["call_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_balance_spend_and_ledger() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 100).await;
        call(&client, &account, "users/me", 3).await;
        app.settled(&client).await;
        app.advance_seconds(DAY_S);
        write(&client, &account).await;
        app.settled(&client).await;

        let billing = client.get("/v1/billing").await.json();

        assert_eq!((&billing["balance"], &billing["held"]), (&json!(95), &json!(0)));
        assert_eq!(billing["spend"], json!({"today": 2, "last_7_days": 5, "last_30_days": 5}));
        assert_eq!(billing["trial"]["state"], "none");
        assert_eq!(billing["subscription"], Value::Null);
        let entries = billing["ledger"].as_array().unwrap();
        // A day's usage is listed at the end of the day, above the grant of that noon.
        let told: Vec<(&str, i64)> = entries
            .iter()
            .map(|entry| (entry["kind"].as_str().unwrap(), entry["amount"].as_i64().unwrap()))
            .collect();
        assert_eq!(told, [("usage", -2), ("usage", -3), ("adjustment", 100)], "{billing}");
        let other = app.customer(7).await;
        assert_eq!(app.with_key(&other.key).get("/v1/billing").await.json()["balance"], 7);
        assert_ne!(other.id, customer.id);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_day_is_listed_and_days_without_calls_are_zero() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        call(&client, &account, "users/me", 2).await;
        app.settled(&client).await;
        app.advance_seconds(2 * DAY_S);
        call(&client, &account, "users/me", 1).await;
        call(&client, &account, "users/list", 1).await;
        app.settled(&client).await;

        let fourteen = daily(&client, "").await;
        let three = daily(&client, "?days=3").await;

        assert_eq!(fourteen["days"].as_array().unwrap().len(), 14);
        let day = |day: &str, calls: i64, credits: i64, ok: i64, errors: i64| {
            json!({
                "day": day, "calls": calls, "credits": credits, "ok": ok, "errors": errors,
                "exports": 0
            })
        };
        let expected = [
            day("2026-11-21", 2, 2, 2, 0),
            day("2026-11-22", 0, 0, 0, 0),
            day("2026-11-23", 2, 2, 1, 1),
        ];
        assert_eq!(three["days"], json!(expected));
        assert_eq!(daily(&client, "?days=366").await["days"].as_array().unwrap().len(), 366);
        assert_eq!(daily(&client, "?days=1").await["days"], json!([expected[2]]));
        app
    })
    .await;
}

/// A key sees only its own calls, not those of another key of the same customer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_belongs_to_a_key_and_survives_its_rotation() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let made =
            client.post("/v1/auth/keys", &json!({"name": "b", "scope": "full"})).await.json();
        let other = app.with_key(made["api_key"].as_str().unwrap());
        call(&client, &account, "users/me", 2).await;
        call(&other, &account, "users/me", 1).await;
        app.settled(&client).await;

        let rotated = other.post("/v1/auth/keys/rotate", &json!({})).await.json();
        let fresh = app.with_key(rotated["api_key"].as_str().unwrap());

        let counts = async |caller: &Client| {
            let day = daily(caller, "?days=1").await["days"][0]["calls"].clone();
            (day.as_i64().unwrap(), ids(&caller.get(RECENT).await.json()).len())
        };
        assert_eq!(counts(&client).await, (2, 2));
        assert_eq!(counts(&fresh).await, (1, 1));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_keeps_failing_is_reported() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let hot = async || {
            app.settled(&client).await;
            daily(&client, "").await["hot_failure"].clone()
        };

        // Four failures are too few; the fifth reaches the minimum.
        call(&client, &account, "users/list", 4).await;
        assert_eq!(hot().await, Value::Null);
        call(&client, &account, "users/list", 1).await;
        let failure = hot().await;
        assert_eq!(failure["route"], "GET users/list", "{failure}");
        assert_eq!((&failure["method"], &failure["account"]), (&json!("GET"), &json!(account)));
        assert_eq!((&failure["calls"], &failure["errors"]), (&json!(5), &json!(5)));
        assert_eq!(failure["last_status"], 400);

        // Five of six are 83 %, five of seven 71 %.
        call(&client, &account, "users/list?ids=1", 1).await;
        assert_eq!(hot().await["calls"], 6);
        call(&client, &account, "users/list?ids=1", 1).await;
        assert_eq!(hot().await, Value::Null);

        // It is reported for seven days.
        call(&client, &account, "users/list", 5).await;
        assert_eq!(hot().await["errors"], 10);
        app.advance_seconds(6 * DAY_S);
        assert_eq!(hot().await["errors"], 10);
        app.advance_seconds(DAY_S);
        assert_eq!(hot().await, Value::Null);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_filtered_by_status_and_account() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 100).await;
        let gamma = app.connect(&customer, "platform_gamma").await;
        call(&client, &account, "users/me", 2).await;
        call(&client, &account, "users/list", 1).await;
        call(&client, &gamma, "me", 1).await;
        app.settled(&client).await;
        let count = async |query: &str| {
            let reply = client.get(&format!("{RECENT}?{query}")).await;
            assert_eq!(reply.status, 200, "{query}: {}", reply.text());
            ids(&reply.json()).len()
        };

        assert_eq!(count("").await, 4);
        for (query, expected) in [
            ("status_class=2xx", 3),
            ("status_class=4xx", 1),
            ("status_class=3xx", 0),
            ("status_class=5xx", 0),
            ("status_class=ok", 3),
            ("status_class=error", 1),
        ] {
            assert_eq!(count(query).await, expected, "{query}");
        }
        assert_eq!(count(&format!("account={gamma}")).await, 1);
        assert_eq!(count(&format!("account={account}&status_class=ok")).await, 2);
        assert_eq!(count("account=nobody").await, 0);
        let log = client.get(&format!("{RECENT}?status_class=error")).await.json();
        let entry = &log["calls"][0];
        assert_eq!(
            (&entry["path"], &entry["route"]),
            (&json!("users/list"), &json!("GET users/list"))
        );
        assert_eq!((&entry["status"], &entry["outcome"]), (&json!(400), &json!("answered")));
        assert_eq!(entry["credits"], 1);
        assert!(entry["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{entry}");
        app
    })
    .await;
}

/// The clock stands still, so many calls have the same time: pages of any size must contain each
/// exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paging_neither_skips_nor_repeats() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        for at_once in [5, 1, 3, 1, 4] {
            call(&client, &account, "users/me", at_once).await;
            app.clock.advance_seconds(1);
        }
        app.settled(&client).await;
        let all = ids(&client.get(&format!("{RECENT}?limit=1000")).await.json());
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 14);

        for limit in 1..=15 {
            let mut told = Vec::new();
            let mut before = String::new();
            loop {
                let reply = client.get(&format!("{RECENT}?limit={limit}{before}")).await;
                let page = reply.json();
                told.extend(ids(&page));
                match page.get("next_before").filter(|next| !next.is_null()) {
                    Some(next) => before = format!("&before={next}"),
                    None => break,
                }
            }
            assert_eq!(told, all, "limit {limit}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_out_of_range_are_refused_and_reported() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    let huge = "9".repeat(40);
    let cases = [
        (DAILY, "days", vec!["0", "-1", "367", "1e9", "1000000000", "x", "1.5", huge.as_str()]),
        (RECENT, "limit", vec!["0", "-1", "1001", "1e9", "x", huge.as_str()]),
        (RECENT, "before", vec!["NaN", "-1", "1e-9", "inf", "2026-11-21", huge.as_str()]),
        (RECENT, "status_class", vec!["6xx", "200", "OK"]),
        (RECENT, "account", vec!["a/b", "..", "a%00"]),
    ];

    for (path, field, values) in cases {
        for value in values {
            let fields = client.get(&format!("{path}?{field}={value}")).await.wrong_fields();
            assert_eq!(fields[0].0, format!("query.{field}"), "{value}");
        }
        let twice = client.get(&format!("{path}?{field}=1&{field}=2")).await;
        assert_eq!(twice.status, 422, "{field} twice: {}", twice.text());
    }
    let unknown = client.get(&format!("{RECENT}?page=2")).await.wrong_fields();
    assert_eq!(unknown, [("query.page".to_owned(), "unknown_field".to_owned())]);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_filtered_by_route_and_tag() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        call(&client, &account, "users/me", 2).await;
        call(&client.with("x-tag", "nightly"), &account, "users/me", 1).await;
        call(&client, &account, "chats?limit=1", 1).await;
        app.settled(&client).await;
        let listed =
            async |query: &str| ids(&client.get(&format!("{RECENT}{query}")).await.json()).len();

        assert_eq!(listed("?route=GET%20users%2Fme").await, 3);
        assert_eq!(listed("?route=GET%20users%2Fme&tag=nightly").await, 1);
        assert_eq!(listed("?tag=nightly").await, 1);
        assert_eq!(listed("?route=users%2Fme").await, 0);
        assert_eq!(listed("?tag=other").await, 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_is_found_by_its_id_and_by_that_of_its_request() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let named = client.with("x-request-id", "my-own-1");
        call(&named, &account, "users/me", 1).await;
        app.settled(&client).await;
        let listed = client.get(RECENT).await.json()["calls"][0].clone();
        let path = |id: &str| format!("/v1/billing/usage/calls/{id}");

        for id in ["my-own-1", listed["call_id"].as_str().unwrap()] {
            let found = client.get(&path(id)).await.json();
            assert_eq!((&found["call_id"], &found["held"]), (&listed["call_id"], &json!(1)));
            assert_eq!((&found["credits"], &found["route"]), (&json!(1), &listed["route"]));
            assert!(found["ended_at"].is_string(), "{found}");
        }
        assert_eq!(client.get(&path("req_1")).await.status, 404);
        let other = app.customer(0).await;
        for id in ["my-own-1", listed["call_id"].as_str().unwrap()] {
            assert_eq!(app.with_key(&other.key).get(&path(id)).await.status, 404);
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_finds_its_own_calls_alone() {
    let app = TestApp::on_sqlite("").await;
    let (_customer, client, account) = app.ready("platform_alpha", 100).await;
    let limits = json!({"name": "limited", "scope": "full", "accounts": [account]});
    let made = client.post("/v1/auth/keys", &limits).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let limited = app.with_key(made.json()["api_key"].as_str().unwrap());
    call(&client, &account, "users/me", 1).await;
    call(&limited, &account, "users/me", 1).await;
    app.settled(&client).await;
    let log = client.get(&format!("{RECENT}?scope=customer")).await.json();

    let mut statuses = Vec::new();
    for id in ids(&log) {
        statuses.push(limited.get(&format!("/v1/billing/usage/calls/{id}")).await.status);
    }

    assert_eq!(statuses, [200, 404], "the newest is its own");
    app.end().await;
}
