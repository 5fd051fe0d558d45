//! Refreshes of tokens that take long, end late or bring tokens that cannot be stored immediately:
//! no fresh token is lost, and no call waits for long.
//!
//! The platform takes a second use of a refresh token for theft, as RFC 9700, section 4.14.2,
//! advises: from then on nothing of the account works.

use std::sync::{Arc, Mutex};

use serde_json::json;
use store::takeover::TakeoverWatch;
use test_service::client::{Client, Reply};
use test_service::log;
use test_service::nodes::Nodes;
use test_service::platform::{RawPlatform, Script, Seen, json_answer};
use test_service::stage::{CREDITS, Stage};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The tokens of one account at its platform.
#[derive(Clone)]
struct TokenFamily {
    state: Arc<Mutex<FamilyState>>,
    /// Each answer of the token endpoint waits for a permit, once what it says is in force.
    gate: Arc<Semaphore>,
}

struct FamilyState {
    /// `access-N` and `refresh-N` are valid.
    number: usize,
    /// A refresh token was used twice.
    is_revoked: bool,
    /// How long tokens live, in seconds.
    lives_s: i64,
}

impl TokenFamily {
    fn new() -> Self {
        let state = FamilyState { number: 0, is_revoked: false, lives_s: 3_600 };
        Self { state: Arc::new(Mutex::new(state)), gate: Arc::new(Semaphore::new(0)) }
    }

    async fn platform(&self) -> RawPlatform {
        let family = self.clone();
        RawPlatform::deciding(move |request, _| family.respond(request)).await
    }

    fn respond(&self, request: &Seen) -> Script {
        let mut state = self.state.lock().unwrap();
        if request.target() == "/oauth/token" {
            let form = String::from_utf8_lossy(&request.body).into_owned();
            let current = format!("refresh_token=refresh-{}&", state.number);
            if state.is_revoked || !form.contains(&current) {
                state.is_revoked = true;
                return Script::json(400, r#"{"error":"invalid_grant"}"#);
            }
            state.number += 1;
            let pair = json!({
                "access_token": format!("access-{}", state.number),
                "refresh_token": format!("refresh-{}", state.number),
                "expires_in": state.lives_s,
            });
            let answer = json_answer(200, pair.to_string());
            return Script::Gated(Arc::clone(&self.gate), vec![answer]);
        }
        let bearer = request.header("authorization").unwrap_or_default();
        let current = format!("Bearer access-{}", state.number);
        if bearer.starts_with("Bearer access-") && (state.is_revoked || bearer != current) {
            return Script::json(401, r#"{"error":"unauthorized"}"#);
        }
        request.confirmation().unwrap_or_else(|| Script::json(200, "{}"))
    }

    /// Asserts that so many refresh tokens were used, each once.
    fn is_sound(&self, used: usize) {
        let state = self.state.lock().unwrap();
        assert!(!state.is_revoked, "a refresh token was used twice");
        assert_eq!(state.number, used);
    }
}

const DELTA: &str = "platform_delta";

fn oauth(raw: &RawPlatform) -> String {
    let address = raw.address;
    format!(
        "[platforms.platform_delta]\nbase_url = \"http://{address}\"\n\
         verify_route = {{ path = \"notifications\", id_pointer = \"/id\" }}\n\
         [platforms.platform_delta.oauth]\ntoken_url = \"http://{address}/oauth/token\"\n\
         client_id = \"id\"\nclient_secret = \"word\""
    )
}

/// The account's credentials, whose token ends in an hour.
fn first_tokens() -> serde_json::Value {
    json!({
        "access_token": "access-0", "refresh_token": "refresh-0",
        "expires_at": "2026-11-21T13:00:00Z",
    })
}

/// A stage whose account has tokens that end in an hour.
async fn on_family(test: impl AsyncFn(Stage, TokenFamily) -> Stage) {
    let database = store::testing::store().await;
    let family = TokenFamily::new();
    let raw = family.platform().await;
    let overrides = oauth(&raw);
    let stage = Box::pin(Stage::set(database, DELTA, raw, &overrides)).await;
    assert_eq!(stage.import(DELTA, first_tokens()).await.status, 200);
    Box::pin(async { test(stage, family).await.app.end().await }).await;
}

fn exchanges(stage: &Stage) -> usize {
    stage.platform.calls().iter().filter(|call| call.target() == "/oauth/token").count()
}

/// Waits until the token endpoint has been asked `count` times.
async fn asked(stage: &Stage, count: usize) {
    while exchanges(stage) < count {
        tokio::task::yield_now().await;
    }
}

/// The refusal of a call whose token is still being refreshed.
fn is_waiting(reply: &Reply) {
    assert_eq!(reply.failure(), (503, "platform_unavailable".to_owned()), "{}", reply.text());
    assert_eq!(reply.json()["retryable"], true, "{}", reply.text());
    assert_eq!(reply.receipt(), (0, CREDITS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_half_a_minute_and_the_refresh_goes_on_without_it() {
    on_family(async |mut stage, family| {
        stage.app.advance_seconds(3_600);
        let (late, ()) = tokio::join!(stage.get("chats"), async {
            asked(&stage, 1).await;
            stage.app.advance_seconds(30);
        });
        is_waiting(&late);

        // The stop waits for it: what it brings would be lost.
        let address = stage.app.running().address();
        tokio::join!(stage.app.stop_service(), async {
            while TcpStream::connect(address).await.is_ok() {}
            family.gate.add_permits(1);
        });
        stage.app.start_service(|_| ()).await.unwrap();
        stage.client = stage.app.with_key(&stage.customer.key);

        assert_eq!(stage.get("chats").await.receipt(), (1, CREDITS - 1));
        family.is_sound(1);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_endpoint_that_drips_is_given_up_after_two_minutes() {
    let gate = Arc::new(Semaphore::new(1));
    let dripping = Arc::clone(&gate);
    let raw = RawPlatform::playing(move |request, _| {
        if request.target() != "/oauth/token" {
            return Script::json(200, "{}");
        }
        let bytes = json_answer(200, r#"{"access_token":"access-1"}"#);
        let (head, body) = bytes.split_at(bytes.len() - 27);
        let drops = body.iter().map(|byte| vec![*byte]);
        Script::Gated(Arc::clone(&dripping), std::iter::once(head.to_vec()).chain(drops).collect())
    })
    .await;
    let database = store::testing::store().await;
    let overrides = oauth(&raw);
    let stage = Box::pin(Stage::set(database, DELTA, raw, &overrides)).await;
    assert_eq!(stage.import(DELTA, first_tokens()).await.status, 200);
    stage.app.advance_seconds(3_600);

    let begun = stage.app.clock.now();
    let (mut drops, mut refusals) = (0, 0);
    let given_up = loop {
        let mut call = std::pin::pin!(stage.get("chats"));
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut call => break reply,
                // A round trip, so that those who wait see the clock move.
                _ = stage.account_state() => stage.app.advance_seconds(5),
            }
            // The whole answer is never there.
            gate.add_permits(usize::from(drops < 20));
            drops += 1;
        };
        if reply.status == 502 {
            break reply;
        }
        is_waiting(&reply);
        refusals += 1;
    };

    let waited = stage.app.clock.now().micros_since(begun);
    assert!(refusals > 0 && waited >= 120_000_000, "{refusals} refusals in {waited} µs");
    assert_eq!((given_up.status, given_up.code().as_str()), (502, "platform_unreachable"));
    assert_eq!((exchanges(&stage), stage.account_state().await.as_str()), (1, "active"));
    stage.app.end().await;
}

/// Switching changes the account's version, and used to throw away what the refresh brought.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_switched_off_and_on_during_a_refresh_gets_its_tokens() {
    on_family(async |stage, family| {
        stage.app.advance_seconds(3_600);
        let (reply, ()) = tokio::join!(stage.get("chats"), async {
            asked(&stage, 1).await;
            let path = format!("/v1/accounts/{}", stage.account);
            for state in ["inactive", "active"] {
                let switched = stage.client.json("PATCH", &path, &json!({"state": state})).await;
                assert_eq!(switched.status, 200, "{}", switched.text());
            }
            family.gate.add_permits(1);
        });
        assert_eq!((reply.status, reply.receipt()), (200, (1, CREDITS - 1)), "{}", reply.text());

        stage.app.advance_seconds(3_600);
        family.gate.add_permits(1);
        assert_eq!(stage.get("chats").await.status, 200);
        family.is_sound(2);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_the_database_does_not_take_stay_in_memory_until_it_does() {
    const REFUSE: [&str; 2] = [
        "create trigger refuse_tokens before update of credentials on accounts
         begin select raise(abort, 'refused for the test'); end",
        "create trigger refuse_tokens before update of credentials on accounts
         for each row execute function refuse_change('refused for the test')",
    ];
    const ALLOW: [&str; 2] =
        ["drop trigger refuse_tokens", "drop trigger refuse_tokens on accounts"];
    log::catch();
    on_family(async |stage, family| {
        let shared = usize::from(stage.app.store().database() == store::DatabaseKind::Postgres);
        store::testing::run_raw(stage.app.store(), REFUSE[shared]).await.unwrap();
        family.gate.add_permits(1);
        stage.app.advance_seconds(3_600);

        let (late, ()) = tokio::join!(stage.get("chats"), async {
            let is_told = |line: &str| {
                line.contains(&stage.customer.id) && line.contains("refreshed tokens could not be")
            };
            while !log::everything().lines().any(is_told) {
                tokio::task::yield_now().await;
            }
            stage.app.advance_seconds(30);
        });
        is_waiting(&late);
        assert!(!log::everything().contains("refresh-1"), "no token may be logged");
        store::testing::run_raw(stage.app.store(), ALLOW[shared]).await.unwrap();

        assert_eq!(stage.get("chats").await.receipt(), (1, CREDITS - 1));
        family.is_sound(1);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_live_for_a_minute_are_refreshed_when_a_third_of_it_is_left() {
    on_family(async |stage, family| {
        family.gate.add_permits(9);
        family.state.lock().unwrap().lives_s = 60;
        stage.app.advance_seconds(3_600);
        for _ in 0..3 {
            assert_eq!(stage.get("chats").await.status, 200);
            stage.app.advance_seconds(13);
        }
        assert_eq!(stage.get("chats").await.status, 200);
        family.is_sound(1);

        stage.app.advance_seconds(1);
        for _ in 0..2 {
            assert_eq!(stage.get("chats").await.status, 200);
        }
        family.is_sound(2);
        stage
    })
    .await;
}

/// A node whose clock is wrong may hold a claim that looks long over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_taken_over_after_it_was_seen_unrenewed_and_not_because_it_looks_old() {
    on_family(async |stage, family| {
        family.gate.add_permits(1);
        let foreign =
            "update accounts set refresh_claimed_until = 1, refresh_claimed_by = 'node_1'";
        let mut watch = TakeoverWatch::default();
        store::testing::run_raw(stage.app.store(), foreign).await.unwrap();
        stage.app.advance_seconds(3_600);
        let begun = stage.app.clock.now();
        let waited = || stage.app.clock.now().micros_since(begun);

        let mut refusals = 0;
        loop {
            let mut call = std::pin::pin!(stage.get("chats"));
            let reply = loop {
                tokio::select! {
                    biased;
                    reply = &mut call => break reply,
                    looked = stage.app.running().look_for_lost_work(&mut watch) => {
                        looked.unwrap();
                        stage.app.advance_seconds(5);
                    }
                }
            };
            if reply.status == 200 {
                break;
            }
            is_waiting(&reply);
            refusals += 1;
            if waited() < 120_000_000 {
                family.is_sound(0);
            }
        }

        assert!(refusals > 0 && waited() >= 120_000_000, "{refusals} refusals");
        family.is_sound(1);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ids_of_one_platform_account_with_one_refresh_token_use_it_once() {
    on_family(async |stage, family| {
        let import = json!({"creator_id": "copy", "platform": DELTA, "auth": first_tokens()});
        assert_eq!(stage.client.post("/v1/connect/import", &import).await.status, 201);
        for round in 1..=2 {
            stage.app.advance_seconds(3_600);
            family.gate.add_permits(1);
            let copy = stage.client.get("/v1/copy/native/chats");
            let (own, copy) = tokio::join!(stage.get("chats"), copy);
            assert_eq!((own.status, copy.status), (200, 200), "{} {}", own.text(), copy.text());
            family.is_sound(round);
        }
        stage
    })
    .await;
}

/// The path of a call of the account `eve`.
const EVES: &str = "/v1/eve/native/chats";

/// Three nodes, and `eve` with tokens that end in an hour.
async fn on_nodes(test: impl AsyncFn(Nodes, TokenFamily) -> Nodes) {
    let family = TokenFamily::new();
    let raw = family.platform().await;
    let overrides = oauth(&raw);
    let database = store::testing::postgres().await;
    Nodes::on(database, &overrides, raw, async |nodes| {
        let import = json!({"creator_id": "eve", "platform": DELTA, "auth": first_tokens()});
        let client = &nodes.stage.client;
        assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);
        Box::pin(test(nodes, family.clone())).await
    })
    .await;
}

/// Moves the clock by five seconds, once those who refresh have renewed their claim.
async fn move_on(nodes: &Nodes) {
    const CLAIM: &str = "
        select cast(coalesce(refresh_claimed_until, 9223372036854775807) as text) as line
        from accounts where creator_id = 'eve'";
    nodes.stage.app.advance_seconds(5);
    // It is renewed once it is ten seconds old, and each step is five.
    let renewed = nodes.stage.app.clock.now().plus_seconds(25).unix_micros();
    loop {
        let claims = store::testing::lines(nodes.stage.app.store(), CLAIM).await.unwrap();
        if claims[0].parse::<i64>().unwrap() > renewed {
            return;
        }
    }
}

async fn state_of_eve(client: &Client) -> String {
    client.get("/v1/accounts/eve").await.json()["state"].as_str().unwrap_or_default().to_owned()
}

/// The second node sends the old token, which the endpoint has made worthless already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_node_that_waits_for_another_ones_refresh_marks_no_account() {
    on_nodes(async |nodes, family| {
        let clients = nodes.own_clients();
        // It has ten seconds left.
        nodes.stage.app.advance_seconds(3_590);
        let (first, second, ()) = tokio::join!(
            clients[0].get(EVES),
            async {
                asked(&nodes.stage, 1).await;
                clients[1].get(EVES).await
            },
            async {
                let is_refused = |it: &Seen| it.target() != "/oauth/token";
                while !nodes.stage.platform.calls().iter().any(is_refused) {
                    tokio::task::yield_now().await;
                }
                for _ in 0..12 {
                    move_on(&nodes).await;
                }
            }
        );
        // The second node has sent the old token; what its call holds comes back a moment later.
        for reply in [&first, &second] {
            assert_eq!(
                reply.failure(),
                (503, "platform_unavailable".to_owned()),
                "{}",
                reply.text()
            );
            assert_eq!(reply.receipt().0, 0);
        }
        assert_eq!(state_of_eve(&clients[2]).await, "active");

        family.gate.add_permits(1);
        for client in &clients {
            assert_eq!(client.get(EVES).await.status, 200);
        }
        assert_eq!(state_of_eve(&clients[0]).await, "active");
        family.is_sound(1);
        nodes
    })
    .await;
}

/// Calls until one is answered by the platform.
async fn carried_out(client: Client) {
    loop {
        let reply = client.get(EVES).await;
        if reply.status == 200 {
            return;
        }
        assert_eq!(reply.failure(), (503, "platform_unavailable".to_owned()), "{}", reply.text());
    }
}

/// One refresh, begun by the last node: the endpoint answers after `answers_s` seconds, and that
/// node begins to stop after `stops_s`.
async fn slow_refresh(
    nodes: &mut Nodes,
    family: &TokenFamily,
    answers_s: i64,
    stops_s: Option<i64>,
) {
    let used = exchanges(&nodes.stage);
    nodes.stage.app.advance_seconds(3_600);
    let mut clients = nodes.own_clients();
    let beginner = clients.pop().unwrap();
    let (mut calls, mut stops) = (JoinSet::new(), JoinSet::new());
    calls.spawn(async move {
        match stops_s {
            None => carried_out(beginner).await,
            Some(_) => assert!([200, 503].contains(&beginner.get(EVES).await.status)),
        }
    });
    asked(&nodes.stage, used + 1).await;
    for client in clients {
        calls.spawn(carried_out(client));
    }
    for moved_s in (0..answers_s).step_by(5) {
        if stops_s == Some(moved_s) {
            stops.spawn(nodes.retire_last());
        }
        move_on(nodes).await;
    }
    family.gate.add_permits(1);
    calls.join_all().await;
    stops.join_all().await;

    family.is_sound(used + 1);
    assert_eq!(state_of_eve(&nodes.stage.client).await, "active");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn slow_token_endpoints_and_orderly_stops_mark_no_account_and_lose_no_token() {
    on_nodes(async |mut nodes, family| {
        for answers_s in [0, 5, 10, 40] {
            slow_refresh(&mut nodes, &family, answers_s, None).await;
        }
        for (stops_s, seed) in [(0, 81), (15, 82), (35, 83)] {
            slow_refresh(&mut nodes, &family, 40, Some(stops_s)).await;
            nodes.start_with_id("", seed).await;
        }
        for client in nodes.own_clients() {
            carried_out(client).await;
        }
        family.is_sound(7);
        nodes
    })
    .await;
}
