//! The requests of tests and the sandbox to the platforms, below `/control`.

use http::StatusCode;
use serde_json::{Value, json};
use simulator_kit::control::{
    ControlEntry, ControlOutcome, ControlProblem, ControlRequest, control_response,
};
use simulator_kit::script::WireReply;
use simulator_kit::service::storage_response;

use crate::host::PlatformHost;
use crate::lists;
use crate::simulator::PlatformsSimulator;

/// The most requests of a page of the request log.
const LOG_PAGE_MAX: usize = 10_000;

/// The control requests.
pub(crate) const INDEX: [ControlEntry; 5] = [
    (
        "GET",
        "/control/accounts",
        "lists the accounts that the platforms accept, with their credentials",
    ),
    ("GET", "/control/routes", "lists every route of every platform"),
    (
        "GET",
        "/control/requests",
        "lists the requests to a `platform` `after` a number, up to `limit`",
    ),
    (
        "GET",
        "/control/requests/count",
        "counts the requests to a `platform`, or those with a `call_id`",
    ),
    (
        "POST",
        "/control/lists",
        "changes a `list` of a `platform`: `do` is add, remove or move a row, `at` a position and `to` another",
    ),
];

/// Responds to a request; `None` if its path is not one of these.
pub(crate) fn answer(
    platforms: &PlatformsSimulator,
    request: &ControlRequest<'_>,
) -> Option<WireReply> {
    if let Some(sha256) = request.path.strip_prefix("/files/") {
        return Some(file(platforms, sha256));
    }
    let outcome = match (request.method.as_str(), request.path) {
        ("GET", "/accounts") => Ok(accounts(platforms)),
        ("GET", "/routes") => Ok(routes(platforms)),
        ("GET", "/requests") => requests(platforms, request),
        ("GET", "/requests/count") => count(platforms, request),
        ("POST", "/lists") => change_list(platforms, request),
        _ => return None,
    };
    Some(control_response(outcome))
}

/// An uploaded file, byte by byte.
fn file(platforms: &PlatformsSimulator, sha256: &str) -> WireReply {
    for host in &platforms.hosts {
        match host.file(sha256) {
            Ok(Some(bytes)) => {
                return WireReply::new(StatusCode::OK).content("application/octet-stream", bytes);
            }
            Ok(None) => {}
            Err(error) => return storage_response(&error),
        }
    }
    control_response(Err(ControlProblem::new(StatusCode::NOT_FOUND, "no such file")))
}

fn accounts(platforms: &PlatformsSimulator) -> Value {
    let all: Vec<_> = platforms.hosts.iter().flat_map(|host| &host.accounts).collect();
    json!({"accounts": all})
}

fn routes(platforms: &PlatformsSimulator) -> Value {
    let all = platforms.hosts.iter().flat_map(|host| {
        host.routes().map(|(method, template)| {
            json!({"platform": host.platform.name(), "method": method.as_str(), "path": template})
        })
    });
    json!({"routes": all.collect::<Vec<_>>()})
}

/// `platform`, `after` (a number, exclusive), `limit`.
fn requests(platforms: &PlatformsSimulator, request: &ControlRequest<'_>) -> ControlOutcome {
    let after = request.number("after")?.unwrap_or(0);
    let limit = request.number("limit")?.map_or(1000, |limit| usize::try_from(limit).unwrap_or(0));
    let log = &host(platforms, request.value("platform"))?.log;
    let page = log.page(after, limit.min(LOG_PAGE_MAX))?;
    let next = page.last().map_or(after, |last| last.seq);
    let (total, first_seq) = (log.counts().count, log.first_seq());
    Ok(json!({"requests": page, "next_after": next, "total": total, "first_seq": first_seq}))
}

/// `platform` (by default all). With `call_id`, only requests in memory are searched.
fn count(platforms: &PlatformsSimulator, request: &ControlRequest<'_>) -> ControlOutcome {
    let hosts: Vec<&PlatformHost> = match request.value("platform") {
        Some(name) => vec![host(platforms, Some(name))?],
        None => platforms.hosts.iter().collect(),
    };
    let counts = hosts.into_iter().map(|host| match request.value("call_id") {
        Some(call_id) => host.log.counts_of(call_id),
        None => host.log.counts(),
    });
    let (count, writes) = counts
        .fold((0, 0), |(count, writes), counted| (count + counted.count, writes + counted.writes));
    Ok(json!({"count": count, "writes": writes}))
}

/// See [`lists::ListChange`].
fn change_list(platforms: &PlatformsSimulator, request: &ControlRequest<'_>) -> ControlOutcome {
    let change = serde_json::from_slice::<lists::ListChange>(request.body);
    let not_right = |error| ControlProblem::of_field("body", format!("is invalid: {error}"));
    let change = change.map_err(not_right)?;
    let host = host(platforms, Some(&change.platform))?;
    lists::change(host, &change)
        .map_err(|problem| ControlProblem::new(StatusCode::CONFLICT, problem))
}

fn host<'a>(
    platforms: &'a PlatformsSimulator,
    name: Option<&str>,
) -> Result<&'a PlatformHost, ControlProblem> {
    platforms.host(name.unwrap_or_default()).ok_or_else(|| {
        let names: Vec<&str> = platforms.hosts.iter().map(|it| it.platform.name()).collect();
        ControlProblem::of_field("platform", format!("must be one of {}", names.join(", ")))
    })
}
