//! A built-in platform that gets another name after accounts were connected, and its own name back:
//! everything that was stored, sealed or sold under one name works under the other.

use domain::account::CreatorId;
use domain::id::DataKeyId;
use runtime::clock::{Clock, Random};
use runtime::sealing::{Keyring, MasterKey};
use runtime::vault::Vault;
use serde_json::{Value, json};
use store::account_cookies::{self, CookieUpdate};
use store::accounts::Account;
use test_service::exports::{created, ten};
use test_service::platform::{RawPlatform, Script, Seen, answer, json_answer};
use test_service::renamed::{names_back, renamed};
use test_service::stage::{Stage, auth};
use test_service::subscriber::{GOOD_CARD, OFFER, PLAN, slots_on};

const NAME: &str = "acmefans";
const OWN: &str = "platform_alpha";
const MASTER_KEY: &str = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const KEEPING: &str = "
    [platforms.platform_alpha]
    cookies = true
    headers = [
        { name = \"Authorization\", value = \"Session {session_token}\" },
        { name = \"X-User-Id\", value = \"{user_id}\" },
    ]";

/// Confirms every account, has one subscriber, and sets the cookies that a body names.
fn played(request: &Seen, _: usize) -> Script {
    let cookie = |value: &str| format!("content-type: application/json\r\nset-cookie: {value}\r\n");
    if request.is_verification() {
        return Script::Answer(answer(200, &cookie("device=1; Path=/"), r#"{"id":"31"}"#));
    }
    if request.target().contains("subscribers") {
        let list = r#"{"list":[{"id":1,"username":"fan"}],"hasMore":false}"#;
        return Script::Answer(json_answer(200, list));
    }
    let told: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    Script::Answer(match told["set"].as_str() {
        Some(value) => answer(200, &cookie(value), "{}"),
        None => json_answer(200, "{}"),
    })
}

async fn stage(overrides: &str) -> Stage {
    let database = store::testing::store().await;
    let raw = RawPlatform::deciding(played).await;
    Stage::set(database, OWN, raw, &format!("{KEEPING}{overrides}")).await
}

/// Restarts the service with the platform under its other name.
async fn rename(stage: &mut Stage) {
    stage.restart_with(|config| *config = renamed(config, OWN, NAME)).await;
}

/// Restarts the service with the platform under its own name.
async fn rename_back(stage: &mut Stage) {
    names_back();
    stage.restart_with(|_| ()).await;
}

/// Sets a cookie, as the platform does, and has it stored.
async fn set(stage: &Stage, cookie: &str) {
    let reply = stage.post("cookies/set", &json!({"set": cookie})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    stage.app.running().store_cookies().await;
}

/// A call, the cookies that it sends, and an export.
async fn works(stage: &Stage, cookies: &str) {
    let called = stage.get("users/me").await;
    assert_eq!(called.status, 200, "{}", called.text());
    assert_eq!(stage.platform.last_call().header("cookie"), Some(cookies));
    let id = created(&stage.client, &stage.account, &ten("csv")).await;
    stage.app.run_exports().await;
    let export = stage.client.get(&format!("/v1/exports/{id}")).await.json();
    assert_eq!(export["status"], "completed", "{export}");
}

/// The page on which a plan with one slot on the platform is bought. The platform has its own name
/// in bodies, which stays accepted: a process reads the fields of bodies once.
async fn page(stage: &Stage) -> Value {
    let choice = json!({"plan_id": PLAN, "slots": {OWN: 1, "platform_beta": 1}});
    let page = stage.client.post("/v1/billing/subscribe", &choice).await;
    assert_eq!(page.status, 200, "{}", page.text());
    page.json()["url"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_cookies_and_slots_outlive_a_new_name_and_the_old_one_again() {
    let mut stage = stage(OFFER).await;
    set(&stage, "sid=1; Path=/").await;
    works(&stage, "device=1; sid=1").await;
    let opened = page(&stage).await;

    rename(&mut stage).await;

    let accounts = stage.client.get("/v1/accounts").await.json();
    assert_eq!(accounts["accounts"][0]["platform"], NAME, "{accounts}");
    works(&stage, "device=1; sid=1").await;
    set(&stage, "sid=2; Path=/").await;
    assert_eq!(page(&stage).await, opened);
    let choice = json!({"plan_id": PLAN, "slots": {OWN: 1}});
    let (customer, buyer) = stage.app.subscriber_of(choice, GOOD_CARD).await;
    let slots = buyer.get("/v1/billing/slots").await.json();
    assert_eq!(slots_on(&slots, NAME)["count"], 1, "{slots}");
    let invoices = buyer.get("/v1/billing/invoices").await.json();
    let lines = invoices["invoices"][0]["lines"].clone();
    assert!(lines.to_string().contains(NAME), "{lines}");
    let prices = stage.app.at_processor("GET", "prices?limit=100", "").await;
    let sold = |price: &Value| price["metadata"]["slot_platform"].clone();
    let sold: Vec<Value> = prices["data"].as_array().unwrap().iter().map(sold).collect();
    assert!(sold.contains(&json!(OWN)) && !sold.contains(&json!(NAME)), "{prices}");

    rename_back(&mut stage).await;

    works(&stage, "device=1; sid=2").await;
    assert_eq!(page(&stage).await, opened);
    let again = stage.app.with_key(&customer.key);
    let kept = again.get("/v1/billing/slots").await.json();
    assert_eq!(slots_on(&kept, OWN)["count"], 1, "{kept}");
    let changed = again.post("/v1/billing/slots", &json!({"platform": OWN, "count": 2})).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    stage.app.end().await;
}

/// The text that earlier versions bound to what they sealed.
fn earlier_place(account: &Account, what: &str) -> String {
    format!("v1|{}|{NAME}|{}|{what}", account.customer, account.creator_id.as_str())
}

/// The account as it is stored, and the vault that opens it.
async fn stored(stage: &Stage) -> (Account, Vault) {
    let store = stage.app.store();
    let keyring = Keyring::new(vec![MasterKey::parse(MASTER_KEY).unwrap()]).unwrap();
    let vault = Vault::open(store.clone(), keyring, Random::seeded(5), Clock::system()).await;
    let creator: CreatorId = stage.account.parse().unwrap();
    let customer = stage.customer.id.parse().unwrap();
    let account = store::accounts::find(store, customer, &creator).await.unwrap();
    (account.unwrap(), vault.unwrap())
}

/// Seals what is stored as earlier versions did while the platform had its other name.
async fn seal_as_earlier(stage: &Stage) {
    let (account, vault) = stored(stage).await;
    let owner = (account.customer, account.platform, &account.creator_id);
    let (now, then) =
        (accounts::sealed_credentials::place(owner), earlier_place(&account, "credentials"));
    let sealed = (&*account.credentials.sealed, account.credentials.data_key);
    let sealed = sealed_again(&vault, sealed, [&now, &then]).await;
    assert!(store::accounts::reseal(stage.app.store(), &account, &sealed).await.unwrap());

    let known = account_cookies::find(stage.app.store(), owner.0, owner.2).await;
    let known = known.unwrap().unwrap();
    let jar = known.jar.id;
    let (now_there, then_there) = (
        accounts::sealed_credentials::cookie_place(owner, jar),
        earlier_place(&account, &format!("cookies|{jar}")),
    );
    let cookies = (&*known.sealed, known.data_key);
    let cookies = sealed_again(&vault, cookies, [&now_there, &then_there]).await;
    store_cookies(stage, &account, cookies).await;
}

/// What was sealed for the first place, sealed for the second.
async fn sealed_again(
    vault: &Vault,
    (sealed, data_key): (&[u8], DataKeyId),
    [from, to]: [&str; 2],
) -> Vec<u8> {
    let key = vault.find(data_key).await.unwrap();
    key.seal(&key.open(sealed, from).unwrap(), to, &Random::seeded(6)).unwrap()
}

/// Stores these sealed cookies in the place of those that are there.
async fn store_cookies(stage: &Stage, account: &Account, sealed: Vec<u8>) {
    let (store, creator) = (stage.app.store(), account.creator_id.clone());
    let known = account_cookies::find(store, account.customer, &creator).await.unwrap().unwrap();
    let (jar, data_key) = (known.jar, known.data_key);
    let customer = account.customer;
    let update = CookieUpdate { customer, creator, jar, sealed, data_key, is_news: false };
    let stored = account_cookies::update_all(store, &[update], account.connected_at).await;
    assert_eq!(stored.unwrap(), [true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_version_sealed_under_the_new_name_opens_and_is_sealed_again() {
    let mut stage = stage(&format!("\n[secrets]\nmaster_keys = [{MASTER_KEY:?}]")).await;
    set(&stage, "sid=1; Path=/").await;
    rename(&mut stage).await;
    seal_as_earlier(&stage).await;
    let sealed = stored(&stage).await.0.credentials.sealed;

    rename(&mut stage).await;

    works(&stage, "device=1; sid=1").await;
    assert_ne!(stored(&stage).await.0.credentials.sealed, sealed);
    rename_back(&mut stage).await;
    works(&stage, "device=1; sid=1").await;
    stage.app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_whose_cookies_do_not_open_must_be_connected_again() {
    let mut stage = stage(&format!("\n[secrets]\nmaster_keys = [{MASTER_KEY:?}]")).await;
    let (account, _) = stored(&stage).await;
    store_cookies(&stage, &account, vec![1; 64]).await;
    stage.restart_with(|_| ()).await;

    let refused = stage.get("users/me").await;

    assert_eq!((refused.status, refused.code().as_str()), (409, "credential_error"));
    assert_eq!(stage.import(OWN, auth(OWN)).await.status, 200);
    works(&stage, "device=1").await;
    stage.app.end().await;
}
