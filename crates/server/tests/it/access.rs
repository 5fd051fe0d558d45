//! Who may do what: every operation of the contract, asked by everybody who must not.
#![expect(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test that meets what it does not expect must fail, and has the stack to itself"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::{document, operations};
use crate::support::app::Customer;
use crate::support::{Client, Reply, TestApp, on_both};

/// One operation of the contract as a caller would use it on somebody else's things.
struct Case {
    method: &'static str,
    /// The path in the contract.
    template: &'static str,
    /// A body that the operation would take.
    body: fn(&Victim) -> Value,
    /// What a caller with a key of another customer gets.
    stranger: Stranger,
}

/// What another customer's key gives.
enum Stranger {
    /// The operation is open: a key is not looked at.
    Open,
    /// An answer that shows nothing of the victim's.
    OwnView,
    /// Not found, with this code.
    NotFound(&'static str),
}

/// Whose things are asked for.
struct Victim {
    customer: Customer,
    account: String,
}

const OPEN: &[(&str, &str)] = &[
    ("get", "/health"),
    ("get", "/v1/platforms"),
    ("get", "/v1/platforms/{platform}/routes"),
    ("post", "/v1/auth/register"),
];

const NATIVE: &str = "/v1/{account}/native/{native_path}";

fn nothing(_: &Victim) -> Value {
    json!({})
}

fn new_key(_: &Victim) -> Value {
    json!({"name": "another", "scope": "read_only"})
}

fn rotation(victim: &Victim) -> Value {
    json!({"key_id": victim.customer.key_id})
}

fn registration(_: &Victim) -> Value {
    json!({"email": "somebody@example.com", "password": "long enough"})
}

fn import(_: &Victim) -> Value {
    let auth = json!({"user_id": "1", "session_token": "wrong"});
    json!({"creator_id": "somebody", "platform": "platform_alpha", "auth": auth})
}

const fn case(
    method: &'static str,
    template: &'static str,
    body: fn(&Victim) -> Value,
    stranger: Stranger,
) -> Case {
    Case { method, template, body, stranger }
}

fn cases() -> Vec<Case> {
    use Stranger::{NotFound, Open, OwnView};
    vec![
        case("get", "/health", nothing, Open),
        case("get", "/v1/platforms", nothing, Open),
        case("get", "/v1/platforms/{platform}/routes", nothing, Open),
        case("post", "/v1/auth/register", registration, Open),
        case("get", "/v1/auth/keys", nothing, OwnView),
        case("post", "/v1/auth/keys", new_key, OwnView),
        case("post", "/v1/auth/keys/rotate", rotation, NotFound("not_found")),
        case("delete", "/v1/auth/keys/{key_id}", nothing, NotFound("not_found")),
        case("get", "/v1/whoami", nothing, OwnView),
        case("post", "/v1/connect/import", import, OwnView),
        case("get", "/v1/accounts", nothing, OwnView),
        case("get", "/v1/accounts/{account}", nothing, NotFound("account_not_found")),
        case("delete", "/v1/accounts/{account}", nothing, NotFound("account_not_found")),
        case("get", "/v1/billing", nothing, OwnView),
        case("get", "/v1/billing/usage/daily", nothing, OwnView),
        case("get", "/v1/billing/usage/recent", nothing, OwnView),
        case("get", NATIVE, nothing, NotFound("account_not_found")),
        case("post", NATIVE, nothing, NotFound("account_not_found")),
        case("put", NATIVE, nothing, NotFound("account_not_found")),
        case("patch", NATIVE, nothing, NotFound("account_not_found")),
        case("delete", NATIVE, nothing, NotFound("account_not_found")),
    ]
}

impl Case {
    fn needs_key(&self) -> bool {
        !matches!(self.stranger, Stranger::Open)
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    async fn call(&self, client: &Client, victim: &Victim) -> Reply {
        let path = self
            .template
            .replace("{account}", &victim.account)
            .replace("{key_id}", &victim.customer.key_id)
            .replace("{platform}", "platform_alpha")
            .replace("{native_path}", "users/me");
        match self.method {
            "get" => client.get(&path).await,
            "delete" => client.delete(&path).await,
            method => client.json(&method.to_uppercase(), &path, &(self.body)(victim)).await,
        }
    }
}

async fn victim(app: &TestApp) -> Victim {
    let (customer, _client, account) = app.ready("platform_alpha", 100).await;
    Victim { customer, account }
}

/// The victim's things are as they were: the key works, the account is there, nothing was spent.
async fn assert_unharmed(app: &TestApp, victim: &Victim) {
    let client = app.with_key(&victim.customer.key);
    assert_eq!(client.get("/v1/billing").await.json()["balance"], 100);
    let accounts = client.get("/v1/accounts").await.json();
    assert_eq!(accounts["accounts"][0]["creator_id"], victim.account.as_str(), "{accounts}");
    let keys = client.get("/v1/auth/keys").await.json();
    assert_eq!(keys["keys"][0]["revoked_at"], Value::Null, "{keys}");
}

/// A new operation must be put into the table before it can be shipped.
#[test]
fn the_table_has_every_operation_of_the_contract() {
    let named = |(method, path, _): &(String, String, Value)| format!("{method} {path}");
    let contract: BTreeSet<String> = operations(&document()).iter().map(named).collect();
    let table: BTreeSet<String> = cases().iter().map(Case::name).collect();

    assert_eq!(table, contract);
}

#[test]
fn exactly_these_operations_need_no_key() {
    let operations = operations(&document());
    let open: Vec<(&str, &str)> = operations
        .iter()
        .filter(|(_, _, operation)| operation["security"] == json!([]))
        .map(|(method, path, _)| (method.as_str(), path.as_str()))
        .collect();

    let sorted = |list: &[(&str, &str)]| {
        let list = list.iter().map(|(method, path)| format!("{method} {path}"));
        list.collect::<BTreeSet<String>>()
    };
    assert_eq!(sorted(&open), sorted(OPEN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_everything_but_the_open_operations_is_refused() {
    on_both(async |app| {
        let victim = victim(&app).await;

        for case in cases() {
            let reply = case.call(&app.anonymous(), &victim).await;

            if case.needs_key() {
                assert_eq!(reply.failure(), (401, "missing_key".to_owned()), "{}", case.name());
                assert_eq!(reply.header("www-authenticate"), "Bearer", "{}", case.name());
            } else {
                assert!(reply.status < 300, "{}: {}", case.name(), reply.text());
            }
        }
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_valid_key_opens_nothing() {
    on_both(async |app| {
        let victim = victim(&app).await;
        let key = victim.customer.key.as_str();
        let other = app.customer(0).await.key;
        let (mut flipped, last) = (key.to_owned(), key.chars().last().unwrap());
        flipped.pop();
        flipped.push(if last == 'x' { 'y' } else { 'x' });
        let unknown = domain::key::KeySecret::generate(|bound| bound - 1).expose().to_owned();
        let nobody = app.anonymous();
        let invalid = [
            nobody.with_key(""),
            nobody.with_key("cgw_live_"),
            nobody.with_key(&flipped),
            nobody.with_key(&unknown),
            nobody.with_key(&key.to_uppercase()),
            nobody.with_key(&format!("{key}{key}")),
            nobody.bearer(""),
            nobody.with("authorization", key),
            nobody.with("authorization", &format!("Basic {key}")),
        ];

        for case in cases().into_iter().filter(Case::needs_key) {
            for (index, client) in invalid.iter().enumerate() {
                let reply = case.call(client, &victim).await;
                let place = format!("{} with form {index}", case.name());
                assert_eq!(reply.failure(), (401, "invalid_key".to_owned()), "{place}");
            }
            let two = nobody.with_key(key).bearer(&other);
            let reply = case.call(&two, &victim).await;
            assert_eq!(reply.failure(), (401, "ambiguous_key".to_owned()), "{}", case.name());
            let twice = nobody.with_key(key).with_key(key);
            assert_eq!(case.call(&twice, &victim).await.status, 400, "{}", case.name());
        }
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_taken_from_headers_alone() {
    on_both(async |app| {
        let customer = app.customer(0).await;
        let key = &customer.key;

        let by_query = app.anonymous().get(&format!("/v1/whoami?api_key={key}&key={key}")).await;
        let by_cookie =
            app.anonymous().with("cookie", &format!("x-api-key={key}")).get("/v1/whoami").await;
        let by_either =
            [app.with_key(key), app.anonymous().bearer(key), app.with_key(key).bearer(key)];

        assert_eq!(by_query.failure(), (401, "missing_key".to_owned()));
        assert_eq!(by_cookie.failure(), (401, "missing_key".to_owned()));
        for client in by_either {
            assert_eq!(client.get("/v1/whoami").await.status, 200);
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_key_writes_nothing() {
    on_both(async |app| {
        let victim = victim(&app).await;
        let full = app.with_key(&victim.customer.key);
        let made = full.post("/v1/auth/keys", &json!({"name": "r", "scope": "read_only"})).await;
        let read_only = app.with_key(made.json()["api_key"].as_str().unwrap());
        let before = app.seen("platform_alpha").await.len();

        for case in cases().into_iter().filter(Case::needs_key) {
            let reply = case.call(&read_only, &victim).await;

            if case.method == "get" {
                assert_eq!(reply.status, 200, "{}: {}", case.name(), reply.text());
            } else {
                assert_eq!(reply.failure(), (403, "read_only_key".to_owned()), "{}", case.name());
            }
        }

        // The one native read reached the platform, and no write did.
        assert_eq!(app.seen("platform_alpha").await.len() - before, 1);
        app.settled(&full).await;
        assert_eq!(full.get("/v1/billing").await.json()["balance"], 99);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_things_do_not_exist() {
    on_both(async |app| {
        let victim = victim(&app).await;
        let stranger = app.with_key(&app.customer(100).await.key);
        let before = app.seen("platform_alpha").await.len();

        for case in cases().into_iter().filter(Case::needs_key) {
            let reply = case.call(&stranger, &victim).await;

            if let Stranger::NotFound(code) = case.stranger {
                assert_eq!(reply.failure(), (404, code.to_owned()), "{}", case.name());
            }
            let text = reply.text();
            for secret in [&victim.customer.id, &victim.customer.key_id, &victim.customer.key] {
                assert!(!text.contains(secret.as_str()), "{}: {text}", case.name());
            }
            if matches!(case.stranger, Stranger::OwnView) {
                assert!(!text.contains(victim.account.as_str()), "{}: {text}", case.name());
            }
        }

        // The stranger's own import asked the platform once; nothing else did.
        assert_eq!(app.seen("platform_alpha").await.len() - before, 1);
        assert_unharmed(&app, &victim).await;
        assert_eq!(stranger.get("/v1/billing").await.json()["balance"], 100);
        app
    })
    .await;
}
