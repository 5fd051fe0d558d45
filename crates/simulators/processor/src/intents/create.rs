//! Creating an intent, and changing it before it is confirmed.

use serde_json::{Value, json};

use super::confirm::confirmed;
use super::unexpected;
use crate::api_call::ApiCall;
use crate::fields::{at, set, text};
use crate::form::FormParams;
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{cash_balance, customers, events, payment_methods, prices, render};

/// The parameters of creating one.
pub(crate) const PARAMS: &[&str] = &[
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
    "payment_method_options.customer_balance.funding_type",
    "payment_method_options.customer_balance.bank_transfer.type",
    "payment_method_data.type",
    "mandate_data.customer_acceptance.accepted_at",
    "mandate_data.customer_acceptance.type",
    "shipping.name",
    "shipping.phone",
    "shipping.address.*",
];
/// The parameters of updating one.
pub(crate) const UPDATE_PARAMS: &[&str] = &[
    "amount",
    "customer",
    "payment_method",
    "description?",
    "receipt_email?",
    "metadata?",
    "metadata.*?",
    "setup_future_usage",
];

const AMOUNT_MIN: i64 = 50;
const AMOUNT_MAX: i64 = 99_999_999;

/// The initial values of an intent.
pub(crate) struct IntentDraft {
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) customer: Option<String>,
    pub(crate) metadata: Value,
    /// Fields that differ from the usual values.
    pub(crate) more: Vec<(&'static str, Value)>,
}

pub(crate) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let draft = draft(call.store, params)?;
    let confirm = params.flag("confirm")?.unwrap_or(false);
    if !confirm && params.has("off_session") {
        return Err(ApiError::param(
            "off_session",
            "The parameter `off_session` cannot be passed when creating a PaymentIntent unless `confirm` is set to true.",
        ));
    }
    if !confirm && params.has("error_on_requires_action") {
        return Err(ApiError::param(
            "error_on_requires_action",
            "The parameter `error_on_requires_action` cannot be passed when creating a PaymentIntent unless `confirm` is set to true.",
        ));
    }
    let id = make(call.store, draft);
    if let Some(given) = params.text("payment_method") {
        take_method(call.store, &id, given)?;
    }
    if params.one_of("payment_method_data.type", &[cash_balance::METHOD])?.is_some() {
        params.required("customer")?;
        let method = cash_balance::make_method(call.store);
        take_method(call.store, &id, &method)?;
    }
    events::emit(call.store, "payment_intent.created", &id);
    if confirm {
        return confirmed(call, &id);
    }
    call.store.find("payment_intent", &id, "intent").cloned()
}

fn draft(store: &ObjectStore, params: &FormParams) -> Result<IntentDraft, ApiError> {
    params.required("amount")?;
    let amount = params.integer("amount")?.unwrap_or(0);
    let currency = params.required("currency")?.to_lowercase();
    check_amount(amount, &currency)?;
    let customer = params.text("customer").map(str::to_owned);
    if let Some(customer) = &customer {
        customers::live(store, customer, "customer")?;
    }
    let automatic = params.flag("automatic_payment_methods.enabled")?;
    let types = list_at(params, "payment_method_types");
    if automatic == Some(true) && !types.is_empty() {
        let message = "You may only specify one of these parameters: automatic_payment_methods, payment_method_types.";
        return Err(ApiError::param("payment_method_types", message));
    }
    let known = ["card", "link", "us_bank_account", "sepa_debit", cash_balance::METHOD];
    if let Some(unknown) = types.iter().find(|kind| !known.contains(&kind.as_str())) {
        let message = format!("The payment method type provided: {unknown} is invalid.");
        return Err(ApiError::param("payment_method_types", message));
    }
    let automatic = types.is_empty() && automatic != Some(false);
    let redirects = params
        .one_of("automatic_payment_methods.allow_redirects", &["always", "never"])?
        .unwrap_or("always");
    let usage = params.one_of("setup_future_usage", &["off_session", "on_session"])?;
    let captures = ["automatic", "automatic_async", "manual"];
    let captures = params.one_of("capture_method", &captures)?.unwrap_or("automatic_async");
    let confirms =
        params.one_of("confirmation_method", &["automatic", "manual"])?.unwrap_or("automatic");
    let types = if types.is_empty() {
        vec!["card".to_owned(), "us_bank_account".to_owned()]
    } else {
        types
    };
    Ok(IntentDraft {
        amount,
        currency,
        customer,
        metadata: render::metadata(params, "metadata", &Value::Null)?,
        more: vec![
            (
                "automatic_payment_methods",
                json!(automatic.then(|| json!({"allow_redirects": redirects, "enabled": true}))),
            ),
            ("capture_method", json!(captures)),
            ("confirmation_method", json!(confirms)),
            ("description", json!(params.text("description"))),
            ("shipping", params.nested("shipping")),
            ("payment_method_types", json!(types)),
            ("receipt_email", json!(params.text("receipt_email"))),
            ("setup_future_usage", json!(usage)),
        ],
    })
}

fn list_at(params: &FormParams, path: &str) -> Vec<String> {
    let names = params.names(path);
    names
        .iter()
        .filter_map(|name| params.text(&format!("{path}.{name}")).map(str::to_owned))
        .collect()
}

/// Refuses amounts outside the card networks' limits, and currencies that are not simulated.
fn check_amount(amount: i64, currency: &str) -> Result<(), ApiError> {
    prices::check_currency(currency)?;
    if amount < 1 {
        let message = "This value must be greater than or equal to 1.";
        return Err(ApiError::param("amount", message).code("parameter_invalid_integer"));
    }
    if amount < AMOUNT_MIN {
        let message = "Amount must be at least $0.50 usd";
        return Err(ApiError::param("amount", message).code("amount_too_small"));
    }
    if amount > AMOUNT_MAX {
        let message = "Amount must be no more than $999,999.99";
        return Err(ApiError::param("amount", message).code("amount_too_large"));
    }
    Ok(())
}

/// Adds an intent to the store; returns its id.
pub(crate) fn make(store: &mut ObjectStore, draft: IntentDraft) -> String {
    let id = store.new_id("pi");
    let secret = store.secret();
    let mut intent = json!({
        "id": id, "object": "payment_intent", "amount": draft.amount, "amount_capturable": 0,
        "amount_details": {"tip": {}}, "amount_received": 0, "application": null, "application_fee_amount": null,
        "automatic_payment_methods": null, "canceled_at": null, "cancellation_reason": null,
        "capture_method": "automatic_async", "client_secret": format!("{id}_secret_{secret}"),
        "confirmation_method": "automatic", "created": store.now, "currency": draft.currency, "customer": draft.customer,
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
    store.put(intent);
    id
}

/// Sets the payment method of the intent, if it may be used there.
pub(super) fn take_method(store: &mut ObjectStore, id: &str, given: &str) -> Result<(), ApiError> {
    let method_id = payment_methods::named(store, given, "payment_method")?;
    let method = store.find("payment_method", &method_id, "payment_method")?;
    payment_methods::check_usable(method)?;
    let owner = text(method, "customer").to_owned();
    let customer =
        store.get(id).map(|intent| text(intent, "customer").to_owned()).unwrap_or_default();
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
        return Err(ApiError::param("payment_method", message));
    }
    store.change(id, |intent| {
        set(intent, "payment_method", method_id);
        set(intent, "status", "requires_confirmation");
    });
    Ok(())
}

pub(crate) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let params = call.params;
    let mut intent = call.store.find("payment_intent", &id, "intent")?.clone();
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
        customers::live(call.store, customer, "customer")?;
        set(&mut intent, "customer", customer);
    }
    if let Some(usage) = params.one_of("setup_future_usage", &["off_session", "on_session"])? {
        set(&mut intent, "setup_future_usage", usage);
    }
    for name in ["description", "receipt_email"] {
        if let Some(value) = params.text(name) {
            set(&mut intent, name, json!(Some(value).filter(|value| !value.is_empty())));
        }
    }
    let metadata = render::metadata(params, "metadata", at(&intent, "metadata"))?;
    set(&mut intent, "metadata", metadata);
    call.store.put(intent);
    if let Some(given) = params.text("payment_method") {
        take_method(call.store, &id, given)?;
    }
    call.store.find("payment_intent", &id, "intent").cloned()
}
