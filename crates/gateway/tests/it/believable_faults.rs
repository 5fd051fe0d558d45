//! The simulated platforms fail on demand, and each fault is checked from four sides: the caller's
//! response, the charge, the number of requests to the platform, and the call log.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use test_service::TestApp;
use test_service::client::{Client, Reply};

const CREDITS: i64 = 1_000;

/// Alpha may respond late but must not stall; gamma may not respond late. Both timeouts are long
/// enough for a busy machine, and only the faults about time reach them.
const IMPATIENT: &str = "[platforms.platform_alpha.timeouts]\nbetween_bytes_ms = 1500\n\
    [platforms.platform_gamma.timeouts]\nfirst_byte_ms = 1500\n";

/// What the caller gets.
#[derive(Clone, Copy)]
enum Caller {
    /// The platform's response with this status.
    Answer(u16),
    /// A failure of the gateway with this status and code.
    Failure(u16, &'static str),
    /// A response that breaks off.
    BrokenOff,
}

/// A fault, the call that meets it, and the expected result.
struct Row {
    line: &'static str,
    fault: Value,
    call: Call,
    caller: Caller,
    charged: i64,
    outcome: &'static str,
    /// The number of requests that the platform saw.
    seen: usize,
}

/// A call: account, method and native path. Only POST has a body.
#[derive(Clone, Copy)]
struct Call(&'static str, &'static str, &'static str);

const READ: Call = Call("demo_alpha", "GET", "users/me");
/// Longer than what is read before the head of a response is passed on.
const LONG_READ: Call = Call("demo_alpha", "GET", "chats?limit=100");
const WRITE: Call = Call("demo_alpha", "POST", "lists");
const BETA_READ: Call = Call("demo_beta", "GET", "account/settings");
const GAMMA_WRITE: Call = Call("demo_gamma", "POST", "user/{id}/user-lists");

const UNREACHABLE: Caller = Caller::Failure(502, "platform_unreachable");
/// For a read whose response cannot be used.
const BAD_ANSWER: Caller = Caller::Failure(502, "bad_platform_answer");
/// For a write whose response cannot be used, or does not arrive.
const LOST: Caller = Caller::Failure(502, "outcome_unknown");
const LATE: Caller = Caller::Failure(504, "outcome_unknown");

impl Row {
    /// A write that fails and is free; the platform saw it once.
    fn free(line: &'static str, fault: Value, caller: Caller, outcome: &'static str) -> Self {
        Self { line, fault, call: WRITE, caller, charged: 0, outcome, seen: 1 }
    }

    /// A bad response to a write.
    fn bad(line: &'static str, fault: Value) -> Self {
        Self::free(line, fault, LOST, "bad_response")
    }

    /// A response that is passed on and charged.
    fn passes(line: &'static str, fault: Value, call: Call, status: u16) -> Self {
        let charged = if call.1 == "GET" { 1 } else { 2 };
        let caller = Caller::Answer(status);
        Self { line, fault, call, caller, charged, outcome: "answered", seen: 1 }
    }

    fn to(self, call: Call) -> Self {
        Self { call, ..self }
    }

    fn seen(self, seen: usize) -> Self {
        Self { seen, ..self }
    }
}

/// E1 to E4: no response, or only a part of it.
fn broken_off() -> Vec<Row> {
    let long_cut = json!({"kind": "cut_length", "after_bytes": 70_000});
    let long_chunks = json!({"kind": "cut_chunks", "after_bytes": 70_000});
    let long_stall = json!({"kind": "stall", "after_bytes": 70_000});
    let late = || json!({"kind": "delay", "ms": 3_600_000});
    let drip = json!({"kind": "drip", "size": 5, "pause_ms": 3_600_000});
    let timeout = |line, fault| Row::free(line, fault, LATE, "upstream_timeout");
    let breaks =
        |line, fault, outcome| Row::free(line, fault, Caller::BrokenOff, outcome).to(LONG_READ);
    vec![
        Row::free("E1", json!({"kind": "refused"}), UNREACHABLE, "connect_failed").seen(0),
        Row::free("E1", json!({"kind": "closed"}), LOST, "bad_response"),
        Row::free("E1", json!({"kind": "reset"}), LOST, "bad_response"),
        timeout("E2", json!({"kind": "silence"})).to(GAMMA_WRITE),
        timeout("E2", late()).to(GAMMA_WRITE),
        Row::passes("E2", json!({"kind": "delay", "ms": 20}), READ, 200),
        timeout("E3", json!({"kind": "stall", "after_bytes": 20})),
        timeout("E3", drip),
        breaks("E3", long_stall, "upstream_timeout"),
        Row::passes("E3", json!({"kind": "drip", "size": 50, "pause_ms": 1}), READ, 200),
        Row::bad("E4", json!({"kind": "cut_length", "after_bytes": 20})),
        Row::bad("E4", json!({"kind": "cut_chunks", "after_bytes": 20})),
        breaks("E4", long_cut, "bad_response"),
        breaks("E4", long_chunks, "bad_response"),
    ]
}

/// E5 to E12: responses that are not valid HTTP.
fn not_quite_http() -> Vec<Row> {
    let kind = |kind: &str| json!({"kind": kind});
    vec![
        Row::passes("E5", kind("extra_bytes"), READ, 200),
        Row::passes("E5", kind("short_length"), READ, 200),
        Row::bad("E6", kind("length_and_chunks")),
        Row::bad("E7", kind("two_lengths")),
        Row::bad("E7", kind("negative_length")),
        Row::bad("E7", kind("control_byte")),
        Row::bad("E7", kind("no_head")),
        Row::bad("E8", json!({"kind": "long_header", "bytes": 600_000})),
        Row::bad("E8", json!({"kind": "many_headers", "count": 150})),
        Row::bad("E9", json!({"kind": "status", "status": 999})),
        Row::bad("E10", json!({"kind": "informational", "count": 2_000})),
        Row::passes("E10", json!({"kind": "informational", "count": 8}), READ, 200),
        Row::bad("E11", kind("switch_protocols")),
        Row::passes("E12", kind("body_without_content"), WRITE, 204),
    ]
}

/// E13 to E20: valid HTTP responses that the platform should not have sent.
fn unexpected() -> Vec<Row> {
    let kind = |kind: &str| json!({"kind": kind});
    let status = |status: u16| json!({"kind": "status", "status": status});
    let free =
        |line, number, outcome| Row::free(line, status(number), Caller::Answer(number), outcome);
    vec![
        Row::passes("E13", kind("gzip"), READ, 200),
        Row::passes("E13", kind("gzip"), BETA_READ, 200),
        Row::passes("E15", kind("gzip_cut"), READ, 200),
        Row::free("E15", kind("gzip_cut"), BAD_ANSWER, "bad_response").to(BETA_READ),
        Row::passes("E16", kind("invalid_json"), BETA_READ, 200),
        Row::passes("E16", kind("no_envelope"), BETA_READ, 200),
        Row::passes("E16", json!({"kind": "deep_json", "depth": 10_000}), BETA_READ, 200),
        Row::passes("E16", kind("duplicate_key"), BETA_READ, 200),
        Row::passes("E16", kind("content_type"), BETA_READ, 200),
        Row::passes("E17", kind("redirect"), READ, 302),
        Row::passes("E17", json!({"kind": "redirect", "status": 307}), WRITE, 307),
        Row::passes("E19", status(403), READ, 403),
        free("–", 408, "upstream_not_carried_out"),
        free("–", 421, "upstream_not_carried_out"),
        free("–", 425, "upstream_not_carried_out"),
        free("–", 500, "upstream_5xx"),
        free("–", 503, "upstream_5xx"),
        free("–", 599, "upstream_5xx"),
    ]
}

/// Three accounts of one customer, on platforms that are about to fail.
struct Stage {
    app: TestApp,
    client: Client,
    gamma_id: String,
}

impl Stage {
    async fn set(database: store::testing::TestStore) -> Self {
        let app = TestApp::start(database, IMPATIENT).await;
        let (customer, client, _) = app.ready("platform_alpha", CREDITS).await;
        app.connect(&customer, "platform_beta").await;
        app.connect(&customer, "platform_gamma").await;
        let accounts = simulators::demo_accounts(&app.settings);
        let gamma = accounts.iter().find(|it| it.creator_id == "demo_gamma").unwrap();
        let gamma_id = gamma.auth["account_id"].as_str().unwrap().to_owned();
        Self { app, client, gamma_id }
    }

    async fn call(&self, Call(account, method, path): Call) -> Result<Reply, String> {
        let path = format!("/v1/{account}/native/{}", path.replace("{id}", &self.gamma_id));
        match method {
            "GET" => self.client.try_send(method, &path, None).await,
            _ => {
                let client = self.client.with("content-type", "application/json");
                client.try_send(method, &path, Some(br#"{"name":"x"}"#.to_vec())).await
            }
        }
    }

    async fn balance(&self) -> i64 {
        self.app.settled(&self.client).await;
        self.client.get("/v1/billing").await.json()["balance"].as_i64().unwrap()
    }

    /// How the last call ended: (outcome, credits).
    async fn ending(&self) -> (String, i64) {
        let log = self.client.get("/v1/billing/usage/recent?limit=1").await.json();
        let call = &log["calls"][0];
        (call["outcome"].as_str().unwrap().to_owned(), call["credits"].as_i64().unwrap())
    }

    /// Checks one row. Afterwards the platform works again, and the next call gets its own
    /// response.
    async fn check(&self, row: &Row) {
        let name = format!("{} {}", row.line, row.fault);
        let platform = platform_of(row.call);
        let mut fault = row.fault.clone();
        fault["platform"] = json!(platform);
        if matches!(row.caller, Caller::BrokenOff) {
            let honest = self.call(row.call).await.unwrap();
            assert!(honest.body.len() > 70_000, "{name}: {} bytes", honest.body.len());
        }
        let (credits, asked) = (self.balance().await, self.app.seen(platform).await.len());

        // Each call has its own time, by which the log is sorted.
        self.app.advance_seconds(1);
        self.app.fault(&fault).await;
        let answer = self.call(row.call).await;
        let left = self.balance().await;
        let seen = self.app.seen(platform).await;
        self.app.no_faults().await;

        match (row.caller, &answer) {
            (Caller::Answer(status), Ok(reply)) => {
                assert_eq!(reply.status, status, "{name}: {}", reply.text());
                assert_eq!(reply.receipt(), (row.charged, left), "{name}");
            }
            (Caller::Failure(status, code), Ok(reply)) => {
                assert_eq!(reply.failure(), (status, code.to_owned()), "{name}: {}", reply.text());
                assert_eq!(reply.receipt(), (0, left), "{name}");
            }
            (Caller::BrokenOff, Err(_)) => {}
            (_, other) => panic!("{name}: {other:?}"),
        }
        assert_eq!(credits - left, row.charged, "{name}");
        assert_eq!(self.ending().await, (row.outcome.to_owned(), row.charged), "{name}");
        assert_eq!(seen.len() - asked, row.seen, "{name}: {:?}", &seen[asked..]);
        let met = seen[asked..].iter().all(|request| request["fault"] == row.fault["kind"]);
        assert!(met, "{name}: {:?}", &seen[asked..]);
        self.app.advance_seconds(1);
        let next = self.call(READ).await.unwrap();
        assert_eq!((next.status, &next.json()["isPerformer"]), (200, &json!(true)), "{name}");
    }
}

fn platform_of(Call(account, ..): Call) -> &'static str {
    match account {
        "demo_alpha" => "platform_alpha",
        "demo_beta" => "platform_beta",
        _ => "platform_gamma",
    }
}

async fn each_fault_is_seen_from_four_sides(rows: impl Fn() -> Vec<Row>) {
    let database = store::testing::store().await;
    let stage = Stage::set(database).await;
    for row in rows() {
        Box::pin(stage.check(&row)).await;
    }
    Box::pin(stage.app.end()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_to_e4_a_missing_or_broken_response_is_free() {
    each_fault_is_seen_from_four_sides(broken_off).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_to_e12_an_invalid_response_is_free_and_affects_no_other_call() {
    each_fault_is_seen_from_four_sides(not_quite_http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e13_to_e19_a_valid_response_is_passed_on_unchanged() {
    each_fault_is_seen_from_four_sides(unexpected).await;
}

/// What reaches the caller, for the faults whose responses are passed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e13_to_e17_only_envelopes_are_removed_and_locations_renamed() {
    let database = store::testing::store().await;
    let stage = Stage::set(database).await;
    let inner = stage.call(BETA_READ).await.unwrap().body;
    let faulty = async |kind: &str, call: Call| {
        let fault = json!({"kind": kind, "times": 1, "platform": platform_of(call)});
        stage.app.fault(&fault).await;
        stage.call(call).await.unwrap()
    };

    let compressed = faulty("gzip", READ).await;
    let unwrapped = faulty("gzip", BETA_READ).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert_eq!(compressed.body[..2], [0x1f, 0x8b]);
    assert_eq!((unwrapped.header("x-envelope"), &unwrapped.body), ("", &inner));

    for kind in ["invalid_json", "deep_json", "duplicate_key", "no_envelope"] {
        let kept = faulty(kind, BETA_READ).await;
        assert_eq!(kept.header("x-envelope"), "kept", "{kind}");
        let has_inner = kept.body.windows(inner.len()).any(|window| window == inner);
        assert!(has_inner, "{kind}: {}", kept.text());
    }
    let page = faulty("content_type", BETA_READ).await;
    assert_eq!((page.header("content-type"), page.header("x-envelope")), ("text/html", "kept"));
    let redirection = faulty("redirect", READ).await;
    assert_eq!(redirection.header("location"), "");
    assert!(redirection.header("x-platform-location").starts_with("http://169.254."));
    Box::pin(stage.app.end()).await;
}

/// The peak memory of this process, which contains gateway, platforms and caller.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Reads a response without keeping it: its status, its `X-Envelope` header and its length.
async fn length_of(stage: &Stage, Call(account, _, path): Call) -> (u16, String, u64) {
    let path = format!("/v1/{account}/native/{path}");
    let mut answer = stage.client.open("GET", &path).await;
    let envelope = answer.headers().get("x-envelope").map(|it| it.to_str().unwrap().to_owned());
    let (status, mut length) = (answer.status().as_u16(), 0);
    while let Some(frame) = answer.body_mut().frame().await {
        length += frame.unwrap().data_ref().map_or(0, |data| data.len() as u64);
    }
    (status, envelope.unwrap_or_default(), length)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e18_a_hundred_mebibytes_pass_with_flat_memory() {
    const MEBIBYTE: u64 = 1024 * 1024;
    let database = store::testing::store().await;
    let stage = Stage::set(database).await;
    for (call, envelope) in [(READ, ""), (BETA_READ, "kept")] {
        let (_, _, honest) = length_of(&stage, call).await;
        stage.app.fault(&json!({"kind": "long_body", "mebibytes": 100, "times": 1})).await;
        let (credits, before) = (stage.balance().await, peak_mebibytes());

        let (status, header, length) = length_of(&stage, call).await;

        let grown = peak_mebibytes() - before;
        assert_eq!((status, header.as_str()), (200, envelope));
        let whole = 100 * MEBIBYTE + honest;
        // A response with its envelope is longer than its contents.
        assert!((whole..whole + 200).contains(&length), "{length} bytes");
        assert!(grown < 48, "{grown} MiB more");
        assert_eq!(stage.balance().await, credits - 1);
    }
    Box::pin(stage.app.end()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e19_a_401_marks_the_account_only_if_its_identity_check_fails_and_a_403_never_does() {
    let database = store::testing::store().await;
    let stage = Stage::set(database).await;
    let marked = async || stage.client.get("/v1/accounts/demo_alpha").await.json()["state"].clone();
    let refused = json!({"kind": "status", "status": 403, "platform": "platform_alpha"});
    stage.app.fault(&refused).await;
    assert_eq!(stage.call(READ).await.unwrap().status, 403);
    stage.app.no_faults().await;
    // The identity check succeeds, so the refusal concerned only this route.
    let alone = json!({"kind": "status", "status": 401, "platform": "platform_alpha",
            "path": "chats", "times": 1});
    let checks = async || {
        let seen = stage.app.seen("platform_alpha").await;
        seen.iter().filter(|request| request["call_id"] == "verify").count()
    };
    let before = checks().await;
    stage.app.fault(&alone).await;
    assert_eq!(stage.call(Call("demo_alpha", "GET", "chats")).await.unwrap().status, 401);
    while checks().await == before {
        tokio::task::yield_now().await;
    }
    assert_eq!(marked().await, "active");

    // An account is checked at most once in ten seconds.
    stage.app.advance_seconds(10);
    let all = json!({"kind": "status", "status": 401, "platform": "platform_alpha"});
    stage.app.fault(&all).await;
    let credits = stage.balance().await;
    let reply = stage.call(READ).await.unwrap();

    assert_eq!((reply.status, reply.receipt()), (401, (0, credits)));
    while marked().await != "reconnect_needed" {
        tokio::task::yield_now().await;
    }
    Box::pin(stage.app.end()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_a_429_is_free_and_pauses_the_account_for_its_retry_after() {
    let database = store::testing::store().await;
    let stage = Stage::set(database).await;
    let limited = json!({"kind": "status", "status": 429, "platform": "platform_alpha",
            "headers": {"Retry-After": "30"}, "times": 1});
    stage.app.fault(&limited).await;
    let asked = stage.app.seen("platform_alpha").await.len();

    let first = stage.call(WRITE).await.unwrap();
    let balance = stage.balance().await;
    let ending = stage.ending().await;
    let second = stage.call(READ).await.unwrap();
    let seen = stage.app.seen("platform_alpha").await.len() - asked;
    stage.app.advance_seconds(30);
    let third = stage.call(READ).await.unwrap();

    assert_eq!((first.status, first.header("retry-after")), (429, "30"));
    assert_eq!((first.receipt(), balance, seen), ((0, CREDITS), CREDITS, 1));
    assert_eq!(second.failure(), (429, "account_paused".to_owned()));
    assert_eq!(ending, ("upstream_429".to_owned(), 0));
    assert_eq!((third.status, stage.balance().await), (200, CREDITS - 1));
    Box::pin(stage.app.end()).await;
}
