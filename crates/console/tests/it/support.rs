//! The page of staff: what they may see, of whom, and that nobody else learns that it is there.

use serde_json::json;
use test_service::browser::escaped;
use test_service::member::Member;
use test_service::{Browser, TestApp, with_app};

const SUPPORT: &str = "/console/support";

/// A member of the staff with this permission, and a browser.
async fn staff(app: &TestApp, permission: &str) -> (Member, Browser) {
    let member = app.member("staff@example.com").await;
    let grant = json!({
        "command": "grant_permission", "customer": member.customer.id, "permission": permission,
    });
    app.staff(grant).await;
    let browser = app.browser_of(&member).await;
    (member, browser)
}

/// A customer with some calls.
async fn busy(app: &TestApp, calls: usize) -> Member {
    let member = app.member("ada@example.com").await;
    app.grant(&member.customer, 1_000).await;
    let client = app.with_key(&member.customer.key);
    assert_eq!(app.import(&client, "platform_alpha", "amber").await, "active");
    for _ in 0..calls {
        assert_eq!(client.get("/v1/amber/native/users/me").await.status, 200);
        app.advance_seconds(1);
    }
    app.settled(&client).await;
    member
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_consent_all_calls_are_paged_and_each_look_is_recorded() {
    with_app(async |app| {
        let customer = busy(&app, 53).await;
        let (_, helper) = staff(&app, "support.read").await;
        let client = app.with_key(&customer.customer.key);
        client.post("/v1/support-access", &json!({"enabled": true})).await;
        let look = format!("{SUPPORT}?customer={}", customer.customer.id);

        let newest = helper.open(&look).await;
        let older = helper.open(&newest.link("Older")).await;
        let back = helper.open(&older.link("Newest")).await;

        newest.assert(200, "amber");
        let calls = |page: &test_service::Page| page.html().matches("users/me").count();
        assert!(calls(&newest) >= 50 && (1..50).contains(&calls(&older)), "{}", older.words());
        assert_eq!(back.words(), newest.words());
        let audit = client.get("/v1/audit?action=support.calls_read").await.json();
        assert_eq!(audit["entries"].as_array().unwrap().len(), 3, "{audit}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consent_ends_by_its_time_and_the_page_tells_staff_nothing_then() {
    with_app(async |app| {
        let customer = busy(&app, 1).await;
        let (_, helper) = staff(&app, "support.read").await;
        let client = app.with_key(&customer.customer.key);
        let hour = json!({"enabled": true, "expires_in_hours": 1});
        client.post("/v1/support-access", &hour).await;
        let look = format!("{SUPPORT}?customer={}", customer.customer.id);
        helper.open(&look).await.assert(200, "amber");

        app.advance_seconds(3_600);

        let after = helper.open(&look).await;
        let unknown = format!("{SUPPORT}?customer=cus_019ab3c4d5e67f8091a2b3c4d5e6f708");
        let unknown = helper.open(&unknown).await;
        assert_eq!((after.status(), unknown.status()), (404, 404));
        after.assert_not("amber");
        let plain = |page: &test_service::Page, id: &str| page.words().replace(id, "ID");
        assert_eq!(
            plain(&after, &customer.customer.id),
            plain(&unknown, "cus_019ab3c4d5e67f8091a2b3c4d5e6f708")
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_customer_id_is_marked_and_kept() {
    with_app(async |app| {
        let (_, helper) = staff(&app, "support.read").await;
        for (typed, status) in [("ada@example.com", 404), ("cus_1", 404), ("../billing", 404)] {
            let encoded = escaped(typed);

            let page = helper.open(&format!("{SUPPORT}?customer={encoded}")).await;

            assert_eq!(page.status(), status, "{typed}: {}", page.words());
            assert_eq!(page.field(SUPPORT, "customer"), typed);
        }
        let empty = helper.open(&format!("{SUPPORT}?customer=+")).await;
        empty.assert(200, "What you may do").assert_not("Calls per day");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_to_do_something_else_shows_no_calls() {
    with_app(async |app| {
        let customer = busy(&app, 1).await;
        let (member, helper) = staff(&app, "customers.read").await;
        let client = app.with_key(&customer.customer.key);
        client.post("/v1/support-access", &json!({"enabled": true})).await;
        let look = format!("{SUPPORT}?customer={}", customer.customer.id);

        let refused = helper.open(&look).await;
        refused.assert_not("amber");
        assert!([403, 404].contains(&refused.status()), "{}", refused.words());
        // Without any permission there is no page.
        let revoke = json!({
            "command": "revoke_permission", "customer": member.customer.id,
            "permission": "customers.read",
        });
        app.staff(revoke).await;
        assert_eq!(helper.open(SUPPORT).await.status(), 404);
        helper.open("/console").await.assert_not("Customers");
        app
    })
    .await;
}
