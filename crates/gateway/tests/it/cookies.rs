//! Cookies that a platform sets: sent with the account's further requests, kept over restarts, and
//! nobody else's.

use serde_json::{Value, json};
use test_service::client::Client;
use test_service::log;
use test_service::nodes::Nodes;
use test_service::platform::{RawPlatform, Script, Seen, answer};
use test_service::stage::{CANARY, Stage, auth};

/// A secret that only the platform's cookies hold.
const SECRET: &str = "cookie-4f1c77d0";

const KEEPING: &str = "
    [platforms.platform_alpha]
    cookies = true
    headers = [
        { name = \"Authorization\", value = \"Session {session_token}\" },
        { name = \"X-User-Id\", value = \"{user_id}\" },
        { name = \"Cookie\", value = \"lang=en; auth_id={user_id}\" },
    ]";

/// A response that sets these cookies.
fn setting(body: &str, cookies: &[&str]) -> Vec<u8> {
    let mut lines = String::from("content-type: application/json\r\n");
    for cookie in cookies {
        lines += &["set-cookie: ", cookie, "\r\n"].concat();
    }
    answer(200, &lines, body)
}

/// Sets a cookie for each device that it confirms, and for calls the cookies that their bodies
/// name.
fn set_as_told(request: &Seen, _: usize) -> Script {
    if request.is_verification() {
        let user = request.header("x-user-id").unwrap_or_default();
        let body = format!(r#"{{"id":"{user}"}}"#);
        return Script::Answer(setting(
            &body,
            &[&format!("device={SECRET}-{user}; Path=/; Max-Age=86400")],
        ));
    }
    let told: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let cookies: Vec<&str> =
        told["set"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Script::Answer(setting("{}", &cookies))
}

async fn platform() -> RawPlatform {
    RawPlatform::deciding(set_as_told).await
}

async fn on_each(test: impl AsyncFn(Stage) -> Stage) {
    let database = store::testing::store().await;
    let stage = Stage::set(database, "platform_alpha", platform().await, KEEPING).await;
    Box::pin(test(stage)).await.app.end().await;
}

/// Makes the platform set these cookies.
async fn set(stage: &Stage, cookies: &[&str]) {
    set_by(stage, &stage.client, cookies).await;
}

async fn set_by(stage: &Stage, client: &Client, cookies: &[&str]) {
    let reply = client.post(&stage.path("cookies/set"), &json!({"set": cookies})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let headers = format!("{:?}", reply.headers).to_ascii_lowercase();
    assert!(!headers.contains("set-cookie") && !headers.contains(SECRET), "{headers}");
}

/// The cookies that a call sends, sorted.
async fn sent(stage: &Stage) -> Vec<String> {
    sent_by(stage, &stage.client).await
}

async fn sent_by(stage: &Stage, client: &Client) -> Vec<String> {
    assert_eq!(client.get(&stage.path("users/me")).await.status, 200);
    cookies_of(&stage.platform.last_call())
}

fn cookies_of(call: &Seen) -> Vec<String> {
    let header = call.header("cookie").unwrap_or_default();
    let mut cookies: Vec<String> = header.split("; ").map(str::to_owned).collect();
    cookies.sort();
    cookies
}

fn device(user: &str) -> String {
    format!("device={SECRET}-{user}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platforms_cookies_join_those_of_the_credentials_until_they_expire() {
    on_each(async |stage| {
        assert_eq!(sent(&stage).await, ["auth_id=31", &device("31"), "lang=en"]);
        set(
            &stage,
            &[
                "auth_id=rotated; Path=/",
                "short=1; Path=/; Max-Age=60",
                "elsewhere=1; Path=/admin",
                "foreign=1; Domain=other.example",
                "wide=1; Domain=localhost",
                "sealed=1; Path=/; Secure",
                "deep=1; Path=/users",
            ],
        )
        .await;
        let of_caller = stage.client.with("cookie", "own=1");
        let joined = ["auth_id=rotated", "deep=1", &device("31"), "lang=en", "short=1"];
        assert_eq!(sent_by(&stage, &of_caller).await, joined);

        stage.app.advance_seconds(60);
        set(&stage, &["deep=; Path=/users; Max-Age=0"]).await;

        assert_eq!(sent(&stage).await, ["auth_id=rotated", &device("31"), "lang=en"]);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cookies_outlive_a_restart_and_are_nowhere_in_the_clear() {
    log::catch();
    on_each(async |mut stage| {
        set(&stage, &["sid=1; Path=/"]).await;
        stage.app.running().store_cookies().await;
        set(&stage, &[&format!("sid={SECRET}; Path=/")]).await;
        let metrics = stage.app.admin().get("/metrics").await.text();
        let exported = stage.client.get(&format!("/v1/accounts/{}", stage.account)).await.text();

        stage.restart_with(|_| ()).await;

        let expected = ["auth_id=31", &device("31"), "lang=en", &format!("sid={SECRET}")];
        assert_eq!(sent(&stage).await, expected);
        for text in [metrics, exported, log::everything()] {
            assert!(!text.contains(SECRET), "{text}");
        }
        if let Some(file) = stage.app.database_url().strip_prefix("sqlite:") {
            for path in [file.to_owned(), format!("{file}-wal")] {
                let bytes = std::fs::read(path).unwrap_or_default();
                assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
            }
        }
        stage
    })
    .await;
}

/// RFC 6265, section 5: cookies are octets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cookies_beyond_ascii_are_sent_back_byte_for_byte_also_after_a_restart() {
    on_each(async |mut stage| {
        set(&stage, &["lang=voil\u{e0}; Path=/", "n\u{e9}=\u{20ac}; Path=/", "bad=a\tb; Path=/"])
            .await;
        let expected =
            ["auth_id=31", &device("31"), "lang=voil\u{e0}", "n\u{e9}=\u{20ac}"].map(str::to_owned);
        assert_eq!(sent(&stage).await, expected);

        stage.restart_with(|_| ()).await;

        assert_eq!(sent(&stage).await, expected);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cookies_of_another_identity_and_of_a_disconnected_account_are_gone() {
    on_each(async |stage| {
        set(&stage, &["sid=1; Path=/", "auth_id=rotated; Path=/"]).await;
        stage.app.running().store_cookies().await;
        set(&stage, &["unstored=1; Path=/"]).await;

        // The same identity: what the new credentials bring themselves is newer than what the
        // platform set.
        assert_eq!(stage.import("platform_alpha", auth("platform_alpha")).await.status, 200);
        let same = sent(&stage).await;
        let replaced = json!({
            "creator_id": stage.account, "platform": "platform_alpha", "replace_identity": true,
            "auth": {"user_id": "32", "session_token": CANARY},
        });
        let replaced = stage.client.post("/v1/connect/import", &replaced).await;
        let other = sent(&stage).await;
        stage.app.running().store_cookies().await;
        let after_storing = sent(&stage).await;
        let path = format!("/v1/accounts/{}", stage.account);
        assert_eq!(stage.client.delete(&path).await.status, 204);
        stage.app.running().store_cookies().await;
        assert_eq!(stage.import("platform_alpha", auth("platform_alpha")).await.status, 201);

        assert_eq!(same, ["auth_id=31", &device("31"), "lang=en", "sid=1", "unstored=1"]);
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        assert_eq!(other, ["auth_id=32", &device("32"), "lang=en"]);
        assert_eq!(after_storing, other);
        assert_eq!(sent(&stage).await, ["auth_id=31", &device("31"), "lang=en"]);
        let checks =
            stage.platform.seen().into_iter().filter(|it| it.contains("x-call-id: verify"));
        assert!(checks.clone().count() >= 4 && !checks.into_iter().any(|it| it.contains(SECRET)));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_account_has_cookies_of_its_own() {
    on_each(async |stage| {
        let import = json!({
            "creator_id": "eve", "platform": "platform_alpha",
            "auth": {"user_id": "33", "session_token": "other"},
        });
        assert_eq!(stage.client.post("/v1/connect/import", &import).await.status, 201);
        set(&stage, &["sid=ada; Path=/"]).await;

        assert_eq!(stage.client.get("/v1/eve/native/users/me").await.status, 200);

        let of_eve = cookies_of(&stage.platform.last_call());
        assert_eq!(of_eve, ["auth_id=33", &device("33"), "lang=en"]);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_refresh_sends_and_receives_cookies() {
    let database = store::testing::store().await;
    let raw = RawPlatform::playing(|request, _| {
        if request.target() != "/oauth/token" {
            return Script::Answer(setting("{}", &["call=1; Path=/"]));
        }
        let tokens =
            json!({"access_token": "access-1", "refresh_token": "refresh-1", "expires_in": 3600});
        Script::Answer(setting(&tokens.to_string(), &["refreshed=1; Path=/"]))
    })
    .await;
    let overrides = format!(
        "[platforms.platform_delta]\ncookies = true\n[platforms.platform_delta.oauth]\n\
             token_url = \"http://{}/oauth/token\"\nclient_id = \"id\"\nclient_secret = \"word\"",
        raw.address
    );
    let stage = Stage::set(database, "platform_delta", raw, &overrides).await;
    let auth = json!({
        "access_token": "access-0", "refresh_token": "refresh-0",
        "expires_at": "2026-11-21T13:00:00Z",
    });
    assert_eq!(stage.import("platform_delta", auth).await.status, 200);
    assert_eq!(stage.get("chats").await.status, 200);
    stage.app.advance_seconds(3_599);

    assert_eq!(stage.get("chats").await.status, 200);

    let calls = stage.platform.calls();
    let [_, refresh, call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(cookies_of(refresh), ["call=1"]);
    assert_eq!(cookies_of(call), ["call=1", "refreshed=1"]);
    stage.app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_master_key_opens_the_cookies_as_before() {
    const OLD: &str = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    const NEW: &str = "2:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let keys = |keys: &[&'static str]| -> Vec<secrecy::SecretString> {
        keys.iter().map(|key| secrecy::SecretString::from(*key)).collect()
    };
    let database = store::testing::store().await;
    let overrides = format!("[secrets]\nmaster_keys = [{OLD:?}]\n{KEEPING}");
    let mut stage = Stage::set(database, "platform_alpha", platform().await, &overrides).await;
    set(&stage, &["sid=1; Path=/"]).await;
    stage.restart_with(|config| config.secrets.master_keys = keys(&[NEW, OLD])).await;
    stage.app.staff(json!({"command": "rotate_master_key"})).await;

    stage.restart_with(|config| config.secrets.master_keys = keys(&[NEW])).await;

    assert_eq!(sent(&stage).await, ["auth_id=31", &device("31"), "lang=en", "sid=1"]);
    // The account ends with the old key in force again.
    stage.app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn nodes_merge_the_cookies_that_each_of_them_received() {
    let database = store::testing::postgres().await;
    Nodes::on(database, KEEPING, platform().await, async |nodes| {
        let clients = nodes.own_clients();
        for client in &clients {
            assert_eq!(client.get(&nodes.stage.path("users/me")).await.status, 200);
        }
        for (number, client) in clients.iter().enumerate() {
            let own = format!("node{number}=1; Path=/");
            let shared = format!("last={number}; Path=/");
            set_by(&nodes.stage, client, &[&own, &shared]).await;
            nodes.stage.app.advance_seconds(1);
        }
        // All but the first to be stored find that the others have stored theirs.
        for running in nodes.running() {
            running.store_cookies().await;
        }
        nodes.stage.app.advance_seconds(60);

        for client in &clients {
            let cookies = sent_by(&nodes.stage, client).await;
            let expected =
                ["auth_id=31", &device("31"), "lang=en", "last=2", "node0=1", "node1=1", "node2=1"];
            assert_eq!(cookies, expected);
        }
        nodes
    })
    .await;
}
