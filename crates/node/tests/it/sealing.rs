//! Secrets at rest: sealed for their row and field, and opened only by the master keys in force.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

use secrecy::SecretString;
use serde_json::json;
use store::data_keys::MasterKeyUse;
use store::testing::run_raw;
use test_service::app::TestApp;
use test_service::{Client, with_app};

const OLD: &str = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NEW: &str = "2:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const WRONG: &str = "1:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

/// Searches every text column as it is, and every blob as hexadecimal digits.
const IN_THE_CLEAR: &str = "
    do $$
    declare place record; found bigint;
    begin
        for place in select tablename from pg_tables where schemaname = 'public' loop
            execute format(
                'select count(*) from %I r where position(''alpha-session-demo-5f1c27'' in r::text) > 0
                 or position(encode(''alpha-session-demo-5f1c27''::bytea, ''hex'') in r::text) > 0',
                place.tablename) into found;
            if found > 0 then raise exception 'in the clear in %', place.tablename; end if;
        end loop;
    end $$";

fn set_keys(config: &mut settings::Config, keys: &[&str]) {
    config.secrets.master_keys = keys.iter().map(|key| SecretString::from(*key)).collect();
}

/// Runs the test on each database, with configured master keys.
async fn with_master_keys(test: impl AsyncFn(TestApp) -> TestApp) {
    let database = store::testing::store().await;
    let overrides = format!("[secrets]\nmaster_keys = [{OLD:?}]");
    let app = TestApp::start(database, &overrides).await;
    test(app).await.end().await;
}

async fn read(client: &Client, account: &str) -> u16 {
    client.get(&format!("/v1/{account}/native/users/me")).await.status
}

/// The secret of the simulated platform's first account.
fn session_token(app: &TestApp) -> String {
    let accounts = simulators::demo_accounts(&app.settings);
    let alpha = accounts.iter().find(|account| account.platform == "platform_alpha").unwrap();
    alpha.auth["session_token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accounts_secret_is_nowhere_in_the_database() {
    with_app(async |mut app| {
        let secret = session_token(&app);
        assert_eq!(secret, "alpha-session-demo-5f1c27", "the search below looks for this text");
        let (_customer, client, account) = app.ready("platform_alpha", 10).await;
        assert_eq!(read(&client, &account).await, 200);
        let post = client.with("idempotency-key", "one");
        let native = format!("/v1/{account}/native/chats/mark-as-read");
        assert_eq!(post.post(&native, &json!({})).await.status, 200);
        app.settled(&client).await;

        if let Some(path) = app.database_url().strip_prefix("sqlite:") {
            let file = path.to_owned();
            assert_not_in_files(&file, &secret, &account);
            app.stop_service().await;
            assert_not_in_files(&file, &secret, &account);
            app.start_service(|_| ()).await.unwrap();
        } else {
            run_raw(app.store(), IN_THE_CLEAR).await.unwrap();
            // Check that the search works.
            let spoil = "update accounts set platform_account_id = 'alpha-session-demo-5f1c27'";
            run_raw(app.store(), spoil).await.unwrap();
            assert!(run_raw(app.store(), IN_THE_CLEAR).await.is_err());
        }
        app
    })
    .await;
}

/// Asserts that neither the database nor SQLite's files beside it contain the secret, but that
/// together they contain the name.
fn assert_not_in_files(database: &str, secret: &str, name: &str) {
    let mut names = 0;
    for file in ["", "-wal", "-shm"] {
        let Ok(bytes) = std::fs::read(format!("{database}{file}")) else { continue };
        let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!holds(secret), "the secret is in {database}{file}");
        names += usize::from(holds(name));
    }
    assert!(names > 0, "the search must find the name");
}

/// A sealed text opens only in its own row: a copy in another account's row is not a usable
/// credential.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_copied_to_another_row_does_not_open() {
    with_app(async |app| {
        let (customer, client, first) = app.ready("platform_alpha", 10).await;
        let mut accounts = simulators::demo_accounts(&app.settings);
        let other = accounts
            .remove(accounts.iter().position(|account| account.creator_id == first).unwrap());
        let import =
            json!({"creator_id": "copy", "platform": "platform_alpha", "auth": other.auth});
        assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);
        let copy = "
            update accounts set credentials =
                (select a.credentials from accounts a where a.creator_id = 'demo_alpha')
            where creator_id = 'copy'";
        assert_eq!(run_raw(app.store(), copy).await.unwrap(), 1);
        let before = app.seen("platform_alpha").await.len();

        let app = app.restart().await;
        let again = app.with_key(&customer.key);
        let reply = again.get("/v1/copy/native/users/me").await;

        assert_eq!(reply.failure(), (409, "credential_error".to_owned()), "{}", reply.text());
        assert_eq!(app.seen("platform_alpha").await.len(), before);
        assert_eq!(read(&again, &first).await, 200);
        app.settled(&again).await;
        assert_eq!(again.get("/v1/billing").await.json()["balance"], 9);
        assert_eq!(again.post("/v1/connect/import", &import).await.status, 200);
        assert_eq!(read(&again, "copy").await, 200);
        app.settled(&again).await;
        app
    })
    .await;
}

/// With the embedded default, the key file gets a new first key without a stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_key_in_the_key_file_is_rotated_while_serving() {
    let app = TestApp::on_sqlite("").await;
    let (customer, client, account) = app.ready("platform_alpha", 100).await;
    let old = store::data_keys::count_by_master_key(app.store()).await.unwrap();

    let done = app.staff(json!({"command": "rotate_master_key"})).await;

    let fresh = done["master_key_id"].as_str().unwrap().to_owned();
    assert_eq!((old[0].master_key.as_str(), &done["rewrapped"]), ("1", &json!(1)));
    let now = store::data_keys::count_by_master_key(app.store()).await.unwrap();
    assert_eq!(now, [MasterKeyUse { master_key: fresh.clone(), data_keys: 1 }]);
    assert_eq!(read(&client, &account).await, 200);
    app.settled(&client).await;
    let mut app = app.restart().await;
    assert_eq!(read(&app.with_key(&customer.key), &account).await, 200);
    app.settled(&app.with_key(&customer.key)).await;

    // The old key can now be removed from the file.
    app.stop_service().await;
    let path = app.database_url().strip_prefix("sqlite:").unwrap();
    let file = std::path::Path::new(path).with_file_name("creator-gateway.keys");
    let keys = std::fs::read_to_string(&file).unwrap();
    assert_eq!(keys.lines().count(), 2);
    std::fs::write(&file, keys.lines().next().unwrap()).unwrap();
    app.start_service(|_| ()).await.unwrap();
    assert_eq!(read(&app.with_key(&customer.key), &account).await, 200);
    app.settled(&app.with_key(&customer.key)).await;
    app.end().await;
}

/// The path of the service's master keys.
fn key_file(app: &TestApp) -> std::path::PathBuf {
    let path = app.database_url().strip_prefix("sqlite:").unwrap();
    std::path::Path::new(path).with_file_name("creator-gateway.keys")
}

/// The server reads the file again before it writes it, and names the file to back up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_keeps_keys_that_were_added_by_hand_while_serving() {
    const BY_HAND: &str = "hand:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let app = TestApp::on_sqlite("").await;
    let (customer, _, account) = app.ready("platform_alpha", 10).await;
    let file = key_file(&app);
    let first = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{BY_HAND}\n{first}")).unwrap();

    let done = app.staff(json!({"command": "rotate_master_key"})).await;

    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.lines().count(), 3, "{written}");
    assert!(written.contains(BY_HAND) && written.ends_with(&first), "{written}");
    assert!(written.starts_with(done["master_key_id"].as_str().unwrap()), "{done}");
    assert_eq!(done["key_file"], file.display().to_string());
    std::fs::write(&file, format!("{written}# do not delete\n")).unwrap();
    let token = secrecy::ExposeSecret::expose_secret(app.running().admin_token()).to_owned();
    let again = json!({"command": "rotate_master_key"});
    let refused = app.admin().bearer(&token).post("/commands", &again).await;
    assert!(refused.status >= 400 && refused.text().contains("line 4"), "{}", refused.text());
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("# do not delete\n"));
    std::fs::write(&file, written).unwrap();
    let app = app.restart().await;
    let client = app.with_key(&customer.key);
    assert_eq!(read(&client, &account).await, 200);
    app.settled(&client).await;
    app.end().await;
}

/// A new key could not open anything, and would hide that the right one is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_its_key_file_is_refused_and_no_new_file_is_created() {
    let mut app = TestApp::on_sqlite("").await;
    let (customer, _, account) = app.ready("platform_alpha", 10).await;
    let file = key_file(&app);
    let saved = file.with_file_name("saved");
    app.stop_service().await;
    std::fs::rename(&file, &saved).unwrap();

    let refused = app.start_service(|_| ()).await.unwrap_err();

    assert!(refused.contains(&file.display().to_string()), "{refused}");
    assert!(refused.contains("is missing") && refused.contains("restore"), "{refused}");
    assert!(!file.exists());
    std::fs::rename(&saved, &file).unwrap();
    app.start_service(|_| ()).await.unwrap();
    let client = app.with_key(&customer.key);
    assert_eq!(read(&client, &account).await, 200);
    app.settled(&client).await;
    app.end().await;
}

/// With configured keys: add the new key in front, rotate to rewrap the data keys, then remove the
/// old key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_master_key_is_rotated_step_by_step() {
    with_master_keys(async |mut app| {
        let (customer, _client, account) = app.ready("platform_alpha", 100).await;

        app.stop_service().await;
        app.start_service(|config| set_keys(config, &[NEW, OLD])).await.unwrap();
        let client = app.with_key(&customer.key);
        assert_eq!(read(&client, &account).await, 200);
        let done = app.staff(json!({"command": "rotate_master_key"})).await;
        assert_eq!((&done["master_key_id"], &done["rewrapped"]), (&json!("2"), &json!(1)));
        assert_eq!(store::data_keys::count_under(app.store(), "1").await.unwrap(), 0);
        assert_eq!(read(&client, &account).await, 200);
        app.settled(&client).await;

        app.stop_service().await;
        app.start_service(|config| set_keys(config, &[NEW])).await.unwrap();
        let again = app.with_key(&customer.key);
        assert_eq!(read(&again, &account).await, 200);
        app.settled(&again).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_key_in_use_must_stay_configured() {
    with_master_keys(async |mut app| {
        app.ready("platform_alpha", 0).await;
        app.stop_service().await;

        let refused = app.start_service(|config| set_keys(config, &[NEW])).await.unwrap_err();

        assert!(
            refused
                .contains("1 data keys are wrapped by the master key `1`, which is not configured"),
            "{refused}"
        );
        app.start_service(|_| ()).await.unwrap();
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_different_master_key_of_the_same_name_is_detected_at_start() {
    with_master_keys(async |mut app| {
        app.stop_service().await;

        let refused = app.start_service(|config| set_keys(config, &[WRONG])).await.unwrap_err();

        assert!(refused.contains("the master key `1` is not the one"), "{refused}");
        app.start_service(|_| ()).await.unwrap();
        app
    })
    .await;
}
