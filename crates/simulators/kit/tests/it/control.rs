//! The control interface: what can be asked of all simulators, and of one of them.

use serde_json::{Value, json};

use crate::stub::{BODY, NOW_S, StubService};

#[tokio::test]
async fn the_index_lists_every_request_of_every_simulator() {
    let stub = StubService::new();
    for path in ["/control", "/control/"] {
        let (status, index) = stub.ask("GET", path, &Value::Null).await;

        assert_eq!(status, 200);
        let all = index["controls"].as_array().unwrap();
        let listed: Vec<String> = all
            .iter()
            .map(|it| {
                format!("{} {}", it["method"].as_str().unwrap(), it["path"].as_str().unwrap())
            })
            .collect();
        let expected = [
            "GET /control",
            "GET /control/health",
            "GET /control/faults",
            "POST /control/faults",
            "DELETE /control/faults/{id}",
            "DELETE /control/faults",
            "POST /control/clock",
            "POST /control/reset",
            "GET /control/stub",
        ];
        assert_eq!(listed, expected);
        assert!(all.iter().all(|it| !it["says"].as_str().unwrap().is_empty()));
    }
}

#[tokio::test]
async fn what_nobody_knows_is_not_found_and_points_to_the_index() {
    let stub = StubService::new();
    let missing = json!({"error": "no such control request; GET /control lists all of them"});
    for (method, path) in [
        ("GET", "/control/nothing"),
        ("PUT", "/control/faults"),
        ("GET", "/control/faults/1"),
        ("GET", "/control/clock"),
        ("POST", "/control/health"),
        ("GET", "/control//health"),
    ] {
        assert_eq!(stub.ask(method, path, &Value::Null).await, (404, missing.clone()), "{path}");
    }
}

#[tokio::test]
async fn a_path_of_no_simulator_is_no_platform() {
    let stub = StubService::new();
    for path in
        ["/", "/platform_gamma/items/1", "/platform_alphabet", "/Platform_alpha/items/1", "//x"]
    {
        let answer = stub.ask("GET", path, &Value::Null).await;

        assert_eq!(answer, (404, json!({"error": "no_such_platform"})), "{path}");
    }
    for path in ["/platform_alpha", "/platform_alpha/", "/platform_alpha?x=1"] {
        let (status, body) = stub.ask("GET", path, &Value::Null).await;

        assert_eq!((status, body.to_string()), (200, BODY.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_simulator_gets_its_own_requests_with_their_query_decoded() {
    let stub = StubService::new();

    let whole = stub.ask("GET", "/control/stub?word=a%20b+c&size=7&word=later", &Value::Null).await;
    let bare = stub.ask("GET", "/control/stub", &Value::Null).await;
    let wrong = stub.ask("GET", "/control/stub?size=-1", &Value::Null).await;

    assert_eq!(whole, (200, json!({"size": 7, "word": "a b c"})));
    assert_eq!(bare, (200, json!({"size": null, "word": null})));
    assert_eq!(wrong, (400, json!({"error": "size must be a number", "field": "size"})));
}

#[tokio::test]
async fn the_clock_moves_for_all_and_each_simulator_does_what_is_due() {
    let stub = StubService::new();

    let first = stub.ask("POST", "/control/clock", &json!({"advance_s": 5})).await;
    let second = stub.ask("POST", "/control/clock", &json!({"to": NOW_S + 86_400})).await;
    let nowhere = stub.ask("POST", "/control/clock", &Value::Null).await;
    let back = stub.ask("POST", "/control/clock", &json!({"to": NOW_S})).await;
    let far = stub.ask("POST", "/control/clock", &json!({"advance_days": i64::MAX})).await;
    let after = stub.ask("POST", "/control/clock", &json!({})).await;

    assert_eq!(first, (200, json!({"now": NOW_S + 5, "moved": 1})));
    assert_eq!(second, (200, json!({"now": NOW_S + 86_400, "moved": 2})));
    assert_eq!(nowhere, (200, json!({"now": NOW_S + 86_400, "moved": 3})));
    let ahead = json!({"error": "the clock can only move ahead", "field": "to"});
    assert_eq!(back, (400, ahead));
    assert_eq!((far.0, &far.1["field"]), (400, &json!("advance_s")));
    assert_eq!(after.1["now"], json!(NOW_S + 86_400), "a clock that was not moved stands still");
}

#[tokio::test]
async fn a_reset_forgets_the_faults_and_what_each_simulator_knows() {
    let stub = StubService::new();
    stub.add(&json!({"kind": "status"})).await;

    let reset = stub.ask("POST", "/control/reset", &Value::Null).await;

    assert_eq!(reset, (200, json!({"ok": true})));
    assert_eq!(stub.resets(), 1);
    assert_eq!(stub.ask("GET", "/platform_alpha/items/1", &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_fault_is_described_by_an_object() {
    let stub = StubService::new();
    for body in ["", "{", "kind=gzip"] {
        let reply = stub.reply("POST", "/control/faults", body).await;

        let said: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(said["field"], "body", "{body}");
        assert!(said["error"].as_str().unwrap().starts_with("body is not JSON: "), "{said}");
    }
    for body in ["[]", "null", "\"gzip\"", "7"] {
        let reply = stub.reply("POST", "/control/faults", body).await;

        let said: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(said["error"], "body must be an object with `kind`", "{body}");
    }
}

#[tokio::test]
async fn health_is_good_whatever_the_faults_are() {
    let stub = StubService::new();
    stub.add(&json!({"kind": "closed"})).await;

    assert_eq!(stub.ask("GET", "/control/health", &Value::Null).await, (200, json!({"ok": true})));
}
