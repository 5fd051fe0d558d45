//! A stage: the service with one connected account on a scripted platform.

use serde_json::{Value, json};

use super::app::{Customer, TestApp};
use super::client::{Client, Reply};
use super::platform::{RawPlatform, Script, Seen};
use super::raw::RawConnection;

/// The secret of every account connected on a stage. Callers must never see it.
pub const CANARY: &str = "canary-7f3a91c2";

/// The customer's initial credits.
pub const CREDITS: i64 = 100;

/// The service, a scripted platform, and a customer with one account on it.
pub struct Stage {
    /// The service.
    pub app: TestApp,
    /// The platform that the test plays.
    pub platform: RawPlatform,
    /// The customer.
    pub customer: Customer,
    /// A client with its key.
    pub client: Client,
    /// The id of its account.
    pub account: String,
}

/// Runs a test on a stage, whose service uses the database that the test is about.
pub async fn on_stage<S, F>(platform: &str, overrides: &str, script: S, test: F)
where
    S: Fn(&Seen, usize) -> Script + Clone + Send + Sync + 'static,
    F: AsyncFn(Stage) -> Stage,
{
    on_stage_of(platform, overrides, async || RawPlatform::playing(script.clone()).await, test)
        .await;
}

/// The same with a platform created by the test.
pub async fn on_stage_of<M, F>(platform: &str, overrides: &str, make: M, test: F)
where
    M: AsyncFn() -> RawPlatform,
    F: AsyncFn(Stage) -> Stage,
{
    let database = store::testing::store().await;
    let raw = make().await;
    let played = async {
        let stage = Stage::set(database, platform, raw, overrides).await;
        test(stage).await.app.end().await;
    };
    Box::pin(played).await;
}

/// The credentials of an account on this platform.
pub fn auth(platform: &str) -> Value {
    match platform {
        "platform_alpha" => {
            json!({"user_id": "31", "session_token": CANARY, "user_agent": "Connected/1.0"})
        }
        "platform_beta" => json!({"token": CANARY, "device_id": "d-1"}),
        "platform_gamma" => json!({"token": CANARY, "resource": "res-1", "account_id": "66f0a1"}),
        _ => json!({"access_token": CANARY}),
    }
}

impl Stage {
    /// The service on this database, with `raw` as `platform`.
    pub async fn set(
        database: store::testing::TestStore,
        platform: &str,
        raw: RawPlatform,
        overrides: &str,
    ) -> Self {
        let overrides = merged(&raw.as_platform(platform), overrides);
        let app = TestApp::start(database, &overrides).await;
        let customer = app.customer(CREDITS).await;
        let client = app.with_key(&customer.key);
        let stage = Self { app, platform: raw, customer, client, account: "ada".to_owned() };
        let reply = stage.import(platform, auth(platform)).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        stage
    }

    /// Connects the account, or replaces its credentials.
    pub async fn import(&self, platform: &str, auth: Value) -> Reply {
        let import = json!({"creator_id": self.account, "platform": platform, "auth": auth});
        self.client.post("/v1/connect/import", &import).await
    }

    /// Grants more credits to the customer, as staff do.
    pub async fn grant(&self, credits: i64) {
        let grant = json!({
            "command": "grant_credits", "customer": self.customer.id, "credits": credits,
            "reference": "for a long test",
        });
        self.app.staff(grant).await;
    }

    /// The path of a native call.
    pub fn path(&self, native: &str) -> String {
        format!("/v1/{}/native/{native}", self.account)
    }

    /// Reads a native path of the account.
    pub async fn get(&self, native: &str) -> Reply {
        self.client.get(&self.path(native)).await
    }

    /// Posts JSON to a native path of the account.
    pub async fn post(&self, native: &str, json: &Value) -> Reply {
        self.client.post(&self.path(native), json).await
    }

    /// A connection for sending exact bytes.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(self.app.running().address()).await
    }

    /// The headers that every request needs: host and key.
    pub fn host_and_key(&self) -> String {
        format!("Host: gateway\r\nX-API-Key: {}\r\n", self.customer.key)
    }

    /// Waits until nothing is held, and returns the call log, newest first.
    pub async fn log(&self) -> Vec<Value> {
        self.app.settled(&self.client).await;
        let log = self.client.get("/v1/billing/usage/recent").await.json();
        log["calls"].as_array().unwrap().clone()
    }

    /// How the only call ended: (outcome, credits).
    pub async fn ending(&self) -> (String, i64) {
        let log = self.log().await;
        let [call] = &log[..] else { panic!("there must be one call: {log:?}") };
        (call["outcome"].as_str().unwrap().to_owned(), call["credits"].as_i64().unwrap())
    }

    /// How the latest call ended: (outcome, credits).
    pub async fn ending_of_last(&self) -> (String, i64) {
        let log = self.log().await;
        let call = &log[0];
        (call["outcome"].as_str().unwrap().to_owned(), call["credits"].as_i64().unwrap())
    }

    /// Asserts that nothing was sent, charged or logged.
    pub async fn is_unspent(&self) {
        assert_eq!(self.platform.calls().len(), 0);
        assert_eq!((self.balance().await, self.log().await.len()), (CREDITS, 0));
    }

    /// Stops the service and starts it with a changed configuration.
    pub async fn restart_with(&mut self, change: impl FnOnce(&mut settings::Config)) {
        self.app.stop_service().await;
        self.app.start_service(change).await.unwrap();
        self.client = self.app.with_key(&self.customer.key);
    }

    /// The customer's credits, once nothing is held.
    pub async fn balance(&self) -> i64 {
        self.app.settled(&self.client).await;
        self.client.get("/v1/billing").await.json()["balance"].as_i64().unwrap()
    }

    /// Waits until the account has this state.
    pub async fn becomes(&self, state: &str) {
        for _ in 0..10_000 {
            if self.account_state().await == state {
                return;
            }
        }
        panic!("the account did not become {state}");
    }

    /// The state of the account, as its owner sees it.
    pub async fn account_state(&self) -> String {
        let reply = self.client.get(&format!("/v1/accounts/{}", self.account)).await;
        reply.json()["state"].as_str().unwrap_or_default().to_owned()
    }
}

/// Merges two TOML texts, which may have tables in common.
fn merged(one: &str, other: &str) -> String {
    let mut table: toml::Table = one.parse().unwrap();
    super::app::merge(&mut table, other.parse().unwrap());
    table.to_string()
}
