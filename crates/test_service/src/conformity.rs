//! Checks every response that any test receives against the contract: its status, code, media type
//! and body.
//!
//! The tests' client calls this after each request, so the whole suite exercises the contract.
#![expect(
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use domain::platform::Platform;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{Reply, contract, schema};

/// A contract, and the names of platforms that it is for.
type KnownContract = (Vec<&'static str>, &'static Value);

/// The contracts that were needed so far: one, unless a test gives a platform another name.
static KNOWN: Mutex<Vec<KnownContract>> = Mutex::new(Vec::new());

/// The contract with the present names of the platforms.
fn document() -> &'static Value {
    let names: Vec<_> = Platform::all().into_iter().map(Platform::as_str).collect();
    let mut known = KNOWN.lock();
    if let Some((_, document)) = known.iter().find(|(of, _)| *of == names) {
        return document;
    }
    let document: &'static Value = Box::leak(Box::new(contract::document()));
    known.push((names, document));
    document
}

/// Panics if the contract does not allow this response to this request.
pub(crate) fn assert_declared(method: &str, target: &str, reply: &Reply) {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let Some((template, operation)) = operation(document(), method, path) else { return };
    // The page about a failure, which only a person who opens an address gets, is not part of this
    // contract.
    let is_page = reply.header("content-type").starts_with("text/html");
    if is_page && reply.status >= 400 && reply.header("x-error-source") == "gateway" {
        return;
    }
    // Nor are the platform's own responses.
    if template.contains("/native/") || template.ends_with("/media/upload") {
        let is_ours = reply.header("x-error-source") == "gateway" && reply.status >= 400;
        if !is_ours || reply.header("idempotent-replayed") == "true" {
            return;
        }
    }
    let problems = problems(operation, reply);
    assert!(
        problems.is_empty(),
        "{method} {template} got what openapi.json does not declare; see crates/node/src/openapi/failures.rs for \
         codes: {problems:#?}\n{}",
        reply.text()
    );
}

/// The operation of a path; a template with fewer parameters takes precedence.
fn operation<'d>(document: &'d Value, method: &str, path: &str) -> Option<(&'d str, &'d Value)> {
    // The response to a HEAD request is that to the same GET request, without the body.
    let method = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
    let paths = document["paths"].as_object()?;
    let fitting = paths.iter().filter(|(template, _)| fits(template, path));
    let (template, item) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    Some((template, item.get(&method)?))
}

fn fits(template: &str, path: &str) -> bool {
    if let Some(prefix) = template.strip_suffix("/native/{native_path}") {
        return path.find("/native/").is_some_and(|at| fits(prefix, path.get(..at).unwrap()));
    }
    let (steps, given): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    steps.len() == given.len()
        && steps
            .iter()
            .zip(&given)
            .all(|(step, given)| (step.starts_with('{') && !given.is_empty()) || step == given)
}

fn problems(operation: &Value, reply: &Reply) -> Vec<String> {
    let status = reply.status.to_string();
    let declared = operation["responses"].get(&status);
    let declared = declared.or_else(|| operation["responses"].get("default"));
    let Some(response) = declared.filter(|_| operation["responses"].get(&status).is_some()) else {
        return vec![format!("status {status} is not declared")];
    };
    let response = match response["$ref"].as_str() {
        Some(reference) => document().pointer(reference.trim_start_matches('#')).unwrap(),
        None => response,
    };
    let Some(content) = response["content"].as_object() else {
        let is_empty = reply.body.is_empty();
        return if is_empty { Vec::new() } else { vec!["a body is not declared".to_owned()] };
    };
    if reply.body.is_empty() {
        return Vec::new();
    }
    let media_type = reply.header("content-type").split(';').next().unwrap_or_default().trim();
    let declared = content.iter().find(|(name, _)| name.split(';').next() == Some(media_type));
    let Some((_, declared)) = declared else {
        return vec![format!("media type {media_type} is not declared for {status}")];
    };
    if !["application/json", "application/problem+json"].contains(&media_type) {
        return Vec::new();
    }
    match serde_json::from_slice(&reply.body) {
        Ok(body) => schema::problems(document(), &declared["schema"], &body),
        Err(error) => vec![format!("the body is no JSON: {error}")],
    }
}
