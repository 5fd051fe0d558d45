//! Every way a write can end, as in the table of `docs/money.md`: its response, retry hint and
//! cost, and the response to the same request under the same `Idempotency-Key`.
#![expect(
    clippy::shadow_unrelated,
    clippy::unwrap_used,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use test_service::TestApp;
use test_service::client::{Client, Reply};
use test_service::platform::{Script, answer};
use test_service::stage::{CREDITS, Stage, on_stage};

/// Rows that no fault of a platform can produce here, and the tests that cover them.
const ELSEWHERE: [(&str, &str); 6] = [
    ("W3", "gateway::accounts::a_failed_refresh_matters_only_after_the_token_has_expired"),
    ("W6", "platform_client::http2, platform_client::faults"),
    ("W22", "gateway::idempotency::a_call_that_was_never_sent_may_be_repeated, gateway::owned"),
    ("W23", "gateway::recovery"),
    ("W24", "gateway::recovery::a_repetition_of_a_call_left_open_is_outcome_unknown"),
    ("W1", "refusals_are_free_and_show_the_balance_to_known_callers"),
];

/// Alpha may not stall within a response, gamma not before it.
const IMPATIENT: &str = "[platforms.platform_alpha.timeouts]\nbetween_bytes_ms = 800\n\
    [platforms.platform_gamma.timeouts]\nfirst_byte_ms = 800\n";

/// A row of the table.
#[derive(Debug)]
struct Row {
    response: String,
    hint: String,
    credits: String,
    repetition: String,
}

fn table() -> BTreeMap<String, Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/money.md");
    let text = std::fs::read_to_string(path).unwrap();
    let is_row = |line: &&str| {
        line.strip_prefix("| W")
            .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let rows = text.lines().filter(is_row);
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _, response, hint, credits, repetition] = cells[..] else { panic!("{line}") };
        let own = str::to_owned;
        let row = Row {
            response: own(response),
            hint: own(hint),
            credits: own(credits),
            repetition: own(repetition),
        };
        (own(id), row)
    })
    .collect()
}

/// The status and code in a cell such as "502 `outcome_unknown`".
fn coded(cell: &str) -> Vec<(u16, String)> {
    let words: Vec<&str> = cell.split_whitespace().collect();
    let pair = |pair: &[&str]| {
        let code = pair[1].trim_end_matches(',').strip_prefix('`')?.strip_suffix('`')?;
        Some((pair[0].parse().ok()?, code.to_owned()))
    };
    words.windows(2).filter_map(pair).collect()
}

impl Row {
    /// Checks a first response.
    fn check(&self, name: &str, first: &Result<Reply, String>) {
        let expected = coded(&self.response);
        let reply = match first {
            Ok(reply) => reply,
            Err(_) if self.response.contains("broken body") => return,
            Err(error) => panic!("{name}: {error}"),
        };
        if expected.is_empty() {
            let source = if reply.status >= 400 { "platform" } else { "" };
            assert_eq!(reply.header("x-error-source"), source, "{name}: {}", reply.text());
        } else {
            assert!(expected.contains(&reply.failure()), "{name}: {}", reply.text());
            assert_eq!(reply.json()["retryable"].to_string(), self.hint, "{name}");
        }
        let hint = if self.hint == "none" { "" } else { self.hint.as_str() };
        if matches!(hint, "" | "true" | "false") {
            assert_eq!(reply.header("x-should-retry"), hint, "{name}: {}", reply.text());
        }
        let cost = match self.credits.as_str() {
            "0" => 0,
            "full" => 2,
            _ => return,
        };
        assert_eq!(reply.receipt().0, cost, "{name}");
        assert!(reply.receipt().1 >= 0, "{name}: no balance");
    }

    /// Checks the response to the repetition.
    fn check_again(&self, name: &str, first: &Result<Reply, String>, again: &Reply) {
        let expected = coded(&self.repetition);
        let is_replayed = again.header("idempotent-replayed") == "true";
        match self.repetition.as_str() {
            "carried out" => {
                assert_eq!((again.status, is_replayed), (201, false), "{name}: {}", again.text());
                assert_eq!(again.receipt().0, 2, "{name}");
            }
            "replayed" => {
                let first = first.as_ref().unwrap();
                assert_eq!((again.status, is_replayed), (first.status, true), "{name}");
                assert_eq!(again.body, first.body, "{name}");
                assert_eq!((again.receipt().0, again.header("retry-after")), (0, ""), "{name}");
                let hint = if again.status >= 400 { "false" } else { "" };
                assert_eq!(again.header("x-should-retry"), hint, "{name}");
                assert!(again.receipt().1 >= 0, "{name}: no balance");
            }
            _ => {
                assert!(expected.contains(&again.failure()), "{name}: {}", again.text());
                assert_eq!(again.json()["retryable"], false, "{name}");
                assert_eq!(again.header("x-should-retry"), "false", "{name}");
                assert_eq!(again.receipt().0, 0, "{name}");
                assert!(again.json()["call_id"].is_string(), "{name}");
            }
        }
    }
}

/// The faults of the simulators that produce each row.
fn faults() -> Vec<(&'static str, Value)> {
    let kind = |kind: &str| json!({"kind": kind});
    let status = |status: u16| json!({"kind": "status", "status": status});
    let later =
        |status: u16| json!({"kind": "status", "status": status, "headers": {"Retry-After": "5"}});
    vec![
        ("W4", kind("refused")),
        ("W7", kind("closed")),
        ("W8", kind("reset")),
        ("W9", kind("silence")),
        ("W10", kind("no_head")),
        ("W10", kind("length_and_chunks")),
        ("W10", json!({"kind": "long_header", "bytes": 600_000})),
        ("W10", json!({"kind": "informational", "count": 2_000})),
        ("W10", status(999)),
        ("W11", json!({"kind": "cut_length", "after_bytes": 20})),
        ("W11", json!({"kind": "cut_chunks", "after_bytes": 20})),
        ("W12", json!({"kind": "stall", "after_bytes": 20})),
        ("W15", json!({"kind": "delay", "ms": 1})),
        ("W15", json!({"kind": "redirect", "status": 307})),
        ("W16", status(400)),
        ("W16", status(403)),
        ("W16", status(404)),
        ("W16", status(409)),
        ("W16", status(422)),
        ("W17", status(401)),
        ("W18", status(408)),
        ("W18", status(421)),
        ("W18", status(425)),
        ("W18", status(429)),
        ("W18", later(429)),
        ("W19", later(503)),
        ("W20", status(500)),
        ("W20", status(503)),
        ("W20", later(502)),
        ("W20", status(599)),
    ]
}

/// Accounts on platforms that are about to fail.
struct Accounts {
    app: TestApp,
    client: Client,
    gamma_id: String,
}

impl Accounts {
    async fn set(database: store::testing::TestStore) -> Self {
        let app = TestApp::start(database, IMPATIENT).await;
        let (customer, client, _) = app.ready("platform_alpha", 10_000).await;
        app.connect(&customer, "platform_gamma").await;
        let accounts = simulators::demo_accounts(&app.settings);
        let gamma = accounts.iter().find(|it| it.creator_id == "demo_gamma").unwrap();
        let gamma_id = gamma.auth["account_id"].as_str().unwrap().to_owned();
        Self { app, client, gamma_id }
    }

    /// A write, to gamma if the fault is silence, otherwise to alpha.
    async fn write(&self, fault: &Value, key: Option<&str>) -> Result<Reply, String> {
        let path = match platform_of(fault) {
            "platform_gamma" => {
                format!("/v1/demo_gamma/native/user/{}/user-lists", self.gamma_id)
            }
            _ => "/v1/demo_alpha/native/lists".to_owned(),
        };
        let client = self.client.with("content-type", "application/json");
        let client = key.map_or(client.clone(), |key| client.with("idempotency-key", key));
        client.try_send("POST", &path, Some(br#"{"name":"x"}"#.to_vec())).await
    }

    /// Advances the time and makes a successful read, so that no pause or breaker is in effect.
    async fn recover(&self) {
        self.app.no_faults().await;
        self.app.advance_seconds(10);
        let good = self.client.get("/v1/demo_alpha/native/users/me").await;
        assert_eq!(good.status, 200, "{}", good.text());
    }

    async fn check(&self, (id, fault): &(&str, Value), row: &Row, number: usize) {
        let name = format!("{id} {fault}");
        let mut fault = fault.clone();
        fault["platform"] = json!(platform_of(&fault));
        if fault["kind"] != "refused" {
            fault["times"] = json!(1);
        }
        let key = format!("row-{number}");
        self.app.fault(&fault).await;
        let first = self.write(&fault, Some(&key)).await;
        row.check(&name, &first);
        self.recover().await;
        let again = self.write(&fault, Some(&key)).await.unwrap();
        row.check_again(&name, &first, &again);

        self.app.fault(&fault).await;
        row.check(&format!("{name} without a key"), &self.write(&fault, None).await);
        self.recover().await;
    }
}

fn platform_of(fault: &Value) -> &'static str {
    if fault["kind"] == "silence" { "platform_gamma" } else { "platform_alpha" }
}

/// Rows that need exact bytes, in the order of the calls.
const SCRIPTED: [&str; 3] = ["W13", "W14", "W21"];

/// The platform's response to each of their calls. Of the repetitions only that of W14 reaches the
/// platform.
fn scripted(number: usize) -> Script {
    let mut broken = answer(200, "", vec![b'x'; 200_000]);
    broken.truncate(100_000);
    let mut limited = answer(429, "retry-after: 1\r\n", "come again");
    limited.truncate(limited.len() - 3);
    match number {
        0 => Script::AnswerAndClose(broken),
        1 => Script::AnswerAndClose(limited),
        2 => Script::json(201, "{}"),
        _ => Script::Answer(answer(200, "", vec![b'x'; 300_000])),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_need_exact_bytes_hold() {
    let table = table();
    on_stage(
        "platform_alpha",
        "",
        |_, number| scripted(number),
        async |stage: Stage| {
            for id in SCRIPTED {
                let client = stage.client.with("content-type", "application/json");
                let client = client.with("idempotency-key", id);
                let path = stage.path("lists");
                let first = client.try_send("POST", &path, Some(b"{}".to_vec())).await;
                table[id].check(id, &first);
                stage.app.settled(&stage.client).await;
                let again = client.send("POST", &path, Some(b"{}".to_vec())).await;
                table[id].check_again(id, &first, &again);
            }
            assert_eq!(stage.platform.calls().len(), 4);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_table_holds() {
    let table = table();
    let database = store::testing::store().await;
    let accounts = Accounts::set(database).await;
    for (number, case) in faults().iter().enumerate() {
        Box::pin(accounts.check(case, &table[case.0], number)).await;
    }
    Box::pin(accounts.app.end()).await;
    let mut shown: BTreeSet<&str> = faults().iter().map(|(id, _)| *id).collect();
    shown.extend(SCRIPTED);
    shown.extend(ELSEWHERE.iter().map(|(id, _)| *id));
    shown.extend(["W2", "W5"]);
    let rows: BTreeSet<&str> = table.keys().map(String::as_str).collect();
    assert_eq!(shown, rows, "each row needs a case, and each case a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_while_the_account_is_paused() {
    let row = &table()["W2"];
    let play = |_: &_, number| match number {
        0 => Script::Answer(answer(429, "retry-after: 30\r\n", "")),
        _ => Script::json(201, "{}"),
    };
    on_stage("platform_alpha", "", play, async |stage| {
        assert_eq!(stage.get("users/me").await.status, 429);
        let client = stage.client.with("idempotency-key", "once");
        let first = client.post(&stage.path("lists"), &json!({})).await;
        assert_eq!(first.failure(), (429, "account_paused".to_owned()));
        assert_eq!(first.receipt(), (0, CREDITS));
        let hint = first.header("x-should-retry").to_owned();
        let first = Ok(first);
        stage.app.advance_seconds(30);
        let again = client.post(&stage.path("lists"), &json!({})).await;
        row.check_again("W2", &first, &again);
        assert_eq!(hint, row.hint);
        assert_eq!(stage.platform.calls().len(), 2);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platform_without_tls_is_unreachable() {
    let row = &table()["W5"];
    let play = |_: &_, _| Script::json(201, "{}");
    on_stage("platform_alpha", "", play, async |mut stage| {
        let address = stage.platform.address;
        let at = |scheme: &str| {
            let text = format!("{scheme}://{address}");
            move |config: &mut settings::Config| {
                config.platforms.get_mut(domain::platform::Platform::ALPHA).unwrap().base_url =
                    text;
            }
        };
        stage.restart_with(at("https")).await;
        let client = stage.client.with("idempotency-key", "once");
        let first = Ok(client.post(&stage.path("lists"), &json!({})).await);
        row.check("W5", &first);
        // The ids of a restarted process depend only on the time here.
        stage.app.advance_seconds(10);
        stage.restart_with(at("http")).await;
        let client = stage.client.with("idempotency-key", "once");
        let again = client.post(&stage.path("lists"), &json!({})).await;
        row.check_again("W5", &first, &again);
        stage
    })
    .await;
}

/// A refusal before credits are held costs nothing, frees the key, and shows the balance if the
/// caller is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_free_and_show_the_balance_to_known_callers() {
    let play = |_: &_, _| Script::json(201, "{}");
    on_stage("platform_alpha", "", play, async |stage| {
        let client = stage.client.with("idempotency-key", "once");
        let read_only = json!({"name": "reader", "scope": "read_only"});
        let made = stage.client.post("/v1/auth/keys", &read_only).await.json();
        let reader = stage.app.with_key(made["api_key"].as_str().unwrap());
        let path = stage.path("lists");
        let known = [
            client.post("/v1/nobody/native/lists", &json!({})).await,
            reader.post(&path, &json!({})).await,
            client.post(&format!("/v1/{}/media/upload", stage.account), &json!({})).await,
            client.post("/v1/nobody/exports", &json!({"dataset": "chats"})).await,
            reader.post(&format!("/v1/{}/exports", stage.account), &json!({})).await,
        ];
        for reply in &known {
            assert!(reply.status >= 400, "{}", reply.text());
            assert_eq!(reply.receipt(), (0, CREDITS), "{}", reply.text());
            assert_eq!(reply.header("x-should-retry"), "false", "{}", reply.text());
        }
        let stranger = stage.app.anonymous();
        let unknown = [
            stranger.post(&path, &json!({})).await,
            stage.app.with_key("cgw_live_nothing").post(&path, &json!({})).await,
            stranger.post(&format!("/v1/{}/exports", stage.account), &json!({})).await,
            stranger.get(&format!("/v1/{}/media/upload", stage.account)).await,
            client.post(&stage.path("a/../b"), &json!({})).await,
        ];
        for reply in &unknown {
            assert_eq!(reply.receipt(), (0, -1), "{}", reply.text());
            assert_eq!(reply.header("x-should-retry"), "false", "{}", reply.text());
        }
        let other = stage.client.get("/v1/exports/nothing").await;
        assert_eq!((other.header("x-credits-cost"), other.header("x-should-retry")), ("", "false"));
        assert_eq!(stage.platform.calls().len(), 0);

        let carried_out = client.post(&path, &json!({})).await;
        assert_eq!((carried_out.status, carried_out.receipt()), (201, (2, CREDITS - 2)));
        stage
    })
    .await;
}

/// Our own refusals free the key, for exports as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_export_can_be_created_later_by_the_same_request() {
    let play = |_: &_, _| Script::json(200, "[]");
    on_stage("platform_alpha", "", play, async |stage| {
        while stage.balance().await >= 10 {
            assert_eq!(stage.post("lists", &json!({})).await.status, 200);
        }
        let left = stage.balance().await;
        let client = stage.client.with("idempotency-key", "monday");
        let path = format!("/v1/{}/exports", stage.account);
        let wish = json!({"dataset": "subscribers"});

        let poor = client.post(&path, &wish).await;
        stage.grant(100).await;
        stage.app.advance_seconds(1);
        let made = client.post(&path, &wish).await;
        let again = client.post(&path, &wish).await;

        assert_eq!(poor.failure(), (402, "insufficient_credits".to_owned()));
        assert_eq!((poor.receipt(), poor.header("x-should-retry")), ((0, left), "false"));
        assert_eq!((made.status, made.receipt()), (201, (10, left + 90)), "{}", made.text());
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
        assert_eq!((again.json(), again.receipt()), (made.json(), (0, left + 90)));
        let id = made.json()["job_id"].as_str().unwrap().to_owned();
        let ended = stage.client.post(&format!("/v1/exports/{id}/cancel"), &json!({})).await;
        assert!(ended.status < 300, "{}", ended.text());
        stage
    })
    .await;
}
