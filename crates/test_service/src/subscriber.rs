//! Customers with a subscription, and the simulated processor that they pay.

use serde_json::{Value, json};

use super::app::{Customer, TestApp};
use super::client::{Client, Reply};

/// The plan of most tests: two more accounts each on `platform_alpha` and `platform_beta`, and
/// 1,000 credits a month for 29.00 USD.
pub const PLAN: &str = "plan_small";
/// A bigger plan: four more accounts, 5,000 credits for 99.00 USD.
pub const BIG_PLAN: &str = "plan_big";
/// What every test of subscriptions sells. A slot on `platform_alpha` costs 10.00 USD a month, one
/// on `platform_beta` 16.00.
pub const OFFER: &str = "
[slots.included]
platform_alpha = 1
platform_beta = 1
platform_gamma = 1
platform_delta = 3
[slots.prices]
platform_alpha = { price_cents = 1000, price_id = \"\" }
platform_beta = { price_cents = 1600, price_id = \"\" }
[[plans]]
id = \"plan_small\"
name = \"Small\"
price_cents = 2900
monthly_credits = 1000
platforms = { platform_alpha = 2, platform_beta = 2, platform_gamma = 0, platform_delta = 0 }
[[plans]]
id = \"plan_big\"
name = \"Big\"
price_cents = 9900
monthly_credits = 5000
platforms = { platform_alpha = 4, platform_beta = 4, platform_gamma = 1, platform_delta = 0 }
";

/// A plan between the two: three more accounts on `platform_alpha`, 2,500 credits for 49.00 USD.
pub const MID_PLAN: &str = "plan_mid";
/// Sold in addition to the others.
const MID_OFFER: &str = "
[[plans]]
id = \"plan_mid\"
name = \"Mid\"
price_cents = 4900
monthly_credits = 2500
platforms = { platform_alpha = 3, platform_beta = 3, platform_gamma = 0, platform_delta = 0 }
";

/// A card that is charged without authentication.
pub const GOOD_CARD: &str = "4242424242424242";

/// Runs a test of subscriptions, on the database that the test is about.
pub async fn selling<F, T>(test: F)
where
    F: Fn(TestApp) -> T,
    T: Future<Output = TestApp>,
{
    let database = store::testing::store().await;
    let app = TestApp::start(database, OFFER).await;
    test(app).await.end().await;
}

/// The same with three plans.
pub async fn selling_three<F, T>(test: F)
where
    F: Fn(TestApp) -> T,
    T: Future<Output = TestApp>,
{
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("{OFFER}{MID_OFFER}")).await;
    test(app).await.end().await;
}

impl TestApp {
    /// Sends a control request to the simulated processor.
    pub async fn control(&self, path: &str, body: Value) -> Value {
        let path = format!("/control/processor/{path}");
        let reply = Client::new(self.world.address()).post(&path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// A list that the simulated processor shows to tests.
    pub async fn shown(&self, path: &str) -> Value {
        let path = format!("/control/processor/{path}");
        Client::new(self.world.address()).get(&path).await.json()
    }

    /// Delivers every waiting event; each must be accepted.
    pub async fn deliver(&self) {
        let delivered = self.control("deliver", json!({})).await;
        for sent in delivered["sent"].as_array().unwrap() {
            assert_eq!(sent["status"], 200, "{sent}");
        }
    }

    /// Sends a request to the processor as its operator does, not through this service.
    pub async fn at_processor(&self, method: &str, path: &str, form: &str) -> Value {
        let address = self.world.processor_url().trim_start_matches("http://").parse().unwrap();
        let client = Client::new(address)
            .bearer(&self.settings.processor.secret_key)
            .with("content-type", "application/x-www-form-urlencoded");
        let body = (method != "GET").then(|| form.as_bytes().to_vec());
        let reply = client.send(method, &format!("/v1/{path}"), body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// The only subscription, as the processor has it.
    pub async fn subscription(&self) -> Value {
        let list = self.at_processor("GET", "subscriptions?status=all&limit=10", "").await;
        assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
        list["data"][0].clone()
    }

    /// The invoices of the only customer, newest first.
    pub async fn invoices(&self) -> Vec<Value> {
        let list = self.at_processor("GET", "invoices?limit=100", "").await;
        list["data"].as_array().unwrap().clone()
    }

    /// The proration of each request that changed a subscription, oldest first.
    pub async fn prorations_asked(&self) -> Vec<String> {
        let asked = self.changes_asked().await;
        let word =
            |request: &Value| request["params"]["proration_behavior"].as_str().map(str::to_owned);
        asked.iter().filter_map(word).collect()
    }

    /// Makes the processor decline this many charges.
    pub async fn decline(&self, charges: usize) {
        self.control("declines", json!({"codes": vec!["card_declined"; charges]})).await;
    }

    /// Requests that changed a subscription, with their parameters.
    pub async fn changes_asked(&self) -> Vec<Value> {
        let shown = self.shown("requests").await;
        let is_change = |request: &&Value| {
            let path = request["path"].as_str().unwrap();
            request["method"] == "POST"
                && path.trim_start_matches("/v1/").starts_with("subscriptions/")
        };
        shown["requests"].as_array().unwrap().iter().filter(is_change).cloned().collect()
    }

    /// A customer that has subscribed to the small plan with this card, with all events delivered.
    pub async fn subscriber(&self, card: &str) -> (Customer, Client) {
        self.subscriber_of(json!({"plan_id": PLAN}), card).await
    }

    /// The same with another choice.
    pub async fn subscriber_of(&self, choice: Value, card: &str) -> (Customer, Client) {
        let customer = self.customer(0).await;
        let client = self.with_key(&customer.key);
        self.subscribe_to(&client, &choice, card).await;
        (customer, client)
    }

    /// Subscribes this caller to the small plan.
    pub async fn subscribe(&self, client: &Client, card: &str) {
        self.subscribe_to(client, &json!({"plan_id": PLAN}), card).await;
    }

    async fn subscribe_to(&self, client: &Client, choice: &Value, card: &str) {
        let page = client.post("/v1/billing/subscribe", choice).await;
        assert_eq!(page.status, 200, "{}", page.text());
        self.pay(&page, card).await;
        self.deliver().await;
    }

    /// Pays on the page that was opened.
    pub async fn pay(&self, page: &Reply, card: &str) {
        let session = page.json()["session_id"].as_str().unwrap().to_owned();
        let paid = self.control(&format!("checkout/{session}/pay"), json!({"card": card})).await;
        assert_eq!(paid["status"], "complete", "{paid}");
    }

    /// Advances the processor's clock by this many months, and delivers the events.
    pub async fn months_pass(&self, months: u32) {
        self.control("clock", json!({"advance_months": months})).await;
        self.deliver().await;
    }

    /// Imports an account of the platform under this id, and returns its state.
    pub async fn import(&self, client: &Client, platform: &str, creator: &str) -> String {
        let accounts = simulators::demo_accounts(&self.settings);
        let account = accounts.iter().find(|account| account.platform == platform).unwrap();
        let import = json!({"creator_id": creator, "platform": platform, "auth": account.auth});
        let reply = client.post("/v1/connect/import", &import).await;
        assert!(reply.status == 201 || reply.status == 200, "{}", reply.text());
        // The order of accounts follows from their times.
        self.advance_seconds(1);
        reply.json()["state"].as_str().unwrap().to_owned()
    }
}

/// The subscription as the customer sees it.
pub async fn subscription_of(client: &Client) -> Value {
    let reply = client.get("/v1/billing/subscription").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The paid plan, and the one that renews.
pub async fn plans_of(client: &Client) -> (Value, Value) {
    let state = subscription_of(client).await;
    (state["plan_id"].clone(), state["next_plan_id"].clone())
}

/// Chooses a plan.
pub async fn choose(client: &Client, plan: &str) -> Reply {
    client.post("/v1/billing/subscription/plan", &json!({"plan_id": plan})).await
}

/// The slots of a platform in a response.
pub fn slots_on(answer: &Value, platform: &str) -> Value {
    let slots = answer["slots"].as_array().unwrap();
    slots.iter().find(|slot| slot["platform"] == platform).unwrap().clone()
}

/// The ids of a customer's active accounts.
pub async fn active(client: &Client) -> Vec<String> {
    let accounts = client.get("/v1/accounts").await.json();
    let all = accounts["accounts"].as_array().unwrap().iter();
    let active = all.filter(|account| account["state"] == "active");
    active.map(|account| account["creator_id"].as_str().unwrap().to_owned()).collect()
}
