//! Automatic charges for which the bank requires authentication: confirmed on the page that the
//! email links to, or through the API.

use serde_json::{Value, json};
use test_service::log::{catch, everything};
use test_service::processor::{PACK_CREDITS, balance};
use test_service::subscriber::GOOD_CARD;
use test_service::{Client, Reply, TestApp, with_app};

/// A card that always requires authentication.
const CAREFUL_CARD: &str = "4000002760003184";
const EMAIL: &str = "customer0@example.com";
const WEEK_S: i64 = 7 * 86_400;

/// Runs automatic top-up until nothing is in progress.
async fn settled(app: &TestApp, client: &Client) -> Value {
    for _ in 0..1_000 {
        let charged = app.running().look_after_top_ups().await;
        let now = client.get("/v1/billing/autotopup").await.json();
        if charged == 0 && now["pending"]["state"] != "claimed" {
            return now;
        }
    }
    panic!("the top-up never ended");
}

async fn turn_on(client: &Client) {
    let wish = json!({
        "enabled": true, "threshold_credits": PACK_CREDITS + 1, "pack_id": "pack_10", "daily_cap_usd": 100,
    });
    let on = client.post("/v1/billing/autotopup", &wish).await;
    assert_eq!(on.status, 200, "{}", on.text());
}

/// A customer with an automatic charge that requires authentication, and that charge.
async fn waiting(app: &TestApp) -> (Client, Value) {
    let (_, client) = app.with_card(CAREFUL_CARD).await;
    turn_on(&client).await;
    let pending = settled(app, &client).await["pending"].clone();
    assert_eq!(pending["requires_action"], true, "{pending}");
    (client, pending)
}

/// What the processor's script does in the customer's browser, and whether the customer then passes
/// the bank's check.
async fn browser_confirms(app: &TestApp, pending: &Value, proven: bool) {
    let (intent, card) = (text(pending, "pi_id"), text(pending, "payment_method_id"));
    let path = format!("payment_intents/{intent}/confirm");
    let confirmed = app.at_processor("POST", &path, &format!("payment_method={card}")).await;
    assert_eq!(confirmed["status"], "requires_action", "{confirmed}");
    app.authenticate(intent, proven).await;
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is missing in {value}"))
}

async fn confirm(client: &Client, pending: &Value) -> Reply {
    client.post("/v1/billing/confirm-charge", &json!({"pi_id": pending["pi_id"]})).await
}

/// The path of the link in the newest email.
async fn mailed_page(app: &TestApp) -> String {
    let mails = app.mails_to(EMAIL).await;
    let link = mails.last().unwrap()["links"][0].as_str().unwrap();
    let (_, page) = link.split_once("/console/").unwrap();
    format!("/console/{page}")
}

async fn submit(app: &TestApp, page: &str) -> Reply {
    let token = page.split_once("token=").unwrap().1;
    let browser = app.anonymous().with("sec-fetch-site", "same-origin");
    let browser = browser.with("content-type", "application/x-www-form-urlencoded");
    browser.send("POST", "/console/pay", Some(format!("token={token}").into_bytes())).await
}

#[track_caller]
fn assert_page(reply: &Reply, status: u16, says: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert!(reply.text().contains(says), "{says:?} is not in {}", reply.text());
    assert_eq!(reply.header("cache-control"), "private, no-store");
    let policy = reply.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pending_charge_has_all_that_a_browser_needs_until_it_is_paid() {
    with_app(async |app| {
        let (client, pending) = waiting(&app).await;
        let card = client.get("/v1/billing/card").await.json();
        let known = ["client_secret", "payment_method_id", "publishable_key", "js_url", "pi_id"];
        for field in known.iter().chain(&["order_id", "expires_at"]) {
            assert!(pending[*field].is_string(), "{field} in {pending}");
        }
        assert_eq!(pending["publishable_key"], card["publishable_key"]);
        assert_eq!(pending["js_url"], card["js_url"]);

        let open = confirm(&client, &pending).await;
        assert_eq!(open.status, 200, "{}", open.text());
        let open = open.json();
        assert_eq!(
            (&open["status"], &open["requires_action"]),
            (&json!("requires_action"), &json!(true))
        );
        for field in known.iter().chain(&["order_id", "expires_at"]) {
            assert_eq!(open[*field], pending[*field], "{field}");
        }
        assert_eq!(balance(&client).await, PACK_CREDITS);

        browser_confirms(&app, &open, true).await;
        let paid = confirm(&client, &pending).await.json();

        assert_eq!((&paid["status"], &paid["balance"]), (&json!("paid"), &json!(2 * PACK_CREDITS)));
        app.deliver().await;
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        assert_eq!(client.get("/v1/billing/autotopup").await.json()["pending"], Value::Null);
        app.run_jobs().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_click_charge_that_requires_authentication_has_the_same_members() {
    with_app(async |app| {
        let (_, client) = app.with_card(CAREFUL_CARD).await;

        let asked = client.post("/v1/billing/charge", &json!({"pack_id": "pack_10"})).await.json();
        let open = confirm(&client, &asked).await.json();

        assert_eq!(asked["status"], "requires_action", "{asked}");
        assert!(asked["payment_method_id"].is_string() && asked["expires_at"].is_string());
        assert_eq!(open, asked);
        browser_confirms(&app, &asked, false).await;
        let declined = confirm(&client, &asked).await;
        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()));
        assert_eq!(declined.json()["decline_code"], "payment_intent_authentication_failure");
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emailed_page_confirms_the_payment() {
    with_app(async |app| {
        let (client, pending) = waiting(&app).await;
        let page = mailed_page(&app).await;

        for _ in 0..3 {
            let shown = app.anonymous().get(&page).await;
            assert_page(
                &shown,
                200,
                "<dt>You buy</dt><dd>5,000 credits</dd><dt>Amount</dt><dd>10.00 USD</dd>",
            );
            let html = shown.text();
            for field in ["client_secret", "payment_method_id", "publishable_key", "js_url"] {
                assert!(html.contains(text(&pending, field)), "{field} is not in {html}");
            }
            assert!(html.contains("visa ending in 3184") && html.contains("<noscript>"), "{html}");
            assert!(!html.contains(EMAIL) && !html.contains("style=\""), "{html}");
        }
        let early = submit(&app, &page).await;
        assert_page(&early, 200, "is not confirmed yet");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        browser_confirms(&app, &pending, true).await;
        for _ in 0..2 {
            assert_page(&submit(&app, &page).await, 200, "5,000 credits were added");
        }

        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        assert_page(&app.anonymous().get(&page).await, 200, "5,000 credits were added");
        app.deliver().await;
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_allows_only_its_own_scripts_and_the_processors() {
    let app = TestApp::on_sqlite("").await;
    let (_, pending) = waiting(&app).await;

    let shown = app.anonymous().get(&mailed_page(&app).await).await;

    let js = text(&pending, "js_url");
    let origin = js.trim_end_matches("/processor/js");
    assert_eq!(
        shown.header("content-security-policy"),
        format!(
            "default-src 'none'; style-src 'self'; script-src 'self' {origin}; img-src 'self'; \
             connect-src 'self' {origin}; form-action 'self' {origin}; object-src 'none'; \
             base-uri 'none'; frame-ancestors 'none'; frame-src {origin}"
        )
    );
    assert_eq!(shown.header("referrer-policy"), "same-origin");
    let text_of_page = shown.text();
    assert_eq!(text_of_page.matches("<script ").count(), 1, "only ours is loaded at first");
    assert!(text_of_page.contains(&format!("data-js-url=\"{js}\"")), "{text_of_page}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_fails_at_the_bank_is_cancelled_and_cannot_be_paid_later() {
    with_app(async |app| {
        let (client, pending) = waiting(&app).await;
        let page = mailed_page(&app).await;
        browser_confirms(&app, &pending, false).await;

        let declined = submit(&app, &page).await;

        assert_page(&declined, 402, "was not confirmed with the bank");
        let again = confirm(&client, &pending).await;
        assert_eq!(again.failure(), (402, "payment_failed".to_owned()));
        let path = format!("payment_intents/{}", text(&pending, "pi_id"));
        assert_eq!(app.at_processor("GET", &path, "").await["status"], "canceled");
        assert_page(&app.anonymous().get(&page).await, 410, "no longer waiting");
        app.deliver().await;
        let shown = settled(&app, &client).await;
        assert_eq!((&shown["pending"], &shown["enabled"]), (&Value::Null, &json!(true)));
        // An hour later the top-up is tried again, and another email is sent.
        app.advance_seconds(3_601);
        let next = settled(&app, &client).await["pending"].clone();
        assert_ne!(next["order_id"], pending["order_id"], "{next}");
        assert_ne!(mailed_page(&app).await, page);
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decline_after_the_authentication_has_the_banks_reason() {
    with_app(async |app| {
        let (client, pending) = waiting(&app).await;
        let (intent, card) = (text(&pending, "pi_id"), text(&pending, "payment_method_id"));
        let path = format!("payment_intents/{intent}/confirm");
        app.at_processor("POST", &path, &format!("payment_method={card}")).await;
        app.decline_next("insufficient_funds").await;
        let world = Client::new(app.world.address());
        let proof = format!("/control/processor/intents/{intent}/authenticate");
        assert_eq!(world.post(&proof, &json!({"proven": true})).await.status, 402);
        let declined = confirm(&client, &pending).await;

        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()));
        assert_eq!(declined.json()["decline_code"], "insufficient_funds");
        app.deliver().await;
        app.run_jobs().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconfirmed_charge_is_cancelled_after_a_week_and_the_third_turns_top_up_off() {
    with_app(async |app| {
        let (client, first) = waiting(&app).await;
        let page = mailed_page(&app).await;
        app.advance_seconds(WEEK_S - 60);
        assert_eq!(settled(&app, &client).await["pending"]["order_id"], first["order_id"]);
        assert_eq!(app.anonymous().get(&page).await.status, 200);

        app.advance_seconds(120);
        let over = settled(&app, &client).await;

        assert_eq!((&over["pending"], &over["enabled"]), (&Value::Null, &json!(true)));
        let path = format!("payment_intents/{}", text(&first, "pi_id"));
        assert_eq!(app.at_processor("GET", &path, "").await["status"], "canceled");
        assert_page(&app.anonymous().get(&page).await, 410, "expired");
        assert_eq!(confirm(&client, &first).await.status, 402);
        let orders = client.get("/v1/billing/orders").await.json();
        assert_eq!(orders["orders"][0]["failure"], "not_confirmed", "{orders}");
        for _ in 0..2 {
            app.advance_seconds(6 * 3_600 + 1);
            assert_eq!(settled(&app, &client).await["pending"]["requires_action"], true);
            app.advance_seconds(WEEK_S + 1);
            settled(&app, &client).await;
        }
        let off = client.get("/v1/billing/autotopup").await.json();
        assert_eq!((&off["enabled"], &off["stopped_reason"]), (&json!(false), &json!("declined")));
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app.run_jobs().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_opens_only_its_own_payment_and_only_unchanged() {
    with_app(async |app| {
        let (_, pending) = waiting(&app).await;
        let page = mailed_page(&app).await;
        let token = page.split_once("token=").unwrap().1;
        let [order, ends, signature]: [&str; 3] =
            token.split('.').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(order, text(&pending, "order_id"));
        let later = ends.parse::<i64>().unwrap() + 1;
        let other = format!(
            "{}{}",
            &order[..order.len() - 1],
            if order.ends_with('1') { '2' } else { '1' }
        );

        for wrong in [
            String::new(),
            "x".to_owned(),
            format!(
                "{order}.{ends}.{}",
                signature.replace(|digit: char| digit.is_ascii_digit(), "0")
            ),
            format!("{order}.{later}.{signature}"),
            format!("{other}.{ends}.{signature}"),
            format!("{order}.{ends}."),
            format!("{order}.{signature}"),
        ] {
            let path = format!("/console/pay?token={wrong}");
            assert_page(&app.anonymous().get(&path).await, 404, "is not known");
            assert_page(&submit(&app, &path).await, 404, "is not known");
        }
        // A form is accepted only from one of our pages.
        let form = "application/x-www-form-urlencoded";
        let foreign =
            app.anonymous().with("content-type", form).with("sec-fetch-site", "cross-site");
        let body = format!("token={token}").into_bytes();
        let reply = foreign.send("POST", "/console/pay", Some(body)).await;
        assert_eq!(reply.failure(), (403, "cross_site_request".to_owned()));
        assert_page(&app.anonymous().get(&page).await, 200, "Confirm with my bank");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_card_is_used_from_the_next_charge_on() {
    with_app(async |app| {
        let (client, pending) = waiting(&app).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, GOOD_CARD).await;
        client.post("/v1/billing/sync-card", &json!({"session_id": begun.session})).await;

        // The pending charge belongs to the card that it was made with.
        let shown = app.anonymous().get(&mailed_page(&app).await).await;

        assert!(!shown.text().contains("ending in"), "{}", shown.text());
        assert!(shown.text().contains(text(&pending, "payment_method_id")), "{}", shown.text());
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_secret_of_a_payment_is_neither_stored_nor_logged() {
    catch();
    let app = TestApp::on_sqlite("").await;
    let (client, pending) = waiting(&app).await;
    let secret = text(&pending, "client_secret").to_owned();
    let page = mailed_page(&app).await;
    assert!(app.anonymous().get(&page).await.text().contains(&secret));
    submit(&app, &page).await;
    confirm(&client, &pending).await;
    browser_confirms(&app, &pending, true).await;
    confirm(&client, &pending).await;
    app.deliver().await;

    let path = app.database_url().strip_prefix("sqlite:").unwrap();
    for file in ["", "-wal"] {
        let bytes = std::fs::read(format!("{path}{file}")).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "the secret must not be in the database{file}");
        let order = text(&pending, "order_id").as_bytes();
        let known = file.is_empty() || bytes.windows(order.len()).any(|part| part == order);
        assert!(known, "the searched files must contain the payment");
    }
    let log = everything();
    assert!(!log.contains(&secret) && !log.contains(page.split_once("token=").unwrap().1));
    assert!(log.contains(text(&pending, "order_id")), "{log}");
    app.end().await;
}
