//! Examples of responses in the documents of platforms, recorded from the simulated platforms.
//!
//! `just accept` records them again. Ids in paths are taken from responses to other routes.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Catalog, Route};
use domain::platform::Platform;
use serde_json::{Map, Value, json};

use super::assert_written;
use test_service::{Client, TestApp};

/// How much of a response an example has.
const ROWS_MAX: usize = 2;
const TEXT_CHARS_MAX: usize = 120;
const DEPTH_MAX: usize = 6;
const EXAMPLE_BYTES_MAX: usize = 3_000;
/// The ids that are tried for a route.
const TRIES_MAX: usize = 12;
/// The value of parameters between the first and the last.
const BETWEEN: &str = "7";

/// Names of members whose values may be ids.
const ID_NAMES: [&str; 4] = ["id", "_id", "uuid", "name"];

const FAST: &str = "[rate_limits]\nper_key_per_second = 1000000\nper_key_burst = 1000000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_are_what_the_simulated_platforms_respond() {
    let app = TestApp::on_sqlite(FAST).await;
    for platform in Platform::BUILT_IN {
        let (_, client, account) = app.ready(platform.as_str(), 10_000).await;
        let origin = app.platform_url(platform.as_str());
        let recorded = record(platform, &client, (&account, &origin)).await;
        let reads = routes(platform).len();
        assert!(recorded.len() * 10 >= reads * 6, "{platform}: {} of {reads}", recorded.len());
        let text = serde_json::to_string_pretty(&recorded).unwrap();
        let path = format!("crates/node/src/openapi/examples/{platform}.json");
        assert_written(&path, &format!("{text}\n"));
    }
    app.end().await;
}

fn routes(platform: Platform) -> Vec<Route> {
    let catalog = Catalog::built_in().unwrap();
    let all = catalog.platform(platform).routes().iter();
    all.filter(|route| route.is_native() && route.method.is_read() && !route.sensitive)
        .cloned()
        .collect()
}

/// Calls every route, those without parameters first.
async fn record(
    platform: Platform,
    client: &Client,
    (account, origin): (&str, &str),
) -> BTreeMap<String, Value> {
    let mut routes = routes(platform);
    routes.sort_by_key(|route| route.parameter_names().count());
    let mut bodies: BTreeMap<String, Value> = BTreeMap::new();
    let mut recorded = BTreeMap::new();
    for route in &routes {
        for path in paths(route, &bodies).into_iter().take(TRIES_MAX) {
            let reply = client.get(&format!("/v1/{account}/native/{path}")).await;
            let is_json = reply.header("content-type").starts_with("application/json");
            if reply.status != 200 || !is_json || reply.body.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(&reply.body).unwrap();
            let text = text.replace(origin, "https://platform.example");
            let body: Value = serde_json::from_str(&text).unwrap();
            bodies.insert(route.template.clone(), body.clone());
            if let Some(body) = shortened(&body) {
                recorded.insert(route.name.clone(), json!({ "status": 200, "body": body }));
            }
            break;
        }
    }
    recorded
}

/// Paths of a route with ids that stand in the responses so far, the likeliest first.
fn paths(route: &Route, bodies: &BTreeMap<String, Value>) -> Vec<String> {
    let names: Vec<&str> = route.parameter_names().collect();
    let filled = |path: &str, name: &str, value: &str| path.replace(&format!("{{{name}}}"), value);
    match names.as_slice() {
        [] => vec![route.template.clone()],
        [only] => candidates(route, only, bodies)
            .into_iter()
            .map(|value| filled(&route.template, only, &value))
            .collect(),
        [first, between @ .., last] => {
            let begun = between
                .iter()
                .fold(route.template.clone(), |path, name| filled(&path, name, BETWEEN));
            let (firsts, lasts) =
                (candidates(route, first, bodies), candidates(route, last, bodies));
            let pairs = firsts.iter().take(4).flat_map(|one| {
                let with_first = filled(&begun, first, one);
                lasts.iter().take(3).map(move |two| filled(&with_first, last, two))
            });
            pairs.collect()
        }
    }
}

/// Values for a parameter: ids of the list in front of it, then ids of lists with a like name.
fn candidates(route: &Route, name: &str, bodies: &BTreeMap<String, Value>) -> Vec<String> {
    let placeholder = format!("{{{name}}}");
    let before = route.template.split(&placeholder).next().unwrap_or_default();
    let before = before.trim_end_matches('/');
    let word = before.rsplit('/').next().unwrap_or_default().trim_end_matches('s');
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut take = |body: &Value, names: &[&str]| {
        let mut ids = Vec::new();
        collect(body, names, &mut ids);
        for id in ids.into_iter().take(6) {
            if seen.insert(id.clone()) {
                found.push(id);
            }
        }
    };
    let exact = [name];
    for body in bodies.iter().filter(|(template, _)| *template == before).map(|(_, body)| body) {
        take(body, &ID_NAMES);
    }
    for body in bodies.values() {
        take(body, &exact);
    }
    let alike = |template: &String| {
        let last = template.rsplit('/').next().unwrap_or_default();
        !word.is_empty() && last.contains(word)
    };
    for (_, body) in bodies.iter().filter(|(template, _)| alike(template)) {
        take(body, &ID_NAMES);
    }
    found.push("trending".to_owned());
    found.push("me".to_owned());
    found
}

/// The texts and numbers under these names, in document order.
fn collect(value: &Value, names: &[&str], found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|inner| collect(inner, names, found)),
        Value::Object(members) => {
            for (name, inner) in members {
                match inner {
                    Value::String(text) if names.contains(&name.as_str()) => {
                        let is_plain = |letter: char| {
                            letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
                        };
                        if !text.is_empty() && text.chars().all(is_plain) {
                            found.push(text.clone());
                        }
                    }
                    Value::Number(number) if names.contains(&name.as_str()) => {
                        found.push(number.to_string());
                    }
                    _ => collect(inner, names, found),
                }
            }
        }
        _ => {}
    }
}

/// A body cut to the size of an example; none if even that is too large.
fn shortened(body: &Value) -> Option<Value> {
    let attempts = [(ROWS_MAX, DEPTH_MAX), (1, DEPTH_MAX), (1, 4), (1, 3)];
    let mut cut = attempts.into_iter().map(|limits| shorten(body, limits, 0));
    cut.find(|short| short.to_string().len() <= EXAMPLE_BYTES_MAX)
}

fn shorten(value: &Value, limits: (usize, usize), depth: usize) -> Value {
    let (rows, levels) = limits;
    match value {
        Value::Array(_) | Value::Object(_) if depth >= levels => match value {
            Value::Array(_) => json!([]),
            _ => json!({}),
        },
        Value::Array(values) => {
            values.iter().take(rows).map(|inner| shorten(inner, limits, depth + 1)).collect()
        }
        Value::Object(members) => {
            let short = members
                .iter()
                .map(|(name, inner)| (name.clone(), shorten(inner, limits, depth + 1)));
            Value::Object(short.collect::<Map<String, Value>>())
        }
        Value::String(text) if text.chars().count() > TEXT_CHARS_MAX => {
            json!(text.chars().take(TEXT_CHARS_MAX).collect::<String>())
        }
        other => other.clone(),
    }
}
