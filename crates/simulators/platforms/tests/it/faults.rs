//! Faults that HTTP can carry, the requests they apply to, and invalid faults.

use std::io::Read as _;

use flate2::read::GzDecoder;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::kit::{Kit, none};

const DEMO: &str = "demo_alpha";

/// A kit with one fault.
async fn with(fault: Value) -> Kit {
    let kit = Kit::new();
    add(&kit, fault).await;
    kit
}

async fn add(kit: &Kit, fault: Value) -> Value {
    let reply = kit.raw(Method::POST, "/control/faults", &[], fault).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

#[tokio::test]
async fn a_status_has_its_headers_and_body_or_is_the_platforms_own_refusal() {
    let kit = with(json!({"kind": "status", "status": 429, "platform": "platform_alpha",
        "headers": {"Retry-After": "30"}, "times": 1}))
    .await;
    add(&kit, json!({"kind": "status", "status": 999, "times": 1, "body": {"sorry": true}})).await;
    add(&kit, json!({"kind": "status", "status": 503, "platform": "platform_beta"})).await;

    let (limited, headers, _) = kit.whole(DEMO, "users/me").await;
    let (strange, _, body) = kit.whole(DEMO, "users/me").await;
    let refused = kit.send("demo_beta", Method::GET, "account/me", none()).await;

    assert_eq!((limited, headers["retry-after"].to_str().unwrap()), (429, "30"));
    assert_eq!((strange, &body[..]), (999, &br#"{"sorry":true}"#[..]));
    assert_eq!((refused.status.as_u16(), &refused.body["success"]), (503, &json!(false)));
}

#[tokio::test]
async fn redirects_and_content_types_can_be_chosen() {
    let kit = with(json!({"kind": "redirect", "times": 1})).await;
    add(&kit, json!({"kind": "content_type", "value": "image/png"})).await;

    let (status, headers, _) = kit.whole(DEMO, "users/me").await;
    let (_, other, _) = kit.whole(DEMO, "users/me").await;

    let location = headers["location"].to_str().unwrap();
    assert_eq!((status, location), (302, "http://169.254.169.254/latest/meta-data/"));
    assert_eq!(other["content-type"], "image/png");
}

#[tokio::test]
async fn a_compressed_body_can_be_valid_or_cut() {
    let kit = Kit::new();
    let (_, _, honest) = kit.whole(DEMO, "users/me").await;
    add(&kit, json!({"kind": "gzip", "times": 1})).await;
    add(&kit, json!({"kind": "gzip_cut", "bytes": 9})).await;

    let (_, headers, gzip) = kit.whole(DEMO, "users/me").await;
    let (_, _, cut) = kit.whole(DEMO, "users/me").await;

    let mut plain = Vec::new();
    GzDecoder::new(&gzip[..]).read_to_end(&mut plain).unwrap();
    assert_eq!((headers["content-encoding"].to_str().unwrap(), plain), ("gzip", honest));
    assert_eq!(cut, gzip[..gzip.len() - 9]);
}

#[tokio::test]
async fn each_kind_breaks_the_body_in_its_own_way() {
    let kit = Kit::new();
    let mut bodies = Vec::new();
    for kind in ["invalid_json", "deep_json", "duplicate_key", "no_envelope"] {
        add(&kit, json!({"kind": kind, "platform": "platform_beta", "times": 1})).await;
        let (status, _, body) = kit.whole("demo_beta", "account/me").await;
        assert_eq!(status, 200);
        bodies.push(String::from_utf8(body).unwrap());
    }
    let honest = String::from_utf8(kit.whole("demo_beta", "account/me").await.2).unwrap();

    let [invalid, deep, twice, inner] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!(format!("{invalid}}}"), honest);
    assert_eq!(*deep, format!("{}{honest}{}", "[".repeat(10_000), "]".repeat(10_000)));
    assert_eq!(*twice, honest.replacen('{', "{\"response\":null,", 1));
    let honest: Value = serde_json::from_str(&honest).unwrap();
    assert_eq!(serde_json::from_str::<Value>(inner).unwrap(), honest["response"]);
}

#[tokio::test]
async fn page_faults_change_the_pages_of_a_list() {
    let kit = Kit::new();
    let page = async |offset: u32| {
        let path = format!("subscriptions/subscribers?limit=2&offset={offset}");
        let page = kit.get(DEMO, &path).await;
        let ids: Vec<u64> = page["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_u64().unwrap())
            .collect();
        (ids, page.get("hasMore").cloned())
    };
    let honest = [page(0).await.0, page(2).await.0, page(4).await.0];
    let more = Some(json!(true));
    let on = |kind: &str| json!({"kind": kind, "path": "subscriptions/subscribers", "platform": "platform_alpha"});

    let one = add(&kit, on("repeat_pages")).await;
    assert_eq!(
        [page(0).await, page(2).await],
        [&honest[0]; 2].map(|ids| (ids.clone(), more.clone()))
    );
    kit.raw(Method::DELETE, &format!("/control/faults/{}", one["id"]), &[], none()).await;

    let mut circle = on("repeat_pages");
    circle["pages"] = json!(2);
    add(&kit, circle).await;
    let seen = [page(0).await.0, page(2).await.0, page(4).await.0, page(6).await.0];
    assert_eq!(seen, [&honest[0], &honest[1], &honest[0], &honest[1]].map(Clone::clone));
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    add(&kit, on("missing_field")).await;
    assert_eq!(page(0).await, (honest[0].clone(), None));
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    add(&kit, on("duplicate_rows")).await;
    assert_eq!(page(0).await.0, honest[0]);
    assert_eq!(page(2).await.0, [honest[0][1], honest[1][1]]);
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    let mut short = on("short_page");
    short["rows"] = json!(1);
    add(&kit, short).await;
    assert_eq!(page(2).await, (honest[1][..1].to_vec(), more.clone()));
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    add(&kit, on("empty_page")).await;
    assert_eq!(page(2).await, (vec![], more.clone()));
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    add(&kit, on("wrong_type")).await;
    assert_eq!(page(2).await.1, Some(json!("so")));
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    let earnings = async |cursor: &str| {
        let rows =
            kit.get("demo_delta", &format!("insights/earnings?size=2&cursor={cursor}")).await;
        (rows["data"][0]["uuid"].clone(), rows["nextCursor"].as_str().unwrap().to_owned())
    };
    let first = earnings("").await;
    add(&kit, json!({"kind": "repeat_cursor", "path": "insights/earnings"})).await;
    assert_eq!(earnings("").await, first);
    let second = earnings(&first.1).await;
    assert!(second.0 != first.0 && second.1 == first.1);
    kit.raw(Method::DELETE, "/control/faults", &[], none()).await;

    let total =
        async || kit.get("demo_beta", "subscribers?limit=1").await["response"]["total"].clone();
    let all = total().await.as_u64().unwrap();
    add(&kit, json!({"kind": "shrinking_total", "by": 3})).await;
    assert_eq!([total().await, total().await], [all, all - 3].map(Value::from));
}

#[tokio::test]
async fn a_fault_applies_only_to_matching_requests() {
    let kit = Kit::new();
    let fan = kit.get(DEMO, "chats").await["list"][0]["id"].clone();
    add(
        &kit,
        json!({"kind": "status", "status": 418, "platform": "platform_alpha",
        "method": "GET", "path": "chats/{chat_id}/messages"}),
    )
    .await;
    add(&kit, json!({"kind": "status", "status": 507, "path": "/users/me", "method": "PATCH"}))
        .await;
    let status = async |creator: &str, method: Method, path: &str, body: Value| {
        kit.send(creator, method, path, body).await.status.as_u16()
    };
    let messages = format!("chats/{fan}/messages");

    assert_eq!(status(DEMO, Method::GET, &messages, none()).await, 418);
    assert_eq!(status(DEMO, Method::POST, &messages, json!({"text": "x"})).await, 201);
    assert_eq!(status(DEMO, Method::GET, "users/me", none()).await, 200);
    assert_eq!(status(DEMO, Method::PATCH, "users/me", json!({"about": "x"})).await, 507);
    assert_eq!(status("demo_beta", Method::GET, "account/me", none()).await, 200);
    assert_eq!(kit.get(DEMO, "users/me").await["about"], "Pictures, videos and long answers.");
}

#[tokio::test]
async fn a_fault_can_start_and_end_after_a_number_of_requests() {
    let kit = with(json!({"kind": "status", "after": 2, "times": 3})).await;
    let mut seen = Vec::new();
    for _ in 0..7 {
        seen.push(kit.send(DEMO, Method::GET, "users/me", none()).await.status.as_u16());
    }

    assert_eq!(seen, [200, 200, 500, 500, 500, 200, 200]);
    let rule = &kit.control("/faults").await["faults"][0];
    assert_eq!((&rule["met"], &rule["left"]), (&json!(3), &json!(0)));
    let count = async |path: &str| kit.control(path).await["count"].clone();
    assert_eq!(count("/requests/count?platform=platform_alpha").await, 7);
}

#[tokio::test]
async fn probabilities_are_determined_by_the_seed() {
    let outcomes = async |seed: u64| {
        let kit = with(json!({"kind": "status", "probability": 0.25, "seed": seed})).await;
        let mut met = Vec::new();
        for _ in 0..200 {
            met.push(kit.send(DEMO, Method::GET, "users/me", none()).await.status == 500);
        }
        met
    };
    let (one, again, other) = (outcomes(1).await, outcomes(1).await, outcomes(2).await);

    assert_eq!(one, again);
    assert_ne!(one, other);
    let count = one.iter().filter(|met| **met).count();
    assert!((25..=75).contains(&count), "{count} of 200");
}

#[tokio::test]
async fn the_fault_decides_whether_a_write_is_carried_out() {
    let kit = Kit::new();
    let lists = async || kit.get(DEMO, "lists").await["list"].as_array().unwrap().len();
    let before = lists().await;
    for (carried_out, kind) in [(None, "status"), (None, "invalid_json"), (Some(true), "status")] {
        let fault = json!({"kind": kind, "times": 1, "method": "POST", "carried_out": carried_out});
        add(&kit, fault).await;
        kit.whole_of(DEMO, Method::POST, "lists", json!({"name": "x"})).await;
    }
    add(&kit, json!({"kind": "content_type", "method": "POST", "carried_out": false})).await;
    let refused = kit.send(DEMO, Method::POST, "lists", json!({"name": "x"})).await;

    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(lists().await, before + 2);
}

#[tokio::test]
async fn an_invalid_fault_names_its_field_and_changes_nothing() {
    let kit = Kit::new();
    let mistakes = [
        (json!({}), "kind"),
        (json!({"kind": "explode"}), "kind"),
        (json!({"kind": 7}), "kind"),
        (json!({"kind": "delay", "ms": -1}), "ms"),
        (json!({"kind": "delay", "ms": "1"}), "ms"),
        (json!({"kind": "delay", "bytes": 1}), "bytes"),
        (json!({"kind": "status", "status": 99}), "status"),
        (json!({"kind": "status", "headers": {"a b": "c"}}), "headers.a b"),
        (json!({"kind": "status", "headers": ["x"]}), "headers"),
        (json!({"kind": "redirect", "location": "a\nb"}), "location"),
        (json!({"kind": "closed", "platform": "platform_omega"}), "platform"),
        (json!({"kind": "closed", "method": "FETCH"}), "method"),
        (json!({"kind": "closed", "path": "no/such/route"}), "path"),
        (json!({"kind": "closed", "path": "users/me", "method": "DELETE"}), "path"),
        (json!({"kind": "closed", "path": "users/me", "platform": "platform_gamma"}), "path"),
        (json!({"kind": "closed", "times": 0}), "times"),
        (json!({"kind": "closed", "probability": 1.5}), "probability"),
        (json!({"kind": "closed", "probability": 0}), "probability"),
        (json!({"kind": "closed", "carried_out": "yes"}), "carried_out"),
        (json!({"kind": "no_envelope", "platform": "platform_alpha"}), "platform"),
        (json!({"kind": "refused", "path": "users/me"}), "path"),
        (json!({"kind": "refused", "times": 3}), "times"),
        (json!([1]), "body"),
    ];
    for (fault, field) in mistakes {
        let reply = kit.raw(Method::POST, "/control/faults", &[], fault.clone()).await;
        assert_eq!((reply.status.as_u16(), &reply.body["field"]), (400, &json!(field)), "{fault}");
        let error = reply.body["error"].as_str().unwrap();
        assert!(error.starts_with(field), "{error}");
    }
    assert_eq!(kit.control("/faults").await["faults"], json!([]));
    let gone = kit.raw(Method::DELETE, "/control/faults/7", &[], none()).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn a_reset_removes_all_faults_and_the_index_lists_every_control_request() {
    let kit = with(json!({"kind": "status"})).await;
    kit.raw(Method::POST, "/control/reset", &[], none()).await;
    kit.get(DEMO, "users/me").await;

    for control in kit.control("").await["controls"].as_array().unwrap() {
        if control["method"] == "GET" {
            let path = control["path"].as_str().unwrap();
            let target = format!("{path}?platform=platform_alpha");
            let answer = kit.raw(Method::GET, &target, &[], none()).await;
            // A request for something by id finds nothing for the template's placeholder.
            let expected = if path.contains("{id}") { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{path}");
            assert!(!answer.body.to_string().contains("no such control"), "{path}");
        }
    }
}
