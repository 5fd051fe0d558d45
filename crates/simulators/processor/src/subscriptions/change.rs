//! Changing a subscription: items, quantities, the card, the end.

use serde_json::{Value, json};
use simulator_kit::calendar;

use super::items::{interval, item, items_object, period, set_period};
use super::start::{check_method, check_prices, quantity};
use super::state::is_over;
use crate::api_call::ApiCall;
use crate::charges::ChargeMode;
use crate::fields::{at, flag, list, set, text, whole};
use crate::form::{FormParams, name};
use crate::invoices::{self, CollectionOutcome, InvoiceDraft};
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{coupons, events, prices, render, taxes};

/// The parameters of updating one.
pub(crate) const PARAMS: &[&str] = &[
    "items.*.id",
    "items.*.price",
    "items.*.quantity",
    "items.*.deleted",
    "items.*.price_data.currency",
    "items.*.price_data.product",
    "items.*.price_data.unit_amount",
    "items.*.price_data.recurring.interval",
    "items.*.price_data.recurring.interval_count",
    "items.*.metadata.*?",
    "proration_behavior",
    "proration_date",
    "payment_behavior",
    "billing_cycle_anchor",
    "off_session",
    "cancel_at_period_end",
    "cancellation_details.comment?",
    "cancellation_details.feedback?",
    "default_payment_method?",
    "description?",
    "metadata?",
    "metadata.*?",
    "trial_end",
    "automatic_tax.enabled",
    "discounts?",
    "discounts.*.coupon",
    "discounts.*.promotion_code",
];

const ITEMS_MAX: usize = 20;

/// The new items, and how the difference is paid.
pub(crate) struct SubscriptionChange {
    pub(crate) items: Vec<Value>,
    pub(crate) proration: &'static str,
    /// The time from which prorations are calculated, in seconds.
    pub(crate) date: i64,
    /// Whether the period restarts, because the interval changes or a free subscription becomes a
    /// paid one.
    pub(crate) restarts: bool,
}

impl SubscriptionChange {
    /// Reads it from parameters below a path, or from the top-level parameters.
    pub(crate) fn read(
        store: &mut ObjectStore,
        params: &FormParams,
        below: &str,
        subscription: &Value,
    ) -> Result<Self, ApiError> {
        let path = |field: &str| {
            if below.is_empty() { field.to_owned() } else { format!("{below}.{field}") }
        };
        let words = ["always_invoice", "create_prorations", "none"];
        let proration =
            params.one_of(&path("proration_behavior"), &words)?.unwrap_or("create_prorations");
        let date = params.integer(&path("proration_date"))?.unwrap_or(store.now);
        let (start, end) = period(subscription);
        if !(start..=end).contains(&date) {
            let message =
                "The proration date must be within the current period of the subscription.";
            return Err(ApiError::param(&name(&path("proration_date")), message));
        }
        let before = list(subscription, "items.data").to_vec();
        let mut items = before.clone();
        for place in params.names(&path("items")) {
            apply(store, params, &path(&format!("items.{place}")), subscription, &mut items)?;
        }
        if items.is_empty() {
            return Err(ApiError::param(
                "items",
                "A subscription must have at least one active plan.",
            ));
        }
        if items.len() > ITEMS_MAX {
            let message = format!("A subscription can have at most {ITEMS_MAX} items.");
            return Err(ApiError::param("items", message));
        }
        check_prices(&items.iter().map(|item| at(item, "price").clone()).collect::<Vec<_>>())?;
        let becomes_paid =
            sum(&before) == 0 && sum(&items) > 0 && text(subscription, "status") != "trialing";
        let restarts = interval(&before) != interval(&items) || becomes_paid;
        Ok(Self { items, proration, date, restarts })
    }
}

fn sum(items: &[Value]) -> i64 {
    items.iter().map(|item| prices::amount(at(item, "price"), whole(item, "quantity"))).sum()
}

/// Applies one entry of `items`: with an id it changes that item, without one it adds an item.
fn apply(
    store: &mut ObjectStore,
    params: &FormParams,
    below: &str,
    subscription: &Value,
    items: &mut Vec<Value>,
) -> Result<(), ApiError> {
    let wanted = quantity(params, below)?;
    let has_price =
        params.has(&format!("{below}.price")) || params.has(&format!("{below}.price_data"));
    let price = if has_price {
        let id = prices::named(store, params, below)?;
        Some(store.find("price", &id, "price")?.clone())
    } else {
        None
    };
    let Some(id) = params.text(&format!("{below}.id")) else {
        let Some(price) = price else {
            return Err(ApiError::missing(&name(&format!("{below}.price"))));
        };
        let mut added = item(store, text(subscription, "id"), &price, wanted.unwrap_or(1));
        let (start, end) = period(subscription);
        set(&mut added, "current_period_start", start);
        set(&mut added, "current_period_end", end);
        items.push(added);
        return Ok(());
    };
    let Some(place) = items.iter().position(|item| text(item, "id") == id) else {
        let shown = name(&format!("{below}.id"));
        return Err(ApiError::param(&shown, format!("No such subscription_item: '{id}'"))
            .code("resource_missing")
            .status(404));
    };
    if params.flag(&format!("{below}.deleted"))? == Some(true) {
        items.remove(place);
        return Ok(());
    }
    let Some(changed) = items.get_mut(place) else { return Ok(()) };
    if let Some(price) = price {
        let fresh = item(store, text(subscription, "id"), &price, 1);
        set(changed, "price", at(&fresh, "price").clone());
        set(changed, "plan", at(&fresh, "plan").clone());
        // Another price resets the quantity to 1, unless the request sets it.
        set(changed, "quantity", 1);
    }
    if let Some(quantity) = wanted {
        set(changed, "quantity", quantity);
    }
    Ok(())
}

pub(crate) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let params = call.params;
    let before = call.store.find("subscription", &id, "id")?.clone();
    if is_over(&before) {
        let message =
            "A canceled subscription can only update its cancellation_details and metadata.";
        return Err(ApiError::invalid(message));
    }
    let behaviours =
        ["allow_incomplete", "default_incomplete", "error_if_incomplete", "pending_if_incomplete"];
    let behaviour = params.one_of("payment_behavior", &behaviours)?.unwrap_or("allow_incomplete");
    check_supported(params, behaviour)?;
    if text(&before, "status") == "incomplete" && params.has("items") {
        let message = "You cannot update a subscription in `incomplete` status in a way that results in a new invoice.";
        return Err(ApiError::invalid(message));
    }
    let change = SubscriptionChange::read(call.store, params, "", &before)?;
    set_fields(call.store, params, &before)?;
    if let Some(coupons) = coupons::named(call.store, params)? {
        coupons::give(call.store, &id, &coupons);
    }
    let mark_lines = super::prorate::lines(call.store, &before, &change);
    put_items(call.store, &id, &change);
    let how = ChargeMode {
        off_session: params.flag("off_session")?.unwrap_or(false),
        authenticated: false,
    };
    pay(call.store, &before, &change, mark_lines, PaymentRules { behaviour, how })?;
    if params.text("trial_end") == Some("now") && text(&before, "status") == "trialing" {
        super::cycle::end_trial(call.store, &id);
    }
    events::emit_changed(call.store, "customer.subscription.updated", &before);
    call.store.find("subscription", &id, "id").cloned()
}

/// Refuses features of the real processor that are not simulated, so that no caller relies on them.
fn check_supported(params: &FormParams, behaviour: &str) -> Result<(), ApiError> {
    if behaviour == "pending_if_incomplete" {
        if params.has("metadata") {
            let message = "When `payment_behavior` is set to `pending_if_incomplete`, you can only pass supported params. Please remove the following params from the request: metadata.";
            return Err(ApiError::param("payment_behavior", message));
        }
        let message =
            "The simulated processor does not have pending updates; use error_if_incomplete.";
        return Err(ApiError::param("payment_behavior", message));
    }
    if params.text("billing_cycle_anchor").is_some_and(|anchor| anchor != "unchanged") {
        let message = "Invalid billing_cycle_anchor: the simulated processor only takes unchanged.";
        return Err(ApiError::param("billing_cycle_anchor", message));
    }
    if params.text("trial_end").is_some_and(|end| end != "now") {
        let message = "Invalid trial_end: the simulated processor only takes now.";
        return Err(ApiError::param("trial_end", message));
    }
    Ok(())
}

fn set_fields(
    store: &mut ObjectStore,
    params: &FormParams,
    before: &Value,
) -> Result<(), ApiError> {
    let mut subscription = before.clone();
    let metadata = render::metadata(params, "metadata", at(before, "metadata"))?;
    set(&mut subscription, "metadata", metadata);
    if let Some(description) = params.text("description") {
        set(
            &mut subscription,
            "description",
            json!(Some(description).filter(|text| !text.is_empty())),
        );
    }
    if let Some(method) = params.text("default_payment_method") {
        if !method.is_empty() {
            check_method(store, method, text(before, "customer"))?;
        }
        set(
            &mut subscription,
            "default_payment_method",
            json!(Some(method).filter(|method| !method.is_empty())),
        );
    }
    for detail in ["comment", "feedback"] {
        if let Some(value) = params.text(&format!("cancellation_details.{detail}")) {
            set(
                &mut subscription,
                &format!("cancellation_details.{detail}"),
                json!(Some(value).filter(|value| !value.is_empty())),
            );
        }
    }
    if let Some(automatic) = params.flag("automatic_tax.enabled")? {
        if automatic {
            taxes::check_location(store, text(before, "customer"))?;
        }
        set(&mut subscription, "automatic_tax", taxes::automatic(automatic, None));
    }
    if let Some(ends) = params.flag("cancel_at_period_end")? {
        end_with_period(&mut subscription, ends, store.now);
    }
    store.put(subscription);
    Ok(())
}

/// Ends a subscription with its period, or lets it continue.
pub(crate) fn end_with_period(subscription: &mut Value, ends: bool, now: i64) {
    let was = flag(subscription, "cancel_at_period_end");
    if ends == was {
        return;
    }
    let end = period(subscription).1;
    set(subscription, "cancel_at_period_end", ends);
    set(subscription, "cancel_at", json!(ends.then_some(end)));
    set(subscription, "canceled_at", json!(ends.then_some(now)));
    set(
        subscription,
        "cancellation_details.reason",
        json!(ends.then_some("cancellation_requested")),
    );
}

fn put_items(store: &mut ObjectStore, id: &str, change: &SubscriptionChange) {
    let (interval, count) = interval(&change.items);
    let date = change.date;
    store.change(id, |subscription| {
        let changed = items_object(id, &change.items);
        set(subscription, "items", changed);
        if change.restarts {
            let end = calendar::after(date, &interval, count);
            set(subscription, "billing_cycle_anchor", date);
            set_period(subscription, date, end);
            set(subscription, "_.due", end);
        }
    });
}

/// How a change is paid.
#[derive(Clone, Copy)]
struct PaymentRules<'a> {
    /// What an unpaid invoice means: the request's `payment_behavior`.
    behaviour: &'a str,
    how: ChargeMode,
}

/// Charges the difference immediately, or leaves it for the next invoice.
fn pay(
    store: &mut ObjectStore,
    before: &Value,
    change: &SubscriptionChange,
    lines: Vec<invoices::InvoiceLine>,
    rules: PaymentRules<'_>,
) -> Result<(), ApiError> {
    let PaymentRules { behaviour, how } = rules;
    let (id, customer) = (text(before, "id"), text(before, "customer"));
    if lines.is_empty() {
        return Ok(());
    }
    if change.proration != "always_invoice" && !change.restarts {
        invoices::add_pending(store, customer, id, lines);
        return Ok(());
    }
    let bill = InvoiceDraft { customer, subscription: id, reason: "subscription_update", lines };
    let invoice = invoices::make(store, bill);
    store.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    let problem = match invoices::collect(store, &invoice, how) {
        CollectionOutcome::Paid => return Ok(()),
        CollectionOutcome::WantsAction => wants_action(),
        CollectionOutcome::Failed(problem)
            if problem.code.as_deref() == Some("authentication_required") =>
        {
            wants_action()
        }
        CollectionOutcome::Failed(problem) => *problem,
    };
    if behaviour == "error_if_incomplete" {
        // The request has no effect, including its payment.
        return Err(ApiError { keeps: false, shown: Vec::new(), ..problem });
    }
    store.change(id, |subscription| {
        if text(subscription, "status") == "active" {
            set(subscription, "status", "past_due");
        }
    });
    Ok(())
}

/// The error for a change whose payment requires authentication.
pub(super) fn wants_action() -> ApiError {
    let message = "Payment for this subscription requires additional user action before it can be completed successfully. Payment can be completed using the PaymentIntent associated with `subscription.latest_invoice`.";
    ApiError {
        keeps: false,
        ..ApiError::card("subscription_payment_intent_requires_action", None, message)
    }
}
