//! Suspended customers: refused everywhere with a code of their own, and as before once resumed.

use serde_json::{Value, json};

use super::{asked, done, grace_at};
use test_service::client::Client;
use test_service::nodes::{on_hearing_and_deaf_nodes, read};
use test_service::platform::{Script, Seen};
use test_service::processor::balance;
use test_service::subscriber::{GOOD_CARD, selling};
use test_service::{TestApp, with_app};

fn ok(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

fn suspend(customer: &str) -> Value {
    json!({"command": "suspend_customer", "customer": customer, "reason": "a test"})
}

fn resume(customer: &str) -> Value {
    json!({"command": "resume_customer", "customer": customer})
}

/// One node suspends, another one resumes, and all of them follow with their next call, whether or
/// not they hear each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_suspension_and_its_end_hold_on_every_node() {
    on_hearing_and_deaf_nodes("", ok, async |nodes| {
        let clients = nodes.own_clients();
        let command = async |node: usize, command: Value| {
            let operator = grace_at(nodes.running()[node]);
            let reply = operator.post("/commands/operator", &command).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        };
        let each = async |status: u16, code: &str| {
            for client in &clients {
                let reply = read(&nodes.stage, client).await;
                assert_eq!(reply.failure(), (status, code.to_owned()), "{}", reply.text());
            }
        };
        let before = balance(&clients[0]).await;
        // Every node has the key in its cache.
        each(200, "").await;

        command(1, suspend(&nodes.stage.customer.id)).await;
        each(403, "customer_suspended").await;
        each(403, "customer_suspended").await;
        let sent = nodes.stage.platform.calls().len();
        for client in &clients {
            let write = client.post(&nodes.stage.path("lists"), &json!({})).await;
            assert_eq!(write.failure(), (403, "customer_suspended".to_owned()), "{}", write.text());
        }
        assert_eq!(nodes.stage.platform.calls().len(), sent);
        command(2, resume(&nodes.stage.customer.id)).await;
        each(200, "").await;

        // A node that has not heard of a change may send a read in vain; nobody pays for it.
        nodes.stage.app.settled(&clients[0]).await;
        assert_eq!(before - balance(&clients[0]).await, 6);
        nodes
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_logins_of_a_suspended_customer_are_refused_until_it_is_resumed() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        assert_eq!(browser.get("/v1/auth/me").await.status, 200);

        done(&app, suspend("ada@example.com")).await;

        let suspended = (403, "customer_suspended".to_owned());
        assert_eq!(browser.get("/v1/auth/me").await.failure(), suspended);
        let login = app.try_log_in("ada@example.com", test_service::member::PASSWORD).await;
        assert_eq!(login.failure(), suspended);
        // Whoever does not know the password learns nothing.
        let guess = app.try_log_in("ada@example.com", "not the password").await;
        assert_eq!(guess.failure(), (401, "wrong_credentials".to_owned()));
        done(&app, resume("ada@example.com")).await;
        let ended = browser.get("/v1/auth/me").await;
        assert_eq!(ended.failure(), (401, "invalid_session".to_owned()), "nothing is revived");
        assert_eq!(app.signed_in(&member).await.get("/v1/auth/me").await.status, 200);
        app.run_jobs().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_all_sessions_of_a_customer_and_nothing_else() {
    with_app(async |app| {
        let (ada, eve) = (app.member("ada@example.com").await, app.member("eve@example.com").await);
        let browsers = [app.signed_in(&ada).await, app.signed_in(&ada).await];
        let other = app.signed_in(&eve).await;
        let end = json!({"command": "end_sessions", "customer": "ada@example.com"});

        let ended = done(&app, end.clone()).await;
        let again = done(&app, end).await;

        let expected =
            json!({"done": "sessions_ended", "customer_id": ada.customer.id, "ended": 2});
        assert_eq!((ended, &again["ended"]), (expected, &json!(0)));
        for browser in browsers {
            let refused = browser.get("/v1/auth/me").await;
            assert_eq!(refused.failure(), (401, "invalid_session".to_owned()));
        }
        assert_eq!(other.get("/v1/auth/me").await.status, 200);
        let key = app.with_key(&ada.customer.key);
        let audit = key.get("/v1/audit").await.json();
        assert_eq!(audit["entries"][0]["action"], "sessions.ended_by_operator");
        assert_eq!(app.signed_in(&ada).await.get("/v1/auth/me").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_of_a_suspended_customer_wait_until_it_is_resumed() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 20).await;
        let wish = json!({"dataset": "subscribers", "fmt": "csv", "max_rows": 10});
        let made = client.post(&format!("/v1/{account}/exports"), &wish).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("/v1/exports/{}", made.json()["job_id"].as_str().unwrap());

        done(&app, suspend(&customer.id)).await;
        assert_eq!(app.run_exports().await, 0);
        done(&app, resume(&customer.id)).await;
        assert_eq!(app.run_exports().await, 1);

        assert_eq!(client.get(&path).await.json()["status"], "completed");
        app
    })
    .await;
}

/// The subscription goes on, unless the operator ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_ends_with_a_suspension_only_if_the_operator_says_so() {
    selling(async |app| {
        let (customer, client) = app.subscriber(GOOD_CARD).await;
        let status = async |of: &TestApp| of.subscription().await["status"].clone();
        done(&app, suspend(&customer.id)).await;
        assert_eq!(status(&app).await, "active");
        done(&app, resume(&customer.id)).await;

        let mut ending = suspend(&customer.id);
        ending["cancel_subscription"] = json!(true);
        ending["dry_run"] = json!(true);
        let preview = done(&app, ending.clone()).await;
        assert_eq!(status(&app).await, "active");
        assert_eq!(client.get("/v1/billing").await.status, 200, "a dry run changes nothing");
        ending["dry_run"] = json!(false);
        let suspended = done(&app, ending).await;

        assert_eq!(suspended["cancelled_subscription"], preview["cancelled_subscription"]);
        assert!(suspended["cancelled_subscription"].is_string(), "{suspended}");
        assert_eq!(status(&app).await, "canceled");
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspending_and_resuming_may_be_repeated_and_need_a_reason_and_a_customer() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let applied = async |command: Value| done(&app, command).await["applied"].clone();

        assert_eq!(applied(resume(&customer.id)).await, false);
        assert_eq!(applied(suspend(&customer.id)).await, true);
        assert_eq!(applied(suspend(&customer.id)).await, false);
        assert_eq!(applied(resume(&customer.id)).await, true);
        let nobody = "cus_019ab3c4d5e67f8091a2b3c4d5e6f708";
        assert_eq!(asked(&app, &suspend(nobody)).await.status, 404);
        for reason in ["", "  ", "two\nlines", &"a".repeat(201)] {
            let mut command = suspend(&customer.id);
            command["reason"] = json!(reason);
            assert_eq!(asked(&app, &command).await.status, 422, "{reason}");
        }
        let client: Client = app.with_key(&customer.key);
        assert_eq!(client.get("/v1/billing").await.status, 200);
        app
    })
    .await;
}
