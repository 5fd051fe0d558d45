//! Limited keys: limited to some accounts, by a monthly budget, by an expiry; and a limited key
//! cannot widen its limits.

use serde_json::{Value, json};
use test_service::nodes::{on_hearing_and_deaf_nodes, read};
use test_service::platform::{Script, Seen};
use test_service::stage::{Stage, auth, on_stage};
use test_service::{Client, Reply, TestApp, at_once, with_app};

const KEYS: &str = "/v1/auth/keys";
const NEXT_MONTH: &str = "2026-12-01T00:00:00.000000Z";
/// From the clock's noon of 2026-11-21 to the first of December.
const SECONDS_TO_NEXT_MONTH: i64 = 9 * 86_400 + 12 * 3_600;
/// For tests of many calls, which must not reach the rate limit of one key.
const FAST: &str = "[rate_limits]\nper_key_per_second = 1000000\nper_key_burst = 1000000";

fn ok(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

/// Creates a key with these limits.
async fn make(client: &Client, limits: Value) -> Value {
    let mut body = json!({"name": "made", "scope": "full"});
    body.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    let reply = client.post(KEYS, &body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// The same, with a client that uses the key.
async fn limited(app: &TestApp, client: &Client, limits: Value) -> (String, Client) {
    let made = make(client, limits).await;
    (text(&made["key_id"]), app.with_key(&text(&made["api_key"])))
}

async fn patch(client: &Client, key: &str, body: Value) -> Reply {
    client.json("PATCH", &format!("{KEYS}/{key}"), &body).await
}

/// A key as its owner sees it in the list.
async fn listed(client: &Client, key: &str) -> Value {
    let keys = client.get(KEYS).await.json();
    let found = keys["keys"].as_array().unwrap().iter().find(|listed| listed["key_id"] == key);
    found.unwrap_or_else(|| panic!("{key} is not in {keys}")).clone()
}

async fn second_account(stage: &Stage) {
    let auth = auth("platform_alpha");
    let import = json!({"creator_id": "eve", "platform": "platform_alpha", "auth": auth});
    assert_eq!(stage.client.post("/v1/connect/import", &import).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_shows_a_keys_limits_and_its_use() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let limits = json!({
            "accounts": ["ada"], "monthly_budget_credits": 7, "expires_at": "2026-12-24T18:00:00+01:00",
        });
        let (key, caller) = limited(&stage.app, &stage.client, limits).await;
        stage.app.advance_seconds(60);
        assert_eq!(caller.get(&stage.path("users/me")).await.status, 200);
        stage.app.settled(&stage.client).await;

        let shown = listed(&stage.client, &key).await;

        assert_eq!(shown["accounts"], json!(["ada"]));
        assert_eq!(shown["monthly_budget_credits"], 7);
        assert_eq!(shown["expires_at"], "2026-12-24T17:00:00.000000Z");
        assert_eq!((&shown["used_this_month"], &shown["scope"]), (&json!(1), &json!("full")));
        assert_eq!(shown["last_used_at"], "2026-11-21T12:01:00.000000Z");
        assert_eq!(stage.client.get(KEYS).await.json()["budgets_reset_at"], NEXT_MONTH);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_use_other_than_calls_is_recorded_and_survives_a_restart() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let owner = app.with_key(&customer.key);
        let (key, caller) = limited(&app, &owner, json!({})).await;
        assert_eq!(listed(&owner, &key).await["last_used_at"], Value::Null);
        app.advance_seconds(5);
        assert_eq!(caller.get("/v1/whoami").await.status, 200);

        let before = listed(&owner, &key).await["last_used_at"].clone();
        let app = app.restart().await;

        let returned = app.with_key(&customer.key);
        assert_eq!(before, "2026-11-21T12:00:05.000000Z");
        assert_eq!(listed(&returned, &key).await["last_used_at"], before);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_limits_are_reported_and_create_no_key() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let many: Vec<String> = (0..101).map(|number| format!("a{number}")).collect();
        let cases = [
            (json!({"accounts": []}), "accounts", "too_short"),
            (json!({"accounts": many}), "accounts", "too_long"),
            (json!({"accounts": ["ada", "nobody"]}), "accounts", "not_found"),
            (json!({"monthly_budget_credits": -1}), "monthly_budget_credits", "out_of_range"),
            (json!({"expires_at": "2026-11-21T12:00:00Z"}), "expires_at", "out_of_range"),
            (json!({"expires_at": "2027-01-01"}), "expires_at", "bad_format"),
            (json!({"expires_at": "2027-01-01T00:00:00"}), "expires_at", "bad_format"),
        ];
        for (limits, field, kind) in cases {
            let mut body = json!({"name": "made", "scope": "full"});
            body.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
            let expected = [(format!("body.{field}"), kind.to_owned())];

            let new = stage.client.post(KEYS, &body).await;
            let changed = patch(&stage.client, &stage.customer.key_id, limits.clone()).await;

            assert_eq!(new.wrong_fields(), expected, "{limits}");
            assert_eq!(changed.wrong_fields(), expected, "{limits}");
        }
        let keys = stage.client.get(KEYS).await.json();
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
        assert_eq!(keys["keys"][0]["accounts"], Value::Null);
        stage
    })
    .await;
}

/// A thousand concurrent calls on a budget of ten: ten of them reach the platform.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_not_exceeded_by_concurrent_calls() {
    on_stage("platform_alpha", FAST, ok, async |stage| {
        stage.grant(10_000).await;
        let (key, reader) =
            limited(&stage.app, &stage.client, json!({"monthly_budget_credits": 10})).await;
        let (_, writer) =
            limited(&stage.app, &stage.client, json!({"monthly_budget_credits": 11})).await;
        let calls = (0..1_000).map(|number| {
            let (reader, writer, path) = (reader.clone(), writer.clone(), stage.path("users/me"));
            async move {
                if number < 500 {
                    reader.get(&path).await
                } else {
                    writer.post(&path, &json!({})).await
                }
            }
        });

        let replies = at_once(calls).await;

        let (got, posted) = replies.split_at(500);
        let answered = |some: &[Reply]| some.iter().filter(|reply| reply.status == 200).count();
        assert_eq!((answered(got), answered(posted)), (10, 5));
        let sent = stage.platform.calls();
        let sent = |method: &str| sent.iter().filter(|seen| seen.method() == method).count();
        assert_eq!((sent("GET"), sent("POST")), (10, 5));
        let refused = got.iter().find(|reply| reply.status != 200).unwrap();
        assert_eq!(refused.failure(), (402, "key_budget_exhausted".to_owned()));
        let body = refused.json();
        assert_eq!((&body["key_id"], &body["resets_at"]), (&json!(key), &json!(NEXT_MONTH)));
        assert_eq!(
            (&body["budget"], &body["used"], &body["cost"]),
            (&json!(10), &json!(10), &json!(1))
        );
        assert!(body["detail"].as_str().unwrap().contains(&key), "{body}");
        stage.app.settled(&stage.client).await;
        assert_eq!(listed(&stage.client, &key).await["used_this_month"], 10);
        stage
    })
    .await;
}

/// All thousand calls with one key, on nodes that receive notices and on nodes that do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_budget_is_shared_by_all_nodes() {
    on_hearing_and_deaf_nodes(FAST, ok, async |nodes| {
        nodes.stage.grant(10_000).await;
        let made = make(&nodes.stage.client, json!({"monthly_budget_credits": 10})).await;
        let clients = nodes.clients(&text(&made["api_key"]));
        let calls = (0..1_000).map(|number| {
            let (client, path) = (clients[number % 3].clone(), nodes.stage.path("users/me"));
            async move { client.get(&path).await.status }
        });

        let statuses = at_once(calls).await;

        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10);
        assert_eq!(statuses.iter().filter(|status| **status == 402).count(), 990);
        assert_eq!(nodes.stage.platform.calls().len(), 10);
        nodes
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_the_platform_did_not_answer_do_not_count_against_the_budget() {
    let script = |_: &Seen, number| Script::json(if number < 3 { 500 } else { 404 }, "{}");
    on_stage("platform_alpha", "", script, async |stage| {
        let budget = json!({"monthly_budget_credits": 1});
        let (_, caller) = limited(&stage.app, &stage.client, budget).await;
        let path = stage.path("users/me");

        for _ in 0..3 {
            assert_eq!(caller.get(&path).await.status, 500);
            stage.app.settled(&stage.client).await;
        }
        assert_eq!(caller.get(&path).await.status, 404, "the platform's own 404 is charged");
        stage.app.settled(&stage.client).await;

        assert_eq!(caller.get(&path).await.code(), "key_budget_exhausted");
        assert_eq!(stage.platform.calls().len(), 4);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_full_again_with_the_next_utc_month() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let budget = json!({"monthly_budget_credits": 2});
        let (key, caller) = limited(&stage.app, &stage.client, budget).await;
        let path = stage.path("lists");
        assert_eq!(caller.post(&path, &json!({})).await.status, 200);

        stage.app.advance_seconds(SECONDS_TO_NEXT_MONTH - 1);
        assert_eq!(caller.post(&path, &json!({})).await.code(), "key_budget_exhausted");
        stage.app.advance_seconds(1);
        assert_eq!(caller.post(&path, &json!({})).await.status, 200);
        assert_eq!(caller.post(&path, &json!({})).await.code(), "key_budget_exhausted");

        stage.app.settled(&stage.client).await;
        assert_eq!(listed(&stage.client, &key).await["used_this_month"], 2);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_response_needs_no_budget() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let budget = json!({"monthly_budget_credits": 2});
        let (_, caller) = limited(&stage.app, &stage.client, budget).await;
        let caller = caller.with("idempotency-key", "once");
        let path = stage.path("lists");
        assert_eq!(caller.post(&path, &json!({})).await.status, 200);

        let again = caller.post(&path, &json!({})).await;

        assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
        assert_eq!(stage.platform.calls().len(), 1);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_limits_apply_to_the_next_call() {
    on_stage("platform_alpha", "", ok, async |stage| {
        second_account(&stage).await;
        let (key, caller) =
            limited(&stage.app, &stage.client, json!({"monthly_budget_credits": 0})).await;
        let (ada, eve) = (stage.path("users/me"), "/v1/eve/native/users/me");
        assert_eq!(caller.get(&ada).await.code(), "key_budget_exhausted");

        let changed = patch(&stage.client, &key, json!({"monthly_budget_credits": 5})).await;
        assert_eq!((changed.status, &changed.json()["monthly_budget_credits"]), (200, &json!(5)));
        assert_eq!(caller.get(&ada).await.status, 200);
        patch(&stage.client, &key, json!({"accounts": ["eve"], "name": "of eve"})).await;
        assert_eq!(caller.get(&ada).await.code(), "account_not_found");
        assert_eq!(caller.get(eve).await.status, 200);
        let expiry = json!({"accounts": null, "expires_at": "2026-11-21T12:00:01Z"});
        patch(&stage.client, &key, expiry).await;
        assert_eq!(caller.get(&ada).await.status, 200);
        stage.app.advance_seconds(1);
        assert_eq!(caller.get(&ada).await.code(), "invalid_key");
        let ends = json!({"expires_at": null, "monthly_budget_credits": null});
        let endless = patch(&stage.client, &key, ends).await.json();

        assert_eq!(caller.get(&ada).await.status, 200);
        assert_eq!(endless["name"], "of eve");
        assert_eq!((&endless["expires_at"], &endless["accounts"]), (&Value::Null, &Value::Null));
        assert_eq!(endless["monthly_budget_credits"], Value::Null);
        assert_eq!(stage.platform.calls().len(), 4);
        stage
    })
    .await;
}

/// The limits that a node has cached are compared with those in force when the credits are held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn limits_changed_on_one_node_apply_on_the_others_even_without_notices() {
    on_hearing_and_deaf_nodes("", ok, async |nodes| {
        let stage = &nodes.stage;
        second_account(stage).await;
        let made = make(&stage.client, json!({"monthly_budget_credits": 50})).await;
        let key = text(&made["key_id"]);
        let clients = nodes.clients(&text(&made["api_key"]));
        for client in &clients {
            assert_eq!(read(stage, client).await.status, 200);
        }

        patch(&stage.client, &key, json!({"accounts": ["eve"]})).await;
        for client in &clients {
            assert_eq!(read(stage, client).await.code(), "account_not_found");
            assert_eq!(client.get("/v1/eve/native/users/me").await.status, 200);
        }
        patch(&stage.client, &key, json!({"accounts": null, "monthly_budget_credits": 6})).await;
        for client in &clients {
            assert_eq!(read(stage, client).await.code(), "key_budget_exhausted");
        }

        assert_eq!(stage.platform.calls().len(), 6);
        nodes
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_key_is_refused_and_sends_nothing() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let expiry = json!({"expires_at": "2026-11-21T12:00:30Z"});
        let (_, caller) = limited(&stage.app, &stage.client, expiry).await;
        let path = stage.path("users/me");
        stage.app.advance_seconds(29);
        assert_eq!(caller.get(&path).await.status, 200);
        assert_eq!(caller.get("/v1/whoami").await.status, 200);

        stage.app.advance_seconds(1);

        assert_eq!(caller.get(&path).await.failure(), (401, "invalid_key".to_owned()));
        assert_eq!(caller.post(&path, &json!({})).await.code(), "invalid_key");
        assert_eq!(caller.get("/v1/whoami").await.code(), "invalid_key");
        assert_eq!(stage.platform.calls().len(), 1);
        stage
    })
    .await;
}

/// With any limit: nothing that a limited key does may lead to a key that may do more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_cannot_read_or_change_other_keys() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let own = &stage.customer.key_id;
        for limits in [
            json!({"accounts": ["ada"]}),
            json!({"monthly_budget_credits": 10}),
            json!({"expires_at": "2027-01-01T00:00:00Z"}),
        ] {
            let (key, caller) = limited(&stage.app, &stage.client, limits.clone()).await;
            let new = json!({"name": "wider", "scope": "full"});
            let support = json!({"enabled": true});
            let refused = [
                caller.post(KEYS, &new).await,
                patch(&caller, &key, json!({"accounts": null})).await,
                patch(&caller, own, json!({"name": "x"})).await,
                caller.delete(&format!("{KEYS}/{own}")).await,
                caller.post("/v1/auth/keys/rotate", &json!({"key_id": own})).await,
                caller.post("/v1/support-access", &support).await,
                caller.get("/v1/support-access").await,
                caller.get("/v1/audit").await,
            ];

            for reply in refused {
                assert_eq!(reply.failure(), (403, "limited_key".to_owned()), "{limits}");
            }
            let seen = caller.get(KEYS).await.json();
            assert_eq!(seen["keys"].as_array().unwrap().len(), 1, "{seen}");
            assert_eq!(seen["keys"][0]["key_id"], key.as_str());
            let rotated = caller.post("/v1/auth/keys/rotate", &json!({})).await.json();
            let fresh = stage.app.with_key(&text(&rotated["api_key"]));
            assert_eq!(fresh.delete(&format!("{KEYS}/{key}")).await.status, 204);
        }
        assert_eq!(stage.client.get("/v1/whoami").await.status, 200);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_may_immediately_use_what_it_connects() {
    on_stage("platform_alpha", "", ok, async |stage| {
        let (key, caller) = limited(&stage.app, &stage.client, json!({"accounts": ["ada"]})).await;
        assert_eq!(caller.get(&stage.path("users/me")).await.status, 200);
        let import =
            json!({"creator_id": "eve", "platform": "platform_alpha", "auth": auth("platform_alpha")});

        assert_eq!(caller.post("/v1/connect/import", &import).await.status, 201);

        assert_eq!(caller.get("/v1/eve/native/users/me").await.status, 200);
        assert_eq!(listed(&stage.client, &key).await["accounts"], json!(["ada", "eve"]));
        stage
    })
    .await;
}

/// However an import ends, only an account that it created joins the list, and for an account
/// beyond the limits the platform is not called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_import_does_not_change_the_list_of_a_limited_key() {
    on_stage("platform_alpha", "", ok, async |stage| {
        second_account(&stage).await;
        let (key, caller) = limited(&stage.app, &stage.client, json!({"accounts": ["ada"]})).await;
        let asked = stage.platform.seen().len();
        let import = |name: &str, platform: &str| {
            json!({"creator_id": name, "platform": platform, "auth": auth(platform)})
        };

        let foreign = caller.post("/v1/connect/import", &import("eve", "platform_alpha")).await;
        let elsewhere = caller.post("/v1/connect/import", &import("eve", "platform_beta")).await;
        let own_elsewhere = caller.post("/v1/connect/import", &import("ada", "platform_beta")).await;
        let unproven = caller.post("/v1/connect/import", &import("new", "platform_beta")).await;

        assert_eq!(stage.platform.seen().len(), asked);
        assert_eq!(foreign.failure(), (404, "account_not_found".to_owned()));
        assert_eq!(elsewhere.failure(), (404, "account_not_found".to_owned()));
        assert_eq!(own_elsewhere.failure(), (409, "creator_exists".to_owned()));
        assert_eq!(unproven.failure(), (400, "verification_failed".to_owned()));
        assert_eq!(listed(&stage.client, &key).await["accounts"], json!(["ada"]));
        let used = caller.get("/v1/eve/native/users/me").await;
        assert_eq!(used.failure(), (404, "account_not_found".to_owned()));
        stage
    })
    .await;
}

/// An import of the wrong credentials must not redirect the calls of a name to another account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_changes_its_identity_only_on_request() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 10).await;
        let known = simulators::demo_accounts(&app.settings);
        let other = known.iter().filter(|known| known.platform == "platform_alpha").nth(1).unwrap();
        let mut import =
            json!({"creator_id": account, "platform": "platform_alpha", "auth": other.auth});
        let shown = format!("/v1/accounts/{account}");
        let me = format!("/v1/{account}/native/users/me");
        let (before, own) = (client.get(&shown).await.json(), client.get(&me).await.json());

        let refused = client.post("/v1/connect/import", &import).await;
        let unchanged = (client.get(&shown).await.json(), client.get(&me).await.json());
        import["replace_identity"] = json!(true);
        let replaced = client.post("/v1/connect/import", &import).await;
        let now = client.get(&me).await.json();

        assert_eq!(refused.failure(), (409, "other_identity".to_owned()));
        assert_eq!(unchanged, (before.clone(), own.clone()));
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        assert_ne!(replaced.json()["platform_account_id"], before["platform_account_id"]);
        assert_ne!(now["id"], own["id"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_keys_of_a_customer_is_limited() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[keys]\ncount_max = 5").await;
    let client = app.with_key(&app.customer(0).await.key);
    let body = json!({"name": "made", "scope": "full"});
    let makers = (0..20).map(|_| {
        let (client, body) = (client.clone(), body.clone());
        async move { client.post(KEYS, &body).await }
    });

    let replies = at_once(makers).await;

    let made = replies.iter().filter(|reply| reply.status == 201).count();
    let refused = replies.iter().filter(|reply| reply.code() == "too_many_keys").count();
    assert_eq!((made, refused), (4, 16));
    let one = replies.iter().find(|reply| reply.status == 201).unwrap().json();
    let path = format!("{KEYS}/{}", text(&one["key_id"]));
    assert_eq!(client.delete(&path).await.status, 204);
    assert_eq!(client.post(KEYS, &body).await.status, 201);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_list_has_changes_of_accounts() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 1).await;
        app.advance_seconds(1);
        app.connect(&customer, "platform_alpha").await;
        app.advance_seconds(1);
        client.delete(&format!("/v1/accounts/{account}")).await;
        client.delete(&format!("/v1/accounts/{account}")).await;

        let list = client.get("/v1/audit?action=account.").await.json();

        let told: Vec<(String, Value)> = list["entries"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .map(|entry| (text(&entry["action"]), entry["details"].clone()))
            .collect();
        let fields = json!({"creator_id": account, "platform": "platform_alpha"});
        let connected = ("account.connected".to_owned(), fields);
        let deleted = ("account.deleted".to_owned(), json!({"creator_id": account}));
        assert_eq!(told, [connected.clone(), connected, deleted]);
        app
    })
    .await;
}

/// All changes of keys are recorded, with who made them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_list_has_changes_of_keys() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let made = make(&client, json!({"monthly_budget_credits": 3})).await;
        let key = text(&made["key_id"]);
        app.advance_seconds(1);
        patch(&client, &key, json!({"name": "other", "expires_at": "2027-01-01T00:00:00Z"})).await;
        app.advance_seconds(1);
        client.post("/v1/auth/keys/rotate", &json!({"key_id": key})).await;
        app.advance_seconds(1);
        client.delete(&format!("{KEYS}/{key}")).await;

        let list = client.get("/v1/audit?action=key.").await;

        let entries = list.json()["entries"].as_array().unwrap().clone();
        let told: Vec<(&str, Value)> = entries
            .iter()
            .rev()
            .map(|entry| (entry["action"].as_str().unwrap(), entry["details"].clone()))
            .collect();
        let made_so = json!({
            "key_id": key, "name": "made", "scope": "full", "monthly_budget_credits": 3,
        });
        let until = "2027-01-01T00:00:00.000000Z";
        let changed = json!({"key_id": key, "name": "other", "expires_at": until});
        let only_key = json!({"key_id": key});
        assert_eq!(
            told,
            [
                ("key.created", made_so),
                ("key.changed", changed),
                ("key.rotated", only_key.clone()),
                ("key.deleted", only_key),
            ]
        );
        assert!(entries.iter().all(|entry| entry["actor"] == customer.key_id.as_str()));
        assert!(!list.text().contains(&text(&made["api_key"])));
        app
    })
    .await;
}

/// Including reads that a platform accepts by `POST`: the method decides (specification 5.2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_key_cannot_call_native_writes_of_any_platform() {
    with_app(async |app| {
        let customer = app.customer(100).await;
        let owner = app.with_key(&customer.key);
        let reading = json!({"name": "r", "scope": "read_only"});
        let made = owner.post(KEYS, &reading).await.json();
        let reader = app.with_key(&text(&made["api_key"]));
        let platforms = ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"];
        let mut tried = 0;

        for platform in platforms {
            let account = app.connect(&customer, platform).await;
            let before = app.seen(platform).await.len();
            let routes =
                reader.get(&format!("/v1/platforms/{platform}/routes?limit=500")).await.json();
            for route in routes["routes"].as_array().unwrap() {
                let (method, path) = (text(&route["method"]), text(&route["path"]));
                if method == "GET" {
                    continue;
                }
                let path = format!("/v1/{account}/native/{}", path.replace(['{', '}'], ""));
                let reply = reader.json(&method, &path, &json!({})).await;
                assert_eq!(reply.failure(), (403, "read_only_key".to_owned()), "{method} {path}");
                tried += 1;
            }
            assert_eq!(app.seen(platform).await.len(), before, "{platform}");
        }

        assert!(tried > 150, "{tried} writes are in the catalogues");
        assert_eq!(owner.get("/v1/billing").await.json()["balance"], 100);
        app
    })
    .await;
}
