//! Three nodes on one PostgreSQL: they agree on keys, accounts and credits, and any of them may
//! die.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "an unexpected value must fail the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use store::takeover::TakeoverWatch;
use test_service::at_once;
use test_service::client::{Client, Reply};
use test_service::nodes::{
    Nodes, on_hearing_and_deaf_nodes, on_three_nodes, on_three_nodes_of, read,
};
use test_service::platform::{RawPlatform, Script, Seen, answer};
use test_service::stage::{CREDITS, auth};
use tokio::sync::Semaphore;

/// For tests of many calls, which must not reach the rate limit of one key.
const FAST: &str = "[rate_limits]\nper_key_per_second = 1000000\nper_key_burst = 1000000";

/// An id for a node that is restarted with it.
const NODE: &str = "node_019ab3c4d5e67f8091a2b3c4d5e6f708";

fn ok(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn all_nodes_share_keys_accounts_and_credits() {
    on_three_nodes("", ok, async |nodes| {
        let clients = nodes.own_clients();
        let body = json!({"name": "made on the second", "scope": "full"});
        let made = clients[1].post("/v1/auth/keys", &body).await.json();
        let fresh = nodes.clients(made["api_key"].as_str().unwrap());

        let mut left = CREDITS;
        for client in clients.iter().chain(&fresh) {
            let reply = read(&nodes.stage, client).await;
            left -= 1;
            assert_eq!((reply.status, reply.receipt()), (200, (1, left)), "{}", reply.text());
        }

        nodes.stage.app.settled(&clients[0]).await;
        let shown = |path: &'static str| {
            let clients = clients.clone();
            at_once(
                clients.into_iter().map(move |client| async move { client.get(path).await.json() }),
            )
        };
        for path in ["/v1/billing", "/v1/auth/keys", "/v1/accounts", "/v1/billing/usage/recent"] {
            let views = shown(path).await;
            assert!(views[0] == views[1] && views[1] == views[2], "{path}: {views:?}");
        }
        assert_eq!(shown("/v1/billing").await[2]["balance"], left);
        nodes
    })
    .await;
}

/// A thousand concurrent calls on three nodes, on a balance of one: one of them reaches the
/// platform.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn one_credit_pays_for_one_call_across_all_nodes() {
    on_three_nodes(FAST, ok, async |nodes| {
        let poor = nodes.stage.app.customer(1).await;
        let clients = nodes.clients(&poor.key);
        let import =
            json!({"creator_id": "ada", "platform": "platform_alpha", "auth": auth("platform_alpha")});
        assert_eq!(clients[0].post("/v1/connect/import", &import).await.status, 201);
        let path = nodes.stage.path("users/me");

        let calls = (0..1_000).map(|number| {
            let (client, path) = (clients[number % 3].clone(), path.clone());
            async move { client.get(&path).await }
        });
        let replies = at_once(calls).await;

        let answered = replies.iter().filter(|reply| reply.status == 200).count();
        let refused = replies
            .iter()
            .filter(|reply| reply.failure() == (402, "insufficient_credits".to_owned()))
            .count();
        assert_eq!((answered, refused), (1, 999));
        assert_eq!(nodes.stage.platform.calls().len(), 1);
        nodes.stage.app.settled(&clients[2]).await;
        assert_eq!(clients[2].get("/v1/billing").await.json()["balance"], 0);
        nodes
    })
    .await;
}

/// Twice as many concurrent reads as there are credits, on nodes that have all seen the balance:
/// some of them reach the platform in vain, but as many as there are credits are answered and
/// charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn credits_that_run_out_on_three_nodes_at_once_pay_for_exactly_as_many_reads() {
    const GRANTED: i64 = 103;
    on_three_nodes(FAST, ok, async |nodes| {
        let poor = nodes.stage.app.customer(GRANTED).await;
        let clients = nodes.clients(&poor.key);
        let import =
            json!({"creator_id": "ada", "platform": "platform_alpha", "auth": auth("platform_alpha")});
        assert_eq!(clients[0].post("/v1/connect/import", &import).await.status, 201);
        for client in &clients {
            assert_eq!(read(&nodes.stage, client).await.status, 200);
        }
        let path = nodes.stage.path("users/me");

        let calls = (0..200).map(|number| {
            let (client, path) = (clients[number % 3].clone(), path.clone());
            async move { client.get(&path).await }
        });
        let replies = at_once(calls).await;

        let answered: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        let refused = replies
            .iter()
            .filter(|reply| reply.failure() == (402, "insufficient_credits".to_owned()))
            .count();
        assert_eq!((answered.len(), refused), (100, 100));
        assert!(answered.iter().all(|reply| reply.receipt().0 == 1 && reply.receipt().1 >= 0));
        nodes.stage.app.settled(&clients[2]).await;
        assert_eq!(held_and_balance(&clients[1]).await, (0, 0));
        nodes
    })
    .await;
}

/// What callers of all nodes saw while their key was revoked.
struct Seeing {
    accepted: usize,
    /// Calls accepted although they began after the response to the revocation.
    accepted_too_late: usize,
    refused_after: usize,
}

/// Calls every node continuously with the stage's key while `end` revokes the key. Each caller
/// continues after the response to `end`; an atomic flag orders those calls after it.
async fn calls_around(nodes: &Nodes, end: impl AsyncFnOnce()) -> Seeing {
    const CALLERS: usize = 4;
    const AFTER: usize = 25;
    let is_over = Arc::new(AtomicBool::new(false));
    let counts: Vec<_> = (0..3).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let mut callers = tokio::task::JoinSet::new();
    for (client, accepted) in nodes.own_clients().iter().zip(&counts) {
        for _ in 0..CALLERS {
            let (client, path) = (client.clone(), nodes.stage.path("users/me"));
            let (is_over, accepted) = (Arc::clone(&is_over), Arc::clone(accepted));
            callers.spawn(async move {
                let (mut after, mut too_late) = (0, 0);
                while after < AFTER {
                    let began_after = is_over.load(Ordering::SeqCst);
                    let reply = client.get(&path).await;
                    assert!([200, 401].contains(&reply.status), "{}", reply.text());
                    if reply.status == 200 {
                        accepted.fetch_add(1, Ordering::SeqCst);
                    }
                    after += usize::from(began_after);
                    too_late += usize::from(began_after && reply.status != 401);
                }
                (after, too_late)
            });
        }
    }
    while counts.iter().any(|count| count.load(Ordering::SeqCst) < 20) {
        assert!(!callers.is_empty(), "at least one caller must be left");
        tokio::task::yield_now().await;
    }
    end().await;
    is_over.store(true, Ordering::SeqCst);
    let done = callers.join_all().await;
    Seeing {
        accepted: counts.iter().map(|count| count.load(Ordering::SeqCst)).sum(),
        accepted_too_late: done.iter().map(|(_, too_late)| too_late).sum(),
        refused_after: done.iter().map(|(after, too_late)| after - too_late).sum(),
    }
}

/// A read may have left with the old key, but then nobody got its response, and nobody paid.
async fn assert_dead_everywhere(nodes: &Nodes, client: &Client, seeing: &Seeing) {
    assert_eq!(seeing.accepted_too_late, 0, "of {} accepted calls", seeing.accepted);
    assert_eq!(seeing.refused_after, 3 * 4 * 25);
    assert!(nodes.stage.platform.calls().len() >= seeing.accepted);
    nodes.stage.app.settled(client).await;
    let spent = 1_000_000 + CREDITS - held_and_balance(client).await.1;
    assert_eq!(usize::try_from(spent).unwrap(), seeing.accepted);
}

/// Writes with a key that is no longer accepted reach no platform.
async fn assert_writes_are_not_sent(nodes: &Nodes) {
    let before = nodes.stage.platform.calls().len();
    for client in nodes.own_clients() {
        let write = client.post(&nodes.stage.path("lists"), &json!({})).await;
        assert_eq!(write.status, 401, "{}", write.text());
    }
    assert_eq!(nodes.stage.platform.calls().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_rotated_key_is_refused_on_every_node_after_the_response() {
    on_hearing_and_deaf_nodes(FAST, ok, async |mut nodes| {
        nodes.stage.grant(1_000_000).await;
        let mut fresh = String::new();
        let rotating = nodes.own_clients()[1].clone();

        let seeing = calls_around(&nodes, async || {
            let reply = rotating.post("/v1/auth/keys/rotate", &json!({})).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            fresh = reply.json()["api_key"].as_str().unwrap().to_owned();
        })
        .await;

        assert_writes_are_not_sent(&nodes).await;
        assert_dead_everywhere(&nodes, &nodes.clients(&fresh)[0], &seeing).await;
        for client in nodes.clients(&fresh) {
            assert_eq!(read(&nodes.stage, &client).await.status, 200);
        }
        nodes.stage.client = nodes.clients(&fresh).remove(0);
        nodes.stage.app.settled(&nodes.stage.client).await;
        nodes
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_deleted_key_is_refused_on_every_node_after_the_response() {
    on_hearing_and_deaf_nodes(FAST, ok, async |nodes| {
        nodes.stage.grant(1_000_000).await;
        let body = json!({"name": "other", "scope": "full"});
        let made = nodes.stage.client.post("/v1/auth/keys", &body).await.json();
        let others = nodes.clients(made["api_key"].as_str().unwrap());
        let path = format!("/v1/auth/keys/{}", nodes.stage.customer.key_id);

        let seeing = calls_around(&nodes, async || {
            let reply = others[2].delete(&path).await;
            assert_eq!(reply.status, 204, "{}", reply.text());
        })
        .await;

        assert_writes_are_not_sent(&nodes).await;
        assert_dead_everywhere(&nodes, &others[0], &seeing).await;
        nodes
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn the_grace_of_a_rotated_key_ends_on_every_node_at_the_same_time() {
    on_three_nodes("", ok, async |nodes| {
        let clients = nodes.own_clients();
        let statuses = async || {
            let mut statuses = Vec::new();
            for client in &clients {
                statuses.push(read(&nodes.stage, client).await.status);
            }
            statuses
        };
        let reply = clients[2].post("/v1/auth/keys/rotate", &json!({"expires_old_in_s": 40})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());

        let first = statuses().await;
        nodes.stage.app.advance_seconds(39);
        let last = statuses().await;
        nodes.stage.app.advance_seconds(1);
        let over = statuses().await;

        assert_eq!((first, last, over), (vec![200; 3], vec![200; 3], vec![401; 3]));
        nodes
    })
    .await;
}

/// Every node has the account cached when it is deleted on one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_deleted_account_is_gone_on_every_node_for_the_next_call() {
    on_hearing_and_deaf_nodes("", ok, async |nodes| {
        let clients = nodes.own_clients();
        for client in &clients {
            assert_eq!(read(&nodes.stage, client).await.status, 200);
        }
        let (_, balance) = held_and_balance(&clients[0]).await;

        let deleted = clients[0].delete(&format!("/v1/accounts/{}", nodes.stage.account)).await;
        assert_eq!(deleted.status, 204, "{}", deleted.text());

        for client in [&clients[2], &clients[1], &clients[0]] {
            let reply = read(&nodes.stage, client).await;
            assert_eq!(reply.failure(), (404, "account_not_found".to_owned()));
        }
        // Whether or not a read left before its node heard of it, nobody paid for it.
        nodes.stage.app.settled(&clients[0]).await;
        assert_eq!(held_and_balance(&clients[0]).await, (0, balance));
        nodes
    })
    .await;
}

/// Every node has the old credentials cached when they are changed on one of them, repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn changed_credentials_are_used_by_every_node_for_the_next_call() {
    on_hearing_and_deaf_nodes("", ok, async |nodes| {
        let clients = nodes.own_clients();
        for round in 0..6 {
            for client in &clients {
                assert_eq!(read(&nodes.stage, client).await.status, 200);
            }
            let token = format!("fresh-{round}");
            let mut fields = auth("platform_alpha");
            fields["session_token"] = json!(token);
            let import = json!({
                "creator_id": nodes.stage.account, "platform": "platform_alpha", "auth": fields,
            });
            let reply = clients[round % 3].post("/v1/connect/import", &import).await;
            assert_eq!(reply.status, 200, "{}", reply.text());

            for client in clients.iter().rev() {
                assert_eq!(read(&nodes.stage, client).await.status, 200);
                let session = nodes.stage.platform.last_call();
                assert_eq!(session.header("authorization"), Some(&*format!("Session {token}")));
            }
        }
        nodes.stage.app.settled(&clients[0]).await;
        nodes
    })
    .await;
}

/// The same write sent sixty times to three nodes with one `Idempotency-Key` is sent and charged
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn one_idempotency_key_is_one_write_across_all_nodes() {
    let body = r#"{"id":"made once"}"#;
    let script = move |_: &Seen, _| Script::json(201, body);
    on_three_nodes("", script, async |nodes| {
        let keyed = |client: &Client| client.with("idempotency-key", "list-1");
        let clients: Vec<_> = nodes.own_clients().iter().map(keyed).collect();
        let path = nodes.stage.path("lists");
        let send = |client: Client| {
            let path = path.clone();
            async move { client.post(&path, &json!({"name": "regulars"})).await }
        };

        let replies = at_once((0..60).map(|number| send(clients[number % 3].clone()))).await;
        let late = at_once(clients.iter().cloned().map(send)).await;

        let is_replay = |reply: &Reply| reply.header("idempotent-replayed") == "true";
        let first = replies.iter().filter(|reply| reply.status == 201 && !is_replay(reply)).count();
        assert_eq!(first, 1);
        for reply in &replies {
            let is_running = reply.failure() == (409, "idempotency_in_progress".to_owned());
            assert!(reply.status == 201 || is_running, "{}", reply.text());
        }
        for reply in &late {
            assert!(is_replay(reply), "{}", reply.text());
            assert_eq!((reply.status, &reply.body[..]), (201, body.as_bytes()));
        }
        assert_eq!(nodes.stage.platform.calls().len(), 1);
        assert_eq!(nodes.stage.balance().await, CREDITS - 2);
        nodes
    })
    .await;
}

/// The same request to one of the service's own routes, sent thirty times to three nodes with one
/// `Idempotency-Key`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn one_idempotency_key_creates_one_key_across_all_nodes() {
    on_three_nodes("", ok, async |nodes| {
        let keyed = |client: &Client| client.with("idempotency-key", "key-1");
        let clients: Vec<_> = nodes.own_clients().iter().map(keyed).collect();
        let send = |client: Client| async move {
            client.post("/v1/auth/keys", &json!({"name": "made", "scope": "full"})).await
        };

        let replies = at_once((0..30).map(|number| send(clients[number % 3].clone()))).await;
        let late = at_once(clients.iter().cloned().map(send)).await;

        let is_replay = |reply: &Reply| reply.header("idempotent-replayed") == "true";
        for reply in &replies {
            let is_running = reply.failure() == (409, "idempotency_in_progress".to_owned());
            assert!(reply.status == 201 || is_running, "{}", reply.text());
        }
        let first = replies.iter().filter(|reply| reply.status == 201 && !is_replay(reply)).count();
        assert_eq!(first, 1);
        assert!(late.iter().all(|reply| is_replay(reply) && reply.body == late[0].body));
        let listed = clients[0].get("/v1/auth/keys").await.json();
        let made = listed["keys"].as_array().unwrap().iter().filter(|key| key["name"] == "made");
        assert_eq!(made.count(), 1, "{listed}");
        nodes
    })
    .await;
}

/// Writes wait at the platform for a permit; reads get a response immediately.
fn gated(gate: &Arc<Semaphore>) -> impl Fn(&Seen, usize) -> Script + Clone + Send + Sync + 'static {
    let script = Script::Gated(Arc::clone(gate), vec![answer(200, "", "{}")]);
    move |request, _| if request.method() == "POST" { script.clone() } else { ok(request, 0) }
}

/// Begins a write at a node and waits until the platform has it.
async fn begin_write(
    nodes: &Nodes,
    client: &Client,
) -> tokio::task::JoinSet<Result<Reply, String>> {
    let (client, path) = (client.with("idempotency-key", "gated"), nodes.stage.path("lists"));
    let mut call = tokio::task::JoinSet::new();
    call.spawn(async move { client.try_send("POST", &path, None).await });
    while nodes.stage.platform.calls().iter().all(|seen| seen.method() != "POST") {
        tokio::task::yield_now().await;
    }
    call
}

/// The outcomes in the call log of the first node.
async fn outcomes(nodes: &Nodes) -> Vec<(String, i64)> {
    let log = nodes.stage.client.get("/v1/billing/usage/recent").await.json();
    let end = |call: &serde_json::Value| {
        (
            call["outcome"].as_str().unwrap_or("open").to_owned(),
            call["credits"].as_i64().unwrap_or(-1),
        )
    };
    log["calls"].as_array().unwrap().iter().map(end).collect()
}

async fn held_and_balance(client: &Client) -> (i64, i64) {
    let billing = client.get("/v1/billing").await.json();
    (billing["held"].as_i64().unwrap(), billing["balance"].as_i64().unwrap())
}

/// A node dies with a write at the platform. Its hold remains until it expires, then any other node
/// refunds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn the_holds_of_a_killed_node_are_refunded_by_others_when_they_expire() {
    let gate = Arc::new(Semaphore::new(0));
    on_three_nodes("", gated(&gate), async |mut nodes| {
        let clients = nodes.own_clients();
        let mut call = begin_write(&nodes, &clients[2]).await;

        nodes.kill_last().await;
        gate.add_permits(1);
        nodes.stage.app.advance_seconds(170);
        let sweep = async || {
            store::testing::take_over(nodes.store_beside(0), nodes.stage.app.clock.now())
                .await
                .unwrap()
                .holds
        };
        let early = sweep().await;
        let before = held_and_balance(&clients[1]).await;
        nodes.stage.app.advance_seconds(1);
        sweep().await;

        assert_eq!((early, before), (0, (2, CREDITS - 2)));
        for client in &clients[..2] {
            assert_eq!(held_and_balance(client).await, (0, CREDITS));
            let again = client.with("idempotency-key", "gated");
            let again = again.send("POST", &nodes.stage.path("lists"), None).await;
            assert_eq!(again.failure(), (409, "outcome_unknown".to_owned()), "{}", again.text());
        }
        assert_eq!(outcomes(&nodes).await, [("expired".to_owned(), 0)]);
        call.abort_all();
        nodes
    })
    .await;
}

/// Ten minutes of the clock: each node renews, reports and looks every ten seconds, as it does by
/// itself, except from `away.0` to `away.1`, when the database takes nothing.
async fn ten_minutes(nodes: &Nodes, watches: &mut [TakeoverWatch], away: (i64, i64)) -> usize {
    let mut refunded = 0;
    for second in (0..600).step_by(10) {
        nodes.stage.app.advance_seconds(10);
        if (away.0..away.1).contains(&second) {
            continue;
        }
        for (running, watch) in nodes.running().into_iter().zip(&mut *watches) {
            running.renew_holds();
            assert!(running.beat().await.unwrap());
            refunded += running.look_for_lost_work(watch).await.unwrap().holds;
        }
    }
    refunded
}

/// Finding of a call whose head takes long: its own node gave its credits back, and charged it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_call_that_waits_for_ten_minutes_ends_once_whatever_clocks_and_databases_do() {
    let gate = Arc::new(Semaphore::new(0));
    on_three_nodes("", gated(&gate), async |nodes| {
        let clients = nodes.own_clients();
        let mut call = begin_write(&nodes, &clients[2]).await;
        let mut watches = [(); 3].map(|()| TakeoverWatch::default());

        let before = ten_minutes(&nodes, &mut watches, (200, 400)).await;
        nodes.stage.app.advance_seconds(600);
        let after_a_jump = ten_minutes(&nodes, &mut watches, (0, 0)).await;
        gate.add_permits(1);
        let reply = call.join_next().await.unwrap().unwrap().unwrap();

        assert_eq!((before, after_a_jump), (0, 0));
        assert_eq!((reply.status, reply.receipt()), (200, (2, CREDITS - 2)), "{}", reply.text());
        assert_eq!(outcomes(&nodes).await, [("answered".to_owned(), 2)]);
        for client in &clients {
            assert_eq!(held_and_balance(client).await, (0, CREDITS - 2));
            let again = client.with("idempotency-key", "gated");
            let again = again.send("POST", &nodes.stage.path("lists"), None).await;
            assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
        }
        nodes
    })
    .await;
}

/// A node settles a call only after another node has refunded its expired hold: the late settlement
/// changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_settlement_after_the_hold_expired_changes_nothing() {
    let gate = Arc::new(Semaphore::new(0));
    on_three_nodes("", gated(&gate), async |nodes| {
        let clients = nodes.own_clients();
        let mut call = begin_write(&nodes, &clients[2]).await;
        nodes.stage.app.advance_seconds(171);
        let now = nodes.stage.app.clock.now();
        let swept = store::testing::take_over(nodes.stage.app.store(), now).await.unwrap();
        assert_eq!(swept.holds, 1);
        assert_eq!(held_and_balance(&clients[0]).await, (0, CREDITS));

        // The response to a call with an `Idempotency-Key` follows the commit of its end.
        gate.add_permits(1);
        let late = call.join_next().await.unwrap().unwrap().unwrap();

        assert_eq!(late.status, 200, "{}", late.text());
        assert_eq!(outcomes(&nodes).await, [("expired".to_owned(), 0)]);
        assert_eq!(held_and_balance(&clients[1]).await, (0, CREDITS));
        nodes
    })
    .await;
}

/// A node that keeps its id refunds at its start the holds of its killed predecessor, and none of
/// the others'.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_restarted_node_refunds_only_its_own_calls() {
    let gate = Arc::new(Semaphore::new(0));
    on_three_nodes("", gated(&gate), async |mut nodes| {
        nodes.start_with_id(NODE, 73).await;
        let clients = nodes.own_clients();
        let mut lost = begin_write(&nodes, &clients[3]).await;
        let other = clients[0].clone();
        let path = nodes.stage.path("lists");
        let mut kept = tokio::task::JoinSet::new();
        kept.spawn(async move { other.send("POST", &path, None).await });
        while nodes.stage.platform.calls().len() < 2 {
            tokio::task::yield_now().await;
        }

        nodes.kill_last().await;
        nodes.start_with_id(NODE, 74).await;
        let recovered = held_and_balance(&clients[1]).await;
        gate.add_permits(2);
        let kept = kept.join_next().await.unwrap().unwrap();

        assert_eq!(recovered, (2, CREDITS - 2));
        assert_eq!(kept.status, 200, "{}", kept.text());
        nodes.stage.app.settled(&clients[1]).await;
        let mut ends = outcomes(&nodes).await;
        ends.sort();
        assert_eq!(ends, [("answered".to_owned(), 2), ("outcome_unknown".to_owned(), 0)]);
        lost.abort_all();
        nodes
    })
    .await;
}

/// Waits until a node shows this state for the first platform.
async fn platform_becomes(client: &Client, state: &str) {
    for _ in 0..10_000 {
        if client.get("/v1/platforms").await.json()["platforms"][0]["state"] == state {
            return;
        }
    }
    panic!("the platform did not become {state}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn all_nodes_know_when_a_platform_refuses_everyone_and_when_it_recovers() {
    let is_refusing = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&is_refusing);
    let raw = RawPlatform::deciding(move |request, _| {
        if refuses.load(Ordering::SeqCst) {
            return Script::json(401, "{}");
        }
        request.confirmation().unwrap_or_else(|| Script::json(200, "{}"))
    })
    .await;
    on_three_nodes_of(raw, async |nodes| {
        let mut at_nodes = vec![nodes.own_clients().remove(0)];
        for index in 1..3 {
            let customer = nodes.stage.app.customer(CREDITS).await;
            let client = nodes.clients(&customer.key).remove(index);
            let import = json!({
                "creator_id": "ada", "platform": "platform_alpha", "auth": auth("platform_alpha"),
            });
            assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);
            at_nodes.push(client);
        }
        nodes.stage.app.advance_seconds(1);
        is_refusing.store(true, Ordering::SeqCst);

        // Each account is refused on a different node, so none of them sees three refusals itself.
        for client in &at_nodes {
            let reply = read(&nodes.stage, client).await;
            assert_eq!((reply.status, reply.receipt()), (401, (0, CREDITS)));
        }
        for client in &at_nodes {
            platform_becomes(client, "refusing_credentials").await;
            assert_eq!(client.get("/v1/accounts/ada").await.json()["state"], "active");
        }

        is_refusing.store(false, Ordering::SeqCst);
        assert_eq!(read(&nodes.stage, &at_nodes[0]).await.status, 200);
        for client in &at_nodes {
            platform_becomes(client, "ok").await;
        }
        nodes
    })
    .await;
}
