//! The choice of notices: who may make it, and that a change is that change alone.

use serde_json::{Value, json};
use test_service::{Client, Reply, with_app};

const NOTICES: &str = "/v1/notices";
const SWITCHES: [&str; 8] = [
    "low_balance",
    "key_budgets",
    "expiring_credits",
    "expiring_card",
    "payments",
    "subscription_end",
    "key_changes",
    "exports",
];

async fn patch(client: &Client, body: &Value) -> Reply {
    client.json("PATCH", NOTICES, body).await
}

async fn shown(client: &Client) -> Value {
    let reply = client.get(NOTICES).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The number of changes in the audit list.
async fn changes(client: &Client) -> usize {
    let audit = client.get("/v1/audit?action=notices.changed").await.json();
    audit["entries"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_switch_changes_alone_and_back() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let first = shown(&client).await;
        for switch in SWITCHES {
            let (old, new) = (first[switch].as_bool().unwrap(), !first[switch].as_bool().unwrap());
            let mut expected = first.clone();
            expected[switch] = json!(new);

            let changed = patch(&client, &json!({switch: new})).await.json();

            assert_eq!(changed, expected, "{switch}");
            assert_eq!(shown(&client).await, expected, "{switch}");
            assert_eq!(patch(&client, &json!({switch: old})).await.json(), first, "{switch}");
        }
        assert_eq!(changes(&client).await, 2 * SWITCHES.len());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_threshold_and_its_switch_change_independently() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let pair = |notices: &Value| {
            (notices["low_balance"].clone(), notices["low_balance_credits"].clone())
        };

        let off = patch(&client, &json!({"low_balance": false})).await.json();
        let lower = patch(&client, &json!({"low_balance_credits": 1})).await.json();
        let on = patch(&client, &json!({"low_balance": true})).await.json();
        let highest = patch(&client, &json!({"low_balance_credits": 1_000_000_000})).await.json();

        assert_eq!(pair(&off), (json!(false), json!(50)));
        assert_eq!(pair(&lower), (json!(false), json!(1)), "still off");
        assert_eq!(pair(&on), (json!(true), json!(1)), "still 1");
        assert_eq!(pair(&highest), (json!(true), json!(1_000_000_000)));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_field_changes_nothing_and_the_others_are_not_stored() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let first = shown(&client).await;
        for (body, field) in [
            (json!({"payments": false, "low_balance_credits": -1}), "low_balance_credits"),
            (json!({"payments": false, "low_balance_credits": 1.5}), "low_balance_credits"),
            (json!({"payments": false, "low_balance_credits": "50"}), "low_balance_credits"),
            (json!({"payments": 0}), "payments"),
            (json!({"payments": false, "everything": true}), "everything"),
        ] {
            let refused = patch(&client, &body).await;

            let places: Vec<String> =
                refused.wrong_fields().into_iter().map(|(place, _)| place).collect();
            assert_eq!(places, [format!("body.{field}")], "{body}");
        }
        assert_eq!(shown(&client).await, first);
        assert_eq!(changes(&client).await, 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_without_full_rights_may_not_choose() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 10).await;
        let key = async |limits: Value| {
            let made = client.post("/v1/auth/keys", &limits).await;
            assert_eq!(made.status, 201, "{}", made.text());
            app.with_key(made.json()["api_key"].as_str().unwrap())
        };
        let reader = key(json!({"name": "reader", "scope": "read_only"})).await;
        let limited = key(json!({"name": "limited", "scope": "full", "accounts": [account]})).await;
        let first = shown(&client).await;
        let change = json!({"payments": false});

        assert_eq!(shown(&reader).await, first, "it may read them");
        assert_eq!(patch(&reader, &change).await.status, 403);
        assert_eq!(limited.get(NOTICES).await.status, 403);
        assert_eq!(patch(&limited, &change).await.status, 403);
        assert_eq!(app.anonymous().get(NOTICES).await.status, 401);
        assert_eq!(shown(&client).await, first);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_choice_of_one_customer_changes_no_other() {
    with_app(async |app| {
        let (one, other) =
            (app.with_key(&app.customer(0).await.key), app.with_key(&app.customer(0).await.key));
        let first = shown(&other).await;

        patch(&one, &json!({"exports": true, "low_balance_credits": 9})).await;
        let app = app.restart().await;

        let one = one.at(app.running().address());
        let other = other.at(app.running().address());
        let kept = shown(&one).await;
        assert_eq!((&kept["exports"], &kept["low_balance_credits"]), (&json!(true), &json!(9)));
        assert_eq!(shown(&other).await, first);
        app
    })
    .await;
}
