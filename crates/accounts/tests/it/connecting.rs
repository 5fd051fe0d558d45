//! Accounts: connected after the platform has confirmed the credentials, listed without them, and
//! deleted.

use serde_json::{Value, json};
use test_service::platform::{RawPlatform, Script};
use test_service::{Client, Reply, TestApp, with_app};

const IMPORT: &str = "/v1/connect/import";
const PLATFORMS: [&str; 4] =
    ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"];

/// The import of the simulated platform's first account under another name.
fn import(app: &TestApp, platform: &str, creator: &str) -> Value {
    let accounts = simulators::demo_accounts(&app.settings);
    let account = accounts.iter().find(|account| account.platform == platform).unwrap();
    json!({"creator_id": creator, "platform": platform, "auth": account.auth})
}

async fn connect(app: &TestApp, client: &Client, platform: &str, creator: &str) -> Reply {
    client.post(IMPORT, &import(app, platform, creator)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_of_every_platform_is_connected_listed_and_used() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(100).await.key);
        let reads = ["users/me", "account/me", "me", "notifications"];

        for (platform, read) in PLATFORMS.into_iter().zip(reads) {
            let creator = format!("ada-{platform}");
            let reply = connect(&app, &client, platform, &creator).await;
            assert_eq!(reply.status, 201, "{platform}: {}", reply.text());
            let mut record = reply.json();
            let warnings = record.as_object_mut().unwrap().remove("warnings");
            assert_eq!(warnings, Some(json!([])));
            assert_eq!(record["creator_id"], creator.as_str());
            assert_eq!(
                (&record["platform"], &record["state"]),
                (&json!(platform), &json!("active"))
            );
            assert!(
                record.get("auth").is_none() && record.get("credentials").is_none(),
                "{record}"
            );
            let shown = client.get(&format!("/v1/accounts/{creator}")).await.json();
            assert_eq!(shown, record);
            let call = client.get(&format!("/v1/{creator}/native/{read}")).await;
            assert_eq!(call.status, 200, "{platform}: {}", call.text());
        }

        let listed = client.get("/v1/accounts").await.json();
        assert_eq!(listed["accounts"].as_array().unwrap().len(), 4, "{listed}");
        let first = client.get("/v1/accounts?limit=3").await.json();
        let next = first["next_before"].as_str().unwrap();
        let second = client.get(&format!("/v1/accounts?limit=3&before={next}")).await.json();
        let pages = [&first, &second].map(|page| page["accounts"].as_array().unwrap().clone());
        assert_eq!(json!(pages.concat()), listed["accounts"]);
        assert_eq!((pages[0].len(), &second["next_before"]), (3, &Value::Null));
        app.settled(&client).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_the_platform_refuses_are_not_connected() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let secrets = ["session_token", "token", "token", "access_token"];

        for (platform, secret) in PLATFORMS.into_iter().zip(secrets) {
            let mut wrong = import(&app, platform, "ada");
            wrong["auth"][secret] = json!("wrong");
            let reply = client.post(IMPORT, &wrong).await;
            assert_eq!(reply.failure(), (400, "verification_failed".to_owned()), "{platform}");
            assert_eq!(reply.json()["platform_status"], 401, "{platform}: {}", reply.text());
        }

        assert_eq!(
            client.get("/v1/accounts").await.json(),
            json!({"accounts": [], "next_before": null})
        );
        app
    })
    .await;
}

/// The platform says to whom credentials belong; a wrong id beside valid credentials is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_does_not_match_the_credentials_is_refused() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let mut wrong = import(&app, "platform_alpha", "ada");
        wrong["auth"]["user_id"] = json!("999");

        let reply = client.post(IMPORT, &wrong).await;

        assert_eq!(reply.failure(), (400, "verification_failed".to_owned()), "{}", reply.text());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeclared_auth_fields_are_refused() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    let before = app.seen("platform_gamma").await.len();
    let wrong = async |change: &dyn Fn(&mut Value)| {
        let mut body = import(&app, "platform_gamma", "ada");
        change(&mut body);
        client.post(IMPORT, &body).await.wrong_fields().remove(0).0
    };

    for field in ["base_url", "api_base", "proxy", "host", "Token"] {
        let named = wrong(&|body| body["auth"][field] = json!("https://evil.example")).await;
        assert_eq!(named, format!("body.auth.{field}"));
    }
    for text in ["a\r\nX-Evil: 1", "a\nb", "a\u{0}b", "", &"x".repeat(60_000)] {
        let named = wrong(&|body| body["auth"]["token"] = json!(text)).await;
        assert_eq!(named, "body.auth.token", "{:?}", text.get(..9));
    }
    assert_eq!(wrong(&|body| body["auth"]["token"] = json!(7)).await, "body.auth.token");
    let missing = |body: &mut Value| drop(body["auth"].as_object_mut().unwrap().remove("resource"));
    assert_eq!(wrong(&missing).await, "body.auth.resource");
    assert_eq!(wrong(&|body| body["platform"] = json!("platform_omega")).await, "body.platform");
    assert_eq!(wrong(&|body| body["key"] = json!("x")).await, "body.key");
    assert_eq!(app.seen("platform_gamma").await.len(), before);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creator_id_that_is_a_word_of_our_paths_is_refused() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    let long = "x".repeat(65);

    for id in
        [".", "..", "", "billing", "auth", "exports", "native", "a/b", "a b", "ä", "a%2Fb", &long]
    {
        let reply = connect(&app, &client, "platform_alpha", id).await;
        let fields = reply.wrong_fields();
        assert_eq!(fields[0].0, "body.creator_id", "{id:?}");
    }
    for id in ["a", "A.b_c-9", &long[..64]] {
        assert_eq!(connect(&app, &client, "platform_alpha", id).await.status, 201, "{id:?}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creator_id_in_use_on_another_platform_is_refused() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        assert_eq!(connect(&app, &client, "platform_alpha", "ada").await.status, 201);

        let other = connect(&app, &client, "platform_gamma", "ada").await;
        let neighbour = app.with_key(&app.customer(0).await.key);
        let neighbour = connect(&app, &neighbour, "platform_gamma", "ada").await;

        assert_eq!(other.failure(), (409, "creator_exists".to_owned()));
        assert_eq!(neighbour.status, 201, "another customer may use the same id");
        app
    })
    .await;
}

/// A second import is an update: its credentials are used from the next call on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_import_replaces_the_credentials() {
    let database = store::testing::store().await;
    let raw = RawPlatform::playing(|_, _| Script::json(200, "{}")).await;
    let app = TestApp::start(database, &raw.as_platform("platform_alpha")).await;
    let (_customer, client, account) = app.ready("platform_alpha", 10).await;
    let first = client.get(&format!("/v1/accounts/{account}")).await.json();
    app.advance_seconds(60);
    let mut again = import(&app, "platform_alpha", &account);
    again["auth"]["user_agent"] = json!("Second/2.0");

    let reply = client.post(IMPORT, &again).await;

    assert_eq!(reply.status, 200, "{}", reply.text());
    let record = reply.json();
    assert_eq!(record["connected_at"], first["connected_at"]);
    assert_ne!(record["verified_at"], first["verified_at"]);
    assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
    assert_eq!(raw.last_call().header("user-agent"), Some("Second/2.0"));
    app.settled(&client).await;
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_over_the_limit_is_connected_but_inactive() {
    let app = TestApp::on_sqlite("[slots.included]\nplatform_alpha = 1").await;
    let client = app.with_key(&app.customer(10).await.key);

    let first = connect(&app, &client, "platform_alpha", "one").await.json();
    let second = connect(&app, &client, "platform_alpha", "two").await;
    let call = client.get("/v1/two/native/users/me").await;

    assert_eq!(first["state"], "active");
    assert_eq!((second.status, &second.json()["state"]), (201, &json!("inactive")));
    assert_eq!(call.failure(), (403, "account_inactive".to_owned()));
    assert_eq!(client.get("/v1/one/native/users/me").await.status, 200);
    app.settled(&client).await;
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_or_unoffered_platform_has_its_own_failure() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let overrides = format!(
        "[platforms.platform_alpha]\nbase_url = \"http://{gone}\"\n[platforms.platform_gamma]\nbase_url = \"\""
    );
    let app = TestApp::on_sqlite(&overrides).await;
    let client = app.with_key(&app.customer(0).await.key);

    let unreachable = connect(&app, &client, "platform_alpha", "ada").await;
    let not_offered = connect(&app, &client, "platform_gamma", "ada").await;
    let platforms = app.anonymous().get("/v1/platforms").await.json();

    assert_eq!(unreachable.failure(), (502, "platform_unreachable".to_owned()));
    assert_eq!(not_offered.failure(), (503, "platform_not_offered".to_owned()));
    assert_eq!(platforms["platforms"][0]["offered"], true);
    assert_eq!(platforms["platforms"][2]["offered"], false);
    app.end().await;
}

/// A failing platform has not refused the credentials.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_platform_confirms_nothing() {
    let raw = RawPlatform::start(|_| Script::json(500, "{}")).await;
    let app = TestApp::on_sqlite(&raw.as_platform("platform_alpha")).await;
    let client = app.with_key(&app.customer(0).await.key);

    let reply = connect(&app, &client, "platform_alpha", "ada").await;

    assert_eq!(reply.failure(), (400, "verification_failed".to_owned()), "{}", reply.text());
    assert_eq!(reply.json()["platform_status"], 500);
    assert_eq!(
        client.get("/v1/accounts").await.json(),
        json!({"accounts": [], "next_before": null})
    );
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_account_is_gone_and_its_calls_stay_in_the_log() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 10).await;
        let native = format!("/v1/{account}/native/users/me");
        assert_eq!(client.get(&native).await.status, 200);

        let deleted = client.delete(&format!("/v1/accounts/{account}")).await;
        let again = client.delete(&format!("/v1/accounts/{account}")).await;

        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
        assert_eq!(again.failure(), (404, "account_not_found".to_owned()));
        assert_eq!(client.get(&native).await.failure(), (404, "account_not_found".to_owned()));
        assert_eq!(
            client.get(&format!("/v1/accounts/{account}")).await.code(),
            "account_not_found"
        );
        app.settled(&client).await;
        let log = client.get("/v1/billing/usage/recent").await.json();
        assert_eq!(log["calls"][0]["account"], account.as_str(), "{log}");
        assert_eq!(app.connect(&customer, "platform_alpha").await, account);
        app
    })
    .await;
}
