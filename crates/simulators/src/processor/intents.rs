//! Payment intents: a payment from its first try until it succeeds or is given up.

use serde_json::{Value, json};

use super::books::Books;
use super::charges::{self, How, Verdict};
use super::fields::{at, set, text, whole};
use super::form::Params;
use super::problem::Problem;
use super::routes::{Call, Caller};
use super::{
    cards, checkout, customers, disputes, events, invoices, lists, payment_methods, render,
};

/// What creating takes.
pub(super) const PARAMS: &[&str] = &[
    "amount",
    "currency",
    "customer",
    "payment_method",
    "payment_method_types.*",
    "automatic_payment_methods.enabled",
    "automatic_payment_methods.allow_redirects",
    "confirm",
    "off_session",
    "error_on_requires_action",
    "return_url",
    "setup_future_usage",
    "description?",
    "receipt_email?",
    "statement_descriptor?",
    "statement_descriptor_suffix?",
    "metadata?",
    "metadata.*?",
    "capture_method",
    "confirmation_method",
    "use_stripe_sdk",
    "payment_method_options.card.request_three_d_secure",
];
/// What updating takes.
pub(super) const UPDATE_PARAMS: &[&str] = &[
    "amount",
    "customer",
    "payment_method",
    "description?",
    "receipt_email?",
    "metadata?",
    "metadata.*?",
    "setup_future_usage",
];
/// What confirming takes.
pub(super) const CONFIRM_PARAMS: &[&str] = &[
    "payment_method",
    "off_session",
    "error_on_requires_action",
    "return_url",
    "setup_future_usage",
    "use_stripe_sdk",
    "expected_payment_method_type",
    "client_secret",
    "key",
    "receipt_email?",
];

const AMOUNT_MIN: i64 = 50;
const AMOUNT_MAX: i64 = 99_999_999;
/// A bank account pays after so many seconds.
const LATER_S: i64 = 60;

/// What an intent begins with.
pub(super) struct Draft {
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) customer: Option<String>,
    pub(super) metadata: Value,
    /// Fields of the intent that differ from what they usually are.
    pub(super) more: Vec<(&'static str, Value)>,
}

pub(super) fn create(call: &mut Call<'_>) -> Result<Value, Problem> {
    let params = call.params;
    let draft = draft(call.books, params)?;
    let confirm = params.flag("confirm")?.unwrap_or(false);
    if !confirm && params.has("off_session") {
        return Err(Problem::param(
            "off_session",
            "The parameter `off_session` cannot be passed when creating a PaymentIntent unless `confirm` is set to true.",
        ));
    }
    if !confirm && params.has("error_on_requires_action") {
        return Err(Problem::param(
            "error_on_requires_action",
            "The parameter `error_on_requires_action` cannot be passed when creating a PaymentIntent unless `confirm` is set to true.",
        ));
    }
    let id = make(call.books, draft);
    if let Some(given) = params.text("payment_method") {
        take_method(call.books, &id, given)?;
    }
    events::emit(call.books, "payment_intent.created", &id);
    if confirm {
        return confirmed(call, &id);
    }
    call.books.find("payment_intent", &id, "intent").cloned()
}

fn draft(books: &Books, params: &Params) -> Result<Draft, Problem> {
    params.required("amount")?;
    let amount = params.integer("amount")?.unwrap_or(0);
    let currency = params.required("currency")?.to_lowercase();
    check_amount(amount, &currency)?;
    let customer = params.text("customer").map(str::to_owned);
    if let Some(customer) = &customer {
        customers::live(books, customer, "customer")?;
    }
    let automatic = params.flag("automatic_payment_methods.enabled")?;
    let types = list_at(params, "payment_method_types");
    if automatic == Some(true) && !types.is_empty() {
        let message = "You may only specify one of these parameters: automatic_payment_methods, payment_method_types.";
        return Err(Problem::param("payment_method_types", message));
    }
    if let Some(unknown) =
        types.iter().find(|kind| !matches!(kind.as_str(), "card" | "link" | "us_bank_account"))
    {
        let message = format!("The payment method type provided: {unknown} is invalid.");
        return Err(Problem::param("payment_method_types", message));
    }
    let automatic = types.is_empty() && automatic != Some(false);
    let redirects = params
        .one_of("automatic_payment_methods.allow_redirects", &["always", "never"])?
        .unwrap_or("always");
    let usage = params.one_of("setup_future_usage", &["off_session", "on_session"])?;
    params.one_of("capture_method", &["automatic", "automatic_async"])?;
    let types = if types.is_empty() {
        vec!["card".to_owned(), "us_bank_account".to_owned()]
    } else {
        types
    };
    Ok(Draft {
        amount,
        currency,
        customer,
        metadata: render::metadata(params, "metadata", &Value::Null)?,
        more: vec![
            (
                "automatic_payment_methods",
                json!(automatic.then(|| json!({"allow_redirects": redirects, "enabled": true}))),
            ),
            ("description", json!(params.text("description"))),
            ("payment_method_types", json!(types)),
            ("receipt_email", json!(params.text("receipt_email"))),
            ("setup_future_usage", json!(usage)),
        ],
    })
}

fn list_at(params: &Params, path: &str) -> Vec<String> {
    let names = params.names(path);
    names
        .iter()
        .filter_map(|name| params.text(&format!("{path}.{name}")).map(str::to_owned))
        .collect()
}

/// Refuses amounts that no card network takes, and currencies that are not simulated.
pub(super) fn check_amount(amount: i64, currency: &str) -> Result<(), Problem> {
    check_currency(currency)?;
    if amount < 1 {
        let message = "This value must be greater than or equal to 1.";
        return Err(Problem::param("amount", message).code("parameter_invalid_integer"));
    }
    if amount < AMOUNT_MIN {
        let message = "Amount must be at least $0.50 usd";
        return Err(Problem::param("amount", message).code("amount_too_small"));
    }
    if amount > AMOUNT_MAX {
        let message = "Amount must be no more than $999,999.99";
        return Err(Problem::param("amount", message).code("amount_too_large"));
    }
    Ok(())
}

/// Refuses currencies that are not simulated.
pub(super) fn check_currency(currency: &str) -> Result<(), Problem> {
    if matches!(currency, "usd" | "eur" | "gbp") {
        return Ok(());
    }
    Err(Problem::param(
        "currency",
        format!("Invalid currency: {currency}. The simulated processor knows usd, eur and gbp."),
    ))
}

/// Puts an intent into the books; gives its id.
pub(super) fn make(books: &mut Books, draft: Draft) -> String {
    let id = books.new_id("pi");
    let secret = books.secret();
    let mut intent = json!({
        "id": id, "object": "payment_intent", "amount": draft.amount, "amount_capturable": 0,
        "amount_details": {"tip": {}}, "amount_received": 0, "application": null, "application_fee_amount": null,
        "automatic_payment_methods": null, "canceled_at": null, "cancellation_reason": null,
        "capture_method": "automatic_async", "client_secret": format!("{id}_secret_{secret}"),
        "confirmation_method": "automatic", "created": books.now, "currency": draft.currency, "customer": draft.customer,
        "description": null, "last_payment_error": null, "latest_charge": null, "livemode": false,
        "metadata": draft.metadata, "next_action": null, "on_behalf_of": null, "payment_method": null,
        "payment_method_options": {"card": {"installments": null, "mandate_options": null, "network": null, "request_three_d_secure": "automatic"}},
        "payment_method_types": ["card"], "processing": null, "receipt_email": null, "review": null,
        "setup_future_usage": null, "shipping": null, "source": null, "statement_descriptor": null,
        "statement_descriptor_suffix": null, "status": "requires_payment_method", "transfer_data": null,
        "transfer_group": null,
    });
    for (name, value) in draft.more {
        set(&mut intent, name, value);
    }
    books.put(intent);
    id
}

/// Puts a payment method into the intent, if it may be used there.
fn take_method(books: &mut Books, id: &str, given: &str) -> Result<(), Problem> {
    let method_id = payment_methods::named(books, given, "payment_method")?;
    let method = books.find("payment_method", &method_id, "payment_method")?;
    payment_methods::check_usable(method)?;
    let owner = text(method, "customer").to_owned();
    let customer =
        books.get(id).map(|intent| text(intent, "customer").to_owned()).unwrap_or_default();
    if !owner.is_empty() && owner != customer {
        let message = if customer.is_empty() {
            format!(
                "The PaymentMethod {method_id} belongs to a Customer. Please include the Customer in the `customer` parameter on the PaymentIntent."
            )
        } else {
            format!(
                "The payment method supplied ({method_id}) belongs to a different Customer than the one on the PaymentIntent."
            )
        };
        return Err(Problem::param("payment_method", message));
    }
    books.change(id, |intent| {
        set(intent, "payment_method", method_id);
        set(intent, "status", "requires_confirmation");
    });
    Ok(())
}

pub(super) fn confirm(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    readable(call, &id)?;
    let intent = call.books.find("payment_intent", &id, "intent")?;
    refuse_sessions(intent)?;
    let status = text(intent, "status").to_owned();
    if !matches!(
        status.as_str(),
        "requires_payment_method" | "requires_confirmation" | "requires_action"
    ) {
        return Err(unexpected(
            &id,
            &format!(
                "You cannot confirm this PaymentIntent because it has already {status} after being previously confirmed."
            ),
        ));
    }
    if let Some(given) = call.params.text("payment_method").map(str::to_owned) {
        take_method(call.books, &id, &given)?;
    }
    if let Some(usage) = call.params.one_of("setup_future_usage", &["off_session", "on_session"])? {
        call.books.change(&id, |intent| set(intent, "setup_future_usage", usage));
    }
    confirmed(call, &id)
}

/// An intent of a checkout session is the session's alone.
fn refuse_sessions(intent: &Value) -> Result<(), Problem> {
    let session = text(intent, "_.session");
    if session.is_empty() {
        return Ok(());
    }
    let message = format!(
        "This PaymentIntent was created by the Checkout Session {session} and cannot be changed directly. Expire the session instead."
    );
    Err(Problem::invalid(message).code("payment_intent_unexpected_state"))
}

fn unexpected(id: &str, message: &str) -> Problem {
    Problem::invalid(message).code("payment_intent_unexpected_state").showing("payment_intent", id)
}

fn confirmed(call: &mut Call<'_>, id: &str) -> Result<Value, Problem> {
    let params = call.params;
    let off_session = off_session(params)?;
    let intent = call.books.find("payment_intent", id, "intent")?;
    if text(intent, "payment_method").is_empty() {
        let message = "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method or ConfirmationToken.";
        return Err(unexpected(id, message));
    }
    let redirects = text(intent, "automatic_payment_methods.allow_redirects") == "always";
    let return_url = params.text("return_url").map(str::to_owned);
    if redirects && return_url.is_none() && !off_session && call.caller == Caller::Server {
        let message = "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.";
        return Err(Problem::param("return_url", message));
    }
    if off_session
        && text(intent, "setup_future_usage") == "off_session"
        && params.has("setup_future_usage")
    {
        let message = "You cannot set `off_session` to true together with `setup_future_usage`.";
        return Err(Problem::param("off_session", message));
    }
    call.books.change(id, |intent| set(intent, "_.return_url", json!(return_url)));
    let how = How { off_session, authenticated: false };
    let refuse_actions = params.flag("error_on_requires_action")?.unwrap_or(false);
    match charge(call.books, id, how) {
        Outcome::Refused(problem) => Err(*problem),
        Outcome::WantsAction if refuse_actions => Err(give_up_action(call.books, id)),
        Outcome::Done | Outcome::WantsAction => {
            call.books.find("payment_intent", id, "intent").cloned()
        }
    }
}

/// `true`, `false`, or one of the older words for why nobody is there.
fn off_session(params: &Params) -> Result<bool, Problem> {
    match params.text("off_session") {
        Some("one_off" | "recurring") => Ok(true),
        _ => Ok(params.flag("off_session")?.unwrap_or(false)),
    }
}

/// What a try to charge ended with.
pub(super) enum Outcome {
    /// The money is there, or on its way.
    Done,
    /// The owner of the card has to prove it.
    WantsAction,
    Refused(Box<Problem>),
}

/// Charges the card of an intent, and writes down what came of it.
pub(super) fn charge(books: &mut Books, id: &str, how: How) -> Outcome {
    let Some(intent) = books.get(id).cloned() else { return Outcome::Done };
    let Some(method) = books.get(text(&intent, "payment_method")).cloned() else {
        return Outcome::Done;
    };
    match charges::ask(books, &method, how) {
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

fn give_up_action(books: &mut Books, id: &str) -> Problem {
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
pub(super) fn authenticated(books: &mut Books, id: &str, proven: bool) -> Result<(), Problem> {
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
pub(super) fn settle(books: &mut Books, id: &str, paid: bool) -> Result<(), Problem> {
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
pub(super) fn will_pay(books: &Books, intent: &Value) -> bool {
    let method = books.get(text(intent, "payment_method"));
    method.is_none_or(|method| cards::behaviour(method) != cards::Behaviour::FailsLater)
}

pub(super) fn update(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    let params = call.params;
    let mut intent = call.books.find("payment_intent", &id, "intent")?.clone();
    let status = text(&intent, "status").to_owned();
    let open = matches!(
        status.as_str(),
        "requires_payment_method" | "requires_confirmation" | "requires_action"
    );
    if !open
        && ["amount", "customer", "payment_method", "setup_future_usage"]
            .iter()
            .any(|name| params.has(name))
    {
        return Err(unexpected(
            &id,
            &format!(
                "This PaymentIntent's parameters could not be updated because it has a status of {status}."
            ),
        ));
    }
    if let Some(amount) = params.integer("amount")? {
        check_amount(amount, text(&intent, "currency"))?;
        set(&mut intent, "amount", amount);
    }
    if let Some(customer) = params.text("customer") {
        customers::live(call.books, customer, "customer")?;
        set(&mut intent, "customer", customer);
    }
    for name in ["description", "receipt_email"] {
        if let Some(value) = params.text(name) {
            set(&mut intent, name, json!(Some(value).filter(|value| !value.is_empty())));
        }
    }
    let metadata = render::metadata(params, "metadata", at(&intent, "metadata"))?;
    set(&mut intent, "metadata", metadata);
    call.books.put(intent);
    if let Some(given) = params.text("payment_method") {
        take_method(call.books, &id, given)?;
    }
    call.books.find("payment_intent", &id, "intent").cloned()
}

pub(super) fn cancel(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    let intent = call.books.find("payment_intent", &id, "intent")?;
    refuse_sessions(intent)?;
    let words = ["duplicate", "fraudulent", "requested_by_customer", "abandoned"];
    let reason = call.params.one_of("cancellation_reason", &words)?;
    let status = text(intent, "status").to_owned();
    if matches!(status.as_str(), "succeeded" | "canceled" | "processing") {
        return Err(unexpected(
            &id,
            &format!(
                "You cannot cancel this PaymentIntent because it has a status of {status}. Only a PaymentIntent with one of the following statuses may be canceled: requires_payment_method, requires_capture, requires_confirmation, requires_action."
            ),
        ));
    }
    let now = call.books.now;
    call.books.change(&id, |intent| {
        set(intent, "status", "canceled");
        set(intent, "canceled_at", now);
        set(intent, "cancellation_reason", json!(reason));
        set(intent, "next_action", Value::Null);
    });
    events::emit(call.books, "payment_intent.canceled", &id);
    call.books.find("payment_intent", &id, "intent").cloned()
}

pub(super) fn retrieve(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    readable(call, &id)?;
    call.books.find("payment_intent", &id, "intent").cloned()
}

/// A browser sees only what it has the secret of.
fn readable(call: &Call<'_>, id: &str) -> Result<(), Problem> {
    let intent = call.books.find("payment_intent", id, "intent")?;
    let known = call.params.text("client_secret") == Some(text(intent, "client_secret"));
    if call.params.has("client_secret") && !known {
        let message = "The client_secret provided does not match the client_secret associated with the PaymentIntent.";
        return Err(
            Problem::param("client_secret", message).code("payment_intent_invalid_parameter")
        );
    }
    if call.caller == Caller::Browser && !known {
        return Err(Problem::missing("client_secret"));
    }
    Ok(())
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Value, Problem> {
    let customer = call.params.text("customer");
    lists::page(call, "payment_intent", "/v1/payment_intents", |intent| {
        customer.is_none_or(|customer| text(intent, "customer") == customer)
    })
}

pub(super) fn search(call: &mut Call<'_>) -> Result<Value, Problem> {
    lists::search(call, "payment_intent", "/v1/payment_intents/search")
}

/// Whether the money is there.
pub(super) fn is_paid(intent: &Value) -> bool {
    text(intent, "status") == "succeeded"
}
