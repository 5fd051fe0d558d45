//! `/control/processor`: the clock, events, disputes, and faults; also the actions of people on the
//! pages, for tests without a browser.

mod customer;
mod events;
mod money;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use simulator_kit::clock::seconds_ahead;
use simulator_kit::control::ControlEntry;

use super::fields::{at, flag, list, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::switches::SwitchRule;
use super::{ProcessorSimulator, checkout, delivery, intents, routes, rules};

/// The control requests: method, path, and what it does.
pub(crate) const INDEX: [ControlEntry; 25] = [
    (
        "GET",
        "/control/processor",
        "shows the payment processor's address, keys, clock, and how events are sent",
    ),
    ("GET", "/control/processor/routes", "lists every request that the processor's API knows"),
    (
        "GET",
        "/control/processor/requests",
        "lists the requests to the processor's API, oldest first",
    ),
    (
        "POST",
        "/control/processor/webhook",
        "changes where and how events are sent: `url`, `secret`, `api_version`, `enabled_events`, `held`, `copies`, `reversed`, `parallel`, `delay_ms`",
    ),
    (
        "GET",
        "/control/processor/events",
        "lists all events, oldest first, and whether they are pending",
    ),
    (
        "POST",
        "/control/processor/deliver",
        "sends all pending events, or `events` in this order, or those `about` some objects, `copies` times",
    ),
    (
        "POST",
        "/control/processor/events/{id}/send",
        "sends one event `copies` times concurrently, with another `signature` if one is given",
    ),
    (
        "POST",
        "/control/processor/clock",
        "moves the processor's clock `to` a second, or by `advance_s`, `advance_days` or `advance_months`",
    ),
    ("GET", "/control/processor/switches", "lists the active switches"),
    (
        "POST",
        "/control/processor/switches",
        "makes requests fail: `kind`, `method`, `path`, `after`, `times`",
    ),
    ("DELETE", "/control/processor/switches", "removes all switches"),
    ("POST", "/control/processor/declines", "declines the next charges with `codes`"),
    (
        "POST",
        "/control/processor/checkout/{id}/pay",
        "acts as the customer on a session's page: `card`, `authenticate`, `promotion_code`, `country`, `name`, `tax_id`",
    ),
    (
        "POST",
        "/control/processor/customers/{id}/cards",
        "makes the charges of a customer's cards, or of one `payment_method`, succeed or fail: `works`, `code`",
    ),
    (
        "POST",
        "/control/processor/customers/{id}/portal",
        "acts as the customer in the portal: `card`, `cancel` or `resume` with a subscription",
    ),
    (
        "GET",
        "/control/processor/rules",
        "shows the rules: tax, retries of unpaid invoices, how refunds start",
    ),
    (
        "POST",
        "/control/processor/rules",
        "sets the rules: `tax_bp`, `retry_days`, `refunds_pending`, `lines_shown`, `requests_per_s`",
    ),
    (
        "POST",
        "/control/processor/next-coupon",
        "gives the next checkout session a coupon: `percent_off` and `duration`, or `coupon`",
    ),
    (
        "POST",
        "/control/processor/intents/{id}/authenticate",
        "acts as the customer on the bank's page: `proven`",
    ),
    (
        "POST",
        "/control/processor/intents/{id}/settle",
        "makes a processing intent succeed or fail: `paid`",
    ),
    (
        "POST",
        "/control/processor/refunds",
        "refunds an `amount` of a `charge`, a `payment_intent` or an `invoice`",
    ),
    (
        "POST",
        "/control/processor/refunds/{id}/settle",
        "makes a refund succeed or fail: `succeeded`, `reason`",
    ),
    (
        "POST",
        "/control/processor/disputes",
        "opens a dispute about a `charge`, a `payment_intent` or an `invoice`, or an `inquiry`",
    ),
    ("POST", "/control/processor/disputes/{id}/close", "closes a dispute: `won`"),
    (
        "POST",
        "/control/processor/warnings",
        "warns that a `charge`, a `payment_intent` or an `invoice` may be fraudulent",
    ),
];

type ControlResult = Result<Value, ApiError>;

/// Responds to a request; `path` is what follows `/control/processor`.
pub(crate) async fn answer(
    processor: &ProcessorSimulator,
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
        ("POST", ["deliver"]) => events::deliver(processor, &body).await,
        ("POST", ["events", id, "send"]) => events::send(processor, id, &body).await,
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

fn unknown() -> ApiError {
    ApiError::invalid("no such control request; GET /control lists all of them").status(404)
}

fn look(processor: &ProcessorSimulator, parts: &[&str]) -> ControlResult {
    match parts {
        [""] => Ok(overview(processor)),
        ["routes"] => {
            let all = routes::all().map(|(method, path)| json!({"method": method, "path": path}));
            Ok(json!({"routes": all.collect::<Vec<_>>()}))
        }
        ["requests"] => Ok(json!({"requests": processor.requests()})),
        ["switches"] => Ok(json!({"switches": processor.switches.shown()})),
        ["rules"] => Ok(processor.with_store(|store| rules::shown(store))),
        ["events"] => Ok(processor.with_store(|store| {
            let event = |event: &Value| {
                json!({
                    "id": text(event, "id"), "type": text(event, "type"), "created": whole(event, "created"),
                    "object": at(event, "data.object.id"), "waiting": flag(event, "_.waiting"),
                })
            };
            json!({"events": store.all("event").map(event).collect::<Vec<_>>()})
        })),
        _ => Err(unknown()),
    }
}

fn overview(processor: &ProcessorSimulator) -> Value {
    let base = processor.base();
    json!({
        "url": base, "js_url": format!("{base}/processor/js"), "secret_key": processor.secret_key,
        "publishable_key": processor.publishable_key, "now": processor.now_s(),
        "webhook": delivery::shown(&processor.outbox.endpoint()), "events_waiting": processor.outbox.waiting(),
    })
}

fn act(processor: &ProcessorSimulator, parts: &[&str], body: &Value) -> ControlResult {
    match parts {
        ["webhook"] => events::webhook(processor, body),
        ["clock"] => clock(processor, body),
        ["switches"] => {
            let rule: SwitchRule = serde_json::from_value(body.clone())
                .map_err(|error| ApiError::param("kind", format!("invalid switch: {error}")))?;
            Ok(json!({"id": processor.switches.add(rule)}))
        }
        ["declines"] => {
            let codes: Vec<String> = list(body, "codes")
                .iter()
                .filter_map(|code| code.as_str().map(str::to_owned))
                .collect();
            if codes.is_empty() {
                return Err(ApiError::param(
                    "codes",
                    "codes must be a list such as [\"generic_decline\"]",
                ));
            }
            processor.with_store(|store| store.declines.extend(codes));
            Ok(json!({"ok": true}))
        }
        ["checkout", id, "pay"] => customer::pay(processor, id, body),
        ["customers", id, "cards"] => customer::cards(processor, id, body),
        ["customers", id, "portal"] => customer::portal(processor, id, body),
        ["rules"] => money::rules(processor, body),
        ["next-coupon"] => money::next_coupon(processor, body),
        ["intents", id, "authenticate"] => {
            let proven = at(body, "proven").as_bool().unwrap_or(true);
            let done = processor.with_store(|store| checkout::authenticated(store, id, proven));
            done.map(|()| json!({"ok": true}))
        }
        ["intents", id, "settle"] => {
            let paid = at(body, "paid").as_bool().unwrap_or(true);
            processor
                .with_store(|store| intents::settle(store, id, paid))
                .map(|()| json!({"ok": true}))
        }
        ["refunds"] => money::refund(processor, body),
        ["refunds", id, "settle"] => money::settle_refund(processor, id, body),
        ["disputes"] => money::dispute(processor, body),
        ["warnings"] => money::warning(processor, body),
        ["disputes", id, "close"] => money::close_dispute(processor, id, body),
        _ => Err(unknown()),
    }
}

/// Changes the store; a failure leaves no trace.
fn attempt<T>(
    processor: &ProcessorSimulator,
    work: impl FnOnce(&mut ObjectStore) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    processor.with_store(|store| {
        let mark = store.mark();
        let done = work(store);
        if done.is_err() {
            store.undo_to(mark);
        }
        done
    })
}

fn clock(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    let by_s = seconds_ahead(processor.now_s(), body)
        .map_err(|mistake| ApiError::param(mistake.field, mistake.message))?;
    Ok(json!({"now": processor.advance(by_s)}))
}
