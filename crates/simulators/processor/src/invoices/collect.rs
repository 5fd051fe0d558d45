//! Collecting an invoice from the card of its subscription or customer.

use serde_json::{Value, json};

use crate::charges::ChargeMode;
use crate::fields::{at, set, text, whole};
use crate::intents::{self, ChargeOutcome, IntentDraft};
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{events, subscriptions};

/// The result of collecting.
pub(crate) enum CollectionOutcome {
    Paid,
    /// The customer must authenticate.
    WantsAction,
    Failed(Box<ApiError>),
}

/// Charges the amount due of an open invoice.
pub(crate) fn collect(store: &mut ObjectStore, id: &str, how: ChargeMode) -> CollectionOutcome {
    let Some(invoice) = store.get(id).filter(|invoice| text(invoice, "status") == "open").cloned()
    else {
        return CollectionOutcome::Paid;
    };
    let Some(method) = method_of(store, &invoice) else {
        let message = "This customer has no attached payment source or default payment method. Please consider adding a default payment method. For more information, visit https://stripe.com/docs/billing/subscriptions/payment-methods-setting#payment-method-priority.";
        failed(store, id, false);
        return CollectionOutcome::Failed(Box::new(ApiError {
            keeps: true,
            ..ApiError::invalid(message).code("resource_missing")
        }));
    };
    let intent = intent_of(store, &invoice);
    store.change(&intent, |intent| {
        set(intent, "payment_method", method);
        set(intent, "status", "requires_confirmation");
    });
    store.change(id, |invoice| {
        let attempts = whole(invoice, "attempt_count") + 1;
        set(invoice, "attempt_count", attempts);
        set(invoice, "attempted", true);
    });
    match intents::charge(store, &intent, how) {
        ChargeOutcome::Done => CollectionOutcome::Paid,
        ChargeOutcome::WantsAction => {
            failed(store, id, true);
            CollectionOutcome::WantsAction
        }
        ChargeOutcome::Refused(problem) => {
            failed(store, id, problem.code.as_deref() == Some("authentication_required"));
            CollectionOutcome::Failed(problem)
        }
    }
}

fn failed(store: &mut ObjectStore, id: &str, wants_action: bool) {
    events::emit(store, "invoice.payment_failed", id);
    if wants_action {
        events::emit(store, "invoice.payment_action_required", id);
    }
}

/// The payment method that is to pay: the invoice's, the subscription's, or the customer's.
fn method_of(store: &ObjectStore, invoice: &Value) -> Option<String> {
    let subscription = store.get(text(invoice, "parent.subscription_details.subscription"));
    let customer = store.get(text(invoice, "customer"));
    let candidates = [
        Some(text(invoice, "_.method")),
        subscription.map(|subscription| text(subscription, "default_payment_method")),
        customer.map(|customer| text(customer, "invoice_settings.default_payment_method")),
        customer.map(|customer| text(customer, "default_source")),
    ];
    candidates.into_iter().flatten().find(|id| !id.is_empty()).map(str::to_owned)
}

/// The intent that pays the invoice, created at the first attempt.
fn intent_of(store: &mut ObjectStore, invoice: &Value) -> String {
    let id = text(invoice, "id");
    let known = store.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    if let Some(payment) = known {
        return text(payment, "payment.payment_intent").to_owned();
    }
    let amount = whole(invoice, "amount_remaining");
    let description = match text(invoice, "billing_reason") {
        "subscription_create" => "Subscription creation",
        _ => "Subscription update",
    };
    let draft = IntentDraft {
        amount,
        currency: text(invoice, "currency").to_owned(),
        customer: Some(text(invoice, "customer").to_owned()),
        metadata: json!({}),
        more: vec![
            ("description", json!(description)),
            ("setup_future_usage", json!("off_session")),
            ("_", json!({"invoice": id})),
        ],
    };
    let intent = intents::make(store, draft);
    events::emit(store, "payment_intent.created", &intent);
    let payment = store.new_id("inpay");
    store.put(json!({
        "id": payment, "object": "invoice_payment", "amount_paid": null, "amount_requested": amount,
        "created": store.now, "currency": text(invoice, "currency"), "invoice": id, "is_default": true, "livemode": false,
        "payment": {"payment_intent": intent, "type": "payment_intent"}, "status": "open",
        "status_transitions": {"canceled_at": null, "paid_at": null},
    }));
    intent
}

/// The payment of an open invoice is for another amount now.
pub(super) fn ask_for(store: &mut ObjectStore, id: &str, amount: i64) {
    let payment = store.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    let Some(payment) = payment.cloned() else { return };
    store.change(text(&payment, "id"), |payment| set(payment, "amount_requested", amount));
    store.change(text(&payment, "payment.payment_intent"), |intent| set(intent, "amount", amount));
}

/// The intent of an invoice has succeeded.
pub(crate) fn paid_by(store: &mut ObjectStore, intent: &Value) {
    let id = text(intent, "_.invoice").to_owned();
    if store.get(&id).is_none_or(|invoice| text(invoice, "status") != "open") {
        return;
    }
    let (now, amount) = (store.now, at(intent, "amount").clone());
    store.change(&id, |invoice| {
        set(invoice, "status", "paid");
        set(invoice, "amount_paid", amount.clone());
        set(invoice, "amount_remaining", 0);
        set(invoice, "next_payment_attempt", Value::Null);
        set(invoice, "status_transitions.paid_at", now);
        set(invoice, "_.due", Value::Null);
    });
    let payment = store.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    if let Some(payment) = payment.map(|payment| text(payment, "id").to_owned()) {
        store.change(&payment, |payment| {
            set(payment, "status", "paid");
            set(payment, "amount_paid", amount);
            set(payment, "status_transitions.paid_at", now);
        });
        events::emit(store, "invoice_payment.paid", &payment);
    }
    events::emit(store, "invoice.paid", &id);
    events::emit(store, "invoice.payment_succeeded", &id);
    subscriptions::invoice_paid(store, &id);
}

/// Gives up the invoice's intent: it can no longer be paid.
pub(super) fn abandon(store: &mut ObjectStore, id: &str) {
    let payment = store.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    let Some(payment) = payment.cloned() else { return };
    let (now, intent) = (store.now, text(&payment, "payment.payment_intent"));
    store.change(text(&payment, "id"), |payment| {
        set(payment, "status", "canceled");
        set(payment, "status_transitions.canceled_at", now);
    });
    store.change(intent, |intent| {
        set(intent, "status", "canceled");
        set(intent, "canceled_at", now);
        set(intent, "cancellation_reason", "void_invoice");
        set(intent, "next_action", Value::Null);
    });
    events::emit(store, "payment_intent.canceled", intent);
}

/// Creates the intent of an invoice without charging it: the customer pays in the browser.
pub(crate) fn prepare(store: &mut ObjectStore, id: &str) {
    if let Some(invoice) =
        store.get(id).filter(|invoice| text(invoice, "status") == "open").cloned()
    {
        intent_of(store, &invoice);
    }
}
