//! Platforms that the configuration declares: a built-in one under another name, and one of the
//! operator's own.

use domain::platform::Platform;
use serde_json::{Value, json};
use test_service::TestApp;
use test_service::subscriber::{OFFER, PLAN};

/// The service is up, but the simulated platforms have addresses only after the start of the world.
async fn point_at_the_world(app: &mut TestApp, name: &str) {
    let base_url = app.platform_url("platform_alpha");
    app.stop_service().await;
    app.start_service(|config| {
        let platform: Platform = name.parse().unwrap();
        config.platforms.get_mut(platform).unwrap().base_url = base_url;
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_built_in_platform_under_another_name_keeps_its_data_and_its_old_name_as_an_alias() {
    let database = store::testing::store().await;
    let renamed = "[platforms.platform_alpha]\nbase_url = \"\"\n[platforms.mine]\n\
                       extends = \"platform_alpha\"\nbase_url = \"http://127.0.0.1:1\"";
    let mut app = TestApp::start(database, renamed).await;
    point_at_the_world(&mut app, "mine").await;
    // The import names the platform by its alias.
    let (_, client, account) = app.ready("platform_alpha", 10).await;

    let called = client.get(&format!("/v1/{account}/native/users/me")).await;

    assert_eq!(called.status, 200, "{}", called.text());
    let accounts = client.get("/v1/accounts").await.json();
    assert_eq!(accounts["accounts"][0]["platform"], "mine", "{accounts}");
    let calls = client.get("/v1/billing/usage/recent").await.json();
    assert_eq!(calls["calls"][0]["platform"], "mine", "{calls}");
    let platforms = client.get("/v1/platforms").await.json();
    let names: Vec<&Value> =
        platforms["platforms"].as_array().unwrap().iter().map(|it| &it["platform"]).collect();
    assert_eq!(names, ["platform_beta", "platform_gamma", "platform_delta", "mine"]);
    for name in ["mine", "platform_alpha"] {
        let routes = client.get(&format!("/v1/platforms/{name}/routes")).await;
        assert_eq!(routes.status, 200, "{}", routes.text());
    }
    let contract = client.get("/openapi.json").await.text();
    assert!(contract.contains("\"mine\""));
    let stored = "update accounts set platform = platform where platform = 'platform_alpha'";
    assert_eq!(store::testing::run_raw(app.store(), stored).await.unwrap(), 1);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platform_of_the_operators_own_needs_a_catalogue_file_and_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("own.toml");
    std::fs::write(
        &catalog,
        "[[auth_fields]]\nname = \"session_token\"\nkind = \"string\"\nrequired = true\n\
         secret = true\nbytes_max = 100\ndescription = \"A token.\"\n\
         [[auth_fields]]\nname = \"user_id\"\nkind = \"string\"\nrequired = true\nsecret = false\n\
         bytes_max = 100\ndescription = \"An id.\"\n\
         [[routes]]\nmethod = \"GET\"\ntemplate = \"users/me\"\ngroup = \"own\"\n",
    )
    .unwrap();
    let mut app = TestApp::on_sqlite(&format!(
        "[slots.included]\nfifth = 3\n[platforms.fifth]\nbase_url = \"http://127.0.0.1:1\"\n\
         catalog = {catalog:?}\nverify_route = {{ path = \"users/me\", id_pointer = \"/id\" }}\n\
         headers = [{{ name = \"Authorization\", value = \"Session {{session_token}}\" }},\n\
         {{ name = \"X-User-Id\", value = \"{{user_id}}\" }}]"
    ))
    .await;
    point_at_the_world(&mut app, "fifth").await;
    let customer = app.customer(10).await;
    let client = app.with_key(&customer.key);
    let auth = app.demo_auth("platform_alpha");
    let auth = json!({"user_id": auth["user_id"], "session_token": auth["session_token"]});
    let import = json!({"creator_id": "own_1", "platform": "fifth", "auth": auth});

    let connected = client.post("/v1/connect/import", &import).await;
    let called = client.get("/v1/own_1/native/users/me").await;
    let unlisted = client.get("/v1/own_1/native/subscribers").await;

    assert_eq!(connected.status, 201, "{}", connected.text());
    assert_eq!(called.status, 200, "{}", called.text());
    assert_eq!(called.header("x-route"), "GET users/me");
    assert_ne!(unlisted.header("x-route"), "GET subscribers");
    let me = client.get("/v1/whoami").await;
    assert!(me.text().contains("fifth"), "{}", me.text());
    let refused =
        client.post("/v1/connect/import", &json!({"platform": "sixth", "auth": {}})).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("platform_delta, fifth"), "{}", refused.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extra_slots_are_named_by_either_name_of_a_platform() {
    let renamed = format!(
        "{OFFER}\n[platforms.platform_alpha]\nbase_url = \"\"\n[platforms.mine]\n\
         extends = \"platform_alpha\"\nbase_url = \"http://127.0.0.1:1\""
    );
    let app = TestApp::on_sqlite(&renamed).await;
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let ask = async |slots: Value| {
        client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN, "slots": slots})).await
    };

    let by_alias = ask(json!({"platform_alpha": 1})).await;
    let by_name = ask(json!({"mine": 1})).await;
    let twice = ask(json!({"mine": 1, "platform_alpha": 2})).await;
    let other = ask(json!({"nobody": 1})).await;

    assert_eq!(by_alias.status, 200, "{}", by_alias.text());
    assert_eq!(by_alias.json()["url"], by_name.json()["url"], "{}", by_name.text());
    assert_eq!((twice.status, other.status), (422, 422), "{}", twice.text());
    app.end().await;
}
