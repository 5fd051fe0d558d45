//! Subscription schedules: phases with their items, one after the other.

use serde_json::{Value, json};
use simulator_kit::calendar;

use super::api_call::ApiCall;
use super::charges::ChargeMode;
use super::fields::{at, flag, list, set, text, whole};
use super::form::FormParams;
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::subscriptions::SubscriptionStart;
use super::{customers, events, prices, render, subscriptions, test_clocks};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "customer",
    "start_date",
    "end_behavior",
    "phases.*.items.*.price",
    "phases.*.items.*.quantity",
    "phases.*.iterations",
    "phases.*.end_date",
    "metadata?",
    "metadata.*?",
];

const KIND: &str = "subscription_schedule";
/// How long before its end a schedule is said to expire. The documentation says seven days; the
/// command-line client's sequence sees it nine days before.
const EXPIRING_S: i64 = 9 * 86_400;

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    let now = test_clocks::now_of(call.store, &customer);
    let start = match params.required("start_date")? {
        "now" => now,
        _ => params.integer("start_date")?.unwrap_or(now),
    };
    let phases = phases(call.store, params, start)?;
    let ends = ["release", "cancel"];
    let end_behavior = params.one_of("end_behavior", &ends)?.unwrap_or("release");
    let id = call.store.new_id("sub_sched");
    let made = json!({
        "id": id, "object": KIND, "canceled_at": null, "completed_at": null, "created": call.store.now,
        "current_phase": null, "customer": customer, "end_behavior": end_behavior, "livemode": false,
        "metadata": render::metadata(params, "metadata", &Value::Null)?, "phases": phases, "released_at": null,
        "released_subscription": null, "status": "not_started", "subscription": null, "test_clock": null,
    });
    call.store.put(made);
    events::emit(call.store, "subscription_schedule.created", &id);
    pass_time(call.store, &id, now);
    call.store.find(KIND, &id, "id").cloned()
}

fn phases(
    store: &mut ObjectStore,
    params: &FormParams,
    start: i64,
) -> Result<Vec<Value>, ApiError> {
    let (mut all, mut from) = (Vec::new(), start);
    for place in params.names("phases") {
        let below = format!("phases.{place}");
        let mut items = Vec::new();
        for item in params.names(&format!("{below}.items")) {
            let item = format!("{below}.items.{item}");
            let price = prices::named(store, params, &item)?;
            let quantity = params.integer(&format!("{item}.quantity"))?.unwrap_or(1);
            items.push(json!({"price": price, "quantity": quantity}));
        }
        let Some(first) = items.first().and_then(|item| store.get(text(item, "price"))) else {
            return Err(ApiError::missing(&format!("phases[{place}][items]")));
        };
        let times = params.integer(&format!("{below}.iterations"))?.unwrap_or(1);
        let every = whole(first, "recurring.interval_count").max(1);
        let given = params.integer(&format!("{below}.end_date"))?;
        let interval = text(first, "recurring.interval");
        let end = given.unwrap_or_else(|| calendar::after(from, interval, times * every));
        if end <= from {
            return Err(ApiError::invalid("A phase must end after its start."));
        }
        all.push(json!({"end_date": end, "items": items, "metadata": {}, "start_date": from}));
        from = end;
    }
    if all.is_empty() { Err(ApiError::missing("phases")) } else { Ok(all) }
}

/// The schedules of a clock's customers reach this time.
pub(super) fn pass_time_of_clock(store: &mut ObjectStore, clock: &str, until: i64) {
    let is_of_clock = |schedule: &&Value| {
        store.get(text(schedule, "customer")).is_some_and(|it| text(it, "test_clock") == clock)
    };
    let all: Vec<String> =
        store.all(KIND).filter(is_of_clock).map(|it| text(it, "id").to_owned()).collect();
    for id in all {
        pass_time(store, &id, until);
    }
}

/// The time for which a schedule was waiting has come.
pub(super) fn fall_due(store: &mut ObjectStore, id: &str) {
    pass_time(store, id, store.now);
}

/// Starts what has to start by now, and sets when the schedule is due again.
fn pass_time(store: &mut ObjectStore, id: &str, now: i64) {
    let Some(schedule) = store.get(id).cloned() else { return };
    if !matches!(text(&schedule, "status"), "not_started" | "active") {
        return;
    }
    let phases = list(&schedule, "phases");
    let end = phases.last().map_or(0, |phase| whole(phase, "end_date"));
    let current = phases.iter().rfind(|phase| whole(phase, "start_date") <= now);
    if let Some(phase) = current
        && whole(&schedule, "current_phase.start_date") != whole(phase, "start_date")
    {
        enter(store, &schedule, phase);
    }
    if now >= end - EXPIRING_S && !flag(&schedule, "_.expiring") && current.is_some() {
        store.change(id, |schedule| set(schedule, "_.expiring", true));
        events::emit(store, "subscription_schedule.expiring", id);
    }
    if now >= end {
        return complete(store, id);
    }
    let starts = phases.iter().map(|phase| whole(phase, "start_date"));
    let next = starts.chain([end - EXPIRING_S, end]).filter(|at| *at > now).min();
    let has_clock = store
        .get(text(&schedule, "customer"))
        .is_some_and(|customer| !text(customer, "test_clock").is_empty());
    let due = next.filter(|_| !has_clock);
    store.change(id, |schedule| set(schedule, "_.due", json!(due)));
}

/// A phase starts: with the first one the subscription, with later ones its other items.
fn enter(store: &mut ObjectStore, schedule: &Value, phase: &Value) {
    let id = text(schedule, "id");
    let items: Vec<(Value, i64)> = list(phase, "items")
        .iter()
        .filter_map(|item| Some((store.get(text(item, "price"))?.clone(), whole(item, "quantity"))))
        .collect();
    let known = text(schedule, "subscription").to_owned();
    let subscription = if known.is_empty() {
        start(store, schedule, items)
    } else {
        subscriptions::replace_items(store, &known, &items);
        Some(known)
    };
    store.change(id, |schedule| {
        set(schedule, "status", "active");
        set(schedule, "subscription", json!(subscription));
        let times =
            json!({"end_date": at(phase, "end_date"), "start_date": at(phase, "start_date")});
        set(schedule, "current_phase", times);
    });
    events::emit(store, "subscription_schedule.updated", id);
}

fn start(store: &mut ObjectStore, schedule: &Value, items: Vec<(Value, i64)>) -> Option<String> {
    let customer = text(schedule, "customer");
    let pays = subscriptions::has_method(store, customer);
    let wanted = SubscriptionStart {
        customer,
        items,
        once: Vec::new(),
        method: None,
        metadata: json!({}),
        description: Value::Null,
        trial_days: None,
        discounts: Vec::new(),
        automatic_tax: false,
        proration_discounts: "included",
        how: ChargeMode { off_session: true, authenticated: false },
        behaviour: if pays { "allow_incomplete" } else { "default_incomplete" },
        missing_method: "create_invoice",
    };
    let started = subscriptions::start(store, &wanted).ok()?;
    store.change(&started, |it| set(it, "schedule", text(schedule, "id")));
    Some(started)
}

/// All phases have ended: the subscription goes on without the schedule, or ends.
fn complete(store: &mut ObjectStore, id: &str) {
    let Some(schedule) = store.get(id).cloned() else { return };
    let (subscription, now) = (text(&schedule, "subscription").to_owned(), store.now);
    store.change(id, |schedule| {
        set(schedule, "status", "completed");
        set(schedule, "completed_at", now);
        set(schedule, "current_phase", Value::Null);
        set(schedule, "_.due", Value::Null);
    });
    events::emit(store, "subscription_schedule.completed", id);
    if text(&schedule, "end_behavior") == "release" {
        let_go(store, id);
    } else if store.get(&subscription).is_some() {
        subscriptions::end(store, &subscription);
    }
}

/// The subscription goes on without the schedule.
fn let_go(store: &mut ObjectStore, id: &str) {
    let now = store.now;
    let subscription = store.get(id).map(|it| at(it, "subscription").clone()).unwrap_or_default();
    if let Some(subscription) = subscription.as_str() {
        store.change(subscription, |it| set(it, "schedule", Value::Null));
    }
    store.change(id, |schedule| {
        set(schedule, "status", "released");
        set(schedule, "released_at", now);
        set(schedule, "released_subscription", subscription);
        set(schedule, "subscription", Value::Null);
        set(schedule, "_.due", Value::Null);
    });
    events::emit(store, "subscription_schedule.released", id);
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find(KIND, &id, "id").cloned()
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let before = live(call)?;
    let ends = ["release", "cancel"];
    let end_behavior = call.params.one_of("end_behavior", &ends)?;
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    call.store.change(text(&before, "id"), |schedule| {
        set(schedule, "metadata", metadata);
        if let Some(end_behavior) = end_behavior {
            set(schedule, "end_behavior", end_behavior);
        }
    });
    events::emit_changed(call.store, "subscription_schedule.updated", &before);
    retrieve(call)
}

fn live(call: &ApiCall<'_>) -> Result<Value, ApiError> {
    let found = call.store.find(KIND, &call.id(0), "id")?;
    match text(found, "status") {
        "not_started" | "active" => Ok(found.clone()),
        status => {
            let message = format!("You cannot change a subscription schedule that is {status}.");
            Err(ApiError::invalid(message))
        }
    }
}

pub(super) fn release(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let found = live(call)?;
    let_go(call.store, text(&found, "id"));
    retrieve(call)
}

/// Ends a schedule and its subscription; one that has not started is aborted.
pub(super) fn cancel(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let found = live(call)?;
    let (id, now) = (text(&found, "id"), call.store.now);
    call.store.change(id, |schedule| {
        set(schedule, "status", "canceled");
        set(schedule, "canceled_at", now);
        set(schedule, "current_phase", Value::Null);
        set(schedule, "_.due", Value::Null);
    });
    if text(&found, "status") == "not_started" {
        events::emit(call.store, "subscription_schedule.aborted", id);
    }
    let subscription = text(&found, "subscription");
    if call.store.get(subscription).is_some_and(|it| !subscriptions::is_over(it)) {
        subscriptions::end(call.store, subscription);
    }
    events::emit(call.store, "subscription_schedule.canceled", id);
    retrieve(call)
}
