//! `/control`: what tests and the sandbox ask the simulators themselves.

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::faults::input::Mistake;
use crate::lists;
use crate::mail;
use crate::mount::Mount;
use crate::platform::routes::parse_pairs;
use crate::processor;
use crate::service::Service;

/// A page of the request log has at most this many requests.
const LOG_PAGE_MAX: usize = 10_000;

/// What there is: method, path, and what it does.
const INDEX: [(&str, &str, &str); 16] = [
    ("GET", "/control", "this list"),
    ("GET", "/control/health", "says that the simulators run"),
    ("GET", "/control/accounts", "the accounts that the platforms accept, with their credentials"),
    ("GET", "/control/routes", "all routes of all platforms"),
    ("GET", "/control/requests", "what a `platform` was asked `after` a number, up to `limit`"),
    ("GET", "/control/requests/count", "how often a `platform` was asked, or with a `call_id`"),
    ("GET", "/control/faults", "the faults in force, and the catalogue of all kinds"),
    ("POST", "/control/faults", "adds a fault: `kind`, which requests meet it, and its fields"),
    ("DELETE", "/control/faults/{id}", "removes a fault"),
    ("DELETE", "/control/faults", "removes all faults"),
    (
        "POST",
        "/control/lists",
        "changes a `list` of a `platform`: `do` is add `at` a place, remove `at` one, or move one `to` another",
    ),
    ("GET", "/control/mail", "the mails that were taken, or those `to` an address"),
    (
        "GET",
        "/control/mail/{id}",
        "a mail: headers, text, HTML and links; /mail shows it in a browser",
    ),
    ("POST", "/control/mail/refuse", "refuses the `next` mails with a `code` of SMTP"),
    (
        "POST",
        "/control/clock",
        "moves the clock of all simulators `to` a second, or by `advance_s`, `advance_days` or `advance_months`",
    ),
    ("POST", "/control/reset", "forgets all requests, mails, all that was written, and all faults"),
];

/// Answers a request; `target` is what follows `/control`.
pub(crate) async fn answer(
    service: &Service,
    method: &Method,
    target: &str,
    body: &Bytes,
) -> (StatusCode, Value) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = parse_pairs(query);
    if let Some(path) = path.strip_prefix("/processor") {
        return processor::control::answer(&service.processor, method, path, body).await;
    }
    if (method, path) == (&Method::POST, "/clock") {
        let read = serde_json::from_slice(body).unwrap_or_default();
        return processor::control::world_clock(&service.processor, &read);
    }
    let outcome = match (method.as_str(), path) {
        ("GET", "" | "/") => Ok(index()),
        ("GET", "/health") => Ok(json!({"ok": true})),
        ("GET", "/accounts") => Ok(accounts(service)),
        ("GET", "/routes") => Ok(routes(service)),
        ("GET", "/requests") => requests(service, &query),
        ("GET", "/requests/count") => count(service, &query),
        ("GET", "/faults") => Ok(service.faults.shown()),
        ("POST", "/faults") => add_fault(service, body),
        ("DELETE", "/faults") => Ok(json!({"removed": service.faults.clear()})),
        ("DELETE", path) if path.starts_with("/faults/") => remove_fault(service, path),
        ("POST", "/lists") => change_list(service, body),
        ("GET", "/mail") => Ok(mails(service, &query)),
        ("POST", "/mail/refuse") => refuse_mails(service, &query),
        ("GET", path) if path.starts_with("/mail/") => mail(service, path),
        ("POST", "/reset") => reset(service),
        _ => Err(Problem::of(StatusCode::NOT_FOUND, "no such control; GET /control lists them")),
    };
    // Ports are shut and opened as the faults say before anybody is told.
    if let Some(doors) = service.doors.get().filter(|_| method != Method::GET) {
        doors.follow(&service.faults).await;
    }
    match outcome {
        Ok(done) => (StatusCode::OK, done),
        Err(Problem { status, message, field: None }) => (status, json!({"error": message})),
        Err(Problem { status, message, field: Some(field) }) => {
            (status, json!({"error": format!("{field} {message}"), "field": field}))
        }
    }
}

type Outcome = Result<Value, Problem>;

/// Why something was not done.
struct Problem {
    status: StatusCode,
    message: String,
    /// The field that makes no sense.
    field: Option<String>,
}

impl Problem {
    fn of(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), field: None }
    }

    /// 400 for this field.
    fn with(field: &str, message: impl Into<String>) -> Self {
        let field = Some(field.to_owned());
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), field }
    }
}

impl From<Mistake> for Problem {
    fn from(Mistake { field, problem }: Mistake) -> Self {
        Self::with(&field, problem)
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        tracing::error!(%error, "the data folder cannot be used");
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, "storage")
    }
}

fn index() -> Value {
    let all = INDEX.iter().chain(&processor::control::INDEX);
    let shown =
        all.map(|(method, path, says)| json!({"method": method, "path": path, "says": says}));
    json!({"controls": shown.collect::<Vec<_>>()})
}

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
    let log = &platform(service, query)?.log;
    let page = log.page(after, limit.min(LOG_PAGE_MAX))?;
    let next = page.last().map_or(after, |last| last.seq);
    let (total, first_seq) = (log.counts().count, log.first_seq());
    Ok(json!({"requests": page, "next_after": next, "total": total, "first_seq": first_seq}))
}

/// `platform` (all when absent). With `call_id` only the requests that are kept in memory are looked
/// through.
fn count(service: &Service, query: &[(String, String)]) -> Outcome {
    let named = value(query, "platform").map(|_| platform(service, query)).transpose()?;
    let mounts: Vec<&Mount> = named.map_or_else(|| service.mounts.iter().collect(), |it| vec![it]);
    let counts = mounts.into_iter().map(|mount| match value(query, "call_id") {
        Some(call_id) => mount.log.counts_of(call_id),
        None => mount.log.counts(),
    });
    let (count, writes) = counts
        .fold((0, 0), |(count, writes), counted| (count + counted.count, writes + counted.writes));
    Ok(json!({"count": count, "writes": writes}))
}

fn add_fault(service: &Service, body: &Bytes) -> Outcome {
    let read = serde_json::from_slice::<Value>(body);
    let read = read.map_err(|error| Problem::with("body", format!("is not JSON: {error}")))?;
    let Value::Object(fields) = read else {
        return Err(Problem::with("body", "must be an object with `kind`"));
    };
    Ok(service.faults.add(fields, &service.mounts)?)
}

fn remove_fault(service: &Service, path: &str) -> Outcome {
    let id = path.trim_start_matches("/faults/").parse();
    let id = id.map_err(|_| Problem::with("id", "is not a number"))?;
    if service.faults.remove(id) {
        Ok(json!({"removed": 1}))
    } else {
        Err(Problem::of(StatusCode::NOT_FOUND, "there is no fault with this id"))
    }
}

/// See [`lists::Change`].
fn change_list(service: &Service, body: &Bytes) -> Outcome {
    let change = serde_json::from_slice::<lists::Change>(body);
    let change = change.map_err(|error| Problem::with("body", format!("is not right: {error}")))?;
    let mount = platform(service, &[("platform".to_owned(), change.platform.clone())])?;
    lists::change(mount, &change).map_err(|problem| Problem::of(StatusCode::CONFLICT, problem))
}

/// `to` (everybody when absent); first the oldest.
fn mails(service: &Service, query: &[(String, String)]) -> Value {
    let wanted = value(query, "to");
    let is_wanted = |to: &[String]| {
        wanted.is_none_or(|wanted| to.iter().any(|address| address.eq_ignore_ascii_case(wanted)))
    };
    let all = service.mailbox.all();
    let shown = all.iter().filter(|mail| is_wanted(&mail.to)).map(mail::summary);
    json!({"mails": shown.collect::<Vec<_>>()})
}

fn mail(service: &Service, path: &str) -> Outcome {
    let found = path.strip_prefix("/mail/").and_then(|id| service.mailbox.find(id));
    let missing = || Problem::of(StatusCode::NOT_FOUND, "there is no such mail");
    found.map(|mail| mail::whole(&mail)).ok_or_else(missing)
}

/// `next`: how many mails; `code`: what SMTP answers instead of taking them, 451 when absent.
fn refuse_mails(service: &Service, query: &[(String, String)]) -> Outcome {
    let code = number(query, "code")?.unwrap_or(451);
    let code = u16::try_from(code).ok().filter(|code| (400..600).contains(code));
    let code = code.ok_or_else(|| Problem::with("code", "must be 400 to 599"))?;
    service.mailbox.refuse(number(query, "next")?.unwrap_or(1), code);
    Ok(json!({"ok": true}))
}

fn reset(service: &Service) -> Outcome {
    service.faults.clear();
    service.mailbox.clear()?;
    service.processor.reset()?;
    for mount in &service.mounts {
        mount.reset()?;
    }
    Ok(json!({"ok": true}))
}

fn platform<'a>(service: &'a Service, query: &[(String, String)]) -> Result<&'a Mount, Problem> {
    let name = value(query, "platform").unwrap_or_default();
    let names =
        || service.mounts.iter().map(|it| it.platform.name()).collect::<Vec<_>>().join(", ");
    let missing = || Problem::with("platform", format!("must be one of {}", names()));
    service.mount(name).ok_or_else(missing)
}

fn value<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn number(query: &[(String, String)], name: &str) -> Result<Option<u64>, Problem> {
    let parse = |text: &str| text.parse().map_err(|_| Problem::with(name, "is not a number"));
    value(query, name).map(parse).transpose()
}
