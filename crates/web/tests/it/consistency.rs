//! Consistent names on the service's own routes: one name for one thing, and one meaning for each
//! word.
#![expect(
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use serde_json::{Value, json};
use test_service::contract::{document, operations};
use test_service::member::PASSWORD;
use test_service::{Client, TestApp, with_app};

const KEYS: &str = "/v1/auth/keys";

async fn made(client: &Client, limits: Value) -> Value {
    let mut wish = json!({"name": "made", "scope": "full"});
    wish.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    let reply = client.post(KEYS, &wish).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// `null` means "no restriction" and a list means "these", on keys and in `whoami`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_restriction_to_accounts_is_null_everywhere() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 0).await;

        let free = made(&client, json!({"accounts": null})).await;
        let limited = made(&client, json!({"accounts": [account]})).await;

        assert_eq!(free["accounts"], Value::Null, "{free}");
        assert_eq!(limited["accounts"], json!([account]));
        let listed = client.get(KEYS).await.json();
        let of_first = listed["keys"].as_array().unwrap().iter();
        let unlimited = of_first.filter(|key| key["accounts"].is_null()).count();
        assert_eq!(unlimited, 2, "{listed}");
        let whoami = async |key: &str| app.with_key(key).get("/v1/whoami").await.json();
        let free = whoami(free["api_key"].as_str().unwrap()).await;
        let limited = whoami(limited["api_key"].as_str().unwrap()).await;
        assert_eq!((&free["accounts"], &limited["accounts"]), (&Value::Null, &json!([account])));
        for who in [free, limited] {
            assert_eq!(who["connected_accounts"], json!([account]), "{who}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_list_of_accounts_is_refused() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    let body = json!({"name": "none", "scope": "full", "accounts": []});
    let refused = client.post(KEYS, &body).await;

    let named = ("body.accounts".to_owned(), "too_short".to_owned());
    assert_eq!(refused.wrong_fields(), [named], "{}", refused.text());
    app.end().await;
}

/// The end of a session by age and its end without use have different names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_of_a_session_have_the_same_names_everywhere() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let login = app.try_log_in(&member.email, PASSWORD).await;
        let browser = app.anonymous().with_session(&login.cookie());
        let ends = |session: &Value| {
            let text = |name: &str| session[name].as_str().unwrap_or("absent").to_owned();
            (text("expires_at"), text("idle_expires_at"))
        };
        let week = "2026-11-28T12:00:00.000000Z".to_owned();

        let listed = browser.get("/v1/auth/sessions").await.json()["sessions"][0].clone();

        let half_a_day = "2026-11-22T00:00:00.000000Z".to_owned();
        assert_eq!(ends(&login.json()), (week.clone(), half_a_day.clone()));
        assert_eq!(ends(&listed), (week.clone(), half_a_day));
        app.advance_seconds(3_600);
        browser.get("/v1/auth/me").await;
        let used = browser.get("/v1/auth/sessions").await.json()["sessions"][0].clone();
        assert_eq!(ends(&used), (week.clone(), "2026-11-22T01:00:00.000000Z".to_owned()));
        // In its last hours the end by age comes first.
        for _ in 0..15 {
            app.advance_seconds(11 * 3_600);
            assert_eq!(browser.get("/v1/auth/me").await.status, 200);
        }
        let last = browser.get("/v1/auth/sessions").await.json()["sessions"][0].clone();
        assert_eq!(ends(&last), (week.clone(), week));
        app
    })
    .await;
}

/// A browser's `fetch` without a body sends no `Content-Type`; a page of another site still cannot
/// log the customer out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_needs_no_content_type_but_one_of_our_pages() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let cookie = app.session(&member).await;
        let foreign = app.anonymous().with("cookie", &cookie).with("sec-fetch-site", "cross-site");
        let browser = app.anonymous().with_session(&cookie);

        let refused = foreign.send("POST", "/v1/auth/logout", None).await;
        assert_eq!(refused.failure(), (403, "cross_site_request".to_owned()));
        let form = browser.with("content-type", "application/x-www-form-urlencoded");
        let refused = form.send("POST", "/v1/auth/logout", Some(b"a=1".to_vec())).await;
        assert_eq!(refused.failure(), (415, "unsupported_media_type".to_owned()));
        assert_eq!(browser.get("/v1/auth/me").await.status, 200);

        assert_eq!(browser.send("POST", "/v1/auth/logout", None).await.status, 204);
        assert_eq!(browser.get("/v1/auth/me").await.status, 401);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_and_the_list_say_until_when_the_old_secret_works() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let key = made(&client, json!({})).await;
        let id = key["key_id"].clone();
        assert_eq!(key["old_secret_expires_at"], Value::Null, "{key}");
        let old = app.with_key(key["api_key"].as_str().unwrap());
        let shown = async || {
            client.get(&format!("{KEYS}/{}", id.as_str().unwrap())).await.json()
                ["old_secret_expires_at"]
                .clone()
        };

        let rotate = json!({"key_id": id, "expires_old_in_s": 60});
        let rotated = client.post("/v1/auth/keys/rotate", &rotate).await.json();

        let until = json!("2026-11-21T12:01:00.000000Z");
        assert_eq!(rotated["old_secret_expires_at"], until, "{rotated}");
        assert_eq!(shown().await, until);
        app.advance_seconds(59);
        assert_eq!(old.get("/v1/whoami").await.status, 200);
        app.advance_seconds(1);
        assert_eq!(old.get("/v1/whoami").await.status, 401);
        assert_eq!(shown().await, Value::Null);
        let again = client.post("/v1/auth/keys/rotate", &json!({"key_id": id})).await.json();
        assert_eq!(again["old_secret_expires_at"], Value::Null, "{again}");
        app
    })
    .await;
}

/// A created resource is at the `Location` of its response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_created_resource_is_at_its_location() {
    with_app(async |app| {
        let form = json!({"email": "ada@example.com", "password": PASSWORD});
        let registered = app.anonymous().post("/v1/auth/register", &form).await;
        assert_eq!((registered.status, registered.header("location")), (201, "/v1/auth/me"));
        let (_, client, account) = app.ready("platform_alpha", 100).await;
        let accounts = simulators::demo_accounts(&app.settings);
        let beta = accounts.iter().find(|one| one.platform == "platform_beta").unwrap();
        let import = json!({"creator_id": "new", "platform": "platform_beta", "auth": beta.auth});

        let connected = client.post("/v1/connect/import", &import).await;
        let again = client.post("/v1/connect/import", &import).await;
        let key = client.post(KEYS, &json!({"name": "k", "scope": "read_only"})).await;
        let wish = json!({"dataset": "subscribers", "max_rows": 1});
        let export = client.post(&format!("/v1/{account}/exports"), &wish).await;

        for (reply, id) in [(&connected, "creator_id"), (&key, "key_id"), (&export, "job_id")] {
            assert_eq!(reply.status, 201, "{}", reply.text());
            let found = client.get(reply.header("location")).await;
            assert_eq!(found.status, 200, "{id}: {}", found.text());
            assert_eq!(found.json()[id], reply.json()[id]);
        }
        assert_eq!((again.status, again.header("location")), (200, ""));
        let cancel = format!("/v1/exports/{}/cancel", export.json()["job_id"].as_str().unwrap());
        client.post(&cancel, &json!({})).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_is_shown_to_its_customer_and_a_limited_key_sees_only_itself() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let limited = made(&client, json!({"monthly_budget_credits": 1})).await;
        let other = made(&client, json!({})).await;
        let path = |key: &Value| format!("{KEYS}/{}", key["key_id"].as_str().unwrap());
        let caller = app.with_key(limited["api_key"].as_str().unwrap());

        let own = caller.get(&path(&limited)).await;

        assert_eq!(own.status, 200, "{}", own.text());
        assert_eq!(own.json()["used_this_month"], 0);
        assert!(own.json().get("api_key").is_none(), "{}", own.text());
        assert_eq!(caller.get(&path(&other)).await.failure(), (403, "limited_key".to_owned()));
        let stranger = app.with_key(&app.customer(0).await.key);
        assert_eq!(stranger.get(&path(&other)).await.failure(), (404, "not_found".to_owned()));
        app
    })
    .await;
}

/// Without a valid key the response says nothing about ids, not even whether they are well formed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_key_is_401_at_every_route_of_exports() {
    let app = TestApp::on_sqlite("").await;
    let bad = app.with_key("cgw_live_000000000000000000000000000000000000");

    for id in ["job_1", "exp_01890000000070008000000000000000"] {
        for (method, rest) in
            [("GET", ""), ("GET", "/download"), ("POST", "/cancel"), ("DELETE", "")]
        {
            let path = format!("/v1/exports/{id}{rest}");
            let reply = bad.send(method, &path, None).await;
            assert_eq!(reply.failure(), (401, "invalid_key".to_owned()), "{method} {path}");
        }
    }
    app.end().await;
}

/// One account of a platform under two names takes two slots: a warning, not a refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_an_account_under_a_second_name_returns_a_warning() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 0).await;
        let accounts = simulators::demo_accounts(&app.settings);
        let demo = accounts.iter().find(|one| one.creator_id == account).unwrap();
        let import = async |client: &Client, name: &str| {
            let body = json!({"creator_id": name, "platform": demo.platform, "auth": demo.auth});
            client.post("/v1/connect/import", &body).await
        };

        let again = import(&client, &account).await;
        assert_eq!((again.status, &again.json()["warnings"]), (200, &json!([])));
        let second = import(&client, "second").await;

        assert_eq!(second.status, 201, "{}", second.text());
        let warning = second.json()["warnings"][0].clone();
        assert_eq!(warning["code"], "connected_twice", "{warning}");
        assert_eq!(warning["creator_ids"], json!([account]));
        let repeated = import(&client, &account).await.json();
        assert_eq!(repeated["warnings"][0]["creator_ids"], json!(["second"]));
        // A limited key learns that there is another name, but not which.
        let limited = made(&client, json!({"accounts": ["second"]})).await;
        let limited = app.with_key(limited["api_key"].as_str().unwrap());
        let seen = import(&limited, "second").await;
        assert_eq!(seen.json()["warnings"][0]["creator_ids"], json!([]));
        assert!(!seen.text().contains(&account), "{}", seen.text());
        app
    })
    .await;
}

/// A customer without credits whose trial is pending is told how to get it; others are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_for_lack_of_credits_names_a_pending_trial() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let account = app.connect(&member.customer, "platform_alpha").await;
        let client = app.with_key(&member.customer.key);
        let native = format!("/v1/{account}/native/users/me");
        let refusals = async || {
            let wish = json!({"dataset": "subscribers"});
            let export = client.post(&format!("/v1/{account}/exports"), &wish).await;
            let write = client.post(&native, &json!({})).await;
            [client.get(&native).await, write, export]
        };

        for refused in refusals().await {
            assert_eq!(refused.failure(), (402, "insufficient_credits".to_owned()));
            let body = refused.json();
            let detail = body["detail"].as_str().unwrap();
            assert!(detail.contains("confirm your email address"), "{body}");
            assert_eq!(body["trial_credits"], 500, "{body}");
        }
        let billing = client.get("/v1/billing").await.json();
        assert_eq!(billing["trial"], json!({"state": "pending", "credits": 500}));

        let poor = app.customer(0).await;
        let account = app.connect(&poor, "platform_alpha").await;
        let other = app.with_key(&poor.key);
        let refused = other.get(&format!("/v1/{account}/native/users/me")).await.json();
        assert_eq!(refused["code"], "insufficient_credits");
        assert!(!refused["detail"].as_str().unwrap().contains("confirm"), "{refused}");
        assert_eq!(refused.get("trial_credits"), None);
        let billing = other.get("/v1/billing").await.json();
        assert_eq!(billing["trial"], json!({"state": "none", "credits": 0}));
        app
    })
    .await;
}

/// Every amount of money is in whole cents, in a member named accordingly, with its currency beside
/// it.
#[test]
fn every_amount_of_money_has_one_shape() {
    let document = document();
    let mut seen = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let Some(members) = schema["properties"].as_object() else { continue };
        for member in members.keys() {
            if member.ends_with("_cents") {
                seen += 1;
                assert!(members.contains_key("currency"), "{name}.{member} has no currency");
            }
            // A request may use dollars; an amount shown in dollars is also shown in cents.
            if let Some(sum) = member.strip_suffix("_usd").filter(|_| !name.ends_with("In")) {
                assert!(members.contains_key(&format!("{sum}_cents")), "{name}.{member}");
            }
        }
    }
    assert!(seen >= 6, "{seen}");
    for recurring in ["PlanOut", "SlotPriceOut", "SlotOut"] {
        let members = &document["components"]["schemas"][recurring]["properties"];
        for name in ["price_cents", "currency", "interval"] {
            assert!(members.get(name).is_some(), "{recurring}.{name}");
        }
    }
}

#[test]
fn every_creation_documents_its_location() {
    let mut seen = 0;
    for (method, path, operation) in operations(&document()) {
        let Some(created) = operation["responses"].get("201") else { continue };
        seen += 1;
        let described = &created["headers"]["Location"]["description"];
        assert!(described.is_string(), "{method} {path}: {created}");
    }
    assert!(seen >= 4, "{seen}");
}
