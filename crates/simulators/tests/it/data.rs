//! What all simulators know: the accounts, the world of a seed, and what was written.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use simulators::{RunningSimulators, SimulatorClock, SimulatorSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{ask, ask_with};

const KEY: &str = "Authorization: Bearer sk_test_sandboxSecretKey";

fn settings(seed: u64, data: Option<&Path>) -> SimulatorSettings {
    SimulatorSettings {
        seed,
        data: data.map(Into::into),
        clock: SimulatorClock::manual(1_769_904_000_000),
        ..SimulatorSettings::default()
    }
}

async fn started(seed: u64, data: Option<&Path>) -> RunningSimulators {
    simulators::start(settings(seed, data)).await.unwrap()
}

/// A page of the demo account of `platform_alpha`.
async fn page(address: SocketAddr, path: &str) -> Value {
    let accounts = simulators::demo_accounts(&SimulatorSettings::default());
    let demo = accounts.iter().find(|account| account.platform == "platform_alpha").unwrap();
    let text = |name: &str| demo.auth.get(name).and_then(Value::as_str).unwrap();
    let headers = format!(
        "Authorization: Session {}\r\nX-User-Id: {}\r\nUser-Agent: {}",
        text("session_token"),
        text("user_id"),
        text("user_agent"),
    );
    let (status, page) =
        ask_with(address, &format!("GET /platform_alpha/{path}"), &headers, "").await;
    assert_eq!(status, 200, "{page}");
    page
}

/// Hands over an email.
async fn send(address: SocketAddr, subject: &str) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let talk = format!(
        "EHLO me\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n\
         Subject: {subject}\r\n\r\nhello\r\n.\r\nQUIT\r\n"
    );
    stream.write_all(talk.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.ends_with("250 taken\r\n221 bye\r\n"), "{said}");
}

/// The number of emails, and of customers of the processor.
async fn counts(running: &RunningSimulators) -> (usize, usize) {
    let (_, mails) = ask(running.address(), "GET /control/mail", "").await;
    let (_, customers) = ask_with(running.address(), "GET /v1/customers", KEY, "").await;
    let count = |page: &Value, field: &str| page.get(field).unwrap().as_array().unwrap().len();
    (count(&mails, "mails"), count(&customers, "data"))
}

#[test]
fn every_platform_has_accounts_with_credentials_under_names_of_their_own() {
    let accounts = simulators::demo_accounts(&SimulatorSettings::default());

    let mut names = BTreeMap::<&str, Vec<&str>>::new();
    for account in &accounts {
        names.entry(account.platform).or_default().push(account.creator_id);
        assert!(!account.auth.as_object().unwrap().is_empty(), "{account:?}");
    }
    let demos: Vec<&str> = names.values().filter_map(|of| of.first().copied()).collect();
    assert_eq!(demos, ["demo_alpha", "demo_beta", "demo_delta", "demo_gamma"]);
    let mut all: Vec<&str> = accounts.iter().map(|account| account.creator_id).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), accounts.len());
}

#[tokio::test]
async fn the_same_seed_makes_the_same_world_and_another_seed_another_one() {
    let mut worlds = Vec::new();
    for seed in [7, 7, 8] {
        let running = started(seed, None).await;
        worlds.push(page(running.address(), "subscriptions/subscribers?limit=20").await);
        running.stop().await;
    }

    assert_eq!(worlds.first(), worlds.get(1));
    assert_ne!(worlds.first(), worlds.get(2));
}

#[tokio::test]
async fn what_was_written_survives_a_restart_with_a_data_folder_and_no_reset() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("made/when/missing");
    let first = started(1, Some(&data)).await;
    send(first.mail_address(), "kept").await;
    let headers = format!("{KEY}\r\nContent-Type: application/x-www-form-urlencoded");
    let create = ask_with(first.address(), "POST /v1/customers", &headers, "email=a%40b.example");
    assert_eq!(create.await.0, 200);
    assert_eq!(counts(&first).await, (1, 1));
    first.stop().await;

    let again = started(1, Some(&data)).await;
    assert_eq!(counts(&again).await, (1, 1));
    assert_eq!(ask(again.address(), "POST /control/reset", "").await.0, 200);
    assert_eq!(counts(&again).await, (0, 0));
    again.stop().await;

    let last = started(1, Some(&data)).await;
    assert_eq!(counts(&last).await, (0, 0));
    last.stop().await;
}

#[tokio::test]
async fn without_a_data_folder_everything_written_ends_with_the_process() {
    let first = started(1, None).await;
    send(first.mail_address(), "forgotten").await;
    assert_eq!(counts(&first).await, (1, 0));
    first.stop().await;

    let again = started(1, None).await;
    assert_eq!(counts(&again).await, (0, 0));
    again.stop().await;
}
