//! Switching accounts off and on: refused calls say what to do, slots become free for other
//! accounts, and an account stays off until it is switched on.

use serde_json::{Value, json};
use test_service::subscriber::{active, selling, slots_on};
use test_service::{Client, Reply, TestApp, with_app};

const ALPHA: &str = "platform_alpha";

async fn switch(client: &Client, creator: &str, state: &str) -> Reply {
    client.json("PATCH", &format!("/v1/accounts/{creator}"), &json!({"state": state})).await
}

async fn call(client: &Client, creator: &str) -> Reply {
    client.get(&format!("/v1/{creator}/native/users/me")).await
}

/// The audit entries whose action has this prefix: actor and details.
async fn noted(client: &Client, action: &str) -> Vec<(String, Value)> {
    let list = client.get(&format!("/v1/audit?action={action}")).await.json();
    let of =
        |entry: &Value| (entry["actor"].as_str().unwrap().to_owned(), entry["details"].clone());
    list["entries"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_switched_off_is_refused_until_switched_on() {
    with_app(async |app| {
        let customer = app.customer(100).await;
        let client = app.with_key(&customer.key);
        assert_eq!(app.import(&client, ALPHA, "ada").await, "active");
        assert_eq!(call(&client, "ada").await.status, 200);
        let slots = slots_on(&client.get("/v1/billing/slots").await.json(), ALPHA);
        assert_eq!((&slots["active"], &slots["connected"]), (&json!(1), &json!(1)));

        let off = switch(&client, "ada", "inactive").await;

        assert_eq!(off.status, 200, "{}", off.text());
        let shown = client.get("/v1/accounts/ada").await.json();
        assert_eq!(off.json(), shown);
        assert_eq!(
            (&shown["state"], &shown["inactive_reason"]),
            (&json!("inactive"), &json!("switched_off"))
        );
        let export = client.post("/v1/ada/exports", &json!({"dataset": "subscribers"})).await;
        for refused in [call(&client, "ada").await, export] {
            assert_eq!(refused.failure(), (403, "account_inactive".to_owned()));
            assert_eq!(refused.json()["inactive_reason"], "switched_off");
            let told = refused.text();
            assert!(told.contains("PATCH /v1/accounts/ada") && told.contains("active"), "{told}");
        }
        let without = slots_on(&client.get("/v1/billing/slots").await.json(), ALPHA);
        assert_eq!((&without["active"], &without["connected"]), (&json!(0), &json!(1)));

        // Its credentials were kept.
        let on = switch(&client, "ada", "active").await;
        assert_eq!((on.status, &on.json()["inactive_reason"]), (200, &Value::Null));
        assert_eq!(call(&client, "ada").await.status, 200);

        for state in ["active", "inactive", "inactive"] {
            assert_eq!(switch(&client, "ada", state).await.status, 200);
        }
        let by = |_: &str| (customer.key_id.clone(), json!({"creator_id": "ada"}));
        assert_eq!(noted(&client, "account.switched_off").await, ["1", "2"].map(by));
        assert_eq!(noted(&client, "account.switched_on").await, ["1"].map(by));
        app.settled(&client).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switching_on_needs_a_slot_and_a_freed_slot_goes_to_a_waiting_account() {
    selling(async |app| {
        let customer = app.customer(100).await;
        let client = app.with_key(&customer.key);
        assert_eq!(app.import(&client, ALPHA, "ada").await, "active");
        assert_eq!(app.import(&client, ALPHA, "bob").await, "inactive");
        let waiting = client.get("/v1/accounts/bob").await.json();
        assert_eq!(waiting["inactive_reason"], "no_free_slot");
        let refused = call(&client, "bob").await;
        assert_eq!(refused.failure(), (403, "account_inactive".to_owned()));
        assert_eq!(refused.json()["inactive_reason"], "no_free_slot");

        assert_eq!(switch(&client, "ada", "inactive").await.status, 200);

        assert_eq!(active(&client).await, ["bob"]);
        let given = json!({"accounts": [{"creator_id": "bob", "platform": ALPHA}]});
        let activated = noted(&client, "accounts.activated").await;
        assert_eq!(activated, [(customer.key_id.clone(), given)]);
        let full = switch(&client, "ada", "active").await;
        assert_eq!(full.failure(), (409, "no_free_slot".to_owned()));
        let told = full.json();
        assert_eq!(
            (&told["platform"], &told["limit"], &told["accounts"]),
            (&json!(ALPHA), &json!(1), &json!(["bob"]))
        );
        assert!(full.text().contains("POST /v1/billing/slots"), "{}", full.text());

        // Neither another import nor a free slot switches it on.
        assert_eq!(app.import(&client, ALPHA, "ada").await, "inactive");
        assert_eq!(client.delete("/v1/accounts/bob").await.status, 204);
        assert_eq!(active(&client).await, [""; 0]);
        assert_eq!(switch(&client, "ada", "active").await.status, 200);
        assert_eq!(active(&client).await, ["ada"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_list_shows_an_account_that_gets_the_slot_of_a_deleted_one() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        for creator in ["ada", "bob"] {
            app.import(&client, ALPHA, creator).await;
        }

        assert_eq!(client.delete("/v1/accounts/ada").await.status, 204);
        assert_eq!(client.delete("/v1/accounts/bob").await.status, 204);

        let given = json!({"accounts": [{"creator_id": "bob", "platform": ALPHA}]});
        let activated = noted(&client, "accounts.activated").await;
        assert_eq!(activated, [(customer.key_id.clone(), given)]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_switches_its_own_accounts_and_sees_no_others() {
    selling(async |app| {
        let owner = app.with_key(&app.customer(100).await.key);
        for creator in ["ada", "bob", "cyd"] {
            app.import(&owner, ALPHA, creator).await;
        }
        let new = |scope: &str| json!({"name": scope, "scope": scope, "accounts": ["bob"]});
        let key = async |scope: &str| {
            let made = owner.post("/v1/auth/keys", &new(scope)).await.json();
            app.with_key(made["api_key"].as_str().unwrap())
        };
        let (limited, reads) = (key("full").await, key("read_only").await);

        let full = switch(&limited, "bob", "active").await;

        assert_eq!(full.failure(), (409, "no_free_slot".to_owned()));
        assert_eq!(full.json()["accounts"], json!([]), "{}", full.text());
        assert!(!full.text().contains("ada"), "{}", full.text());
        // The response leaves what the key cannot do to callers that can.
        let detail = |reply: &Reply| reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail(&full).contains("a key without limits or a login can"), "{}", full.text());
        assert!(!detail(&full).contains("/v1/billing/slots"), "{}", full.text());
        let owners = switch(&owner, "bob", "active").await;
        assert!(detail(&owners).contains("add a slot with `POST /v1/billing/slots`"));
        for other in ["ada", "cyd", "nobody", "a%20b"] {
            let refused = switch(&limited, other, "inactive").await;
            assert_eq!(refused.failure(), (404, "account_not_found".to_owned()), "{other}");
        }
        let refused = switch(&reads, "bob", "inactive").await;
        assert_eq!(refused.failure(), (403, "read_only_key".to_owned()));
        assert_eq!(switch(&limited, "bob", "inactive").await.status, 200);
        // It no longer waits, so the next account gets the slot.
        assert_eq!(switch(&owner, "ada", "inactive").await.status, 200);
        assert_eq!(active(&owner).await, ["cyd"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_state_is_reported_and_changes_nothing() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    app.import(&client, ALPHA, "ada").await;

    for (body, field) in [
        (json!({}), "body.state"),
        (json!({"state": "off"}), "body.state"),
        (json!({"state": "reconnect_needed"}), "body.state"),
        (json!({"state": null}), "body.state"),
        (json!({"state": "inactive", "reason": "x"}), "body.reason"),
    ] {
        let refused = client.json("PATCH", "/v1/accounts/ada", &body).await;
        assert_eq!(refused.wrong_fields()[0].0, field, "{body}");
    }

    assert_eq!(active(&client).await, ["ada"]);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_an_account_that_is_switched_off_fails_without_cost() {
    with_app(async |app| {
        let (_, client, account) = app.ready(ALPHA, 20).await;
        let (exports, wanted) =
            (format!("/v1/{account}/exports"), json!({"dataset": "subscribers"}));
        let made = client.post(&exports, &wanted).await.json();
        let path = format!("/v1/exports/{}", made["job_id"].as_str().unwrap());

        assert_eq!(switch(&client, &account, "inactive").await.status, 200);
        app.run_exports().await;

        let export = client.get(&path).await.json();
        assert_eq!(export["status"], "failed", "{export}");
        assert_eq!(export["error"]["code"], "account_unavailable", "{export}");
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 20);
        app
    })
    .await;
}
