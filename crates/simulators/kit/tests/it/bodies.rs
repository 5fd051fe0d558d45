//! Faults that HTTP carries: what each makes of the status, the headers and the body.

use std::io::Read as _;

use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use serde_json::{Value, json};
use simulator_kit::script::WireReply;

use crate::stub::{BODY, StubService};

/// The response to a request that the fault applies to.
async fn spoiled(body: &str, fault: &Value) -> WireReply {
    let stub = StubService::with_body(body);
    stub.add(fault).await;
    stub.reply("GET", "/platform_beta/items/1", "").await
}

fn text(reply: &WireReply) -> &str {
    std::str::from_utf8(&reply.body).unwrap()
}

#[tokio::test]
async fn another_status_comes_with_its_headers_and_its_body() {
    let limited = json!({"kind": "status", "status": 429, "headers": {"Retry-After": "30"},
        "body": {"error": "slow down"}});

    let plain = spoiled(BODY, &json!({"kind": "status"})).await;
    let odd = spoiled(BODY, &json!({"kind": "status", "status": 999})).await;
    let limited = spoiled(BODY, &limited).await;

    assert_eq!((plain.status.as_u16(), text(&plain)), (500, BODY));
    assert_eq!(odd.status.as_u16(), 999);
    assert_eq!(
        (limited.status.as_u16(), &limited.headers[RETRY_AFTER]),
        (429, &"30".parse().unwrap())
    );
    assert_eq!(text(&limited), r#"{"error":"slow down"}"#);
}

#[tokio::test]
async fn a_redirect_leads_where_it_is_told_to() {
    let usual = spoiled(BODY, &json!({"kind": "redirect"})).await;
    let own = json!({"kind": "redirect", "status": 308, "location": "/elsewhere"});
    let own = spoiled(BODY, &own).await;

    assert_eq!(usual.status.as_u16(), 302);
    assert_eq!(usual.headers[LOCATION], "http://169.254.169.254/latest/meta-data/");
    assert_eq!(
        (own.status.as_u16(), &own.headers[LOCATION]),
        (308, &"/elsewhere".parse().unwrap())
    );
}

#[tokio::test]
async fn another_content_type_leaves_the_body_alone() {
    let reply = spoiled(BODY, &json!({"kind": "content_type", "value": "text/plain"})).await;

    assert_eq!(
        (reply.status.as_u16(), &reply.headers[CONTENT_TYPE]),
        (200, &"text/plain".parse().unwrap())
    );
    assert_eq!(text(&reply), BODY);
}

#[tokio::test]
async fn a_compressed_body_is_whole_or_lacks_its_end() {
    let whole = spoiled(BODY, &json!({"kind": "gzip"})).await;
    let cut = spoiled(BODY, &json!({"kind": "gzip_cut", "bytes": 4})).await;
    let nothing = spoiled(BODY, &json!({"kind": "gzip_cut", "bytes": 100_000})).await;

    let mut plain = String::new();
    GzDecoder::new(&whole.body[..]).read_to_string(&mut plain).unwrap();
    assert_eq!(plain, BODY);
    assert_eq!(cut.body, whole.body.slice(..whole.body.len() - 4));
    assert!(GzDecoder::new(&cut.body[..]).read_to_string(&mut plain).is_err());
    assert!(nothing.body.is_empty());
    for reply in [&whole, &cut, &nothing] {
        assert_eq!(reply.headers[CONTENT_ENCODING], "gzip");
    }
}

#[tokio::test]
async fn broken_json_is_broken_in_the_way_that_its_kind_says() {
    for (body, fault, expected) in [
        (BODY, json!({"kind": "invalid_json"}), r#"{"id":1"#),
        ("", json!({"kind": "invalid_json"}), ""),
        (BODY, json!({"kind": "deep_json", "depth": 2}), r#"[[{"id":1}]]"#),
        (BODY, json!({"kind": "duplicate_key"}), r#"{"id":null,"id":1}"#),
        ("[]", json!({"kind": "duplicate_key"}), "[]"),
        (
            r#"{"success":true,"response":{"id":1}}"#,
            json!({"kind": "no_envelope", "platform": "platform_beta"}),
            BODY,
        ),
        (BODY, json!({"kind": "no_envelope", "platform": "platform_beta"}), BODY),
        ("no json", json!({"kind": "no_envelope", "platform": "platform_beta"}), "no json"),
    ] {
        assert_eq!(text(&spoiled(body, &fault).await), expected, "{body} {fault}");
    }
}

const PAGE: &str = r#"{"hasMore":false,"list":[{"id":1},{"id":2}],"nextCursor":"c","total":2}"#;

/// The bodies of this many requests for the same list.
async fn pages(fault: &Value, count: usize) -> Vec<Value> {
    let stub = StubService::with_body(PAGE);
    stub.add(fault).await;
    let mut pages = Vec::new();
    for _ in 0..count {
        pages.push(stub.ask("GET", "/platform_alpha/items/1", &Value::Null).await.1);
    }
    pages
}

#[tokio::test]
async fn each_fault_of_pages_changes_what_it_names_and_nothing_else() {
    let page: Value = serde_json::from_str(PAGE).unwrap();
    let with = |field: &str, value: Value| {
        let mut changed = page.clone();
        changed[field] = value;
        changed
    };
    for (fault, expected) in [
        (json!({"kind": "repeat_pages"}), with("hasMore", json!(true))),
        (json!({"kind": "wrong_type"}), with("hasMore", json!("so"))),
        (
            json!({"kind": "wrong_type", "field": "id"}),
            with("list", json!([{"id": "so"}, {"id": "so"}])),
        ),
        (json!({"kind": "missing_field", "field": "id"}), with("list", json!([{}, {}]))),
        (json!({"kind": "missing_field", "field": "nobody"}), page.clone()),
        (json!({"kind": "long_total", "by": 5}), with("total", json!(7))),
        (json!({"kind": "long_total", "field": "list"}), page.clone()),
        (json!({"kind": "short_page"}), with("list", json!([{"id": 1}]))),
        (json!({"kind": "short_page", "rows": 10_000}), with("list", json!([]))),
        (json!({"kind": "empty_page"}), with("list", json!([]))),
        (json!({"kind": "shrinking_total"}), page.clone()),
        (json!({"kind": "duplicate_rows"}), page.clone()),
        (json!({"kind": "repeat_cursor"}), page.clone()),
    ] {
        assert_eq!(pages(&fault, 1).await, [expected], "{fault}");
    }
}

#[tokio::test]
async fn a_total_never_shrinks_below_nothing() {
    let pages = pages(&json!({"kind": "shrinking_total", "by": 1_000_000}), 3).await;

    let totals: Vec<&Value> = pages.iter().map(|page| &page["total"]).collect();
    assert_eq!(totals, [&json!(2), &json!(0), &json!(0)]);
}

#[tokio::test]
async fn lists_at_different_paths_are_spoiled_apart() {
    let stub = StubService::with_body(PAGE);
    stub.add(&json!({"kind": "shrinking_total", "by": 1})).await;

    let mut totals = Vec::new();
    for path in ["items/1", "items/2", "items/1", "items/2"] {
        let (_, page) = stub.ask("GET", &format!("/platform_alpha/{path}"), &Value::Null).await;
        totals.push(page["total"].as_u64().unwrap());
    }

    assert_eq!(totals, [2, 2, 1, 1]);
}

#[tokio::test]
async fn a_body_that_is_no_page_is_left_alone() {
    for body in ["no json", "[1,2]", "{}", "7", "null"] {
        for kind in ["short_page", "empty_page", "duplicate_rows", "repeat_cursor"] {
            assert_eq!(text(&spoiled(body, &json!({"kind": kind})).await), body, "{kind}");
        }
    }
}
