//! Which requests a fault applies to, how often, and what is said of a rule that makes no sense.

use serde_json::{Value, json};

use crate::stub::StubService;

/// The statuses of requests one after the other: 500 where the fault applied.
async fn statuses(stub: &StubService, requests: &[(&str, &str)]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for (method, path) in requests {
        statuses.push(stub.ask(method, path, &Value::Null).await.0);
    }
    statuses
}

const EACH: [(&str, &str); 6] = [
    ("GET", "/platform_alpha/items/1"),
    ("GET", "/platform_alpha/items/2?limit=1"),
    ("POST", "/platform_alpha/items/1"),
    ("GET", "/platform_alpha/other"),
    ("GET", "/platform_beta/items/1"),
    ("DELETE", "/platform_beta/items/2"),
];

#[tokio::test]
async fn a_rule_applies_to_what_it_names_and_to_nothing_else() {
    for (conditions, expected) in [
        (json!({}), [500; 6]),
        (json!({"platform": "platform_beta"}), [200, 200, 200, 200, 500, 500]),
        (json!({"method": "GET"}), [500, 500, 200, 500, 500, 200]),
        (json!({"path": "items/1"}), [500, 200, 500, 200, 500, 200]),
        (json!({"path": "/items/1"}), [500, 200, 500, 200, 500, 200]),
        (json!({"path": "items/{id}"}), [500, 500, 500, 200, 500, 500]),
        (
            json!({"path": "items/{id}", "method": "POST", "platform": "platform_alpha"}),
            [200, 200, 500, 200, 200, 200],
        ),
        (json!({"platform": null, "method": null, "path": null}), [500; 6]),
    ] {
        let stub = StubService::new();
        let mut fault = json!({"kind": "status"});
        fault.as_object_mut().unwrap().extend(conditions.as_object().unwrap().clone());
        stub.add(&fault).await;

        assert_eq!(statuses(&stub, &EACH).await, expected, "{conditions}");
    }
}

#[tokio::test]
async fn only_requests_that_fit_are_counted() {
    let stub = StubService::new();
    let fault = json!({"kind": "status", "method": "GET", "path": "items/1",
        "platform": "platform_alpha", "after": 1, "times": 2});
    let added = stub.add(&fault).await;
    assert_eq!((&added["met"], &added["left"]), (&json!(0), &json!(2)));

    let one = EACH[0];
    let asked = [one, EACH[1], EACH[2], one, EACH[4], one, one, one];
    let seen = statuses(&stub, &asked).await;

    assert_eq!(seen, [200, 200, 200, 500, 200, 500, 200, 200]);
    let (_, shown) = stub.ask("GET", "/control/faults", &Value::Null).await;
    assert_eq!((&shown["faults"][0]["met"], &shown["faults"][0]["left"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn the_first_rule_that_fits_applies_and_the_next_one_when_it_is_used_up() {
    let stub = StubService::new();
    for (status, times) in [(501, 1), (502, 1), (503, 9)] {
        stub.add(&json!({"kind": "status", "status": status, "times": times})).await;
    }

    assert_eq!(statuses(&stub, &EACH[..4]).await, [501, 502, 503, 503]);
}

#[tokio::test]
async fn a_probability_is_kept_to_and_the_same_seed_repeats_itself() {
    let run = async |probability: f64, seed: u64| {
        let stub = StubService::new();
        let fault = json!({"kind": "status", "probability": probability, "seed": seed});
        stub.add(&fault).await;
        statuses(&stub, &[EACH[0]; 200]).await
    };
    let count = |statuses: &[u16]| statuses.iter().filter(|status| **status == 500).count();

    let half = run(0.5, 7).await;

    assert!((60..140).contains(&count(&half)), "{}", count(&half));
    assert_eq!(half, run(0.5, 7).await);
    assert_ne!(half, run(0.5, 8).await);
    assert_eq!(count(&run(1.0, 7).await), 200);
    assert!(count(&run(1e-9, 7).await) < 3, "it is one in a million");
}

#[tokio::test]
async fn a_refusal_is_not_carried_out_unless_the_rule_says_so() {
    for (fault, carried_out) in [
        (json!({"kind": "status"}), 0),
        (json!({"kind": "status", "carried_out": true}), 1),
        (json!({"kind": "gzip"}), 1),
        (json!({"kind": "gzip", "carried_out": false}), 0),
        (json!({"kind": "redirect", "carried_out": null}), 0),
    ] {
        let stub = StubService::new();
        let shown = stub.add(&fault).await;

        stub.ask("GET", "/platform_alpha/items/1", &Value::Null).await;

        assert_eq!(stub.carried_out(), carried_out, "{fault}");
        assert_eq!(shown["carried_out"], json!(carried_out == 1), "{fault}");
    }
}

/// Asserts that each fault is refused with the field that is wrong, and with what is wrong with it.
async fn assert_refused(faults: impl IntoIterator<Item = (Value, &str, String)>) {
    let stub = StubService::new();
    for (fault, field, problem) in faults {
        let (status, said) = stub.ask("POST", "/control/faults", &fault).await;

        let error = format!("{field} {problem}");
        assert_eq!((status, said), (400, json!({"error": error, "field": field})), "{fault}");
    }
    let (_, shown) = stub.ask("GET", "/control/faults", &Value::Null).await;
    assert_eq!(shown["faults"], json!([]), "nothing of it was added");
}

fn whole(least: u64, most: u64) -> String {
    format!("must be a whole number from {least} to {most}")
}

#[tokio::test]
async fn what_is_wrong_with_a_rule_is_said_with_its_field() {
    assert_refused([
        (json!({"kind": 5}), "kind", "must be a non-empty text".to_owned()),
        (json!({"kind": ""}), "kind", "must be a non-empty text".to_owned()),
        (
            json!({"kind": "gzip", "platform": "platform_gamma"}),
            "platform",
            "must be one of platform_alpha, platform_beta".to_owned(),
        ),
        (
            json!({"kind": "no_envelope"}),
            "platform",
            "must be platform_beta for this kind".to_owned(),
        ),
        (
            json!({"kind": "no_envelope", "platform": "platform_alpha"}),
            "platform",
            "must be platform_beta for this kind".to_owned(),
        ),
        (
            json!({"kind": "gzip", "method": "HEAD"}),
            "method",
            "must be GET, POST, PUT, PATCH or DELETE".to_owned(),
        ),
        (
            json!({"kind": "gzip", "method": "get"}),
            "method",
            "must be GET, POST, PUT, PATCH or DELETE".to_owned(),
        ),
        (
            json!({"kind": "gzip", "method": "DELETE", "path": "/items/1"}),
            "path",
            "must be a path or a template of any platform as /control/routes lists them, without the \
             base path; there is no DELETE items/1"
                .to_owned(),
        ),
        (
            json!({"kind": "gzip", "platform": "platform_beta", "path": "others"}),
            "path",
            "must be a path or a template of platform_beta as /control/routes lists them, without the \
             base path; there is no others"
                .to_owned(),
        ),
        (json!({"kind": "gzip", "after": -1}), "after", whole(0, 1_000_000_000)),
        (json!({"kind": "gzip", "after": 1.5}), "after", whole(0, 1_000_000_000)),
        (json!({"kind": "gzip", "times": 0}), "times", whole(1, 1_000_000_000)),
        (json!({"kind": "gzip", "times": 1_000_000_001}), "times", whole(1, 1_000_000_000)),
        (json!({"kind": "gzip", "times": "1"}), "times", whole(1, 1_000_000_000)),
        (json!({"kind": "gzip", "seed": "x"}), "seed", whole(0, u64::MAX)),
        (
            json!({"kind": "gzip", "probability": 0}),
            "probability",
            "must be a number above 0 and up to 1".to_owned(),
        ),
        (
            json!({"kind": "gzip", "probability": 1.001}),
            "probability",
            "must be a number above 0 and up to 1".to_owned(),
        ),
        (json!({"kind": "gzip", "carried_out": 1}), "carried_out", "must be true or false".to_owned()),
    ])
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_the_fields_of_a_kind_is_said_with_their_names() {
    let shut = "must be left out: refused connections carry no requests";
    assert_refused([        (json!({"kind": "delay", "ms": 3_600_001}), "ms", whole(0, 3_600_000)),
        (json!({"kind": "drip", "size": 0}), "size", whole(1, 1 << 20)),
        (json!({"kind": "status", "status": 199}), "status", whole(200, 999)),
        (json!({"kind": "status", "status": 1_000}), "status", whole(200, 999)),
        (json!({"kind": "redirect", "status": 200}), "status", whole(300, 399)),
        (json!({"kind": "status", "headers": ["a"]}), "headers", "must be an object of texts".to_owned()),
        (
            json!({"kind": "status", "headers": {"a b": "c"}}),
            "headers.a b",
            "must be a header with a text".to_owned(),
        ),
        (
            json!({"kind": "status", "headers": {"a": 5}}),
            "headers.a",
            "must be a header with a text".to_owned(),
        ),
        (
            json!({"kind": "redirect", "location": "/\n"}),
            "location",
            "must be a valid header value".to_owned(),
        ),
        (json!({"kind": "wrong_type", "field": ""}), "field", "must be a non-empty text".to_owned()),
        (json!({"kind": "refused", "method": "GET"}), "method", shut.to_owned()),
        (json!({"kind": "refused", "times": 2}), "times", shut.to_owned()),
        (
            json!({"kind": "delay", "seconds": 5}),
            "seconds",
            "is unknown; expected one of kind, platform, method, path, after, times, probability, seed, \
             carried_out, ms"
                .to_owned(),
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_unknown_kind_is_told_every_kind_there_is() {
    let stub = StubService::new();
    let (_, shown) = stub.ask("GET", "/control/faults", &Value::Null).await;
    let kinds: Vec<&str> = shown["catalogue"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();

    for fault in [json!({"kind": "fire"}), json!({})] {
        let (status, said) = stub.ask("POST", "/control/faults", &fault).await;

        let error = format!("kind must be one of {}", kinds.join(", "));
        assert_eq!((status, &said["error"]), (400, &json!(error)));
    }
}

#[tokio::test]
async fn every_kind_of_the_catalogue_can_be_added_with_its_defaults_and_its_limits() {
    let stub = StubService::new();
    let (_, shown) = stub.ask("GET", "/control/faults", &Value::Null).await;
    for kind in shown["catalogue"].as_array().unwrap() {
        let mut fault = json!({"kind": kind["kind"], "platform": kind["platform"]});
        let plain = stub.add(&fault).await;
        assert_eq!(plain["carried_out"], kind["carried_out"], "{kind}");
        for (limit, beyond) in [("least", -1), ("most", 1)] {
            for field in kind["fields"].as_array().unwrap() {
                let Some(number) = field[limit].as_i64() else { continue };
                let name = field["name"].as_str().unwrap();
                fault[name] = json!(number);
                assert_eq!(stub.add(&fault).await[name], json!(number), "{fault}");
                fault[name] = json!(number + beyond);
                let (status, said) = stub.ask("POST", "/control/faults", &fault).await;
                assert_eq!((status, &said["field"]), (400, &json!(name)), "{fault}");
                fault[name] = field["default"].clone();
            }
        }
        stub.ask("DELETE", "/control/faults", &Value::Null).await;
    }
}

#[tokio::test]
async fn a_kind_and_its_fields_are_described_once() {
    let stub = StubService::new();
    let (_, shown) = stub.ask("GET", "/control/faults", &Value::Null).await;

    let mut seen = std::collections::BTreeSet::new();
    for kind in shown["catalogue"].as_array().unwrap() {
        assert!(seen.insert(kind["kind"].as_str().unwrap()), "{kind}");
        assert!(!kind["says"].as_str().unwrap().is_empty(), "{kind}");
        for field in kind["fields"].as_array().unwrap() {
            assert!(!field["says"].as_str().unwrap().is_empty(), "{field}");
        }
    }
}

#[tokio::test]
async fn rules_are_removed_by_their_number_and_numbers_are_not_used_twice() {
    let stub = StubService::new();
    let fault = json!({"kind": "status"});
    let first = stub.add(&fault).await;
    let second = stub.add(&fault).await;
    assert_eq!((&first["id"], &second["id"]), (&json!(1), &json!(2)));

    let removed = stub.ask("DELETE", "/control/faults/2", &Value::Null).await;
    let again = stub.ask("DELETE", "/control/faults/2", &Value::Null).await;
    let unreadable = stub.ask("DELETE", "/control/faults/two", &Value::Null).await;
    let third = stub.add(&fault).await;
    let all = stub.ask("DELETE", "/control/faults", &Value::Null).await;

    assert_eq!(removed, (200, json!({"removed": 1})));
    assert_eq!(again, (404, json!({"error": "no fault has this id"})));
    assert_eq!(unreadable, (400, json!({"error": "id must be a number", "field": "id"})));
    assert_eq!(third["id"], json!(3));
    assert_eq!(all, (200, json!({"removed": 2})));
    assert_eq!(statuses(&stub, &EACH[..1]).await, [200]);
}

#[tokio::test]
async fn there_are_at_most_256_rules_and_one_that_is_used_up_counts() {
    let stub = StubService::new();
    let fault = json!({"kind": "status", "times": 1});
    for _ in 0..256 {
        stub.add(&fault).await;
    }
    stub.ask("GET", "/platform_alpha/items/1", &Value::Null).await;

    let (status, said) = stub.ask("POST", "/control/faults", &fault).await;

    let error = "kind there are already 256 faults; remove some first";
    assert_eq!((status, said), (400, json!({"error": error, "field": "kind"})));
    stub.ask("DELETE", "/control/faults/1", &Value::Null).await;
    assert_eq!(stub.add(&fault).await["id"], json!(257));
}

#[tokio::test]
async fn a_rule_is_shown_as_it_was_asked_for() {
    let stub = StubService::new();
    let fault = json!({"kind": "status", "platform": "platform_beta", "path": "/items/{id}",
        "headers": {"X-A": "b"}, "body": null, "times": null});

    let shown = stub.add(&fault).await;

    let expected = json!({"id": 1, "kind": "status", "platform": "platform_beta", "path": "/items/{id}",
        "headers": {"X-A": "b"}, "body": null, "status": 500, "carried_out": false, "met": 0, "left": null});
    assert_eq!(shown, expected);
}
