//! Who may work as the operator: the admin token, and staff by the permissions of their keys.

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{asked, audited, done};
use test_service::app::Customer;
use test_service::{TestApp, with_app};

async fn permit(app: &TestApp, customer: &Customer, permission: &str) {
    let command = json!({
        "command": "grant_permission", "customer": customer.id, "permission": permission,
    });
    app.staff(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_may_do_what_their_permissions_say_and_nothing_else() {
    with_app(async |app| {
        let (customer, staff) = (app.customer(5).await, app.customer(0).await);
        let at = app.admin().bearer(&staff.key);
        let show = json!({"command": "show_customer", "customer": customer.id});
        let suspend =
            json!({"command": "suspend_customer", "customer": customer.id, "reason": "a test"});
        let mut ending = suspend.clone();
        ending["cancel_subscription"] = json!(true);
        let resume = json!({"command": "resume_customer", "customer": customer.id});
        let grant = json!({
            "command": "grant_credits", "customer": customer.id, "credits": 1, "reference": "gift",
        });
        let status = async |path: &str, command: &Value| at.post(path, command).await.status;
        let operator = "/commands/operator";

        // Without a permission, a key is as good as none.
        for (path, command) in [(operator, &show), ("/commands", &grant)] {
            assert_eq!(status(path, command).await, 401);
        }
        permit(&app, &staff, "customers.read").await;
        assert_eq!(status(operator, &show).await, 200);
        let missing = at.post(operator, &suspend).await;
        assert_eq!(missing.failure(), (403, "missing_permission".to_owned()));
        assert_eq!(status("/commands", &grant).await, 403);
        permit(&app, &staff, "customers.write").await;
        assert_eq!(status(operator, &ending).await, 403);
        assert_eq!(status(operator, &suspend).await, 200);
        assert_eq!(status(operator, &resume).await, 200);
        permit(&app, &staff, "billing.write").await;
        assert_eq!(status("/commands", &grant).await, 200);
        // What belongs to the whole service needs the token.
        assert_eq!(status("/commands", &json!({"command": "rotate_master_key"})).await, 401);
        assert_eq!(status("/reconcile", &json!({"hours": 1})).await, 401);

        let seen = audited(&app, &customer.id).await;
        let by_staff = seen.iter().filter(|(_, actor)| *actor == staff.id);
        let mut actions: Vec<&str> = by_staff.map(|(action, _)| action.as_str()).collect();
        // The clock stands still, so their order is not defined.
        actions.sort_unstable();
        let expected = [
            "credits.adjusted",
            "customer.resumed",
            "customer.suspended",
            "operator.customer_viewed",
        ];
        assert_eq!(actions, expected);
        app
    })
    .await;
}

/// A key with limits was given to a program, not to a person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_or_read_only_key_of_staff_changes_nothing() {
    with_app(async |app| {
        let (customer, staff) = (app.customer(0).await, app.customer(0).await);
        permit(&app, &staff, "customers.read").await;
        permit(&app, &staff, "customers.write").await;
        let made = async |body: Value| {
            let reply = app.with_key(&staff.key).post("/v1/auth/keys", &body).await;
            assert_eq!(reply.status, 201, "{}", reply.text());
            reply.json()["api_key"].as_str().unwrap().to_owned()
        };
        let limited =
            made(json!({"name": "l", "scope": "full", "monthly_budget_credits": 5})).await;
        let reading = made(json!({"name": "r", "scope": "read_only"})).await;
        let show = json!({"command": "show_customer", "customer": customer.id});
        let suspend =
            json!({"command": "suspend_customer", "customer": customer.id, "reason": "a test"});
        let status = async |key: &str, command: &Value| {
            app.admin().bearer(key).post("/commands/operator", command).await.status
        };

        assert_eq!((status(&limited, &show).await, status(&limited, &suspend).await), (401, 401));
        assert_eq!((status(&reading, &show).await, status(&reading, &suspend).await), (200, 403));
        app
    })
    .await;
}

/// The token is checked before the command is read, and a name must be one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_learns_anything() {
    let app = TestApp::on_sqlite("").await;
    let customer = app.customer(0).await;
    let show = json!({"command": "show_customer", "customer": customer.id});

    for client in [app.admin(), app.admin().bearer("x"), app.admin().bearer(&customer.key)] {
        for path in ["/commands/operator", "/commands/operator/export"] {
            assert_eq!(client.post(path, &json!({"command": "nonsense"})).await.status, 401);
        }
        assert_eq!(client.post("/commands/operator", &show).await.status, 401);
    }
    assert_eq!(asked(&app, &json!({"command": "nonsense"})).await.status, 422);
    let token = app.running().admin_token().expose_secret().to_owned();
    let misnamed = app.admin().bearer(&token).with("x-operator", "a b");
    assert_eq!(misnamed.post("/commands/operator", &show).await.status, 422);
    app.end().await;
}

/// The customer reads that the operator looked, and not who it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_customer_sees_that_the_operator_looked_and_not_who_it_was() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        done(&app, json!({"command": "show_customer", "customer": customer.id})).await;

        let audit = app.with_key(&customer.key).get("/v1/audit?action=operator.").await.json();

        let entry = &audit["entries"][0];
        assert_eq!(entry["action"], "operator.customer_viewed", "{audit}");
        assert_eq!(entry["actor"], "operator");
        app
    })
    .await;
}
