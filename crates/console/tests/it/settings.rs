//! Settings, the audit log, and what staff see.

use serde_json::json;
use test_service::member::PASSWORD;
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const PATH: &str = "/console/settings";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_changes_name_address_and_password() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let page = browser.open(PATH).await;
        page.assert(200, &member.customer.id).assert(200, "Not confirmed");

        let rename = "/console/settings/name";
        let renamed = browser.submit_and_follow(&page, rename, &[("name", "Nord <i>")]).await;
        renamed.assert(200, "Your name is saved.").assert(200, "Nord <i>");
        let address = "/console/settings/email";
        let wrong = [("email", "new@example.com"), ("current_password", "no")];
        let refused = browser.submit(&page, address, &wrong).await;
        refused.assert(403, "This isn’t your password.");
        assert_eq!(refused.field(address, "email"), "new@example.com");
        assert_eq!(refused.field(address, "current_password"), "");
        let right = [("email", "new@example.com"), ("current_password", PASSWORD)];
        let asked = browser.submit_and_follow(&page, address, &right).await;
        asked.assert(200, "We’ve sent a link to new@example.com.");
        asked.assert(200, "Will be replaced by");
        let password = "/console/settings/password";
        let fields = [("old_password", PASSWORD), ("new_password", "another long password")];
        let changed = browser.submit_and_follow(&page, password, &fields).await;
        changed.assert(200, "Your password is changed.");
        assert_eq!(app.try_log_in(ADA, "another long password").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_browsers_are_signed_out_one_by_one_or_together() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(app.browser_of(&member).await);
        }
        let browser = app.browser_of(&member).await;
        let signed_in = async || {
            let mut count = 0;
            for other in &others {
                count += usize::from(other.open("/console").await.status() == 200);
            }
            count
        };
        let page = browser.open(PATH).await;
        page.assert(200, "This browser");

        let ends = page.html().split("action=\"").filter(|part| part.contains("/end\""));
        let end = ends.map(|part| part.split('"').next().unwrap()).next().unwrap().to_owned();
        browser.submit_and_follow(&page, &end, &[]).await.assert(200, "is signed out");
        assert_eq!(signed_in().await, 2);
        let ask = browser.open("/console/settings/sessions/end-others").await;
        ask.assert(200, "Sign out everywhere else?").assert(200, "Other browsers 2");
        let form = "/console/settings/sessions/end-others";
        browser.submit_and_follow(&ask, form, &[]).await.assert(200, "All other browsers");

        assert_eq!(signed_in().await, 0);
        assert_eq!(browser.open("/console").await.status(), 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emails_are_chosen_and_a_wrong_threshold_is_marked() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;
    let page = browser.open(PATH).await;
    let form = "/console/settings/notices";

    let kept = browser.submit_and_follow(&page, form, &[]).await;
    kept.assert(200, "Your choice of emails is saved.");
    let audit = browser.open("/console/audit?action=notices.").await;
    audit.assert(200, "Email settings changed").assert_not("low balance credits");
    let refused = browser.submit(&page, form, &[("low_balance_credits", "-1")]).await;
    refused.assert(422, "Check the fields marked below");
    let fields = [("exports", "on"), ("low_balance_credits", "250")];
    let token = page.field(form, "csrf");
    let sent = [("csrf", token.as_str()), fields[0], fields[1]];
    assert_eq!(browser.post(form, &sent).await.status(), 303);

    let notices = app.with_key(&member.customer.key).get("/v1/notices").await.json();
    assert_eq!((&notices["exports"], &notices["low_balance"]), (&json!(true), &json!(false)));
    assert_eq!(notices["low_balance_credits"], 250);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_see_a_customer_who_allows_it_and_the_customer_sees_that() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let staff = app.member("staff@example.com").await;
        app.staff(json!({
            "command": "grant_permission", "customer": staff.customer.id, "permission": "support.read",
        }))
        .await;
        let helper = app.browser_of(&staff).await;
        let look = format!("/console/support?customer={}", member.customer.id);

        browser.open("/console/support").await.assert(404, "There's nothing here");
        browser.open("/console").await.assert_not("Customers");
        helper.open("/console").await.assert(200, "Customers");
        helper.open("/console/support").await.assert(200, "support.read");
        assert_eq!(helper.open(&look).await.status(), 404);
        let page = browser.open(PATH).await;
        let form = "/console/settings/support";
        for hours in ["abc", ""] {
            let unclear = browser.submit_and_follow(&page, form, &[("hours", hours)]).await;
            unclear.assert(200, "Choose for how many hours");
            assert_eq!(helper.open(&look).await.status(), 404, "{hours:?}");
        }
        let on = browser.submit_and_follow(&page, form, &[("hours", "4")]).await;
        on.assert(200, "Staff can look at your calls").assert(200, "2026, 16:00 UTC");
        helper.open(&look).await.assert(200, "Calls per day of").assert(200, "No calls.");

        browser.open(PATH).await.assert(200, "Staff looked at calls");
        let log = browser.open("/console/audit").await;
        log.assert(200, "Staff looked at usage").assert(200, "Support access allowed");
        let some = browser.open("/console/audit?action=key.").await;
        some.assert(200, "Nothing here").assert_not("Support access allowed");
        browser.open("/console/audit?before=x").await.assert(422, "All entries are shown");
        let off = browser.submit_and_follow(&on, form, &[]).await;
        off.assert(200, "Support access has ended.");
        assert_eq!(helper.open(&look).await.status(), 404);
        app
    })
    .await;
}
