//! What requests cost and what it was for: estimates, `X-Max-Cost`, `X-Tag`, and the breakdown of
//! spending, also after retention.

use serde_json::{Value, json};
use test_service::{Client, TestApp, with_app};

const BREAKDOWN: &str = "/v1/billing/usage/breakdown";
const ESTIMATE: &str = "/v1/billing/estimate";
const DAY_S: i64 = 86_400;

async fn breakdown(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("{BREAKDOWN}?{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Name, calls, exports and credits of each entry.
fn entries(breakdown: &Value) -> Vec<(Option<&str>, i64, i64, i64)> {
    let entries = breakdown["entries"].as_array().unwrap();
    let number = |entry: &Value, field: &str| entry[field].as_i64().unwrap();
    entries
        .iter()
        .map(|entry| {
            let name = entry["name"].as_str();
            (name, number(entry, "calls"), number(entry, "exports"), number(entry, "credits"))
        })
        .collect()
}

/// The credits that the ledger says were charged.
async fn charged(client: &Client) -> i64 {
    let ledger = client.get("/v1/billing/ledger?limit=500").await.json();
    let lines = ledger["entries"].as_array().unwrap().clone();
    let charges = lines.iter().filter(|line| line["kind"] == "usage" || line["kind"] == "export");
    -charges.map(|line| line["amount"].as_i64().unwrap()).sum::<i64>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_costs_more_than_allowed_is_refused_and_free() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let write = format!("/v1/{account}/native/chats/mark-as-read");
        let read = format!("/v1/{account}/native/users/me");
        let exports = format!("/v1/{account}/exports");
        let at_most = |max: &str| client.with("x-max-cost", max);
        let before = app.seen("platform_alpha").await.len();

        let refused = at_most("1").post(&write, &json!({})).await;
        assert_eq!(refused.failure(), (412, "cost_above_max".to_owned()));
        let problem = refused.json();
        assert_eq!((&problem["cost"], &problem["max_cost"]), (&json!(2), &json!(1)));
        assert_eq!(refused.receipt(), (0, 100));
        let export = json!({"dataset": "subscribers"});
        let too_expensive = at_most("9").post(&exports, &export).await;
        assert_eq!(too_expensive.failure(), (412, "cost_above_max".to_owned()));
        for max in ["", "-1", "two", "1.5", "9999999999"] {
            let unusable = at_most(max).get(&read).await;
            assert_eq!(unusable.failure(), (400, "invalid_max_cost".to_owned()), "{max:?}");
        }
        assert_eq!(app.seen("platform_alpha").await.len(), before);
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 100);

        assert_eq!(at_most("2").post(&write, &json!({})).await.receipt(), (2, 98));
        assert_eq!(at_most("1").get(&read).await.receipt(), (1, 97));
        assert_eq!(at_most("10").post(&exports, &export).await.status, 201);
        app.run_exports().await;
        app.settled(&client).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_estimate_is_what_the_request_costs_and_is_free() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 15).await;
        let estimate = async |body: Value| {
            let mut wanted = json!({"account": account});
            wanted.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            client.post(ESTIMATE, &wanted).await
        };

        let read = estimate(json!({"method": "GET", "path": "users/me"})).await.json();
        let writes =
            estimate(json!({"method": "POST", "path": "made/up", "count": 8})).await.json();
        let export = estimate(json!({"dataset": "subscribers"})).await.json();

        assert_eq!((&read["cost"], &read["charged_as"]), (&json!(1), &json!("read")));
        assert_eq!((&read["route"], &read["is_covered"]), (&json!("GET users/me"), &json!(true)));
        assert_eq!((&writes["unit_cost"], &writes["cost"]), (&json!(2), &json!(16)));
        assert_eq!((&writes["route"], &writes["is_covered"]), (&Value::Null, &json!(false)));
        assert_eq!((&export["cost"], &export["charged_as"]), (&json!(10), &json!("export")));
        assert_eq!((&export["balance"], &export["is_covered"]), (&json!(15), &json!(true)));
        let path = format!("/v1/{account}/native/users/me");
        assert_eq!(client.get(&path).await.receipt().0, read["cost"].as_i64().unwrap());
        app.settled(&client).await;
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 14);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_estimate_names_every_wrong_field() {
    let app = TestApp::on_sqlite("[http]\nunlisted_routes = 'refuse'").await;
    let (_customer, client, account) = app.ready("platform_alpha", 15).await;

    let neither = client.post(ESTIMATE, &json!({"account": account})).await;
    let both = json!({"account": account, "method": "GET", "path": "a", "dataset": "subscribers"});
    let both = client.post(ESTIMATE, &both).await;
    let unknown = json!({"account": "nobody", "method": "GET", "path": "users/me"});
    let unlisted = json!({"account": account, "method": "GET", "path": "made/up"});

    assert_eq!((neither.status, both.status), (422, 422));
    assert_eq!((neither.wrong_fields().len(), both.wrong_fields().len()), (2, 2));
    let unknown = client.post(ESTIMATE, &unknown).await;
    assert_eq!(unknown.failure(), (404, "account_not_found".to_owned()));
    let unlisted = client.post(ESTIMATE, &unlisted).await;
    assert_eq!(unlisted.failure(), (404, "route_not_listed".to_owned()));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_is_stored_and_not_sent_to_the_platform() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        let path = format!("/v1/{account}/native/users/me");
        for tag in ["", " ", "two words", "-a", "é"] {
            let refused = client.with("x-tag", tag).get(&path).await;
            assert_eq!(refused.failure(), (400, "invalid_tag".to_owned()), "{tag:?}");
            assert!(refused.text().contains("X-Tag"), "{}", refused.text());
        }

        assert_eq!(client.with("x-tag", "team-a").get(&path).await.status, 200);
        app.advance_seconds(1);
        assert_eq!(client.get(&path).await.status, 200);
        app.settled(&client).await;

        let seen = app.seen("platform_alpha").await;
        let last = seen.last().unwrap().to_string().to_lowercase();
        assert!(!last.contains("x-tag") && !last.contains("team-a"), "{last}");
        let log = client.get("/v1/billing/usage/recent").await.json();
        let tags: Vec<_> =
            log["calls"].as_array().unwrap().iter().map(|call| &call["tag"]).collect();
        assert_eq!(tags, [&Value::Null, &json!("team-a")]);
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 98);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_tags_of_a_day_are_limited() {
    let app = TestApp::on_sqlite("[metering]\ntags_per_day_max = 2").await;
    let (_customer, client, account) = app.ready("platform_alpha", 100).await;
    let path = format!("/v1/{account}/native/users/me");
    let status = async |tag: &str| client.with("x-tag", tag).get(&path).await.status;

    assert_eq!((status("a").await, status("b").await), (200, 200));
    let refused = client.with("x-tag", "c").get(&path).await;
    assert_eq!(refused.failure(), (409, "too_many_tags".to_owned()));
    assert_eq!(refused.receipt().0, 0);
    let export = json!({"dataset": "subscribers"});
    let exports = format!("/v1/{account}/exports");
    let refused_export = client.with("x-tag", "c").post(&exports, &export).await;
    assert_eq!(refused_export.failure(), (409, "too_many_tags".to_owned()));
    assert_eq!(status("a").await, 200);
    app.advance_seconds(DAY_S);
    assert_eq!(status("c").await, 200);
    app.settled(&client).await;
    app.end().await;
}

/// Makes calls and an export with tags, on two days.
async fn spend(app: &TestApp, client: &Client, account: &str) {
    let (a, b) = (client.with("x-tag", "team-a"), client.with("x-tag", "team-b"));
    a.get(&format!("/v1/{account}/native/users/me")).await;
    b.post(&format!("/v1/{account}/native/chats/mark-as-read"), &json!({})).await;
    app.settled(client).await;
    app.advance_seconds(DAY_S);
    a.get(&format!("/v1/{account}/native/users/me")).await;
    client.get(&format!("/v1/{account}/native/users/list")).await;
    let export =
        b.post(&format!("/v1/{account}/exports"), &json!({"dataset": "subscribers"})).await;
    assert_eq!(export.status, 201, "{}", export.text());
    app.run_exports().await;
    app.settled(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_breakdown_agrees_with_the_ledger() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 100).await;
        spend(&app, &client, &account).await;

        let by_tag = breakdown(&client, "by=tag").await;
        let by_account = breakdown(&client, "by=account").await;
        let by_key = breakdown(&client, "by=key&scope=customer").await;
        let by_route = breakdown(&client, "by=route").await;
        let today = breakdown(&client, "by=tag&from=2026-11-22&to=2026-11-22").await;

        let expected = [(Some("team-b"), 1, 1, 12), (Some("team-a"), 2, 0, 2), (None, 1, 0, 1)];
        assert_eq!(entries(&by_tag), expected);
        assert_eq!(entries(&by_account), [(Some(account.as_str()), 4, 1, 15)]);
        assert_eq!(entries(&by_key), [(Some(customer.key_id.as_str()), 4, 1, 15)]);
        let routes = entries(&by_route);
        assert_eq!(routes[0], (Some("export subscribers"), 0, 1, 10));
        assert_eq!((routes.len(), &by_route["entries"][1]["method"]), (4, &json!("GET")));
        assert_eq!(by_route["entries"][0]["platform"], "platform_alpha");
        let of_today = [(Some("team-b"), 0, 1, 10), (None, 1, 0, 1), (Some("team-a"), 1, 0, 1)];
        assert_eq!(entries(&today), of_today);
        let total = json!({"calls": 4, "exports": 1, "credits": 15, "ok": 3, "errors": 1});
        for breakdown in [&by_tag, &by_account, &by_key, &by_route] {
            assert_eq!(breakdown["total"], total);
        }
        assert_eq!(charged(&client).await, 15);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_breakdown_comes_as_csv_and_in_pages() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 100).await;
        spend(&app, &client, &account).await;
        let csv = client.with("accept", "text/csv");

        let first = csv.get(&format!("{BREAKDOWN}?by=tag&limit=2")).await;
        let next = first.header("x-next-before").to_owned();
        let second = csv.get(&format!("{BREAKDOWN}?by=tag&limit=2&before={next}")).await;
        let as_json = breakdown(&client, "by=tag&limit=2").await;

        assert_eq!(first.header("content-type"), "text/csv; charset=utf-8");
        let names = "name,platform,method,calls,exports,credits,ok,errors\r\n";
        let lines = "team-b,,,1,1,12,1,0\r\nteam-a,,,2,0,2,2,0\r\n";
        assert_eq!(first.text(), format!("200 {names}{lines}"));
        assert_eq!(second.text(), format!("200 {names},,,1,0,1,0,1\r\n"));
        assert_eq!(second.header("x-next-before"), "");
        assert_eq!(as_json["next_before"], json!(next));
        let rest = breakdown(&client, &format!("by=tag&limit=2&before={next}")).await;
        assert_eq!((entries(&rest).len(), &rest["next_before"]), (1, &Value::Null));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_of_a_breakdown_out_of_range_are_refused() {
    let app = TestApp::on_sqlite("").await;
    let (_customer, client, _account) = app.ready("platform_alpha", 1).await;
    for (query, field) in [
        ("by=color", "by"),
        ("from=2026-13-01", "from"),
        ("from=2026-11-22&to=2026-11-21", "from"),
        ("from=2025-11-20&to=2026-11-21", "from"),
        ("to=yesterday", "to"),
        ("limit=1001", "limit"),
        ("before=zz", "before"),
    ] {
        let reply = client.get(&format!("{BREAKDOWN}?{query}")).await;
        assert_eq!(reply.status, 422, "{query}: {}", reply.text());
        let fields: Vec<String> =
            reply.wrong_fields().into_iter().map(|(place, _)| place).collect();
        assert!(fields[0].ends_with(field), "{query}: {fields:?}");
    }
    let longest = "from=2025-11-21&to=2026-11-21";
    assert_eq!(client.get(&format!("{BREAKDOWN}?{longest}")).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spending_stays_the_same_after_its_calls_were_removed() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[retention]\nbatch_calls = 2").await;
    let (_customer, client, account) = app.ready("platform_alpha", 100).await;
    spend(&app, &client, &account).await;
    app.advance_seconds(80 * DAY_S);
    let range = "from=2026-11-01&to=2027-02-28";
    let mut before = Vec::new();
    for by in ["account", "key", "route", "tag"] {
        before.push(breakdown(&client, &format!("by={by}&{range}")).await);
    }
    app.running().retain().await;
    let log = async || {
        let log = client.get("/v1/billing/usage/recent").await.json();
        log["calls"].as_array().unwrap().len()
    };
    assert_eq!(log().await, 4);

    app.advance_seconds(11 * DAY_S);
    app.running().retain().await;

    assert_eq!(log().await, 0);
    for (by, expected) in ["account", "key", "route", "tag"].into_iter().zip(before) {
        assert_eq!(breakdown(&client, &format!("by={by}&{range}")).await, expected, "{by}");
    }
    assert_eq!(charged(&client).await, 15);
    app.end().await;
}
