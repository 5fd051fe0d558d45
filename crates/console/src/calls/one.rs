//! `/console/calls/{call_id}`: why a call cost what it did.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use domain::id::CallId;
use http::StatusCode;
use serde::Deserialize;

use super::view::{ShownCall, outcome_meaning};
use crate::examples::CodeExample;
use crate::keys::view::{KeyList, ShownKey};
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::format;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

const SECONDS_PER_DAY: i64 = 86_400;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route("/console/calls/{call}", get(show))
}

/// A call with what was held for it.
#[derive(Deserialize)]
struct CallDetails {
    #[serde(flatten)]
    call: ShownCall,
    held: i64,
    has_idempotency_key: bool,
}

#[derive(Template)]
#[template(path = "console/calls/one.html")]
struct CallPage {
    frame: PageShell,
    call: ShownCall,
    has_idempotency_key: bool,
    receipt: CallReceipt,
    meaning: &'static str,
    /// The key's name; its id if the keys could not be read.
    key_name: String,
    /// The route in the explorer; empty for a path that is not in the catalogue.
    explorer: String,
    /// The log of calls for the same account.
    of_account: String,
    /// The log of calls with the same tag.
    of_tag: String,
    /// The log of calls of the same route.
    of_route: String,
    /// Where the time went; none while it is running.
    time: Option<TimeParts>,
    code: CodeExample,
}

/// What was held, returned and charged.
struct CallReceipt {
    held: String,
    returned: String,
    charged: String,
    reason: String,
}

/// Milliseconds of a call.
struct TimeParts {
    total: i64,
    platform: i64,
    gateway: i64,
}

#[derive(Template)]
#[template(path = "console/calls/missing.html")]
struct MissingPage {
    frame: PageShell,
    id: String,
    /// Why there is none, if its id says so.
    reason: String,
}

async fn show(visitor: ConsoleVisitor, Path(id): Path<String>) -> Result<Response, PageFailure> {
    let path = format!("/v1/billing/usage/calls/{}", address::segment(&id));
    let found = visitor.try_get::<CallDetails>(&path);
    let keys = visitor.try_get::<KeyList>("/v1/auth/keys");
    let (found, keys) = futures_util::join!(found, keys);
    match found {
        Ok(details) => {
            let name = keys.ok().and_then(|list| key_name(&list, &details.call.key_id));
            let status = StatusCode::OK;
            Ok(visitor.show(status, &page(&visitor, details, name)))
        }
        Err(problem) if problem.status == StatusCode::NOT_FOUND => Ok(missing(&visitor, id)),
        Err(problem) => Err(visitor.fail(problem)),
    }
}

fn key_name(list: &KeyList, id: &str) -> Option<String> {
    list.keys.iter().find(|key| key.id == id).map(ShownKey::label)
}

fn page(visitor: &ConsoleVisitor, details: CallDetails, key_name: Option<String>) -> CallPage {
    let CallDetails { call, held, has_idempotency_key } = details;
    let log = |name, value| format!("/console/calls{}", address::query(&[(name, value)]));
    CallPage {
        frame: visitor.shell(ConsoleSection::Calls),
        has_idempotency_key,
        receipt: CallReceipt::new(&call, held),
        meaning: outcome_meaning(&call.outcome),
        key_name: key_name.unwrap_or_else(|| call.key_id.clone()),
        explorer: explorer(&call),
        of_account: log("account", &call.account),
        of_tag: log("tag", call.tag.as_deref().unwrap_or_default()),
        of_route: log("route", &call.route),
        time: TimeParts::of(&call),
        code: code(visitor, &call),
        call,
    }
}

/// The call as code. Its query and body are not stored, so a write has an empty body.
fn code(visitor: &ConsoleVisitor, call: &ShownCall) -> CodeExample {
    // The path is stored as it was sent, with its escapes.
    let path = address::encoded(&call.path, "/%");
    let account = address::segment(&call.account);
    let is_write = !matches!(call.method.as_str(), "GET" | "HEAD");
    CodeExample {
        method: call.method.clone(),
        url: format!("{}/v1/{account}/native/{path}", visitor.base_url()),
        body: is_write.then(|| "{}".to_owned()),
        file: None,
    }
}

fn explorer(call: &ShownCall) -> String {
    if call.is_unlisted() {
        return String::new();
    }
    let pairs = [("account", call.account.as_str()), ("route", call.route.as_str())];
    format!("/console/explorer{}", address::query(&pairs))
}

impl CallReceipt {
    fn new(call: &ShownCall, held: i64) -> Self {
        let charged = if call.is_running() { 0 } else { call.credits };
        let returned = if call.is_running() { 0 } else { held.saturating_sub(charged) };
        Self {
            held: format::number(held),
            returned: format::number(-returned),
            charged: format::credits(charged),
            reason: call.ending().to_owned(),
        }
    }
}

impl TimeParts {
    fn of(call: &ShownCall) -> Option<Self> {
        let total = call.duration_ms?;
        let platform = call.upstream_ms.unwrap_or(0).clamp(0, total.max(0));
        Some(Self { total, platform, gateway: total.saturating_sub(platform) })
    }
}

/// The page of a call that there is not, or not any more.
fn missing(visitor: &ConsoleVisitor, id: String) -> Response {
    let days = visitor.config().retention.calls_days;
    let made_at = id.parse().ok().and_then(CallId::made_at);
    let oldest = visitor.now().plus_seconds(-days.saturating_mul(SECONDS_PER_DAY));
    let is_summed_up = days > 0 && made_at.is_some_and(|at| at < oldest);
    let reason = if is_summed_up {
        let day = made_at.map(|at| format::day(&at.to_string())).unwrap_or_default();
        format!(
            "This ID is from {day}. Calls are kept for {}; this call is now only part of the totals of its day.",
            format::counted(days, "day")
        )
    } else {
        "No such call, or it isn’t yours.".to_owned()
    };
    let page = MissingPage { frame: visitor.shell(ConsoleSection::Calls), id, reason };
    visitor.show(StatusCode::NOT_FOUND, &page)
}
