//! Payment methods: created from test cards, attached to a customer, detached permanently.

use serde_json::{Value, json};
use simulator_kit::calendar;

use super::api_call::ApiCall;
use super::cards::{self, CardBehaviour};
use super::fields::{at, flag, set, text};
use super::form::FormParams;
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{customers, events, lists, render};

/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "type",
    "card.number",
    "card.exp_month",
    "card.exp_year",
    "card.cvc",
    "card.token",
    "sepa_debit.iban",
    "billing_details.name",
    "billing_details.email",
    "billing_details.phone",
    "billing_details.address.line1",
    "billing_details.address.line2",
    "billing_details.address.city",
    "billing_details.address.state",
    "billing_details.address.postal_code",
    "billing_details.address.country",
    "metadata.*?",
];
/// The parameters of updating one.
pub(super) const UPDATE_PARAMS: &[&str] = &[
    "metadata?",
    "metadata.*?",
    "card.exp_month",
    "card.exp_year",
    "billing_details.name?",
    "billing_details.email?",
];

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let kind = params.required("type")?;
    let id = match kind {
        "card" => card(call.store, params)?,
        "sepa_debit" => debit(call.store, params)?,
        _ => {
            let message = format!("Invalid type: {kind}; card and sepa_debit are simulated");
            return Err(ApiError::param("type", message));
        }
    };
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    call.store.change(&id, |method| {
        set(method, "metadata", metadata);
        for name in ["name", "email", "phone"] {
            let path = format!("billing_details.{name}");
            set(method, &path, json!(params.text(&path)));
        }
        for name in params.names("billing_details.address") {
            let path = format!("billing_details.address.{name}");
            set(method, &path, json!(params.text(&path)));
        }
    });
    call.store.find("payment_method", &id, "id").cloned()
}

/// A European bank account.
fn debit(store: &mut ObjectStore, params: &FormParams) -> Result<String, ApiError> {
    let iban = params.required("sepa_debit.iban")?;
    for name in ["billing_details.name", "billing_details.email"] {
        params.required(name)?;
    }
    let refuse = || {
        let message = "The IBAN you provided is invalid.";
        ApiError::param("sepa_debit[iban]", message).code("invalid_bank_account_iban")
    };
    Ok(cards::find_debit(iban).ok_or_else(refuse)?.make(store))
}

fn card(store: &mut ObjectStore, params: &FormParams) -> Result<String, ApiError> {
    let number = match params.text("card.token") {
        // `tok_visa` is the token of `pm_card_visa`.
        Some(token) => token.replacen("tok_", "pm_card_", 1),
        None => params.required("card.number")?.to_owned(),
    };
    let month = params.integer("card.exp_month")?.unwrap_or(12);
    let year = params.integer("card.exp_year")?.unwrap_or(2034);
    from_number(store, &number, month, year)
}

/// Creates a payment method for the card with this number.
pub(super) fn from_number(
    store: &mut ObjectStore,
    number: &str,
    month: i64,
    year: i64,
) -> Result<String, ApiError> {
    let Some(card) = cards::find(number) else {
        let digits: String = number.chars().filter(char::is_ascii_digit).collect();
        let (code, message) = if luhn(&digits) {
            let message = "Your card was declined. Your request was in test mode, but used a non test card. For a list of valid test cards, visit: https://stripe.com/docs/testing.";
            ("card_declined", message)
        } else {
            ("incorrect_number", "Your card number is incorrect.")
        };
        let decline = (code == "card_declined").then_some("test_mode_live_card");
        return Err(ApiError {
            keeps: false,
            param: Some("number".into()),
            ..ApiError::card(code, decline, message)
        });
    };
    if !(1..=12).contains(&month) {
        let problem = ApiError::card(
            "invalid_expiry_month",
            None,
            "Your card's expiration month is invalid.",
        );
        return Err(ApiError { keeps: false, param: Some("exp_month".into()), ..problem });
    }
    let full_year = if year < 100 { 2000 + year } else { year };
    let (this_year, this_month) = calendar::year_and_month(store.now);
    if (full_year, month) < (this_year, this_month) || full_year > this_year + 50 {
        let problem =
            ApiError::card("invalid_expiry_year", None, "Your card's expiration year is invalid.");
        return Err(ApiError { keeps: false, param: Some("exp_year".into()), ..problem });
    }
    let id = card.make(store);
    if card.is_card() {
        store.change(&id, |method| {
            set(method, "card.exp_month", month);
            set(method, "card.exp_year", full_year);
        });
    }
    Ok(id)
}

fn luhn(digits: &str) -> bool {
    let sum = digits.bytes().rev().enumerate().fold(0_u32, |sum, (place, digit)| {
        let digit = u32::from(digit - b'0');
        let doubled = if place % 2 == 1 { digit * 2 } else { digit };
        sum + if doubled > 9 { doubled - 9 } else { doubled }
    });
    digits.len() >= 12 && sum.is_multiple_of(10)
}

/// The payment method with this id, or a new one if a test card is named.
pub(super) fn named(store: &mut ObjectStore, given: &str, param: &str) -> Result<String, ApiError> {
    if given.starts_with("pm_card_") || given.starts_with("pm_us") {
        let card =
            cards::find(given).ok_or_else(|| ApiError::no_such("payment_method", given, param))?;
        return Ok(card.make(store));
    }
    store.find("payment_method", given, param).map(|_| given.to_owned())
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store
        .find("payment_method", &id, "payment_method")
        .map_err(|problem| problem.status(404))
        .cloned()
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let before = call.store.find("payment_method", &id, "id")?.clone();
    if text(&before, "customer").is_empty() {
        return Err(ApiError::invalid(
            "You must save this PaymentMethod to a customer before you can update it.",
        ));
    }
    let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
    let (month, year) =
        (call.params.integer("card.exp_month")?, call.params.integer("card.exp_year")?);
    let params = call.params;
    let details =
        ["billing_details.name", "billing_details.email"].map(|path| (path, params.text(path)));
    call.store.change(&id, |method| {
        set(method, "metadata", metadata);
        for (path, value) in [("card.exp_month", month), ("card.exp_year", year)] {
            if let Some(value) = value {
                set(method, path, value);
            }
        }
        for (path, value) in details {
            if let Some(value) = value {
                set(method, path, json!(Some(value).filter(|value| !value.is_empty())));
            }
        }
    });
    events::emit_changed(call.store, "payment_method.updated", &before);
    call.store.find("payment_method", &id, "id").cloned()
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.params.text("customer").map(str::to_owned);
    if let Some(customer) = &customer {
        customers::live(call.store, customer, "customer")?;
    }
    page(call, "/v1/payment_methods", customer.as_deref())
}

pub(super) fn list_of_customer(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    customers::live(call.store, &id, "id")?;
    page(call, &format!("/v1/customers/{id}/payment_methods"), Some(&id))
}

fn page(call: &ApiCall<'_>, url: &str, customer: Option<&str>) -> Result<Value, ApiError> {
    let kind = call.params.text("type").map(str::to_owned);
    lists::page(call, "payment_method", url, |method| {
        // A list of all payment methods shows only those of customers.
        let owner = text(method, "customer");
        !owner.is_empty()
            && customer.is_none_or(|customer| owner == customer)
            && kind.as_deref().is_none_or(|kind| text(method, "type") == kind)
    })
}

pub(super) fn attach(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    let given = call.id(0);
    let id = attach_to(call.store, &given, &customer, "id")?;
    call.store.find("payment_method", &id, "id").cloned()
}

/// Attaches a payment method or a test card to a customer; returns the id of the payment method.
pub(super) fn attach_to(
    store: &mut ObjectStore,
    given: &str,
    customer: &str,
    param: &str,
) -> Result<String, ApiError> {
    let id = named(store, given, param)?;
    let method = store.find("payment_method", &id, param)?;
    check_usable(method)?;
    let owner = text(method, "customer").to_owned();
    if owner == customer {
        return Ok(id);
    }
    if !owner.is_empty() {
        return Err(ApiError::invalid(
            "The payment method you provided has already been attached to a customer.",
        ));
    }
    if let CardBehaviour::Declines(code) = cards::behaviour(method) {
        return Err(ApiError { keeps: false, ..cards::declined(code) });
    }
    store.change(&id, |method| set(method, "customer", customer));
    events::emit(store, "payment_method.attached", &id);
    Ok(id)
}

/// Refuses a detached payment method.
pub(super) fn check_usable(method: &Value) -> Result<(), ApiError> {
    if flag(method, "_.gone") {
        let message = "The provided PaymentMethod was previously used with a PaymentIntent without Customer attachment, shared with a connected account without Customer attachment, or was detached from a Customer. It may not be used again. To use a PaymentMethod multiple times, you must attach it to a Customer first.";
        return Err(ApiError::invalid(message));
    }
    Ok(())
}

pub(super) fn detach(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let method = call.store.find("payment_method", &id, "id")?;
    if text(method, "customer").is_empty() {
        return Err(ApiError::invalid(
            "The payment method you provided is not attached to a customer so detachment is impossible.",
        ));
    }
    take_off(call.store, &id);
    call.store.find("payment_method", &id, "id").cloned()
}

/// Detaches a payment method from its customer, and wherever it is the default.
pub(super) fn take_off(store: &mut ObjectStore, id: &str) {
    let Some(before) = store.get(id).cloned() else { return };
    let customer = text(&before, "customer").to_owned();
    store.change(id, |method| {
        set(method, "customer", Value::Null);
        set(method, "_.gone", true);
    });
    let path = "invoice_settings.default_payment_method";
    if store.get(&customer).is_some_and(|customer| text(customer, path) == id) {
        store.change(&customer, |customer| set(customer, path, Value::Null));
    }
    let of_customer = super::subscriptions::live_of(store, &customer);
    for subscription in of_customer {
        if store.get(&subscription).is_some_and(|it| text(it, "default_payment_method") == id) {
            store.change(&subscription, |it| set(it, "default_payment_method", Value::Null));
        }
    }
    events::emit_changed(store, "payment_method.detached", &before);
}

/// The ids of a customer's payment methods, newest first.
pub(super) fn of_customer(store: &ObjectStore, customer: &str) -> Vec<String> {
    let all =
        store.all("payment_method").rev().filter(|method| text(method, "customer") == customer);
    all.map(|method| text(method, "id").to_owned()).collect()
}
