//! Creating a checkout session.

use serde_json::{Value, json};

use super::{company, price};
use crate::api_call::ApiCall;
use crate::coupons::ChosenDiscount;
use crate::fields::{set, text};
use crate::form::FormParams;
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::subscriptions::proration_discounts;
use crate::{coupons, customers, prices, render, rules, setup_intents, taxes};

/// The parameters of creating one.
pub(crate) const PARAMS: &[&str] = &[
    "mode",
    "customer",
    "customer_email",
    "customer_creation",
    "client_reference_id",
    "currency",
    "line_items.*.price",
    "line_items.*.quantity",
    "line_items.*.price_data.currency",
    "line_items.*.price_data.unit_amount",
    "line_items.*.price_data.tax_behavior",
    "line_items.*.price_data.product",
    "line_items.*.price_data.product_data.name",
    "line_items.*.price_data.product_data.description",
    "line_items.*.price_data.product_data.metadata.*?",
    "line_items.*.price_data.recurring.interval",
    "line_items.*.price_data.recurring.interval_count",
    "success_url",
    "cancel_url",
    "expires_at",
    "metadata?",
    "metadata.*?",
    "locale",
    "payment_method_types.*",
    "payment_method_collection",
    "allow_promotion_codes",
    "billing_address_collection",
    "submit_type",
    "payment_intent_data.setup_future_usage",
    "payment_intent_data.metadata.*?",
    "payment_intent_data.description",
    "payment_intent_data.receipt_email",
    "payment_intent_data.shipping.name",
    "payment_intent_data.shipping.address.*",
    "payment_intent_data.statement_descriptor",
    "payment_intent_data.statement_descriptor_suffix",
    "setup_intent_data.metadata.*?",
    "setup_intent_data.description",
    "subscription_data.metadata.*?",
    "subscription_data.trial_period_days",
    "subscription_data.trial_end",
    "subscription_data.description",
    "subscription_data.billing_mode.type",
    "subscription_data.billing_mode.flexible.proration_discounts",
    "subscription_data.proration_behavior",
    "invoice_creation.enabled",
    "invoice_creation.invoice_data.description",
    "invoice_creation.invoice_data.footer",
    "invoice_creation.invoice_data.metadata.*?",
    "automatic_tax.enabled",
    "tax_id_collection.enabled",
    "customer_update.address",
    "customer_update.name",
    "discounts.*.coupon",
    "discounts.*.promotion_code",
    "saved_payment_method_options.payment_method_save",
];

const LIFE_MIN_S: i64 = 30 * 60;
const LIFE_MAX_S: i64 = 24 * 3600;
const LINES_MAX: usize = 100;
const RECURRING_MAX: usize = 20;

pub(crate) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    params.required("mode")?;
    let mode = params.one_of("mode", &["payment", "setup", "subscription"])?.unwrap_or("payment");
    for name in ["success_url", "cancel_url"] {
        check_url(params, name)?;
    }
    params.required("success_url")?;
    let customer = params.text("customer").map(str::to_owned);
    if let Some(customer) = &customer {
        customers::live(call.store, customer, "customer")?;
    }
    if customer.is_some() && params.has("customer_email") {
        return Err(ApiError::invalid(
            "You may only specify one of these parameters: customer, customer_email.",
        ));
    }
    for (below, of) in [
        ("payment_intent_data", "payment"),
        ("subscription_data", "subscription"),
        ("setup_intent_data", "setup"),
    ] {
        if params.has(below) && mode != of {
            let message = format!("You can not pass `{below}` in `{mode}` mode.");
            return Err(ApiError::param(below, message));
        }
    }
    if params.has("invoice_creation") && mode != "payment" {
        let message = "You can only enable invoice creation when `mode` is set to `payment`.";
        return Err(ApiError::param("invoice_creation", message));
    }
    company::check(call.store, params, customer.as_deref())?;
    let lines = lines(call.store, params, mode)?;
    let expires_at = expires_at(params, call.store.now)?;
    let discounts = discounts_for(call, mode)?;
    let id = format!("cs_test_{}", call.store.new_id("x").trim_start_matches("x_"));
    let mut session =
        session(call, &id, SessionStart { mode, customer, lines: &lines, expires_at })?;
    company::ask(&mut session, params)?;
    price::give(&mut session, &discounts);
    price::compute(call.store, &mut session);
    if price::is_too_little(&session) {
        let message = "The Checkout Session's total amount due must add up to at least $0.50 usd";
        return Err(ApiError::invalid(message).code("amount_too_small"));
    }
    call.store.put(session);
    if mode == "setup" {
        let metadata = render::metadata(params, "setup_intent_data.metadata", &Value::Null)?;
        let intent = setup_intents::make(call.store, &id, &metadata);
        call.store.change(&id, |session| set(session, "setup_intent", intent));
    }
    call.store.find("checkout.session", &id, "session").cloned()
}

/// The discounts of a new session: those in the request, or the coupon that the control interface
/// has set for it.
fn discounts_for(call: &mut ApiCall<'_>, mode: &str) -> Result<Vec<ChosenDiscount>, ApiError> {
    let named = coupons::named(call.store, call.params)?;
    if mode == "setup" {
        let refuse =
            || ApiError::param("discounts", "You can not pass `discounts` in `setup` mode.");
        return if named.is_some() { Err(refuse()) } else { Ok(Vec::new()) };
    }
    if named.is_some() && call.params.has("allow_promotion_codes") {
        let message =
            "You may only specify one of these parameters: allow_promotion_codes, discounts.";
        return Err(ApiError::invalid(message));
    }
    let set_aside = rules::take_next_coupon(call.store);
    Ok(named.unwrap_or_else(|| set_aside.into_iter().map(ChosenDiscount::coupon).collect()))
}

/// What a new session is about.
struct SessionStart<'a> {
    mode: &'a str,
    customer: Option<String>,
    lines: &'a [Value],
    expires_at: i64,
}

fn session(call: &ApiCall<'_>, id: &str, start: SessionStart<'_>) -> Result<Value, ApiError> {
    let SessionStart { mode, customer, lines, expires_at } = start;
    let params = call.params;
    let trial = trial_days(params, call.store.now)?;
    let types = types(params, mode)?;
    let usage =
        params.one_of("payment_intent_data.setup_future_usage", &["off_session", "on_session"])?;
    let currency = lines.first().map_or("usd", |line| text(line, "currency"));
    Ok(json!({
        "id": id, "object": "checkout.session", "adaptive_pricing": null, "after_expiration": null,
        "allow_promotion_codes": params.flag("allow_promotion_codes")?, "amount_subtotal": 0, "amount_total": 0,
        "automatic_tax": taxes::automatic(false, None), "billing_address_collection": null, "cancel_url": params.text("cancel_url"),
        "client_reference_id": params.text("client_reference_id"), "client_secret": null, "consent": null,
        "consent_collection": null, "created": call.store.now, "currency": currency, "currency_conversion": null,
        "custom_fields": [], "custom_text": {}, "customer": customer, "customer_creation": null, "customer_details": null,
        "customer_email": params.text("customer_email"), "discounts": [], "expires_at": expires_at, "invoice": null,
        "invoice_creation": null, "livemode": false, "locale": params.text("locale"),
        "metadata": render::metadata(params, "metadata", &Value::Null)?, "mode": mode, "payment_intent": null,
        "payment_link": null, "payment_method_collection": if mode == "payment" { "if_required" } else { "always" },
        "payment_method_configuration_details": null, "payment_method_options": {}, "payment_method_types": types,
        "payment_status": "unpaid", "phone_number_collection": {"enabled": false}, "recovered_from": null,
        "saved_payment_method_options": null, "setup_intent": null, "shipping_address_collection": null,
        "shipping_cost": null, "shipping_options": [], "status": "open", "submit_type": null, "subscription": null,
        "success_url": params.text("success_url"), "tax_id_collection": {"enabled": false, "required": "never"},
        "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0}, "ui_mode": "hosted_page",
        "wallet_options": null,
        "_": {
            "due": expires_at, "line_items": lines,
            "payment": {
                "setup_future_usage": usage, "description": params.text("payment_intent_data.description"),
                "receipt_email": params.text("payment_intent_data.receipt_email"),
                "metadata": render::metadata(params, "payment_intent_data.metadata", &Value::Null)?,
                "shipping": params.nested("payment_intent_data.shipping"),
            },
            "subscription": {
                "trial_period_days": trial,
                "proration_discounts": proration_discounts(params, "subscription_data.billing_mode")?,
                "description": params.text("subscription_data.description"),
                "metadata": render::metadata(params, "subscription_data.metadata", &Value::Null)?,
            },
        },
    }))
}

/// The types of payment methods with which the page can be paid.
fn types(params: &FormParams, mode: &str) -> Result<Value, ApiError> {
    let mut types = Vec::new();
    for place in params.names("payment_method_types") {
        let path = format!("payment_method_types.{place}");
        let words = ["card", "us_bank_account", "sepa_debit", "link"];
        types.extend(params.one_of(&path, &words)?);
    }
    Ok(match (types.is_empty(), mode) {
        (false, _) => json!(types),
        (true, "payment") => json!(["card", "us_bank_account"]),
        (true, _) => json!(["card"]),
    })
}

fn trial_days(params: &FormParams, now: i64) -> Result<Option<i64>, ApiError> {
    let days = params.integer("subscription_data.trial_period_days")?;
    let end = params.integer("subscription_data.trial_end")?;
    let days = days.or_else(|| end.map(|end| (end - now) / 86_400));
    match days {
        Some(days) if days < 1 => {
            let message = "The minimum number of trial period days is 1.";
            Err(ApiError::param("subscription_data[trial_period_days]", message))
        }
        other => Ok(other),
    }
}

fn check_url(params: &FormParams, name: &str) -> Result<(), ApiError> {
    let Some(url) = params.text(name) else { return Ok(()) };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/'))
        || url.contains(char::is_whitespace)
    {
        return Err(ApiError::param(name, "Not a valid URL").code("url_invalid"));
    }
    Ok(())
}

fn expires_at(params: &FormParams, now: i64) -> Result<i64, ApiError> {
    let Some(at) = params.integer("expires_at")? else { return Ok(now + LIFE_MAX_S) };
    let refuse = |message: &str| ApiError::param("expires_at", message);
    if at < now + LIFE_MIN_S - 60 {
        return Err(refuse(
            "The `expires_at` timestamp must be at least 30 minutes from Checkout Session creation.",
        ));
    }
    if at > now + LIFE_MAX_S + 60 {
        return Err(refuse(
            "The `expires_at` timestamp must be less than 24 hours from Checkout Session creation.",
        ));
    }
    Ok(at)
}

fn lines(store: &mut ObjectStore, params: &FormParams, mode: &str) -> Result<Vec<Value>, ApiError> {
    let names = params.names("line_items");
    if mode == "setup" {
        let refuse =
            || ApiError::param("line_items", "You can not pass `line_items` in `setup` mode.");
        return if names.is_empty() { Ok(Vec::new()) } else { Err(refuse()) };
    }
    if names.is_empty() {
        return Err(ApiError::missing("line_items"));
    }
    if names.len() > LINES_MAX {
        return Err(ApiError::param(
            "line_items",
            format!("Array line_items exceeded maximum {LINES_MAX} allowed elements."),
        ));
    }
    let lines = names
        .iter()
        .map(|name| line(store, params, &format!("line_items.{name}")))
        .collect::<Result<Vec<_>, _>>()?;
    let recurring = lines.iter().filter(|line| text(line, "price.type") == "recurring").count();
    if mode == "payment" && recurring > 0 {
        return Err(ApiError::param(
            "line_items",
            "You specified `payment` mode but passed a recurring price. Either switch to `subscription` mode or use only one-time prices.",
        ));
    }
    if mode == "subscription" && recurring == 0 {
        return Err(ApiError::param(
            "line_items",
            "You must provide at least one recurring price in `subscription` mode when using prices.",
        ));
    }
    if recurring > RECURRING_MAX {
        return Err(ApiError::param(
            "line_items",
            format!("You can pass at most {RECURRING_MAX} recurring prices."),
        ));
    }
    let currencies: Vec<&str> = lines.iter().map(|line| text(line, "currency")).collect();
    if currencies.windows(2).any(|pair| pair.first() != pair.last()) {
        return Err(ApiError::param(
            "line_items",
            "All prices on a Checkout Session must have the same currency.",
        ));
    }
    Ok(lines)
}

fn line(store: &mut ObjectStore, params: &FormParams, below: &str) -> Result<Value, ApiError> {
    let shown = crate::form::name(&format!("{below}.quantity"));
    let quantity = params.integer(&format!("{below}.quantity"))?;
    let Some(quantity) = quantity else { return Err(ApiError::missing(&shown)) };
    if !(1..=999_999).contains(&quantity) {
        let message = "This value must be greater than or equal to 1.";
        return Err(ApiError::param(&shown, message).code("parameter_invalid_integer"));
    }
    let price_id = prices::named(store, params, below)?;
    let price = store.find("price", &price_id, "price")?.clone();
    let amount = prices::amount(&price, quantity);
    let description = prices::describe(store, &price);
    Ok(json!({
        "id": store.new_id("li"), "object": "item", "amount_discount": 0, "amount_subtotal": amount, "amount_tax": 0,
        "amount_total": amount, "currency": text(&price, "currency"), "description": description, "price": price,
        "quantity": quantity,
    }))
}

/// Whether a line is a recurring price.
pub(super) fn is_recurring(line: &Value) -> bool {
    text(line, "price.type") == "recurring"
}
