//! The destination of events, and sending them by hand: all pending ones, some of them in an order,
//! or one several times.

use serde_json::{Value, json};

use super::ControlResult;
use crate::delivery::{self, DeliveryAttempt};
use crate::fields::{at, list, text};
use crate::problem::ApiError;
use crate::{ProcessorSimulator, events, versions};

/// The most copies of an event that are sent.
const COPIES_MAX: u64 = 100;

pub(super) fn webhook(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    let version = text(body, "api_version");
    if !version.is_empty() && !versions::KNOWN.contains(&version) {
        let known = versions::KNOWN.join(", ");
        return Err(ApiError::param("api_version", format!("api_version must be one of {known}")));
    }
    if !at(body, "url").is_null() && !text(body, "url").starts_with("http://") {
        return Err(ApiError::param("url", "url must start with http://"));
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
        if let Some(parallel) = at(body, "parallel").as_u64() {
            endpoint.parallel = usize::try_from(parallel).unwrap_or(1).clamp(1, 100);
        }
        endpoint.delay_ms = at(body, "delay_ms").as_u64().unwrap_or(endpoint.delay_ms);
    });
    Ok(delivery::shown(&processor.outbox.endpoint()))
}

/// Sends all pending events; or those in `events`, in this order; or the pending ones about the
/// objects in `about`, oldest first or `reversed`. Each is sent `copies` times.
pub(super) async fn deliver(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    let chosen = if body.get("events").is_some() {
        Some(named(processor, &ids(body, "events")?)?)
    } else if body.get("about").is_some() {
        Some(about(processor, &ids(body, "about")?, body))
    } else {
        None
    };
    let tried = match chosen {
        None => all(processor).await,
        Some(chosen) => {
            check_url(processor)?;
            let copies = copies(body);
            delivery::send_these(processor, &chosen, usize::try_from(copies).unwrap_or(1)).await
        }
    };
    let shown =
        tried.iter().map(|one| json!({"id": one.event, "type": one.kind, "status": one.status}));
    Ok(json!({"sent": shown.collect::<Vec<_>>(), "waiting": processor.outbox.waiting()}))
}

fn ids(body: &Value, name: &str) -> Result<Vec<String>, ApiError> {
    let all = list(body, name).iter().map(|id| id.as_str().map(str::to_owned));
    let read: Option<Vec<String>> = all.collect();
    let refuse = || ApiError::param(name, format!("{name} must be a list of ids"));
    read.filter(|ids| !ids.is_empty()).ok_or_else(refuse)
}

fn named(processor: &ProcessorSimulator, ids: &[String]) -> Result<Vec<String>, ApiError> {
    processor.with_store(|store| {
        for id in ids {
            store.find("event", id, "events")?;
        }
        Ok(ids.to_vec())
    })
}

fn about(processor: &ProcessorSimulator, ids: &[String], body: &Value) -> Vec<String> {
    let mut found = processor.with_store(|store| events::waiting_about(store, ids));
    if at(body, "reversed").as_bool() == Some(true) {
        found.reverse();
    }
    found
}

async fn all(processor: &ProcessorSimulator) -> Vec<DeliveryAttempt> {
    let mut tried = Vec::new();
    // The endpoint's reaction to an event may cause further events.
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
    tried
}

pub(super) async fn send(processor: &ProcessorSimulator, id: &str, body: &Value) -> ControlResult {
    let known = processor.with_store(|store| store.find("event", id, "id").map(drop));
    known?;
    check_url(processor)?;
    let signature = at(body, "signature").as_str();
    let all =
        (0..copies(body)).map(|_| delivery::send(processor, id, signature.map(str::to_owned)));
    let statuses: Vec<Value> =
        delivery::at_once(all).await.into_iter().map(|tried| json!(tried.status)).collect();
    Ok(json!({"statuses": statuses}))
}

fn copies(body: &Value) -> u64 {
    at(body, "copies").as_u64().unwrap_or(1).clamp(1, COPIES_MAX)
}

fn check_url(processor: &ProcessorSimulator) -> Result<(), ApiError> {
    if processor.outbox.endpoint().url.is_some() {
        return Ok(());
    }
    Err(ApiError::param("url", "no webhook url is set: POST /control/processor/webhook"))
}
