//! Collecting an invoice from the card of its subscription or customer.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::charges::How;
use super::super::fields::{at, set, text, whole};
use super::super::intents::{self, Draft, Outcome};
use super::super::problem::Problem;
use super::super::{events, subscriptions};

/// What collecting ended with.
pub(in super::super) enum Collected {
    Paid,
    /// The owner of the card has to prove it.
    WantsAction,
    Failed(Box<Problem>),
}

/// Charges what is left of an open invoice.
pub(in super::super) fn collect(books: &mut Books, id: &str, how: How) -> Collected {
    let Some(invoice) = books.get(id).filter(|invoice| text(invoice, "status") == "open").cloned()
    else {
        return Collected::Paid;
    };
    let Some(method) = method_of(books, &invoice) else {
        let message = "This customer has no attached payment source or default payment method. Please consider adding a default payment method. For more information, visit https://stripe.com/docs/billing/subscriptions/payment-methods-setting#payment-method-priority.";
        failed(books, id, false);
        return Collected::Failed(Box::new(Problem {
            keeps: true,
            ..Problem::invalid(message).code("resource_missing")
        }));
    };
    let intent = intent_of(books, &invoice);
    books.change(&intent, |intent| {
        set(intent, "payment_method", method);
        set(intent, "status", "requires_confirmation");
    });
    books.change(id, |invoice| {
        let attempts = whole(invoice, "attempt_count") + 1;
        set(invoice, "attempt_count", attempts);
        set(invoice, "attempted", true);
    });
    match intents::charge(books, &intent, how) {
        Outcome::Done => Collected::Paid,
        Outcome::WantsAction => {
            failed(books, id, true);
            Collected::WantsAction
        }
        Outcome::Refused(problem) => {
            failed(books, id, problem.code.as_deref() == Some("authentication_required"));
            Collected::Failed(problem)
        }
    }
}

fn failed(books: &mut Books, id: &str, wants_action: bool) {
    events::emit(books, "invoice.payment_failed", id);
    if wants_action {
        events::emit(books, "invoice.payment_action_required", id);
    }
}

/// The card that is to pay: the one named for the invoice, the subscription's, the customer's.
fn method_of(books: &Books, invoice: &Value) -> Option<String> {
    let subscription = books.get(text(invoice, "parent.subscription_details.subscription"));
    let customer = books.get(text(invoice, "customer"));
    let candidates = [
        Some(text(invoice, "_.method")),
        subscription.map(|subscription| text(subscription, "default_payment_method")),
        customer.map(|customer| text(customer, "invoice_settings.default_payment_method")),
    ];
    candidates.into_iter().flatten().find(|id| !id.is_empty()).map(str::to_owned)
}

/// The intent that pays the invoice; it is made at the first try.
fn intent_of(books: &mut Books, invoice: &Value) -> String {
    let id = text(invoice, "id");
    let known = books.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    if let Some(payment) = known {
        return text(payment, "payment.payment_intent").to_owned();
    }
    let amount = whole(invoice, "amount_remaining");
    let description = match text(invoice, "billing_reason") {
        "subscription_create" => "Subscription creation",
        _ => "Subscription update",
    };
    let draft = Draft {
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
    let intent = intents::make(books, draft);
    events::emit(books, "payment_intent.created", &intent);
    let payment = books.new_id("inpay");
    books.put(json!({
        "id": payment, "object": "invoice_payment", "amount_paid": null, "amount_requested": amount,
        "created": books.now, "currency": text(invoice, "currency"), "invoice": id, "is_default": true, "livemode": false,
        "payment": {"payment_intent": intent, "type": "payment_intent"}, "status": "open",
        "status_transitions": {"canceled_at": null, "paid_at": null},
    }));
    intent
}

/// The intent of an invoice has succeeded.
pub(in super::super) fn paid_by(books: &mut Books, intent: &Value) {
    let id = text(intent, "_.invoice").to_owned();
    if books.get(&id).is_none_or(|invoice| text(invoice, "status") != "open") {
        return;
    }
    let (now, amount) = (books.now, at(intent, "amount").clone());
    books.change(&id, |invoice| {
        set(invoice, "status", "paid");
        set(invoice, "amount_paid", amount.clone());
        set(invoice, "amount_remaining", 0);
        set(invoice, "next_payment_attempt", Value::Null);
        set(invoice, "status_transitions.paid_at", now);
        set(invoice, "_.due", Value::Null);
    });
    let payment = books.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    if let Some(payment) = payment.map(|payment| text(payment, "id").to_owned()) {
        books.change(&payment, |payment| {
            set(payment, "status", "paid");
            set(payment, "amount_paid", amount);
            set(payment, "status_transitions.paid_at", now);
        });
        events::emit(books, "invoice_payment.paid", &payment);
    }
    events::emit(books, "invoice.paid", &id);
    events::emit(books, "invoice.payment_succeeded", &id);
    subscriptions::invoice_paid(books, &id);
}

/// An invoice is given up: nobody can pay it any more.
pub(super) fn abandon(books: &mut Books, id: &str) {
    let payment = books.all("invoice_payment").find(|payment| text(payment, "invoice") == id);
    let Some(payment) = payment.cloned() else { return };
    let (now, intent) = (books.now, text(&payment, "payment.payment_intent"));
    books.change(text(&payment, "id"), |payment| {
        set(payment, "status", "canceled");
        set(payment, "status_transitions.canceled_at", now);
    });
    books.change(intent, |intent| {
        set(intent, "status", "canceled");
        set(intent, "canceled_at", now);
        set(intent, "cancellation_reason", "void_invoice");
        set(intent, "next_action", Value::Null);
    });
    events::emit(books, "payment_intent.canceled", intent);
}

/// Makes the intent of an invoice without charging anything: the customer pays it in the browser.
pub(in super::super) fn prepare(books: &mut Books, id: &str) {
    if let Some(invoice) =
        books.get(id).filter(|invoice| text(invoice, "status") == "open").cloned()
    {
        intent_of(books, &invoice);
    }
}
