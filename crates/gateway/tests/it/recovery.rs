//! A service that stops midway, and random concurrent operations: charges are correct in every
//! case.

use std::collections::{HashMap, HashSet};

use domain::credits::Credits;
use domain::id::{CallId, NodeId};
use domain::key::KeySecret;
use domain::method::Method;
use domain::platform::Platform;
use serde_json::json;
use store::metering::{self, Hold, HoldOutcome, IdempotencyClaim, MeterOptions};
use test_service::client::Client;
use test_service::log;
use test_service::platform::{Script, Seen, answer};
use test_service::stage::{CREDITS, Stage, on_stage};

/// A node that keeps its id, so that it refunds what an earlier run left open.
const NODE: &str = "node_019ab3c4d5e67f8091a2b3c4d5e6f708";

fn keeping_its_id() -> String {
    format!("[metering]\nnode = \"{NODE}\"")
}

fn echo_nothing(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

/// Records a write that never ends, as a killed process leaves it.
async fn leave_a_call(stage: &Stage, idempotency: Option<IdempotencyClaim>) -> CallId {
    let store = stage.app.store().clone();
    let now = stage.app.clock.now();
    let node: NodeId = NODE.parse().unwrap();
    let epoch = metering::recover(&store, node, now).await.unwrap().epoch;
    let customer = stage.customer.id.parse().unwrap();
    let account = stage.account.parse().unwrap();
    let found = store::accounts::find(&store, customer, &account).await.unwrap().unwrap();
    let call_id = CallId::new(now, [3; 10]);
    let hold = Hold {
        call_id,
        customer,
        key: stage.customer.key_id.parse().unwrap(),
        key_hash: KeySecret::parse(&stage.customer.key).unwrap().hash(),
        key_version: 0,
        account,
        account_version: found.version,
        platform: Platform::ALPHA,
        method: Method::Post,
        route: "POST lists".into(),
        path: "lists".to_owned(),
        cost: Credits::from_whole(2),
        held_at: now,
        expires_at: now.plus_seconds(170),
        request_id: "left".to_owned(),
        idempotency,
        tag: None,
    };
    let (meter, writer) = metering::start(&store, MeterOptions::new(node, epoch));
    let hold = async move { meter.reserve(hold).await.unwrap().durable().await };
    let (outcome, ()) = tokio::join!(hold, writer.run());
    assert!(matches!(outcome, HoldOutcome::Held { .. }), "{outcome:?}");
    assert_eq!(stage.client.get("/v1/billing").await.json()["held"], json!(2));
    call_id
}

async fn restarted(mut stage: Stage) -> Stage {
    stage.app = stage.app.restart().await;
    stage.client = stage.app.with_key(&stage.customer.key);
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_left_open_by_an_earlier_run_are_refunded_at_start() {
    on_stage("platform_alpha", &keeping_its_id(), echo_nothing, async |stage| {
        let call = leave_a_call(&stage, None).await;

        let stage = restarted(stage).await;

        let log = stage.client.get("/v1/billing/usage/recent").await.json();
        let [entry] = &log["calls"].as_array().unwrap()[..] else { panic!("{log}") };
        assert_eq!(
            (&entry["call_id"], &entry["outcome"]),
            (&json!(call.to_string()), &json!("outcome_unknown"))
        );
        assert_eq!((&entry["credits"], &entry["status"]), (&json!(0), &json!(null)));
        let billing = stage.client.get("/v1/billing").await.json();
        assert_eq!((&billing["balance"], &billing["held"]), (&json!(CREDITS), &json!(0)));
        assert_eq!(stage.get("users/me").await.receipt(), (1, CREDITS - 1));
        stage
    })
    .await;
}

/// The write may have taken effect, so its key cannot be used for another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_of_a_call_left_open_is_outcome_unknown() {
    let overrides = format!("{}\n[http.timeouts]\ndrain_ms = 100", keeping_its_id());
    on_stage(
        "platform_alpha",
        &overrides,
        |_, _| Script::silence(),
        async |stage| {
            let mut caller = stage.raw().await;
            let request = format!(
                "POST {} HTTP/1.1\r\n{}Idempotency-Key: order-17\r\nContent-Length: 0\r\n\r\n",
                stage.path("lists"),
                stage.host_and_key()
            );
            caller.send(&request).await;
            while stage.platform.calls().is_empty() {
                tokio::task::yield_now().await;
            }

            // The platform never responds; the stop must not wait for it forever.
            let stage = restarted(stage).await;

            assert_eq!(stage.ending().await, ("outcome_unknown".to_owned(), 0));
            let mut repeating = stage.raw().await;
            repeating.send(&request).await;
            let again = repeating.answer().await.unwrap();
            assert_eq!((again.status, again.code().as_str()), (409, "outcome_unknown"));
            assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS));
            stage
        },
    )
    .await;
}

/// The holds of a node that never returns expire, and any node refunds them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_hold_is_refunded_when_it_expires() {
    on_stage("platform_alpha", "", echo_nothing, async |stage| {
        leave_a_call(&stage, None).await;
        stage.app.advance_seconds(170);
        let sweep = async || {
            let now = stage.app.clock.now();
            store::testing::take_over(stage.app.store(), now).await.unwrap().holds
        };
        let early = sweep().await;
        stage.app.advance_seconds(1);

        assert_eq!((early, sweep().await), (0, 1));
        assert_eq!(stage.ending().await, ("expired".to_owned(), 0));
        assert_eq!(stage.balance().await, CREDITS);
        assert_eq!(stage.get("users/me").await.receipt(), (1, CREDITS - 1));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_panics_gets_its_credits_back_and_its_key_an_unknown_outcome() {
    let closing = |_: &Seen, _: usize| Script::AnswerAndClose(Vec::new());
    log::catch();
    on_stage("platform_alpha", "", closing, async |stage| {
        log::panic_at("no response from the platform");
        let client = stage.client.with("idempotency-key", "order-18");
        let lost = client.send("POST", &stage.path("lists"), None).await;

        assert_eq!(lost.failure(), (500, "internal".to_owned()), "{}", lost.text());
        assert_eq!(stage.ending().await, ("outcome_unknown".to_owned(), 0));
        assert_eq!(stage.balance().await, CREDITS);
        let again = client.send("POST", &stage.path("lists"), None).await;
        assert_eq!(again.failure(), (409, "outcome_unknown".to_owned()), "{}", again.text());
        assert_eq!(stage.platform.calls().len(), 1);
        stage
    })
    .await;
}

/// What the stop cuts off: a stream whose caller reads it, one whose caller has left, and a call
/// that waits for its head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_the_stop_cuts_off_are_not_charged() {
    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                          transfer-encoding: chunked\r\n\r\n1\r\na\r\n";
    const SLOW: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\na";
    let platform = |request: &Seen, _: usize| match request.target() {
        path if path.contains("chats") => Script::AnswerAndHang(STREAM.into()),
        path if path.contains("posts") => Script::AnswerAndHang(SLOW.into()),
        _ => request.confirmation().unwrap_or_else(Script::silence),
    };
    let overrides = format!("{}\n[http.timeouts]\ndrain_ms = 300", keeping_its_id());
    on_stage("platform_alpha", &overrides, platform, async |stage| {
        let mut callers = Vec::new();
        for (number, path) in ["chats", "posts", "posts", "users/me"].into_iter().enumerate() {
            let mut caller = stage.raw().await;
            let (path, key) = (stage.path(path), stage.host_and_key());
            caller.send(format!("GET {path} HTTP/1.1\r\n{key}\r\n")).await;
            while stage.platform.calls().len() <= number {
                tokio::task::yield_now().await;
            }
            callers.push(caller);
        }
        assert!(callers[0].head().await.starts_with("http/1.1 200"));
        drop(callers.remove(2));

        let stage = restarted(stage).await;

        let ends: Vec<_> =
            stage.log().await.into_iter().map(|call| call["outcome"].clone()).collect();
        assert_eq!(ends, ["outcome_unknown"; 4]);
        assert_eq!(stage.balance().await, CREDITS);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_running_calls() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let script = Script::Gated(std::sync::Arc::clone(&gate), vec![answer(200, "", "{}")]);
    on_stage(
        "platform_alpha",
        "",
        move |_, _| script.clone(),
        async |stage| {
            let mut caller = stage.raw().await;
            let path = stage.path("lists");
            caller.send(format!("POST {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
            while stage.platform.calls().is_empty() {
                tokio::task::yield_now().await;
            }
            let address = stage.app.running().address();
            let (stage, answer) = tokio::join!(restarted(stage), async {
                // Once connections are refused, the stop has begun.
                while tokio::net::TcpStream::connect(address).await.is_ok() {
                    tokio::task::yield_now().await;
                }
                gate.add_permits(1);
                caller.answer().await
            });

            assert_eq!(answer.expect("the running call must complete").status, 200);
            assert_eq!(stage.ending().await, ("answered".to_owned(), 2));
            assert_eq!(stage.balance().await, CREDITS - 2);
            stage
        },
    )
    .await;
}

/// Random numbers that are the same in every run (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// How the platform treats its `number`-th call: mostly it responds.
fn anything(_: &Seen, number: usize) -> Script {
    let mut cut = answer(200, "", vec![b'x'; 150_000]);
    cut.truncate(90_000);
    match Dice(u64::try_from(number).unwrap()).below(16) {
        0 => Script::json(500, "{}"),
        1 => Script::json(404, "{}"),
        2 => Script::json(429, "{}"),
        3 => Script::close(),
        4 => Script::AnswerAndClose(cut),
        5 => Script::AnswerAndClose(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec()),
        6 => Script::Answer(answer(200, "", vec![b'x'; 150_000])),
        7 => Script::Answer(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        _ => Script::json(200, "{}"),
    }
}

/// One call of a random kind.
async fn operate(stage: &Stage, client: &Client, dice: &mut Dice) {
    let keyed = client.with("idempotency-key", &format!("key-{}", dice.below(12)));
    let path = stage.path("lists");
    let body = Some(b"{}".to_vec());
    match dice.below(10) {
        0..4 => drop(client.try_send("GET", &stage.path("users/me"), None).await),
        4 | 5 => drop(client.try_send("POST", &path, body).await),
        6 | 7 => drop(keyed.try_send("POST", &path, body).await),
        8 => {
            let mut caller = stage.raw().await;
            caller.send(format!("POST {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
        }
        _ => {
            let calls = (0..4).map(|_| {
                let (keyed, path) = (keyed.clone(), path.clone());
                async move { keyed.try_send("PUT", &path, None).await.is_ok() }
            });
            test_service::at_once(calls).await;
        }
    }
}

/// Two hundred operations in a seeded random order, on a balance that runs out, across restarts:
/// every call that the platform saw is recorded, and only answered calls are charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_are_charged_exactly() {
    on_stage("platform_alpha", &keeping_its_id(), anything, async |mut stage| {
        let mut dice = Dice(20_261_121);
        for step in 0..200 {
            let client = stage.client.clone();
            operate(&stage, &client, &mut dice).await;
            // Sometimes wait until any open breaker closes.
            stage.app.advance_seconds(i64::try_from(dice.below(40)).unwrap());
            if step % 67 == 66 {
                stage = restarted(stage).await;
            }
        }
        let stage = restarted(stage).await;

        let log = stage.client.get("/v1/billing/usage/recent?limit=1000").await.json();
        let log = log["calls"].as_array().unwrap();
        let spent: i64 = log.iter().map(|call| call["credits"].as_i64().unwrap()).sum();
        let booked: HashMap<_, _> =
            log.iter().map(|call| (call["call_id"].as_str().unwrap(), call)).collect();
        let calls = stage.platform.calls();
        let seen: HashSet<_> = calls.iter().map(|call| call.header("x-call-id").unwrap()).collect();
        assert!(log.len() > 60, "only {} calls were held", log.len());
        for call in &seen {
            assert!(booked.contains_key(call), "{call} must not reach the platform without a hold");
        }
        for (id, call) in &booked {
            let charged = call["credits"] != 0;
            assert!(!charged || seen.contains(id), "{call} is charged but was never sent");
            assert_eq!(charged, call["outcome"] == "answered", "{call}");
            assert_ne!(call["outcome"], "held", "{call}");
        }
        assert_eq!(stage.balance().await, CREDITS - spent);
        stage
    })
    .await;
}
