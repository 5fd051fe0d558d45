//! A key limited to one account, as a caller of every operation: with anything of its customer
//! beyond its limits, it reveals and changes nothing.
//!
//! A new operation must be added to `EXPECTED` before it can be shipped; parameters beside its path
//! go into `further`.
#![expect(
    clippy::enum_variant_names,
    clippy::panic,
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Case, Takes, Victim, cases, victim};
use test_service::{Client, Reply, TestApp, with_app};

/// The response to a limited key that asks for something of another account.
#[derive(Debug, Clone, Copy)]
enum Gets {
    /// A response that shows only what the key may see.
    OwnView,
    /// This failure.
    Failure(u16, &'static str),
    /// The operation is open to everyone and checks no key.
    WhatAnybodyGets,
}

use Gets::{Failure, OwnView, WhatAnybodyGets};

const LIMITED: Gets = Failure(403, "limited_key");
const NO_ACCOUNT: Gets = Failure(404, "account_not_found");
const NOTHING_THERE: Gets = Failure(404, "not_found");
const NO_SESSION: Gets = Failure(401, "missing_session");

/// Every operation, and the response to a key limited to another account.
const EXPECTED: &[(&str, Gets)] = &[
    ("get /health", WhatAnybodyGets),
    ("get /v1/platforms", WhatAnybodyGets),
    ("get /v1/platforms/{platform}/routes", WhatAnybodyGets),
    ("post /v1/auth/register", WhatAnybodyGets),
    ("post /v1/auth/login", WhatAnybodyGets),
    ("get /v1/auth/email/verify", WhatAnybodyGets),
    ("post /v1/auth/email/verify", WhatAnybodyGets),
    ("post /v1/auth/email/resend", WhatAnybodyGets),
    ("post /v1/auth/password/forgot", WhatAnybodyGets),
    ("post /v1/auth/password/reset", WhatAnybodyGets),
    ("post /v1/signup", WhatAnybodyGets),
    ("post /v1/billing/webhook", WhatAnybodyGets),
    ("get /v1/auth/me", NO_SESSION),
    ("patch /v1/auth/me", NO_SESSION),
    ("post /v1/auth/password", NO_SESSION),
    ("get /v1/auth/sessions", NO_SESSION),
    ("delete /v1/auth/sessions/{session_id}", NO_SESSION),
    ("post /v1/auth/logout", NO_SESSION),
    ("get /v1/auth/keys", OwnView),
    ("post /v1/auth/keys", LIMITED),
    ("post /v1/auth/keys/rotate", LIMITED),
    ("delete /v1/auth/keys/{key_id}", LIMITED),
    ("get /v1/auth/keys/{key_id}", LIMITED),
    ("patch /v1/auth/keys/{key_id}", LIMITED),
    ("get /v1/audit", LIMITED),
    ("get /v1/notices", LIMITED),
    ("patch /v1/notices", LIMITED),
    ("get /v1/support-access", LIMITED),
    ("post /v1/support-access", LIMITED),
    ("get /v1/support/customers/{customer_id}/calls", LIMITED),
    ("get /v1/support/customers/{customer_id}/usage", LIMITED),
    ("get /v1/support/customers/{customer_id}/exports", LIMITED),
    ("get /v1/whoami", OwnView),
    ("post /v1/connect/import", NO_ACCOUNT),
    ("get /v1/accounts", OwnView),
    ("get /v1/accounts/{account}", NO_ACCOUNT),
    ("patch /v1/accounts/{account}", NO_ACCOUNT),
    ("delete /v1/accounts/{account}", NO_ACCOUNT),
    ("get /v1/billing", OwnView),
    ("get /v1/billing/ledger", OwnView),
    ("get /v1/billing/usage/daily", OwnView),
    ("get /v1/billing/usage/recent", OwnView),
    ("get /v1/billing/usage/calls/{id}", NOTHING_THERE),
    ("get /v1/billing/usage/breakdown", OwnView),
    ("post /v1/billing/estimate", NO_ACCOUNT),
    ("get /v1/billing/plans", OwnView),
    ("post /v1/billing/checkout", LIMITED),
    ("get /v1/billing/orders", LIMITED),
    ("get /v1/billing/orders/{order_id}", LIMITED),
    ("get /v1/billing/invoices", LIMITED),
    ("get /v1/billing/invoices/{invoice_id}", LIMITED),
    ("get /v1/billing/card", LIMITED),
    ("delete /v1/billing/card", LIMITED),
    ("post /v1/billing/sync-card", LIMITED),
    ("post /v1/billing/charge", LIMITED),
    ("post /v1/billing/confirm-charge", LIMITED),
    ("get /v1/billing/autotopup", LIMITED),
    ("post /v1/billing/autotopup", LIMITED),
    ("get /v1/billing/subscriptions/plans", OwnView),
    ("post /v1/billing/subscribe", LIMITED),
    ("get /v1/billing/subscription", LIMITED),
    ("post /v1/billing/subscription/plan", LIMITED),
    ("post /v1/billing/portal", LIMITED),
    ("get /v1/billing/slots", LIMITED),
    ("post /v1/billing/slots", LIMITED),
    ("get /v1/billing/slots/preview", LIMITED),
    ("get /v1/billing/slots/switch/preview", LIMITED),
    ("get /v1/billing/subscription/plan/preview", LIMITED),
    ("post /v1/billing/slots/switch", LIMITED),
    ("get /v1/exports/datasets", OwnView),
    ("get /v1/exports", OwnView),
    ("get /v1/{account}/exports", NO_ACCOUNT),
    ("post /v1/{account}/exports", NO_ACCOUNT),
    ("get /v1/exports/{job_id}", NOTHING_THERE),
    ("delete /v1/exports/{job_id}", NOTHING_THERE),
    ("post /v1/exports/{job_id}/cancel", NOTHING_THERE),
    ("get /v1/exports/{job_id}/download", NOTHING_THERE),
    ("post /v1/{account}/media/upload", NO_ACCOUNT),
    ("get /v1/{account}/native/{native_path}", NO_ACCOUNT),
    ("post /v1/{account}/native/{native_path}", NO_ACCOUNT),
    ("put /v1/{account}/native/{native_path}", NO_ACCOUNT),
    ("patch /v1/{account}/native/{native_path}", NO_ACCOUNT),
    ("delete /v1/{account}/native/{native_path}", NO_ACCOUNT),
];

/// A customer with several accounts, and a key limited to one of them.
struct Scene {
    /// The customer, with its first key, an account that the limited key may not use, an export of
    /// it, and a session.
    victim: Victim,
    /// The account that the key is limited to.
    own_account: String,
    /// A deleted account whose export still exists.
    deleted_account: String,
    deleted_export: String,
    order_id: String,
    owner: Client,
    limited_id: String,
    limited: Client,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

async fn scene(app: &TestApp) -> Scene {
    let victim = victim(app).await;
    let customer = &victim.member.customer;
    let owner = app.with_key(&customer.key);
    let own_account = app.connect(customer, "platform_beta").await;
    let deleted_account = app.connect(customer, "platform_gamma").await;
    let wanted = json!({"dataset": "subscribers"});
    let made = owner.post(&format!("/v1/{deleted_account}/exports"), &wanted).await;
    let deleted_export = text(&made.json()["job_id"]);
    assert_eq!(owner.delete(&format!("/v1/accounts/{deleted_account}")).await.status, 204);
    let called = owner.get(&format!("/v1/{}/native/users/me", victim.account)).await;
    assert_eq!(called.status, 200, "{}", called.text());
    app.settled_beside(&owner, 20).await;
    let order_id = victim.order_id.clone();
    let new = json!({"name": "limited", "scope": "full", "accounts": [own_account]});
    let made = owner.post("/v1/auth/keys", &new).await.json();
    let limited = app.with_key(&text(&made["api_key"]));
    let limited_id = text(&made["key_id"]);
    Scene {
        victim,
        own_account,
        deleted_account,
        deleted_export,
        order_id,
        owner,
        limited_id,
        limited,
    }
}

/// A request in addition to those of the table, and its response.
struct Further {
    method: &'static str,
    path: String,
    body: Value,
    gets: Gets,
}

/// Requests with something of another account in the query or the body, where an operation accepts
/// them.
fn further(app: &TestApp, scene: &Scene) -> Vec<Further> {
    let (foreign, own) = (&scene.victim.account, &scene.own_account);
    let owner_key = &scene.victim.member.customer.key_id;
    let (export, limited) = (&scene.victim.export_id, &scene.limited_id);
    let get = |path: String, gets| Further { method: "GET", path, body: Value::Null, gets };
    let ask =
        |method, path: &str, body, gets| Further { method, path: path.to_owned(), body, gets };
    let import = |name: &str, platform: &str| {
        let accounts = simulators::demo_accounts(&app.settings);
        let valid = accounts.iter().rfind(|account| account.platform == platform).unwrap();
        json!({
            "creator_id": name, "platform": platform, "auth": valid.auth, "replace_identity": true,
        })
    };
    let slots = json!({"platform": "platform_alpha", "count": 1, "creator_id": foreign});
    let switch = json!({"from": "platform_beta", "to": "platform_alpha", "creator_id": foreign});
    let (keys, key) = ("/v1/auth/keys", format!("/v1/auth/keys/{limited}"));
    let connect = "/v1/connect/import";
    let deleted = &scene.deleted_account;
    vec![
        get(format!("/v1/billing/usage/recent?account={foreign}"), OwnView),
        get(format!("/v1/billing/usage/recent?key_id={owner_key}"), LIMITED),
        get(format!("/v1/billing/usage/daily?key_id={owner_key}"), LIMITED),
        get(format!("/v1/{own}/exports?before={export}"), OwnView),
        get(format!("/v1/exports?account={foreign}"), OwnView),
        get(format!("/v1/exports?account={deleted}"), OwnView),
        get(format!("/v1/exports?before={export}"), OwnView),
        get("/v1/exports?status=deleted".to_owned(), LIMITED),
        get(format!("/v1/{deleted}/exports"), NO_ACCOUNT),
        get(format!("/v1/exports/{}", scene.deleted_export), NOTHING_THERE),
        get(format!("/v1/exports/{export}/download"), NOTHING_THERE),
        get("/v1/audit?action=account.".to_owned(), LIMITED),
        ask("POST", connect, import(foreign, "platform_alpha"), NO_ACCOUNT),
        ask("POST", connect, import(foreign, "platform_beta"), NO_ACCOUNT),
        ask("POST", connect, import(deleted, "platform_gamma"), NO_ACCOUNT),
        ask("POST", connect, import(deleted, "platform_alpha"), NO_ACCOUNT),
        ask("POST", keys, json!({"name": "x", "scope": "full", "accounts": [foreign]}), LIMITED),
        ask("POST", keys, json!({"name": "x", "scope": "full", "accounts": [own]}), LIMITED),
        ask("PATCH", &key, json!({"accounts": [own, foreign]}), LIMITED),
        ask("PATCH", &key, json!({"accounts": null}), LIMITED),
        ask("POST", "/v1/auth/keys/rotate", json!({"key_id": owner_key}), LIMITED),
        ask("POST", "/v1/billing/slots", slots, LIMITED),
        ask("POST", "/v1/billing/slots/switch", switch, LIMITED),
    ]
}

/// Everything that the customer can see, except what every request with a key changes.
async fn seen_by_owner(app: &TestApp, scene: &Scene) -> BTreeMap<String, Value> {
    let mut seen = BTreeMap::new();
    for path in [
        "/v1/accounts",
        "/v1/auth/keys",
        "/v1/audit?limit=500",
        "/v1/billing",
        "/v1/billing/orders",
        "/v1/billing/autotopup",
        "/v1/billing/slots",
        "/v1/billing/subscription",
        "/v1/notices",
        "/v1/support-access",
        "/v1/billing/usage/daily",
        "/v1/billing/usage/recent",
        &format!("/v1/{}/exports", scene.victim.account),
        &format!("/v1/{}/exports", scene.deleted_account),
    ] {
        let mut shown = scene.owner.get(path).await.json();
        if let Some(keys) = shown.get_mut("keys") {
            for key in keys.as_array_mut().unwrap() {
                key.as_object_mut().unwrap().remove("last_used_at");
            }
        }
        seen.insert(path.to_owned(), shown);
    }
    let browser = app.signed_in(&scene.victim.member).await;
    seen.insert("me".to_owned(), browser.get("/v1/auth/me").await.json());
    let sessions = browser.get("/v1/auth/sessions").await.text();
    seen.insert("session".to_owned(), json!(sessions.contains(&scene.victim.session_id)));
    for platform in ["platform_alpha", "platform_gamma"] {
        seen.insert(platform.to_owned(), json!(app.seen(platform).await.len()));
    }
    seen
}

/// Texts that no response to the limited key may contain, unless its request did.
fn secrets(scene: &Scene) -> Vec<String> {
    let member = &scene.victim.member;
    vec![
        scene.victim.account.clone(),
        scene.deleted_account.clone(),
        scene.deleted_export.clone(),
        scene.victim.export_id.clone(),
        scene.victim.session_id.clone(),
        scene.victim.call_id.clone(),
        scene.order_id.clone(),
        member.customer.key_id.clone(),
        member.customer.key.clone(),
        member.email.clone(),
    ]
}

/// Asserts that the response is as in the table and shows nothing that was not in the request.
fn assert_nothing_learned(scene: &Scene, (name, asked): (&str, &str), gets: Gets, reply: &Reply) {
    match gets {
        Failure(status, code) => {
            assert_eq!(reply.failure(), (status, code.to_owned()), "{name}: {}", reply.text());
        }
        OwnView => assert!(reply.status < 300, "{name}: {}", reply.text()),
        WhatAnybodyGets => return,
    }
    let shown = reply.text();
    for secret in secrets(scene).iter().filter(|secret| !asked.contains(secret.as_str())) {
        assert!(!shown.contains(secret.as_str()), "{name} shows {secret}: {shown}");
    }
}

fn expected(case: &Case) -> Gets {
    let name = case.name();
    let mut found = EXPECTED.iter().filter(|(known, _)| *known == name);
    let (_, gets) = found.next().unwrap_or_else(|| panic!("{name} is not in EXPECTED"));
    assert!(found.next().is_none(), "{name} is in EXPECTED twice");
    *gets
}

/// A new operation cannot be shipped without an entry for limited keys.
#[test]
fn every_operation_has_an_expected_response_to_a_limited_key() {
    for case in cases() {
        let gets = expected(&case);
        assert_eq!(
            matches!(gets, WhatAnybodyGets),
            case.takes == Takes::Anybody,
            "{}: {gets:?}",
            case.name()
        );
    }
    assert_eq!(EXPECTED.len(), cases().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_cannot_read_or_change_another_account() {
    with_app(async |app| {
        let scene = scene(&app).await;
        let before = seen_by_owner(&app, &scene).await;

        for case in super::closed_cases() {
            let asked = match case.template {
                // The name of the account to connect is in the body.
                "/v1/connect/import" => continue,
                template => format!("{template} {}", case.asked_for(&scene.victim)),
            };
            let reply = case.call(&scene.limited, &scene.victim).await;
            assert_nothing_learned(&scene, (&case.name(), &asked), expected(&case), &reply);
        }
        for Further { method, path, body, gets } in further(&app, &scene) {
            let reply = match method {
                "GET" => scene.limited.get(&path).await,
                method => scene.limited.json(method, &path, &body).await,
            };
            let name = format!("{method} {path} {body}");
            assert_nothing_learned(&scene, (&name, &name), gets, &reply);
        }

        let after = seen_by_owner(&app, &scene).await;
        assert_eq!(after, before);
        let list = scene.limited.get("/v1/whoami").await.json();
        assert_eq!(list["accounts"], json!([scene.own_account]));
        app
    })
    .await;
}

/// The stored response for an `Idempotency-Key` is returned only to a caller that may use the
/// account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_gets_no_stored_response_of_another_account() {
    with_app(async |app| {
        let scene = scene(&app).await;
        let path = format!("/v1/{}/exports", scene.victim.account);
        let body = json!({"dataset": "subscribers", "max_rows": 3});
        let made = scene.owner.with("idempotency-key", "k1").post(&path, &body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let native = format!("/v1/{}/native/users/me", scene.victim.account);
        let called = scene.owner.with("idempotency-key", "k2").get(&native).await;
        assert_eq!(called.status, 200, "{}", called.text());

        let limited = &scene.limited;
        let export = limited.with("idempotency-key", "k1").post(&path, &body).await;
        let call = limited.with("idempotency-key", "k2").get(&native).await;

        for reply in [export, call] {
            assert_eq!(reply.failure(), (404, "account_not_found".to_owned()));
            assert_eq!(reply.header("idempotent-replayed"), "");
        }
        app.settled_beside(&scene.owner, 30).await;
        app
    })
    .await;
}

/// A narrowed key sees its own calls for the accounts that are left, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrowed_key_no_longer_sees_calls_of_other_accounts() {
    with_app(async |app| {
        let customer = app.customer(100).await;
        let owner = app.with_key(&customer.key);
        let foreign = app.connect(&customer, "platform_alpha").await;
        let own = app.connect(&customer, "platform_beta").await;
        let made = owner.post("/v1/auth/keys", &json!({"name": "k", "scope": "full"})).await.json();
        let key = app.with_key(&text(&made["api_key"]));
        for _ in 0..6 {
            let path = format!("/v1/{foreign}/native/nowhere/of/this/name");
            assert_eq!(key.get(&path).await.status, 404);
        }
        assert_eq!(key.get(&format!("/v1/{own}/native/account/me")).await.status, 200);
        app.settled(&owner).await;
        let usage = async || key.get("/v1/billing/usage/daily").await.json();
        assert_eq!(usage().await["hot_failure"]["account"], foreign.as_str());
        let path = format!("/v1/auth/keys/{}", text(&made["key_id"]));
        let narrowed = owner.json("PATCH", &path, &json!({"accounts": [own]})).await;
        assert_eq!(narrowed.status, 200, "{}", narrowed.text());

        let recent = key.get("/v1/billing/usage/recent").await.json();
        let named = key.get(&format!("/v1/billing/usage/recent?account={foreign}")).await.json();

        let calls = recent["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{recent}");
        assert_eq!(calls[0]["account"], own.as_str());
        assert_eq!(named["calls"], json!([]));
        let daily = usage().await;
        assert_eq!(daily["hot_failure"], Value::Null);
        assert!(!daily.to_string().contains(&foreign), "{daily}");
        app
    })
    .await;
}

/// A limited key does not see what the customer spends otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_sees_only_its_own_spending() {
    with_app(async |app| {
        let scene = scene(&app).await;
        let path = format!("/v1/{}/native/account/me", scene.own_account);
        for _ in 0..2 {
            assert_eq!(scene.limited.get(&path).await.status, 200);
        }
        app.settled_beside(&scene.owner, 20).await;

        let shown = scene.limited.get("/v1/billing").await.json();

        assert_eq!(shown["spend"]["today"], 2, "{shown}");
        assert_eq!(shown["spend"]["last_30_days"], 2, "{shown}");
        // Of the ledger it sees only its own charges: no grants, and nothing of other keys.
        let lines = shown["ledger"].as_array().unwrap();
        assert_eq!(lines.len(), 1, "{shown}");
        assert_eq!((&lines[0]["kind"], &lines[0]["amount"]), (&json!("usage"), &json!(-2)));
        let owner = scene.owner.get("/v1/billing").await.json();
        // And the victim's own call, and the owner's of the same account.
        assert_eq!(owner["spend"]["today"], 4, "{owner}");
        assert_eq!(shown["balance"], owner["balance"]);
        app
    })
    .await;
}
