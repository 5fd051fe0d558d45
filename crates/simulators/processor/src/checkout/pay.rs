//! What happens when the customer submits a session's page.

use serde_json::{Value, json};

use super::create::is_recurring;
use super::{company, price};
use crate::cards::{self, CardBehaviour};
use crate::charges::ChargeMode;
use crate::fields::{at, flag, list, set, text, whole};
use crate::intents::{self, ChargeOutcome, IntentDraft};
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{coupons, customers, events, invoices, payment_methods, setup_intents, subscriptions};

/// Where the customer is sent next.
#[derive(Debug)]
pub(crate) enum CheckoutOutcome {
    /// To the success url.
    Complete,
    /// To the bank's page, for the object with this id.
    Authenticate(String),
}

/// Pays an open session with a payment method.
pub(crate) fn pay(
    store: &mut ObjectStore,
    id: &str,
    method: &str,
    authenticated: bool,
) -> Result<CheckoutOutcome, ApiError> {
    let mut session = store.find("checkout.session", id, "session")?.clone();
    if text(&session, "status") != "open" {
        return Err(ApiError::invalid("This Checkout Session is no longer open."));
    }
    company::check_entered(store, &session)?;
    // The tax is computed at the time of payment.
    price::compute(store, &mut session);
    store.put(session.clone());
    let customer = customer_of(store, &session)?;
    match text(&session, "mode") {
        "payment" if whole(&session, "amount_total") > 0 => {
            pay_once(store, &session, customer, method, authenticated)
        }
        _ if !authenticated && wants_authentication(store, method) => {
            store.change(id, |session| set(session, "_.method", method));
            Ok(CheckoutOutcome::Authenticate(id.to_owned()))
        }
        "subscription" => subscribe(store, &session, customer, method, authenticated),
        "setup" => keep(store, &session, customer, method, authenticated),
        _ => {
            keep_details(store, &session, customer.as_deref())?;
            complete(store, id, "no_payment_required");
            Ok(CheckoutOutcome::Complete)
        }
    }
}

fn keep_details(
    store: &mut ObjectStore,
    session: &Value,
    customer: Option<&str>,
) -> Result<(), ApiError> {
    customer.map_or(Ok(()), |customer| company::keep(store, session, customer))
}

/// The customer has authenticated, or failed to: for a session, or for an intent.
pub(crate) fn authenticated(
    store: &mut ObjectStore,
    id: &str,
    proven: bool,
) -> Result<(), ApiError> {
    if !id.starts_with("cs_") {
        let session =
            store.get(id).map(|intent| text(intent, "_.session").to_owned()).unwrap_or_default();
        intents::authenticated(store, id, proven)?;
        if store.get(&session).is_some_and(|session| text(session, "status") == "open") {
            complete(store, &session, "paid");
        }
        return Ok(());
    }
    let session = store.find("checkout.session", id, "session")?;
    let method = text(session, "_.method").to_owned();
    if !proven || method.is_empty() {
        let message = "We are unable to authenticate your payment method. Please choose a different payment method and try again.";
        return Err(ApiError::invalid(message).code("setup_intent_authentication_failure"));
    }
    pay(store, id, &method, true).map(|_| ())
}

fn wants_authentication(store: &ObjectStore, method: &str) -> bool {
    let behaviour = store.get(method).map_or(CardBehaviour::Pays, cards::behaviour);
    matches!(
        behaviour,
        CardBehaviour::AuthenticatesUntilSetUp
            | CardBehaviour::AuthenticatesAlways
            | CardBehaviour::AuthenticatesOnSession
            | CardBehaviour::AuthenticatesThenDeclines
    )
}

fn customer_of(store: &mut ObjectStore, session: &Value) -> Result<Option<String>, ApiError> {
    let known = text(session, "customer");
    if !known.is_empty() {
        customers::live(store, known, "customer")?;
        return Ok(Some(known.to_owned()));
    }
    let keeps_card = text(session, "mode") != "payment"
        || !at(session, "_.payment.setup_future_usage").is_null();
    if !keeps_card {
        return Ok(None);
    }
    let id = customers::guest(store, text(session, "customer_email"));
    store.change(text(session, "id"), |session| set(session, "customer", id.as_str()));
    Ok(Some(id))
}

fn pay_once(
    store: &mut ObjectStore,
    session: &Value,
    customer: Option<String>,
    method: &str,
    authenticated: bool,
) -> Result<CheckoutOutcome, ApiError> {
    let id = text(session, "id");
    keep_details(store, session, customer.as_deref())?;
    let known = text(session, "payment_intent").to_owned();
    let intent = if known.is_empty() { intent_of(store, session, customer) } else { known };
    store.change(&intent, |intent| {
        set(intent, "payment_method", method);
        set(intent, "status", "requires_confirmation");
        set(intent, "amount", whole(session, "amount_total"));
        set(intent, "_.return_url", format!("session:{id}"));
    });
    match intents::charge(store, &intent, ChargeMode { off_session: false, authenticated }) {
        ChargeOutcome::WantsAction => Ok(CheckoutOutcome::Authenticate(intent)),
        ChargeOutcome::Refused(problem) => Err(*problem),
        ChargeOutcome::Done => {
            let paid = store.get(&intent).is_some_and(intents::is_paid);
            complete(store, id, if paid { "paid" } else { "unpaid" });
            Ok(CheckoutOutcome::Complete)
        }
    }
}

fn intent_of(store: &mut ObjectStore, session: &Value, customer: Option<String>) -> String {
    let id = text(session, "id");
    let data = |name: &str| at(session, &format!("_.payment.{name}")).clone();
    let draft = IntentDraft {
        amount: whole(session, "amount_total"),
        currency: text(session, "currency").to_owned(),
        customer,
        metadata: data("metadata"),
        more: vec![
            ("setup_future_usage", data("setup_future_usage")),
            ("description", data("description")),
            ("receipt_email", data("receipt_email")),
            ("shipping", data("shipping")),
            ("payment_method_types", at(session, "payment_method_types").clone()),
            ("_", json!({"session": id})),
        ],
    };
    let intent = intents::make(store, draft);
    events::emit(store, "payment_intent.created", &intent);
    store.change(id, |session| set(session, "payment_intent", intent.as_str()));
    intent
}

fn subscribe(
    store: &mut ObjectStore,
    session: &Value,
    customer: Option<String>,
    method: &str,
    authenticated: bool,
) -> Result<CheckoutOutcome, ApiError> {
    let id = text(session, "id");
    let customer = customer.unwrap_or_default();
    let mark = store.mark();
    let kept = company::keep(store, session, &customer);
    let attached = kept.and_then(|()| attach(store, method, &customer, authenticated));
    let done = attached.and_then(|()| {
        let (recurring, once): (Vec<&Value>, Vec<&Value>) =
            list(session, "_.line_items").iter().partition(|line| is_recurring(line));
        let start = subscriptions::SubscriptionStart {
            customer: &customer,
            items: recurring
                .iter()
                .map(|line| (at(line, "price").clone(), whole(line, "quantity")))
                .collect(),
            once: once
                .iter()
                .map(|line| (at(line, "price").clone(), whole(line, "quantity")))
                .collect(),
            method: Some(method.to_owned()),
            metadata: at(session, "_.subscription.metadata").clone(),
            description: at(session, "_.subscription.description").clone(),
            trial_days: at(session, "_.subscription.trial_period_days").as_i64(),
            discounts: price::discounts_of(session),
            automatic_tax: flag(session, "automatic_tax.enabled"),
            proration_discounts: text(session, "_.subscription.proration_discounts"),
            how: ChargeMode { off_session: false, authenticated },
            behaviour: "error_if_incomplete",
            missing_method: "create_invoice",
        };
        subscriptions::start(store, &start)
    });
    let subscription = match done {
        Ok(subscription) => subscription,
        Err(problem) => {
            // The page stays open for another card; this attempt leaves no trace.
            store.undo_to(mark);
            return Err(ApiError { keeps: false, shown: Vec::new(), ..problem });
        }
    };
    let invoice =
        store.get(&subscription).map(|it| at(it, "latest_invoice").clone()).unwrap_or_default();
    store.change(id, |session| {
        set(session, "subscription", subscription.as_str());
        set(session, "invoice", invoice);
    });
    let free = whole(session, "amount_total") == 0;
    complete(store, id, if free { "no_payment_required" } else { "paid" });
    Ok(CheckoutOutcome::Complete)
}

fn keep(
    store: &mut ObjectStore,
    session: &Value,
    customer: Option<String>,
    method: &str,
    authenticated: bool,
) -> Result<CheckoutOutcome, ApiError> {
    let customer = customer.unwrap_or_default();
    attach(store, method, &customer, authenticated)?;
    setup_intents::succeed(store, text(session, "setup_intent"), &customer, method);
    complete(store, text(session, "id"), "no_payment_required");
    Ok(CheckoutOutcome::Complete)
}

fn attach(
    store: &mut ObjectStore,
    method: &str,
    customer: &str,
    authenticated: bool,
) -> Result<(), ApiError> {
    payment_methods::attach_to(store, method, customer, "payment_method")?;
    if authenticated {
        store.change(method, |method| set(method, "_.set_up", true));
    }
    Ok(())
}

fn complete(store: &mut ObjectStore, id: &str, payment_status: &str) {
    let customer = store
        .get(id)
        .and_then(|session| store.get(text(session, "customer")))
        .cloned()
        .unwrap_or_default();
    store.change(id, |session| {
        let details = company::details(session, &customer);
        set(session, "status", "complete");
        set(session, "payment_status", payment_status);
        set(session, "_.due", Value::Null);
        set(session, "customer_details", details);
        if flag(session, "automatic_tax.enabled") {
            set(session, "automatic_tax.status", "complete");
        }
    });
    if payment_status != "unpaid" {
        invoices::of_session(store, id);
    }
    redeem(store, id);
    events::emit(store, "checkout.session.completed", id);
}

/// Counts the discounts of a payment as redeemed; those of a subscription are counted with it.
fn redeem(store: &mut ObjectStore, id: &str) {
    let Some(session) = store.get(id).filter(|it| text(it, "mode") == "payment").cloned() else {
        return;
    };
    for chosen in price::discounts_of(&session) {
        let _discount = coupons::apply(store, &chosen, text(&session, "customer"), None);
    }
}

/// The success URL of a session.
pub(crate) fn success_url(session: &Value) -> String {
    // Some callers percent-encode the braces.
    let url =
        text(session, "success_url").replace("%7BCHECKOUT_SESSION_ID%7D", "{CHECKOUT_SESSION_ID}");
    url.replace("{CHECKOUT_SESSION_ID}", text(session, "id"))
}
