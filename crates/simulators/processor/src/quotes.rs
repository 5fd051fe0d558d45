//! Quotes: offers that a customer accepts, which starts a subscription.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::charges::ChargeMode;
use super::fields::{at, list, set, text, whole};
use super::problem::ApiError;
use super::subscriptions::SubscriptionStart;
use super::{customers, events, prices, render, subscriptions};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "customer",
    "description?",
    "line_items.*.price",
    "line_items.*.quantity",
    "expires_at",
    "metadata?",
    "metadata.*?",
];

/// How long an offer holds, in seconds.
const LIFE_S: i64 = 30 * 86_400;

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    let mut lines = Vec::new();
    for place in params.names("line_items") {
        let below = format!("line_items.{place}");
        let price = prices::named(call.store, params, &below)?;
        let price = call.store.find("price", &price, "price")?.clone();
        let quantity = params.integer(&format!("{below}.quantity"))?.unwrap_or(1);
        lines.push(json!({"price": price, "quantity": quantity}));
    }
    if lines.is_empty() {
        return Err(ApiError::missing("line_items"));
    }
    let total: i64 =
        lines.iter().map(|line| prices::amount(at(line, "price"), whole(line, "quantity"))).sum();
    let currency = lines.first().map(|line| at(line, "price.currency").clone());
    let (id, now) = (call.store.new_id("qt"), call.store.now);
    let made = json!({
        "id": id, "object": "quote", "amount_subtotal": total, "amount_total": total,
        "collection_method": "charge_automatically", "created": now, "currency": currency,
        "customer": customer, "description": params.text("description"),
        "expires_at": params.integer("expires_at")?.unwrap_or(now + LIFE_S), "invoice": null, "livemode": false,
        "metadata": render::metadata(params, "metadata", &Value::Null)?, "number": null, "status": "draft",
        "status_transitions": {"accepted_at": null, "canceled_at": null, "finalized_at": null}, "subscription": null,
        "_": {"lines": lines},
    });
    call.store.put(made);
    events::emit(call.store, "quote.created", &id);
    call.store.find("quote", &id, "id").cloned()
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("quote", &id, "id").cloned()
}

/// A quote's next status.
struct QuoteStep {
    from: &'static [&'static str],
    status: &'static str,
    transition: &'static str,
    event: &'static str,
}

fn step(call: &mut ApiCall<'_>, step: &QuoteStep) -> Result<Value, ApiError> {
    let id = call.id(0);
    let status = text(call.store.find("quote", &id, "id")?, "status").to_owned();
    if !step.from.contains(&status.as_str()) {
        let message = format!("A quote that is {status} cannot become {}.", step.status);
        return Err(ApiError::invalid(message).code("quote_not_editable"));
    }
    let now = call.store.now;
    call.store.change(&id, |quote| {
        set(quote, "status", step.status);
        set(quote, &format!("status_transitions.{}", step.transition), now);
    });
    events::emit(call.store, step.event, &id);
    call.store.find("quote", &id, "id").cloned()
}

pub(super) fn finalize(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let next = QuoteStep {
        from: &["draft"],
        status: "open",
        transition: "finalized_at",
        event: "quote.finalized",
    };
    step(call, &next)
}

pub(super) fn cancel(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let next = QuoteStep {
        from: &["draft", "open"],
        status: "canceled",
        transition: "canceled_at",
        event: "quote.canceled",
    };
    step(call, &next)
}

pub(super) fn accept(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let next = QuoteStep {
        from: &["open"],
        status: "accepted",
        transition: "accepted_at",
        event: "quote.accepted",
    };
    let quote = step(call, &next)?;
    let items = list(&quote, "_.lines").iter();
    let items = items.map(|line| (at(line, "price").clone(), whole(line, "quantity"))).collect();
    let start = SubscriptionStart {
        customer: text(&quote, "customer"),
        items,
        once: Vec::new(),
        method: None,
        metadata: json!({}),
        description: at(&quote, "description").clone(),
        trial_days: None,
        discounts: Vec::new(),
        automatic_tax: false,
        proration_discounts: "included",
        how: ChargeMode { off_session: true, authenticated: false },
        behaviour: "allow_incomplete",
        missing_method: "create_invoice",
    };
    let subscription = subscriptions::start(call.store, &start)?;
    let id = call.id(0);
    call.store.change(&id, |quote| set(quote, "subscription", subscription));
    call.store.find("quote", &id, "id").cloned()
}
