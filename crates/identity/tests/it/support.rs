//! Support access: staff see only what the customer currently allows, and each access is recorded.

use serde_json::{Value, json};
use test_service::app::Customer;
use test_service::nodes::on_hearing_and_deaf_nodes;
use test_service::platform::{Script, Seen};
use test_service::stage::{Stage, on_stage};
use test_service::{Client, Reply, TestApp, with_app};

const SETTING: &str = "/v1/support-access";
const NOBODY: &str = "cus_019ab3c4d5e67f8091a2b3c4d5e6f708";

fn ok(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

/// A staff member who may view customers that allow it.
async fn staff(app: &TestApp) -> (Customer, Client) {
    let member = app.customer(0).await;
    permit(app, &member, "support.read").await;
    let client = app.with_key(&member.key);
    (member, client)
}

async fn permit(app: &TestApp, member: &Customer, permission: &str) {
    let grant =
        json!({"command": "grant_permission", "customer": member.id, "permission": permission});
    app.staff(grant).await;
}

async fn calls(client: &Client, customer: &str) -> Reply {
    client.get(&format!("/v1/support/customers/{customer}/calls")).await
}

async fn usage(client: &Client, customer: &str) -> Reply {
    client.get(&format!("/v1/support/customers/{customer}/usage?days=3")).await
}

async fn allow(client: &Client, hours: i64) -> Value {
    let reply = client.post(SETTING, &json!({"enabled": true, "expires_in_hours": hours})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The body of a response, without the request's id.
fn said(reply: &Reply) -> Value {
    let mut body = reply.json();
    body.as_object_mut().unwrap().remove("request_id");
    body
}

/// A customer with one call in its log.
async fn called(stage: &Stage) {
    assert_eq!(stage.get("users/me").await.status, 200);
    stage.app.settled(&stage.client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_consent_staff_cannot_tell_whether_a_customer_exists() {
    on_stage("platform_alpha", "", ok, async |stage| {
        called(&stage).await;
        let (_, support) = staff(&stage.app).await;

        let existing = calls(&support, &stage.customer.id).await;
        let unknown = calls(&support, NOBODY).await;

        assert_eq!(existing.failure(), (404, "support_access_closed".to_owned()));
        assert_eq!(said(&existing), said(&unknown));
        assert_eq!(usage(&support, &stage.customer.id).await.code(), "support_access_closed");
        let shown = stage.client.get(SETTING).await.json();
        assert_eq!(shown, json!({"enabled": false, "expires_at": null, "uses": []}));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_consent_staff_see_calls_and_usage_and_the_customer_sees_the_accesses() {
    on_stage("platform_alpha", "", ok, async |stage| {
        called(&stage).await;
        let (member, support) = staff(&stage.app).await;

        let allowed = allow(&stage.client, 2).await;
        let log = calls(&support, &stage.customer.id).await.json();
        stage.app.advance_seconds(1);
        let days = usage(&support, &stage.customer.id).await.json();

        assert_eq!(
            (&allowed["enabled"], &allowed["expires_at"]),
            (&json!(true), &json!("2026-11-21T14:00:00.000000Z"))
        );
        assert_eq!(log["calls"].as_array().unwrap().len(), 1, "{log}");
        assert_eq!(log["calls"][0]["key_id"], stage.customer.key_id.as_str());
        assert_eq!(days["days"].as_array().unwrap().len(), 3, "{days}");
        assert_eq!(days["days"][2]["calls"], 1);
        let uses = stage.client.get(SETTING).await.json()["uses"].clone();
        let told: Vec<[Value; 4]> = uses
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| ["actor", "action", "at", "details"].map(|name| entry[name].clone()))
            .collect();
        let entry = |action: &str, at: &str, details: Value| {
            [json!(member.id), json!(action), json!(at), details]
        };
        assert_eq!(
            told,
            [
                entry(
                    "support.usage_read",
                    "2026-11-21T12:00:01.000000Z",
                    json!({"query": "days=3"})
                ),
                entry("support.calls_read", "2026-11-21T12:00:00.000000Z", json!({})),
            ]
        );
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consent_ends_on_expiry_and_on_withdrawal() {
    on_stage("platform_alpha", "", ok, async |stage| {
        called(&stage).await;
        let (_, support) = staff(&stage.app).await;
        let customer = &stage.customer.id;
        allow(&stage.client, 72).await;

        stage.app.advance_seconds(72 * 3_600 - 1);
        assert_eq!(calls(&support, customer).await.status, 200);
        stage.app.advance_seconds(1);
        assert_eq!(calls(&support, customer).await.code(), "support_access_closed");
        assert_eq!(stage.client.get(SETTING).await.json()["enabled"], false);

        allow(&stage.client, 1).await;
        assert_eq!(calls(&support, customer).await.status, 200);
        let withdrawn = stage.client.post(SETTING, &json!({"enabled": false})).await;
        assert_eq!(calls(&support, customer).await.code(), "support_access_closed");
        assert_eq!(usage(&support, customer).await.code(), "support_access_closed");

        let withdrawn = withdrawn.json();
        assert_eq!(
            (&withdrawn["enabled"], &withdrawn["expires_at"]),
            (&json!(false), &Value::Null)
        );
        let uses = stage.client.get(SETTING).await.json()["uses"].clone();
        assert_eq!(
            uses.as_array().unwrap().len(),
            2,
            "refused accesses must not be recorded: {uses}"
        );
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn consent_and_its_withdrawal_apply_on_every_node() {
    on_hearing_and_deaf_nodes("", ok, async |nodes| {
        let customer = &nodes.stage.customer.id;
        let (member, _) = staff(&nodes.stage.app).await;
        let (support, own) = (nodes.clients(&member.key), nodes.own_clients());

        for at in [0, 1, 2] {
            allow(&own[at], 1).await;
            for client in &support {
                assert_eq!(calls(client, customer).await.status, 200);
            }
            own[(at + 1) % 3].post(SETTING, &json!({"enabled": false})).await;
            for client in &support {
                assert_eq!(calls(client, customer).await.code(), "support_access_closed");
            }
        }

        let all = own[2].get("/v1/audit?action=support.&limit=100").await.json();
        assert_eq!(all["entries"].as_array().unwrap().len(), 9);
        nodes
    })
    .await;
}

/// Each combination of permission and consent, and the access that it gives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_support_read_gives_staff_access() {
    with_app(async |app| {
        let victim = app.customer(0).await;
        let client = app.with_key(&victim.key);
        let nobody = app.customer(0).await;
        let exports = app.customer(0).await;
        permit(&app, &exports, "data-export.manage").await;
        let (reader, _) = staff(&app).await;
        let read_only = json!({"name": "r", "scope": "read_only"});
        let made = app.with_key(&reader.key).post("/v1/auth/keys", &read_only).await.json();
        let reading_key = made["api_key"].as_str().unwrap().to_owned();

        for consents in [false, true] {
            if consents {
                allow(&client, 1).await;
            }
            for (key, may) in [
                (&victim.key, false),
                (&nobody.key, false),
                (&exports.key, false),
                (&reader.key, true),
                (&reading_key, true),
            ] {
                let caller = app.with_key(key);
                for reply in [calls(&caller, &victim.id).await, usage(&caller, &victim.id).await] {
                    let expected = match (may, consents) {
                        (false, _) => (403, "missing_permission"),
                        (true, false) => (404, "support_access_closed"),
                        (true, true) => (200, ""),
                    };
                    assert_eq!((reply.status, reply.code().as_str()), expected, "{}", reply.text());
                }
                let unknown = calls(&caller, NOBODY).await;
                let hidden =
                    if may { (404, "support_access_closed") } else { (403, "missing_permission") };
                assert_eq!((unknown.status, unknown.code().as_str()), hidden);
            }
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_permission_gives_no_access() {
    with_app(async |app| {
        let victim = app.customer(0).await;
        allow(&app.with_key(&victim.key), 1).await;
        let (member, support) = staff(&app).await;
        assert_eq!(calls(&support, &victim.id).await.status, 200);
        let revoke = json!({
            "command": "revoke_permission", "customer": member.id, "permission": "support.read",
        });

        app.advance_seconds(1);
        app.staff(revoke).await;

        assert_eq!(calls(&support, &victim.id).await.code(), "missing_permission");
        let told = support.get("/v1/audit?action=permission.").await.json();
        let told: Vec<&Value> =
            told["entries"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
        assert_eq!(told, ["permission.revoked", "permission.granted"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_setting_is_reported_and_changes_nothing() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let cases = [
            (json!({}), "enabled", "missing"),
            (json!({"enabled": true, "expires_in_hours": 0}), "expires_in_hours", "out_of_range"),
            (json!({"enabled": true, "expires_in_hours": 73}), "expires_in_hours", "out_of_range"),
            (json!({"enabled": false, "expires_in_hours": 1}), "expires_in_hours", "not_allowed"),
            (json!({"enabled": true, "expires_at": "x"}), "expires_at", "unknown_field"),
        ];

        for (body, field, kind) in cases {
            let fields = client.post(SETTING, &body).await.wrong_fields();
            assert_eq!(fields, [(format!("body.{field}"), kind.to_owned())], "{body}");
        }

        assert_eq!(client.get(SETTING).await.json()["enabled"], false);
        let audit = client.get("/v1/audit").await.json();
        assert_eq!(audit["entries"], json!([]));
        app
    })
    .await;
}

/// A malformed request shows nothing, so it is not in the customer's list of accesses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_request_of_staff_is_no_access() {
    with_app(async |app| {
        let victim = app.customer(0).await;
        let client = app.with_key(&victim.key);
        allow(&client, 1).await;
        let (_, support) = staff(&app).await;

        let path = format!("/v1/support/customers/{}/calls?limit=0", victim.id);
        assert_eq!(support.get(&path).await.status, 422);
        assert_eq!(calls(&support, "somebody").await.status, 404);

        assert_eq!(client.get(SETTING).await.json()["uses"], json!([]));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_list_is_paged_and_private() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let stranger = app.with_key(&app.customer(0).await.key);
        for _ in 0..5 {
            allow(&client, 1).await;
        }

        let first = client.get("/v1/audit?limit=3").await.json();
        let before = first["next_before"].as_str().unwrap().to_owned();
        let rest = client.get(&format!("/v1/audit?limit=3&before={before}")).await.json();

        let ids = |page: &Value| {
            let entries = page["entries"].as_array().unwrap();
            entries.iter().map(|entry| entry["entry_id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!((ids(&first).len(), ids(&rest).len()), (3, 2));
        assert!(ids(&first).iter().all(|id| !ids(&rest).contains(id)));
        assert_eq!(rest["next_before"], Value::Null);
        let foreign = stranger.get(&format!("/v1/audit?before={before}")).await.json();
        assert_eq!(foreign["entries"], json!([]));
        for query in ["limit=0", "limit=501", "before=x", "unknown=1"] {
            assert_eq!(client.get(&format!("/v1/audit?{query}")).await.status, 422, "{query}");
        }
        for method in ["DELETE", "POST", "PUT", "PATCH"] {
            assert_eq!(client.send(method, "/v1/audit", None).await.status, 405, "{method}");
        }
        app
    })
    .await;
}
