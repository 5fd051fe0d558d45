//! What happens when the customer presses the button of a session's page.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::cards::{self, Behaviour};
use super::super::charges::How;
use super::super::fields::{at, list, set, text, whole};
use super::super::intents::{self, Draft, Outcome};
use super::super::problem::Problem;
use super::super::{customers, events, payment_methods, setup_intents, subscriptions};
use super::create::is_recurring;
use super::price;

/// Where the customer goes on.
#[derive(Debug)]
pub(in super::super) enum Paid {
    /// To the success url.
    Complete,
    /// To the bank's page, for the object with this id.
    Authenticate(String),
}

/// Pays an open session with a payment method.
pub(in super::super) fn pay(
    books: &mut Books,
    id: &str,
    method: &str,
    authenticated: bool,
) -> Result<Paid, Problem> {
    let mut session = books.find("checkout.session", id, "session")?.clone();
    if text(&session, "status") != "open" {
        return Err(Problem::invalid("This Checkout Session is no longer open."));
    }
    // The tax is that of the moment at which it is paid.
    price::compute(books, &mut session);
    books.put(session.clone());
    let customer = customer_of(books, &session)?;
    match text(&session, "mode") {
        "payment" if whole(&session, "amount_total") > 0 => {
            pay_once(books, &session, customer, (method, authenticated))
        }
        _ if !authenticated && wants_authentication(books, method) => {
            books.change(id, |session| set(session, "_.method", method));
            Ok(Paid::Authenticate(id.to_owned()))
        }
        "subscription" => subscribe(books, &session, customer, (method, authenticated)),
        "setup" => keep(books, &session, customer, (method, authenticated)),
        _ => {
            complete(books, id, "no_payment_required");
            Ok(Paid::Complete)
        }
    }
}

/// Gives an open session a coupon in the place of what it has, as a customer does who enters a code.
pub(in super::super) fn use_coupon(
    books: &mut Books,
    id: &str,
    coupon: &str,
) -> Result<(), Problem> {
    let mut session = books.find("checkout.session", id, "session")?.clone();
    price::give(&mut session, &[coupon.to_owned()]);
    price::compute(books, &mut session);
    if price::is_too_little(&session) {
        let message = "The Checkout Session's total amount due must add up to at least $0.50 usd";
        return Err(Problem::invalid(message).code("amount_too_small"));
    }
    books.put(session);
    Ok(())
}

/// The customer has proven to own the card, or has not: for a session, or for an intent.
pub(in super::super) fn authenticated(
    books: &mut Books,
    id: &str,
    proven: bool,
) -> Result<(), Problem> {
    if !id.starts_with("cs_") {
        let session =
            books.get(id).map(|intent| text(intent, "_.session").to_owned()).unwrap_or_default();
        intents::authenticated(books, id, proven)?;
        if books.get(&session).is_some_and(|session| text(session, "status") == "open") {
            complete(books, &session, "paid");
        }
        return Ok(());
    }
    let session = books.find("checkout.session", id, "session")?;
    let method = text(session, "_.method").to_owned();
    if !proven || method.is_empty() {
        let message = "We are unable to authenticate your payment method. Please choose a different payment method and try again.";
        return Err(Problem::invalid(message).code("setup_intent_authentication_failure"));
    }
    pay(books, id, &method, true).map(|_| ())
}

fn wants_authentication(books: &Books, method: &str) -> bool {
    let behaviour = books.get(method).map_or(Behaviour::Pays, cards::behaviour);
    matches!(
        behaviour,
        Behaviour::AuthenticatesUntilSetUp
            | Behaviour::AuthenticatesAlways
            | Behaviour::AuthenticatesOnSession
            | Behaviour::AuthenticatesThenDeclines
    )
}

fn customer_of(books: &mut Books, session: &Value) -> Result<Option<String>, Problem> {
    let known = text(session, "customer");
    if !known.is_empty() {
        customers::live(books, known, "customer")?;
        return Ok(Some(known.to_owned()));
    }
    let keeps_card = text(session, "mode") != "payment"
        || !at(session, "_.payment.setup_future_usage").is_null();
    if !keeps_card {
        return Ok(None);
    }
    let id = customers::guest(books, text(session, "customer_email"));
    books.change(text(session, "id"), |session| set(session, "customer", id.as_str()));
    Ok(Some(id))
}

fn pay_once(
    books: &mut Books,
    session: &Value,
    customer: Option<String>,
    (method, authenticated): (&str, bool),
) -> Result<Paid, Problem> {
    let id = text(session, "id");
    let known = text(session, "payment_intent").to_owned();
    let intent = if known.is_empty() { intent_of(books, session, customer) } else { known };
    books.change(&intent, |intent| {
        set(intent, "payment_method", method);
        set(intent, "status", "requires_confirmation");
        set(intent, "amount", whole(session, "amount_total"));
        set(intent, "_.return_url", format!("session:{id}"));
    });
    match intents::charge(books, &intent, How { off_session: false, authenticated }) {
        Outcome::WantsAction => Ok(Paid::Authenticate(intent)),
        Outcome::Refused(problem) => Err(*problem),
        Outcome::Done => {
            let paid = books.get(&intent).is_some_and(intents::is_paid);
            complete(books, id, if paid { "paid" } else { "unpaid" });
            Ok(Paid::Complete)
        }
    }
}

fn intent_of(books: &mut Books, session: &Value, customer: Option<String>) -> String {
    let id = text(session, "id");
    let data = |name: &str| at(session, &format!("_.payment.{name}")).clone();
    let draft = Draft {
        amount: whole(session, "amount_total"),
        currency: text(session, "currency").to_owned(),
        customer,
        metadata: data("metadata"),
        more: vec![
            ("setup_future_usage", data("setup_future_usage")),
            ("description", data("description")),
            ("receipt_email", data("receipt_email")),
            ("payment_method_types", at(session, "payment_method_types").clone()),
            ("_", json!({"session": id})),
        ],
    };
    let intent = intents::make(books, draft);
    events::emit(books, "payment_intent.created", &intent);
    books.change(id, |session| set(session, "payment_intent", intent.as_str()));
    intent
}

fn subscribe(
    books: &mut Books,
    session: &Value,
    customer: Option<String>,
    (method, authenticated): (&str, bool),
) -> Result<Paid, Problem> {
    let id = text(session, "id");
    let customer = customer.unwrap_or_default();
    let mark = books.mark();
    let done = attach(books, method, &customer, authenticated).and_then(|()| {
        let (recurring, once): (Vec<&Value>, Vec<&Value>) =
            list(session, "_.line_items").iter().partition(|line| is_recurring(line));
        let start = subscriptions::Start {
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
            coupons: price::coupons_of(session),
            proration_discounts: text(session, "_.subscription.proration_discounts"),
            how: How { off_session: false, authenticated },
            behaviour: "error_if_incomplete",
        };
        subscriptions::start(books, &start)
    });
    let subscription = match done {
        Ok(subscription) => subscription,
        Err(problem) => {
            // The page stays open for another card; nothing of this try remains.
            books.undo_to(mark);
            return Err(Problem { keeps: false, shown: Vec::new(), ..problem });
        }
    };
    let invoice =
        books.get(&subscription).map(|it| at(it, "latest_invoice").clone()).unwrap_or_default();
    books.change(id, |session| {
        set(session, "subscription", subscription.as_str());
        set(session, "invoice", invoice);
    });
    let free = whole(session, "amount_total") == 0;
    complete(books, id, if free { "no_payment_required" } else { "paid" });
    Ok(Paid::Complete)
}

fn keep(
    books: &mut Books,
    session: &Value,
    customer: Option<String>,
    (method, authenticated): (&str, bool),
) -> Result<Paid, Problem> {
    let customer = customer.unwrap_or_default();
    attach(books, method, &customer, authenticated)?;
    setup_intents::succeed(books, text(session, "setup_intent"), &customer, method);
    complete(books, text(session, "id"), "no_payment_required");
    Ok(Paid::Complete)
}

fn attach(
    books: &mut Books,
    method: &str,
    customer: &str,
    authenticated: bool,
) -> Result<(), Problem> {
    payment_methods::attach_to(books, method, customer, "payment_method")?;
    if authenticated {
        books.change(method, |method| set(method, "_.set_up", true));
    }
    Ok(())
}

fn complete(books: &mut Books, id: &str, payment_status: &str) {
    let customer = books
        .get(id)
        .and_then(|session| books.get(text(session, "customer")))
        .cloned()
        .unwrap_or_default();
    books.change(id, |session| {
        let email = at(&customer, "email").clone();
        let email = if email.is_null() { at(session, "customer_email").clone() } else { email };
        set(session, "status", "complete");
        set(session, "payment_status", payment_status);
        set(session, "_.due", Value::Null);
        let details = json!({
            "address": null, "email": email, "name": at(&customer, "name"), "phone": null, "tax_exempt": "none",
            "tax_ids": [],
        });
        set(session, "customer_details", details);
    });
    events::emit(books, "checkout.session.completed", id);
}

/// Where the success url of a session leads.
pub(in super::super) fn success_url(session: &Value) -> String {
    // Some write the braces as they must be written in an address.
    let url =
        text(session, "success_url").replace("%7BCHECKOUT_SESSION_ID%7D", "{CHECKOUT_SESSION_ID}");
    url.replace("{CHECKOUT_SESSION_ID}", text(session, "id"))
}
