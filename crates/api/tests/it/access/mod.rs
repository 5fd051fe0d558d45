//! Access control: every operation of the contract, called by everyone who must not use it.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod limited;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_service::contract::{document, operations};
use test_service::member::{Member, PASSWORD};
use test_service::{Client, Reply, TestApp, with_app};

/// One operation of the contract, as a caller would use it on another customer's data.
struct Case {
    method: &'static str,
    /// The path in the contract.
    template: &'static str,
    /// A body that the operation would accept.
    body: fn(&Victim) -> Value,
    /// The accepted credentials.
    takes: Takes,
    /// The response to another customer with accepted credentials.
    stranger: Stranger,
}

/// The accepted credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Takes {
    /// None are needed.
    Anybody,
    /// A key; a session is ignored.
    Key,
    /// A session; a key is ignored.
    Session,
    /// Both.
    Either,
}

/// The response to another customer.
enum Stranger {
    /// A response that shows nothing of the victim.
    OwnView,
    /// Not found, with this code.
    NotFound(&'static str),
    /// It is for staff, and reveals nothing else.
    StaffOnly,
}

/// The customer whose data is asked for.
struct Victim {
    member: Member,
    account: String,
    session_id: String,
    export_id: String,
    /// A call that was made with the account.
    call_id: String,
    /// An order that is not paid yet.
    order_id: String,
}

const EXPORTS: &str = "/v1/{account}/exports";
const UPLOAD: &str = "/v1/{account}/media/upload";
const NATIVE: &str = "/v1/{account}/native/{native_path}";

fn nothing(_: &Victim) -> Value {
    json!({})
}

fn new_key(_: &Victim) -> Value {
    json!({"name": "another", "scope": "read_only", "current_password": PASSWORD})
}

fn rotation(victim: &Victim) -> Value {
    json!({"key_id": victim.member.customer.key_id, "current_password": PASSWORD})
}

fn registration(_: &Victim) -> Value {
    json!({"email": "somebody@example.com", "password": "long enough"})
}

fn login(victim: &Victim) -> Value {
    json!({"email": victim.member.email, "password": PASSWORD})
}

fn token(_: &Victim) -> Value {
    json!({"token": "A".repeat(43)})
}

fn address(_: &Victim) -> Value {
    json!({"email": "nobody@example.com"})
}

fn reset(_: &Victim) -> Value {
    json!({"token": "A".repeat(43), "new_password": "another long password"})
}

fn new_name(_: &Victim) -> Value {
    json!({"name": "Mallory"})
}

fn new_password(_: &Victim) -> Value {
    json!({"current_password": PASSWORD, "new_password": "another long password"})
}

fn new_limits(_: &Victim) -> Value {
    json!({"monthly_budget_credits": 0})
}

fn consent(_: &Victim) -> Value {
    json!({"enabled": true})
}

fn no_notices(_: &Victim) -> Value {
    json!({"low_balance": false})
}

fn off(_: &Victim) -> Value {
    json!({"state": "inactive"})
}

fn plan(_: &Victim) -> Value {
    json!({"plan_id": "plan_studio"})
}

fn slots(_: &Victim) -> Value {
    json!({"platform": "platform_alpha", "count": 1})
}

fn switch(_: &Victim) -> Value {
    json!({"from": "platform_alpha", "to": "platform_beta"})
}

fn export(_: &Victim) -> Value {
    json!({"dataset": "subscribers"})
}

fn estimate(victim: &Victim) -> Value {
    json!({"account": victim.account, "method": "GET", "path": "users/me"})
}

fn import(_: &Victim) -> Value {
    let auth = json!({"user_id": "1", "session_token": "wrong"});
    json!({"creator_id": "somebody", "platform": "platform_alpha", "auth": auth})
}

fn pack(_: &Victim) -> Value {
    json!({"pack_id": "pack_10"})
}

fn checkout(_: &Victim) -> Value {
    json!({"session_id": "cs_test_of_somebody"})
}

fn payment(_: &Victim) -> Value {
    json!({"pi_id": "pi_of_somebody"})
}

fn top_up_off(_: &Victim) -> Value {
    json!({"enabled": false})
}

const fn case(
    (method, template): (&'static str, &'static str),
    takes: Takes,
    body: fn(&Victim) -> Value,
    stranger: Stranger,
) -> Case {
    Case { method, template, body, takes, stranger }
}

#[expect(clippy::too_many_lines, reason = "a table with a line for each route")]
fn cases() -> Vec<Case> {
    use Stranger::{NotFound, OwnView, StaffOnly};
    use Takes::{Anybody, Either, Key, Session};
    vec![
        case(("get", "/health"), Anybody, nothing, OwnView),
        case(("get", "/v1/platforms"), Anybody, nothing, OwnView),
        case(("get", "/v1/exports/datasets"), Either, nothing, OwnView),
        case(("get", "/v1/platforms/{platform}/routes"), Anybody, nothing, OwnView),
        case(("post", "/v1/auth/register"), Anybody, registration, OwnView),
        case(("post", "/v1/auth/login"), Anybody, login, OwnView),
        case(("get", "/v1/auth/email/verify"), Anybody, nothing, OwnView),
        case(("post", "/v1/auth/email/verify"), Anybody, token, OwnView),
        case(("post", "/v1/auth/email/resend"), Anybody, address, OwnView),
        case(("post", "/v1/auth/password/forgot"), Anybody, address, OwnView),
        case(("post", "/v1/auth/password/reset"), Anybody, reset, OwnView),
        case(("get", "/v1/auth/me"), Session, nothing, OwnView),
        case(("patch", "/v1/auth/me"), Session, new_name, OwnView),
        case(("post", "/v1/auth/password"), Session, new_password, OwnView),
        case(("get", "/v1/auth/sessions"), Session, nothing, OwnView),
        case(("delete", "/v1/auth/sessions/{session_id}"), Session, nothing, NotFound("not_found")),
        case(("post", "/v1/auth/logout"), Session, nothing, OwnView),
        case(("get", "/v1/auth/keys"), Either, nothing, OwnView),
        case(("post", "/v1/auth/keys"), Either, new_key, OwnView),
        case(("post", "/v1/auth/keys/rotate"), Either, rotation, NotFound("not_found")),
        case(("get", "/v1/auth/keys/{key_id}"), Either, nothing, NotFound("not_found")),
        case(("delete", "/v1/auth/keys/{key_id}"), Either, nothing, NotFound("not_found")),
        case(("patch", "/v1/auth/keys/{key_id}"), Either, new_limits, NotFound("not_found")),
        case(("post", "/v1/signup"), Anybody, registration, OwnView),
        case(("get", "/v1/audit"), Either, nothing, OwnView),
        case(("get", "/v1/notices"), Either, nothing, OwnView),
        case(("patch", "/v1/notices"), Either, no_notices, OwnView),
        case(("get", "/v1/support-access"), Either, nothing, OwnView),
        case(("post", "/v1/support-access"), Either, consent, OwnView),
        case(("get", "/v1/support/customers/{customer_id}/calls"), Either, nothing, StaffOnly),
        case(("get", "/v1/support/customers/{customer_id}/usage"), Either, nothing, StaffOnly),
        case(("get", "/v1/whoami"), Either, nothing, OwnView),
        case(("post", "/v1/connect/import"), Either, import, OwnView),
        case(("get", "/v1/accounts"), Either, nothing, OwnView),
        case(("get", "/v1/accounts/{account}"), Either, nothing, NotFound("account_not_found")),
        case(("patch", "/v1/accounts/{account}"), Either, off, NotFound("account_not_found")),
        case(("delete", "/v1/accounts/{account}"), Either, nothing, NotFound("account_not_found")),
        case(("get", "/v1/billing"), Either, nothing, OwnView),
        case(("get", "/v1/billing/ledger"), Either, nothing, OwnView),
        case(("get", "/v1/billing/usage/daily"), Either, nothing, OwnView),
        case(("get", "/v1/billing/usage/recent"), Either, nothing, OwnView),
        case(("get", "/v1/billing/usage/calls/{id}"), Either, nothing, NotFound("not_found")),
        case(("get", "/v1/billing/usage/breakdown"), Either, nothing, OwnView),
        case(("post", "/v1/billing/estimate"), Either, estimate, NotFound("account_not_found")),
        case(("get", "/v1/billing/plans"), Either, nothing, OwnView),
        case(("post", "/v1/billing/checkout"), Either, pack, OwnView),
        case(("get", "/v1/billing/orders"), Either, nothing, OwnView),
        case(("get", "/v1/billing/orders/{order_id}"), Either, nothing, NotFound("not_found")),
        case(("get", "/v1/billing/invoices"), Either, nothing, OwnView),
        case(("get", "/v1/billing/invoices/{invoice_id}"), Either, nothing, NotFound("not_found")),
        case(("get", "/v1/billing/card"), Either, nothing, OwnView),
        case(("delete", "/v1/billing/card"), Either, nothing, OwnView),
        case(("post", "/v1/billing/sync-card"), Either, checkout, OwnView),
        case(("post", "/v1/billing/charge"), Either, pack, OwnView),
        case(("post", "/v1/billing/confirm-charge"), Either, payment, OwnView),
        case(("get", "/v1/billing/autotopup"), Either, nothing, OwnView),
        case(("post", "/v1/billing/autotopup"), Either, top_up_off, OwnView),
        case(("post", "/v1/billing/webhook"), Anybody, nothing, OwnView),
        case(("get", "/v1/billing/subscriptions/plans"), Either, nothing, OwnView),
        case(("post", "/v1/billing/subscribe"), Either, plan, OwnView),
        case(("get", "/v1/billing/subscription"), Either, nothing, OwnView),
        case(("post", "/v1/billing/subscription/plan"), Either, plan, OwnView),
        case(("post", "/v1/billing/portal"), Either, nothing, OwnView),
        case(("get", "/v1/billing/slots"), Either, nothing, OwnView),
        case(("post", "/v1/billing/slots"), Either, slots, OwnView),
        case(("get", "/v1/billing/slots/preview"), Either, nothing, OwnView),
        case(("get", "/v1/billing/slots/switch/preview"), Either, nothing, OwnView),
        case(("get", "/v1/billing/subscription/plan/preview"), Either, nothing, OwnView),
        case(("post", "/v1/billing/slots/switch"), Either, switch, OwnView),
        case(("get", "/v1/exports"), Either, nothing, OwnView),
        case(("get", EXPORTS), Either, nothing, NotFound("account_not_found")),
        case(("post", EXPORTS), Key, export, NotFound("account_not_found")),
        case(("get", "/v1/exports/{job_id}"), Either, nothing, NotFound("not_found")),
        case(("delete", "/v1/exports/{job_id}"), Either, nothing, NotFound("not_found")),
        case(("post", "/v1/exports/{job_id}/cancel"), Either, nothing, NotFound("not_found")),
        case(("get", "/v1/exports/{job_id}/download"), Either, nothing, NotFound("not_found")),
        case(("get", "/v1/support/customers/{customer_id}/exports"), Either, nothing, StaffOnly),
        case(("post", UPLOAD), Key, nothing, NotFound("account_not_found")),
        case(("get", NATIVE), Key, nothing, NotFound("account_not_found")),
        case(("post", NATIVE), Key, nothing, NotFound("account_not_found")),
        case(("put", NATIVE), Key, nothing, NotFound("account_not_found")),
        case(("patch", NATIVE), Key, nothing, NotFound("account_not_found")),
        case(("delete", NATIVE), Key, nothing, NotFound("account_not_found")),
    ]
}

/// An invoice of the victim, as the processor's events would bring it.
async fn insert_invoice(app: &TestApp, member: &Member) {
    let now = app.clock.now();
    let invoice = store::invoices::StoredInvoice {
        id: "in_1".to_owned(),
        customer: member.customer.id.parse().unwrap(),
        number: "A-1".to_owned(),
        state: domain::invoice::InvoiceState::Paid,
        reason: "manual".to_owned(),
        subscription: None,
        order: None,
        currency: "usd".to_owned(),
        sums: store::invoices::InvoiceSums::default(),
        hosted_url: None,
        pdf_url: None,
        created_at: now,
        paid_at: Some(now),
        read_at: now,
        lines: Vec::new(),
    };
    store::invoices::insert(app.store(), &invoice).await.unwrap();
}

/// The cases that need credentials.
fn closed_cases() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| case.takes != Takes::Anybody)
}

impl Case {
    fn takes_key(&self) -> bool {
        matches!(self.takes, Takes::Key | Takes::Either)
    }

    fn takes_session(&self) -> bool {
        matches!(self.takes, Takes::Session | Takes::Either)
    }

    /// The failure without accepted credentials.
    fn missing(&self) -> (u16, String) {
        let code = if self.takes == Takes::Session { "missing_session" } else { "missing_key" };
        (401, code.to_owned())
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    /// The path and body that ask for the victim's data.
    fn asked_for(&self, victim: &Victim) -> String {
        format!("{} {}", self.path(victim), (self.body)(victim))
    }

    fn path(&self, victim: &Victim) -> String {
        self.template
            .replace("{account}", &victim.account)
            .replace("{key_id}", &victim.member.customer.key_id)
            .replace("{customer_id}", &victim.member.customer.id)
            .replace("{session_id}", &victim.session_id)
            .replace("{job_id}", &victim.export_id)
            .replace("{id}", &victim.call_id)
            .replace("{invoice_id}", "in_1")
            .replace("{order_id}", &victim.order_id)
            .replace("{platform}", "platform_alpha")
            .replace("{native_path}", "users/me")
    }

    async fn call(&self, client: &Client, victim: &Victim) -> Reply {
        let path = self.path(victim);
        match self.method {
            "get" if path.ends_with("/email/verify") => {
                client.get(&format!("{path}?token=A")).await
            }
            "get" if path.ends_with("/slots/preview") => {
                client.get(&format!("{path}?platform=platform_alpha&count=1")).await
            }
            "get" if path.ends_with("/switch/preview") => {
                client.get(&format!("{path}?from=platform_alpha&to=platform_beta")).await
            }
            "get" if path.ends_with("/plan/preview") => {
                client.get(&format!("{path}?plan_id=plan_small")).await
            }
            "get" => client.get(&path).await,
            "delete" => client.delete(&path).await,
            method => client.json(&method.to_uppercase(), &path, &(self.body)(victim)).await,
        }
    }
}

async fn victim(app: &TestApp) -> Victim {
    let member = app.member("victim@example.com").await;
    app.grant(&member.customer, 111).await;
    let account = app.connect(&member.customer, "platform_alpha").await;
    let own = app.with_key(&member.customer.key);
    let made =
        own.post(&format!("/v1/{account}/exports"), &json!({"dataset": "subscribers"})).await;
    let export_id = made.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(own.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
    let recent = own.get("/v1/billing/usage/recent").await.json();
    let mut calls = recent["calls"].as_array().unwrap().iter();
    let called = calls.find(|call| call["path"] == "users/me");
    let call_id = called.unwrap()["call_id"].as_str().unwrap().to_owned();
    let reply = app.try_log_in(&member.email, PASSWORD).await;
    let session_id = reply.json()["session_id"].as_str().unwrap().to_owned();
    insert_invoice(app, &member).await;
    let bought = own.post("/v1/billing/checkout", &json!({"pack_id": "pack_10"})).await.json();
    let order_id = bought["order_id"].as_str().unwrap().to_owned();
    Victim { member, account, session_id, export_id, call_id, order_id }
}

/// Asserts that nothing of the victim has changed: key and password work, account and session
/// exist, nothing was spent.
async fn assert_unharmed(app: &TestApp, victim: &Victim) {
    let client = app.with_key(&victim.member.customer.key);
    assert_eq!(client.get("/v1/billing").await.json()["balance"], 100);
    let accounts = client.get("/v1/accounts").await.json();
    assert_eq!(accounts["accounts"][0]["creator_id"], victim.account.as_str(), "{accounts}");
    assert_eq!(accounts["accounts"][0]["state"], "active", "{accounts}");
    let keys = client.get("/v1/auth/keys").await.json();
    assert_eq!(keys["keys"][0]["revoked_at"], Value::Null, "{keys}");
    let export = client.get(&format!("/v1/exports/{}", victim.export_id)).await.json();
    assert_eq!(export["status"], "pending", "{export}");
    let browser = app.signed_in(&victim.member).await;
    assert_eq!(browser.get("/v1/auth/me").await.json()["name"], "");
    let sessions = browser.get("/v1/auth/sessions").await.text();
    assert!(sessions.contains(&victim.session_id), "{sessions}");
}

/// A new operation must be added to the table before it can be shipped.
#[test]
fn the_table_has_every_operation_of_the_contract() {
    let named = |(method, path, _): &(String, String, Value)| format!("{method} {path}");
    let contract: BTreeSet<String> = operations(&document()).iter().map(named).collect();
    let table: BTreeSet<String> = cases().iter().map(Case::name).collect();

    assert_eq!(table, contract);
}

#[test]
fn the_contract_declares_the_accepted_credentials() {
    let document = document();
    let said = |operation: &Value| {
        let security = operation.get("security").unwrap_or(&document["security"]);
        let schemes: BTreeSet<&str> = security
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|scheme| scheme.as_object().unwrap().keys().map(String::as_str))
            .collect();
        match Vec::from_iter(schemes)[..] {
            [] => Takes::Anybody,
            ["bearer", "key"] => Takes::Key,
            ["session"] => Takes::Session,
            ["bearer", "key", "session"] => Takes::Either,
            ref other => panic!("{other:?}"),
        }
    };
    let operations = operations(&document);
    let contract: BTreeSet<(String, Takes)> = operations
        .iter()
        .map(|(method, path, operation)| (format!("{method} {path}"), said(operation)))
        .collect();
    let table: BTreeSet<(String, Takes)> =
        cases().iter().map(|case| (case.name(), case.takes)).collect();

    assert_eq!(table, contract);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_credentials_only_open_routes_work() {
    with_app(async |app| {
        let victim = victim(&app).await;

        for case in cases() {
            let reply = case.call(&app.anonymous(), &victim).await;

            if case.template == "/v1/signup" {
                assert_eq!(reply.failure(), (410, "gone".to_owned()));
            } else if case.takes == Takes::Anybody {
                // Where the token of an emailed link is the proof, an unknown one is not found; the
                // webhook needs the processor's signature, and there is none here.
                let unproven = ["unknown_link", "payments_not_configured", "unsigned_event"];
                let let_in = reply.status < 300 || unproven.contains(&reply.code().as_str());
                assert!(let_in, "{}: {}", case.name(), reply.text());
            } else {
                assert_eq!(reply.failure(), case.missing(), "{}", case.name());
                let challenge = if case.takes_key() { "Bearer" } else { "Cookie" };
                assert_eq!(reply.header("www-authenticate"), challenge, "{}", case.name());
            }
        }
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_key_is_refused_everywhere() {
    with_app(async |app| {
        Box::pin(async move {
            let victim = Box::pin(victim(&app)).await;
            let key = victim.member.customer.key.as_str();
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

            for case in closed_cases().filter(Case::takes_key) {
                for (index, client) in invalid.iter().enumerate() {
                    let reply = Box::pin(case.call(client, &victim)).await;
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
        .await
    })
    .await;
}

/// Whether the key is malformed, invented or revoked, the response differs only in the request's
/// id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_response_to_a_wrong_key_does_not_say_why() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let owner = app.with_key(&customer.key);
        let made = owner.post("/v1/auth/keys", &json!({"name": "r", "scope": "full"})).await.json();
        let revoked = made["api_key"].as_str().unwrap().to_owned();
        let made_key = format!("/v1/auth/keys/{}", made["key_id"].as_str().unwrap());
        assert_eq!(owner.delete(&made_key).await.status, 204);
        let unknown = domain::key::KeySecret::generate(|bound| bound - 1).expose().to_owned();
        let almost = format!("{}0", customer.key.get(..44).unwrap());

        for path in ["/v1/whoami", "/v1/ada/native/users/me"] {
            let mut said = BTreeSet::new();
            for key in [&revoked, &unknown, &almost, "sk_live_123", "é"] {
                let reply = app.with_key(key).get(path).await;
                let mut body = reply.json();
                body.as_object_mut().unwrap().remove("request_id");
                said.insert((reply.status, body.to_string()));
            }
            assert_eq!(said.len(), 1, "{path}: {said:?}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_session_is_refused_everywhere() {
    with_app(async |app| {
        let victim = victim(&app).await;
        let cookie = app.session(&victim.member).await;
        let unknown = domain::token::SecretToken::new([9; 32]).expose().to_owned();
        let ended = app.session(&victim.member).await;
        let browser = app.anonymous().with_session(&ended);
        assert_eq!(browser.post("/v1/auth/logout", &json!({})).await.status, 204);
        let invalid = [
            "session=".to_owned(),
            format!("session={unknown}"),
            ended,
            format!("{cookie}A"),
            cookie.to_uppercase().replace("SESSION", "session"),
            format!("{cookie}; {cookie}"),
        ];

        for case in closed_cases().filter(Case::takes_session) {
            for wrong in &invalid {
                let reply = case.call(&app.anonymous().with_session(wrong), &victim).await;
                let place = format!("{} with {wrong}", case.name());
                assert_eq!(reply.failure(), (401, "invalid_session".to_owned()), "{place}");
            }
            // The cookie name of a deployment with https is unknown to one without.
            let other = app.anonymous().with_session(&format!("__Host-{cookie}"));
            assert_eq!(case.call(&other, &victim).await.failure(), case.missing());
        }
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

/// Metered operations accept keys only; personal ones accept sessions only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_does_not_replace_a_key_nor_a_key_a_session() {
    with_app(async |app| {
        let victim = victim(&app).await;
        let browser = app.signed_in(&victim.member).await;
        let program = app.with_key(&victim.member.customer.key);
        let before = app.seen("platform_alpha").await.len();

        for case in closed_cases() {
            let caller = match case.takes {
                Takes::Key => &browser,
                Takes::Session => &program,
                Takes::Either | Takes::Anybody => continue,
            };
            assert_eq!(
                case.call(caller, &victim).await.failure(),
                case.missing(),
                "{}",
                case.name()
            );
        }

        assert_eq!(app.seen("platform_alpha").await.len(), before);
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

/// A browser adds its cookie to requests from any page; only pages of this service may change
/// something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_cannot_change_anything_with_a_session() {
    with_app(async |app| {
        let victim = victim(&app).await;
        let cookie = app.session(&victim.member).await;
        let browser = app.anonymous().with("cookie", &cookie);
        let pages = [
            browser.clone(),
            browser.with("sec-fetch-site", "cross-site"),
            browser.with("sec-fetch-site", "same-site"),
            browser.with("origin", "null"),
            browser.with("origin", "https://evil.example"),
            browser.with("origin", "http://evil.127.0.0.1:8080"),
            browser.with("origin", "http://127.0.0.1:8081"),
            browser.with("referer", "https://evil.example/http://127.0.0.1:8080/"),
            browser.with("sec-fetch-site", "cross-site").with("origin", "http://127.0.0.1:8080"),
        ];

        for case in closed_cases().filter(Case::takes_session).filter(|case| case.method != "get") {
            for (index, page) in pages.iter().enumerate() {
                let reply = case.call(page, &victim).await;
                let place = format!("{} from page {index}", case.name());
                assert_eq!(reply.failure(), (403, "cross_site_request".to_owned()), "{place}");
            }
        }
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_and_a_session_of_different_customers_are_refused_together() {
    with_app(async |app| {
        let victim = victim(&app).await;
        let stranger = app.member("stranger@example.com").await;
        let cookie = app.session(&stranger).await;
        let both = app.with_key(&victim.member.customer.key).with_session(&cookie);

        for case in closed_cases() {
            let reply = case.call(&both, &victim).await;
            assert_eq!(
                reply.failure(),
                (400, "conflicting_customers".to_owned()),
                "{}",
                case.name()
            );
        }
        assert_unharmed(&app, &victim).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_read_from_headers_only() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let key = &customer.key;

        let by_query = app.anonymous().get(&format!("/v1/whoami?api_key={key}&key={key}")).await;
        let by_cookie =
            app.anonymous().with("cookie", &format!("x-api-key={key}")).get("/v1/whoami").await;
        let as_session =
            app.anonymous().with_session(&format!("session={key}")).get("/v1/whoami").await;
        let by_either =
            [app.with_key(key), app.anonymous().bearer(key), app.with_key(key).bearer(key)];

        assert_eq!(by_query.failure(), (401, "missing_key".to_owned()));
        assert_eq!(by_cookie.failure(), (401, "missing_key".to_owned()));
        assert_eq!(as_session.failure(), (401, "invalid_session".to_owned()));
        for client in by_either {
            assert_eq!(client.get("/v1/whoami").await.status, 200);
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_key_cannot_write() {
    with_app(async |app| {
        let victim = victim(&app).await;
        let full = app.with_key(&victim.member.customer.key);
        let made = full.post("/v1/auth/keys", &json!({"name": "r", "scope": "read_only"})).await;
        let read_only = app.with_key(made.json()["api_key"].as_str().unwrap());
        let before = app.seen("platform_alpha").await.len();

        for case in closed_cases().filter(Case::takes_key) {
            let reply = case.call(&read_only, &victim).await;

            if matches!(case.stranger, Stranger::StaffOnly) {
                assert_eq!(reply.failure(), (403, "missing_permission".to_owned()));
            } else if case.template.ends_with("/download") {
                assert_eq!(reply.failure(), (409, "export_not_ready".to_owned()));
            } else if case.template.ends_with("/plan/preview") {
                assert!(matches!(reply.status, 404 | 409), "{}", reply.text());
            } else if case.template.ends_with("/preview") {
                assert_eq!(reply.failure(), (409, "no_subscription".to_owned()));
            } else if case.method == "get" {
                assert_eq!(reply.status, 200, "{}: {}", case.name(), reply.text());
            } else {
                assert_eq!(reply.failure(), (403, "read_only_key".to_owned()), "{}", case.name());
            }
        }

        // The only native read reached the platform; no write did.
        assert_eq!(app.seen("platform_alpha").await.len() - before, 1);
        app.settled_beside(&full, 10).await;
        assert_eq!(full.get("/v1/billing").await.json()["balance"], 99);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_another_customer_does_not_exist_for_a_stranger() {
    with_app(async |app| {
        let victim = victim(&app).await;
        let stranger = app.member("stranger@example.com").await;
        app.grant(&stranger.customer, 100).await;
        let program = app.with_key(&stranger.customer.key);
        let mut browser = app.signed_in(&stranger).await;
        let before = app.seen("platform_alpha").await.len();

        for case in closed_cases() {
            if case.takes_key() {
                let reply = case.call(&program, &victim).await;
                assert_foreign(&case, &reply, &victim);
            }
            if case.takes_session() {
                let reply = case.call(&browser, &victim).await;
                assert_foreign(&case, &reply, &victim);
                if case.template == "/v1/auth/password" {
                    put_back(&app, &stranger, &reply).await;
                }
                if ["/v1/auth/password", "/v1/auth/logout"].contains(&case.template) {
                    browser = app.signed_in(&stranger).await;
                }
            }
        }

        // Only the stranger's own imports called the platform.
        assert_eq!(app.seen("platform_alpha").await.len() - before, 2);
        assert_unharmed(&app, &victim).await;
        assert_eq!(program.get("/v1/billing").await.json()["balance"], 100);
        app
    })
    .await;
}

/// Restores the stranger's password, so that the next case can log in.
async fn put_back(app: &TestApp, stranger: &Member, changed: &Reply) {
    assert_eq!(changed.status, 200, "{}: {}", stranger.email, changed.text());
    let browser = app.anonymous().with_session(&changed.cookie());
    let change = json!({"current_password": "another long password", "new_password": PASSWORD});
    assert_eq!(browser.post("/v1/auth/password", &change).await.status, 200);
}

/// Asserts that the response to another customer shows nothing of the victim.
fn assert_foreign(case: &Case, reply: &Reply, victim: &Victim) {
    match case.stranger {
        Stranger::StaffOnly => {
            let refused = (403, "missing_permission".to_owned());
            assert_eq!(reply.failure(), refused, "{}", case.name());
        }
        Stranger::NotFound(code) => {
            assert_eq!(reply.failure(), (404, code.to_owned()), "{}", case.name());
        }
        Stranger::OwnView => {
            assert!(![401, 403].contains(&reply.status), "{}: {}", case.name(), reply.text());
        }
    }
    let text = reply.text();
    let customer = &victim.member.customer;
    for secret in [&customer.id, &customer.key_id, &customer.key, &victim.member.email] {
        assert!(!text.contains(secret.as_str()), "{}: {text}", case.name());
    }
    if matches!(case.stranger, Stranger::OwnView) {
        for own in [&victim.account, &victim.session_id] {
            assert!(!text.contains(own.as_str()), "{}: {text}", case.name());
        }
    }
}
