//! Events: what happened, with the object as it was at that time.

use serde_json::{Map, Value, json};

use super::api_call::ApiCall;
use super::fields::{self, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{lists, render};

/// The version in which the store keeps objects.
pub(crate) const VERSION: &str = "2026-03-25.dahlia";

/// Records an event about the object with this id.
pub(crate) fn emit(store: &mut ObjectStore, kind: &str, id: &str) {
    emit_with(store, kind, id, None);
}

/// The same, with the fields whose values differ from those in `before`.
pub(crate) fn emit_changed(store: &mut ObjectStore, kind: &str, before: &Value) {
    let id = text(before, "id").to_owned();
    let previous = store.get(&id).map(|now| difference(before, now));
    emit_with(store, kind, &id, previous);
}

fn emit_with(store: &mut ObjectStore, kind: &str, id: &str, previous: Option<Value>) {
    let Some(object) = store.get(id).cloned() else { return };
    let event_id = store.new_id("evt");
    let mut data = json!({"object": render::whole(store, &object)});
    if let Some(previous) =
        previous.filter(|previous| previous.as_object().is_some_and(|all| !all.is_empty()))
    {
        fields::set(&mut data, "previous_attributes", previous);
    }
    let (request_id, key) = store.request.clone();
    let event = json!({
        "id": event_id, "object": "event", "api_version": VERSION, "created": store.now, "data": data,
        "livemode": false, "pending_webhooks": 0, "request": {"id": request_id, "idempotency_key": key}, "type": kind,
        "_": {"new": true},
    });
    store.put(event);
}

/// The values in `before` of the fields that differ now.
fn difference(before: &Value, now: &Value) -> Value {
    let (Value::Object(before), Value::Object(now)) = (before, now) else { return Value::Null };
    let mut changed = Map::new();
    for (name, old) in before.iter().filter(|(name, _)| *name != "_") {
        if now.get(name) != Some(old) {
            changed.insert(name.clone(), old.clone());
        }
    }
    Value::Object(changed)
}

/// The ids of the pending events about one of these objects, oldest first. Those of an invoice
/// include its payment's: intent, charge, refunds, disputes.
pub(super) fn waiting_about(store: &ObjectStore, ids: &[String]) -> Vec<String> {
    let is_about = |event: &&Value| {
        fields::flag(event, "_.waiting")
            && concerned(store, fields::at(event, "data.object")).iter().any(|id| ids.contains(id))
    };
    store.all("event").filter(is_about).map(|event| text(event, "id").to_owned()).collect()
}

/// The ids of an object and the objects that it belongs to.
fn concerned(store: &ObjectStore, object: &Value) -> Vec<String> {
    let own = ["id", "invoice", "payment_intent", "payment.payment_intent", "charge"];
    let mut ids: Vec<String> = own.iter().map(|path| text(object, path).to_owned()).collect();
    let of_intent = |id: &String| {
        let intent = store.get(id)?;
        Some(["_.invoice", "_.session"].map(|path| text(intent, path).to_owned()))
    };
    let behind: Vec<String> = ids.iter().filter_map(of_intent).flatten().collect();
    ids.extend(behind);
    ids.retain(|id| !id.is_empty());
    ids
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("event", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let one = call.params.text("type").map(str::to_owned);
    let names = call.params.names("types");
    let many: Vec<String> = names
        .iter()
        .filter_map(|name| call.params.text(&format!("types.{name}")).map(str::to_owned))
        .collect();
    let undelivered = call.params.flag("delivery_success")? == Some(false);
    lists::page(call, "event", "/v1/events", |event| {
        let kind = text(event, "type");
        one.as_deref().is_none_or(|wanted| matches(wanted, kind))
            && (many.is_empty() || many.iter().any(|wanted| matches(wanted, kind)))
            && (!undelivered || fields::whole(event, "pending_webhooks") > 0)
    })
}

/// Whether a pattern such as `charge.*` matches this type.
pub(super) fn matches(pattern: &str, kind: &str) -> bool {
    pattern == "*"
        || pattern == kind
        || pattern.strip_suffix('*').is_some_and(|start| kind.starts_with(start))
}
