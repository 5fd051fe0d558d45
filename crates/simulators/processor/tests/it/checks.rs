//! What tests of the API compare: fields of objects, refusals, and the events that follow.

use serde_json::{Value, json};

use crate::kit::Shop;

/// The time at which every shop opens, in seconds since 1970.
pub(crate) const NOW_S: i64 = crate::kit::NOW_MS / 1_000;
pub(crate) const DAY_S: i64 = 86_400;

/// Compares fields of an object, named by dotted paths; a missing one counts as null.
pub(crate) fn assert_fields(object: &Value, expected: &Value) {
    for (path, wanted) in expected.as_object().unwrap() {
        let pointer = format!("/{}", path.replace('.', "/"));
        let found = object.pointer(&pointer).unwrap_or(&Value::Null);
        assert_eq!(found, wanted, "{path} of {object}");
    }
}

/// Posts each form, which must be an invalid request with this code and this parameter; an empty
/// text stands for none.
pub(crate) async fn assert_refused(shop: &Shop, path: &str, cases: &[(&str, &str, &str)]) {
    let before = shop.events().await;
    for (form, code, param) in cases {
        let error = shop.refused(path, form, 400).await;
        let shown = |name: &str| error[name].as_str().unwrap_or_default();
        assert_eq!((shown("code"), shown("param")), (*code, *param), "POST {path} {form}: {error}");
        assert_eq!(error["type"], "invalid_request_error", "POST {path} {form}");
    }
    assert_eq!(shop.events().await, before, "a refused request has no consequences");
}

/// The types of the events after the first `mark` ones, oldest first.
pub(crate) async fn since(shop: &Shop, mark: usize) -> Vec<String> {
    shop.events().await.split_off(mark)
}

/// The number of events so far.
pub(crate) async fn mark(shop: &Shop) -> usize {
    shop.events().await.len()
}

/// The latest event of a type.
pub(crate) async fn latest_event(shop: &Shop, kind: &str) -> Value {
    let listed = shop.read(&format!("events?type={kind}&limit=1")).await;
    assert!(listed["data"][0].is_object(), "no event {kind}");
    listed["data"][0].clone()
}

/// The number of objects in a list.
pub(crate) async fn count(shop: &Shop, path: &str) -> usize {
    shop.read(path).await["data"].as_array().unwrap().len()
}

/// The ids in a list, in its order.
pub(crate) async fn ids(shop: &Shop, path: &str) -> Vec<String> {
    shop.read(path).await["data"].as_array().unwrap().iter().map(crate::kit::id).collect()
}

/// A request with another version of the API.
pub(crate) async fn post_in(shop: &Shop, version: &str, path: &str, form: &str) -> Value {
    let reply = shop.post_with(path, form, &format!("Stripe-Version: {version}\r\n")).await;
    assert_eq!(reply.status, 200, "{version} POST {path} {form}: {}", reply.text);
    reply.json()
}

/// Moves the clock of everything by seconds.
pub(crate) fn pass(shop: &Shop, seconds: i64) {
    shop.clock.advance_ms(seconds * 1_000);
}

/// The error of a request without a body that must be refused with this status.
pub(crate) async fn missing(shop: &Shop, path: &str, status: u16) -> Value {
    let reply = shop.get(path).await;
    assert_eq!(reply.status, status, "GET {path}: {}", reply.text);
    reply.json()["error"].clone()
}

/// A `json!` of texts that are null where nothing is known.
pub(crate) fn or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}
