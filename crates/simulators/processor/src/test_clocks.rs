//! Test clocks: a time of its own for customers created with one. It moves the schedules of these
//! customers; everything else follows the processor's own clock.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, schedules};

const KIND: &str = "test_helpers.test_clock";

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    params.required("frozen_time")?;
    let at = params.integer("frozen_time")?;
    let id = call.store.new_id("clock");
    call.store.put(json!({
        "id": id, "object": KIND, "created": call.store.now, "deletes_after": call.store.now + 30 * 86_400,
        "frozen_time": at, "livemode": false, "name": params.text("name"), "status": "ready", "status_details": {},
    }));
    events::emit(call.store, "test_helpers.test_clock.created", &id);
    call.store.find(KIND, &id, "id").cloned()
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find(KIND, &id, "id").cloned()
}

/// Moves the time of a clock ahead. It is ready again as soon as everything due has happened, which
/// here is immediately.
pub(super) fn advance(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find(KIND, &id, "id")?.clone();
    call.params.required("frozen_time")?;
    let until = call.params.integer("frozen_time")?.unwrap_or_default();
    if until <= whole(&before, "frozen_time") {
        let message = "A test clock can only be advanced to a later time.";
        return Err(ApiError::param("frozen_time", message));
    }
    call.store.change(&id, |clock| {
        set(clock, "status", "advancing");
        set(clock, "frozen_time", until);
    });
    events::emit(call.store, "test_helpers.test_clock.advancing", &id);
    schedules::pass_time_of_clock(call.store, &id, until);
    call.store.change(&id, |clock| set(clock, "status", "ready"));
    events::emit(call.store, "test_helpers.test_clock.ready", &id);
    call.store.find(KIND, &id, "id").cloned()
}

pub(super) fn delete(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = text(call.store.find(KIND, &call.id(0), "id")?, "id").to_owned();
    events::emit(call.store, "test_helpers.test_clock.deleted", &id);
    call.store.remove(&id);
    Ok(json!({"id": id, "object": KIND, "deleted": true}))
}

/// The time of a customer: that of its clock, or the processor's.
pub(super) fn now_of(store: &ObjectStore, customer: &str) -> i64 {
    let clock = store.get(customer).and_then(|customer| store.get(text(customer, "test_clock")));
    clock.map_or(store.now, |clock| whole(clock, "frozen_time"))
}
