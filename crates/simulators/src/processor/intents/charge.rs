//! Charging the card of an intent, and what comes of it.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::charges::{self, How, Verdict};
use super::super::fields::{at, set, text, whole};
use super::super::problem::Problem;
use super::super::{cards, checkout, disputes, events, invoices, render};
use super::unexpected;

/// A bank account pays after so many seconds.
const LATER_S: i64 = 60;

/// What a try to charge ended with.
pub(in super::super) enum Outcome {
    /// The money is there, or on its way.
    Done,
    /// The owner of the card has to prove it.
    WantsAction,
    Refused(Box<Problem>),
}

/// Charges the card of an intent, and writes down what came of it.
pub(in super::super) fn charge(books: &mut Books, id: &str, how: How) -> Outcome {
    let Some(intent) = books.get(id).cloned() else { return Outcome::Done };
    let Some(method) = books.get(text(&intent, "payment_method")).cloned() else {
        return Outcome::Done;
    };
    match charges::ask(books, &method, text(&intent, "customer"), how) {
        Verdict::Pays => {
            let charge = charges::make(books, &intent, &method, &Ok("succeeded"));
            succeed(books, id, &charge, how);
            Outcome::Done
        }
        Verdict::Later => {
            let charge = charges::make(books, &intent, &method, &Ok("pending"));
            let settles_at = books.now + LATER_S;
            books.change(id, |intent| {
                set(intent, "status", "processing");
                set(intent, "latest_charge", charge.as_str());
                set(intent, "_.due", settles_at);
            });
            keep_card(books, id);
            events::emit(books, "charge.pending", &charge);
            events::emit(books, "payment_intent.processing", id);
            Outcome::Done
        }
        Verdict::WantsAuthentication if how.off_session => {
            Outcome::Refused(Box::new(refuse(books, id, "authentication_required")))
        }
        Verdict::WantsAuthentication => {
            books.change(id, ask_for_action);
            events::emit(books, "payment_intent.requires_action", id);
            Outcome::WantsAction
        }
        Verdict::Declines(code) => Outcome::Refused(Box::new(refuse(books, id, &code))),
    }
}

/// The next step is on the page of the bank; its address is filled in when the intent is shown.
fn ask_for_action(intent: &mut Value) {
    let return_url = at(intent, "_.return_url").clone();
    let action = if return_url.is_null() {
        json!({"type": "use_stripe_sdk", "use_stripe_sdk": {
            "type": "three_d_secure_redirect", "stripe_js": "", "source": text(intent, "payment_method"),
        }})
    } else {
        json!({"type": "redirect_to_url", "redirect_to_url": {"url": "", "return_url": return_url}})
    };
    set(intent, "next_action", action);
    set(intent, "status", "requires_action");
}

/// The owner of the card is not to be asked: the try has failed.
pub(super) fn give_up_action(books: &mut Books, id: &str) -> Problem {
    books.change(id, |intent| set(intent, "next_action", Value::Null));
    refuse(books, id, "authentication_required")
}

/// Writes down a charge that failed; gives the refusal that shows it.
fn refuse(books: &mut Books, id: &str, code: &str) -> Problem {
    let intent = books.get(id).cloned().unwrap_or_default();
    let method_id = text(&intent, "payment_method").to_owned();
    let method = books.get(&method_id).cloned().unwrap_or_default();
    let problem = charges::refusal(code, id, &method_id);
    let charge = charges::make(books, &intent, &method, &Err(&problem));
    let error = json!({
        "charge": charge, "code": problem.code, "decline_code": problem.decline_code, "message": problem.message,
        "payment_method": render::whole(books, &method), "type": "card_error",
    });
    books.change(id, |intent| {
        set(intent, "status", "requires_payment_method");
        set(intent, "payment_method", Value::Null);
        set(intent, "next_action", Value::Null);
        set(intent, "latest_charge", charge.as_str());
        set(intent, "last_payment_error", error);
    });
    events::emit(books, "charge.failed", &charge);
    events::emit(books, "payment_intent.payment_failed", id);
    problem.showing("charge", &charge)
}

fn succeed(books: &mut Books, id: &str, charge: &str, how: How) {
    books.change(id, |intent| {
        let amount = whole(intent, "amount");
        set(intent, "status", "succeeded");
        set(intent, "amount_received", amount);
        set(intent, "latest_charge", charge);
        set(intent, "next_action", Value::Null);
        set(intent, "last_payment_error", Value::Null);
    });
    keep_card(books, id);
    let method =
        books.get(id).map(|intent| text(intent, "payment_method").to_owned()).unwrap_or_default();
    if how.authenticated
        && books.get(id).is_some_and(|intent| !text(intent, "setup_future_usage").is_empty())
    {
        books.change(&method, |method| set(method, "_.set_up", true));
    }
    events::emit(books, "charge.succeeded", charge);
    events::emit(books, "payment_intent.succeeded", id);
    if let Some(intent) = books.get(id).cloned() {
        invoices::paid_by(books, &intent);
    }
    if books
        .get(&method)
        .is_some_and(|method| cards::behaviour(method) == cards::Behaviour::Disputes)
    {
        disputes::open(books, charge, "fraudulent");
    }
}

/// A card that is to be used again is attached to the customer.
fn keep_card(books: &mut Books, id: &str) {
    let Some(intent) = books.get(id).cloned() else { return };
    let (customer, method) = (text(&intent, "customer"), text(&intent, "payment_method"));
    if text(&intent, "setup_future_usage").is_empty() || customer.is_empty() {
        return;
    }
    if books.get(method).is_some_and(|method| text(method, "customer").is_empty()) {
        books.change(method, |method| set(method, "customer", customer));
        events::emit(books, "payment_method.attached", method);
    }
}

/// The owner of the card has proven to be its owner, or has not.
pub(in super::super) fn authenticated(
    books: &mut Books,
    id: &str,
    proven: bool,
) -> Result<(), Problem> {
    let intent = books.find("payment_intent", id, "intent")?;
    if text(intent, "status") != "requires_action" {
        return Err(unexpected(id, "Nothing has to be authenticated for this PaymentIntent."));
    }
    if proven {
        let how = How { off_session: false, authenticated: true };
        return match charge(books, id, how) {
            Outcome::Refused(problem) => Err(*problem),
            Outcome::Done | Outcome::WantsAction => Ok(()),
        };
    }
    let message = "We are unable to authenticate your payment method. Please choose a different payment method and try again.";
    let method =
        render::whole(books, books.get(text(intent, "payment_method")).unwrap_or(&Value::Null));
    let error = json!({
        "code": "payment_intent_authentication_failure", "message": message, "payment_method": method,
        "type": "invalid_request_error",
    });
    books.change(id, |intent| {
        set(intent, "status", "requires_payment_method");
        set(intent, "payment_method", Value::Null);
        set(intent, "next_action", Value::Null);
        set(intent, "last_payment_error", error);
    });
    events::emit(books, "payment_intent.payment_failed", id);
    Err(Problem {
        keeps: true,
        ..unexpected(id, message).code("payment_intent_authentication_failure")
    })
}

/// The money of a bank account has come, or will not.
pub(in super::super) fn settle(books: &mut Books, id: &str, paid: bool) -> Result<(), Problem> {
    let intent = books.find("payment_intent", id, "intent")?.clone();
    if text(&intent, "status") != "processing" {
        return Err(unexpected(id, "This PaymentIntent is not processing."));
    }
    charges::settle(books, text(&intent, "latest_charge"), paid);
    books.change(id, |intent| {
        let amount = whole(intent, "amount");
        set(intent, "_.due", Value::Null);
        set(intent, "status", if paid { "succeeded" } else { "requires_payment_method" });
        set(intent, "amount_received", if paid { amount } else { 0 });
    });
    events::emit(
        books,
        if paid { "payment_intent.succeeded" } else { "payment_intent.payment_failed" },
        id,
    );
    checkout::settled(books, text(&intent, "_.session"), paid);
    Ok(())
}

/// Whether the money behind a processing intent will come.
pub(in super::super) fn will_pay(books: &Books, intent: &Value) -> bool {
    let method = books.get(text(intent, "payment_method"));
    method.is_none_or(|method| cards::behaviour(method) != cards::Behaviour::FailsLater)
}
