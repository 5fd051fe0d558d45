//! The audit log: everything that was done is in it, in words, page by page, and for its customer
//! alone.

use serde_json::json;
use test_service::with_app;

const AUDIT: &str = "/console/audit";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_the_log_are_turned_to_the_oldest_entry_and_back() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let client = app.with_key(&member.customer.key);
        for number in 0..53 {
            let name = format!("key number {number}.");
            let made = client.post("/v1/auth/keys", &json!({"name": name, "scope": "full"})).await;
            assert_eq!(made.status, 201, "{}", made.text());
            let id = made.json()["key_id"].as_str().unwrap().to_owned();
            assert_eq!(client.delete(&format!("/v1/auth/keys/{id}")).await.status, 204);
            app.advance_seconds(1);
        }
        let browser = app.browser_of(&member).await;

        let newest = browser.open(&format!("{AUDIT}?action=key.created")).await;
        let older = browser.open(&newest.link("Older")).await;
        let back = browser.open(&older.link("Newest")).await;

        newest.assert(200, "key number 52.").assert_not("key number 0.");
        older.assert(200, "key number 0.").assert_not("key number 52.");
        older.assert_not("Key revoked");
        assert!(!older.html().contains(">Older</a>"), "there is nothing older");
        assert_eq!(back.words(), newest.words());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_group_shows_its_own_entries_and_is_marked() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let client = app.with_key(&member.customer.key);
        client.post("/v1/auth/keys", &json!({"name": "night", "scope": "read_only"})).await;
        assert_eq!(app.import(&client, "platform_alpha", "ada").await, "active");
        client.json("PATCH", "/v1/notices", &json!({"exports": true})).await;
        client.post("/v1/support-access", &json!({"enabled": true})).await;
        let browser = app.browser_of(&member).await;

        let all = browser.open(AUDIT).await;
        for words in
            ["Key created", "Account connected", "Email settings changed", "Support access allowed"]
        {
            all.assert(200, words);
        }
        for (word, shown, hidden) in [
            ("Keys", "Key created", "Account connected"),
            ("Accounts", "Account connected", "Key created"),
            ("Support", "Support access allowed", "Key created"),
            ("Password", "Nothing here", "Key created"),
        ] {
            let page = browser.open(&all.link(word)).await;

            page.assert(200, shown).assert_not(hidden);
            assert!(page.html().contains("aria-current=\"true\""), "{word}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_another_customer_are_not_there_even_by_their_ids() {
    with_app(async |app| {
        let (ada, eve) = (app.member("ada@example.com").await, app.member("eve@example.com").await);
        let client = app.with_key(&ada.customer.key);
        client.post("/v1/auth/keys", &json!({"name": "amber", "scope": "full"})).await;
        let entries = client.get("/v1/audit").await.json();
        let id = entries["entries"][0]["entry_id"].as_str().unwrap();
        let other = app.browser_of(&eve).await;

        let list = other.open(AUDIT).await;
        let after = other.open(&format!("{AUDIT}?before={id}")).await;

        list.assert_not("amber");
        assert_eq!(after.status(), 200, "{}", after.words());
        after.assert_not("amber");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_did_is_in_words_and_without_the_operators_name() {
    with_app(async |app| {
        use secrecy::ExposeSecret as _;
        let member = app.member("ada@example.com").await;
        let token = app.running().admin_token().expose_secret().to_owned();
        let admin = app.admin().bearer(&token).with("x-operator", "grace");
        for command in [
            json!({"command": "show_customer", "customer": member.customer.id}),
            json!({"command": "find_customers", "text": "ada@example.com"}),
            json!({"command": "erase_customer", "customer": member.customer.id, "dry_run": true}),
        ] {
            let done = admin.post("/commands/operator", &command).await;
            assert_eq!(done.status, 200, "{}", done.text());
        }
        let browser = app.browser_of(&member).await;

        let page = browser.open(&format!("{AUDIT}?action=operator.")).await;

        page.assert(200, "Customer looked at").assert(200, "Customer found in a search");
        page.assert(200, "Change previewed").assert(200, "The operator").assert_not("grace");
        app
    })
    .await;
}
