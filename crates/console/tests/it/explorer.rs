//! The route explorer: calls sent from a page cost what they cost, once, and stay in their account.
#![expect(clippy::indexing_slicing, reason = "an unexpected value must fail the test")]

use serde_json::{Value, json};
use test_service::member::Member;
use test_service::{Browser, Page};
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const EXPLORER: &str = "/console/explorer";

struct Desk {
    app: TestApp,
    member: Member,
    browser: Browser,
    account: String,
}

impl Desk {
    async fn new(app: TestApp, platform: &str) -> Self {
        let member = app.member(ADA).await;
        app.grant(&member.customer, 100).await;
        let account = app.connect(&member.customer, platform).await;
        let browser = app.browser_of(&member).await;
        Self { app, member, browser, account }
    }

    async fn route(&self, name: &str) -> Page {
        let name = name.replace(' ', "+").replace('{', "%7B").replace('}', "%7D");
        let page = format!("{EXPLORER}?account={}&route={name}", self.account);
        self.browser.open(&page).await
    }

    async fn balance(&self) -> i64 {
        let client = self.app.with_key(&self.member.customer.key);
        self.app.settled(&client).await;
        client.get("/v1/billing").await.json()["balance"].as_i64().unwrap_or_default()
    }

    /// The native calls that the platform has seen: method and path.
    async fn seen(&self, platform: &str) -> Vec<String> {
        let seen = self.app.seen(platform).await;
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        seen.iter().map(|one| format!("{} {}", text(one, "method"), text(one, "path"))).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_sent_with_the_chosen_key_and_its_receipt_is_shown() {
    with_app(async |app| {
        let desk = Desk::new(app, "platform_alpha").await;
        let page = desk.route("GET users/me").await;
        page.assert(200, "Send for 1 credit").assert(200, "Reads only.");
        assert_eq!(desk.balance().await, 100);

        let sent = desk.browser.submit(&page, EXPLORER, &[("query", "a=b c")]).await;

        sent.assert(200, "Response 200").assert(200, "Charged 1 credit");
        sent.assert(200, "Balance after 99").assert(200, "Route GET users/me");
        sent.assert(200, "\"username\": \"");
        sent.assert(200, &format!("/v1/{}/native/users/me?a=b%20c", desk.account));
        assert!(!sent.html().contains(&desk.member.customer.key), "a real key is in an example");
        assert!(sent.html().contains("X-API-Key: $CGW_KEY"));
        assert_eq!(desk.balance().await, 99);
        desk.app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_needs_its_box_ticked_and_is_sent_once() {
    with_app(async |app| {
        let desk = Desk::new(app, "platform_alpha").await;
        let page = desk.route("POST chats/mark-as-read").await;
        page.assert(200, "This changes data on platform_alpha.");
        let before = desk.seen("platform_alpha").await.len();
        let body = ("body", "{\"text\": \"hello\"}");

        let unticked = desk.browser.submit(&page, EXPLORER, &[body]).await;
        let broken = [("body", "{text}"), ("agree", "yes")];
        let broken = desk.browser.submit(&page, EXPLORER, &broken).await;
        unticked.assert(422, "Tick the box to send a call that changes data.");
        assert_eq!(unticked.field(EXPLORER, "body"), body.1);
        broken.assert(422, "This isn't JSON");
        assert_eq!(desk.seen("platform_alpha").await.len(), before);

        let ticked = [body, ("agree", "yes")];
        let sent = desk.browser.submit(&page, EXPLORER, &ticked).await;
        let again = desk.browser.submit(&page, EXPLORER, &ticked).await;

        sent.assert(200, "Charged").assert_not("Not charged");
        again.assert(200, "Not charged");
        assert_eq!(desk.seen("platform_alpha").await.len(), before + 1);
        assert!(!again.fields(EXPLORER).iter().any(|(name, _)| name == "agree"));
        desk.app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_typed_leads_out_of_the_route() {
    let desk = Desk::new(TestApp::on_sqlite("").await, "platform_alpha").await;
    let page = desk.route("GET chats/{chat_id}/messages").await;
    page.assert(200, "chat_id");
    let before = desk.seen("platform_alpha").await.len();

    for value in ["", " ", "..", "."] {
        let refused = desk.browser.submit(&page, EXPLORER, &[("path.chat_id", value)]).await;
        assert_eq!(refused.status(), 422, "{value:?}: {}", refused.words());
    }
    for value in ["../../users/me", "7/../../../../v1/auth/keys", "7?x=y#z", "%2e%2e", "a\r\nb"] {
        let sent = desk.browser.submit(&page, EXPLORER, &[("path.chat_id", value)]).await;
        assert!(matches!(sent.status(), 200 | 422), "{value:?}: {}", sent.words());
    }
    for account in ["..", "x/../y", "%2e%2e", "nobody"] {
        let fields = [("account", account), ("path.chat_id", "7")];
        let sent = desk.browser.submit(&page, EXPLORER, &fields).await;
        sent.assert(200, "Not charged");
    }

    for seen in desk.seen("platform_alpha").await.into_iter().skip(before) {
        assert!(seen.contains("/chats/") && seen.ends_with("/messages"), "{seen}");
        assert!(!seen.contains("/../"), "{seen}");
    }
    desk.app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_keys_that_may_pay_are_offered_and_the_limits_of_others_apply() {
    let desk = Desk::new(TestApp::on_sqlite("").await, "platform_alpha").await;
    let other = desk.app.connect(&desk.member.customer, "platform_beta").await;
    let client = desk.app.with_key(&desk.member.customer.key);
    let make = async |new: Value| {
        let made = client.post("/v1/auth/keys", &new).await.json();
        made["key_id"].as_str().unwrap_or_default().to_owned()
    };
    let reader = make(json!({"name": "reader", "scope": "read_only"})).await;
    let limited = make(json!({"name": "elsewhere", "scope": "full", "accounts": [other]})).await;
    let poor = make(json!({"name": "poor", "scope": "full", "monthly_budget_credits": 0})).await;
    let foreign = desk.app.customer(10).await;

    let read = desk.route("GET users/me").await;
    let write = desk.route("POST chats/mark-as-read").await;

    assert!(read.html().contains(&reader) && !write.html().contains(&reader));
    assert!(!read.html().contains(&limited) && !write.html().contains(&limited));
    let pay = async |page: &Page, key: &str| {
        let fields = [("key_id", key), ("agree", "yes")];
        desk.browser.submit(page, EXPLORER, &fields).await
    };
    pay(&write, &reader).await.assert(200, "read_only_key").assert(200, "Not charged");
    pay(&read, &limited).await.assert(200, "account_not_found").assert(200, "Not charged");
    pay(&read, &poor).await.assert(200, "Response 402").assert(200, "Not charged");
    pay(&read, &foreign.key_id).await.assert(422, "Choose one of your keys.");
    pay(&read, "").await.assert(422, "Choose the key that pays.");
    assert_eq!(desk.balance().await, 100);
    desk.app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_routes_of_every_platform_are_listed_in_pages_and_found_by_text() {
    let desk = Desk::new(TestApp::on_sqlite("").await, "platform_alpha").await;
    for platform in ["platform_beta", "platform_gamma", "platform_delta"] {
        desk.app.connect(&desk.member.customer, platform).await;
    }
    let accounts = desk.app.with_key(&desk.member.customer.key).get("/v1/accounts").await.json();
    for account in accounts["accounts"].as_array().cloned().unwrap_or_default() {
        let name = account["creator_id"].as_str().unwrap_or_default();
        let page = desk.browser.open(&format!("{EXPLORER}?account={name}")).await;
        page.assert(200, "The same call as code");
        let found = desk.browser.open(&format!("{EXPLORER}?account={name}&q=zzz-nothing")).await;
        found.assert(200, "matches this search").assert(200, "No route");
    }
    let gamma = accounts["accounts"].as_array().cloned().unwrap_or_default();
    let gamma = gamma.iter().find(|one| one["platform"] == "platform_gamma").cloned();
    let gamma = gamma.unwrap_or_default()["creator_id"].as_str().unwrap_or_default().to_owned();
    let upload = format!("{EXPLORER}?account={gamma}&route=POST+media/upload");
    let upload = desk.browser.open(&upload).await;
    upload.assert(200, "use a program").assert(200, "-F file=@");
    upload.assert_not("Send for");
    let odd = "q=%3Cscript%3Ealert(1)&route=GET+%3Cscript%3E&before=nothing";
    let page = desk.browser.open(&format!("{EXPLORER}?account={}&{odd}", desk.account)).await;
    assert!(!page.html().contains("<script>alert"), "{}", page.html());
    page.assert(200, "has no route");
    desk.app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_account_the_explorer_leads_to_connecting_one() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;

    browser.open(EXPLORER).await.assert(200, "Connect an account first");
    app.end().await;
}
