//! The archive of everything that is stored about a customer: whole, of that customer alone, and
//! only for those who may look.

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::{Value, json};
use test_service::processor::PACK;
use test_service::subscriber::GOOD_CARD;
use test_service::{Client, Reply, TestApp, with_app};

use super::{audited, grace};

const EXPORT: &str = "/commands/operator/export";
/// The head of an entry in the directory of an archive, without its name.
const ENTRY_BYTES: usize = 46;

async fn export(app: &TestApp, customer: &str) -> Reply {
    grace(app).post(EXPORT, &json!({"customer": customer})).await
}

fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// A number of an entry: its own field, or, where that is full, the next one of its ZIP64 part.
fn large(entry: &[u8], at: usize, wide: &mut usize) -> usize {
    let own = number(entry, at, 4);
    if own != 0xffff_ffff {
        return own;
    }
    *wide += 8;
    number(entry, *wide - 8, 8)
}

/// The files of an archive (PKWARE's APPNOTE, sections 4.3.7, 4.3.12, 4.3.16 and 4.5.3), found by
/// its directory.
fn files(archive: &[u8]) -> BTreeMap<String, String> {
    let end = archive.len() - 22;
    assert_eq!(&archive[end..end + 4], b"PK\x05\x06", "the archive is whole");
    let (count, mut place) = (number(archive, end + 10, 2), number(archive, end + 16, 4));
    let mut files = BTreeMap::new();
    for _ in 0..count {
        let entry = &archive[place..];
        let (name, extra, comment) =
            (number(entry, 28, 2), number(entry, 30, 2), number(entry, 32, 2));
        let mut wide = ENTRY_BYTES + name + 4;
        let whole = large(entry, 24, &mut wide);
        let packed = large(entry, 20, &mut wide);
        let head = large(entry, 42, &mut wide);
        let title = String::from_utf8(entry[ENTRY_BYTES..ENTRY_BYTES + name].to_vec()).unwrap();
        let start = head + 30 + number(archive, head + 26, 2) + number(archive, head + 28, 2);
        let packed = &archive[start..start + packed];
        let mut text = String::new();
        if number(entry, 10, 2) == 0 {
            text.push_str(std::str::from_utf8(packed).unwrap());
        } else {
            flate2::read::DeflateDecoder::new(packed).read_to_string(&mut text).unwrap();
        }
        assert_eq!(text.len(), whole, "{title}");
        files.insert(title, text);
        place += ENTRY_BYTES + name + extra + comment;
    }
    files
}

/// A customer that did a bit of everything.
async fn busy(app: &TestApp, email: &str, tag: &str) -> (String, Client) {
    let member = app.member(email).await;
    let client = app.with_key(&member.customer.key);
    let begun = app.begin_checkout(&client).await;
    app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    assert_eq!(app.import(&client, "platform_alpha", &format!("{tag}-account")).await, "active");
    for _ in 0..3 {
        let path = format!("/v1/{tag}-account/native/users/me");
        assert_eq!(client.with("x-tag", tag).get(&path).await.status, 200);
    }
    app.settled(&client).await;
    (member.customer.id, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_has_everything_of_its_customer_and_nothing_of_another() {
    with_app(async |app| {
        let (ada, _) = busy(&app, "ada@example.com", "amber").await;
        let (eve, _) = busy(&app, "eve@example.com", "birch").await;

        let of_ada = files(&export(&app, &ada).await.body);
        let of_eve = files(&export(&app, "eve@example.com").await.body);

        assert_eq!(of_ada.keys().collect::<Vec<_>>(), of_eve.keys().collect::<Vec<_>>());
        let whole = |files: &BTreeMap<String, String>| {
            files.values().map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        for (own, other, foreign) in
            [(&of_ada, [&*eve, "eve@example.com"], "birch"), (&of_eve, [&*ada, "ada@"], "amber")]
        {
            for text in other.into_iter().chain([foreign]) {
                assert!(!whole(own).contains(text), "{text}");
            }
        }
        assert!(whole(&of_ada).contains("ada@example.com") && whole(&of_ada).contains(PACK));
        assert_eq!(of_ada["calls.csv"].lines().count(), 4, "three calls and the names");
        assert!(of_ada["calls.csv"].contains("amber"), "{}", of_ada["calls.csv"]);
        for (name, text) in of_ada.iter().filter(|(name, _)| !name.contains(".csv")) {
            let parsed: Result<Value, _> = serde_json::from_str(text);
            assert!(parsed.is_ok(), "{name}: {text}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_has_no_secret_and_is_recorded() {
    with_app(async |app| {
        let (ada, client) = busy(&app, "ada@example.com", "amber").await;
        let key = client.post("/v1/auth/keys", &json!({"name": "n", "scope": "full"})).await.json();
        let secret = key["api_key"].as_str().unwrap().to_owned();
        let auth = app.demo_auth("platform_alpha");

        let files = files(&export(&app, &ada).await.body);

        let whole = files.into_values().collect::<String>();
        assert!(!whole.contains(&secret), "a key");
        assert!(!whole.contains("$argon2"), "a password");
        for (field, value) in auth.as_object().unwrap() {
            let text = value.as_str().unwrap_or_default();
            assert!(text.len() < 16 || !whole.contains(text), "{field} of the account");
        }
        let actions = audited(&app, &ada).await;
        let exported = actions.iter().filter(|(action, _)| action == "operator.customer_exported");
        assert_eq!(exported.collect::<Vec<_>>().len(), 1, "{actions:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_of_nobody_and_a_wrong_request_are_refused() {
    with_app(async |app| {
        let nobody = export(&app, "cus_019ab3c4d5e67f8091a2b3c4d5e6f708").await;
        let unnamed = grace(&app).post(EXPORT, &json!({})).await;
        let more = json!({"customer": "ada@example.com", "since": "2026-01-01"});
        let more = grace(&app).post(EXPORT, &more).await;

        assert_eq!(nobody.failure(), (404, "not_found".to_owned()), "{}", nobody.text());
        assert_eq!((unnamed.status, more.status), (422, 422));
        assert!(unnamed.text().contains("customer"), "{}", unnamed.text());
        assert!(more.text().contains("since"), "{}", more.text());
        app
    })
    .await;
}
