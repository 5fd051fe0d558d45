//! `/control`: what tests and the sandbox ask the simulators themselves.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::platform::routes::parse_pairs;
use crate::service::Service;

/// A page of the request log has at most this many requests.
const LOG_PAGE_MAX: usize = 10_000;

/// Answers a request; `target` is what follows `/control`.
pub(crate) fn answer(service: &Service, method: &Method, target: &str) -> (StatusCode, Value) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = parse_pairs(query);
    let outcome = match (method.as_str(), path) {
        ("GET", "/health") => Ok(json!({"ok": true})),
        ("GET", "/accounts") => Ok(accounts(service)),
        ("GET", "/routes") => Ok(routes(service)),
        ("GET", "/requests") => requests(service, &query),
        ("GET", "/requests/count") => count(service, &query),
        ("POST", "/reset") => reset(service),
        _ => Err((StatusCode::NOT_FOUND, "no such control".to_owned())),
    };
    match outcome {
        Ok(body) => (StatusCode::OK, body),
        Err((status, message)) => (status, json!({"error": message})),
    }
}

type Outcome = Result<Value, (StatusCode, String)>;

fn accounts(service: &Service) -> Value {
    let all: Vec<_> = service.mounts.iter().flat_map(|mount| &mount.accounts).collect();
    json!({"accounts": all})
}

fn routes(service: &Service) -> Value {
    let all = service.mounts.iter().flat_map(|mount| {
        mount.routes().map(|(method, template)| {
            json!({"platform": mount.platform.name(), "method": method.as_str(), "path": template})
        })
    });
    json!({"routes": all.collect::<Vec<_>>()})
}

/// `platform`, `after` (a seq, exclusive), `limit`.
fn requests(service: &Service, query: &[(String, String)]) -> Outcome {
    let after = number(query, "after")?.unwrap_or(0);
    let limit = number(query, "limit")?.map_or(1000, |limit| usize::try_from(limit).unwrap_or(0));
    let mount = platform(service, query)?;
    let all = mount.log.read().map_err(|error| storage(&error))?;
    let page: Vec<_> =
        all.iter().filter(|it| it.seq > after).take(limit.min(LOG_PAGE_MAX)).collect();
    let next = page.last().map_or(after, |last| last.seq);
    Ok(json!({"requests": page, "next_after": next}))
}

/// `platform` (all when absent), `call_id` (all when absent).
fn count(service: &Service, query: &[(String, String)]) -> Outcome {
    let wanted = value(query, "call_id");
    let mut count = 0;
    let mut writes = 0;
    for mount in &service.mounts {
        if value(query, "platform").is_some_and(|name| name != mount.platform.name()) {
            continue;
        }
        for request in mount.log.read().map_err(|error| storage(&error))? {
            if wanted.is_none() || request.call_id.as_deref() == wanted {
                count += 1;
                writes += u64::from(request.write);
            }
        }
    }
    Ok(json!({"count": count, "writes": writes}))
}

fn reset(service: &Service) -> Outcome {
    for mount in &service.mounts {
        mount.reset().map_err(|error| storage(&error))?;
    }
    Ok(json!({"ok": true}))
}

fn platform<'a>(
    service: &'a Service,
    query: &[(String, String)],
) -> Result<&'a crate::mount::Mount, (StatusCode, String)> {
    let name = value(query, "platform").unwrap_or_default();
    let missing = || (StatusCode::BAD_REQUEST, "platform is required".to_owned());
    service.mount(name).ok_or_else(missing)
}

fn value<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn number(query: &[(String, String)], name: &str) -> Result<Option<u64>, (StatusCode, String)> {
    let parse = |text: &str| {
        text.parse().map_err(|_| (StatusCode::BAD_REQUEST, format!("{name} is not a number")))
    };
    value(query, name).map(parse).transpose()
}

fn storage(error: &std::io::Error) -> (StatusCode, String) {
    tracing::error!(%error, "the data folder cannot be used");
    (StatusCode::INTERNAL_SERVER_ERROR, "storage".to_owned())
}
