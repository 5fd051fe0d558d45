//! Starting a subscription: by the merchant's server, or by a customer on the page of a checkout
//! session.

use serde_json::{Value, json};
use simulator_kit::calendar;

use super::items::{interval, item, items_object, period, set_period};
use super::state::invoice_paid;
use crate::api_call::ApiCall;
use crate::charges::ChargeMode;
use crate::coupons::ChosenDiscount;
use crate::fields::{at, set, text, whole};
use crate::form::{FormParams, name};
use crate::invoices::{self, CollectionOutcome, InvoiceDraft, InvoiceLine};
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{coupons, customers, events, payment_methods, prices, render, taxes};

/// The parameters of creating one.
pub(crate) const PARAMS: &[&str] = &[
    "customer",
    "items.*.price",
    "items.*.quantity",
    "items.*.price_data.currency",
    "items.*.price_data.product",
    "items.*.price_data.unit_amount",
    "items.*.price_data.recurring.interval",
    "items.*.price_data.recurring.interval_count",
    "default_payment_method",
    "payment_behavior",
    "proration_behavior",
    "trial_period_days",
    "trial_settings.end_behavior.missing_payment_method",
    "collection_method",
    "billing_mode.type",
    "billing_mode.flexible.proration_discounts",
    "automatic_tax.enabled",
    "discounts?",
    "discounts.*.coupon",
    "discounts.*.promotion_code",
    "off_session",
    "description",
    "metadata?",
    "metadata.*?",
    "payment_settings.save_default_payment_method",
];

const MISSING_METHOD: &str = "trial_settings.end_behavior.missing_payment_method";
/// How long before its end a trial is announced to end: three days.
const TRIAL_NOTICE_S: i64 = 3 * 86_400;
/// The time after which a missing first payment ends the subscription: 23 hours.
const INCOMPLETE_S: i64 = 23 * 3600;

/// How a subscription starts.
pub(crate) struct SubscriptionStart<'a> {
    pub(crate) customer: &'a str,
    /// Prices and quantities.
    pub(crate) items: Vec<(Value, i64)>,
    /// One-time purchases on the first invoice.
    pub(crate) once: Vec<(Value, i64)>,
    pub(crate) method: Option<String>,
    pub(crate) metadata: Value,
    pub(crate) description: Value,
    pub(crate) trial_days: Option<i64>,
    pub(crate) discounts: Vec<ChosenDiscount>,
    pub(crate) automatic_tax: bool,
    /// How prorations show their discounts: `included` or `itemized`.
    pub(crate) proration_discounts: &'a str,
    pub(crate) how: ChargeMode,
    /// A `payment_behavior`.
    pub(crate) behaviour: &'a str,
    /// What happens at the end of a trial without a payment method: `create_invoice`, `pause` or
    /// `cancel`.
    pub(crate) missing_method: &'static str,
}

pub(crate) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    let names = params.names("items");
    if names.is_empty() {
        return Err(ApiError::missing("items"));
    }
    let mut all = Vec::new();
    for place in names {
        let below = format!("items.{place}");
        let price = prices::named(call.store, params, &below)?;
        let quantity = quantity(params, &below)?.unwrap_or(1);
        all.push((call.store.find("price", &price, "price")?.clone(), quantity));
    }
    if let Some(method) = params.text("default_payment_method") {
        let found = call.store.find("payment_method", method, "default_payment_method")?;
        if text(found, "customer") != customer {
            return Err(not_attached(method));
        }
    }
    let behaviours = ["allow_incomplete", "default_incomplete", "error_if_incomplete"];
    let start = SubscriptionStart {
        customer: &customer,
        items: all,
        once: Vec::new(),
        method: params.text("default_payment_method").map(str::to_owned),
        metadata: render::metadata(params, "metadata", &Value::Null)?,
        description: json!(params.text("description")),
        trial_days: params.integer("trial_period_days")?,
        discounts: coupons::named(call.store, params)?.unwrap_or_default(),
        automatic_tax: params.flag("automatic_tax.enabled")?.unwrap_or(false),
        proration_discounts: proration_discounts(params, "billing_mode")?,
        how: ChargeMode {
            off_session: params.flag("off_session")?.unwrap_or(false),
            authenticated: false,
        },
        behaviour: params.one_of("payment_behavior", &behaviours)?.unwrap_or("allow_incomplete"),
        missing_method: params
            .one_of(MISSING_METHOD, &["create_invoice", "pause", "cancel"])?
            .unwrap_or("create_invoice"),
    };
    let id = self::start(call.store, &start)?;
    call.store.find("subscription", &id, "id").cloned()
}

/// How prorations show their discounts, from the parameters below this path.
pub(crate) fn proration_discounts(
    params: &FormParams,
    below: &str,
) -> Result<&'static str, ApiError> {
    let path = format!("{below}.flexible.proration_discounts");
    Ok(params.one_of(&path, &["included", "itemized"])?.unwrap_or("included"))
}

/// The error for another customer's card.
pub(super) fn not_attached(method: &str) -> ApiError {
    let message = format!(
        "The customer does not have a payment method with the ID {method}. The payment method must be attached to the customer."
    );
    ApiError::param("default_payment_method", message).code("resource_missing")
}

/// The quantity, if it is given.
pub(super) fn quantity(params: &FormParams, below: &str) -> Result<Option<i64>, ApiError> {
    let path = format!("{below}.quantity");
    match params.integer(&path)? {
        Some(quantity) if !(0..=999_999).contains(&quantity) => {
            let message = "This value must be greater than or equal to 0.";
            Err(ApiError::param(&name(&path), message).code("parameter_invalid_integer"))
        }
        other => Ok(other),
    }
}

/// Starts a subscription and collects its first invoice; returns its id.
pub(crate) fn start(
    store: &mut ObjectStore,
    start: &SubscriptionStart<'_>,
) -> Result<String, ApiError> {
    check_prices(&start.items.iter().map(|(price, _)| price.clone()).collect::<Vec<_>>())?;
    if start.automatic_tax {
        taxes::check_location(store, start.customer)?;
    }
    let method = start.method.clone().or_else(|| default_method(store, start.customer));
    let total: i64 = start.items.iter().map(|(price, count)| prices::amount(price, *count)).sum();
    if method.is_none()
        && total > 0
        && start.trial_days.is_none()
        && start.behaviour != "default_incomplete"
    {
        let message = "This customer has no attached payment source or default payment method. Please consider adding a default payment method. For more information, visit https://stripe.com/docs/billing/subscriptions/payment-methods-setting#payment-method-priority.";
        return Err(ApiError::invalid(message).code("resource_missing"));
    }
    let mark = store.mark();
    let id = put(store, start);
    events::emit(store, "customer.subscription.created", &id);
    announce_end_of_trial(store, &id);
    let collected = first_invoice(store, &id, start);
    let problem = match collected {
        CollectionOutcome::Paid => return Ok(id),
        _ if start.behaviour != "error_if_incomplete" => return Ok(id),
        CollectionOutcome::WantsAction => super::change::wants_action(),
        CollectionOutcome::Failed(problem) => *problem,
    };
    // The attempt leaves no trace.
    store.undo_to(mark);
    Err(ApiError { shown: Vec::new(), ..problem })
}

/// Announces the end of a trial if it is near, and otherwise when it is.
pub(super) fn announce_end_of_trial(store: &mut ObjectStore, id: &str) {
    let Some(end) = store.get(id).and_then(|it| at(it, "trial_end").as_i64()) else { return };
    let is_near = end - store.now <= TRIAL_NOTICE_S;
    let due = if is_near { end } else { end - TRIAL_NOTICE_S };
    store.change(id, |subscription| set(subscription, "_.due", due));
    if is_near {
        events::emit(store, "customer.subscription.trial_will_end", id);
    }
}

fn default_method(store: &ObjectStore, customer: &str) -> Option<String> {
    let customer = store.get(customer)?;
    let saved = ["invoice_settings.default_payment_method", "default_source"];
    saved.map(|path| text(customer, path)).into_iter().find(|id| !id.is_empty()).map(str::to_owned)
}

/// Whether a customer has saved a card.
pub(crate) fn has_method(store: &ObjectStore, customer: &str) -> bool {
    default_method(store, customer).is_some()
}

/// Refuses prices that cannot be in one subscription.
pub(super) fn check_prices(all: &[Value]) -> Result<(), ApiError> {
    if all.iter().any(|price| at(price, "recurring").is_null()) {
        let id = all
            .iter()
            .find(|price| at(price, "recurring").is_null())
            .map_or("", |price| text(price, "id"));
        let message = format!(
            "The price specified is set to `type=one_time` but this field only accepts prices with `type=recurring`: {id}"
        );
        return Err(ApiError::param("items[0][price]", message));
    }
    let terms = |price: &Value| {
        let recurring = at(price, "recurring");
        (
            text(recurring, "interval").to_owned(),
            whole(recurring, "interval_count"),
            text(price, "currency").to_owned(),
        )
    };
    let mut seen = all.iter().map(terms);
    let first = seen.next();
    if seen.any(|other| Some(&other) != first.as_ref()) {
        let message =
            "Currency and interval fields must match across all plans on this subscription.";
        return Err(ApiError::param("items", message));
    }
    for (place, price) in all.iter().enumerate() {
        if all.iter().skip(place + 1).any(|other| text(other, "id") == text(price, "id")) {
            let message = format!(
                "Cannot add multiple subscription items with the same plan: {}",
                text(price, "id")
            );
            return Err(ApiError::param("items", message));
        }
    }
    Ok(())
}

fn put(store: &mut ObjectStore, start: &SubscriptionStart<'_>) -> String {
    let id = store.new_id("sub");
    let mut all = Vec::new();
    for (price, quantity) in &start.items {
        let one = item(store, &id, price, *quantity);
        all.push(one);
    }
    let (every, count) = interval(&all);
    let now = store.now;
    let trial_end = start.trial_days.map(|days| now + days * 86_400);
    let anchor = trial_end.unwrap_or(now);
    let end = trial_end.unwrap_or_else(|| calendar::after(now, &every, count));
    let mut subscription = json!({
        "id": id, "object": "subscription", "application": null, "application_fee_percent": null,
        "automatic_tax": taxes::automatic(start.automatic_tax, None), "billing_cycle_anchor": anchor,
        "billing_cycle_anchor_config": null, "billing_mode": {"flexible": {"proration_discounts": start.proration_discounts}, "type": "flexible"},
        "billing_thresholds": null, "cancel_at": null, "cancel_at_period_end": false, "canceled_at": null,
        "cancellation_details": {"comment": null, "feedback": null, "reason": null},
        "collection_method": "charge_automatically", "created": now,
        "currency": start.items.first().map_or("usd", |(price, _)| text(price, "currency")), "customer": start.customer,
        "days_until_due": null, "default_payment_method": start.method, "default_source": null, "default_tax_rates": [],
        "description": start.description, "discounts": [], "ended_at": null, "items": items_object(&id, &all),
        "latest_invoice": null, "livemode": false, "metadata": start.metadata, "next_pending_invoice_item_invoice": null,
        "on_behalf_of": null, "pause_collection": null,
        "payment_settings": {"payment_method_options": null, "payment_method_types": null, "save_default_payment_method": "off"},
        "pending_invoice_item_interval": null, "pending_setup_intent": null, "pending_update": null, "schedule": null,
        "start_date": now, "status": if trial_end.is_some() { "trialing" } else { "incomplete" }, "test_clock": null,
        "transfer_data": null, "trial_end": trial_end, "trial_settings": {"end_behavior": {"missing_payment_method": start.missing_method}},
        "trial_start": trial_end.map(|_| now),
        "_": {"due": if trial_end.is_some() { end } else { now + INCOMPLETE_S }},
    });
    set_period(&mut subscription, now, end);
    store.put(subscription);
    coupons::give(store, &id, &start.discounts);
    id
}

fn first_invoice(
    store: &mut ObjectStore,
    id: &str,
    start: &SubscriptionStart<'_>,
) -> CollectionOutcome {
    let subscription = store.get(id).cloned().unwrap_or_default();
    let period = period(&subscription);
    let mut lines = invoices::lines_of(&subscription, period, store);
    if start.trial_days.is_some() {
        for line in &mut lines {
            line.amount = 0;
            line.description = format!("Trial period for {}", prices::describe(store, &line.price));
        }
    }
    for (price, quantity) in &start.once {
        lines.push(InvoiceLine {
            amount: prices::amount(price, *quantity),
            description: prices::describe(store, price),
            price: price.clone(),
            quantity: *quantity,
            period: (store.now, store.now),
            proration: false,
            item: String::new(),
            discounts: Vec::new(),
        });
    }
    let bill = InvoiceDraft {
        customer: start.customer,
        subscription: id,
        reason: "subscription_create",
        lines,
    };
    let invoice = invoices::make(store, bill);
    store.change(id, |subscription| set(subscription, "latest_invoice", invoice.as_str()));
    let paid = store.get(&invoice).is_some_and(|invoice| text(invoice, "status") == "paid");
    if paid {
        invoice_paid(store, &invoice);
        return CollectionOutcome::Paid;
    }
    if start.behaviour == "default_incomplete" {
        invoices::prepare(store, &invoice);
        return CollectionOutcome::Paid;
    }
    invoices::collect(store, &invoice, start.how)
}

/// Whether the payment method may pay for the customer.
pub(super) fn check_method(
    store: &ObjectStore,
    method: &str,
    customer: &str,
) -> Result<(), ApiError> {
    let found = store.find("payment_method", method, "default_payment_method")?;
    payment_methods::check_usable(found)?;
    if text(found, "customer") == customer { Ok(()) } else { Err(not_attached(method)) }
}
