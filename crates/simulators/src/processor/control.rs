//! `/control/processor`: the clock, events, disputes, and what goes wrong on purpose; also what a person would do on
//! the pages, for tests that have no browser.

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::checkout::{self, Paid};
use super::fields::{at, flag, list, text, whole};
use super::problem::Problem;
use super::switches::Rule;
use super::{Processor, calendar, delivery, disputes, intents, payment_methods, routes};

/// What there is: method, path, and what it does.
pub(crate) const INDEX: [(&str, &str, &str); 17] = [
    (
        "GET",
        "/control/processor",
        "the payment processor: where it is, its keys, its clock, how events are sent",
    ),
    ("GET", "/control/processor/routes", "every request that the processor's API knows"),
    (
        "GET",
        "/control/processor/requests",
        "the requests that the processor's API was asked, oldest first",
    ),
    (
        "POST",
        "/control/processor/webhook",
        "changes where and how events are sent: `url`, `secret`, `api_version`, `enabled_events`, `held`, `copies`, `reversed`, `delay_ms`",
    ),
    ("GET", "/control/processor/events", "all events, oldest first, and whether they wait"),
    (
        "POST",
        "/control/processor/deliver",
        "sends every event that waits, and says what became of it",
    ),
    (
        "POST",
        "/control/processor/events/{id}/send",
        "sends one event `copies` times at once, with another `signature` if one is given",
    ),
    (
        "POST",
        "/control/processor/clock",
        "moves the processor's clock by `advance_s`, `advance_days` or `advance_months`",
    ),
    ("GET", "/control/processor/switches", "what is to go wrong on purpose"),
    (
        "POST",
        "/control/processor/switches",
        "lets requests go wrong: `kind`, `method`, `path`, `after`, `times`",
    ),
    ("DELETE", "/control/processor/switches", "takes all of them back"),
    ("POST", "/control/processor/declines", "declines the next charges with `codes`"),
    (
        "POST",
        "/control/processor/checkout/{id}/pay",
        "does what a customer does on a session's page: `card`, `authenticate`",
    ),
    (
        "POST",
        "/control/processor/intents/{id}/authenticate",
        "does what a customer does on the bank's page: `proven`",
    ),
    (
        "POST",
        "/control/processor/intents/{id}/settle",
        "lets the money of a processing intent come, or not: `paid`",
    ),
    (
        "POST",
        "/control/processor/disputes",
        "lets a bank take back a `charge` or a `payment_intent`",
    ),
    ("POST", "/control/processor/disputes/{id}/close", "closes a dispute: `won`"),
];

type Outcome = Result<Value, Problem>;

/// Answers a request; `path` is what follows `/control/processor`.
pub(crate) async fn answer(
    processor: &Processor,
    method: &Method,
    path: &str,
    body: &Bytes,
) -> (StatusCode, Value) {
    let read = if body.is_empty() { Ok(json!({})) } else { serde_json::from_slice::<Value>(body) };
    let Ok(body) = read else {
        return (StatusCode::BAD_REQUEST, json!({"error": "body is not JSON", "field": "body"}));
    };
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let outcome = match (method.as_str(), parts.as_slice()) {
        ("POST", ["deliver"]) => Ok(deliver(processor).await),
        ("POST", ["events", id, "send"]) => send(processor, id, &body).await,
        ("GET", _) => look(processor, &parts),
        ("POST", _) => act(processor, &parts, &body),
        ("DELETE", ["switches"]) => Ok(json!({"removed": processor.switches.clear()})),
        _ => Err(unknown()),
    };
    match outcome {
        Ok(done) => (StatusCode::OK, done),
        Err(problem) => {
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
            let code = problem.decline_code.or(problem.code);
            (status, json!({"error": problem.message, "field": problem.param, "code": code}))
        }
    }
}

fn unknown() -> Problem {
    Problem::invalid("no such control; GET /control lists them").status(404)
}

fn look(processor: &Processor, parts: &[&str]) -> Outcome {
    match parts {
        [""] => Ok(overview(processor)),
        ["routes"] => {
            let all = routes::all().map(|(method, path)| json!({"method": method, "path": path}));
            Ok(json!({"routes": all.collect::<Vec<_>>()}))
        }
        ["requests"] => Ok(json!({"requests": processor.requests()})),
        ["switches"] => Ok(json!({"switches": processor.switches.shown()})),
        ["events"] => Ok(processor.with_books(|books| {
            let event = |event: &Value| {
                json!({
                    "id": text(event, "id"), "type": text(event, "type"), "created": whole(event, "created"),
                    "object": at(event, "data.object.id"), "waiting": flag(event, "_.waiting"),
                })
            };
            json!({"events": books.all("event").map(event).collect::<Vec<_>>()})
        })),
        _ => Err(unknown()),
    }
}

fn overview(processor: &Processor) -> Value {
    let base = processor.base();
    json!({
        "url": base, "js_url": format!("{base}/processor/js"), "secret_key": processor.secret_key,
        "publishable_key": processor.publishable_key, "now": processor.now_s(),
        "webhook": delivery::shown(&processor.outbox.endpoint()), "events_waiting": processor.outbox.waiting(),
    })
}

fn act(processor: &Processor, parts: &[&str], body: &Value) -> Outcome {
    match parts {
        ["webhook"] => webhook(processor, body),
        ["clock"] => clock(processor, body),
        ["switches"] => {
            let rule: Rule = serde_json::from_value(body.clone()).map_err(|error| {
                Problem::param("kind", format!("this is not a switch: {error}"))
            })?;
            Ok(json!({"id": processor.switches.add(rule)}))
        }
        ["declines"] => {
            let codes: Vec<String> = list(body, "codes")
                .iter()
                .filter_map(|code| code.as_str().map(str::to_owned))
                .collect();
            if codes.is_empty() {
                return Err(Problem::param(
                    "codes",
                    "codes must be a list such as [\"generic_decline\"]",
                ));
            }
            processor.with_books(|books| books.declines.extend(codes));
            Ok(json!({"ok": true}))
        }
        ["checkout", id, "pay"] => pay(processor, id, body),
        ["intents", id, "authenticate"] => {
            let proven = at(body, "proven").as_bool().unwrap_or(true);
            let done = processor.with_books(|books| checkout::authenticated(books, id, proven));
            done.map(|()| json!({"ok": true}))
        }
        ["intents", id, "settle"] => {
            let paid = at(body, "paid").as_bool().unwrap_or(true);
            processor
                .with_books(|books| intents::settle(books, id, paid))
                .map(|()| json!({"ok": true}))
        }
        ["disputes"] => dispute(processor, body),
        ["disputes", id, "close"] => {
            let won = at(body, "won")
                .as_bool()
                .ok_or_else(|| Problem::param("won", "won must be true or false"))?;
            processor.with_books(|books| disputes::decide(books, id, won))
        }
        _ => Err(unknown()),
    }
}

fn webhook(processor: &Processor, body: &Value) -> Outcome {
    let version = text(body, "api_version");
    if !version.is_empty() && !super::versions::KNOWN.contains(&version) {
        let known = super::versions::KNOWN.join(", ");
        return Err(Problem::param("api_version", format!("api_version must be one of {known}")));
    }
    if !at(body, "url").is_null() && !text(body, "url").starts_with("http://") {
        return Err(Problem::param("url", "url must begin with http://"));
    }
    processor.outbox.change(|endpoint| {
        if let Some(url) = body.get("url") {
            endpoint.url = url.as_str().map(str::to_owned);
        }
        for (name, place) in
            [("secret", &mut endpoint.secret), ("api_version", &mut endpoint.version)]
        {
            if let Some(value) = at(body, name).as_str() {
                value.clone_into(place);
            }
        }
        if let Some(enabled) = at(body, "enabled_events").as_array() {
            endpoint.enabled =
                enabled.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        }
        for (name, place) in [("held", &mut endpoint.held), ("reversed", &mut endpoint.reversed)] {
            *place = at(body, name).as_bool().unwrap_or(*place);
        }
        if let Some(copies) = at(body, "copies").as_u64() {
            endpoint.copies = usize::try_from(copies).unwrap_or(1).clamp(1, 100);
        }
        endpoint.delay_ms = at(body, "delay_ms").as_u64().unwrap_or(endpoint.delay_ms);
    });
    Ok(delivery::shown(&processor.outbox.endpoint()))
}

fn clock(processor: &Processor, body: &Value) -> Outcome {
    let now = processor.now_s();
    let to = calendar::after(now, "month", whole(body, "advance_months"));
    let by_s = to - now + whole(body, "advance_days") * 86_400 + whole(body, "advance_s");
    if by_s < 0 {
        return Err(Problem::param("advance_s", "the clock only moves ahead"));
    }
    Ok(json!({"now": processor.advance(by_s)}))
}

fn pay(processor: &Processor, id: &str, body: &Value) -> Outcome {
    let card = if text(body, "card").is_empty() { "pm_card_visa" } else { text(body, "card") };
    let proven = at(body, "authenticate").as_bool();
    let paid = processor.with_books(|books| {
        let method = payment_methods::from_number(books, card, (12, 2034))?;
        checkout::pay(books, id, &method, false)
    })?;
    if let Paid::Authenticate(page) = &paid {
        let Some(proven) = proven else {
            return Ok(json!({"status": "open", "authenticate": page}));
        };
        processor.with_books(|books| checkout::authenticated(books, page, proven))?;
    }
    let session = processor.with_books(|books| books.get(id).cloned()).unwrap_or_default();
    Ok(json!({
        "status": text(&session, "status"), "payment_status": text(&session, "payment_status"),
        "redirect": checkout::success_url(&session), "payment_intent": at(&session, "payment_intent"),
        "subscription": at(&session, "subscription"),
    }))
}

fn dispute(processor: &Processor, body: &Value) -> Outcome {
    let reason = if text(body, "reason").is_empty() { "fraudulent" } else { text(body, "reason") };
    processor.with_books(|books| {
        let intent = books
            .get(text(body, "payment_intent"))
            .map(|intent| text(intent, "latest_charge").to_owned());
        let charge = intent.unwrap_or_else(|| text(body, "charge").to_owned());
        let opened = disputes::open(books, &charge, reason);
        let id = opened
            .ok_or_else(|| Problem::param("charge", "there is no such charge that succeeded"))?;
        books.find("dispute", &id, "id").cloned()
    })
}

async fn deliver(processor: &Processor) -> Value {
    let mut tried = Vec::new();
    // What the endpoint does with one event may bring about others.
    for _ in 0..10 {
        let round = delivery::send_waiting(processor, true).await;
        let failed =
            round.iter().any(|one| one.status.is_none_or(|status| !(200..300).contains(&status)));
        let done = round.is_empty() || failed;
        tried.extend(round);
        if done {
            break;
        }
    }
    let shown =
        tried.iter().map(|one| json!({"id": one.event, "type": one.kind, "status": one.status}));
    json!({"sent": shown.collect::<Vec<_>>(), "waiting": processor.outbox.waiting()})
}

async fn send(processor: &Processor, id: &str, body: &Value) -> Outcome {
    let known = processor.with_books(|books| books.find("event", id, "id").map(drop));
    known?;
    if processor.outbox.endpoint().url.is_none() {
        return Err(Problem::param(
            "url",
            "no webhook url is set: POST /control/processor/webhook",
        ));
    }
    let copies = at(body, "copies").as_u64().unwrap_or(1).clamp(1, 100);
    let signature = at(body, "signature").as_str();
    let all = (0..copies).map(|_| delivery::send(processor, id, signature.map(str::to_owned)));
    let statuses: Vec<Value> =
        at_once(all).await.into_iter().map(|tried| json!(tried.status)).collect();
    Ok(json!({"statuses": statuses}))
}

/// Waits for all of them together.
async fn at_once<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in &mut running {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}
